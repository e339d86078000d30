"""Predicted = actual: random operations on brokers in three racks, with classic, consumer, and share groups.

Before each operation a snapshot is taken. `operate` predicts from it the rebalances and epochs of each group, and which
groups stop. The history reads from the records what came; the members' listeners report what they gave up. The full
run has twenty operations, a fourth broker in the rack of the first, and more groups; with small sizes, it has four. If
a busy machine costs a member its session, or its part in a generation, all starts again, with the same operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_assign import Fleet, plan
from spark_assign.history.history import read_history
from spark_assign.replicas import ClusterChange, operate
from spark_assign.replicas.fleet import replica_fleet
from spark_assign.replicas.kernel.reassign_table import PLACEMENT
from spark_assign.replicas.reassignment import REASSIGNMENT_ROWS, Reassignment
from spark_assign.tables.history import RECORDS
from tests.frames import dataframe, frame_of, merged
from tests.kafka import broker_operations, client_libraries, group_members, maven
from tests.kafka.broker import Cluster, cluster
from tests.kafka.broker_operations import ACROSS, DOWN, ELECT, GROW, RESTART, WITHIN, Operation
from tests.kafka.conftest import RACKS
from tests.kafka.coordinator_log import HeldUpError, expirations, nobody_was_held_up, repeated
from tests.kafka.group_members import Consumer, wait_until_settled
from tests.kafka.live_groups import Row, Tables, create_topics, events, fleet, offsets_records, read
from tests.sizes import drawn
from tests.slices import Partition

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.once]

SEED = 30
SESSION_MS = 60_000
"""The longest that brokers allow groups of their own protocols. No operation keeps a member from its coordinator so
long."""
TOPICS = {"op.a": {0: [1, 2], 1: [2, 3], 2: [3, 1], 3: [1, 3]}, "op.b": {0: [2, 1], 1: [3, 2], 2: [1, 2]}}
REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "auto.leader.rebalance.enable": "false",
}
"""Coordinators outlive a broker. The test elects the preferred leaders itself, so as not to wait for minutes."""
RELEASES = {"op-plain": "4.4.0", "op-racked": "4.4.0", "op-cooperative": "4.4.0", "op-old": "4.3.1"}
"""Java clients of classic groups. A snapshot has a range of releases; the user of a fleet can know more."""
RACKED = ("op-racked", "op-cooperative")
"""Groups of 4.4.0 clients with a rack-aware leader."""
LATER_ROUND = "partitions that were revoked before"
"""How the history describes the second round of a cooperative rebalance."""


def _consumers(
    group: str, assignor: str | None = None, protocol: str = "classic", racked: bool = False
) -> list[Consumer]:
    """The two members of a group, in the first two racks if they are racked."""
    return [
        Consumer(
            group,
            f"{group}-{each}",
            tuple(TOPICS),
            assignor,
            protocol,
            rack=RACKS[each] if racked else None,
            session_timeout_ms=SESSION_MS if protocol == "classic" else None,
            heartbeat_interval_ms=500 if protocol == "classic" else None,
            metadata_max_age_ms=500,
        )
        for each in range(2)
    ]


NEWEST = [
    *_consumers("op-plain", "range"),
    *_consumers("op-racked", "range", racked=True),
    *_consumers("op-cooperative", "cooperative-sticky", racked=True),
    *_consumers("op-consumer", "uniform", "consumer"),
    *_consumers("op-share", protocol="share"),
]
OLD = _consumers("op-old", "range", racked=True)
LIBRDKAFKA = _consumers("op-librdkafka", "range", racked=True)


@dataclass(frozen=True)
class Step:
    """An operation, the snapshot before it, and when it began and was over (ms since 1970)."""

    operation: Operation
    before: Tables
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Story:
    """All operations, what the members' listeners reported, and the records of the coordinators."""

    steps: list[Step]
    calls: list[Row]
    records: list[tuple[object, ...]]


def _kinds(random: Random) -> list[str]:
    """The operations to draw; the first four have no fourth broker and wait for no broker that is gone."""
    kinds = [ACROSS, ELECT, GROW, RESTART]
    kinds += drawn(0, 1) * [*3 * [ACROSS, WITHIN, DOWN, ELECT], GROW, WITHIN, RESTART, RESTART]
    return random.sample(kinds, len(kinds))


def play(_broker: Cluster, folder: Path) -> Story:
    """Members join on brokers of their own; then one operation after the other. No member may lose its session."""
    return repeated(lambda attempt: _attempt(folder, attempt))


def _attempt(folder: Path, attempt: int) -> Story:
    random, is_full = Random(SEED), bool(drawn(0, 1))
    racks = (*RACKS, *RACKS[:1] * is_full)
    files = [folder / f"{name}-{attempt}" for name in ("newest", "old", "librdkafka")]
    with ExitStack() as stack:
        started = stack.enter_context(cluster(maven.kafka_classpath(), racks, properties=REPLICATED))
        create_topics(started, TOPICS)
        sizes = Counter(each.group for each in NEWEST + OLD)
        for kind, group in (("consumer", "op-consumer"), ("share", "op-share")):
            times = {"heartbeat.interval.ms": "500", "session.timeout.ms": str(SESSION_MS)}
            started.configure_group(group, {f"{kind}.{name}": value for name, value in times.items()})
        stack.enter_context(group_members.running(started, NEWEST, files[0]))
        older = replace(started, class_path=maven.applications_classpath())
        stack.enter_context(group_members.running(older, OLD, files[1]))
        if is_full:
            command = client_libraries.librdkafka_members(started.bootstrap_servers)
            group_members.start(stack.enter_context(group_members.fed(command, [], files[2])), LIBRDKAFKA)
            sizes |= Counter({"op-librdkafka": 2})
        wait_until_settled(started, sizes)
        steps = []
        broker_operations.wait_until_calm(started)
        for kind in _kinds(random):
            before = read(started, list(sizes), "*")
            replicas = {
                (row["topic"], row["partition"]): row["replicas"]
                for row in before["replicas"]
                if row["topic"] in TOPICS
            }
            operation = broker_operations.draw(kind, random, racks, replicas)
            start_ms = _now_ms()
            broker_operations.carry_out(started, operation)
            steps.append(Step(operation, before, start_ms, _now_ms()))
            if kind == DOWN:
                started.processes[operation.brokers[0] - 1].start()
                broker_operations.elect(started)
                broker_operations.wait_until_calm(started)
            if any(expirations(group, started.group_log()) for group in sizes):
                raise HeldUpError
        calls = [row for row in events(filter(Path.exists, files)) if row.get("group") in RELEASES]
        if not nobody_was_held_up(RELEASES, started.group_log(), calls):
            raise HeldUpError
        return Story(steps, events(filter(Path.exists, files)), offsets_records(started))


def _now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


@dataclass(frozen=True)
class Outcome:
    """What happened to a group in an operation: predicted, and seen.

    Attributes:
        predicted: the row of `Operation.groups`.
        rounds: the generations or epochs that the history has, later rounds of a cooperative rebalance left out.
        stops: for each member, how often it gave up partitions.
        revoked: the partitions that members gave up.
        is_classic: whether it is a classic group.
        is_eager: whether a member that rejoins gives up all of its partitions.
        stale: the number of rebalances beyond the predicted ones that a leader of 4.4.0 can cause: it compares with the
            replicas of its last rebalance. If one of them has moved since, and the partition's other brokers in that
            rack stop, the rack is gone.
        moved_meanwhile: what moves if the group rebalances while a broker of the step is stopped, by broker.
    """

    predicted: Row
    rounds: list[Row]
    stops: dict[str, int]
    revoked: set[Partition]
    is_classic: bool
    is_eager: bool
    stale: int
    moved_meanwhile: list[set[Partition]]

    @property
    def is_stale(self) -> bool:
        """Whether a rebalance came that only such a leader causes."""
        return len(self.rounds) > self.predicted["max_rebalances"] and bool(self.stale)


def _renamed(number: object, rows: list[Row]) -> list[Row]:
    """Rows of a snapshot under the name of its step, as if each were a cluster of its own."""
    return [row | {"cluster": f"step-{number}"} for row in rows]


def _fleet(spark: SparkSession, steps: Mapping[Any, Step]) -> Fleet:
    """The snapshots of steps as a fleet."""
    tables = merged(
        {name: _renamed(number, rows) for name, rows in step.before.items()} for number, step in steps.items()
    )
    known = [row | {"leader_version": RELEASES.get(row["group_id"], row["leader_version"])} for row in tables["groups"]]
    return fleet(spark, tables | {"groups": known})


def _reassignment(spark: SparkSession, before: Fleet, steps: dict[int, Step]) -> Reassignment:
    """The moves, elections, and new partitions of steps, as `reassign` would plan them."""
    rows = []
    for number, step in steps.items():
        old = {(row["topic"], row["partition"]): row["replicas"] for row in step.before["replicas"]}
        for topic, partition in old | step.operation.replicas:
            previous = old.get((topic, partition))
            new = step.operation.replicas.get((topic, partition), previous)
            row = {"kind": PLACEMENT, "cluster": f"step-{number}", "topic": topic, "partition": partition}
            rows.append(row | {"previous_replicas": previous, "new_replicas": new})
    return Reassignment(frame_of(spark, REASSIGNMENT_ROWS, rows), replica_fleet(before), ClusterChange())


def _predict(spark: SparkSession, steps: list[Step]) -> dict[tuple[int, str], Row]:
    """What `operate` predicts from the snapshot before each step, by step and group; like operations in one call."""
    calls: dict[tuple[object, ...], dict[int, Step]] = {}
    for number, step in enumerate(steps):
        is_move = step.operation.kind not in (RESTART, DOWN)
        key = () if is_move else (step.operation.kind, *step.operation.brokers)
        calls.setdefault(key, {})[number] = step
    found: dict[tuple[int, str], Row] = {}
    for key, alike in calls.items():
        before = _fleet(spark, alike)
        arguments: dict[str, Any] = {"reassignment": _reassignment(spark, before, alike)} if not key else {}
        if key:
            arguments = {"restart": key[1:]} if key[0] == RESTART else {"down": key[1]}
        operation = operate(before, **arguments)
        rows = [row.asDict() for row in operation.groups.collect()]
        found |= {(int(row["cluster"].removeprefix("step-")), row["group_id"]): row for row in rows}
    return found


def _moved_meanwhile(spark: SparkSession, steps: list[Step]) -> dict[tuple[int, str], list[set[Partition]]]:
    """What moves by step and group, for each broker that stops: the leader doesn't know the racks of its replicas."""
    stopped = {}
    for number, step in enumerate(steps):
        for broker in step.operation.brokers:
            replicas = [
                row | {"replicas": [each for each in row["replicas"] if each != broker]}
                for row in step.before["replicas"]
            ]
            stopped[f"{number}-{broker}"] = replace(step, before=step.before | {"replicas": replicas})
    moved: dict[tuple[str, str], set[Partition]] = {}
    for row in plan(_fleet(spark, stopped)).moves.collect():
        moved.setdefault((row["cluster"], row["group_id"]), set()).add((row["topic"], row["partition"]))
    found: dict[tuple[int, str], list[set[Partition]]] = {}
    for (cluster_name, group), partitions in moved.items():
        found.setdefault((int(cluster_name.split("-")[1]), group), []).append(partitions)
    return found


@pytest.fixture(scope="module")
def outcomes(spark: SparkSession, story: Story) -> dict[tuple[int, str], Outcome]:
    """Each step and group."""
    history = read_history(dataframe(spark, RECORDS, story.records)).rebalances.collect()
    found = {}
    meanwhile = _moved_meanwhile(spark, story.steps)
    for (number, group), predicted in _predict(spark, story.steps).items():
        step = story.steps[number]
        during = [
            row.asDict()
            for row in history
            if row["group_id"] == group and step.start_ms <= row["time"].timestamp() * 1000 <= step.end_ms
        ]
        calls = [
            row
            for row in story.calls
            if row.get("group") == group
            and row["event"] in ("revoked", "lost")
            and row["partitions"]
            and step.start_ms <= row["at_ms"] <= step.end_ms
        ]
        (described,) = (row for row in step.before["groups"] if row["group_id"] == group)
        is_classic = described["group_type"] == "classic"
        is_eager = is_classic and described["assignor"] != "cooperative-sticky"
        moved = any(each.operation.kind in (ACROSS, WITHIN) for each in story.steps[:number])
        stale = len(step.operation.brokers) if group in RACKED and moved and drawn(0, 1) else 0
        rounds = [row for row in during if not row["cause"].startswith(LATER_ROUND)]
        revoked = {(topic, partition) for row in calls for topic, partition in row["partitions"]}
        stops = Counter(row["client_id"] for row in calls)
        moved_meanwhile = meanwhile.get((number, group), [])
        found[number, group] = Outcome(predicted, rounds, stops, revoked, is_classic, is_eager, stale, moved_meanwhile)
    return found


def test_rebalances_and_epochs_are_within_the_predicted_range(outcomes: dict[tuple[int, str], Outcome]) -> None:
    """As the history reads them from the records; they are equal where minimum and maximum are."""
    wrong = {}
    for (number, group), outcome in outcomes.items():
        name = "rebalances" if outcome.is_classic else "epochs"
        low, high = (outcome.predicted[f"{end}_{name}"] for end in ("min", "max"))
        if not low <= len(outcome.rounds) <= high + outcome.stale:
            wrong[number, group] = (name, low, high, outcome)
    assert not wrong


def test_who_stops_is_what_the_listeners_report(outcomes: dict[tuple[int, str], Outcome]) -> None:
    """Eager members give up everything in each rebalance; others only if the predicted assignment moves partitions.

    A rebalance while a broker is stopped moves what it moves in a plan without that broker's replicas.
    """
    wrong = {}
    for key, outcome in outcomes.items():
        if key[1] == "op-librdkafka":  # a member can give up its partitions more than once in a rebalance
            is_right = len(outcome.stops) == 2 * bool(outcome.rounds)
            is_right &= all(times >= len(outcome.rounds) for times in outcome.stops.values())
        elif outcome.is_eager:
            is_right = [*outcome.stops.values()] == [len(outcome.rounds)] * 2 * bool(outcome.rounds)
        elif outcome.is_stale:
            is_right = not outcome.revoked or outcome.revoked in outcome.moved_meanwhile
        else:
            is_right = not outcome.stops or bool(outcome.predicted["moved_partitions"])
        if not is_right:
            wrong[key] = outcome
    assert not wrong
