"""DescribeShareGroupOffsets (API key 90, KIP-932), as in `consumer_group_describe`."""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Of share groups where each of their partitions starts."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Each group with the partitions for which its coordinator has initialised share state."""
