"""The coordinator of a KIP-848 group: stories; recorded sequences of Kafka's class are in `tests/golden`."""

from __future__ import annotations

import random
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from spark_assign.simulation.kernel.assignment_request import code
from spark_assign.simulation.kernel.consumer_group import ConsumerGroup
from spark_assign.simulation.kernel.consumer_group_members import LEAVE, Heartbeat, MemberState, Response
from spark_assign.simulation.kernel.settings import RELEASES, GroupConfig
from spark_assign.simulation.kernel.target_assignment import TargetRequest, Topic, TopicsImage
from spark_assign.simulation.kernel.target_assignment_builder import assign_targets
from tests.golden.consumer_group_rows import state_of

PAGE = Path(__file__).parents[2] / "docs" / "sticky.md"
T0 = Topic(0, "t0", 4, 0, 0)


class GroupUnderTest:
    """A group for t0, and its members' heartbeats."""

    def __init__(self, config: GroupConfig | None = None, now: int = 1) -> None:
        self.metadata = TopicsImage()
        self.metadata.put([T0])
        self.group = ConsumerGroup(self.metadata, config or GroupConfig())
        self.now = now

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Response:
        answer = self.group.heartbeat(Heartbeat(member_id, epoch, **fields), self.now)
        return self.group.apply_target(*assign_targets([answer])) if isinstance(answer, TargetRequest) else answer

    def join(self, member_id: str, **fields: Any) -> Response:
        defaults: dict[str, Any] = {"topics": ["t0"], "rebalance_timeout_ms": 5_000, "owned": []}
        return self.beat(member_id, 0, **defaults | fields)

    def state(self, member_id: str) -> MemberState:
        return self.group.members.by_id[member_id].state


def in_words(partitions: Collection[int] | None) -> str:
    return " ".join(f"t0p{each}" for each in sorted(partitions or []))


def test_the_story_of_the_page() -> None:
    """Every line of the table on docs/sticky.md is what the coordinator answers."""
    lines = re.findall(r"^\| (C\d) \| (\d) \| (.*?)\| epoch (\d)(?:, )?(.*?) \| (\w+) \|$", PAGE.read_text(), re.M)
    assert len(lines) == 4
    group = GroupUnderTest()
    group.join("C0")
    group.now += 10_000
    for member_id, epoch, reports, then, assigned, state in lines:
        owned = [code(0, int(each)) for each in re.findall(r"t0p(\d)", reports)] or None
        answer = group.join(member_id) if epoch == "0" else group.beat(member_id, int(epoch), owned=owned)
        expected = {"nothing": "", "": None}.get(assigned, assigned)
        assert (answer.member_epoch, group.state(member_id).value) == (int(then), state)
        assert (None if answer.assigned is None else in_words(answer.assigned)) == expected
    assert state_of(group.group) == "Stable"


def test_a_group_that_is_restored_lists_its_members_as_before() -> None:
    """The order decides ties. A table that once had more members is larger; of two in a slot, the last came first."""
    rng = random.Random(7)
    for _ in range(200):
        before = GroupUnderTest()
        ids = [f"member-{rng.randrange(10_000)}" for _ in range(rng.randint(2, 30))]
        for each in dict.fromkeys(ids):
            before.join(each)
        leaving = rng.random() < 0.5
        for each in list(dict.fromkeys(ids))[3:] if leaving else []:
            if rng.random() < 0.7:
                before.beat(each, LEAVE)
        listed = before.group.members.hash_order()
        after = GroupUnderTest()
        after.group.restore([(Heartbeat(each, 9, topics=["t0"]), []) for each in listed], 9)
        assert after.group.members.hash_order() == listed
        if not leaving:  # otherwise, the size of the table is known only as far as the order shows it
            for group in (before, after):
                group.join("the-next")
            assert after.group.members.hash_order() == before.group.members.hash_order()


def test_several_who_join_within_the_interval_get_one_target() -> None:
    """From 4.3 on; before, everybody who comes makes a new one."""
    for config, epochs in ((GroupConfig(), (4, 2, 4)), (RELEASES["4.2"], (3, 3, 3))):
        group = GroupUnderTest(config)
        for member_id in ("C0", "C1", "C2"):
            group.join(member_id)
        before = group.group.assignment_epoch
        group.now += 1_000
        group.beat("C2", group.group.members.by_id["C2"].member_epoch)
        assert (group.group.group_epoch, before, group.group.assignment_epoch) == epochs


def test_heartbeats_that_the_coordinator_refuses() -> None:
    """Each with Kafka's error, and without an effect."""
    group = GroupUnderTest()
    for epoch in (1, -1, -2):
        assert group.beat("C0", epoch).error == "GROUP_ID_NOT_FOUND"
    group.join("C0", instance_id="i")
    for error, refused in {
        "INVALID_REGULAR_EXPRESSION": group.join("C1", topics=[], regex="t[0"),
        "UNKNOWN_MEMBER_ID": group.beat("C1", 1),
        "UNRELEASED_INSTANCE_ID": group.join("C1", instance_id="i"),
        "FENCED_INSTANCE_ID": group.beat("C1", 1, instance_id="i"),
        "FENCED_MEMBER_EPOCH": group.beat("C0", 9, instance_id="i"),
    }.items():
        assert refused.error == error
    assert [*group.group.members.by_id] == ["C0"]


def test_who_does_not_give_up_in_time_is_fenced() -> None:
    """After the rebalance timeout; what it had is free then, and it has to join anew."""
    group = GroupUnderTest()
    group.join("C0")
    group.now += 2_000
    group.join("C1")
    group.beat("C0", 2)
    assert group.group.rebalance_deadlines["C0"][0] == group.now + 5_000
    assert group.group.expire(group.now + 4_999) == []
    group.now += 5_000
    assert group.group.expire(group.now) == ["C0"]
    assert group.beat("C0", 2).error == "UNKNOWN_MEMBER_ID"
    assert in_words(group.beat("C1", 3).assigned) == "t0p0 t0p1 t0p2 t0p3"


def test_a_silent_member_is_fenced() -> None:
    """A heartbeat extends the session; 45 seconds after the last one the member is fenced."""
    group = GroupUnderTest()
    group.join("C0")
    group.group.record_heartbeat("C0", group.now + 40_000)
    assert group.group.expire(group.now + 50_000) == []
    assert group.group.expire(group.now + 85_000) == ["C0"]
    assert state_of(group.group) == "Empty"


def test_a_static_member_is_back_under_another_id() -> None:
    """It has all that it had, and nobody gets a new target."""
    group = GroupUnderTest()
    group.join("C0", instance_id="one")
    group.now += 2_000
    assert group.join("C1", instance_id="one").error == "UNRELEASED_INSTANCE_ID"
    assert group.beat("C0", -2, instance_id="one").member_epoch == -2
    epoch = group.group.group_epoch
    answer = group.join("C1", instance_id="one")
    assert (answer.member_epoch, in_words(answer.assigned)) == (epoch, "t0p0 t0p1 t0p2 t0p3")
    assert group.group.group_epoch == epoch
    assert group.beat("C0", 2, instance_id="one").error == "FENCED_INSTANCE_ID"


def test_an_answer_that_was_lost() -> None:
    """The last epoch is accepted once more, of who reports nothing but what it has."""
    group = GroupUnderTest()
    group.join("C0")
    group.now += 2_000
    group.metadata.put([Topic(0, "t0", 6, 0, 0)])
    group.group.topics_changed(["t0"])
    assert group.beat("C0", 2).member_epoch == 3
    assert group.beat("C0", 2, owned=[0, 1]).error is None
    assert group.beat("C0", 2, owned=[9]).error == "FENCED_MEMBER_EPOCH"
    assert group.beat("C0", 2).error == "FENCED_MEMBER_EPOCH"
    assert group.beat("C0", 4).error == "FENCED_MEMBER_EPOCH"


def test_targets_of_many_groups_at_once_are_those_of_each() -> None:
    """No answer depends on the asks beside it."""
    asks = []
    for number in range(12):
        metadata = TopicsImage()
        topics = [Topic(at, f"t{at}", 3 + number + at, at * 7919, at) for at in range(3)]
        metadata.put(topics)
        group = ConsumerGroup(metadata, GroupConfig(assignment_interval_ms=0))
        for member in range(number % 4 + 2):
            names = [topic.name for topic in topics[: 1 + (member * number) % 3]]
            assignor = "range" if number % 3 == 2 else None
            ask = group.heartbeat(Heartbeat(f"m{member}", 0, topics=names, assignor=assignor, owned=[]), 1)
            assert isinstance(ask, TargetRequest)
            if member < number % 4 + 1:
                group.apply_target(*assign_targets([ask]))
        asks.append(ask)
    assert len({(ask.assignor, ask.homogeneous) for ask in asks}) >= 3
    assert assign_targets(asks) == [each for ask in asks for each in assign_targets([ask])]
