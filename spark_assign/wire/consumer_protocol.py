"""Reads the bytes of ConsumerProtocol: a classic member's subscription and assignment.

The broker stores both as opaque bytes and returns them in DescribeGroups. Versions above 3 are read as version 3, and
trailing bytes are ignored, as in Kafka's `ConsumerProtocol`. kafka-python has a decoder too, but it differs from
Kafka on damaged bytes (it rejects invalid UTF-8 and accepts negative lengths). It also doesn't decode the user data
of the sticky assignors, in which an eager sticky group carries ownership and generation.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct, unpack_from
from struct import error as StructError

from spark_assign.wire.reader import Reader, WireError

TopicPartitions = tuple[tuple[str, int], ...]
"""Pairs (topic, partition), in the order of the bytes."""

_NEWEST = 3
_MAX_STRING_BYTES, _HEAD_SIZE = 0x7FFF, 6
_HEAD, _INT = Struct(">hi").unpack_from, Struct(">i").unpack_from


@dataclass(frozen=True)
class Subscription:
    """The subscription that a member sent with JoinGroup.

    `generation_id` is None if it is absent or negative, `rack_id` if it is absent or empty. `version` is the version
    of the bytes.
    """

    topics: tuple[str, ...]
    user_data: bytes | None
    owned: TopicPartitions
    generation_id: int | None
    rack_id: str | None
    version: int = _NEWEST
    cut_short: bool = False
    """Whether the bytes end before the list of owned partitions, which their version requires
    (`subscription_as_sent`).
    """


@dataclass(frozen=True)
class Assignment:
    """The assignment that the leader sent to a member. `version` is the version of the bytes."""

    partitions: TopicPartitions
    user_data: bytes | None
    version: int = _NEWEST


@dataclass(frozen=True)
class StickyData:
    """The state that an eager StickyAssignor stores in its user data. `generation_id` is None if there is no
    generation.
    """

    owned: TopicPartitions
    generation_id: int | None


def subscription(data: bytes, *, accept_cut_short: bool = False) -> Subscription:
    """Decodes a subscription (ConsumerProtocol.deserializeSubscription). Raises WireError.

    Args:
        data: the bytes.
        accept_cut_short: whether to accept bytes that end before the owned partitions (`subscription_as_sent`).
    """
    reader = Reader(data)
    version = min(reader.version(), _NEWEST)
    topics = tuple(reader.string() for _ in range(reader.array_length(2)))
    user_data = reader.nullable_bytes()
    cut_short = accept_cut_short and version == 1 and not reader.left
    owned = _topic_partitions(reader) if version >= 1 and not cut_short else ()
    generation = reader.int32() if version >= 2 else -1
    rack = reader.nullable_string() if version >= 3 else None
    known_generation = generation if generation >= 0 else None
    return Subscription(topics, user_data, owned, known_generation, rack or None, version, cut_short)


def subscription_as_sent(data: bytes) -> Subscription:
    """Decodes a subscription and accepts the truncated version 1 of segmentio's kafka-go.

    That client declares version 1 but ends the bytes where version 0 ends. Kafka's class rejects this, but the broker
    doesn't decode these bytes, so that such groups exist. Raises WireError for any other malformed bytes.
    """
    return subscription(data, accept_cut_short=True)


def assignment(data: bytes) -> Assignment:
    """Decodes an assignment (ConsumerProtocol.deserializeAssignment). Raises WireError."""
    reader = Reader(data)
    version = min(reader.version(), _NEWEST)
    return Assignment(_topic_partitions(reader), reader.nullable_bytes(), version)


def assigned(data: bytes) -> list[tuple[str, tuple[int, ...]]]:
    """Returns the partitions of an assignment by topic, in the order of the bytes. Raises WireError."""
    partitions_by_topic = _read_regular(data)
    if partitions_by_topic is not None:
        return partitions_by_topic
    reader = Reader(data)
    reader.version()
    partitions_by_topic = _by_topic(reader)
    reader.nullable_bytes()
    return partitions_by_topic


def _read_regular(data: bytes) -> list[tuple[str, tuple[int, ...]]] | None:
    """Decodes regular bytes several times as fast as field by field. Returns None if anything about them is
    irregular.
    """
    partitions_by_topic = []
    try:
        version, topics = _HEAD(data)
        position = _HEAD_SIZE
        for _ in range(topics):
            size = data[position] << 8 | data[position + 1]
            name = data[position + 2 : position + 2 + size].decode()
            position += 2 + size
            count = _INT(data, position)[0]
            position += 4
            if size > _MAX_STRING_BYTES or count < 0:
                return None
            partitions_by_topic.append((name, unpack_from(f">{count}i", data, position)))
            position += 4 * count
        user_data = _INT(data, position)[0]
    except (IndexError, UnicodeDecodeError, StructError):
        return None
    return partitions_by_topic if version >= 0 and topics >= 0 and position + 4 + user_data <= len(data) else None


def sticky_user_data(data: bytes | None) -> StickyData:
    """Decodes the user data of StickyAssignor (memberData). Never fails: unreadable data means no partitions in
    generation -1.
    """
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
    """Returns the generation in the user data of CooperativeStickyAssignor: -1 if unreadable, None without user
    data."""
    if data is None:
        return None
    return Reader(data).int32() if len(data) >= 4 else -1


def user_data_generation(subscription: Subscription, assignor: str) -> int | None:
    """Returns the generation in a sticky assignor's user data if it differs from that of the subscription.

    Returns -1 if the user data has no generation, and None if both are equal or there is no user data.
    """
    if subscription.user_data is None:
        return None
    if assignor == "sticky":
        generation = sticky_user_data(subscription.user_data).generation_id
    elif assignor == "cooperative-sticky":
        generation = cooperative_user_data(subscription.user_data)
    else:
        return None
    return None if generation == subscription.generation_id else -1 if generation is None else generation


def _topic_partitions(reader: Reader) -> TopicPartitions:
    """Reads the pairs of topic and partition."""
    return tuple((topic, partition) for topic, partitions in _by_topic(reader) for partition in partitions)


def _by_topic(reader: Reader) -> list[tuple[str, tuple[int, ...]]]:
    """Reads the partitions of each topic."""
    return [(reader.string(), reader.int32s()) for _ in range(reader.array_length(6))]
