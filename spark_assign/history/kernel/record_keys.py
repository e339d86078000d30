"""Keys of group records: which type, which group, and of commits which partition.

Keys of commits are alike but for the partition, their last four bytes: what comes before is read once for each that is
different. Other keys, and what is irregular, are read by the reader of single records, each that is different once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.history.kernel.binary_column import BinaryColumn, one_array
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.wire.group_records import UnknownType, read_key
from spark_assign.wire.reader import WireError, as_text

NO_KEY, CORRUPT, UNKNOWN_TYPE, NEWER_VERSION = UNREAD_CODES = ("no-key", "corrupt", "unknown-type", "newer-version")
_NEWEST_COMMIT = 1


@dataclass(frozen=True)
class Keys:
    """What keys say, a row for each.

    Attributes:
        kind: its type, as Kafka numbers them; below 0 where it could not be read, and `faults` says why.
        group, topic: places in `groups` and `topics`; below 0 where there is none.
        faults: code and detail of what could not be read, by row.
    """

    kind: IntArray
    group: IntArray
    topic: IntArray
    partition: IntArray
    groups: list[str]
    topics: list[str]
    faults: dict[int, tuple[str, str]]

    @property
    def of_commits(self) -> BoolArray:
        """Whether it is of a committed offset."""
        flags: BoolArray = (self.kind >= 0) & (self.kind <= _NEWEST_COMMIT)
        return flags


def read_keys(column: pa.Array | pa.ChunkedArray) -> Keys:
    """Read keys; null is a fault, too."""
    keys = one_array(column)
    given = BinaryColumn(keys)
    groups, topics = _Names(), _Names()
    codes, *of_heads = _heads(keys, groups, topics)
    kind, group, topic = (np.append(each, -1)[codes] for each in of_heads)
    read = Keys(kind, group, topic, given.number(">i4", given.end - 4), [], [], {})
    for row in np.flatnonzero(keys.is_null().to_numpy(zero_copy_only=False)).tolist():
        read.faults[row] = NO_KEY, "the record has no key"
    others = np.flatnonzero((kind < 0) & keys.is_valid().to_numpy(zero_copy_only=False))
    _read_alone(read, others, keys.take(pa.array(others)), groups, topics)
    read.groups.extend(groups.known)
    read.topics.extend(topics.known)
    return read


def _heads(keys: pa.Array, groups: _Names, topics: _Names) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Keys of commits without their partition: of each key the number of its head; kind, group and topic of heads."""
    encoded = pc.binary_slice(keys, 0, -4).dictionary_encode()
    heads = BinaryColumn(encoded.dictionary)
    kind = np.where(heads.end - heads.begin >= 2, heads.number(">i2", heads.begin), -1)
    group_size = heads.number(">i2", heads.begin + 2)
    topic_at = heads.begin + 4 + group_size
    topic_size = heads.number(">i2", topic_at)
    regular = (kind >= 0) & (kind <= _NEWEST_COMMIT) & (group_size >= 0) & (topic_size >= 0)
    regular &= topic_at + 2 + topic_size == heads.end
    group, topic = np.full(len(kind), -1), np.full(len(kind), -1)
    rows = np.flatnonzero(regular)
    group[rows] = groups.of_parts(heads, heads.begin[rows] + 4, group_size[rows])
    topic[rows] = topics.of_parts(heads, topic_at[rows] + 2, topic_size[rows])
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, np.where(regular, kind, -1), group, topic


def _read_alone(read: Keys, rows: IntArray, keys: pa.Array, groups: _Names, topics: _Names) -> None:
    """Read keys by the reader of single records, into the columns."""
    encoded = keys.dictionary_encode()
    faults: dict[int, tuple[str, str]] = {}
    found = [_read(code, key, groups, topics, faults) for code, key in enumerate(encoded.dictionary.to_pylist())]
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    told = np.array(found, np.int64)
    for place, column in enumerate((read.kind, read.group, read.topic, read.partition)):
        column[rows] = told.reshape(-1, 4)[codes, place]
    for row in np.flatnonzero(read.kind[rows] < 0).tolist():
        read.faults[int(rows[row])] = faults[int(codes[row])]


def _read(
    code: int, data: bytes, groups: _Names, topics: _Names, faults: dict[int, tuple[str, str]]
) -> tuple[int, int, int, int]:
    """Kind, group, topic and partition; all below 0 with a fault."""
    try:
        key = read_key(data)
    except WireError as error:
        faults[code] = UNKNOWN_TYPE if isinstance(error, UnknownType) else CORRUPT, str(error)
        return -1, -1, -1, -1
    fields = key.fields
    group = groups.number(fields["groupId"] if "groupId" in fields else fields["group"])
    if key.type > _NEWEST_COMMIT:
        return key.type, group, -1, -1
    return key.type, group, topics.number(fields["topic"]), fields["partition"]


class _Names:
    """Names, numbered as they come."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self.known.setdefault(name, len(self.known))

    def of_parts(self, given: BinaryColumn, begin: IntArray, length: IntArray) -> IntArray:
        """The numbers of names that are parts of rows; what is no UTF-8 is replaced, as Java does."""
        parts = given.parts(begin, length).dictionary_encode()
        numbers = [self.number(as_text(each)) for each in parts.dictionary.to_pylist()]
        return np.array(numbers, np.int64)[parts.indices.to_numpy(zero_copy_only=False)] if numbers else begin
