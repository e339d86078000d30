"""ConsumerGroupDescribe (API key 69, KIP-848), which kafka-python 3.0 does not have.

kafka-python builds its messages from Kafka's own schema files; the two JSON files beside this module are
those of this API, so encoding and decoding stay the library's.
"""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupDescribeRequest(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Describe KIP-848 groups by id."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__package__):  # type: ignore[call-arg, misc]
    """Each group with its members, subscriptions and current and target assignments."""
