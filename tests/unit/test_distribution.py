"""Members without partitions, uneven topics, and the state after the last round, in the metrics of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from spark_assign.assignors.group_facts import MEMBER, OWNED_SLICE, SUBSCRIPTION
from spark_assign.groups.kernel.plan_groups import DISTRIBUTION_METRICS, METRICS, PlanParams
from tests.plan_rows import facts_table, plan_rows

Fact = dict[str, Any]


def group(
    members: int,
    topics: dict[str, int],
    owned: dict[str, list[int]] | None = None,
    others: dict[str, int] | None = None,
) -> list[Fact]:
    """Members that subscribe to all topics, what the first ones own of each topic, and members of other topics."""
    key = {"cluster": "c", "group_id": "g"}
    facts: list[Fact] = []
    for number in range(members):
        facts.append({**key, "kind": MEMBER, "member_id": f"m{number}", "generation_id": 5})
        facts += [subscribed(f"m{number}", topic, partitions) for topic, partitions in topics.items()]
    for topic, partitions in (others or {}).items():
        facts += [{**key, "kind": MEMBER, "member_id": f"o-{topic}"}, subscribed(f"o-{topic}", topic, partitions)]
    for topic, owners in (owned or {}).items():
        for number in sorted(set(owners)):
            for partition in (at for at, owner in enumerate(owners) if owner == number):
                own = {"member_id": f"m{number}", "topic": topic, "partitions": topics[topic], "first": partition}
                facts.append({**key, "kind": OWNED_SLICE, **own, "step": 1, "count": 1})
    return facts


def subscribed(member_id: str, topic: str, partitions: int) -> Fact:
    """A subscription."""
    names = {"cluster": "c", "group_id": "g", "member_id": member_id}
    return {**names, "kind": SUBSCRIPTION, "topic": topic, "partitions": partitions}


def figures(facts: list[Fact], assignor: str) -> Fact:
    """The columns of the group's metrics."""
    params = PlanParams((("*", assignor),), (assignor,), required_kinds=frozenset({METRICS}))
    (row,) = plan_rows(facts_table(facts), params)
    return {name: row[name] for name in (*DISTRIBUTION_METRICS, "min_per_member", "max_per_member", "withheld")}


@pytest.mark.parametrize(
    ("facts", "assignor", "idle", "note"),
    [
        (group(8, {"t": 5}), "range", 3, "3 of 8 members have no partitions: the topics have 5 partitions in total"),
        (
            group(4, {f"t{n}": 1 for n in range(10)}),
            "range",
            3,
            "3 of 4 members have no partitions: range divides each topic separately, and no topic has more partitions "
            "than 1",
        ),
        (
            group(4, {f"t{n}": 1 for n in range(10)}),
            "server-range",
            3,
            "3 of 4 members have no partitions: server-range divides each topic separately, and no topic has more "
            "partitions than 1",
        ),
        (group(4, {f"t{n}": 1 for n in range(10)}), "sticky", 0, None),
        (
            group(3, {"t": 2, "u": 2}),
            "range",
            1,
            "1 of 3 members has no partitions: range divides each topic separately, and no topic has more partitions "
            "than 2",
        ),
        (
            group(2, {"t": 5, "u": 5, "v": 5}),
            "range",
            0,
            "range divides each topic separately, so the same members have the larger share of each: up to 9 "
            "partitions, and an even share is 8",
        ),
        (
            group(2, {"t": 6}, others={"u": 6}),
            "range",
            0,
            "members subscribe to different topics, and one has 6 partitions, and an even share is 4",
        ),
        (
            group(3, {"t": 2}, others={"u": 9}),
            "sticky",
            1,
            "1 of 4 members has no partitions: other members have all partitions of the topics that they subscribe to",
        ),
        (
            group(2, {"t": 6, "u": 6}, {"t": [0] * 6, "u": [1] * 6}),
            "sticky",
            0,
            "one member has 6 of 6 partitions of t, and an even share is 3",
        ),
        (group(2, {"t": 3}), "sticky", 0, None),
    ],
    ids=[
        "more members than partitions",
        "ten topics of one partition",
        "the broker's range",
        "sticky divides all topics together",
        "two topics of two partitions, and three members",
        "the first member has the larger share of each topic",
        "the only member of a topic",
        "different subscriptions",
        "an even group with uneven topics",
        "as even as it can be",
    ],
)
def test_notes(facts: list[Fact], assignor: str, idle: int, note: str | None) -> None:
    """The number of members without partitions, and the reason."""
    found = figures(facts, assignor)
    assert (found["members_without_partitions"], found["note"]) == (idle, note)


def test_skew_per_topic_beside_that_of_the_group() -> None:
    """Six partitions each: the group is even, and a member has twice the mean of a topic."""
    found = figures(group(2, {"t": 6, "u": 6}, {"t": [0] * 6, "u": [1] * 6}), "sticky")
    assert (found["final_max_over_mean"], found["topic_max_over_mean"]) == (1.0, 2.0)
    assert figures(group(8, {"t": 5}), "range")["topic_max_over_mean"] == 1.0


def test_the_state_after_the_last_round() -> None:
    """A member joins: in the first round it has nothing, and in the last one a third."""
    found = figures(group(3, {"t": 12}, {"t": [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]}), "cooperative-sticky")
    first = (found["min_per_member"], found["max_per_member"], found["withheld"])
    last = tuple(found[f"final_{name}"] for name in ("min_per_member", "max_per_member", "max_over_mean"))
    assert (first, last) == ((0, 4, 4), (4, 4, 1.0))
    assert (found["members_without_partitions"], found["note"]) == (0, None)


def test_a_group_without_known_topics() -> None:
    """Nothing is assigned, which isn't uneven."""
    found = figures([*group(2, {"t": -1})], "sticky")
    assert (found["topic_max_over_mean"], found["final_max_over_mean"]) == (None, None)
