"""What Kafka Streams puts into the user data of ConsumerProtocol: SubscriptionInfo and AssignmentInfo.

Its classic groups have the protocol type `consumer` and the protocol `stream`. What a client says is told, and what it
is given itself; which host has what is read and left out. Versions 1 to 11, which is all up to Kafka 4.3.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple
from uuid import UUID

from spark_assign.wire.group_records.decoder import StructDecoder
from spark_assign.wire.group_records.record_schema import Field, int32, int64, many, struct, text
from spark_assign.wire.reader import Reader, WireError, as_text

PROTOCOL = "stream"
"""The name of the protocol (assignor) of such groups."""

_NEWEST = 11
_ALL_DONE = -2
"""The offset sum of a task that the client runs as active one."""
_NEVER = (1 << 63) - 1
_MODIFIED_UTF8 = re.compile(rb"(?:[\x00-\x7f]|[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2})*", re.DOTALL)


class Task(NamedTuple):
    """One task; `topology` only in the hands of those who name their topologies."""

    subtopology: int
    partition: int
    topology: str | None = None

    def __str__(self) -> str:
        return f"{self.topology}__" * (self.topology is not None) + f"{self.subtopology}_{self.partition}"


@dataclass(frozen=True)
class Subscription:
    """What a client says when it joins.

    Of a `version` newer than 11 there is nothing else but `newest_version`, the newest that it could speak (-1 before
    version 3). `active` and `standby` are the tasks that it has state of, sorted.
    """

    version: int
    newest_version: int
    process_id: str | None = None
    user_end_point: str | None = None
    active: tuple[Task, ...] = ()
    standby: tuple[Task, ...] = ()
    client_tags: tuple[tuple[str, str], ...] = ()
    error: int = 0


@dataclass(frozen=True)
class Assignment:
    """What the leader gives a client: `active` in the order of its partitions, `standby` sorted.

    `next_rebalance_ms`: it is to ask for another rebalance then; None: it is not, or its version cannot say so.
    """

    version: int
    newest_version: int
    active: tuple[Task, ...]
    standby: tuple[Task, ...]
    error: int = 0
    next_rebalance_ms: int | None = None


_TASK = struct(int32("topicGroupId"), int32("partition"))
_SUBSCRIPTION = struct(
    int32("version"),
    int32("latestSupportedVersion", since=3, otherwise=-1),
    Field("processId", "uuid"),
    many("prevTasks", _TASK, until=6),
    many("standbyTasks", _TASK, until=6),
    Field("userEndPoint", "bytes", since=2),
    many(
        "taskOffsetSums",
        struct(
            int32("topicGroupId"),
            int32("partition", since=10),
            int64("offsetSum", since=10),
            text("namedTopology", since=10, nullable=True),
            many("partitionToOffsetSum", struct(int32("partition"), int64("offsetSum")), until=9),
        ),
        since=7,
    ),
    Field("uniqueField", "int8", since=8),
    int32("errorCode", since=9),
    many("clientTags", struct(Field("key", "bytes"), Field("value", "bytes")), since=11),
)


def subscription(data: bytes) -> Subscription:
    """SubscriptionInfo.decode. Raises WireError."""
    version = Reader(data).int32()
    if version > _NEWEST:
        ahead = Reader(data[4:])
        return _checked(Subscription(version, ahead.int32()))
    said = _layout(max(version, 0)).read(Reader(data))
    sums = {}
    for each in said["taskOffsetSums"]:
        if version >= 10:
            sums[_task(each["topicGroupId"], each["partition"], each["namedTopology"])] = each["offsetSum"]
        for of in each["partitionToOffsetSum"]:
            sums[_task(each["topicGroupId"], of["partition"])] = of["offsetSum"]
    active = [task for task, offsets in sums.items() if offsets == _ALL_DONE]
    standby = [task for task, offsets in sums.items() if offsets != _ALL_DONE]
    return _checked(
        Subscription(
            version,
            said["latestSupportedVersion"],
            str(UUID(bytes=urlsafe_b64decode(said["processId"] + "=="))),
            as_text(said["userEndPoint"]) or None,
            _sorted(active + [_task(**each) for each in said["prevTasks"]]),
            _sorted(standby + [_task(**each) for each in said["standbyTasks"]]),
            tuple((as_text(tag["key"]), as_text(tag["value"])) for tag in said["clientTags"]),
            said["errorCode"],
        )
    )


def assignment(data: bytes) -> Assignment:
    """AssignmentInfo.decode. Raises WireError."""
    reader = Reader(data)
    version = reader.int32()
    if not 1 <= version <= _NEWEST:
        raise WireError(f"version {version}: expected 1 to {_NEWEST}")
    newest = reader.int32() if version >= 3 else -1
    active = tuple(_task_id(reader, version) for _ in range(_count(reader, 8)))
    standby = []
    for _ in range(_count(reader, 12)):
        standby.append(_task_id(reader, version))
        _partitions(reader)
    if version >= 5:
        # From here on topics are numbers. Who has what is said of active tasks, since version 6 of standby ones, too.
        for _ in range(_count(reader, 6)):
            reader.int32()
            _modified_utf8(reader)
    for _ in range(2 if version >= 6 else 1 if version >= 2 else 0):
        for _ in range(_count(reader, 10)):
            _modified_utf8(reader)
            reader.int32()
            _partitions(reader, numbered=version >= 5)
    error = reader.int32() if version >= 4 else 0
    at_ms = reader.int64() if version >= 7 else _NEVER
    return Assignment(version, newest, active, _sorted(standby), error, None if at_ms == _NEVER else at_ms)


@cache
def _layout(version: int) -> StructDecoder:
    return StructDecoder(_SUBSCRIPTION, version, _NEWEST, flexible=False)


def _checked(said: Subscription) -> Subscription:
    known = said.newest_version
    if said.version < 1 or (known == -1 and said.version > 2) or (known != -1 and said.version > known):
        raise WireError(f"version {said.version}, newest {known}: no client says so")
    return said


def _task(topicGroupId: int, partition: int, namedTopology: str | None = None) -> Task:
    return Task(topicGroupId, partition, namedTopology or None)


def _sorted(tasks: Iterable[Task]) -> tuple[Task, ...]:
    return tuple(sorted(set(tasks), key=lambda task: (task.topology or "", task.subtopology, task.partition)))


def _task_id(reader: Reader, version: int) -> Task:
    """ConsumerProtocolUtils.readTaskIdFrom: the name of a topology in UTF-16, a negative length is none."""
    subtopology, partition = reader.int32(), reader.int32()
    if version < 10:
        return Task(subtopology, partition)
    name = reader.take(2 * max(reader.int32(), 0)).decode("utf-16-be", errors="surrogatepass")
    return Task(subtopology, partition, name or None)


def _partitions(reader: Reader, *, numbered: bool = False) -> None:
    for _ in range(_count(reader, 8 if numbered else 6)):
        if numbered:
            reader.int32()
        else:
            _modified_utf8(reader)
        reader.int32()


def _count(reader: Reader, smallest: int) -> int:
    """How many follow; Kafka's limit is what would fit into all of the bytes."""
    count = reader.int32()
    if not 0 <= count <= reader.size // smallest:
        raise WireError(f"{count} elements announced in {reader.size} bytes")
    return count


def _modified_utf8(reader: Reader) -> None:
    """DataInput.readUTF, which refuses what is none: characters of one, two and three bytes."""
    data = reader.take(reader.uint16())
    if not data.isascii() and not _MODIFIED_UTF8.fullmatch(data):
        raise WireError("a text that is no modified UTF-8")
