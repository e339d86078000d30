"""What is known of clusters that are to be reassigned, a row per fact; from names to numbers.

    kind       columns
    BROKER     broker_id, rack_id, amount (1: fenced)
    REMOVED    broker_id
    ADDED      broker_id, rack_id
    RACK       broker_id, rack_id: its new rack
    PARTITION  topic, partition, replicas
    SIZE       topic, partition, amount (bytes)
    FACTOR     topic, amount: its new replication factor
    COUNT      topic, amount: its new number of partitions

The rows may come in any order; brokers are numbered by id, partitions by topic (in byte order) and partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.numeric.array_types import IntArray
from spark_assign.replicas.kernel.replica_cluster import NO_BROKER, ReplicaCluster

BROKER, REMOVED, ADDED, RACK, PARTITION, SIZE, FACTOR, COUNT = range(8)

NO_BROKERS = "no-brokers"
UNKNOWN_BROKER = "unknown-broker"
KNOWN_BROKER = "known-broker"
DUPLICATE_BROKER = "duplicate-broker"
UNKNOWN_TOPIC = "unknown-topic"
DUPLICATE_PARTITION = "duplicate-partition"
BAD_REPLICAS = "bad-replicas"
FEWER_PARTITIONS = "fewer-partitions"
TOO_MANY_PARTITIONS = "too-many-partitions"
INVALID_REPLICATION_FACTOR = "invalid-replication-factor"

MOST_PARTITIONS = 1_000_000
"""Of a topic that grows; more is one zero too many, and would not fit into memory."""


class RejectedError(Exception):
    """A cluster that cannot be planned: a code, and what to mend."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


@dataclass(frozen=True)
class NamedCluster:
    """A cluster, and the names of what it numbers."""

    cluster: ReplicaCluster
    broker_id: IntArray
    excluded: dict[int, str]
    """Of brokers (by number) that may have no replicas: `removed-broker` or `fenced-broker`."""
    topic: list[str]
    partition: IntArray
    voluntary: bool
    """Whether the change adds brokers."""


def split_by_cluster(facts: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The facts of each cluster, clusters by name."""
    coded = facts["cluster"].combine_chunks().dictionary_encode()
    names = coded.dictionary.to_pylist()
    codes = coded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    facts = facts.take(pa.array(order))
    ends = np.cumsum(np.bincount(codes, minlength=len(names)))
    for name, code in sorted((name, code) for code, name in enumerate(names)):
        begin = int(ends[code - 1]) if code else 0
        yield name, facts.slice(begin, int(ends[code]) - begin)


def read_cluster(facts: pa.Table) -> NamedCluster:
    """Read the facts of one cluster.

    Raises:
        RejectedError: facts that contradict each other, or a change that cannot be.
    """
    kind = facts["kind"].to_numpy()
    rows = {each: facts.filter(pa.array(kind == each)) for each in range(8)}
    racks, gone = _brokers(rows)
    ids = np.array(sorted(racks), np.int64)
    known = sorted({rack for rack in racks.values() if rack is not None}, key=str.encode)
    rack_number = {rack: number for number, rack in enumerate([None, *known])}
    topics, partition, current = _partitions(rows[PARTITION], ids)
    topics, partition, current = _with_new(rows[COUNT], topics, partition, current)
    names = np.array(topics, dtype=object)
    factor = _factors(rows[FACTOR], names, partition, current, int(len(ids) - len(gone)))
    weight, weighed = _weights(rows[SIZE], names, partition)
    usable = np.array([int(broker) not in gone for broker in ids], bool)
    return NamedCluster(
        ReplicaCluster(
            rack=np.array([rack_number[racks[broker]] for broker in ids.tolist()], np.int64),
            usable=usable,
            current=current,
            replication_factor=factor,
            weight=weight,
            weighed=weighed,
        ),
        broker_id=ids,
        excluded={number: gone[broker] for number, broker in enumerate(ids.tolist()) if broker in gone},
        topic=topics,
        partition=partition,
        voluntary=rows[ADDED].num_rows > 0,
    )


def _brokers(rows: dict[int, pa.Table]) -> tuple[dict[int, str | None], dict[int, str]]:
    """The rack of every broker, before or after the change, and why some may have no replicas."""
    known = _by_broker(rows[BROKER], "brokers")
    removed, added, racks = (
        _by_broker(rows[each], name) for each, name in ((REMOVED, "removed"), (ADDED, "added"), (RACK, "racks"))
    )
    if twice := sorted(set(known) & set(added)):
        raise RejectedError(KNOWN_BROKER, f"added: broker {twice[0]} is in brokers already. Leave it out")
    mentioned = set(pc.unique(pc.list_flatten(rows[PARTITION]["replicas"])).drop_null().to_pylist())
    every: dict[int, str | None] = {broker: row["rack_id"] for broker, row in (known | added).items()}
    for name, brokers in (("removed", removed), ("racks", racks)):
        if strange := sorted(set(brokers) - set(every) - (mentioned if name == "removed" else set())):
            raise RejectedError(UNKNOWN_BROKER, f"{name}: brokers has no broker {strange[0]}. Check its id")
    if lost := sorted(mentioned - set(every) - set(removed)):
        remedy = "Add it to brokers, or remove it by the change to move its replicas away"
        raise RejectedError(UNKNOWN_BROKER, f"replicas names broker {lost[0]}, which brokers does not have. {remedy}")
    gone = {broker: "fenced-broker" for broker, row in known.items() if row["amount"]}
    gone |= dict.fromkeys(removed, "removed-broker")
    every |= {broker: None for broker in removed if broker not in every}
    every |= {broker: row["rack_id"] for broker, row in racks.items()}
    if not set(every) - set(gone):
        raise RejectedError(NO_BROKERS, "No broker is left that is neither removed nor fenced. Add one")
    return every, gone


def _by_broker(rows: pa.Table, table: str) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for row in rows.select(["broker_id", "rack_id", "amount"]).to_pylist():
        if row["broker_id"] in found:
            raise RejectedError(DUPLICATE_BROKER, f"{table}: broker {row['broker_id']} is listed twice. Keep one row")
        found[row["broker_id"]] = row
    return found


def _partitions(rows: pa.Table, ids: IntArray) -> tuple[list[str], IntArray, IntArray]:
    """Topic, partition and replicas (by broker number) of each partition, sorted."""
    rows = rows.select(["topic", "partition", "replicas"]).sort_by([("topic", "ascending"), ("partition", "ascending")])
    topics, partition = rows["topic"].to_pylist(), rows["partition"].to_numpy().astype(np.int64)
    lists = rows["replicas"].combine_chunks()
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    flat = pc.list_flatten(lists)
    if not sizes.all() or flat.null_count or (partition < 0).any():
        at = int(np.flatnonzero((sizes == 0) | (partition < 0))[0]) if not sizes.all() or (partition < 0).any() else 0
        where = f"topic={topics[at]}, partition={partition[at]}"
        raise RejectedError(BAD_REPLICAS, f"replicas: empty, null or no partition, e.g. {where}. List the broker ids")
    same = np.flatnonzero((partition[1:] == partition[:-1]) & (np.array(topics[1:]) == np.array(topics[:-1])))
    if len(same):
        where = f"topic={topics[same[0]]}, partition={partition[same[0]]}"
        raise RejectedError(DUPLICATE_PARTITION, f"replicas: the same key twice: {where}. Keep one row per partition")
    current = np.full((len(topics), int(sizes.max(initial=1))), NO_BROKER)
    place = np.arange(len(flat)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    current[np.repeat(np.arange(len(topics)), sizes), place] = np.searchsorted(ids, flat.to_numpy(zero_copy_only=False))
    ordered = np.sort(current, axis=1)
    twice = np.flatnonzero(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NO_BROKER)).any(axis=1))
    if len(twice):
        where = f"topic={topics[twice[0]]}, partition={partition[twice[0]]}"
        raise RejectedError(BAD_REPLICAS, f"replicas: a broker twice: {where}. List every broker once")
    return topics, partition, current


def _with_new(
    counts: pa.Table, topics: list[str], partition: IntArray, current: IntArray
) -> tuple[list[str], IntArray, IntArray]:
    """The same with the partitions that are to be added."""
    if not counts.num_rows:
        return topics, partition, current
    there: dict[str, int] = {}
    for topic, number in zip(topics, partition.tolist(), strict=True):
        there[topic] = max(there.get(topic, 0), number + 1)
    names, numbers = list(topics), partition.tolist()
    for topic, wanted in _by_topic(counts, "partitions").items():
        if topic not in there:
            raise RejectedError(UNKNOWN_TOPIC, f"partitions: replicas has no topic {topic}. Place it as a new one")
        if wanted < there[topic]:
            detail = f"partitions: {topic} has {there[topic]} partitions, {wanted} were asked. Kafka removes none"
            raise RejectedError(FEWER_PARTITIONS, detail)
        if wanted > MOST_PARTITIONS:
            detail = f"partitions: {topic} is to have {wanted:,} partitions, expected at most {MOST_PARTITIONS:,}"
            raise RejectedError(TOO_MANY_PARTITIONS, detail)
        names += [topic] * (wanted - there[topic])
        numbers += range(there[topic], wanted)
    grown = np.full((len(names), current.shape[1]), NO_BROKER)
    grown[: len(topics)] = current
    order = sorted(range(len(names)), key=lambda at: (names[at].encode(), numbers[at]))
    return [names[at] for at in order], np.array([numbers[at] for at in order], np.int64), grown[order]


def _by_topic(rows: pa.Table, table: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows.select(["topic", "amount"]).to_pylist():
        if found.setdefault(row["topic"], row["amount"]) != row["amount"]:
            raise RejectedError(UNKNOWN_TOPIC, f"{table}: topic {row['topic']} is listed twice. Keep one row")
    return found


def _factors(rows: pa.Table, names: Any, partition: IntArray, current: IntArray, usable: int) -> IntArray:
    """The replication factor of each partition afterwards; new ones have that of their topic's first partition."""
    factor = (current != NO_BROKER).sum(axis=1)
    new = np.flatnonzero(factor == 0)
    if len(new):
        first: dict[str, int] = {}
        for topic, each in zip(names.tolist(), factor.tolist(), strict=True):
            first.setdefault(topic, each)
        factor[new] = [first[topic] for topic in names[new].tolist()]
    if rows.num_rows:
        wanted = _by_topic(rows, "replication_factors")
        if unknown := sorted(set(wanted) - set(names.tolist())):
            raise RejectedError(
                UNKNOWN_TOPIC, f"replication_factors: replicas has no topic {unknown[0]}. Check its name"
            )
        factor = np.array(
            [wanted.get(topic, each) for topic, each in zip(names.tolist(), factor.tolist(), strict=True)], np.int64
        )
    wrong = np.flatnonzero((factor < 1) | (factor > usable))
    if len(wrong):
        at = wrong[0]
        detail = f"topic {names[at]} needs {factor[at]} replicas, {usable} broker(s) may have some. Add brokers"
        raise RejectedError(INVALID_REPLICATION_FACTOR, detail)
    return np.asarray(factor, np.int64)


def _weights(rows: pa.Table, names: Any, partition: IntArray) -> tuple[IntArray, bool]:
    """Bytes of each partition, 1 at least, the mean where unknown; 1 each where nothing is known."""
    if not rows.num_rows:
        return np.ones(len(partition), np.int64), False
    keys = zip(rows["topic"].to_pylist(), rows["partition"].to_pylist(), strict=True)
    sizes = dict(zip(keys, rows["amount"].to_pylist(), strict=True))
    known = [each for each in sizes.values() if each is not None]
    mean = sum(known) // max(len(known), 1)
    found = (sizes.get(key) for key in zip(names.tolist(), partition.tolist(), strict=True))
    return np.array([max(1, mean if each is None else each) for each in found], np.int64), True
