"""Records without what need not be kept: the hosts of members, and the metadata of commits.

A record that is changed is read as a whole and written anew, so that nothing is kept that was not understood: of a
value that cannot be read nothing is left, of a key its type. Commits are the many; those in which there is nothing to
take out, and nothing else than a commit, are found side by side and stay as they are.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_assign.history.kernel.redact_hosts import without_hosts
from spark_assign.wire import group_records
from spark_assign.wire.reader import WireError

_COMMIT, _OLD_COMMIT = 1, 0
_NEWEST_COMMIT = 4
_BEHIND = np.zeros(64, np.uint8)

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def without_secrets(records: pa.RecordBatch, *, hosts: bool, metadata: bool) -> pa.RecordBatch:
    """RECORDS without hosts of members, without metadata of commits. Offset, partition, times stay as they are."""
    if not (hosts or metadata) or records.num_rows == 0:
        return records
    columns = {name: records.column(name) for name in records.schema.names}
    keys, values = columns["key"].cast(pa.binary()), columns["value"].cast(pa.binary())
    changed = np.flatnonzero(~_as_they_are(keys, values, metadata))
    if len(changed):
        some = pa.array(changed)
        pairs = [
            _rewritten(*pair, hosts, metadata)
            for pair in zip(keys.take(some).to_pylist(), values.take(some).to_pylist(), strict=True)
        ]
        keys = _replaced(keys, changed, [key for key, _ in pairs])
        values = _replaced(values, changed, [value for _, value in pairs])
    columns |= {"key": keys.cast(columns["key"].type), "value": values.cast(columns["value"].type)}
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=records.schema)


def _rewritten(
    key: bytes | None, value: bytes | None, hosts: bool, metadata: bool
) -> tuple[bytes | None, bytes | None]:
    try:
        known = group_records.read_key(key or b"")
        written = group_records.write_key(known.type, known.fields)
    except WireError:
        return (None if key is None else key[:2]), (None if value is None else b"")
    if value is None:
        return written, None
    try:
        read = group_records.read_value(known.type, value)
        fields = without_hosts(known.name, read.fields) if hosts else read.fields
        if metadata and known.name == "OffsetCommit":
            fields = fields | {"metadata": ""}
        return written, group_records.write_value(known.type, fields, read.version)
    except WireError:
        return written, b""


def _replaced(column: pa.Array, at: Longs, by: list[bytes | None]) -> pa.Array:
    """The column with some of its values exchanged."""
    order = np.arange(len(column))
    order[at] = len(column) + np.arange(len(at))
    return pa.concat_arrays([column, pa.array(by, pa.binary())]).take(pa.array(order))


def _as_they_are(keys: pa.Array, values: pa.Array, metadata: bool) -> Bools:
    """Commits that are nothing but a commit to their last byte; without metadata, if that is to be left out."""
    at, size, data = _bytes(keys)
    group = _int16(data, at + 2)
    topic = _int16(data, at + 4 + _within(group, size))
    kind = _int16(data, at)
    plain = (size >= 10) & ((kind == _COMMIT) | (kind == _OLD_COMMIT)) & (group >= 0) & (topic >= 0)
    plain &= size == 10 + group + topic
    at, size, data = _bytes(values)
    version = _int16(data, at)
    begins = np.where(version < 3, 10, 14)
    flexible = version == _NEWEST_COMMIT
    length = np.where(
        flexible, data[at + _within(begins, size)].astype(np.int64) - 1, _int16(data, at + _within(begins, size))
    )
    ends = begins + np.where(flexible, 1, 2) + length + 8 + np.where(version == 1, 8, 0)
    tags = at + _within(ends, size)
    # Of the tagged fields only the topic's id is known: one field, number 0, of 16 bytes.
    with_id = flexible & (data[tags] == 1) & (data[tags + 1] == 0) & (data[tags + 2] == 16)
    without = flexible & (data[tags] == 0)
    ends += np.where(with_id, 19, np.where(without, 1, 0))
    sound = (version >= 0) & (version <= _NEWEST_COMMIT) & (length >= 0) & (size == ends)
    sound &= ~flexible | ((length < 0x7F) & (with_id | without))
    if metadata:
        sound &= length == 0
    gone = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
    kept: Bools = plain & (sound | gone)
    return kept


def _bytes(column: pa.Array) -> tuple[Longs, Longs, npt.NDArray[np.uint8]]:
    """Where each value begins, how long it is, and all bytes, with some behind them."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    held = np.frombuffer(data, np.uint8)[: ends[-1]] if data is not None else _BEHIND[:0]
    return ends[:-1], np.diff(ends), np.concatenate([held, _BEHIND])


def _within(at: Longs, size: Longs) -> Longs:
    """Places that are none count as the last one; whoever reads there has found out already."""
    return np.clip(at, 0, size)


def _int16(data: npt.NDArray[np.uint8], at: Longs) -> Longs:
    return (data[at].astype(np.int64) << 8 | data[at + 1]).astype(np.int16).astype(np.int64)
