"""The values of OffsetCommit records, all of a batch at once.

    version   offset  leader epoch  metadata         commit time  expires  tagged
    0, 2      int64                 int16 and bytes  int64
    1         int64                 int16 and bytes  int64        int64
    3         int64   int32         int16 and bytes  int64
    4         int64   int32         varint and bytes int64                 topic id (0), or none

Each of these is read at its place. All that is not laid out like that, cut short for example, goes to the reader of
single records, which says what it is or what is wrong with it; the two agree on every record.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_assign.history.kernel.binary_column import BinaryColumn
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.wire.group_records import read_value
from spark_assign.wire.reader import WireError

_FLEXIBLE = 4
_ZERO = "AAAAAAAAAAAAAAAAAAAAAA"
"""Kafka's id of no topic."""


@dataclass(frozen=True)
class Committed:
    """What was read, a row for each value.

    Attributes:
        topic_id: the place in `topic_ids`, which has None where a record names no id.
        fine: whether it could be read; of the others `faults` says why not, by row.
    """

    offset: IntArray
    leader_epoch: IntArray
    commit_ms: IntArray
    topic_id: IntArray
    topic_ids: list[str | None]
    fine: BoolArray
    faults: dict[int, str]


def committed(kinds: IntArray, values: pa.Array | pa.ChunkedArray) -> Committed:
    """Read the values of OffsetCommit records; none is null.

    Args:
        kinds: the version of each record's key: 1, or 0 of the oldest brokers.
        values: the records' values.
    """
    given = BinaryColumn(values)
    version = np.where(given.end - given.begin >= 2, given.number(">i2", given.begin), -1)
    regular = (version >= 0) & (version <= _FLEXIBLE) & ((kinds == 1) | (version == 0))
    epoch_at = given.begin + 10
    length_at = epoch_at + np.where(version >= 3, 4, 0)
    size, metadata_at = _metadata(given, version, length_at)
    time_at = metadata_at + size
    end = time_at + 8 + np.where(version == 1, 8, 0)
    regular &= (size >= 0) & (end + (version == _FLEXIBLE) <= given.end)
    numbered = _numbered(given, version, end) & regular & (end + 19 <= given.end)
    regular &= (version != _FLEXIBLE) | numbered | (given.number(">u1", end) == 0)
    topic_id, topic_ids = _topic_ids(given, numbered, end + 3)
    read = Committed(
        given.number(">i8", given.begin + 2),
        np.where(version >= 3, given.number(">i4", epoch_at), -1),
        given.number(">i8", time_at),
        topic_id,
        topic_ids,
        regular,
        {},
    )
    for row in np.flatnonzero(~regular).tolist():
        _read_alone(read, row, int(kinds[row]), values[row].as_py())
    return read


def _metadata(given: BinaryColumn, version: IntArray, at: IntArray) -> tuple[IntArray, IntArray]:
    """How long each metadata is, below 0 where it is null or the length is longer than here is read; where it begins.

    A varint of two bytes suffices for the longest that brokers take (`offset.metadata.max.bytes` is 4096).
    """
    if not (version == _FLEXIBLE).any():
        return given.number(">i2", at), at + 2
    low, high = given.number(">u1", at), given.number(">u1", at + 1)
    two = low >= 128
    length = np.where(two, np.where(high < 128, (low & 127) | (high << 7), 0), low) - 1
    flexible = version == _FLEXIBLE
    return (
        np.where(flexible, length, given.number(">i2", at)),
        at + np.where(flexible & ~two, 1, 2),
    )


def _numbered(given: BinaryColumn, version: IntArray, at: IntArray) -> BoolArray:
    """Whether one tagged field follows, and it is a topic's id: one field, tag 0, 16 bytes."""
    if not (version == _FLEXIBLE).any():
        return np.zeros(len(version), bool)
    one, tag, size = (given.number(">u1", at + place) for place in range(3))
    flags: BoolArray = (version == _FLEXIBLE) & (one == 1) & (tag == 0) & (size == 16)
    return flags


def _topic_ids(given: BinaryColumn, numbered: BoolArray, at: IntArray) -> tuple[IntArray, list[str | None]]:
    code = np.zeros(len(numbered), np.int64)
    texts: list[str | None] = [None]
    if numbered.any():
        ids = given.ids(at[numbered]).dictionary_encode()
        texts += [urlsafe_b64encode(each).decode().rstrip("=") for each in ids.dictionary.to_pylist()]
        texts = [None if each == _ZERO else each for each in texts]
        code[numbered] = ids.indices.to_numpy(zero_copy_only=False) + 1
    return code, texts


def _read_alone(read: Committed, row: int, kind: int, value: bytes) -> None:
    """Read one value by the reader of single records, into the columns."""
    try:
        fields = read_value(kind, value).fields
    except WireError as error:
        read.faults[row] = str(error)
        return
    read.fine[row] = True
    read.offset[row] = fields["offset"]
    read.leader_epoch[row] = fields.get("leaderEpoch", -1)
    read.commit_ms[row] = fields["commitTimestamp"]
    name = fields.get("topicId")
    read.topic_ids.append(None if name == _ZERO else name)
    read.topic_id[row] = len(read.topic_ids) - 1
