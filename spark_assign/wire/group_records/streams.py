"""Records of Streams groups of the broker's protocol (KIP-1071), since Kafka 4.1. No release has a type 18."""

from __future__ import annotations

from spark_assign.wire.group_records.consumer import ASSIGNED_AT
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

_TASKS = (text("subtopologyId"), many("partitions", "int32"))
_TARGET = struct(*_TASKS)
_OWNED = struct(*_TASKS, many("assignmentEpochs", "int32", nullable=True, tag=0))
_ROLES = ("activeTasks", "standbyTasks", "warmupTasks")

_TOPIC = struct(
    text("name"),
    int32("partitions"),
    Field("replicationFactor", "int16"),
    many("topicConfigs", struct(text("key"), text("value"))),
)
_SUBTOPOLOGY = inner(
    text("subtopologyId"),
    texts("sourceTopics"),
    texts("sourceTopicRegex"),
    many("stateChangelogTopics", _TOPIC),
    texts("repartitionSinkTopics"),
    many("repartitionSourceTopics", _TOPIC),
    many(
        "copartitionGroups",
        inner(
            many("sourceTopics", "int16"),
            many("sourceTopicRegex", "int16"),
            many("repartitionSourceTopics", "int16"),
        ),
    ),
)

RECORDS = (
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
    Record(20, "StreamsGroupTargetAssignmentMetadata", GROUP, (int32("assignmentEpoch"), ASSIGNED_AT)),
    Record(21, "StreamsGroupTargetAssignmentMember", MEMBER, tuple(many(role, _TARGET) for role in _ROLES)),
    Record(
        22,
        "StreamsGroupCurrentMemberAssignment",
        MEMBER,
        (
            int32("memberEpoch"),
            int32("previousMemberEpoch"),
            Field("state", "int8"),
            *(many(role, _OWNED) for role in _ROLES),
            *(many(f"{role}PendingRevocation", _OWNED) for role in _ROLES),
        ),
    ),
    Record(23, "StreamsGroupTopology", GROUP, (int32("epoch"), many("subtopologies", _SUBTOPOLOGY))),
)
