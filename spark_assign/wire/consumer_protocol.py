"""ConsumerProtocol: what a classic group's member says (subscription) and is told (assignment), in bytes.

The broker keeps both as opaque bytes and hands them out in DescribeGroups. Versions above 3 are read as 3 and
bytes at the end are ignored, as Kafka's `ConsumerProtocol` does. kafka-python brings a decoder too, but it
differs from Kafka on damaged bytes (invalid UTF-8 fails, negative lengths pass) and knows nothing of the
sticky assignors' user data, in which an eager sticky group carries ownership and generation; hence this one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

TopicPartitions = tuple[tuple[str, int], ...]
"""(topic, partition) in the order of the wire."""

_NEWEST = 3


class WireError(ValueError):
    """The bytes are not what they should be; Kafka's own classes refuse them too."""


@dataclass(frozen=True)
class Subscription:
    """What a member sent with its JoinGroup.

    `generation_id` is None where absent or negative, `rack_id` where absent or empty.
    """

    topics: tuple[str, ...]
    user_data: bytes | None
    owned: TopicPartitions
    generation_id: int | None
    rack_id: str | None


@dataclass(frozen=True)
class Assignment:
    """What the leader gave a member."""

    partitions: TopicPartitions
    user_data: bytes | None


@dataclass(frozen=True)
class StickyData:
    """What an eager StickyAssignor remembers of its last round; `generation_id` None: without generation."""

    owned: TopicPartitions
    generation_id: int | None


def subscription(data: bytes) -> Subscription:
    """ConsumerProtocol.deserializeSubscription. Raises WireError."""
    reader = _Reader(data)
    version = _version(reader)
    topics = tuple(reader.string() for _ in range(reader.array_length(2)))
    user_data = reader.nullable_bytes()
    owned = reader.topic_partitions() if version >= 1 else ()
    generation = reader.int32() if version >= 2 else -1
    rack = reader.nullable_string() if version >= 3 else None
    return Subscription(topics, user_data, owned, generation if generation >= 0 else None, rack or None)


def assignment(data: bytes) -> Assignment:
    """ConsumerProtocol.deserializeAssignment. Raises WireError."""
    reader = _Reader(data)
    _version(reader)
    return Assignment(reader.topic_partitions(), reader.nullable_bytes())


def sticky_user_data(data: bytes | None) -> StickyData:
    """StickyAssignor.memberData. Never fails: what cannot be read is nothing owned in generation -1."""
    if not data:
        return StickyData((), None)
    reader = _Reader(data)
    try:
        owned = reader.topic_partitions()
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
    return _Reader(data).int32() if len(data) >= 4 else -1


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, size: int) -> bytes:
        left = len(self._data) - self._at
        if not 0 <= size <= left:
            raise WireError(f"{size} bytes expected at byte {self._at}, {left} left")
        self._at += size
        return self._data[self._at - size : self._at]

    def int16(self) -> int:
        return int(struct.unpack(">h", self._take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack(">i", self._take(4))[0])

    def array_length(self, smallest_element: int) -> int:
        """An array's length, refused before anything is allocated where that many cannot follow."""
        length = self.int32()
        if not 0 <= length * smallest_element <= len(self._data) - self._at:
            raise WireError(f"{length} elements announced at byte {self._at - 4}")
        return length

    def string(self) -> str:
        return self._take(self.int16()).decode("utf-8", errors="replace")

    def nullable_string(self) -> str | None:
        length = self.int16()
        return None if length < 0 else self._take(length).decode("utf-8", errors="replace")

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else self._take(length)

    def topic_partitions(self) -> TopicPartitions:
        found: list[tuple[str, int]] = []
        for _ in range(self.array_length(6)):
            topic, length = self.string(), self.array_length(4)
            found += [(topic, partition) for partition in struct.unpack(f">{length}i", self._take(4 * length))]
        return tuple(found)


def _version(reader: _Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise WireError(f"version {version}: expected 0 or more")
    return min(version, _NEWEST)
