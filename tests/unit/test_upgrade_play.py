"""A rolling upgrade of clients played, against the same restarts one by one: each a group of its own, from scratch."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spark_assign.java.hash_map import texts_in_table_order
from spark_assign.migration.kernel.upgrade import simulate_full_restart, simulate_upgrade
from spark_assign.migration.kernel.upgrade_verdict import (
    ClientConfig,
    GroupMembership,
    RollingUpgrade,
    UpgradePath,
    UpgradeStep,
    is_eager,
    next_member_id,
    next_owned_order,
    reported_generation,
    reports_owned,
)
from tests.golden.vectors import Row
from tests.kafka import random_groups
from tests.oracle.group import java_order
from tests.sizes import drawn
from tests.unit.test_migration_restarts import a_group, owned, planned, specs_of, who_has

EAGER, BOTH, COOPERATIVE = ("sticky",), ("sticky", "cooperative-sticky"), ("cooperative-sticky",)
Held = dict[str, set[tuple[str, int]]]
Owners = tuple[Held, Held]
"""What members may own right away, and what they get once its owner has given it up."""
Request = tuple[Row, str]
Restarts = tuple[list[tuple[int, str, str]], list[Row]]
"""Of each restart what moves, who leads, and its release; and the members in the end."""


def course(assignors: tuple[str, ...], before: str, *bounces: tuple[str, tuple[str, ...]]) -> UpgradePath:
    """From one release and list to others."""
    return UpgradePath(ClientConfig(before, assignors), tuple(ClientConfig(*each) for each in bounces))


def played(rows: list[Row], of_all: UpgradePath) -> tuple[Any, RollingUpgrade]:
    """All groups on one course."""
    specs = specs_of(rows)
    return specs, simulate_upgrade(specs, [of_all] * specs.num_groups)


def figures(steps: list[UpgradeStep]) -> list[tuple[int, ...]]:
    """Moved, revoked, stopped and moved by rules of each step."""
    return [(each.moved, each.revoked, each.paused_partitions, each.moved_by_rules) for each in steps]


# --- one by one ---------------------------------------------------------------------------------------------------


def remember(row: Row, releases: dict[int, str]) -> None:
    """What members tell after a generation: in the user data, and from 3.4 on in the subscription, too."""
    for member in row["members"]:
        member["generation"] = -1 if releases[id(member)] == "3.2" else 5
        member["user_generation"] = 5


def rebalance(row: Row, assignor: str, leader: str, releases: dict[int, str]) -> Generator[Request, Owners, None]:
    """Everybody joins until nobody has to give up anything. Yields what is to be planned, by which assignor."""
    while True:
        racks = {id(each): each["rack"] if releases[id(each)] != "3.2" else None for each in row["members"]}
        generations = row | {"members": [each | {"rack": racks[id(each)]} for each in row["members"]]}
        given, late = yield generations, f"{assignor}@{leader}"
        for member in row["members"]:
            member["owned"] = sorted(given[member["id"]])
        remember(row, releases)
        if not any(late.values()):
            return


def first_in_java(members: list[Row]) -> Row:
    """The first in a `HashMap` by id."""
    return next(each for each in members if each["id"] == texts_in_table_order([each["id"] for each in members])[0])


def one_by_one(row: Row, assignor: str, old: str, new: str) -> Generator[Request, Owners, Restarts]:
    """Restart the members of one group, which changes the row: of each restart moves, who leads, and its release."""
    members = sorted(row["members"], key=lambda member: java_order(member["id"]))
    releases = {id(member): old for member in members}
    seats = list(members)  # in the order in which the coordinator has put them in
    leader = first_in_java(seats)
    steps = []
    for member in members:
        moved = 0
        for there in (False, True):
            before = {each["id"]: owned(each) for each in members if there or each is not member}
            left = set() if there else owned(member)
            if there:
                member |= {"id": next_member_id(member["id"]), "owned": [], "generation": -1}
                member.pop("user_generation", None)
                releases[id(member)] = new
                before = {each["id"]: owned(each) for each in members}
            seats = [each for each in seats if each is not member] + [member] * there
            others = [each for each in row["members"] if there or each is not member]  # as the coordinator lists them
            if not others:
                continue
            if leader is member and not there:
                leader = first_in_java(seats)
            yield from rebalance(row | {"members": others}, assignor, releases[id(leader)], releases)
            had = left.union(*before.values())
            now = {each["id"]: owned(each) for each in others}
            kept = sum(len(now[name] & before[name]) for name in before)
            moved += len(had & set().union(*now.values())) - kept
        steps.append((moved, leader["id"], releases[id(leader)]))
    return steps, members


def in_lockstep(groups: Mapping[str, Generator[Request, Owners, Restarts]]) -> dict[str, Restarts]:
    """Returns what each group returns; the next rebalances of all groups with one assignor are planned in one call."""
    found: dict[str, Restarts] = {}
    answers: dict[str, Any] = dict.fromkeys(groups)
    while answers:
        requests: dict[str, list[Row]] = {}
        for case, answer in answers.items():
            try:
                row, assignor = groups[case].send(answer)
                requests.setdefault(assignor, []).append(row)
            except StopIteration as end:
                found[case] = end.value
        answers = {case: each for name, rows in requests.items() for case, each in planned(rows, name).items()}
    return found


@pytest.mark.parametrize(("assignor", "old"), [("cooperative-sticky", "3.2"), ("sticky", "3.9"), ("sticky", "4.4")])
def test_many_groups_side_by_side_are_what_restarts_one_by_one_are(assignor: str, old: str, seed: int) -> None:
    """Random groups of dynamic members: who leads after each restart, what moves, and who has what in the end."""
    rows = [
        row
        for row in random_groups.groups(assignor, seed, small=drawn(60, 80), mid_size=0)
        if 1 < len(row["members"]) <= 5
        and len({member["id"] for member in row["members"]}) == len(row["members"])
        and not any(member.get("instance") for member in row["members"])
    ][: drawn(5, 8)]
    assert len(rows) > 4
    specs, done = played(rows, course((assignor,), old, ("4.4", (assignor,))))
    cases = specs.cluster.to_pylist()
    # Of other groups Kafka's class throws on the way.
    complete = [row for row in rows if done.is_complete[cases.index(row["case"])]]
    expected = in_lockstep({row["case"]: one_by_one(row, assignor, old, "4.4") for row in complete})
    for case, (steps, members) in expected.items():
        found = [(each.moved, each.leader, each.leader_release) for each in done.steps[cases.index(case)]]
        assert found == steps, case
        assert list(who_has(specs, done.owned_after, case).values()) == [owned(member) for member in members]


# --- who leads ----------------------------------------------------------------------------------------------------


def test_the_leader_stays_until_it_restarts() -> None:
    """Then the first of the others in Java's order leads, whichever release it is of."""
    names = [f"c{number}" for number in range(4)]
    _, done = played([a_group({name: [at] for at, name in enumerate(names)})], course(EAGER, "2.8", ("3.9", EAGER)))
    ids = list(names)
    leader = texts_in_table_order(ids)[0]
    for at, step in enumerate(done.steps[0]):
        if leader == ids[at]:
            leader = texts_in_table_order([name for name in ids if name != leader])[0]
        ids[at] = next_member_id(ids[at])
        assert (step.leader, step.new_member_id, step.assignor) == (leader, ids[at], "sticky")
        assert step.leader_release == ("2.8" if leader in names else "3.9")
    assert done.is_complete.tolist() == [True]
    assert len({step.leader for step in done.steps[0]}) == 1 + sum(step.leader_changed for step in done.steps[0][1:])
    unknown = replace(course(EAGER, "2.8", ("3.9", EAGER)), leader="gone")
    assert played([a_group({name: [at] for at, name in enumerate(names)})], unknown)[1].steps == done.steps


def test_static_members_lead_on_under_new_ids() -> None:
    """Nothing moves until something else changes: then the rules do what they do."""
    _, done = played([a_group({"c0": [0, 1, 2], "c1": [3]}, instance=True)], course(EAGER, "2.8", ("3.9", EAGER)))
    first, second, last = done.steps[0]
    assert figures([first, second]) == [(0, 0, 3, 0), (0, 0, 1, 0)]
    assert [each.leader_changed for each in (first, second, last)] == [False] * 3
    assert (last.step_type, last.leader_release, last.moved, last.moved_by_rules) == (
        "next-rebalance",
        "3.9",
        1,
        0,
    )


def test_the_only_member_gets_everything_back() -> None:
    """While it is away nobody is there who could get anything, and it leads again."""
    _, done = played([a_group({"c0": [0, 1, 2, 3]})], course(EAGER, "2.8", ("3.9", EAGER)))
    assert figures(done.steps[0]) == [(0, 0, 4, 0)]
    assert not done.steps[0][0].leader_changed


def test_a_leader_that_takes_the_newest_generation_alone_deals_old_members_again() -> None:
    """2.8.0 tells no generation: a leader of 3.3 gives away what such a member has, one of 3.9 does not."""
    members = {f"c{at}": list(range(4 * at, 4 * at + 4)) for at in range(3)}
    row = a_group(members) | {"topics": {"t0": 12}}
    for member in row["members"]:
        member["generation"] = -1
    by_rules = {}
    for release in ("3.3", "3.9"):
        _, done = played([row], course(COOPERATIVE, "2.8.0", (release, COOPERATIVE)))
        assert [step.leader_release for step in done.steps[0]] == ["2.8.0", release, release]
        by_rules[release] = [step.moved_by_rules for step in done.steps[0]]
    assert by_rules == {"3.3": [0, 3, 0], "3.9": [0, 0, 0]}


# --- the vote -----------------------------------------------------------------------------------------------------


def test_the_old_assignor_wins_until_one_member_has_dropped_it() -> None:
    """Two restarts of each (KIP-429): from the first member on that has dropped it, the new one wins."""
    rows = [a_group({"c0": [0, 1], "c1": [2], "c2": [3]})]
    _, done = played(rows, course(EAGER, "2.8", ("3.9", BOTH), ("3.9", COOPERATIVE)))
    assert [step.assignor for step in done.steps[0]] == ["sticky"] * 3 + ["cooperative-sticky"] * 3
    assert [step.bounce for step in done.steps[0]] == [1, 1, 1, 2, 2, 2]
    assert done.is_complete.tolist() == [True]


def test_mixed_lists_are_voted_on() -> None:
    """The first of each member's list that all have; the most votes win."""
    seats = GroupMembership([("a", None), ("b", None)], EAGER)
    seats.join("c", None, BOTH)
    assert seats.elect()[1] == "sticky"
    seats = GroupMembership([("a", None), ("b", None), ("c", None)], ("cooperative-sticky", "sticky"))
    seats.join("d", None, BOTH)
    assert seats.elect()[1] == "cooperative-sticky"
    seats.join("e", None, EAGER)
    assert seats.elect()[1] == "sticky"


def test_a_static_member_that_changes_the_vote_makes_the_group_rebalance() -> None:
    """Kafka compares the winner, and nothing else."""
    seats = GroupMembership([("a", "i-a"), ("b", "i-b")], BOTH)
    assert not seats.rejoin_static("i-a", "a", "a2", BOTH)
    assert seats.rejoin_static("i-b", "b", "b2", COOPERATIVE)


# --- what members tell --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "elected", "generations"),
    [
        *(("2.8.0", "cooperative-sticky", (-1, -1)), ("2.8.1", "cooperative-sticky", (-1, 1))),
        *(("3.3", "cooperative-sticky", (-1, 1)), ("3.4", "cooperative-sticky", (1, 1))),
        *(("2.4", "sticky", (-1, 1)), ("3.9", "sticky", (1, 1)), ("3.9", "range", (1, -1)), ("2.8", "range", (-1, -1))),
    ],
)
def test_where_a_generation_is_reported(release: str, elected: str, generations: tuple[int, int]) -> None:
    """In the subscription, in the user data, in both or nowhere."""
    assert reported_generation(release, elected) == generations


def test_whose_partitions_the_leader_hears_of() -> None:
    """Cooperative-sticky of cooperative members alone, sticky of those that remember."""
    assert (is_eager(BOTH), is_eager(COOPERATIVE)) == (True, False)
    assert not reports_owned("cooperative-sticky", "sticky", BOTH)
    assert reports_owned("cooperative-sticky", "sticky", COOPERATIVE)
    assert not reports_owned("sticky", "range", ("range", "sticky"))
    assert reports_owned("sticky", "sticky", EAGER)


def test_kept_partitions_are_reported_first() -> None:
    """Of one topic what a member had, in its order, then what is new."""
    specs = specs_of([a_group({"c0": [0, 1, 2, 3]})])
    rows = specs.owned.expand()
    before = rows.take(np.array([3, 1]))
    after = next_owned_order(before, specs.owned, np.zeros(len(specs.topics), np.int64), 1)
    assert after.first.tolist() == [3, 1, 0, 2]


def test_all_stop_and_start_again() -> None:
    """Everything stops, and cooperative-sticky deals to members that own nothing."""
    specs = specs_of([a_group({"c0": [0, 1, 2], "c1": [3]})])
    stopped, moved, refused = simulate_full_restart(specs, [ClientConfig("3.9", COOPERATIVE)])
    assert (stopped.tolist(), refused) == ([4], {})
    assert 1 <= moved[0] <= 3
    assert [each.tolist() for each in simulate_full_restart(specs, [None])[:2]] == [[0], [0]]
