"""Says what a change of brokers, replicas, or leaders does to a group: the rules, and the source of each.

Principles
    1. A minimum is what happens in any case, a maximum what can happen: changes between two heartbeats of a group, or
       between two metadata refreshes of a client, count as one.
    2. An epoch is no rebalance. A rebalance is counted only if members rejoin, so that eager members stop.
    3. What the fleet doesn't know (which member leads, the release of its client) widens the range.

Example: a topic has one partition with a replica in rack a, which moves to rack b. While it moves, the replicas are in
{a, b}. A consumer group gets one or two new epochs, and nothing stops. A classic group of Java clients 3.5 or later,
all with `client.rack`, rebalances once or twice. A classic group without `client.rack` notices nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.assignors.release_rules import release_bounds
from spark_assign.groups.kernel.client_settings import UNSEEN, UNSEEN_BY_LEADER
from spark_assign.java.hash_map import java_key, joined_hashes, string_hashes
from spark_assign.numeric.arrays import MAX_PARTITIONS, IntArray, ranges_by_length, starts_new_key
from spark_assign.replicas.kernel.reassignment_facts import split_by_cluster

RESTART, DOWN, REASSIGN, GROW = EVENTS = ("restart", "down", "reassign", "grow")
"""Kinds of events."""

LIVE, SOURCE, INFERRED = "live", "source", "inferred"
"""How a rule is known: seen on Kafka 4.4.0, read in Kafka's source, or inferred from both."""


@dataclass(frozen=True)
class Rule:
    """The source of a rule, the release from which it holds, and how it is known."""

    source: str
    since: str
    evidence: str


COORDINATOR, LEADERS, OFFLINE, RACK_HASH, LEADER_RACKS, BOUNCE, GROWTH = (
    *("coordinator-moved", "leaders-moved", "partition-offline", "rack-hash", "leader-racks", "broker-bounce"),
    "topic-grown",
)
RULES = {
    COORDINATOR: Rule("GroupCoordinatorService.partitionFor", "any release", LIVE),
    LEADERS: Rule("ConsumerCoordinator.rejoinNeededOrPending", "any release", LIVE),
    OFFLINE: Rule("ReplicationControlManager", "any release", INFERRED),
    RACK_HASH: Rule("KIP-1101, Utils.computeTopicHash", "brokers 4.1", LIVE),
    LEADER_RACKS: Rule("KAFKA-14867, ConsumerCoordinator.MetadataSnapshot", "Java clients 3.5", LIVE),
    BOUNCE: Rule("KAFKA-20778, ConsumerCoordinator.MetadataSnapshot", "Java clients 3.5 to 4.3", LIVE),
    GROWTH: Rule("ConsumerCoordinator.rejoinNeededOrPending, KIP-1101", "any release", LIVE),
}
"""Causes of effects, with their rules."""

CLEAN_SECONDS = (0.0, 1.0)
"""Time without a leader after a clean stop: at most `retry.backoff.max.ms`, until clients know the new one
(inferred)."""
CRASH_SECONDS = (7.0, 10.0)
"""The same after a crash: `broker.session.timeout.ms` (9 s) less at most one `broker.heartbeat.interval.ms` (2 s) until
the controller fences the broker, and `retry.backoff.max.ms` (inferred)."""

Range = tuple[int, int]
Row = dict[str, Any]
NEVER: Range = (0, 0)


def coordinator_hashes(group_ids: list[str]) -> IntArray:
    """Returns abs(`String.hashCode`) of each group ID, as `GroupCoordinatorService.partitionFor` computes it.

    Modulo the number of partitions of `__consumer_offsets`, this is the partition of the group; its leader coordinates
    the group.

    Examples:
        >>> coordinator_hashes(["orders-service", "a"]).tolist()
        [23943117, 97]
    """
    return _absolute(string_hashes(group_ids))


def _absolute(hashes: IntArray) -> IntArray:
    """Returns `Utils.abs` of unsigned 32-bit hashes as Java's ints."""
    signed = hashes - ((hashes >> 31) << 32)
    return np.where(signed == -(1 << 31), 0, abs(signed))


def add_hashes(batches: Iterable[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    """Adds the hash that determines the coordinator of each text in a column (`coordinator_hashes`)."""
    for batch in batches:
        hashes = pa.array(coordinator_hashes(batch.column(name).to_pylist()), pa.int64())
        yield pa.RecordBatch.from_arrays([*batch.columns, hashes], [*batch.schema.names, "hash"])


MAX_SHARE_PARTITIONS = 100_000_000
"""Maximum number of share partitions of a cluster that are counted, in seconds."""

_AT_ONCE = 1 << 20
"""Number of share partitions that are hashed at once, beside those of one more topic."""


def share_partition_counts(facts: pa.Table, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the number of share groups and of share partitions by partition of `__share_group_state` of each cluster;
    for a cluster with too many, one row without a partition.

    Args:
        facts: cluster, group_id, topic_id, partitions (of the topic), state_partitions (of `__share_group_state`).
        schema: cluster, partition, groups, keys (share partitions).
    """
    for cluster, rows in split_by_cluster(facts):
        sizes = rows["partitions"].to_numpy().astype(np.int64)
        state_partitions = int(pc.max(rows["state_partitions"]).as_py())
        at, groups, keys = np.zeros((3, 1), np.int64)
        is_counted = sizes.sum() <= MAX_SHARE_PARTITIONS and state_partitions <= MAX_PARTITIONS
        if is_counted:
            groups, keys = _count_share_partitions(rows, sizes, state_partitions)
            at = np.flatnonzero(keys)
        columns = [pa.repeat(cluster, len(at)), pa.array(at, pa.int32()), groups[at], keys[at]]
        if not is_counted:
            columns[1] = pa.nulls(1, pa.int32())
        yield pa.table(columns, schema=schema)


def _count_share_partitions(rows: pa.Table, sizes: IntArray, state_partitions: int) -> tuple[IntArray, IntArray]:
    """Returns the number of groups and of share partitions by partition of `__share_group_state`. Their partition has
    the hash of `group:topicId:number`, which is continued from that of `group:topicId:`, so no text is made of each."""
    ids, topics = (rows[name].combine_chunks().dictionary_encode() for name in ("group_id", "topic_id"))
    group, topic = (coded.indices.to_numpy().astype(np.int64) for coded in (ids, topics))
    texts = [f":{text}:" for text in topics.dictionary.to_pylist()]
    lengths = np.array([len(java_key(text)) // 2 for text in texts])
    prefix = string_hashes(ids.dictionary.to_pylist())[group]
    prefix = joined_hashes(prefix, string_hashes(texts)[topic], lengths[topic])
    order = np.argsort(group, kind="stable")
    group, prefix, sizes = group[order], prefix[order], sizes[order]
    digits = np.arange(10) + ord("0")  # the hash of each number as a text
    while len(digits) < sizes.max():
        number = np.arange(len(digits), min(10 * len(digits), int(sizes.max())))
        digits = np.append(digits, 31 * digits[number // 10] + ord("0") + number % 10)
    num_digits = np.searchsorted(10 ** np.arange(1, 8), np.arange(len(digits)), "right") + 1
    (groups, keys), counted = np.zeros((2, state_partitions), np.int64), np.full(state_partitions, -1)
    ends = np.flatnonzero(np.diff(np.cumsum(sizes) // _AT_ONCE)) + 1
    for start, end in pairwise([0, *ends.tolist(), len(sizes)]):
        row, number = np.repeat(np.arange(start, end), sizes[start:end]), ranges_by_length(sizes[start:end])
        state = _absolute(joined_hashes(prefix[row], digits[number], num_digits[number])) % state_partitions
        keys += np.bincount(state, minlength=state_partitions)
        pairs = np.sort(group[row] * state_partitions + state)
        of, state = np.divmod(pairs[starts_new_key(pairs)], state_partitions)
        groups += np.bincount(state[counted[state] != of], minlength=state_partitions)
        np.maximum.at(counted, state, of)
    return groups, keys


def release_range(releases: str | None) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns the oldest and newest possible release of a client, from `groups.leader_version`.

    Examples:
        >>> release_range("2.8-3.3"), release_range("3.4+"), release_range("<2.4"), release_range("4.3.1")
        (((2, 8), (3, 3)), ((3, 4), (99, 0)), ((0, 0), (2, 4)), ((4, 3), (4, 3)))
        >>> release_range(None)
        ((0, 0), (99, 0))
    """
    oldest, newest = release_bounds(releases)
    return oldest[:2], newest[:2]


def watches_racks(row: Row, first: tuple[int, int], last: tuple[int, int]) -> Range:
    """Returns whether the leader's client watches racks: (0, 0) no, (0, 1) maybe, (1, 1) yes.

    A Java leader does so if its own `client.rack` is set; the fleet doesn't know which member leads. Any member of
    librdkafka does so. Clients of other libraries don't.

    Args:
        row: the group.
        first, last: the Java releases that have the behavior.
    """
    library, racked = row["leader_library"], row["racked_members"]
    if row["group_type"] not in (None, "classic") or not racked or library not in (None, "Java", "librdkafka"):
        return NEVER
    if library == "librdkafka":
        return (1, 1)
    oldest, newest = release_range(row["leader_version"])
    if newest < first or oldest > last:
        return NEVER
    is_certain = library == "Java" and first <= oldest and newest <= last and racked == row["members"]
    return (int(is_certain), 1)


def find_effects(row: Row, broker_release: str, downtime_seconds: float) -> Iterator[Row]:
    """Yields the effects of one event on one group.

    Args:
        row: the group and the event (columns of `tables.replicas.GROUP_EVENT_ROWS`).
        broker_release: release of the brokers.
        downtime_seconds: time that a restarted broker is down.
    """
    event, is_crash = row["event"], row["event"] == DOWN
    is_classic = row["group_type"] in (None, "classic")
    if row["max_coordinator"]:
        yield _effect(
            COORDINATOR,
            "No member rejoins. Commits and joins wait until the new coordinator has loaded; a rebalance begins again.",
            moves=(row["min_coordinator"], row["max_coordinator"]),
        )
    if row["max_leaders"]:
        low, high = CRASH_SECONDS if is_crash else CLEAN_SECONDS
        moves = (row["min_leaders"], row["max_leaders"])
        detail = "No member rejoins. Fetching from a moved leader stops until clients know the new one."
        yield _effect(LEADERS, detail, moves=moves, paused=moves[1], seconds=(moves[0] * low, moves[1] * high))
    if row["offline"]:
        down = None if is_crash else row["offline"] * downtime_seconds
        detail = "Partitions without another replica can't be read until the broker is back."
        yield _effect(OFFLINE, detail, paused=row["offline"], seconds=(down, down))
    if not is_classic and row["max_hash"] and not broker_release.startswith("4.0"):
        detail = "Racks of replicas change. The assignor runs again; members get a new epoch, and no member rejoins."
        yield _effect(RACK_HASH, detail, epochs=(row["min_hash"], row["max_hash"]))
    eager = 0 if row["assignor"] == "cooperative-sticky" else row["partitions"]
    stop = "every member gives up all of its partitions" if eager else "members keep what doesn't move"
    if row["max_racks"] and (watched := watches_racks(row, (3, 5), (99, 0))) != NEVER:
        rebalances = (watched[0] * row["min_racks"], row["max_racks"])
        yield _effect(LEADER_RACKS, f"The leader sees other racks of replicas and rejoins: {stop}.", rebalances, eager)
    if event in (RESTART, DOWN) and row["hosted"] and (watched := watches_racks(row, (3, 5), (4, 3))) != NEVER:
        rebalances = (watched[0], 1) if is_crash else (0, 2)
        seen = "goes" if is_crash else "goes, and again as it is back"
        yield _effect(
            BOUNCE, f"The leader sees a replica without a rack as the broker {seen}: {stop}.", rebalances, eager
        )
    if row["grown"] and is_classic:
        library, detail = row["leader_library"], f"The leader sees new partitions and rejoins: {stop}."
        certain = int(library in ("Java", "librdkafka", "franz-go"))
        if library == "librdkafka" and row["assignor"] in UNSEEN_BY_LEADER:
            certain, detail = 0, f"{detail} {UNSEEN}"
        yield _effect(GROWTH, detail, (certain, row["grown"]), eager)
    elif row["grown"] and row["group_type"] == "streams":
        detail = "Members get the new tasks. An application with state or repartition topics of the grown topic fails."
        yield _effect(GROWTH, detail, paused=row["partitions"], epochs=(1, row["grown"] + row["members"]))
    elif row["grown"]:
        detail = "Members get the new partitions without giving up any."
        if is_share := row["group_type"] == "share":
            detail += " Another epoch follows when the coordinator has initialized them."
        yield _effect(GROWTH, detail, epochs=(1, row["grown"] * (1 + is_share)))


def _effect(
    cause: str,
    detail: str,
    rebalances: Range = NEVER,
    paused: int = 0,
    *,
    epochs: Range = NEVER,
    moves: Range = NEVER,
    seconds: tuple[float | None, float | None] | None = None,
) -> Row:
    """Returns an effect as a row. The time of a rebalance is unknown, unless nothing stops."""
    if seconds is None:
        seconds = (0.0, None if paused else 0.0)
    row: Row = {"cause": cause, "detail": detail, "source": RULES[cause].source, "since": RULES[cause].since}
    row |= {"evidence": RULES[cause].evidence, "paused_partitions": paused}
    ranges: dict[str, tuple[float | None, float | None]] = {
        "rebalances": rebalances,
        "epochs": epochs,
        "moves": moves,
        "paused_partition_seconds": seconds,
    }
    for name, (low, high) in ranges.items():
        row |= {f"min_{name}": low, f"max_{name}": high}
    return row


def group_effects(
    events: pa.Table, schema: pa.Schema, *, broker_release: str, downtime_seconds: float
) -> Iterable[pa.Table]:
    """Yields the effects of events on groups (`tables.replicas.EFFECTS`)."""
    key = ("cluster", "group_id", "step", "event", "broker_id")
    for batch in events.to_batches():
        effects = [
            {name: row[name] for name in key} | effect
            for row in batch.to_pylist()
            for effect in find_effects(row, broker_release, downtime_seconds)
        ]
        yield pa.Table.from_pylist(effects, schema)
