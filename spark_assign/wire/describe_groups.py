"""Describe requests and responses that kafka-python 3.0 lacks, generated from Kafka's own schema files.

kafka-python builds its message classes from JSON schemas. The JSON files beside this module are Kafka's, so that the
library encodes and decodes these messages:

- ConsumerGroupDescribe (API key 69, KIP-848)
- ShareGroupDescribe (API key 77) and DescribeShareGroupOffsets (API key 90), both KIP-932
- StreamsGroupDescribe (API key 89, KIP-1071)
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Requests the description of consumer groups (KIP-848) by ID."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Has the members of each group, their subscriptions, and their current and target assignments."""


class ShareGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Requests the description of share groups by ID."""


class ShareGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Has the members of each group, their subscriptions, and their current assignments."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Requests the start offset of each partition of share groups."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Has the partitions of each group for which the coordinator has initialized share state."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Requests the description of streams groups by ID."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Has the topology of each group, its members, their tasks, and the offsets of the tasks."""
