"""Predicted = actual where the broker assigns (KIP-848): a plan is the broker's target after every change of a group.

A plan begins with the ownership before the change. It gives a member what nobody else has to give up first; with that,
it is the target.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_assign import Fleet, plan
from tests import seeds
from tests.frames import dataframe
from tests.kafka import kip848_story, live_groups
from tests.kafka.broker import Cluster
from tests.kafka.consumer_groups import State, Targets
from tests.kafka.kip848_story import FRESH, GROWN
from tests.kafka.live_groups import Tables, planned_rows, renamed
from tests.slices import by_owner

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

REPEAT = f"repeat with {seeds.repeat()}"


def play(cluster: Cluster, folder: Path) -> dict[str, State]:
    """Returns the states, in their order."""
    return kip848_story.tell(cluster, random.Random(seeds.seed_for("kip848")))


def _fleet(spark: SparkSession, tables: dict[str, Tables]) -> Fleet:
    """Some states at once, each as a cluster that is called after its step."""
    names = next(iter(tables.values()))
    rows = {name: [row | {"cluster": step} for step, of in tables.items() for row in of[name]] for name in names}
    return live_groups.fleet(spark, rows)


def _assigned(before: Tables, after: Tables) -> Tables:
    """What the broker assigned after a change. A member that joins comes last (`TargetAssignmentBuilder`), which counts
    if it shares a bucket of a hash map with others; where it is listed afterwards, its ID decides."""
    listed = {(row["group_id"], row["member_id"]): row["position"] for row in before["members"]}
    last = 1 + max(listed.values())
    members = [row | {"position": listed.get((row["group_id"], row["member_id"]), last)} for row in after["members"]]
    return after | {"members": members, "owned_slices": renamed(before, after)}


def _planned(fleet: Fleet) -> dict[str, Targets]:
    """Of each step who is to have what, by the plan."""
    planned = plan(fleet, "configured")
    assert planned.rejected.collect() == []
    owners = by_owner(planned_rows(planned.assignments, planned.revocations), "cluster", "group_id", "member_id")
    found: dict[str, Targets] = {step: {} for step, *_ in owners}
    for (step, *who), owned in owners.items():
        found[step][who[0], who[1]] = frozenset(owned)
    return found


def _changed(story: dict[str, State], *changes: str) -> dict[str, tuple[State, State]]:
    """Of each step that begins so the states before and after it."""
    steps = list(story)
    return {step: (story[last], story[step]) for last, step in pairwise(steps) if step.startswith(changes)}


def _differences(predicted: dict[str, Targets], story: dict[str, State]) -> list[str]:
    return [
        f"{step} {group}: {sorted(plan.get((group, member), ()))} is not {sorted(target.get((group, member), ()))}"
        for step, plan in predicted.items()
        for target in [story[step].targets]
        for group, member in sorted(plan.keys() | target.keys())
        if plan.get((group, member)) != target.get((group, member))
    ]


def _assert_predicted(predicted: dict[str, Targets], story: dict[str, State], steps: Iterable[str]) -> None:
    assert set(predicted) == set(steps)
    differences = _differences(predicted, story)
    assert not differences, f"{len(differences)} members differ, {REPEAT}\n" + "\n".join(differences[:30])


def _moved(before: State, after: State) -> int:
    return len(set(before.targets.items()) - set(after.targets.items()))


def test_the_target_is_what_members_have(story: dict[str, State]) -> None:
    """The snapshot of a settled group has the broker's target as what is owned: the plans below begin with it."""
    for step, state in story.items():
        owners = by_owner(state.tables["owned_slices"], "group_id", "member_id")
        assert owners == {who: set(got) for who, got in state.targets.items()}, f"{step}, {REPEAT}"
    assert len(story) == 12


def test_members_join_subscribe_and_find_topics(spark: SparkSession, story: dict[str, State]) -> None:
    """Ownership of before, all else of after: the ids of new members and topics are only known once they are there."""
    changed = _changed(story, "joined", "subscribed", "returned", "created")
    predicted = _planned(
        _fleet(spark, {step: _assigned(last.tables, now.tables) for step, (last, now) in changed.items()})
    )
    _assert_predicted(predicted, story, changed)
    assert len(changed) == 8
    assert all(_moved(last, now) > 5 for step, (last, now) in changed.items() if step != "returned"), REPEAT
    assert any((FRESH[0], 4) in got for got in story["created"].targets.values())


def test_a_static_member_comes_back(story: dict[str, State]) -> None:
    """Under a new id it has what it had; nobody else is touched, nor anybody in another group."""
    [(last, now)] = _changed(story, "returned").values()
    new = set(now.members.items()) - set(last.members.items())
    assert len(new) == len(kip848_story.ASSIGNORS)
    assert {group for (group, _), _ in new} == {f"k-{assignor}-static" for assignor in kip848_story.ASSIGNORS}
    clients = [{(group, member): client for (group, client), member in at.members.items()} for at in (last, now)]
    by_client = [
        {(group, names[group, member]): got for (group, member), got in at.targets.items()}
        for at, names in zip((last, now), clients, strict=True)
    ]
    assert by_client[0] == by_client[1]


def test_members_leave_and_crash(spark: SparkSession, story: dict[str, State]) -> None:
    """`with_members_left`, of what was there before: nothing is known of what comes."""
    changed = _changed(story, "left", "crashed")
    leavers: list[tuple[Any, ...]] = [
        (step, group, member)
        for step, (last, now) in changed.items()
        for (group, client), member in last.members.items()
        if (group, client) not in now.members
    ]
    before = _fleet(spark, {step: last.tables for step, (last, _) in changed.items()})
    predicted = _planned(
        before.with_members_left(dataframe(spark, "cluster string, group_id string, member_id string", leavers))
    )
    _assert_predicted(predicted, story, changed)
    assert len(leavers) == 2 * 2 * 5


def test_topics_grow(spark: SparkSession, story: dict[str, State]) -> None:
    """`with_partitions`, of what was there before."""
    changed = _changed(story, "grown")
    [(last, now)] = changed.values()
    grown = _fleet(spark, {"grown": last.tables}).with_partitions(topic="l.grows", count=GROWN)
    _assert_predicted(_planned(grown), story, changed)
    assert any(("l.grows", GROWN - 1) in got for got in now.targets.values())
