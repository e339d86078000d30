"""Groups planned by runs, many at once, against the same groups planned partition by partition: equal in every row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest

from spark_assign.assignors.franz_go import assign_franz_go as franz_go_assignors
from spark_assign.assignors.franz_go.balancer_input import FRANZ_GO_1_20, FRANZ_GO_1_22, FranzGoRules
from spark_assign.assignors.group_specs import GroupAssignments, GroupSpecs
from spark_assign.assignors.librdkafka import assign_librdkafka as librdkafka_assignors
from spark_assign.assignors.librdkafka.balance import merge_sort
from spark_assign.assignors.release_rules import parse_library_assignor
from spark_assign.assignors.sticky import sticky_2_8
from spark_assign.assignors.undisputed_groups import find_undisputed
from spark_assign.groups.kernel.plan_groups import assign
from spark_assign.numeric.arrays import BoolArray, PartitionSlices
from tests.golden import sticky_kernel
from tests.golden.vectors import Row
from tests.kafka import random_groups
from tests.oracle import librdkafka_range
from tests.plan_rows import read_specs
from tests.seeds import seed_for
from tests.sizes import drawn

GROUPS = drawn(36, 60)
Rows = dict[tuple[str, str, str, int], tuple[int, bool]]


def _peaceful(rng: random.Random, row: Row) -> Row:
    """All subscribe to the same topics, or to none at all, and nobody claims what another does; no racks mostly."""
    silent, claimed = rng.random() < 0.1, set()
    members = []
    for member in row["members"]:
        topics = [] if silent and rng.random() < 0.3 else sorted(row["topics"])
        owned = [] if rng.random() < 0.2 else [each for each in member["owned"] if tuple(each) not in claimed]
        claimed |= {tuple(each) for each in owned}
        members.append(member | {"topics": topics, "owned": owned, "generation": rng.choice([7, 7, 7, None])})
    return row | {"members": members, "replica_racks": (row["replica_racks"] if rng.random() < 0.1 else None)}


def _rows(seed: int) -> Iterator[Row]:
    """Random groups with every oddity, as they are and peaceful."""
    rng = random.Random(f"peace-{seed}")
    for strategy in random_groups.STICKY:
        for row in random_groups.groups(strategy, seed, small=GROUPS, mid_size=0):
            name = f"{strategy}-{row['case']}"
            yield row | {"case": name}
            yield _peaceful(rng, row) | {"case": f"{name}-peaceful"}


@pytest.fixture(scope="module")
def specs() -> GroupSpecs:
    """All of them side by side."""
    return read_specs(sticky_kernel.facts((row for row in _rows(seed_for(__name__)) if row["members"]), runs=True))


def _expanded(
    specs: GroupSpecs, runs: PartitionSlices, *of_run: np.ndarray
) -> dict[tuple[str, str, str, int], tuple[int, ...]]:
    """Cluster, member, topic and partition to what is said of it; nothing may be said twice."""
    rows = PartitionSlices(np.arange(len(runs)), *runs.columns[1:]).expand()
    at = rows.member
    member = runs.member[at]
    who = (specs.cluster.take(specs.members.group[member]), specs.member_id.take(member), specs.topic.take(rows.topic))
    keys = list(zip(*(each.to_pylist() for each in who), rows.first.tolist(), strict=True))
    values = zip(*(np.asarray(each)[at].tolist() for each in of_run), strict=True) if of_run else [()] * len(keys)
    found = dict(zip(keys, values, strict=True))
    assert len(found) == len(keys)
    return found


def _same(specs: GroupSpecs, one: GroupAssignments, other: GroupAssignments) -> None:
    assert one.rejected == other.rejected
    mine, exact = (_expanded(specs, each.slices, each.reason, each.withheld) for each in (one, other))
    differing = sorted(key for key in mine.keys() | exact.keys() if mine.get(key) != exact.get(key))
    assert not differing, f"{len(differing)}, in {sorted({key[0] for key in differing})[:5]}: {differing[:5]}"
    assert _expanded(specs, one.order_dependent) == _expanded(specs, other.order_dependent)


def test_librdkafka(specs: GroupSpecs) -> None:
    """Its kernel of single partitions plans all groups, and the one by slices what it can."""
    every: BoolArray = np.ones(specs.num_groups, bool)
    planned = librdkafka_assignors.assign_by_librdkafka(specs, "cooperative-sticky", every)
    _same(specs, planned, librdkafka_assignors._one_by_one(specs, every))


def test_range_of_librdkafka(specs: GroupSpecs) -> None:
    """Against a loop over topics, members and partitions."""
    every: BoolArray = np.ones(specs.num_groups, bool)
    reader = librdkafka_assignors._Reader(specs, every)
    expected = {
        (cluster, member_id, topic, partition)
        for at, cluster in enumerate(specs.cluster.to_pylist())
        for member_id, partitions in librdkafka_range.assign_ranges(reader.group(at)).items()
        for topic, partition in partitions
    }
    assert _expanded(specs, librdkafka_assignors.assign_by_librdkafka(specs, "range", every).slices).keys() == expected


def test_round_robin_of_librdkafka(specs: GroupSpecs) -> None:
    """Against a loop over partitions and members."""
    every: BoolArray = np.ones(specs.num_groups, bool)
    reader = librdkafka_assignors._Reader(specs, every)
    expected = set()
    for at, cluster in enumerate(specs.cluster.to_pylist()):
        group = reader.group(at)
        members, turn = merge_sort(list(group.members)), -1
        for topic in sorted(group.partitions):
            for partition in range(group.partitions[topic]):
                turn = (turn + 1) % len(members)
                while topic not in members[turn].topics:
                    turn = (turn + 1) % len(members)
                expected.add((cluster, members[turn].member_id, topic, partition))
    planned = librdkafka_assignors.assign_by_librdkafka(specs, "roundrobin", every)
    assert _expanded(specs, planned.slices).keys() == expected


@pytest.mark.parametrize("rules", [FRANZ_GO_1_22, FRANZ_GO_1_20])
@pytest.mark.parametrize("assignor", ["sticky@franz-go", "cooperative-sticky@franz-go"])
def test_franz_go(specs: GroupSpecs, assignor: str, rules: FranzGoRules) -> None:
    """The same, and what is order-dependent in it."""
    every: BoolArray = np.ones(specs.num_groups, bool)
    library = parse_library_assignor(assignor)
    assert library is not None
    planned = franz_go_assignors.assign_by_franz_go(specs, library[0], every, rules)
    cooperative = library[0] == "cooperative-sticky"
    claims = franz_go_assignors._read_generations(specs, cooperative)
    _same(specs, planned, franz_go_assignors._one_by_one(specs, every, *claims, cooperative, rules, {}))


@pytest.mark.parametrize("assignor", ["sticky@2.4", "cooperative-sticky@2.4"])
def test_kafka_2_4(specs: GroupSpecs, assignor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups at rest against the same with all partitions walked over."""
    every: BoolArray = np.ones(specs.num_groups, bool)
    planned = assign(specs, assignor, every, {})
    plan_without_rebalance = sticky_2_8.plan_without_rebalance_2_4
    calls = []
    monkeypatch.setattr(sticky_2_8, "plan_without_rebalance_2_4", lambda *arguments: calls.append(arguments))
    _same(specs, planned, assign(specs, assignor, every, {}))
    assert GROUPS / 5 < sum(plan_without_rebalance(*arguments) is not None for arguments in calls) < len(calls)


@pytest.mark.parametrize("assignor", ["sticky@2.5.1", "cooperative-sticky@2.5.1", "cooperative-sticky@2.4"])
def test_runs_are_planned_as_their_partitions_are(assignor: str, seed: int) -> None:
    """Also where two members claim parts of each other's runs."""
    rows = [row for row in islice(_rows(seed), GROUPS) if row["members"]]
    planned = []
    for runs in (False, True):
        specs = read_specs(sticky_kernel.facts(rows, runs=runs))
        plan = assign(specs, assignor, np.ones(specs.num_groups, bool), {})
        planned.append((_expanded(specs, plan.slices, plan.reason, plan.withheld), plan.rejected))
    assert planned[0] == planned[1]


def test_many_are_undisputed(specs: GroupSpecs) -> None:
    """So that the two are held against each other often enough, and not only where nothing moves."""
    undisputed = find_undisputed(specs, np.ones(specs.num_groups, bool), specs.members.has_subscription)
    assert 2 * GROUPS < undisputed.groups.sum() < 3.7 * GROUPS
    moved = librdkafka_assignors.assign_by_librdkafka(specs, "cooperative-sticky", undisputed.groups)
    assert len(np.unique(specs.members.group[moved.slices.member[moved.withheld]])) > GROUPS / 10
