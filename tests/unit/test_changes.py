"""What is planned held against what is owned: runs against a plain loop over partitions.

The loop derives the reasons of the sticky assignors from the rules of Kafka's classes, not from the answer.
"""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from spark_assign.assignors.group_facts import DEPARTED_SLICE, MEMBER, OWNED_SLICE, SUBSCRIPTION
from spark_assign.groups.kernel.plan_groups import PlanParams
from tests.golden import sticky_kernel
from tests.golden.vectors import Row
from tests.kafka import random_groups
from tests.plan_rows import facts_table, plan_rows
from tests.sizes import drawn
from tests.slices import partitions
from tests.unit.test_sticky_figures import racks_matter, racks_of

EVERY_REASON = 1
"""The seed of groups in which all reasons of a move occur; of other seeds some lack one."""
Claim = tuple[str, str, int, bool]
"""member, topic, partition, and whether the member is still there."""


def _decided(rows: list[Row], strategy: str, left: list[dict[str, Any]], *, runs: bool) -> list[dict[str, Any]]:
    facts = pa.concat_tables([sticky_kernel.facts(rows, runs=runs), facts_table(left)])
    return plan_rows(facts, PlanParams((("*", strategy),), (strategy,), racks_known=True))


def _claims(row: Row, left: list[dict[str, Any]]) -> Iterator[Claim]:
    for member in row["members"]:
        for topic, partition in {tuple(each) for each in member["owned"]}:
            yield member["id"], topic, partition, True
    for run in left:
        if run["cluster"] == row["case"]:
            yield from ((run["member_id"], run["topic"], partition, False) for partition in partitions(run))


def _hash_code(text: str) -> int:
    """Returns `String.hashCode`, unsigned."""
    code = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code


def _in_map_order(ids: list[str]) -> list[str] | None:
    """Returns ids in the order of a Java `HashMap` with these keys; None if one of its buckets becomes a tree."""
    spread = {name: (code := _hash_code(name)) ^ code >> 16 for name in ids}
    capacity = 16
    for size, name in enumerate(ids, 1):
        if sum((spread[other] ^ spread[name]) % capacity == 0 for other in ids[:size]) > 8:
            if capacity >= 64:
                return None
            capacity *= 2
        if size > capacity * 3 // 4:
            capacity *= 2
    return sorted(ids, key=lambda name: spread[name] % capacity)


def _subscriptions_are_equal(row: Row) -> bool | None:
    """Returns what `AbstractStickyAssignor.allSubscriptionsEqual` does; None if that depends on the order of a tree.

    It compares each subscription with the first in the order of the map that is not empty.
    """
    topics = {member["id"]: set(member["topics"]) for member in row["members"]}
    if len({frozenset(subscribed) for subscribed in topics.values() if subscribed}) > 1:
        return False
    if all(topics.values()) or not any(topics.values()):
        return True
    order = _in_map_order(list(topics))
    if order is None:
        return None
    return all(topics[member] for member in order[next(at for at, member in enumerate(order) if topics[member]) :])


def _taken(row: Row, owner: str, to_members: list[tuple[str, bool]], topic: str, partition: int) -> str:
    """Returns why a sticky assignor takes a partition from its only owner, which subscribes to the topic.

    Both algorithms first take what is in another rack. Then the constrained one takes what is above the quota, and the
    general one balances. If a member claims a partition that does not exist, Kafka can assign an existing one twice:
    then its owner keeps it, and is not above the quota.
    """
    [rack] = [member["rack"] for member in row["members"] if member["id"] == owner]
    if rack and racks_matter(row) and rack not in racks_of(row, topic, partition):
        return "rack-mismatch"
    if not _subscriptions_are_equal(row):
        return "balancing"
    return "rebalanced" if any(to_member == owner for to_member, _ in to_members) else "over-quota"


def _expected(
    row: Row, claims: list[Claim], target: dict[tuple[str, int], list[tuple[str, bool]]]
) -> tuple[Counter[Any], Counter[Any]]:
    """Moves and revocations by a loop over partitions, in the order in which the reasons are to be tried."""
    asks = {(member["id"], topic) for member in row["members"] for topic in member["topics"]}
    claimers = Counter((topic, partition) for _, topic, partition, _ in claims)
    moves: Counter[Any] = Counter()
    revoked: Counter[Any] = Counter()

    def reason(owner: str | None, living: bool, topic: str, partition: int, to_member: str | None) -> str:
        count = row["topics"].get(topic)
        if count is None:
            return "topic-gone"
        if partition >= count:
            return "partition-gone"
        if owner is None:
            return "new"
        if not living:
            return "member-left"
        if claimers[topic, partition] > 1:
            return "claim-conflict"
        if (owner, topic) not in asks:
            return "unsubscribed"
        if to_member is None:
            return "unassigned"
        return _taken(row, owner, target[topic, partition], topic, partition)

    for owner, topic, partition, living in claims:
        for to_member, waits in target.get((topic, partition), [(None, False)]):
            if to_member == owner and living:
                revoked[owner, topic, partition, to_member] += waits
                continue
            moves[owner, topic, partition, to_member, reason(owner, living, topic, partition, to_member)] += 1
            revoked[owner, topic, partition, to_member] += living
    for (topic, partition), to_members in target.items():
        if not claimers[topic, partition]:
            for to_member, _ in to_members:
                moves[None, topic, partition, to_member, reason(None, True, topic, partition, to_member)] += 1
    return moves, +revoked


def _left(rows: list[Row], draw: random.Random) -> list[dict[str, Any]]:
    """What a member owned that has left some of the groups."""
    return [
        {
            "cluster": row["case"],
            "group_id": "group",
            "kind": DEPARTED_SLICE,
            "member_id": "gone",
            "topic": topic,
            "partitions": row["topics"].get(topic),
            "first": draw.randrange(3),
            "step": draw.randrange(1, 3),
            "count": draw.randrange(1, 4),
        }
        for row in rows[::3]
        for topic in draw.sample([*sorted(row["topics"]), "vanished"], 1)
    ]


@pytest.mark.parametrize("runs", [False, True], ids=["rows", "runs"])
@pytest.mark.parametrize("strategy", random_groups.STICKY)
def test_changes_are_those_of_a_plain_loop(strategy: str, runs: bool, seed: int) -> None:
    """Moves with their reasons, what is given up, and the figures that are counted without looking at partitions."""
    sampled = random_groups.groups(strategy, seed, small=drawn(20, 60), mid_size=0)
    rows = [row | {"strategy": strategy} for row in (*sampled, *random_groups.groups(strategy, EVERY_REASON, 30, 0))]
    left = _left(rows, random.Random(seed))
    of_case: dict[str, list[dict[str, Any]]] = {}
    for row in _decided(rows, strategy, left, runs=runs):
        of_case.setdefault(row["cluster"], []).append(row)
    compared = 0
    reasons: Counter[str] = Counter()
    for row in rows:
        answer = of_case[row["case"]]
        if any(each["kind"] == "rejected" for each in answer) or _subscriptions_are_equal(row) is None:
            continue
        compared += 1
        target: dict[tuple[str, int], list[tuple[str, bool]]] = {}
        for run in answer:
            if run["kind"] in ("assigned", "withheld"):
                for partition in partitions(run):
                    waits = run["kind"] == "withheld"
                    target.setdefault((run["topic"], partition), []).append((run["member_id"], waits))
        claims = list(_claims(row, left))
        found_moves: Counter[Any] = Counter()
        found_revoked: Counter[Any] = Counter()
        for run in answer:
            for partition in partitions(run) if run["kind"] in ("move", "revocation") else ():
                key = (run["member_id"], run["topic"], partition, run["next_member_id"])
                if run["kind"] == "revocation":
                    found_revoked[key] += 1
                    continue
                found_moves[(*key, run["reason"])] += 1
                reasons[run["reason"]] += 1
        moves, revoked = _expected(row, claims, target)
        assert found_moves == moves
        assert found_revoked == revoked
        [figures] = [each for each in answer if each["kind"] == "metrics"]
        _check_figures(row, claims, target, figures)
    assert compared > 0.6 * len(rows)
    assert all(reasons[each] for each in ("over-quota", "rack-mismatch", "balancing")), reasons


def test_partitions_of_topics_without_any() -> None:
    """A topic of 0 partitions exists, so what a member owns of it is out of range; that of an unknown topic isn't."""
    key = {"cluster": "c", "group_id": "g", "member_id": "a"}
    owned = {"kind": OWNED_SLICE, "first": 0, "step": 1}
    rows = [
        {**key, "kind": MEMBER},
        {**key, "kind": SUBSCRIPTION, "topic": "t", "partitions": 2},
        {**key, **owned, "topic": "t", "partitions": 2, "count": 3},
        {**key, **owned, "topic": "none", "partitions": 0, "count": 4},
        {**key, **owned, "topic": "gone", "count": 5},
    ]
    answer = plan_rows(facts_table(rows), PlanParams((("*", "range"),), ("range",)))
    (row,) = [row for row in answer if row["kind"] == "metrics"]
    assert (row["owned_out_of_range"], row["owned_unknown_topic"], row["partitions"]) == (1 + 4, 5, 2)


def _check_figures(
    row: Row, claims: list[Claim], target: dict[tuple[str, int], list[tuple[str, bool]]], figures: dict[str, Any]
) -> None:
    living = [(member, topic, partition) for member, topic, partition, there in claims if there]
    kept = sum((member, False) in target.get((topic, partition), []) for member, topic, partition in living)
    back = sum((member, True) in target.get((topic, partition), []) for member, topic, partition in living)
    there = len({(topic, partition) for _, topic, partition, _ in claims} & set(target))
    times = Counter((topic, partition) for _, topic, partition in living)
    subscribed = {topic for member in row["members"] for topic in member["topics"]}
    counts = {topic: row["topics"].get(topic) for topic in {*subscribed, *(topic for _, topic, _ in living)}}
    given = Counter(member for to_members in target.values() for member, waits in to_members if not waits)
    total = sum(given.values())
    assert figures["partitions"] == total
    assert figures["max_per_member"] == max(given[member["id"]] for member in row["members"])
    assert figures["min_per_member"] == min(given[member["id"]] for member in row["members"])
    each = [given[member["id"]] for member in row["members"]]
    assert figures["stddev_per_member"] == pytest.approx(statistics.pstdev(each))
    assert figures["max_over_mean"] == (pytest.approx(max(each) * len(each) / total) if total else None)
    assert figures["moved"] == there - kept - back
    assert figures["revoked"] == len(living) - kept
    existing = sum(not waits for (topic, p), to in target.items() for _, waits in to if p < (counts[topic] or 0))
    assert figures["unassigned"] == sum(counts[topic] or 0 for topic in subscribed) - existing
    assert figures["withheld"] == sum(waits for to_members in target.values() for _, waits in to_members)
    assert figures["members_without_subscription"] == sum(not member["topics"] for member in row["members"])
    assert figures["unknown_topics"] == sum(not counts[topic] for topic in subscribed)
    assert figures["owned_unknown_topic"] == sum(counts[topic] is None for _, topic, _ in living)
    beyond = (counts[topic] is not None and partition >= counts[topic] for _, topic, partition in living)
    assert figures["owned_out_of_range"] == sum(beyond)
    assert figures["claim_conflicts"] == sum(number > 1 for number in times.values())
