"""Balances the log directories (disks) of each broker, with as few moved bytes as possible.

Principles
    1. Logs move between directories of one broker (KIP-113). The target is online and not cordoned (KIP-1066), and what
       arrives fits below the capacity threshold of its volume. What leaves doesn't count, because a broker deletes a
       log only when its copy is complete. A log that is being copied to another directory counts there, and stays.
    2. The share of a directory is proportional to the size of its volume if the broker reports all sizes, else equal.
       Nothing moves within the tolerance.
    3. A replica from another broker is placed first, the largest first, in the directory that is least full with it.
    4. The greedy steps of `balance_loads` follow, and then pairs of logs of two directories that change places.

Example: directory a has logs of 50, 30, and 20 MB, directory b none. With a tolerance of 10 %, both may have 45 to
55 MB. The logs of 30 and 20 MB move from a to b.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from spark_assign.numeric.arrays import BoolArray, FloatArray, IntArray
from spark_assign.replicas.kernel.balance_loads import balance_loads
from spark_assign.replicas.kernel.load_placement import BoundedLoad
from spark_assign.replicas.kernel.reassignment_facts import MAX_BYTES, NamedCluster, RejectedError
from spark_assign.replicas.kernel.replica_cluster import NO_BROKER, ReplicaCluster
from spark_assign.tables.errors import count

LOG_DIRS = "log-dirs"
"""Name of the goal, and reason of the moves."""

ANY = "any"
"""Directory of a replica that stays where it is, or whose broker chooses (`ReassignPartitionsCommand`)."""

MOST_LOG_DIRS = 1_000
"""Maximum number of log directories of a broker."""

ONLINE, OFFLINE, CORDONED, UNKNOWN = "online", "offline", "cordoned", "unknown"
"""States of a log directory."""

_UNLIMITED = float(2**62)
_PATH = ".160"
"""Format of a path in a message: its first characters."""


@dataclass
class LogDirPlan:
    """The result for one cluster. Keys are the index of a partition and the index of a broker.

    Attributes:
        targets: path of the directory that a replica moves to, or in which a new one is placed.
        sources: path of the directory that a replica leaves, also for another broker.
        moved: bytes that a replica moves between two directories.
        balance: one row per directory (`tables.replicas.BALANCE` without the cluster).
        lower_bound: no plan that balances all directories moves fewer bytes within brokers.
        unknown: number of replicas whose directory is unknown.
    """

    targets: dict[tuple[int, int | None], str] = field(default_factory=dict)
    sources: dict[tuple[int, int | None], str] = field(default_factory=dict)
    moved: dict[tuple[int, int], int] = field(default_factory=dict)
    balance: list[dict[str, Any]] = field(default_factory=list)
    lower_bound: int = 0
    unknown: int = 0

    def metrics(self) -> dict[str, int]:
        """Returns the columns of `tables.replicas.METRICS`."""
        return {
            "log_dir_moves": len(self.moved),
            "log_dir_moved_bytes": sum(self.moved.values()),
            "log_dir_lower_bound_bytes": self.lower_bound,
            "log_dir_unknown": self.unknown,
        }


@dataclass
class _Disks:
    """The log directories of a broker, sorted by path; a directory is an index. Logs: directory and bytes, by partition
    (index). `others` are the bytes of logs of unknown partitions."""

    path: list[str] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    total: list[int | None] = field(default_factory=list)
    usable: list[int | None] = field(default_factory=list)
    others: list[int] = field(default_factory=list)
    logs: dict[int, tuple[int, int]] = field(default_factory=dict)
    copies: dict[int, tuple[int, int]] = field(default_factory=dict)

    def capacity(self, is_online: BoolArray) -> FloatArray:
        """Returns the sizes of the volumes; 1 for each if one is unknown, 0 for directories that take no logs."""
        known = all(self.total[at] for at in np.flatnonzero(is_online))
        sizes = [(self.total[at] or 0) / 2**20 if known else 1.0 for at in range(len(self.path))]
        return np.where(is_online, sizes, 0.0)

    def room(self, threshold: float) -> FloatArray:
        """Returns how many bytes may arrive in each directory."""
        room = [
            _UNLIMITED if None in (total, usable) else float(usable or 0) - (1 - threshold) * float(total or 0)
            for total, usable in zip(self.total, self.usable, strict=True)
        ]
        for row, (at, copied) in self.copies.items():
            room[at] -= max(self.logs.get(row, (at, copied))[1] - copied, 0)
        return np.maximum(room, 0.0)


def plan_log_dirs(
    named: NamedCluster,
    replicas: list[list[int]],
    tolerance: float,
    threshold: float = 0.8,
    max_bytes: int | None = None,
    *,
    is_hard: bool = False,
) -> LogDirPlan:
    """Balances the log directories of all brokers of a cluster.

    Args:
        named: the cluster, with its log directories and logs.
        replicas: the replicas of each partition after the reassignment.
        tolerance: largest deviation of a directory from its share of bytes, as a fraction of the share.
        threshold: fraction of a volume that may be used.
        max_bytes: largest number of bytes that move within brokers; None: no limit.
        is_hard: whether a directory out of bounds rejects the cluster.

    Raises:
        RejectedError: directories or logs are missing or contradict each other, or a hard goal isn't met.
    """
    disks, plan = _read_disks(named), LogDirPlan()
    hosted: list[list[int]] = [[] for _ in named.broker_id]
    for row, brokers in enumerate(replicas):
        for broker in brokers:
            hosted[broker].append(row)
    for broker, broker_id in enumerate(named.broker_id.tolist()):
        goal = {"broker_id": broker_id, "goal": LOG_DIRS, "is_hard": is_hard, "share": 0.0, "min_load": 0.0}
        if broker_id in disks:
            budget = None if max_bytes is None else max_bytes - sum(plan.moved.values())
            rows = _plan_broker(named, broker, disks[broker_id], hosted[broker], (tolerance, threshold, budget), plan)
            plan.balance += [goal | row for row in rows]
        elif hosted[broker]:
            plan.unknown += len(hosted[broker])
            plan.balance.append(goal | {"max_load": 0.0, "log_dir_state": UNKNOWN})
    if is_hard and plan.unknown:
        problem = f"the log directories of {count(plan.unknown, 'replica')} aren't known, or too full for them"
        raise RejectedError(
            "unmet-goal", f"hard goal {LOG_DIRS}: {problem}. Take a new snapshot, or make the goal soft"
        )
    for disk in plan.balance if is_hard else ():
        slack, load = 1e-9 * disk["share"], disk.get("load_after", 0.0)
        if not disk["min_load"] - slack <= load <= disk["max_load"] + slack:
            problem = f"broker {disk['broker_id']} has {load:,.0f} bytes in {disk['log_dir']!r:{_PATH}}, expected "
            bounds = f"{disk['min_load']:,.0f} to {disk['max_load']:,.0f}"
            remedy = "Raise the tolerance or the capacity threshold, or make the goal soft"
            raise RejectedError("unmet-goal", f"hard goal {LOG_DIRS}: {problem}{bounds}. {remedy}")
    return plan


def _read_disks(named: NamedCluster) -> dict[int, _Disks]:
    """Returns the log directories of each broker that has described them, by broker id."""
    disks: dict[int, _Disks] = {}
    places: dict[tuple[int, str], int] = {}

    def rejection(problem: str, broker: int, path: str) -> RejectedError:
        return RejectedError("bad-log-dirs", f"{problem}: broker {broker}, {path!r:{_PATH}}. Take a new snapshot")

    for row in sorted(named.log_dirs.to_pylist(), key=lambda row: (row["broker_id"], row["log_dir"])):
        broker, path = row["broker_id"], row["log_dir"]
        of = disks.setdefault(broker, _Disks())
        sizes = [row[name] for name in ("total_bytes", "usable_bytes")]
        if (broker, path) in places or path == ANY or len(of.path) == MOST_LOG_DIRS:
            problem = f"log_dirs: twice, named {ANY}, or more than {MOST_LOG_DIRS:,} of a broker"
            raise rejection(problem, broker, path)
        if any(size is not None and not 0 <= size <= MAX_BYTES for size in sizes):
            raise rejection(f"log_dirs: bytes aren't from 0 to {MAX_BYTES:,}", broker, path)
        places[broker, path] = len(of.path)
        of.path.append(path)
        of.state.append(OFFLINE if row["error"] is not None else CORDONED if row["cordoned"] else ONLINE)
        of.total.append(sizes[0])
        of.usable.append(sizes[1])
        of.others.append(0)
    if not disks or not named.logs.num_rows:
        remedy = "Take a snapshot with --log-dirs, or leave out the goal log-dirs"
        raise RejectedError("no-log-dirs", f"log_dirs, log_dir_replicas: no log directories of this cluster. {remedy}")
    row_of = {key: row for row, key in enumerate(zip(named.topic, named.partition.tolist(), strict=True))}
    sum_bytes = 0
    columns = ("topic", "partition", "broker_id", "log_dir", "bytes", "is_future")
    logs = named.logs.select(list(columns)).sort_by([(name, "ascending") for name in columns])
    for topic, partition, broker, path, size, is_future in zip(
        *(logs[name].to_pylist() for name in columns), strict=True
    ):
        if (broker, path) not in places:
            raise rejection("log_dir_replicas: a directory that log_dirs lacks", broker, path)
        of, at, partition_row = disks[broker], places[broker, path], row_of.get((topic, partition))
        if size is None:
            continue
        sum_bytes += size
        if size < 0 or sum_bytes > MAX_BYTES:
            raise rejection(f"log_dir_replicas: bytes aren't from 0 to {MAX_BYTES:,} in total", broker, path)
        if partition_row is None:
            of.others[at] += size
        elif (of.copies if is_future else of.logs).setdefault(partition_row, (at, size)) != (at, size):
            raise rejection(f"log_dir_replicas: two logs of {topic:{_PATH}}-{partition}", broker, path)
    return disks


def _plan_broker(
    named: NamedCluster,
    broker: int,
    disks: _Disks,
    hosted: list[int],
    limits: tuple[float, float, int | None],
    plan: LogDirPlan,
) -> Iterator[dict[str, Any]]:
    """Adds the moves of a broker to a plan; yields the row of each directory."""
    tolerance, threshold, budget = limits
    before, fixed = (np.array(disks.others, np.float64) for _ in range(2))
    for at, size in disks.logs.values():
        before[at] += size
    is_online = np.array([state == ONLINE for state in disks.state])
    has_replica = (named.cluster.current == broker).any(axis=1)
    staying = {row for row in hosted if has_replica[row] and row in disks.logs}
    plan.unknown += int(has_replica[hosted].sum()) - len(staying)
    movable: list[tuple[int, int, int]] = []
    for row, (at, size) in sorted(disks.logs.items()):
        if row not in staying:
            if not has_replica[row]:
                fixed[at] += size
            elif is_online[at]:
                plan.sources[row, broker] = disks.path[at]
        elif row in disks.copies:
            fixed[disks.copies[row][0]] += size
        elif is_online[at] and size:
            movable.append((row, at, size))
        else:
            fixed[at] += size
    capacity, room = disks.capacity(is_online), disks.room(threshold)
    load = fixed + np.bincount([at for _, at, _ in movable], [size for *_, size in movable], len(fixed))
    kept = load.copy()
    arriving = [row for row in hosted if not has_replica[row]] if named.cluster.weighed else []
    placed = _place_arriving(named, arriving, load, capacity, room)
    plan.unknown += len(arriving) - len(placed)
    share = load[is_online].sum() * capacity / max(capacity.sum(), 1e-12)
    least, most = share * (1 - tolerance), share * (1 + tolerance)
    excess = np.maximum(kept - most, 0)[is_online].sum()
    deficit = np.maximum(least - kept, 0)[is_online].sum() - sum(size for *_, size in placed)
    plan.lower_bound += int(np.ceil(max(excess, deficit, 0) - 1e-6))
    found = [*movable, *placed]
    start = np.array([at for _, at, _ in found], np.int64)
    sizes = np.array([size for *_, size in found], np.int64)
    is_new = np.arange(len(found)) >= len(movable)
    logs = _Logs(start, sizes, is_new, is_online, share - fixed, least - fixed, most - fixed, room, budget)
    after = logs.balance() if len(found) and is_online.sum() > 1 else start
    for (row, _, num_bytes), was, at, new in zip(found, start.tolist(), after.tolist(), is_new.tolist(), strict=True):
        if new or was != at:
            plan.targets[row, broker] = disks.path[at]
        if not new and was != at:
            plan.sources[row, broker], plan.moved[row, broker] = disks.path[was], num_bytes
    load = fixed + logs.load(after)
    for at, state in enumerate(disks.state):
        yield {
            "log_dir": disks.path[at],
            "log_dir_state": state,
            "capacity": None if disks.total[at] is None else float(disks.total[at] or 0),
            "share": float(share[at]),
            "min_load": float(least[at]),
            "max_load": float(most[at]) if is_online[at] else float(load[at]),
            **({} if state == OFFLINE else {"load_before": float(before[at]), "load_after": float(load[at])}),
        }


def _place_arriving(
    named: NamedCluster, rows: list[int], load: FloatArray, capacity: FloatArray, room: FloatArray
) -> list[tuple[int, int, int]]:
    """Returns (partition, directory, bytes) of replicas from other brokers, and adds them to the loads. A replica that
    fits nowhere is left to the broker."""
    placed = []
    for negative, row in sorted((-int(named.cluster.weight[row]), row) for row in rows):
        size = -negative
        fits = (capacity > 0) & (room >= size)
        at = int(np.where(fits, (load + size) / np.maximum(capacity, 1e-12), np.inf).argmin())
        if fits[at]:
            load[at] += size
            room[at] -= size
            placed.append((row, at, size))
    return placed


@dataclass(frozen=True)
class _Logs:
    """The logs of a broker that may move: the directory at the start, the bytes, and whether the log is new there. Of
    each directory: the share and bounds of these bytes, and how many may arrive. `budget`: how many may move."""

    start: IntArray
    size: IntArray
    is_new: BoolArray
    is_online: BoolArray
    share: FloatArray
    least: FloatArray
    most: FloatArray
    room: FloatArray
    budget: int | None

    def load(self, at: IntArray) -> FloatArray:
        """Returns the bytes of each directory if the logs are in the directories `at`."""
        return np.bincount(at, self.size, len(self.room)).astype(np.float64)

    def balance(self) -> IntArray:
        """Returns the directory of each log after the greedy steps and exchanges, or at the start if that is better."""
        current = np.where(self.is_new, NO_BROKER, self.start)[:, None]
        ones, zeros = np.ones_like(self.size), np.zeros_like(self.room)
        rack = np.zeros_like(self.is_online, np.int64)
        cluster = ReplicaCluster(rack, self.is_online, current, ones, self.size, weighed=True)
        levels = [
            BoundedLoad(False, self.size, self.share, zeros, self.load(self.start) + self.room),
            BoundedLoad(False, self.size, self.share, self.least, self.most),
        ]
        replicas = balance_loads(cluster, [[at] for at in self.start.tolist()], levels, self.budget, searched=0)
        after = np.array([row[0] for row in replicas], np.int64)
        self._exchange(after)
        self._refuse_overflow(after)
        return after if self._distance(after) < self._distance(self.start) else self.start

    def _exchange(self, after: IntArray) -> None:
        """Lets pairs of logs change places, each of which brings two directories within their bounds, one of them from
        outside, so that there are fewer pairs than directories."""
        size, least, most, load = self.size, self.least, self.most, self.load(after)
        for at, other in product(np.flatnonzero(self.is_online).tolist(), repeat=2):
            low = max(load[at] - most[at], least[other] - load[other])
            high = min(load[at] - least[at], most[other] - load[other])
            if other == at or low > high or least[at] <= load[at] <= most[at]:
                continue
            ours, theirs = (np.flatnonzero(after == each) for each in (at, other))
            theirs = theirs[np.argsort(size[theirs], kind="stable")]
            match = np.searchsorted(size[theirs], size[ours] - high)
            found = np.flatnonzero(match < len(theirs))
            found = found[size[theirs[match[found]]] <= size[ours[found]] - low]
            if len(found):
                best = found[(size[ours[found]] + size[theirs[match[found]]]).argmin()]
                pair = [ours[best], theirs[match[best]]]
                after[pair] = other, at
                if self.budget is not None and size[(self.start != after) & ~self.is_new].sum() > self.budget:
                    after[pair] = at, other
                load = self.load(after)

    def _refuse_overflow(self, after: IntArray) -> None:
        """Takes back the smallest moves into a directory that hasn't room for all of them."""
        for at in np.unique(after).tolist():
            arriving = np.flatnonzero((after == at) & (self.start != at))
            arriving = arriving[np.argsort(self.size[arriving], kind="stable")]
            total = np.cumsum(self.size[arriving])
            excess = total[-1:].sum() - self.room[at]
            refused = arriving[: np.searchsorted(total, excess) + 1] if excess > 0 else arriving[:0]
            after[refused] = self.start[refused]

    def _distance(self, at: IntArray) -> float:
        """Returns how many bytes directories have above or below their bounds."""
        load = self.load(at)
        return float(np.maximum(np.maximum(load - self.most, self.least - load), 0)[self.is_online].sum())
