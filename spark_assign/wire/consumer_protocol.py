"""ConsumerProtocol: what a classic group's member says (subscription) and is told (assignment), in bytes.

The broker keeps both as opaque bytes and hands them out in DescribeGroups. Versions above 3 are read as 3 and
bytes at the end are ignored, as Kafka's `ConsumerProtocol` does. kafka-python brings a decoder too, but it
differs from Kafka on damaged bytes (invalid UTF-8 fails, negative lengths pass) and knows nothing of the
sticky assignors' user data, in which an eager sticky group carries ownership and generation; hence this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct, unpack_from
from struct import error as too_short

from spark_assign.wire.reader import Reader, WireError

TopicPartitions = tuple[tuple[str, int], ...]
"""(topic, partition) in the order of the wire."""

_NEWEST = 3
_LONGEST, _HEAD_SIZE = 0x7FFF, 6
_HEAD, _INT = Struct(">hi").unpack_from, Struct(">i").unpack_from


@dataclass(frozen=True)
class Subscription:
    """What a member sent with its JoinGroup.

    `generation_id` is None where absent or negative, `rack_id` where absent or empty. `version` is that of the bytes.
    """

    topics: tuple[str, ...]
    user_data: bytes | None
    owned: TopicPartitions
    generation_id: int | None
    rack_id: str | None
    version: int = _NEWEST
    cut_short: bool = False
    """It ends before the list of what is owned, which its version has (`subscription_as_sent`)."""


@dataclass(frozen=True)
class Assignment:
    """What the leader gave a member. `version` is that of the bytes."""

    partitions: TopicPartitions
    user_data: bytes | None
    version: int = _NEWEST


@dataclass(frozen=True)
class StickyData:
    """What an eager StickyAssignor remembers of its last round; `generation_id` None: without generation."""

    owned: TopicPartitions
    generation_id: int | None


def subscription(data: bytes) -> Subscription:
    """ConsumerProtocol.deserializeSubscription. Raises WireError."""
    reader = Reader(data)
    version = _version(reader)
    topics = tuple(reader.string() for _ in range(reader.array_length(2)))
    user_data = reader.nullable_bytes()
    owned = _topic_partitions(reader) if version >= 1 else ()
    generation = reader.int32() if version >= 2 else -1
    rack = reader.nullable_string() if version >= 3 else None
    return Subscription(topics, user_data, owned, generation if generation >= 0 else None, rack or None, version)


def subscription_as_sent(data: bytes) -> Subscription:
    """The same; segmentio's kafka-go says version 1 and ends where version 0 does, which Kafka's class refuses.

    The broker does not look at these bytes, so that such groups are there. Raises WireError for all else.
    """
    try:
        return subscription(data)
    except WireError:
        reader = Reader(data)
        if _version(reader) != 1:
            raise
        topics = tuple(reader.string() for _ in range(reader.array_length(2)))
        user_data = reader.nullable_bytes()
        if reader.left:
            raise
        return Subscription(topics, user_data, (), None, None, 1, cut_short=True)


def assignment(data: bytes) -> Assignment:
    """ConsumerProtocol.deserializeAssignment. Raises WireError."""
    reader = Reader(data)
    version = _version(reader)
    return Assignment(_topic_partitions(reader), reader.nullable_bytes(), version)


def assigned(data: bytes) -> list[tuple[str, tuple[int, ...]]]:
    """The partitions of the same, topic by topic as they come. Raises WireError."""
    found = _at_once(data)
    if found is not None:
        return found
    reader = Reader(data)
    _version(reader)
    found = _by_topic(reader)
    reader.nullable_bytes()
    return found


def _at_once(data: bytes) -> list[tuple[str, tuple[int, ...]]] | None:
    """What is laid out as it should be, several times as fast as field by field; None: something about it is not."""
    found = []
    try:
        version, topics = _HEAD(data)
        at = _HEAD_SIZE
        for _ in range(topics):
            size = data[at] << 8 | data[at + 1]
            name = data[at + 2 : at + 2 + size].decode()
            at += 2 + size
            count = _INT(data, at)[0]
            at += 4
            if size > _LONGEST or count < 0:
                return None
            found.append((name, unpack_from(f">{count}i", data, at)))
            at += 4 * count
        user_data = _INT(data, at)[0]
    except (IndexError, UnicodeDecodeError, too_short):
        return None
    return found if version >= 0 and topics >= 0 and at + 4 + user_data <= len(data) else None


def sticky_user_data(data: bytes | None) -> StickyData:
    """StickyAssignor.memberData. Never fails: what cannot be read is nothing owned in generation -1."""
    if not data:
        return StickyData((), None)
    reader = Reader(data)
    try:
        owned = _topic_partitions(reader)
    except WireError:
        return StickyData((), -1)
    try:
        return StickyData(owned, reader.int32())
    except WireError:
        return StickyData(owned, None)


def cooperative_user_data(data: bytes | None) -> int | None:
    """The generation in a CooperativeStickyAssignor's user data; -1 if unreadable, None if there is none."""
    if data is None:
        return None
    return Reader(data).int32() if len(data) >= 4 else -1


def user_data_generation(said: Subscription, assignor: str) -> int | None:
    """The generation inside a sticky assignor's user data where it differs from the subscription's own.

    -1: user data without a generation. None: the same, or no user data.
    """
    if said.user_data is None:
        return None
    if assignor == "sticky":
        generation = sticky_user_data(said.user_data).generation_id
    elif assignor == "cooperative-sticky":
        generation = cooperative_user_data(said.user_data)
    else:
        return None
    return None if generation == said.generation_id else -1 if generation is None else generation


def _topic_partitions(reader: Reader) -> TopicPartitions:
    return tuple((topic, partition) for topic, partitions in _by_topic(reader) for partition in partitions)


def _by_topic(reader: Reader) -> list[tuple[str, tuple[int, ...]]]:
    return [(reader.string(), reader.int32s()) for _ in range(reader.array_length(6))]


def _version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise WireError(f"version {version}: expected 0 or more")
    return min(version, _NEWEST)
