"""Groups of Spark's Kafka source, which no table of a fleet or history has.

`history --reader spark` reads with that source. For each query, it creates a group with a random ID, without members
once the query has ended (`SubscribeStrategy` and `KafkaSourceProvider` in Spark). Such a group never gets an assignment
from a leader: Spark distributes the partitions itself.
"""

from __future__ import annotations

OWN_GROUP_PREFIXES = ("spark-kafka-relation-", "spark-kafka-source-")
"""Prefixes of the group IDs of Spark's Kafka source in batch and in streaming mode, if `groupIdPrefix` isn't set."""


def is_own_group(group_id: str) -> bool:
    """Checks whether Spark's Kafka source created a group."""
    return group_id.startswith(OWN_GROUP_PREFIXES)
