"""ShareGroupDescribe (API key 77, KIP-932), as in `consumer_group_describe`."""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class ShareGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Describe share groups by id."""


class ShareGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Each group with its members, subscriptions and current assignments."""
