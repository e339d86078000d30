"""Reads SubscriptionInfo and AssignmentInfo, which Kafka Streams puts into the user data of ConsumerProtocol.

Classic Streams groups have the protocol type `consumer` and the protocol `stream`. The client's own subscription and
assignment are decoded; the partitions of other hosts are read and discarded. Covers versions 1 to 11, which is all up
to Kafka 4.3.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple
from uuid import UUID

from spark_assign.wire.group_records.codec import StructDecoder
from spark_assign.wire.group_records.record_types import Field, many, struct
from spark_assign.wire.reader import Reader, WireError, as_text

PROTOCOL = "stream"
"""The protocol (assignor) name of Streams groups."""

NEWEST = 11
"""The newest version of both."""
RUNNING = -2
"""The offset sum of a task that the client runs as active."""
_NO_REBALANCE = (1 << 63) - 1
_MODIFIED_UTF8 = re.compile(rb"(?:[\x00-\x7f]|[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2})*", re.DOTALL)


class TaskId(NamedTuple):
    """A task. `topology` is set only for applications with named topologies."""

    subtopology: int
    partition: int
    topology: str | None = None

    def __str__(self) -> str:
        return f"{self.topology}__" * (self.topology is not None) + f"{self.subtopology}_{self.partition}"


@dataclass(frozen=True)
class Subscription:
    """The subscription of a Streams client.

    For a `version` newer than 11, only `newest_version` is set: the newest version that the client supports (-1
    before version 3). `active` and `standby` are the tasks of which the client has state, sorted. `offset_sums`, since
    version 7: the sum of the changelog offsets of each task, -2 if the client runs it, or -3 if it is unknown.
    """

    version: int
    newest_version: int
    process_id: str | None = None
    user_end_point: str | None = None
    active: tuple[TaskId, ...] = ()
    standby: tuple[TaskId, ...] = ()
    client_tags: tuple[tuple[str, str], ...] = ()
    error: int = 0
    offset_sums: tuple[tuple[TaskId, int], ...] = ()


@dataclass(frozen=True)
class Assignment:
    """The assignment of a client: `active` in the order of its partitions, `standby` sorted.

    `next_rebalance_ms` is the time at which the client must request another rebalance; None if there is none, or if
    the version has no such field.
    """

    version: int
    newest_version: int
    active: tuple[TaskId, ...]
    standby: tuple[TaskId, ...]
    error: int = 0
    next_rebalance_ms: int | None = None


_TASK = struct("topicGroupId int32, partition int32")
_SUBSCRIPTION = struct(
    "version int32",
    Field("latestSupportedVersion", "int32", since=3, otherwise=-1),
    "processId uuid",
    many("prevTasks", _TASK, until=6),
    many("standbyTasks", _TASK, until=6),
    Field("userEndPoint", "bytes", since=2),
    many(
        "taskOffsetSums",
        struct(
            "topicGroupId int32",
            Field("partition", "int32", since=10),
            Field("offsetSum", "int64", since=10),
            Field("namedTopology", "string", since=10, nullable=True),
            many("partitionToOffsetSum", struct("partition int32, offsetSum int64"), until=9),
        ),
        since=7,
    ),
    Field("uniqueField", "int8", since=8),
    Field("errorCode", "int32", since=9),
    many("clientTags", struct("key bytes, value bytes"), since=11),
)


def subscription(data: bytes) -> Subscription:
    """Decodes SubscriptionInfo (`SubscriptionInfo.decode`). Raises WireError."""
    version = Reader(data).int32()
    if version > NEWEST:
        return _checked(Subscription(version, Reader(data[4:]).int32()))
    fields = _layout(max(version, 0)).read(Reader(data))
    offset_sums = {}
    for task_fields in fields["taskOffsetSums"]:
        # Since version 10, an element is a single task. Before, it has the partitions of a subtopology.
        for row in [task_fields] if version >= 10 else task_fields["partitionToOffsetSum"]:
            task = _task(task_fields["topicGroupId"], row["partition"], row.get("namedTopology"))
            offset_sums[task] = row["offsetSum"]
    active = [task for task, offsets in offset_sums.items() if offsets == RUNNING]
    standby = [task for task, offsets in offset_sums.items() if offsets != RUNNING]
    return _checked(
        Subscription(
            version,
            fields["latestSupportedVersion"],
            str(UUID(bytes=urlsafe_b64decode(fields["processId"] + "=="))),
            as_text(fields["userEndPoint"]) or None,
            _sorted(active + [_task(**task_fields) for task_fields in fields["prevTasks"]]),
            _sorted(standby + [_task(**task_fields) for task_fields in fields["standbyTasks"]]),
            tuple((as_text(tag["key"]), as_text(tag["value"])) for tag in fields["clientTags"]),
            fields["errorCode"],
            tuple(offset_sums.items()),
        )
    )


def assignment(data: bytes) -> Assignment:
    """Decodes AssignmentInfo (`AssignmentInfo.decode`). Raises WireError."""
    reader = Reader(data)
    version = reader.int32()
    if not 1 <= version <= NEWEST:
        raise WireError(f"version {version}: expected 1 to {NEWEST}")
    newest_version = reader.int32() if version >= 3 else -1
    active = tuple(_task_id(reader, version) for _ in range(_count(reader, 8)))
    standby = []
    for _ in range(_count(reader, 12)):
        standby.append(_task_id(reader, version))
        _partitions(reader)
    if version >= 5:
        # From version 5 on, topics are indexes into this list. The hosts of standby tasks follow since version 6.
        for _ in range(_count(reader, 6)):
            reader.int32()
            _modified_utf8(reader)
    for _ in range(2 if version >= 6 else 1 if version >= 2 else 0):
        for _ in range(_count(reader, 10)):
            _modified_utf8(reader)
            reader.int32()
            _partitions(reader, numbered=version >= 5)
    error = reader.int32() if version >= 4 else 0
    next_rebalance_ms = reader.int64() if version >= 7 else _NO_REBALANCE
    return Assignment(
        version,
        newest_version,
        active,
        _sorted(standby),
        error,
        None if next_rebalance_ms == _NO_REBALANCE else next_rebalance_ms,
    )


@cache
def _layout(version: int) -> StructDecoder:
    """Returns the decoder of a version."""
    return StructDecoder(_SUBSCRIPTION, version, NEWEST, flexible=False)


def _checked(subscription: Subscription) -> Subscription:
    """Returns the subscription if its versions are plausible. Raises WireError otherwise."""
    newest_version = subscription.newest_version
    if (
        subscription.version < 1
        or (newest_version == -1 and subscription.version > 2)
        or (newest_version != -1 and subscription.version > newest_version)
    ):
        raise WireError(f"version {subscription.version}, newest {newest_version}: no client says so")
    return subscription


def _task(topicGroupId: int, partition: int, namedTopology: str | None = None) -> TaskId:
    """Returns a task from the fields of its JSON schema."""
    return TaskId(topicGroupId, partition, namedTopology or None)


def _sorted(tasks: Iterable[TaskId]) -> tuple[TaskId, ...]:
    """Returns the distinct tasks, sorted by topology, subtopology, and partition."""
    return tuple(sorted(set(tasks), key=lambda task: (task.topology or "", task.subtopology, task.partition)))


def _task_id(reader: Reader, version: int) -> TaskId:
    """Reads a task ID (ConsumerProtocolUtils.readTaskIdFrom). A topology name is UTF-16, in which half of a surrogate
    pair becomes U+FFFD; a negative length means no name.
    """
    subtopology, partition = reader.int32(), reader.int32()
    if version < 10:
        return TaskId(subtopology, partition)
    name = reader.take(2 * max(reader.int32(), 0)).decode("utf-16-be", errors="replace")
    return TaskId(subtopology, partition, name or None)


def _partitions(reader: Reader, *, numbered: bool = False) -> None:
    """Skips the partitions of a host. With `numbered`, topics are indexes into the list of names."""
    for _ in range(_count(reader, 8 if numbered else 6)):
        if numbered:
            reader.int32()
        else:
            _modified_utf8(reader)
        reader.int32()


def _count(reader: Reader, min_element_bytes: int) -> int:
    """Reads a count. As in Kafka, it must fit into the size of all bytes."""
    count = reader.int32()
    if not 0 <= count <= reader.size // min_element_bytes:
        raise WireError(f"{count} elements announced in {reader.size} bytes")
    return count


def _modified_utf8(reader: Reader) -> None:
    """Skips a string of DataInput.readUTF. Raises WireError unless it consists of valid characters of one to three
    bytes.
    """
    data = reader.take(reader.uint16())
    if not data.isascii() and not _MODIFIED_UTF8.fullmatch(data):
        raise WireError("a text that isn't modified UTF-8")
