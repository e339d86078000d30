"""What uniform calls sure has one owner in every order that there may be; what it does not is hardly more than that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, permutations, product
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_assign.assignors.group_facts import GROUP
from spark_assign.assignors.server.order_dependence import (
    MAX_ORDERS,
    HeterogeneousTies,
    MemberQuotas,
    order_dependent_partitions,
)
from spark_assign.assignors.server.uniform import (
    NO_MEMBER,
    assign_homogeneous,
    compute_quotas,
    find_unassigned,
    rebalance,
)
from spark_assign.groups.kernel.plan_groups import PlanParams, plan_groups
from spark_assign.java.hash_map import string_hashes
from spark_assign.numeric.arrays import PartitionSlices
from tests.golden import sticky_kernel
from tests.golden.vectors import Row
from tests.sizes import drawn

Partition = tuple[int, int]
Order = tuple[list[int], list[int], list[list[Partition]]]
"""Members, topics, and what each member had, in the order in which they are walked."""


def ties(random: Random, size: int) -> list[int]:
    """Of each of so many things the tie that it is in, most of them alone."""
    found = [0] * size
    for at in range(1, size):
        found[at] = found[at - 1] + (random.random() < 0.6)
    return found


def orders(things: list[Any], tie: list[int]) -> list[list[Any]]:
    """The things with each tie in every order."""
    orders_of_ties = [[thing for thing, _ in p] for _, p in groupby(zip(things, tie, strict=True), lambda one: one[1])]
    return [[thing for part in parts for thing in part] for parts in product(*map(permutations, orders_of_ties))]


class Group:
    """A random group: what its members had, in the order in which they walk it, and what is tied."""

    def __init__(self, random: Random, *, extras_to_first: bool = False) -> None:
        self.extras_to_first = extras_to_first
        self.sizes = [random.randint(1, 5) for _ in range(random.randint(1, 3))]
        self.members = random.randint(1, 4)
        self.member_tie, self.topic_tie = ties(random, self.members), ties(random, len(self.sizes))
        had: list[dict[int, list[int]]] = [{} for _ in range(self.members)]
        owners = random.sample(range(self.members), random.randint(1, self.members))
        share = random.choice([0.5, 0.9, 1])
        for topic, size in enumerate(self.sizes):
            for partition in range(size):
                if random.random() < share:
                    had[random.choice(owners)].setdefault(topic, []).append(partition)
        self.walks = []
        for mine in had:
            topics = random.sample(sorted(mine), len(mine))
            sets = {topic: (numbers, ties(random, len(numbers))) for topic, numbers in mine.items()}
            self.walks.append((topics, ties(random, len(topics)), sets))

    def of_member(self, member: int) -> list[list[Partition]]:
        """All the ways in which a member's partitions may be walked."""
        topics, tie, sets = self.walks[member]
        return [
            [(topic, at) for topic, numbers in zip(order, parts, strict=True) for at in numbers]
            for order in orders(topics, tie)
            for parts in product(*(orders(*sets[topic]) for topic in order))
        ]

    def all_orders(self) -> Iterator[Order]:
        """Every order that the ties allow."""
        members, topics = range(self.members), range(len(self.sizes))
        for walks in product(*map(self.of_member, members)):
            for each in orders(list(members), self.member_tie):
                for some in orders(list(topics), self.topic_tie):
                    yield each, some, list(walks)

    def how_many(self) -> int:
        """So many orders there are."""
        number = len(orders(list(range(self.members)), self.member_tie)) * len(orders(self.sizes, self.topic_tie))
        for member in range(self.members):
            number *= len(self.of_member(member))
        return number

    def after(self, orders: Sequence[Order]) -> dict[Partition, list[int]]:
        """Returns the owners of each partition, one per order; all orders in one call of the kernel."""
        runs, sizes, topic_at = [], [], []
        for number, (members, topics, walks) in enumerate(orders):
            place = {topic: number * len(topics) + at for at, topic in enumerate(topics)}
            sizes += [self.sizes[topic] for topic in topics]
            topic_at += topics
            for at, member in enumerate(members, number * self.members):
                runs += [(at, place[topic], partition, 1, 1) for topic, partition in walks[member]]
        previous = PartitionSlices(*np.array(runs, np.int64).reshape(-1, 5).T)
        number = np.arange(len(orders))
        member_group, topic_group = np.repeat(number, self.members), np.repeat(number, len(self.sizes))
        rows = assign_homogeneous(
            member_group, topic_group, np.array(sizes, np.int64), previous, extras_to_first=self.extras_to_first
        ).slices.expand()
        topic, owner = np.array(topic_at)[rows.topic], np.concatenate([each for each, *_ in orders])[rows.member]
        found: dict[Partition, list[int]] = {}
        for at in np.argsort(topic_group[rows.topic], kind="stable").tolist():
            found.setdefault((int(topic[at]), int(rows.first[at])), []).append(int(owner[at]))
        return found

    def called_order_dependent(self) -> set[Partition]:
        """What the kernel says."""
        rows = []
        for member, (topics, tie, sets) in enumerate(self.walks):
            for topic, of_topic in zip(topics, tie, strict=True):
                rows += [(member, topic, at, 1, 1, of_topic, each) for at, each in zip(*sets[topic], strict=True)]
        *columns, of_topic, of_partition = np.array(rows, np.int64).reshape(-1, 7).T
        previous, group = PartitionSlices(*columns), np.zeros(self.members, np.int64)
        topic_group, sizes = np.zeros(len(self.sizes), np.int64), np.array(self.sizes)
        had = np.bincount(previous.member, minlength=self.members)
        quota = compute_quotas(group, topic_group, sizes, had, extras_to_first=self.extras_to_first)
        shares = MemberQuotas(group, had, quota, np.array(self.member_tie), extras_to_first=self.extras_to_first)
        loses = (had > shares.min_quota)[previous.member]
        ties = (np.array(self.topic_tie), (of_topic[loses], of_partition[loses]))
        found = order_dependent_partitions(
            shares, topic_group, find_unassigned(previous, sizes), previous.take(loses), *ties
        )
        return set(zip(found.topic.tolist(), found.first.tolist(), strict=True))


@pytest.mark.parametrize(("extras_to_first", "at_most"), [(False, 1.1), (True, 1.4)])
def test_what_is_sure_has_one_owner_in_every_order(extras_to_first: bool, at_most: float) -> None:
    """All orders of small groups; too much is called order-dependent here and there, and never too little. In Kafka
    4.0.0, extras go to the first members."""
    random = Random(9)
    checked = varying = called = 0
    wanted = drawn(350, 700)
    while checked < wanted:
        group = Group(random, extras_to_first=extras_to_first)
        if not 1 < group.how_many() <= 400:
            continue
        checked += 1
        orders = list(group.all_orders())
        after = group.after(orders)
        assert {len(owners) for owners in after.values()} == {len(orders)}
        hangs = {partition for partition, owners in after.items() if len(set(owners)) > 1}
        order_dependent = group.called_order_dependent()
        assert hangs <= order_dependent
        varying, called = varying + len(hangs), called + len(order_dependent)
    assert varying > wanted / 1.4
    assert called < at_most * varying


def test_nothing_depends_on_an_order_where_nothing_ties_or_nothing_moves() -> None:
    """Whatever else is not known."""
    random = Random(10)
    for _ in range(300):
        group = Group(random)
        order = next(group.all_orders())
        if group.how_many() == 1:
            assert not group.called_order_dependent()
        after = group.after([order])
        group.walks = []
        for member in range(group.members):
            mine: dict[int, list[int]] = {}
            for (topic, at), (who,) in after.items():
                if who == member:
                    mine.setdefault(topic, []).append(at)
            group.walks.append((list(mine), [0] * len(mine), {each: (s, [0] * len(s)) for each, s in mine.items()}))
        group.member_tie, group.topic_tie = [0] * group.members, [0] * len(group.sizes)
        assert not group.called_order_dependent()


def test_differing_subscriptions_are_planned_in_every_order() -> None:
    """Exactly what varies, as long as there are few orders; then everything that more than one may have."""
    random = Random(11)
    seen = {"few": 0, "many": 0}
    groups = drawn(200, 400)
    for _ in range(groups):
        members, topics = random.randint(2, 6), random.randint(1, 3)
        sizes = [random.randint(1, 5) for _ in range(topics)]
        asking = [sorted(random.sample(range(members), random.randint(1, members))) for _ in range(topics)]
        had = [
            (random.choice(who), topic, at, 1, 1)
            for topic, who in enumerate(asking)
            for at in range(sizes[topic])
            if random.random() < 0.5
        ]
        previous = PartitionSlices(*np.array(had, np.int64).reshape(-1, 5).T)
        tie = ties(random, members) if random.random() < 0.8 else [0] * members
        group = HeterogeneousTies(members, asking, sizes, random.sample(range(topics), topics), previous)
        found = set(zip(*(e.tolist() for e in group.order_dependent_partitions(tie, ranks_known=True)), strict=True))
        answers = []
        for order in orders(list(range(members)), tie):
            place = {member: at for at, member in enumerate(order)}
            subscribers = [sorted(place[each] for each in who) for who in asking]
            owners, loads = [[NO_MEMBER] * size for size in sizes], [0] * members
            for member, topic, at, *_ in had:
                owners[topic][at] = place[member]
                loads[place[member]] += 1
            rebalance(owners, loads, subscribers, group.ranks)
            answers.append([order[owner] for each in owners for owner in each])
        every = [(topic, at) for topic, size in enumerate(sizes) for at in range(size)]
        hangs = {one for one, owners in zip(every, zip(*answers, strict=True), strict=True) if len(set(owners)) > 1}
        few = len(answers) <= MAX_ORDERS
        assert hangs <= found if not few else hangs == found
        seen["few" if few else "many"] += bool(hangs)
    assert seen["few"] > groups / 8
    assert seen["many"] > groups / 80


# --- from the tables of a fleet ------------------------------------------------------------------------------------


def planned(row: Row, *more: dict[str, Any]) -> tuple[dict[tuple[str, int], str], set[tuple[str, int]], int]:
    """Who has what in the end, what of it is called order-dependent, and the figure that says how much that is."""
    facts = sticky_kernel.facts([row])
    if "position" not in row:
        positions = pa.nulls(len(facts), pa.int32())
        facts = facts.set_column(facts.schema.get_field_index("position"), "position", positions)
    if more:
        facts = pa.concat_tables([facts, pa.Table.from_pylist(list(more), schema=facts.schema)])
    found = pa.concat_tables(list(plan_groups(facts, PlanParams((("*", "uniform"),), ("uniform",))))).to_pylist()
    owners, order_dependent = {}, set()
    for run in found:
        if run["kind"] in ("assigned", "withheld", "order_dependent"):
            some = {(run["topic"], run["first"] + at * run["step"]): run["member_id"] for at in range(run["count"])}
            if run["kind"] == "order_dependent":
                order_dependent |= set(some)
                assert all(owners[one] == member for one, member in some.items())
            else:
                owners |= some
    return owners, order_dependent, next(run["order_dependent"] for run in found if run["kind"] == "metrics")


IDS = ("AaAa", "AaBB", "BBAa", "BBBB")
"""Ids of one hash: they share every bucket."""


def row(owned: dict[str, list[tuple[str, int]]], topics: dict[str, int], **more: Any) -> Row:
    """A group whose members subscribe to all topics."""
    members = [
        {"id": each, "instance": None, "rack": None, "generation": 1, "topics": list(topics), "owned": mine}
        for each, mine in owned.items()
    ]
    ids = {name: f"{number:A>21}A" for number, name in enumerate(topics)}
    return {"case": "c", "topics": topics, "topic_ids": ids, "members": members, **more}


def test_members_of_one_bucket_without_a_position() -> None:
    """The one partition goes to the last of four, whoever that is; with positions that is known."""
    assert len(set(string_hashes(IDS).tolist())) == 1
    nobody = {each: [] for each in IDS}
    assert planned(row(nobody, {"t": 1}))[1:] == ({("t", 0)}, 1)
    assert planned(row(nobody, {"t": 1}, position=True))[1:] == (set(), 0)
    assert planned(
        row(nobody, {"t": 1}, position=True),
        {"cluster": "c", "group_id": "group", "kind": GROUP, "group_type": "classic"},
    )[1:] == ({("t", 0)}, 1)
    assert planned(row({each: [] for each in ("consumer-1", "consumer-2", "consumer-3")}, {"t": 1}))[1:] == (set(), 0)


def test_topics_without_ids_come_in_an_unknown_order() -> None:
    """What of two topics is dealt to two members hangs on it; of one topic, or to one member, nothing does."""
    two = row({"consumer-1": [], "consumer-2": []}, {"t": 2, "u": 2})
    assert planned(two)[1] == set()
    del two["topic_ids"]
    assert planned(two)[1] == {("t", 0), ("t", 1), ("u", 0), ("u", 1)}
    three = row({"consumer-1": [], "consumer-2": []}, {"t": 1, "u": 3})
    del three["topic_ids"]
    # u-0 u-1 u-2 stand at 0 1 2 or at 1 2 3; the middle may be on either side.
    assert planned(three)[1] == {("t", 0), ("u", 1)}
    one = row({"consumer-1": []}, {"t": 2, "u": 2})
    del one["topic_ids"]
    assert planned(one)[1] == set()


@pytest.mark.parametrize("size", [16, 40])
def test_partitions_of_one_bucket(size: int) -> None:
    """Of a topic with more partitions than its set has buckets, it is not known which of two is given up."""
    every = [("t", at) for at in range(0, 4 * size, 4)]
    mine = row({"consumer-1": every, "consumer-2": []}, {"t": 4 * size})
    owners, order_dependent, number = planned(mine)
    assert number == len(order_dependent)
    assert {owners[one] for one in every} == {"consumer-1"}
    mine = row({"consumer-1": [("t", at) for at in (0, 16, 1)], "consumer-2": []}, {"t": 17})
    assert planned(row({"consumer-1": [("t", 0), ("t", 16)], "consumer-2": [("u", 0)]}, {"t": 17, "u": 1}))[1] == set()
