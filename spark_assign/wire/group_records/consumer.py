"""Records of consumer groups of the broker's protocol (KIP-848), as they are since Kafka 3.8.

Those of 3.7, which had the protocol for a first look, are laid out differently and do not say so.
"""

from __future__ import annotations

from spark_assign.wire.group_records.record_schema import (
    GROUP,
    MEMBER,
    Field,
    Record,
    inner,
    int32,
    int64,
    many,
    struct,
    text,
    texts,
)

TOPICS_OF_A_GROUP = many(
    "topics",
    inner(
        Field("topicId", "uuid"),
        text("topicName"),
        int32("numPartitions"),
        many("partitionMetadata", inner(int32("partition"), texts("racks"))),
    ),
)
TARGET = many("topicPartitions", inner(Field("topicId", "uuid"), many("partitions", "int32")))
ASSIGNED_AT = int64("assignmentTimestamp", tag=0)
"""Since Kafka 4.3 (KIP-1263)."""

_OWNED = struct(
    Field("topicId", "uuid"),
    many("partitions", "int32"),
    many("assignmentEpochs", "int32", nullable=True, tag=0),
)
_CLASSIC_MEMBER = inner(
    int32("sessionTimeoutMs"),
    many("supportedProtocols", inner(text("name"), Field("metadata", "bytes"))),
)
"""What a member of the classic protocol said (KIP-848's way over); of one of the new protocol null is written."""

RECORDS = (
    Record(3, "ConsumerGroupMetadata", GROUP, (int32("epoch"), int64("metadataHash", tag=0))),
    Record(4, "ConsumerGroupPartitionMetadata", GROUP, (TOPICS_OF_A_GROUP,)),
    Record(
        5,
        "ConsumerGroupMemberMetadata",
        MEMBER,
        (
            text("instanceId", nullable=True),
            text("rackId", nullable=True),
            text("clientId"),
            text("clientHost"),
            texts("subscribedTopicNames"),
            text("subscribedTopicRegex", nullable=True),
            int32("rebalanceTimeoutMs", otherwise=-1),
            text("serverAssignor", nullable=True),
            Field("classicMemberMetadata", _CLASSIC_MEMBER, nullable=True, tag=0),
        ),
    ),
    Record(6, "ConsumerGroupTargetAssignmentMetadata", GROUP, (int32("assignmentEpoch"), ASSIGNED_AT)),
    Record(7, "ConsumerGroupTargetAssignmentMember", MEMBER, (TARGET,)),
    Record(
        8,
        "ConsumerGroupCurrentMemberAssignment",
        MEMBER,
        (
            int32("memberEpoch"),
            int32("previousMemberEpoch"),
            Field("state", "int8"),
            many("assignedPartitions", _OWNED),
            many("partitionsPendingRevocation", _OWNED),
        ),
    ),
    Record(
        16,
        "ConsumerGroupRegularExpression",
        (text("groupId"), text("regularExpression")),
        (texts("topics"), int64("version"), int64("timestamp")),
    ),
)
