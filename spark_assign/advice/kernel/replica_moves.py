"""Where a replica would have to be for less to cross a zone: of every partition that is read, over all its groups.

    reorder    without follower fetching: the replica whose rack reads most leads. It is free, as no byte is copied
    move       a replica goes to the rack that reads most of all those without one: there it leads, or, with follower
               fetching, it is read from

Only what saves something is told, and a move only where it saves more than the reorder does. The replica that goes away
is, of the followers, the one whose rack reads least (a rack with two replicas loses nothing), the last one if several
do; of a partition with one replica that one. What members without a rack read counts against every change of the
leader: they may be near it.

Example: replicas in a, b; a leads, readers in a read 10, in b 40, in c 90. Reorder saves 30. A move to c that leads
saves 80; with follower fetching a move from b to c saves 50.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_assign.numeric.array_types import BoolArray, IntArray

REORDER, MOVE = "reorder", "move"

_TEXT, _INT, _LONG = pa.string(), pa.int32(), pa.int64()
LEAST = np.iinfo(np.int64).min

FOUND = {
    "follower_fetching": pa.bool_(),
    "kind": _TEXT,
    "from_rack": _TEXT,
    "to_rack": _TEXT,
    "place": _INT,
    "cross_zone_bytes_per_day": _LONG,
    "saved_bytes_per_day": _LONG,
}
"""What is added to a row. `place`: of the replica that comes to the front, or that goes away, from 0."""


@dataclass(frozen=True)
class _Partitions:
    """Partitions, and racks as numbers in the order of their names.

    Attributes:
        replicas: `replicas[partition, place]`, the rack; -1: not known, -2: no such replica.
        reads: `reads[partition, rack]`, bytes a day.
        lost: of each partition what members without a rack read.
        brokers: `brokers[partition, rack]`, whether its cluster has a broker there.
        racks: the names.
    """

    replicas: IntArray
    reads: IntArray
    lost: IntArray
    brokers: BoolArray
    racks: pa.Array


def replica_moves(rows: pa.Table) -> pa.Table:
    """What would save bytes.

    Args:
        rows: of each partition `replica_racks` (null: not known), `read_from` and `read_bytes` side by side (a rack may
            be there several times; null: members without one), and `broker_racks`, those of its cluster.

    Returns:
        the same rows with the columns of `FOUND`, none, one or several times each.
    """
    told = _read(rows)
    at, found = [np.empty(0, np.int64)], [pa.table({name: pa.array([], kind) for name, kind in FOUND.items()})]
    for some, table in _found(told):
        at.append(some)
        found.append(table)
    answer = rows.take(pa.array(np.concatenate(at)))
    for name, column in zip(FOUND, pa.concat_tables(found).columns, strict=True):
        answer = answer.append_column(name, column)
    return answer


def _read(rows: pa.Table) -> _Partitions:
    lists = {name: rows[name].combine_chunks() for name in ("replica_racks", "read_from", "broker_racks")}
    texts = pa.chunked_array([each.flatten() for each in lists.values()], _TEXT).unique().drop_null().sort()
    names = {text: at for at, text in enumerate(texts.to_pylist())}
    row, rack = {}, {}
    for name, each in lists.items():
        row[name] = np.repeat(np.arange(len(rows)), each.value_lengths().fill_null(0).to_numpy())
        coded = each.flatten().dictionary_encode()
        of = np.array([names[text] for text in coded.dictionary.to_pylist()] + [-1], np.int64)
        rack[name] = of[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    lengths = np.bincount(row["replica_racks"], minlength=len(rows))
    replicas = np.full((len(rows), max(int(lengths.max(initial=0)), 1)), -2, np.int64)
    replicas[np.arange(replicas.shape[1]) < lengths[:, None]] = rack["replica_racks"]
    reads = np.zeros((len(rows), len(names) + 1), np.int64)  # the last column: from racks that nobody knows
    size = rows["read_bytes"].combine_chunks().flatten().to_numpy()
    np.add.at(reads, (row["read_from"], rack["read_from"]), size)
    brokers = np.zeros((len(rows), len(names)), bool)
    brokers[row["broker_racks"], rack["broker_racks"]] = True
    return _Partitions(replicas, reads[:, :-1], reads[:, -1], brokers, texts)


def _found(told: _Partitions) -> Iterator[tuple[IntArray, pa.Table]]:
    """What saves something, kind by kind: rows, and the columns of `FOUND`."""
    number, racks = told.reads.shape
    if not number or not racks:
        return
    each = np.arange(number)
    leader, total = told.replicas[:, 0], told.reads.sum(axis=1)
    held = np.stack([(told.replicas == rack).sum(axis=1) for rack in range(racks)], axis=1)
    known = leader >= 0
    by_leader = np.where(known, told.reads[each, leader], 0)
    front = _most(told.reads, held > 0)
    reorder = np.where(known, told.reads[each, front] - by_leader, 0)
    place = np.argmax(told.replicas == front[:, None], axis=1)
    yield _rows(told, (False, REORDER), reorder - told.lost, (leader, front, place), total - by_leader)
    goes, loss = _goes(told, held)
    free = told.brokers & (held == 0)
    to = _most(told.reads, free)
    able = known & free.any(axis=1)
    gain = np.where(able, told.reads[each, to] - by_leader, 0)
    better = np.where(gain > np.maximum(reorder, 0), gain - told.lost, 0)
    yield _rows(told, (False, MOVE), better, (leader, to, goes), total - by_leader)
    far = (told.reads * (held == 0)).sum(axis=1)
    single = (told.replicas >= -1).sum(axis=1) == 1
    gain = np.where(able, told.reads[each, to] - loss - np.where(single, told.lost, 0), 0)
    yield _rows(told, (True, MOVE), gain, (told.replicas[each, goes], to, goes), far)


def _most(reads: IntArray, among: BoolArray) -> IntArray:
    """Of each partition the rack that reads most, the first by name if several do."""
    most: IntArray = np.argmax(np.where(among, reads, LEAST), axis=1)
    return most


def _goes(told: _Partitions, held: IntArray) -> tuple[IntArray, IntArray]:
    """Of each partition the place of the replica that goes away, and what its rack reads then from elsewhere."""
    each = np.arange(len(told.reads))
    best, goes = np.full(len(each), np.iinfo(np.int64).max), np.zeros(len(each), np.int64)
    single = (told.replicas >= -1).sum(axis=1) == 1
    for place in range(told.replicas.shape[1]):
        rack = told.replicas[:, place]
        alone = (rack >= 0) & (held[each, rack] == 1)
        loss = np.where(alone, told.reads[each, rack], 0)
        # The leader stays, unless it is all there is.
        may = (rack >= -1) & ((place > 0) | single) & (loss <= best)
        best, goes = np.where(may, loss, best), np.where(may, place, goes)
    return goes, best


def _rows(
    told: _Partitions,
    what: tuple[bool, str],
    saved: IntArray,
    where: tuple[IntArray, IntArray, IntArray],
    crosses: IntArray,
) -> tuple[IntArray, pa.Table]:
    at = np.flatnonzero(saved > 0)
    from_rack, to_rack, place = (each[at] for each in where)
    columns = [
        pa.repeat(pa.scalar(what[0]), len(at)),
        pa.repeat(pa.scalar(what[1]), len(at)),
        told.racks.take(pa.array(from_rack, _LONG, mask=from_rack < 0)),
        told.racks.take(pa.array(to_rack, _LONG)),
        pa.array(place, _INT),
        pa.array(crosses[at], _LONG),
        pa.array(saved[at], _LONG),
    ]
    return at, pa.table(columns, names=list(FOUND))
