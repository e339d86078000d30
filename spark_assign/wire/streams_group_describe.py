"""StreamsGroupDescribe (API key 89, KIP-1071), as in `consumer_group_describe`."""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class StreamsGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Describe streams groups by id."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Each group with its topology, its members, and the tasks that they have and report offsets of."""
