"""Finds replica moves that reduce cross-zone traffic, for every partition, over all groups that read it.

    reorder    without follower fetching: the replica in the rack that reads most becomes the leader; copies no data
    move       a replica moves to the rack that reads most among those without a replica; there it becomes the leader
               or, with follower fetching, is read from

Only changes that save something are returned, and a move only if it saves more than the reorder. The removed replica is
the follower whose rack reads least (a rack with two replicas loses nothing), the last one in a tie; for a partition
with a single replica, that one. Traffic of members without a rack counts against every change of the leader, because
they might be near it.

Example: replicas in a, b; a leads, readers in a read 10, in b 40, in c 90. Reorder saves 30. A move to c that leads
saves 80; with follower fetching, a move from b to c saves 50.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.groups.kernel.tagged_rows import row_schema
from spark_assign.numeric.arrays import MAX_REPLICAS, BoolArray, IntArray

REORDER, MOVE = "reorder", "move"

MIN_INT64 = np.iinfo(np.int64).min

MOVE_COLUMNS = row_schema(
    "follower_fetching bool, from_rack string, to_rack string, replica_index int32, cross_zone_bytes_per_day int64",
    "saved_bytes_per_day int64",
)
"""Columns that are added to a row. `replica_index`: index of the replica that becomes the leader or is removed."""


@dataclass(frozen=True)
class _Partitions:
    """Partitions; racks are indexes into their sorted names.

    Attributes:
        replicas: `replicas[partition, index]`, the rack, the leader's first; -1: unknown, -2: no such replica.
        reads: `reads[partition, rack]`, bytes per day.
        without_rack: bytes per day that members without a rack read of each partition.
        brokers: `brokers[partition, rack]`, whether the cluster has a broker in the rack.
        racks: the names.
    """

    replicas: IntArray
    reads: IntArray
    without_rack: IntArray
    brokers: BoolArray
    racks: pa.Array


def replica_moves(rows: pa.Table) -> pa.Table:
    """Returns the replica moves that reduce cross-zone traffic.

    Args:
        rows: one row per partition: `replica_racks` (the leader's first; null: unknown), `read_from` and `read_bytes`
            as parallel lists (a rack might occur several times; null: members without a rack), and `broker_racks`, the
            racks of the cluster.

    Returns:
        The same rows with the columns of `MOVE_COLUMNS`, each zero, one, or more times. A partition with more than
            `MAX_REPLICAS` replicas, which no cluster has, has none.
    """
    rows = rows.filter(pc.less_equal(pc.list_value_length(rows["replica_racks"]), MAX_REPLICAS))
    partitions = _read(rows)
    changes = [(np.empty(0, np.int64), MOVE_COLUMNS.empty_table()), *_find_changes(partitions)]
    moves = rows.take(pa.array(np.concatenate([indexes for indexes, _ in changes])))
    for name, column in zip(MOVE_COLUMNS.names, pa.concat_tables([table for _, table in changes]).columns, strict=True):
        moves = moves.append_column(name, column)
    return moves


def _read(rows: pa.Table) -> _Partitions:
    """Returns replicas, reads, and brokers by rack, one row per partition."""
    lists = {name: rows[name].combine_chunks() for name in ("replica_racks", "broker_racks", "read_from")}
    placed = [lists[name].flatten() for name in ("replica_racks", "broker_racks")]
    texts = pa.chunked_array(placed, pa.string()).unique().drop_null().sort()
    names, elsewhere = {text: index for index, text in enumerate(texts.to_pylist())}, len(texts)
    row, rack = {}, {}
    for name, racks in lists.items():
        row[name] = np.repeat(np.arange(len(rows)), racks.value_lengths().fill_null(0).to_numpy())
        coded = racks.flatten().dictionary_encode()
        codes = np.array([names.get(text, elsewhere) for text in coded.dictionary.to_pylist()] + [-1], np.int64)
        rack[name] = codes[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    lengths = np.bincount(row["replica_racks"], minlength=len(rows))
    replicas = np.full((len(rows), max(int(lengths.max(initial=0)), 1)), -2, np.int64)
    replicas[np.arange(replicas.shape[1]) < lengths[:, None]] = rack["replica_racks"]
    # The last columns: racks of members where no replica can be, which each member can choose, and unknown racks.
    reads = np.zeros((len(rows), len(names) + 2), np.int64)
    size = rows["read_bytes"].combine_chunks().flatten().to_numpy()
    most = 2**62 // np.maximum(np.bincount(row["read_from"]), 1)  # no sum over the racks of a partition wraps
    np.add.at(reads, (row["read_from"], rack["read_from"]), np.minimum(size, most[row["read_from"]]))
    brokers = np.zeros((len(rows), len(names) + 1), bool)
    brokers[row["broker_racks"], rack["broker_racks"]] = True
    return _Partitions(replicas, reads[:, :-1], reads[:, -1], brokers, texts)


def _find_changes(partitions: _Partitions) -> Iterator[tuple[IntArray, pa.Table]]:
    """Yields the row indexes and the columns of `MOVE_COLUMNS`, by kind of change."""
    reads, unknown = partitions.reads, partitions.without_rack
    num_partitions, racks = reads.shape
    if not num_partitions or not racks:
        return
    partition = np.arange(num_partitions)
    leader, total = partitions.replicas[:, 0], reads.sum(axis=1)
    placed = np.stack([(partitions.replicas == rack).sum(axis=1) for rack in range(racks)], axis=1)
    known = leader >= 0
    by_leader = np.where(known, reads[partition, leader], 0)
    front = _busiest_rack(reads, placed > 0)
    reorder = np.where(known, reads[partition, front] - by_leader, 0)
    place = np.argmax(partitions.replicas == front[:, None], axis=1)
    yield _change_rows(partitions, (False, REORDER), reorder - unknown, (leader, front, place), total - by_leader)
    removed, loss = _replica_to_remove(partitions, placed)
    free = partitions.brokers & (placed == 0)
    to = _busiest_rack(reads, free)
    can_move = known & free.any(axis=1)
    gain = np.where(can_move, reads[partition, to] - by_leader, 0)
    better = np.where(gain > np.maximum(reorder, 0), gain - unknown, 0)
    yield _change_rows(partitions, (False, MOVE), better, (leader, to, removed), total - by_leader)
    far = (reads * (placed == 0)).sum(axis=1)
    single = (partitions.replicas >= -1).sum(axis=1) == 1
    gain = np.where(can_move, reads[partition, to] - loss - np.where(single, unknown, 0), 0)
    yield _change_rows(partitions, (True, MOVE), gain, (partitions.replicas[partition, removed], to, removed), far)


def _busiest_rack(reads: IntArray, among: BoolArray) -> IntArray:
    """Returns the rack that reads most of each partition; in a tie, the first by name."""
    most: IntArray = np.argmax(np.where(among, reads, MIN_INT64), axis=1)
    return most


def _replica_to_remove(partitions: _Partitions, placed: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the index of the replica to remove from each partition, and the bytes its rack then reads elsewhere."""
    partition = np.arange(len(partitions.reads))
    best, removed = np.full(len(partition), np.iinfo(np.int64).max), np.zeros(len(partition), np.int64)
    single = (partitions.replicas >= -1).sum(axis=1) == 1
    for place in range(partitions.replicas.shape[1]):
        rack = partitions.replicas[:, place]
        alone = (rack >= 0) & (placed[partition, rack] == 1)
        loss = np.where(alone, partitions.reads[partition, rack], 0)
        # The leader stays, unless it is the only replica.
        is_candidate = (rack >= -1) & ((place > 0) | single) & (loss <= best)
        best, removed = np.where(is_candidate, loss, best), np.where(is_candidate, place, removed)
    return removed, best


def _change_rows(
    partitions: _Partitions,
    change: tuple[bool, str],
    saved: IntArray,
    racks_and_index: tuple[IntArray, IntArray, IntArray],
    cross_zone_bytes: IntArray,
) -> tuple[IntArray, pa.Table]:
    """Returns the partitions that a change improves, and a row of each."""
    indexes = np.flatnonzero(saved > 0)
    from_rack, to_rack, replica_index = (values[indexes] for values in racks_and_index)
    columns = {
        "kind": pa.repeat(pa.scalar(change[1]), len(indexes)),
        "follower_fetching": pa.repeat(pa.scalar(change[0]), len(indexes)),
        "from_rack": partitions.racks.take(pa.array(from_rack, mask=from_rack < 0)),
        "to_rack": partitions.racks.take(pa.array(to_rack)),
        "replica_index": replica_index,
        "cross_zone_bytes_per_day": cross_zone_bytes[indexes],
        "saved_bytes_per_day": saved[indexes],
    }
    return indexes, pa.table(columns, MOVE_COLUMNS)
