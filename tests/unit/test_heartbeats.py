"""In how many heartbeats members come to their target: the columns against the coordinator, heartbeat by heartbeat."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from spark_assign.groups.kernel.convergence import converge, list_heartbeats
from spark_assign.groups.kernel.plan_groups import PlanParams, plan_groups
from spark_assign.simulation.kernel.assignment_request import code
from spark_assign.simulation.kernel.consumer_group import ConsumerGroup
from spark_assign.simulation.kernel.consumer_group_members import ConsumerGroupMember, Heartbeat, MemberState, Response
from spark_assign.simulation.kernel.target_assignment import TargetAssignment, Topic, TopicsImage
from tests.cases import tuples
from tests.golden import sticky_kernel
from tests.golden.consumer_group_rows import state_of
from tests.golden.vectors import Row
from tests.sizes import drawn

NAMES = ("uniform", "server-range", "range", "sticky", "cooperative-sticky")
EPOCH = 7
SIZES = {"t0": 5, "t1": 3, "t2": 8, "gone": 0}


def random_group(random: Random, case: str) -> Row:
    """Members that subscribe to some topics, and own something, of other topics and of one that is gone, too."""
    ids = [f"member-{number}" for number in range(random.randint(1, 6))]
    known = [topic for topic, size in SIZES.items() if size]
    alike = random.random() < 0.4
    shared = random.sample(known, random.randint(1, 3))
    members = {each: shared if alike else random.sample(known, random.randint(1, 3)) for each in ids}
    owned: dict[str, list[tuple[str, int]]] = {each: [] for each in ids}
    for topic, size in {**SIZES, "gone": 2}.items():
        for partition in range(size):
            if random.random() < random.choice([0.2, 0.9]):
                owned[random.choice(ids)].append((topic, partition))
    return group(case, members, owned)


def group(case: str, members: dict[str, Sequence[str]], owned: dict[str, list[tuple[str, int]]]) -> Row:
    return {
        "case": case,
        "topics": {topic: size for topic, size in SIZES.items() if size},
        "members": [
            {"id": each, "rack": None, "generation": None, "topics": list(topics), "owned": owned[each]}
            for each, topics in members.items()
        ],
    }


class Played:
    """The group before its first heartbeat; the target is there. A client reports at once what it has given up."""

    def __init__(self, row: Row, target: dict[str, set[int]]) -> None:
        self.numbers = {topic: number for number, topic in enumerate(SIZES)}
        metadata = TopicsImage()
        metadata.put(Topic(n, name, SIZES[name], n, n) for name, n in self.numbers.items() if SIZES[name])
        self.group = ConsumerGroup(metadata)
        for member in row["members"]:
            owned = [code(self.numbers[topic], partition) for topic, partition in member["owned"]]
            names = frozenset(member["topics"])
            self.group.members.put(
                ConsumerGroupMember(member["id"], names=names, member_epoch=EPOCH, assigned=dict.fromkeys(owned, EPOCH))
            )
        walks = {
            each: TargetAssignment(tuple(sorted(some)), frozenset(some), frozenset(one >> 32 for one in some))
            for each, some in target.items()
        }
        self.group.members.set_targets(walks)
        self.group.exists, self.group.group_epoch, self.group.assignment_epoch = True, EPOCH + 1, EPOCH + 1
        self.group.topics_changed(SIZES)
        self.group._hash = self.group._subscribed_topics()

    def beats(self, first: str) -> tuple[dict[str, int], list[int]]:
        """Of each member its heartbeats; after each round how many partitions have an owner who may consume them.

        Those who report come before those who wait, `first` before all others.
        """
        members, count, owners = self.group.members.by_id, 0, []
        found: dict[str, int] = {}
        while len(found) < len(members):
            count += 1
            assert count < 10
            reporting = [each for each, one in members.items() if one.state is MemberState.UNREVOKED_PARTITIONS]
            for each in sorted(members, key=lambda each: (each not in reporting, each != first)):
                answer = self.group.heartbeat(Heartbeat(each, members[each].member_epoch, owned=self._owned(each)), 1)
                assert isinstance(answer, Response)
                assert answer.error is None
                if members[each].is_reconciled_to(EPOCH + 1):
                    found.setdefault(each, count)
            owners.append(sum(len(one.assigned) for one in members.values()))
        assert state_of(self.group) == "Stable"
        return found, owners

    def _owned(self, member_id: str) -> list[int] | None:
        member = self.group.members.by_id[member_id]
        return list(member.assigned) if member.state is MemberState.UNREVOKED_PARTITIONS else None


def planned(rows: list[Row], assignor: str) -> tuple[pa.Table, dict[str, list[dict[str, Any]]], dict[str, Any]]:
    facts, question = sticky_kernel.facts(rows), PlanParams((("*", assignor),), NAMES)
    beats: dict[str, list[dict[str, Any]]] = {}
    for each in pa.concat_tables(list(list_heartbeats(facts, question))).to_pylist():
        beats.setdefault(each["cluster"], []).append(each)
    rounds: dict[str, list[dict[str, Any]]] = {}
    for each in pa.concat_tables(list(converge(facts, question, 12))).to_pylist():
        rounds.setdefault(each["cluster"], []).append(each)
    return facts, beats, rounds


def targets(facts: pa.Table, assignor: str) -> dict[str, dict[str, set[int]]]:
    """Of each group of each member what it is to have."""
    numbers = {topic: number for number, topic in enumerate(SIZES)}
    found: dict[str, dict[str, set[int]]] = {}
    for table in plan_groups(facts, PlanParams((("*", assignor),), NAMES)):
        for row in table.to_pylist():
            if row["kind"] in ("assigned", "withheld"):
                some = (row["first"] + at * row["step"] for at in range(row["count"]))
                mine = found.setdefault(row["cluster"], {}).setdefault(row["member_id"], set())
                mine.update(code(numbers[row["topic"]], each) for each in some)
    return found


@pytest.mark.parametrize("assignor", ["uniform", "server-range"])
def test_as_many_as_the_coordinator_takes(assignor: str) -> None:
    """Who loses and waits may be lucky; if it reports before all others, it takes as long as is said."""
    random = Random(848)
    rows = [random_group(random, f"c{number}") for number in range(drawn(75, 150))]
    facts, beats, rounds = planned(rows, assignor)
    wanted = targets(facts, assignor)
    seen = set()
    for row in rows:
        predicted = {each["member_id"]: each for each in beats[row["case"]]}
        assert predicted.keys() == {member["id"] for member in row["members"]}
        slowest = 0
        for first in predicted:
            found, owners = Played(row, wanted.get(row["case"], {})).beats(first)
            for member_id, count in found.items():
                assert count <= predicted[member_id]["heartbeats"]
                if member_id == first or not (
                    predicted[member_id]["revoked"] and predicted[member_id]["unreleased_partitions"]
                ):
                    assert count == predicted[member_id]["heartbeats"], (row, member_id)
            slowest = max(slowest, *found.values())
            steps = rounds[row["case"]]
            assert owners[0] == steps[0]["assigned"]
            assert owners[-1] == steps[-1]["assigned"]
            assert len(owners) == 1 or owners[1] >= steps[min(1, len(steps) - 1)]["assigned"]
        assert slowest == len(rounds[row["case"]]) == max(each["heartbeats"] for each in predicted.values())
        seen.add(slowest)
    assert seen == {1, 2, 3}


def test_what_members_lose_get_and_wait_for() -> None:
    """Sums agree with the figures of the groups; what somebody else has is waited for."""
    random = Random(12)
    rows = [random_group(random, f"c{number}") for number in range(drawn(50, 100))]
    _, beats, rounds = planned(rows, "uniform")
    for row in rows:
        mine, steps = beats[row["case"]], rounds[row["case"]]
        owned = {member["id"]: len(member["owned"]) for member in row["members"]}
        assert {each["member_id"]: each["kept"] + each["revoked"] for each in mine} == owned
        assert sum(each["revoked"] for each in mine) == steps[0]["revoked"]
        assert sum(each["kept"] + each["newly_assigned"] for each in mine) == steps[-1]["assigned"]
        assert all((each["unreleased_partitions"] > 0) == (each["unreleased_owners"] > 0) for each in mine)
        assert all(each["unreleased_partitions"] <= each["newly_assigned"] for each in mine)
        assert [each["stable"] for each in steps] == [False] * (len(steps) - 1) + [True]


def test_one_story() -> None:
    """C0 revokes two partitions and reports that; C1 gets one at once, and one with its second heartbeat."""
    row = group("c", {"C0": ["t1"], "C1": ["t1"]}, {"C0": [("t1", 0), ("t1", 1), ("t1", 2), ("t2", 0)], "C1": []})
    _, beats, rounds = planned([row], "uniform")
    figures = (
        *("member_id", "heartbeats", "kept", "revoked", "newly_assigned", "unreleased_partitions"),
        *("unreleased_owners",),
    )
    assert [tuple(each[name] for name in figures) for each in beats["c"]] == tuples("C0 2 2 2 0 0 0; C1 2 0 0 1 1 1")
    steps = ("round", "assigned", "revoked", "unowned", "stable")
    assert [tuple(each[name] for name in steps) for each in rounds["c"]] == [(1, 2, 2, 1, False), (2, 3, 0, 0, True)]
    assert beats["c"][0]["assignor"] == "uniform"


def test_groups_of_the_clients_have_no_rows() -> None:
    """Their members do not go to a target."""
    assert planned([group("c", {"C0": ["t1"]}, {"C0": []})], "cooperative-sticky")[1] == {}
