"""Declares the record types of `__consumer_offsets`: offsets, classic, consumer, share, and streams groups.

Groups of every protocol commit offsets. Kafka 4.1 reads offset values of type 0 in their first version only. Up to
4.0, the values of types 0 and 1 were read in the same way, and so they are here: no release writes newer versions
with type 0.

Consumer groups (KIP-848) have the layout of Kafka 3.8 and later. Kafka 3.7, with an early preview of the protocol,
wrote a different layout with the same versions. Share groups (KIP-932): Kafka 4.0 wrote type 9, which no later
release writes; Kafka 3.9, with an early preview, wrote another layout of it. Streams groups (KIP-1071) exist since
Kafka 4.1. No release has a type 18.
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

_OFFSET_KEY = (text("group"), text("topic"), int32("partition"))
_OFFSET = (
    int64("offset"),
    int32("leaderEpoch", since=3, otherwise=-1),
    text("metadata"),
    int64("commitTimestamp"),
    int64("expireTimestamp", since=1, until=1, otherwise=-1),
)
_TOPIC_ID = Field("topicId", "uuid", since=4, tag=0)
"""Since Kafka 4.1 (KIP-848)."""
_CLASSIC_GROUP_MEMBER = struct(
    text("memberId"),
    text("groupInstanceId", since=3, nullable=True, otherwise=None),
    text("clientId"),
    text("clientHost"),
    int32("rebalanceTimeout", since=1, otherwise=-1),
    int32("sessionTimeout"),
    Field("subscription", "bytes"),
    Field("assignment", "bytes"),
)

_CLASSIC_RECORDS = (
    Record(0, "OffsetCommit", _OFFSET_KEY, _OFFSET, newest=4, flexible=4),
    Record(1, "OffsetCommit", _OFFSET_KEY, (*_OFFSET, _TOPIC_ID), newest=4, flexible=4),
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
            many("members", _CLASSIC_GROUP_MEMBER),
        ),
        newest=4,
        flexible=4,
    ),
)


_GROUP_TOPICS = many(
    "topics",
    inner(
        Field("topicId", "uuid"),
        text("topicName"),
        int32("numPartitions"),
        many("partitionMetadata", inner(int32("partition"), texts("racks"))),
    ),
)
_EPOCHS_AND_STATE = (int32("memberEpoch"), int32("previousMemberEpoch"), Field("state", "int8"))
_TARGET_PARTITIONS = many("topicPartitions", inner(Field("topicId", "uuid"), many("partitions", "int32")))
_ASSIGNMENT_TIMESTAMP = int64("assignmentTimestamp", tag=0)
"""Since Kafka 4.3 (KIP-1263)."""

_OWNED_PARTITIONS = struct(
    Field("topicId", "uuid"),
    many("partitions", "int32"),
    many("assignmentEpochs", "int32", nullable=True, tag=0),
)
_CLASSIC_MEMBER_METADATA = inner(
    int32("sessionTimeoutMs"),
    many("supportedProtocols", inner(text("name"), Field("metadata", "bytes"))),
)
"""The JoinGroup metadata of a member of the classic protocol during a migration to KIP-848; null for other members."""

_CONSUMER_RECORDS = (
    Record(3, "ConsumerGroupMetadata", GROUP, (int32("epoch"), int64("metadataHash", tag=0))),
    Record(4, "ConsumerGroupPartitionMetadata", GROUP, (_GROUP_TOPICS,)),
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
            Field("classicMemberMetadata", _CLASSIC_MEMBER_METADATA, nullable=True, tag=0),
        ),
    ),
    Record(6, "ConsumerGroupTargetAssignmentMetadata", GROUP, (int32("assignmentEpoch"), _ASSIGNMENT_TIMESTAMP)),
    Record(7, "ConsumerGroupTargetAssignmentMember", MEMBER, (_TARGET_PARTITIONS,)),
    Record(
        8,
        "ConsumerGroupCurrentMemberAssignment",
        MEMBER,
        (
            *_EPOCHS_AND_STATE,
            many("assignedPartitions", _OWNED_PARTITIONS),
            many("partitionsPendingRevocation", _OWNED_PARTITIONS),
        ),
    ),
    Record(
        16,
        "ConsumerGroupRegularExpression",
        (text("groupId"), text("regularExpression")),
        (texts("topics"), int64("version"), int64("timestamp")),
    ),
)


_SHARE_TOPIC = (Field("topicId", "uuid"), text("topicName"))
_PARTITIONS = struct(*_SHARE_TOPIC, many("partitions", "int32"))

_SHARE_RECORDS = (
    Record(9, "ShareGroupPartitionMetadata", GROUP, (_GROUP_TOPICS,)),
    Record(
        10,
        "ShareGroupMemberMetadata",
        MEMBER,
        (text("rackId", nullable=True), text("clientId"), text("clientHost"), texts("subscribedTopicNames")),
    ),
    Record(11, "ShareGroupMetadata", GROUP, (int32("epoch"), int64("metadataHash"))),
    Record(12, "ShareGroupTargetAssignmentMetadata", GROUP, (int32("assignmentEpoch"), _ASSIGNMENT_TIMESTAMP)),
    Record(13, "ShareGroupTargetAssignmentMember", MEMBER, (_TARGET_PARTITIONS,)),
    Record(
        14,
        "ShareGroupCurrentMemberAssignment",
        MEMBER,
        (
            *_EPOCHS_AND_STATE,
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
            many("deletingTopics", struct(*_SHARE_TOPIC)),
        ),
    ),
)


_TASKS = (text("subtopologyId"), many("partitions", "int32"))
_TARGET_TASKS = struct(*_TASKS)
_OWNED_TASKS = struct(*_TASKS, many("assignmentEpochs", "int32", nullable=True, tag=0))
_ROLES = ("activeTasks", "standbyTasks", "warmupTasks")

_INTERNAL_TOPIC = struct(
    text("name"),
    int32("partitions"),
    Field("replicationFactor", "int16"),
    many("topicConfigs", struct(text("key"), text("value"))),
)
_SUBTOPOLOGY = inner(
    text("subtopologyId"),
    texts("sourceTopics"),
    texts("sourceTopicRegex"),
    many("stateChangelogTopics", _INTERNAL_TOPIC),
    texts("repartitionSinkTopics"),
    many("repartitionSourceTopics", _INTERNAL_TOPIC),
    many(
        "copartitionGroups",
        inner(
            many("sourceTopics", "int16"),
            many("sourceTopicRegex", "int16"),
            many("repartitionSourceTopics", "int16"),
        ),
    ),
)

_STREAMS_RECORDS = (
    Record(
        17,
        "StreamsGroupMetadata",
        GROUP,
        (
            int32("epoch"),
            int64("metadataHash"),
            int32("validatedTopologyEpoch", tag=0, otherwise=-1),
            many("lastAssignmentConfigs", struct(text("key"), text("value")), nullable=True, tag=1),
            int32("storedDescriptionTopologyEpoch", tag=2, otherwise=-1),
            int32("failedDescriptionTopologyEpoch", tag=3, otherwise=-1),
        ),
    ),
    Record(
        19,
        "StreamsGroupMemberMetadata",
        MEMBER,
        (
            text("instanceId", nullable=True),
            text("rackId", nullable=True),
            text("clientId"),
            text("clientHost"),
            int32("rebalanceTimeoutMs", otherwise=-1),
            int32("topologyEpoch"),
            text("processId"),
            Field("userEndpoint", struct(text("host"), Field("port", "uint16")), nullable=True, otherwise=None),
            many("clientTags", struct(text("key"), text("value"))),
        ),
    ),
    Record(20, "StreamsGroupTargetAssignmentMetadata", GROUP, (int32("assignmentEpoch"), _ASSIGNMENT_TIMESTAMP)),
    Record(21, "StreamsGroupTargetAssignmentMember", MEMBER, tuple(many(role, _TARGET_TASKS) for role in _ROLES)),
    Record(
        22,
        "StreamsGroupCurrentMemberAssignment",
        MEMBER,
        (
            *_EPOCHS_AND_STATE,
            *(many(role, _OWNED_TASKS) for role in _ROLES),
            *(many(f"{role}PendingRevocation", _OWNED_TASKS) for role in _ROLES),
        ),
    ),
    Record(23, "StreamsGroupTopology", GROUP, (int32("epoch"), many("subtopologies", _SUBTOPOLOGY))),
)

RECORDS = (*_CLASSIC_RECORDS, *_CONSUMER_RECORDS, *_SHARE_RECORDS, *_STREAMS_RECORDS)
"""The declarations of all record types of `__consumer_offsets`, up to Kafka 4.4."""
