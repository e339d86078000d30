"""Records of share groups (KIP-932).

Type 9 was written by Kafka 4.0 and is gone since 4.1; 3.9, which had share groups for a first look, wrote something
else by that number.
"""

from __future__ import annotations

from spark_assign.wire.group_records.consumer import ASSIGNED_AT, TARGET, TOPICS_OF_A_GROUP
from spark_assign.wire.group_records.record_schema import (
    GROUP,
    MEMBER,
    Field,
    Record,
    int32,
    int64,
    many,
    struct,
    text,
    texts,
)

_TOPIC = (Field("topicId", "uuid"), text("topicName"))
_PARTITIONS = struct(*_TOPIC, many("partitions", "int32"))

RECORDS = (
    Record(9, "ShareGroupPartitionMetadata", GROUP, (TOPICS_OF_A_GROUP,)),
    Record(
        10,
        "ShareGroupMemberMetadata",
        MEMBER,
        (text("rackId", nullable=True), text("clientId"), text("clientHost"), texts("subscribedTopicNames")),
    ),
    Record(11, "ShareGroupMetadata", GROUP, (int32("epoch"), int64("metadataHash"))),
    Record(12, "ShareGroupTargetAssignmentMetadata", GROUP, (int32("assignmentEpoch"), ASSIGNED_AT)),
    Record(13, "ShareGroupTargetAssignmentMember", MEMBER, (TARGET,)),
    Record(
        14,
        "ShareGroupCurrentMemberAssignment",
        MEMBER,
        (
            int32("memberEpoch"),
            int32("previousMemberEpoch"),
            Field("state", "int8"),
            many("assignedPartitions", struct(Field("topicId", "uuid"), many("partitions", "int32"))),
        ),
    ),
    Record(
        15,
        "ShareGroupStatePartitionMetadata",
        GROUP,
        (
            many("initializingTopics", _PARTITIONS),
            many("initializedTopics", _PARTITIONS),
            many("deletingTopics", struct(*_TOPIC)),
        ),
    ),
)
