"""Decodes a batch of coordinator records: the keys of all record types, and the values of OffsetCommit records.

Keys of commits differ mostly in the partition, their last four bytes: each distinct prefix is decoded once. All other
keys, and irregular ones, are decoded by the reader of single records, each distinct key once.

Values of OffsetCommit have one of these layouts, and each field is read at its offset:

    version   offset  leader epoch  metadata         commit time  expires  tagged
    0, 2      int64                 int16 and bytes  int64
    1         int64                 int16 and bytes  int64        int64
    3         int64   int32         int16 and bytes  int64
    4         int64   int32         varint and bytes int64                 topic id (0), or none

A value with any other layout, for example a truncated one, is decoded by the reader of single records, which reports
what is wrong with it. Both readers agree on every record.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.history.kernel.binary_column import BinaryColumn, combine_chunks
from spark_assign.numeric.arrays import BoolArray, IntArray
from spark_assign.wire.group_records import UnknownType, read_key, read_value
from spark_assign.wire.reader import WireError, as_text

NO_KEY, CORRUPT, UNKNOWN_TYPE, NEWER_VERSION = ("no-key", "corrupt", "unknown-type", "newer-version")
"""Codes of records that can't be decoded (`tables.history.UNREADABLE`)."""

_NEWEST_COMMIT_KEY = 1
"""Key types 0 and 1 are commits."""

_FLEXIBLE_VERSION = 4
"""First version of an OffsetCommit value with varint lengths and tagged fields."""

_ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Kafka's `Uuid.ZERO_UUID`: no topic id."""


# --- keys ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DecodedKeys:
    """Fields of record keys, one row per key.

    Attributes:
        record_type: key type as Kafka numbers it; negative if the key could not be decoded.
        group: index into `groups`; negative if the key has no group.
        topic: index into `topics`; negative if the key isn't that of a commit.
        partition: partition of a commit.
        groups: distinct group ids.
        topics: distinct topic names.
        faults: code and detail of each key that could not be decoded, by row.
    """

    record_type: IntArray
    group: IntArray
    topic: IntArray
    partition: IntArray
    groups: list[str]
    topics: list[str]
    faults: dict[int, tuple[str, str]]


def read_keys(column: pa.Array | pa.ChunkedArray) -> DecodedKeys:
    """Decodes a column of keys. A null key is a fault."""
    keys = combine_chunks(column)
    key_bytes = BinaryColumn(keys)
    groups, topics = _Names(), _Names()
    key_prefix, *prefix_columns = _decode_commit_prefixes(keys, groups, topics)
    record_type, group, topic = (np.append(values, -1)[key_prefix] for values in prefix_columns)
    partition = key_bytes.read_integers(">i4", key_bytes.end - 4)
    is_null = keys.is_null().to_numpy(zero_copy_only=False)
    faults = dict.fromkeys(np.flatnonzero(is_null).tolist(), (NO_KEY, "the record has no key"))
    irregular = np.flatnonzero((record_type < 0) & ~is_null)
    columns = (record_type, group, topic, partition)
    faults |= _decode_single_keys(columns, irregular, keys.take(pa.array(irregular)), groups, topics)
    return DecodedKeys(*columns, list(groups.index_by_name), list(topics.index_by_name), faults)


def _decode_commit_prefixes(
    keys: pa.Array, groups: _Names, topics: _Names
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Decodes the distinct keys of commits without their partition.

    Returns:
        the prefix index of each key, and the record type, group, and topic of each prefix.
    """
    encoded = pc.binary_slice(keys, 0, -4).dictionary_encode()
    prefixes = BinaryColumn(encoded.dictionary)
    record_type, group_size, topic_size = read_commit_keys(prefixes, prefixes.end)
    group, topic = np.full(len(record_type), -1), np.full(len(record_type), -1)
    rows = np.flatnonzero(record_type >= 0)
    group_start = prefixes.start[rows] + 4
    group[rows] = groups.index_slices(prefixes, group_start, group_size[rows])
    topic[rows] = topics.index_slices(prefixes, group_start + group_size[rows] + 2, topic_size[rows])
    key_prefix = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return key_prefix, record_type, group, topic


def read_commit_keys(keys: BinaryColumn, end: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Returns the record type of keys of commits, and the sizes of group and topic, in bytes.

    Args:
        keys: the keys.
        end: offset after the topic of each key. If it doesn't fit, or the key isn't that of a commit, the record type
            is -1.
    """
    record_type = keys.read_integers(">i2", keys.start)
    group_size = keys.read_integers(">i2", keys.start + 2)
    topic_size = keys.read_integers(">i2", keys.start + 4 + group_size)
    is_commit = (record_type >= 0) & (record_type <= _NEWEST_COMMIT_KEY) & (group_size >= 0) & (topic_size >= 0)
    is_commit &= keys.start + 6 + group_size + topic_size == end
    return np.where(is_commit, record_type, -1), group_size, topic_size


def _decode_single_keys(
    columns: Sequence[IntArray], rows: IntArray, keys: pa.Array, groups: _Names, topics: _Names
) -> dict[int, tuple[str, str]]:
    """Decodes keys by the reader of single records, into `rows` of the columns. Returns the faults by row."""
    encoded = keys.dictionary_encode()
    faults: dict[int, tuple[str, str]] = {}
    fields = [
        _decode_key(index, key, groups, topics, faults) for index, key in enumerate(encoded.dictionary.to_pylist())
    ]
    indexes = encoded.indices.to_numpy(zero_copy_only=False)
    values = np.array(fields, np.int64)
    for field_index, column in enumerate(columns):
        column[rows] = values.reshape(-1, 4)[indexes, field_index]
    return {row: faults[index] for row, index in zip(rows.tolist(), indexes.tolist(), strict=True) if index in faults}


def _decode_key(
    index: int, data: bytes, groups: _Names, topics: _Names, faults: dict[int, tuple[str, str]]
) -> tuple[int, int, int, int]:
    """Returns record type, group, topic, and partition; all are negative if there is a fault."""
    try:
        key = read_key(data)
    except WireError as error:
        faults[index] = UNKNOWN_TYPE if isinstance(error, UnknownType) else CORRUPT, str(error)
        return -1, -1, -1, -1
    fields = key.fields
    group = groups.index(fields["groupId"] if "groupId" in fields else fields["group"])
    if key.type > _NEWEST_COMMIT_KEY:
        return key.type, group, -1, -1
    return key.type, group, topics.index(fields["topic"]), fields["partition"]


class _Names:
    """Distinct names, indexed in the order of their first occurrence."""

    def __init__(self) -> None:
        self.index_by_name: dict[str, int] = {}

    def index(self, name: str) -> int:
        return self.index_by_name.setdefault(name, len(self.index_by_name))

    def index_slices(self, column: BinaryColumn, start: IntArray, length: IntArray) -> IntArray:
        """Returns the indexes of the names at these byte ranges. Invalid UTF-8 is replaced as Java does."""
        encoded = column.slice_bytes(start, length).dictionary_encode()
        indexes = [self.index(as_text(name)) for name in encoded.dictionary.to_pylist()]
        return np.array(indexes, np.int64)[encoded.indices.to_numpy(zero_copy_only=False)] if indexes else start


# --- values of commits --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CommitValues:
    """Fields of OffsetCommit values, one row per value.

    Attributes:
        offset: the committed offset.
        commit_ms: the commit timestamp, in milliseconds since 1970.
        topic_id: index into `topic_ids`.
        topic_ids: distinct topic ids as Kafka prints them; None if a value has no topic id.
        is_valid: whether the value could be decoded.
        faults: detail of each value that could not be decoded, by row.
    """

    offset: IntArray
    commit_ms: IntArray
    topic_id: IntArray
    topic_ids: list[str | None]
    is_valid: BoolArray
    faults: dict[int, str]


def read_commit_values(record_types: IntArray, values: pa.Array | pa.ChunkedArray) -> CommitValues:
    """Decodes the values of OffsetCommit records.

    Args:
        record_types: the type of each record's key: 1, or 0 of the oldest brokers.
        values: the records' values, without nulls.
    """
    column = BinaryColumn(values)
    layout = find_commit_layout(record_types, column)
    topic_id, topic_ids = _read_topic_ids(column, layout.has_topic_id, layout.end - 16)
    decoded = CommitValues(
        column.read_integers(">i8", column.start + 2),
        column.read_integers(">i8", layout.time_start),
        topic_id,
        topic_ids,
        layout.is_regular,
        {},
    )
    for row in np.flatnonzero(~layout.is_regular).tolist():
        _decode_single_value(decoded, row, int(record_types[row]), values[row].as_py())
    return decoded


@dataclass(frozen=True)
class CommitLayout:
    """Where the fields of OffsetCommit values are, one row per value.

    Attributes:
        metadata_size: size of the metadata, in bytes.
        time_start: offset of the commit timestamp.
        end: offset after the last known field.
        has_topic_id: whether the value has a topic id.
        is_regular: whether the value has one of the known layouts. If not, the other columns are arbitrary.
    """

    metadata_size: IntArray
    time_start: IntArray
    end: IntArray
    has_topic_id: BoolArray
    is_regular: BoolArray


def find_commit_layout(record_types: IntArray, values: BinaryColumn) -> CommitLayout:
    """Returns the layout of OffsetCommit values; arguments as for `read_commit_values`."""
    version = np.where(values.end - values.start >= 2, values.read_integers(">i2", values.start), -1)
    regular = (version >= 0) & (version <= _FLEXIBLE_VERSION) & ((record_types == 1) | (version == 0))
    size, metadata_start = _read_metadata_length(values, version, values.start + np.where(version >= 3, 14, 10))
    time_start = metadata_start + size
    end = time_start + 8 + np.where(version == 1, 8, 0)
    flexible = version == _FLEXIBLE_VERSION
    has_topic_id = np.zeros(len(version), bool)
    if flexible.any():
        # The topic id is the only known tagged field: one field, tag 0, 16 bytes.
        num_fields, tag, tag_size = (values.read_integers(">u1", end + index) for index in range(3))
        has_topic_id = flexible & (num_fields == 1) & (tag == 0) & (tag_size == 16)
        regular &= ~flexible | has_topic_id | (num_fields == 0)
        end += np.where(has_topic_id, 19, flexible)
    regular &= (size >= 0) & (end <= values.end)
    return CommitLayout(size, time_start, end, has_topic_id & regular, regular)


def _read_metadata_length(column: BinaryColumn, version: IntArray, start: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the length of each metadata string and the offset of its first byte.

    The length is negative if the metadata is null or its varint has more than two bytes. Two bytes suffice for the
    longest metadata that brokers accept by default (`offset.metadata.max.bytes` is 4096).
    """
    if not (version == _FLEXIBLE_VERSION).any():
        return column.read_integers(">i2", start), start + 2
    low, high = column.read_integers(">u1", start), column.read_integers(">u1", start + 1)
    has_two_bytes = low >= 128
    length = np.where(has_two_bytes, np.where(high < 128, (low & 127) | (high << 7), 0), low) - 1
    flexible = version == _FLEXIBLE_VERSION
    return (
        np.where(flexible, length, column.read_integers(">i2", start)),
        start + np.where(flexible & ~has_two_bytes, 1, 2),
    )


def _read_topic_ids(
    column: BinaryColumn, has_topic_id: BoolArray, start: IntArray
) -> tuple[IntArray, list[str | None]]:
    """Returns the topic id of each value as an index, and the distinct ids; the first one is None."""
    indexes = np.zeros(len(has_topic_id), np.int64)
    topic_ids: list[str | None] = [None]
    if has_topic_id.any():
        encoded = column.read_uuids(start[has_topic_id]).dictionary_encode()
        topic_ids += [urlsafe_b64encode(uuid).decode().rstrip("=") for uuid in encoded.dictionary.to_pylist()]
        topic_ids = [None if topic_id == _ZERO_UUID else topic_id for topic_id in topic_ids]
        indexes[has_topic_id] = encoded.indices.to_numpy(zero_copy_only=False) + 1
    return indexes, topic_ids


def _decode_single_value(decoded: CommitValues, row: int, record_type: int, value: bytes) -> None:
    """Decodes one value by the reader of single records, into one row of the columns."""
    try:
        fields = read_value(record_type, value).fields
    except WireError as error:
        decoded.faults[row] = str(error)
        return
    decoded.is_valid[row] = True
    decoded.offset[row] = fields["offset"]
    decoded.commit_ms[row] = fields["commitTimestamp"]
    topic_id = fields.get("topicId")
    decoded.topic_ids.append(None if topic_id == _ZERO_UUID else topic_id)
    decoded.topic_id[row] = len(decoded.topic_ids) - 1
