"""Records of classic groups, and offsets, which groups of every protocol commit.

Kafka 4.1 reads values of type 0 in their first version only; up to 4.0 all values of offsets were read alike, and that
is how they are read here: nobody writes newer ones with that key.
"""

from __future__ import annotations

from spark_assign.wire.group_records.record_schema import Field, Record, int32, int64, many, struct, text

_OF_A_PARTITION = (text("group"), text("topic"), int32("partition"))
_OFFSET = (
    int64("offset"),
    int32("leaderEpoch", since=3, otherwise=-1),
    text("metadata"),
    int64("commitTimestamp"),
    int64("expireTimestamp", since=1, until=1, otherwise=-1),
)
_TOPIC_ID = Field("topicId", "uuid", since=4, tag=0)
"""Since Kafka 4.1 (KIP-848)."""
_MEMBER = struct(
    text("memberId"),
    text("groupInstanceId", since=3, nullable=True, otherwise=None),
    text("clientId"),
    text("clientHost"),
    int32("rebalanceTimeout", since=1, otherwise=-1),
    int32("sessionTimeout"),
    Field("subscription", "bytes"),
    Field("assignment", "bytes"),
)

RECORDS = (
    Record(0, "OffsetCommit", _OF_A_PARTITION, _OFFSET, newest=4, flexible=4),
    Record(1, "OffsetCommit", _OF_A_PARTITION, (*_OFFSET, _TOPIC_ID), newest=4, flexible=4),
    Record(
        2,
        "GroupMetadata",
        (text("group"),),
        (
            text("protocolType"),
            int32("generation"),
            text("protocol", nullable=True),
            text("leader", nullable=True),
            int64("currentStateTimestamp", since=2, otherwise=-1),
            many("members", _MEMBER),
        ),
        newest=4,
        flexible=4,
    ),
)
