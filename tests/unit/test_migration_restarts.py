"""A rolling upgrade played, against the same restarts one by one: each a group of its own, planned from scratch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest

from spark_assign.assignors.group_facts import GROUP
from spark_assign.assignors.group_specs import GroupSpecs
from spark_assign.groups.kernel.plan_groups import PlanParams, assign, plan_groups
from spark_assign.groups.kernel.read_specs import GroupSubset
from spark_assign.migration.kernel import rolling_restart
from spark_assign.migration.kernel.rolling_restart import COSTS, RollingRestart, new_id, simulate_restarts
from spark_assign.numeric.arrays import IntArray, PartitionSlices
from tests.golden import sticky_kernel
from tests.golden.vectors import Row
from tests.kafka import random_groups
from tests.oracle import range_assignor, roundrobin_assignor
from tests.oracle.group import Group, java_order
from tests.plan_rows import facts_table, read_specs
from tests.sizes import drawn
from tests.slices import topic_partitions

ORACLE = {"range": range_assignor, "roundrobin": roundrobin_assignor}
NAMES = ("uniform", "server-range", "sticky", "cooperative-sticky")
Owned = dict[str, set[tuple[str, int]]]


def facts_of(rows: Iterable[Row]) -> pa.Table:
    """The facts of these groups, which are known to be classic ones."""
    rows = list(rows)
    kinds = [
        {"cluster": row["case"], "group_id": "group", "kind": GROUP, "group_type": "classic", "assignor": None}
        for row in rows
    ]
    return pa.concat_tables([sticky_kernel.facts(rows), facts_table(kinds)])


def specs_of(rows: Iterable[Row]) -> GroupSpecs:
    """The groups as kernels read them."""
    return read_specs(facts_of(rows))


def played(specs: GroupSpecs, now: str, to: str) -> RollingRestart:
    """All groups, by one assignor of the clients."""
    return simulate_restarts(specs, np.array([now] * specs.num_groups, object), to, np.ones(specs.num_groups, bool))


def who_has(specs: GroupSpecs, runs: PartitionSlices, case: str) -> dict[int, set[tuple[str, int]]]:
    """Of each member of a group, in the order of ids, what it has."""
    (group,) = np.flatnonzero(np.array(specs.cluster.to_pylist()) == case)
    members = np.flatnonzero(specs.members.group == group)
    rows, topics = runs.take(np.isin(runs.member, members)).expand(), specs.topic.to_pylist()
    found: dict[int, set[tuple[str, int]]] = {at: set() for at in range(len(members))}
    for member, topic, partition in zip(rows.member.tolist(), rows.topic.tolist(), rows.first.tolist(), strict=True):
        found[member - int(members[0])].add((topics[topic], partition))
    return found


# --- one by one ---------------------------------------------------------------------------------------------------


def planned(rows: list[Row], assignor: str) -> dict[str, tuple[Owned, Owned]]:
    """Of each group what its members may own right away, and what they get once its owner has given it up."""
    found: dict[str, tuple[Owned, Owned]] = {
        r["case"]: ({e["id"]: set() for e in r["members"]}, {a["id"]: set() for a in r["members"]}) for r in rows
    }
    if assignor in ORACLE:
        for row in rows:
            given = ORACLE[assignor].assign(Group.from_row(row))
            found[row["case"]][0].update({member: set(got) for member, got in given.items()})
        return found
    for table in plan_groups(facts_of(rows), PlanParams((("*", assignor),), NAMES, racks_known=True)):
        for each in table.to_pylist():
            assert each["kind"] != "rejected", each
            if each["kind"] in ("assigned", "withheld"):
                found[each["cluster"]][each["kind"] == "withheld"][each["member_id"]] |= topic_partitions([each])
    return found


def rebalance(row: Row, got: tuple[Owned, Owned], left: set[tuple[str, int]], stops: set[int]) -> tuple[int, int, int]:
    """Let everybody have what it gets; moved, revoked and stopped."""
    given, late = got
    before = {member["id"]: owned(member) for member in row["members"]}
    now = set().union(*given.values(), *late.values())
    there = len((left | set().union(*before.values())) & now)
    kept = sum(len(mine & given[member]) for member, mine in before.items())
    back = sum(len(mine & late[member]) for member, mine in before.items())
    revoked = sum(len(mine) for mine in before.values()) - kept
    again = sum(len(before[each["id"]] & given[each["id"]]) for each in row["members"] if id(each) in stops)
    for member in row["members"]:
        member["owned"] = sorted(given[member["id"]] | late[member["id"]])
    return there - kept - back, revoked, revoked + again


def owned(member: Row) -> set[tuple[str, int]]:
    """What it has."""
    return {(topic, partition) for topic, partition in member["owned"]}


def one_by_one(rows: list[Row], now: str, to: str) -> dict[str, list[tuple[int, ...]]]:
    """Restart the members of each group, which changes the rows; the figures of each restart."""
    seats = {row["case"]: sorted(row["members"], key=lambda member: java_order(member["id"])) for row in rows}
    classic = {id(member) for row in rows for member in row["members"] if now != "cooperative-sticky"}
    found: dict[str, list[tuple[int, ...]]] = {row["case"]: [] for row in rows}
    for number in range(max(len(each) for each in seats.values())):
        going = [row for row in rows if len(seats[row["case"]]) > number]
        moving = [row for row in going if seats[row["case"]][number].get("instance") is None]
        costs = {row["case"]: np.array([0, 0, len(seats[row["case"]][number]["owned"])]) for row in going}
        others = [r | {"members": [m for m in r["members"] if m is not seats[r["case"]][number]]} for r in moving]
        others = [row for row in others if row["members"]]
        for row, got in zip(others, planned(others, now if number == 0 else to).values(), strict=True):
            costs[row["case"]] += rebalance(row, got, owned(seats[row["case"]][number]), classic)
        for row in moving:
            seats[row["case"]][number]["owned"] = []
        for row in going:
            member = seats[row["case"]][number]
            member["id"], classic = new_id(member["id"]), classic - {id(member)}
        for row, got in zip(moving, planned(moving, to).values(), strict=True):
            costs[row["case"]] += rebalance(row, got, set(), classic)
        for case, figures in costs.items():
            found[case].append(tuple(figures.tolist()))
    return found


@pytest.mark.parametrize("to", ["uniform", "server-range"])
@pytest.mark.parametrize("now", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_many_groups_side_by_side_are_what_restarts_one_by_one_are(now: str, to: str, seed: int) -> None:
    """Random groups: racks, static members, differing subscriptions, topics that are gone, claims in conflict."""
    rows = [
        row
        for row in random_groups.groups("sticky", seed, small=drawn(18, 60), mid_size=0)
        if len(row["members"]) <= 7 and len({member["id"] for member in row["members"]}) == len(row["members"])
    ]
    refused = sticky_kernel.planned(rows, now).refused if now not in ORACLE else {}
    rows = [row for row in rows if row["case"] not in refused]
    specs = specs_of(rows)
    done = played(specs, now, to)
    cases = specs.cluster.to_pylist()
    # Where it is not whole, Kafka's class throws when one member is away.
    whole = [row for row in rows if done.is_complete[cases.index(row["case"])]]
    assert len(whole) > 5
    copied = [row | {"members": [dict(member) for member in row["members"]]} for row in whole]
    order = {row["case"]: sorted(row["members"], key=lambda member: java_order(member["id"])) for row in copied}
    expected = one_by_one(copied, now, to)
    for case, members in order.items():
        group = cases.index(case)
        assert [tuple(each[name] for name in COSTS) for each in done.restarts[group]] == expected[case], case
        assert list(who_has(specs, done.owned_after, case).values()) == [owned(member) for member in members], case


def a_group(members: dict[str, list[int]], instance: bool = False, topics: int = 1) -> Row:
    """Members that own these partitions of t0; everybody subscribes to all topics, of four partitions each."""
    listed = [
        {
            "id": name,
            "instance": f"i-{name}" if instance else None,
            "rack": None,
            "generation": 1,
            "topics": [f"t{n}" for n in range(topics)],
            "owned": [("t0", partition) for partition in owned],
        }
        for name, owned in members.items()
    ]
    return {"case": "c", "topics": {f"t{n}": 4 for n in range(topics)}, "members": listed}


def costs(done: RollingRestart) -> list[dict[str, int]]:
    """Figures of the first group."""
    return done.restarts[0]


def test_the_example_of_the_page() -> None:
    """Two members, two partitions each: what an eager group stops, and a cooperative one does not."""
    specs = specs_of([a_group({"c0": [0, 1], "c1": [2, 3]})])
    assert costs(played(specs, "range", "uniform")) == [
        {"moved": 4, "revoked": 2, "paused_partitions": 8},
        {"moved": 4, "revoked": 2, "paused_partitions": 4},
    ]
    assert [each["paused_partitions"] for each in costs(played(specs, "cooperative-sticky", "uniform"))] == [4, 4]


def test_static_members_take_over_what_they_had() -> None:
    """No new target, so nothing moves; what the member itself has stops while it is away."""
    specs = specs_of([a_group({"c0": [0, 1, 2], "c1": [3]}, instance=True)])
    done = played(specs, "range", "uniform")
    assert costs(done) == [
        {"moved": 0, "revoked": 0, "paused_partitions": 3},
        {"moved": 0, "revoked": 0, "paused_partitions": 1},
    ]
    assert list(who_has(specs, done.owned_after, "c").values()) == [{("t0", 0), ("t0", 1), ("t0", 2)}, {("t0", 3)}]


def test_the_only_member_gets_everything_back() -> None:
    """While it is away nobody is there who could get anything."""
    done = played(specs_of([a_group({"c0": [0, 1, 2, 3]})]), "range", "uniform")
    assert costs(done) == [{"moved": 0, "revoked": 0, "paused_partitions": 4}]
    assert done.is_complete.tolist() == [True]


def test_large_groups_are_played_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a number of restarts, and of partitions that are looked at."""
    specs = specs_of([a_group({f"c{n}": [n] for n in range(4)})])
    monkeypatch.setattr(rolling_restart, "MAX_RESTARTS", 3)
    assert rolling_restart.count_restarts(specs).tolist() == [3]
    done = played(specs, "sticky", "uniform")
    assert (len(done.restarts[0]), done.is_complete.tolist()) == (3, [False])
    monkeypatch.setattr(rolling_restart, "MAX_PARTITIONS", 4)
    assert rolling_restart.count_restarts(specs).tolist() == [2]


def test_new_ids_are_as_kafkas() -> None:
    """22 characters of an alphabet without signs that a URL has, and the same at each call."""
    assert new_id("consumer-1") == new_id("consumer-1") != new_id("consumer-2")
    assert len(new_id("ä\ud800")) == 22


def test_members_have_different_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if one has the id that another one gets when it restarts, which anyone can compute."""
    select = rolling_restart.select_members

    def check(specs: GroupSpecs, members: IntArray, ids: list[str], *slices: PartitionSlices) -> GroupSubset:
        assert len(set(ids)) == len(ids)
        return select(specs, members, ids, *slices)

    monkeypatch.setattr(rolling_restart, "select_members", check)
    done = played(specs_of([a_group({"!": [0], new_id("!"): [1], "zz": [2]})]), "range", "uniform")
    assert (len(done.restarts[0]), done.is_complete.tolist()) == (3, [True])


@pytest.mark.parametrize("assignor", sorted(ORACLE))
def test_range_and_round_robin_without_windows(assignor: str, seed: int) -> None:
    """As Kafka's loops have it: racks, differing subscriptions, static members."""
    rows = list(random_groups.groups(assignor, seed, small=drawn(40, 60), mid_size=0))
    specs = specs_of(rows)
    slices = assign(specs, assignor, np.ones(specs.num_groups, bool), {}).slices
    for row in rows:
        group = Group.from_row(row)
        given = ORACLE[assignor].assign(group)
        found = sorted(
            (member.member_id for member in group.members),
            key=lambda name: name.encode("utf-16-be", "surrogatepass"),
        )
        expected = [set(given[each]) for each in found]
        assert list(who_has(specs, slices, row["case"]).values()) == expected, row["case"]
