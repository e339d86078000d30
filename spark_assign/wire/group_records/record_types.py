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

from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, get_args

# --- declares record types: fields with their versions, structs, and lists ------------------------------------


Plain = Literal["int8", "int16", "int32", "int64", "uint16", "string", "bytes", "uuid"]
_PLAIN: dict[str, Plain] = {kind: kind for kind in get_args(Plain)}

_EMPTY: dict[str, Any] = {"string": "", "bytes": b"", "uuid": "A" * 22}


@dataclass(frozen=True)
class Struct:
    """Fields in the order of the bytes.

    `strict` structs reject versions newer than the newest known one. In Kafka, structs that a message declares inline
    do this, and structs with a name in `commonStructs` don't.
    """

    fields: tuple[Field, ...]
    strict: bool = False


@dataclass(frozen=True)
class Many:
    """A list of elements."""

    of: Plain | Struct


Kind = Plain | Struct | Many


@dataclass(frozen=True)
class Field:
    """A field that exists from version `since` to version `until`, if set.

    A field with a `tag` is written after the other fields, with its tag, if it differs from its default (KIP-482).
    """

    name: str
    kind: Kind
    since: int = 0
    until: int | None = None
    nullable: bool = False
    tag: int | None = None
    otherwise: Any = ...

    @property
    def default(self) -> Any:
        """Returns the value of the field in versions without it. Lists and structs are new objects each time.

        As in Kafka, it is null only if declared so: a list is empty, and a struct has the defaults of its fields.
        """
        if self.otherwise is not ...:
            return self.otherwise
        if isinstance(self.kind, Many):
            return []
        if isinstance(self.kind, Struct):
            return {field.name: field.default for field in self.kind.fields}
        return _EMPTY.get(self.kind, 0)

    def there(self, version: int) -> bool:
        """Checks whether a version has the field."""
        return self.since <= version and (self.until is None or version <= self.until)


@dataclass(frozen=True)
class Record:
    """A record type: its key, which has one version, and its value, whose versions are flexible from `flexible` on."""

    type: int
    name: str
    key: tuple[Field, ...]
    value: tuple[Field, ...]
    newest: int
    flexible: int

    def is_flexible(self, version: int) -> bool:
        """Checks whether values of a version are flexible."""
        return version >= self.flexible


def fields(*declared: str | Field) -> tuple[Field, ...]:
    """Returns the declared fields in order. A text declares fields that all versions have: `name type, …`, with `type?`
    for a nullable field and `type[]` for a list.
    """
    by_part = ([each] if isinstance(each, Field) else map(_field, each.split(",")) for each in declared)
    return tuple(chain.from_iterable(by_part))


def _field(text: str) -> Field:
    """Returns the field that `name type` declares."""
    name, kind = text.split()
    plain = _PLAIN[kind.removesuffix("?").removesuffix("[]")]
    return Field(name, Many(plain) if "[]" in kind else plain, nullable=kind.endswith("?"))


def struct(*declared: str | Field) -> Struct:
    """Returns a struct that Kafka declares by name. See `fields`."""
    return Struct(fields(*declared))


def inner(*declared: str | Field) -> Struct:
    """Returns a struct that Kafka declares inline. See `fields`."""
    return Struct(fields(*declared), strict=True)


def record(
    type: int, name: str, key: tuple[Field, ...], *value: str | Field, newest: int = 0, flexible: int = 0
) -> Record:
    """Returns a record type. `value` declares the fields of its value, see `fields`."""
    return Record(type, name, key, fields(*value), newest, flexible)


def many(name: str, of: Plain | Struct, **options: Any) -> Field:
    """Returns a list field."""
    return Field(name, Many(of), **options)


GROUP, MEMBER = fields("groupId string"), fields("groupId string, memberId string")
"""The keys of most types."""


# --- declares the record types of `__consumer_offsets`: offsets, classic, consumer, share, and streams groups ---


_OFFSET_KEY = fields("group string, topic string, partition int32")
_OFFSET = fields(
    "offset int64",
    Field("leaderEpoch", "int32", since=3, otherwise=-1),
    "metadata string, commitTimestamp int64",
    Field("expireTimestamp", "int64", since=1, until=1, otherwise=-1),
)
_TOPIC_ID = Field("topicId", "uuid", since=4, tag=0)
"""Since Kafka 4.1 (KIP-848)."""
_CLASSIC_GROUP_MEMBER = struct(
    "memberId string",
    Field("groupInstanceId", "string", since=3, nullable=True, otherwise=None),
    "clientId string, clientHost string",
    Field("rebalanceTimeout", "int32", since=1, otherwise=-1),
    "sessionTimeout int32, subscription bytes, assignment bytes",
)

_CLASSIC_RECORDS = (
    record(0, "OffsetCommit", _OFFSET_KEY, *_OFFSET, newest=4, flexible=4),
    record(1, "OffsetCommit", _OFFSET_KEY, *_OFFSET, _TOPIC_ID, newest=4, flexible=4),
    record(
        2,
        "GroupMetadata",
        fields("group string"),
        "protocolType string, generation int32, protocol string?, leader string?",
        Field("currentStateTimestamp", "int64", since=2, otherwise=-1),
        many("members", _CLASSIC_GROUP_MEMBER),
        newest=4,
        flexible=4,
    ),
)


_GROUP_TOPICS = many(
    "topics",
    inner(
        "topicId uuid, topicName string, numPartitions int32",
        many("partitionMetadata", inner("partition int32, racks string[]")),
    ),
)
_EPOCHS_AND_STATE = "memberEpoch int32, previousMemberEpoch int32, state int8"
_TARGET_PARTITIONS = many("topicPartitions", inner("topicId uuid, partitions int32[]"))
_ASSIGNMENT_TIMESTAMP = Field("assignmentTimestamp", "int64", tag=0)
"""Since Kafka 4.3 (KIP-1263)."""
_ASSIGNMENT_EPOCHS = many("assignmentEpochs", "int32", nullable=True, tag=0)
_REBALANCE_TIMEOUT = Field("rebalanceTimeoutMs", "int32", otherwise=-1)

_OWNED_PARTITIONS = struct("topicId uuid, partitions int32[]", _ASSIGNMENT_EPOCHS)
_CLASSIC_MEMBER_METADATA = inner(
    "sessionTimeoutMs int32", many("supportedProtocols", inner("name string, metadata bytes"))
)
"""The JoinGroup metadata of a member of the classic protocol during a migration to KIP-848; null for other members."""

_CONSUMER_RECORDS = (
    record(3, "ConsumerGroupMetadata", GROUP, "epoch int32", Field("metadataHash", "int64", tag=0)),
    record(4, "ConsumerGroupPartitionMetadata", GROUP, _GROUP_TOPICS),
    record(
        5,
        "ConsumerGroupMemberMetadata",
        MEMBER,
        "instanceId string?, rackId string?, clientId string, clientHost string",
        "subscribedTopicNames string[], subscribedTopicRegex string?",
        _REBALANCE_TIMEOUT,
        "serverAssignor string?",
        Field("classicMemberMetadata", _CLASSIC_MEMBER_METADATA, nullable=True, tag=0),
    ),
    record(6, "ConsumerGroupTargetAssignmentMetadata", GROUP, "assignmentEpoch int32", _ASSIGNMENT_TIMESTAMP),
    record(7, "ConsumerGroupTargetAssignmentMember", MEMBER, _TARGET_PARTITIONS),
    record(
        8,
        "ConsumerGroupCurrentMemberAssignment",
        MEMBER,
        _EPOCHS_AND_STATE,
        many("assignedPartitions", _OWNED_PARTITIONS),
        many("partitionsPendingRevocation", _OWNED_PARTITIONS),
    ),
    record(
        16,
        "ConsumerGroupRegularExpression",
        fields("groupId string, regularExpression string"),
        "topics string[], version int64, timestamp int64",
    ),
)


_PARTITIONS = struct("topicId uuid, topicName string, partitions int32[]")

_SHARE_RECORDS = (
    record(9, "ShareGroupPartitionMetadata", GROUP, _GROUP_TOPICS),
    record(
        10,
        "ShareGroupMemberMetadata",
        MEMBER,
        "rackId string?, clientId string, clientHost string, subscribedTopicNames string[]",
    ),
    record(11, "ShareGroupMetadata", GROUP, "epoch int32, metadataHash int64"),
    record(12, "ShareGroupTargetAssignmentMetadata", GROUP, "assignmentEpoch int32", _ASSIGNMENT_TIMESTAMP),
    record(13, "ShareGroupTargetAssignmentMember", MEMBER, _TARGET_PARTITIONS),
    record(
        14,
        "ShareGroupCurrentMemberAssignment",
        MEMBER,
        _EPOCHS_AND_STATE,
        many("assignedPartitions", struct("topicId uuid, partitions int32[]")),
    ),
    record(
        15,
        "ShareGroupStatePartitionMetadata",
        GROUP,
        many("initializingTopics", _PARTITIONS),
        many("initializedTopics", _PARTITIONS),
        many("deletingTopics", struct("topicId uuid, topicName string")),
    ),
)


_TASKS = "subtopologyId string, partitions int32[]"
_TARGET_TASKS, _OWNED_TASKS = struct(_TASKS), struct(_TASKS, _ASSIGNMENT_EPOCHS)
_ROLES = ("activeTasks", "standbyTasks", "warmupTasks")

_KEY_AND_VALUE = struct("key string, value string")
_INTERNAL_TOPIC = struct("name string, partitions int32, replicationFactor int16", many("topicConfigs", _KEY_AND_VALUE))
_SUBTOPOLOGY = inner(
    "subtopologyId string, sourceTopics string[], sourceTopicRegex string[]",
    many("stateChangelogTopics", _INTERNAL_TOPIC),
    "repartitionSinkTopics string[]",
    many("repartitionSourceTopics", _INTERNAL_TOPIC),
    many(
        "copartitionGroups",
        inner("sourceTopics int16[], sourceTopicRegex int16[], repartitionSourceTopics int16[]"),
    ),
)

_STREAMS_RECORDS = (
    record(
        17,
        "StreamsGroupMetadata",
        GROUP,
        "epoch int32, metadataHash int64",
        Field("validatedTopologyEpoch", "int32", tag=0, otherwise=-1),
        many("lastAssignmentConfigs", _KEY_AND_VALUE, nullable=True, tag=1),
        Field("storedDescriptionTopologyEpoch", "int32", tag=2, otherwise=-1),
        Field("failedDescriptionTopologyEpoch", "int32", tag=3, otherwise=-1),
    ),
    record(
        19,
        "StreamsGroupMemberMetadata",
        MEMBER,
        "instanceId string?, rackId string?, clientId string, clientHost string",
        _REBALANCE_TIMEOUT,
        "topologyEpoch int32, processId string",
        Field("userEndpoint", struct("host string, port uint16"), nullable=True, otherwise=None),
        many("clientTags", _KEY_AND_VALUE),
    ),
    record(20, "StreamsGroupTargetAssignmentMetadata", GROUP, "assignmentEpoch int32", _ASSIGNMENT_TIMESTAMP),
    record(21, "StreamsGroupTargetAssignmentMember", MEMBER, *(many(role, _TARGET_TASKS) for role in _ROLES)),
    record(
        22,
        "StreamsGroupCurrentMemberAssignment",
        MEMBER,
        _EPOCHS_AND_STATE,
        *(many(role, _OWNED_TASKS) for role in _ROLES),
        *(many(f"{role}PendingRevocation", _OWNED_TASKS) for role in _ROLES),
    ),
    record(23, "StreamsGroupTopology", GROUP, "epoch int32", many("subtopologies", _SUBTOPOLOGY)),
)

RECORDS = (*_CLASSIC_RECORDS, *_CONSUMER_RECORDS, *_SHARE_RECORDS, *_STREAMS_RECORDS)
"""The declarations of all record types of `__consumer_offsets`, up to Kafka 4.4."""
