"""Reads the input tables of clusters to reassign (`TABLES`), and replaces names with indexes.

Rows can have any order. Brokers are sorted by id, partitions by topic (in byte order) and partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.groups.kernel.tagged_rows import InputTable, table_rows
from spark_assign.numeric.arrays import MAX_REPLICAS, IntArray, key_ranges
from spark_assign.replicas.kernel.replica_cluster import NO_BROKER, ReplicaCluster

LIMITS = "in_bytes_per_second", "out_bytes_per_second", "disk_bytes"
TABLES = {
    "brokers": InputTable(("broker_id",), ("rack_id", "fenced", "cordoned"), "duplicate-broker"),
    "removed": InputTable(("broker_id",), (), "duplicate-broker"),
    "added": InputTable(("broker_id",), ("rack_id",), "duplicate-broker"),
    "racks": InputTable(("broker_id",), ("rack_id",), "duplicate-broker"),
    "replicas": InputTable(("topic", "partition"), ("replicas",), "duplicate-partition"),
    "replication_factors": InputTable(("topic",), ("replication_factor",), "unknown-topic"),
    "partitions": InputTable(("topic",), ("partitions",), "unknown-topic"),
    "sizes": InputTable(("topic", "partition"), ("bytes",), "duplicate-partition"),
    "rates": InputTable(("topic", "partition"), ("in_rate", "groups")),
    "capacities": InputTable(("broker_id",), LIMITS, "duplicate-broker"),
    "log_dirs": InputTable(("broker_id", "log_dir"), ("error", "total_bytes", "usable_bytes", "cordoned")),
    "log_dir_replicas": InputTable(("topic", "partition", "broker_id"), ("log_dir", "bytes", "is_future")),
}
"""The input tables. `rates`: bytes/s that are written to a partition, and the number of groups that read it."""

MAX_BYTES = 2**60
"""Maximum number of bytes of all replicas of a cluster, so that sums are longs."""

MAX_RATE = 1e12
"""Maximum rate of a partition, in bytes/s."""

MAX_RATES = 2**62
"""Maximum rate of a cluster in bytes/s, the sum over all replicas and all groups that read them, so that sums are
longs."""

MOST_PARTITIONS = 1_000_000
"""Maximum number of partitions of a topic that grows, and of new partitions of a cluster; more is a typing error and
would not fit into memory."""


MAX_CELLS = 100_000_000
"""Maximum number of partitions times the replicas of the longest list: the lists are rows of a matrix."""


class RejectedError(Exception):
    """A cluster can't be planned: a code, and how to correct it."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


@dataclass(frozen=True)
class NamedCluster:
    """A cluster, and the names of its brokers and partitions."""

    cluster: ReplicaCluster
    broker_id: IntArray
    excluded: dict[int, str]
    """`removed-broker`, `fenced-broker`, or `cordoned-broker` by the index of each broker that can't have replicas."""
    topic: list[str]
    partition: IntArray
    voluntary: bool
    """Whether the change adds brokers, so that voluntary moves are allowed by default."""
    in_rate: IntArray
    """Bytes/s written to each partition; 0 if unknown."""
    read_rate: IntArray
    """Bytes/s that consumers read from each partition; 0 if unknown."""
    capacities: dict[str, dict[int, int]]
    """Capacities by column of `tables.replicas.CAPACITIES`, and by broker id."""
    log_dirs: pa.Table = field(default_factory=lambda: pa.table({}))
    """Log directories of brokers, as in `TABLES`."""
    logs: pa.Table = field(default_factory=lambda: pa.table({}))
    """Logs in the directories, as in `TABLES`."""


def split_by_cluster(facts: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yields the facts of each cluster, sorted by cluster name."""
    coded = facts["cluster"].combine_chunks().dictionary_encode()
    names = coded.dictionary.to_pylist()
    order = np.argsort(coded.indices.to_numpy(), kind="stable")
    facts, codes = facts.take(pa.array(order)), coded.indices.to_numpy()[order]
    for name, start, end in sorted((names[codes[start]], start, end) for start, end in key_ranges(codes)):
        yield name, facts.slice(start, end - start)


def read_cluster(facts: pa.Table) -> NamedCluster:
    """Reads the facts of one cluster.

    Raises:
        RejectedError: facts that contradict each other, or an impossible change.
    """
    rows = {name: table_rows(facts, name, table) for name, table in TABLES.items()}
    racks, excluded = _brokers(rows)
    ids = np.array(sorted(racks), np.int64)
    rack_names = sorted({rack for rack in racks.values() if rack is not None}, key=str.encode)
    rack_index = {rack: index for index, rack in enumerate([None, *rack_names])}
    topics, partition, current = _partitions(rows["replicas"], ids)
    topics, partition, current = _add_new_partitions(rows["partitions"], topics, partition, current)
    factor = _factors(rows["replication_factors"], topics, current, len(ids) - len(excluded))
    weight, weighed = _weights(rows["sizes"], topics, partition)
    most_replicas = max(current.shape[1], int(factor.max(initial=1)))
    if sum(weight.tolist()) * most_replicas > MAX_BYTES:
        raise RejectedError("bad-sizes", f"sizes: more than {MAX_BYTES:,} bytes in a cluster. Correct the rows")
    rates = (_amounts(rows["rates"], name, topics, partition) for name in ("in_rate", "groups"))
    in_rate, groups = ([amount or 0 for amount in amounts] for amounts in rates)
    if min(in_rate, default=0) < 0:
        problem = f"in_bytes_per_second is negative, or not a number up to {MAX_RATE:,.0f}. Correct the row"
        row = next(row for row, rate in enumerate(in_rate) if rate < 0)
        raise RejectedError("bad-load", f"loads: topic={topics[row]}, partition={partition[row]}: {problem}")
    read_rate = [rate * max(number, 1) for rate, number in zip(in_rate, groups, strict=True)]  # read once at least
    if (sum(in_rate) + sum(read_rate)) * most_replicas > MAX_RATES:
        problem = f"replicas and groups have more than {MAX_RATES:,} bytes/s of in_bytes_per_second in a cluster"
        raise RejectedError("bad-load", f"loads: {problem}. Correct the rows")
    return NamedCluster(
        ReplicaCluster(
            rack=np.array([rack_index[racks[broker]] for broker in ids.tolist()], np.int64),
            usable=~np.isin(ids, list(excluded)),
            current=current,
            replication_factor=factor,
            weight=weight,
            weighed=weighed,
        ),
        broker_id=ids,
        excluded={index: excluded[broker] for index, broker in enumerate(ids.tolist()) if broker in excluded},
        topic=topics,
        partition=partition,
        voluntary=rows["added"].num_rows > 0,
        in_rate=np.array(in_rate, np.int64),
        read_rate=np.array(read_rate, np.int64),
        capacities={name: _values(rows["capacities"], "capacities", name) for name in LIMITS},
        log_dirs=rows["log_dirs"],
        logs=rows["log_dir_replicas"],
    )


def _brokers(rows: dict[str, pa.Table]) -> tuple[dict[int, str | None], dict[int, str]]:
    """Returns, by broker id, the rack of every old or new broker, and why brokers can't have replicas."""
    known, removed, added, racks = (_by_broker(rows[name], name) for name in ("brokers", "removed", "added", "racks"))
    excluded = {broker: "cordoned-broker" for broker, row in known.items() if row["cordoned"]}
    excluded |= {broker: "fenced-broker" for broker, row in known.items() if row["fenced"]}
    if duplicates := sorted(set(known) & set(added)):
        broker = duplicates[0]
        if excluded.get(broker) == "cordoned-broker":
            remedy = (
                "Kafka 4.4 refuses a target with it. Clear its cordoned.log.dirs, and set cordoned to false in brokers"
            )
            raise RejectedError(
                "cordoned-broker", f"added: all log directories of broker {broker} are cordoned. {remedy}"
            )
        raise RejectedError("known-broker", f"added: broker {broker} already exists in brokers. Remove it from added")
    mentioned = set(pc.unique(pc.list_flatten(rows["replicas"]["replicas"])).drop_null().to_pylist())
    all_racks: dict[int, str | None] = {broker: row["rack_id"] for broker, row in (known | added).items()}
    for name, brokers in (("removed", removed), ("racks", racks)):
        if unknown := sorted(set(brokers) - set(all_racks) - (mentioned if name == "removed" else set())):
            raise RejectedError("unknown-broker", f"{name}: brokers has no broker {unknown[0]}. Check its id")
    if unlisted := sorted(mentioned - set(all_racks) - set(removed)):
        remedy = "Add it to brokers, or remove the broker to move its replicas"
        raise RejectedError("unknown-broker", f"replicas: brokers has no broker {unlisted[0]}. {remedy}")
    excluded |= dict.fromkeys(removed, "removed-broker")
    all_racks |= {broker: None for broker in removed if broker not in all_racks}
    all_racks |= {broker: row["rack_id"] for broker, row in racks.items()}
    if not set(all_racks) - set(excluded):
        raise RejectedError("no-brokers", "All brokers are removed, fenced, or cordoned. Add a broker")
    return all_racks, excluded


def _by_broker(rows: pa.Table, table: str) -> dict[int, dict[str, Any]]:
    """Returns rows by broker id."""
    row_by_broker: dict[int, dict[str, Any]] = {}
    for row in rows.to_pylist():
        if row["broker_id"] in row_by_broker:
            raise _listed_twice(table, row["broker_id"])
        row_by_broker[row["broker_id"]] = row
    return row_by_broker


def _values(rows: pa.Table, table: str, column: str) -> dict[Any, int]:
    """Returns the known values of a column by broker id or topic. Rows with the same value count once."""
    values: dict[Any, int] = {}
    for name, value in zip(rows[TABLES[table].key[0]].to_pylist(), rows[column].to_pylist(), strict=True):
        if value is not None and values.setdefault(name, value) != value:
            raise _listed_twice(table, name)
    return values


def _listed_twice(table: str, name: object) -> RejectedError:
    noun = TABLES[table].key[0].removesuffix("_id")
    return RejectedError(TABLES[table].duplicate, f"{table}: {noun} {name} is listed twice. Remove one of the rows")


def _partitions(rows: pa.Table, ids: IntArray) -> tuple[list[str], IntArray, IntArray]:
    """Returns the topic, partition, and replicas (broker indexes) of each partition, sorted."""
    rows = rows.sort_by([("topic", "ascending"), ("partition", "ascending")])
    topics, partition = rows["topic"].to_pylist(), rows["partition"].to_numpy().astype(np.int64)
    lists = rows["replicas"].combine_chunks()
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = pc.list_flatten(lists)

    def rejection(code: str, problem: str, row: int, remedy: str) -> RejectedError:
        return RejectedError(code, f"replicas: {problem} topic={topics[row]}, partition={partition[row]}. {remedy}")

    faulty = np.flatnonzero((sizes == 0) | (partition < 0))
    if len(faulty) or flat.null_count:
        row = faulty[0] if len(faulty) else pc.list_parent_indices(lists).filter(flat.is_null())[0].as_py()
        raise rejection("bad-replicas", "empty, null, or a partition below 0, e.g.", row, "Correct the row")
    is_same_topic = pc.equal(rows["topic"][1:], rows["topic"][:-1]).to_numpy()  # NumPy's texts are all as wide as one
    repeated = np.flatnonzero((partition[1:] == partition[:-1]) & is_same_topic)
    if len(repeated):
        raise rejection(TABLES["replicas"].duplicate, "the same key twice:", repeated[0], "Keep one row per partition")
    longer = np.flatnonzero(sizes > len(ids))  # before a matrix as wide as the longest row
    if len(longer):
        raise rejection("bad-replicas", "duplicate broker, e.g.", longer[0], "Remove one of them")
    most = min(MAX_REPLICAS, MAX_CELLS // max(len(topics), 1))
    if sizes.max(initial=0) > most:
        problem = f"more than {most:,} replicas of one of {len(topics):,} partitions:"
        raise rejection("bad-replicas", problem, int(sizes.argmax()), "Correct the row")
    current = np.full((len(topics), int(sizes.max(initial=1))), NO_BROKER)
    position = np.arange(len(flat)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    current[np.repeat(np.arange(len(topics)), sizes), position] = np.searchsorted(
        ids, flat.to_numpy(zero_copy_only=False)
    )
    ordered = np.sort(current, axis=1)
    repeated = np.flatnonzero(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NO_BROKER)).any(axis=1))
    if len(repeated):
        raise rejection("bad-replicas", "duplicate broker, e.g.", repeated[0], "Remove one of them")
    return topics, partition, current


def _add_new_partitions(
    counts: pa.Table, topics: list[str], partition: IntArray, current: IntArray
) -> tuple[list[str], IntArray, IntArray]:
    """Adds the new partitions, which have no replicas yet."""
    if not counts.num_rows:
        return topics, partition, current
    num_partitions: dict[str, int] = {}
    names, indexes = list(topics), partition.tolist()
    for topic, index in zip(topics, indexes, strict=True):
        num_partitions[topic] = max(num_partitions.get(topic, 0), index + 1)
    for topic, wanted in _values(counts, "partitions", "partitions").items():
        if topic not in num_partitions:
            raise RejectedError("unknown-topic", f"partitions: replicas has no topic {topic}. Use place for new topics")
        if wanted < num_partitions[topic]:
            detail = (
                f"partitions: {topic} has {num_partitions[topic]} partitions, and Kafka can't reduce them to {wanted}"
            )
            raise RejectedError("fewer-partitions", detail)
        added = len(names) - len(topics) + wanted - num_partitions[topic]
        if max(wanted, added) > MOST_PARTITIONS:
            excess = f"{wanted:,} partitions" if wanted > MOST_PARTITIONS else f"{added:,} new partitions up to those"
            detail = f"partitions: {excess} of {topic}, expected at most {MOST_PARTITIONS:,}"
            raise RejectedError("too-many-partitions", detail)
        if (len(topics) + added) * current.shape[1] > MAX_CELLS:
            detail = f"replicas: a partition has {current.shape[1]:,} replicas, too many for {wanted:,} of {topic}"
            raise RejectedError("bad-replicas", f"{detail}. Correct the row")
        names += [topic] * (wanted - num_partitions[topic])
        indexes += range(num_partitions[topic], wanted)
    grown = np.full((len(names), current.shape[1]), NO_BROKER)
    grown[: len(topics)] = current
    rank = {topic: place for place, topic in enumerate(sorted(num_partitions, key=str.encode))}
    order = sorted(range(len(names)), key=lambda row: (rank[names[row]], indexes[row]))
    return [names[row] for row in order], np.array([indexes[row] for row in order], np.int64), grown[order]


def _factors(rows: pa.Table, topics: list[str], current: IntArray, usable: int) -> IntArray:
    """Returns the new replication factor of each partition; a new partition has that of its topic's first partition."""
    factor = (current != NO_BROKER).sum(axis=1)
    new = np.flatnonzero(factor == 0)
    if len(new):
        first: dict[str, int] = {}
        for topic, topic_factor in zip(topics, factor.tolist(), strict=True):
            first.setdefault(topic, topic_factor)
        factor[new] = [first[topics[row]] for row in new.tolist()]
    if rows.num_rows:
        wanted = _values(rows, "replication_factors", "replication_factor")
        if unknown := sorted(set(wanted) - set(topics)):
            detail = f"replication_factors: replicas has no topic {unknown[0]}. Check its name"
            raise RejectedError("unknown-topic", detail)
        factor = np.array([wanted.get(topic, old) for topic, old in zip(topics, factor.tolist(), strict=True)])
    invalid = np.flatnonzero((factor < 1) | (factor > usable))
    if len(invalid):
        row = invalid[0]
        detail = (
            f"topic {topics[row]} needs {factor[row]} replicas, {usable} broker(s) can have replicas. Add a broker "
            f"(--add), or lower the replication factor (--replication-factor '*={max(usable, 1)}')"
        )
        raise RejectedError("invalid-replication-factor", detail)
    return np.asarray(factor, np.int64)


def _weights(rows: pa.Table, topics: list[str], partition: IntArray) -> tuple[IntArray, bool]:
    """Returns the bytes of each partition (at least 1; the mean if unknown) and True, or without sizes 1s and False."""
    if not rows.num_rows:
        return np.ones(len(partition), np.int64), False
    known = [size for size in rows["bytes"].to_pylist() if size is not None]
    if (least := min(known, default=0)) < 0:
        row = rows.slice(rows["bytes"].to_pylist().index(least), 1).to_pylist()[0]
        raise RejectedError("bad-sizes", f"sizes: {row['topic']}-{row['partition']} has {least} bytes. Correct the row")
    mean = sum(known) // max(len(known), 1)
    weights = _amounts(rows, "bytes", topics, partition)
    return np.array([max(1, mean if size is None else size) for size in weights], np.int64), True


def _amounts(rows: pa.Table, column: str, topics: list[str], partition: IntArray) -> list[int | None]:
    """Returns the value of each partition in a column; None if unknown."""
    if not rows.num_rows:
        return [None] * len(topics)
    keys = list(zip(rows["topic"].to_pylist(), rows["partition"].to_pylist(), strict=True))
    amounts = dict(zip(keys, rows[column].to_pylist(), strict=True))
    if len(amounts) < len(keys):  # rates have one row per partition
        topic, number = min(key for key, times in Counter(keys).items() if times > 1)
        detail = f"sizes: topic={topic}, partition={number} is listed twice. Keep one row per partition"
        raise RejectedError(TABLES["sizes"].duplicate, detail)
    return [amounts.get(key) for key in zip(topics, partition.tolist(), strict=True)]
