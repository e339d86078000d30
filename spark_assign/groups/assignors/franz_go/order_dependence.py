"""franz-go's sticky plan of a group, and which partitions may go to somebody else in another order of Go's maps.

Two orders are unknown: that of the topics, and that in which partitions are given back that two members claim. Any
order counts as possible, also one that Go would not take today. What is called sure has the same owner in all of them:

- Where everybody subscribes to the same topics, loads decide, and the order of the topics only says which partition is
  dealt at which place (`alike`). All places that a partition may have are looked at.
- Where subscriptions differ, all orders are tried if they are few. If nothing is taken from anybody in any of them,
  only topics in which partitions have no owner count. Otherwise only what has a single subscriber is sure.
- What members claim twice is order-dependent where an order decides which of it is given back.


At which places a partition may be dealt, if the topics come in any order.

What goes back to a member that claims it in an older generation, in all orders in which that may be decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from math import factorial

import numpy as np

from spark_assign.groups.assignors.franz_go.balancer_input import NO_MEMBER, FranzGoGroup
from spark_assign.groups.assignors.franz_go.heterogeneous import HeterogeneousAssignment, plan_heterogeneous
from spark_assign.groups.assignors.franz_go.homogeneous import HomogeneousAssignment, plan_homogeneous
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.segmented_arrays import starts_new_key

MAX_ORDERS = 120
"""So many orders are tried at most."""
_MAX_PARTITIONS = 20_000
"""So many partitions are looked at in all orders together; beyond, fewer orders are tried."""


@dataclass(frozen=True)
class BalancedGroup:
    """Of each partition its owner in one order, and whether it may have another; and whether loads alone decide."""

    owner: list[int]
    order_dependent: list[bool]
    homogeneous: bool


def plan_group(group: FranzGoGroup, *, asked_in_vain: bool) -> BalancedGroup:
    """Plan one group.

    Args:
        group: the group.
        asked_in_vain: whether some, but not all subscribe to a topic of no partitions (which `group` has). The leader
            counts it if it subscribes to it itself, and then takes the way of differing subscriptions.
    """
    known = [topic for topic, count in enumerate(group.partitions) if count]
    alike = all(len(group.subscribers[topic]) == group.num_members for topic in known)
    if not alike:
        return _plan_heterogeneous_group(group)
    answer = _plan_homogeneous_group(group)
    if not asked_in_vain:
        return answer
    other = _plan_heterogeneous_group(group)
    both = zip(answer.order_dependent, other.order_dependent, answer.owner, other.owner, strict=True)
    return BalancedGroup(answer.owner, [one or two or here != there for one, two, here, there in both], True)


# --- equal subscriptions ------------------------------------------------------------------------------------------


def _plan_homogeneous_group(group: FranzGoGroup) -> BalancedGroup:
    order = list(range(len(group.partitions)))
    found = find_outcomes(group)
    first = (
        plan_homogeneous(group, found[0].owner, order)
        if found
        else plan_homogeneous(group, _in_partition_order(group), order)
    )
    if not found:
        return BalancedGroup(first.owner, [True] * len(first.owner), True)
    order_dependent = _order_dependent(group, found[0], first)
    for outcome in found[1:]:
        other = plan_homogeneous(group, outcome.owner, order)
        also = _order_dependent(group, outcome, other)
        both = zip(order_dependent, also, first.owner, other.owner, strict=True)
        order_dependent = [one or two or here != there for one, two, here, there in both]
    return BalancedGroup(first.owner, order_dependent, True)


def _in_partition_order(group: FranzGoGroup) -> list[int]:
    """Who has what if partitions are given back in their order."""
    return owners_after_returns(group, sorted(group.stale))


def _order_dependent(group: FranzGoGroup, outcome: StaleOwnerOutcome, planned: HomogeneousAssignment) -> list[bool]:
    """What is order-dependent after partitions were given back in one way."""
    order_dependent = [False] * len(planned.owner)
    topic = np.array([group.topic[partition] for partition in planned.unassigned], np.int64)
    for at in np.flatnonzero(order_dependent_positions(topic, np.array(planned.new_owner, np.int64))).tolist():
        order_dependent[planned.unassigned[at]] = True
    # Whoever gives may give something else if it is not sure what it has.
    vague = planned.from_members & (
        outcome.order_dependent_members | {planned.owner[partition] for partition in planned.unassigned}
    )
    for partition, member in enumerate(planned.owner):
        had = outcome.owner[partition]
        order_dependent[partition] |= member in vague or had in vague or partition in outcome.order_dependent
    return order_dependent


# --- differing subscriptions --------------------------------------------------------------------------------------


def _plan_heterogeneous_group(group: FranzGoGroup) -> BalancedGroup:
    # Topics of no partitions last, as if they were not counted.
    topics = sorted(range(len(group.partitions)), key=lambda topic: group.partitions[topic] == 0)
    stale = _returnable(group)
    first = plan_heterogeneous(group, topics, stale)
    order_dependent = [False] * len(first.owner)
    found = _plan_all_orders(group, topics, stale, first)
    if found is None:
        single = [len(each) == 1 for each in group.subscribers]
        return BalancedGroup(first.owner, [not single[topic] for topic in group.topic], False)
    for other in found:
        order_dependent = [
            one or here != there for one, here, there in zip(order_dependent, first.owner, other.owner, strict=True)
        ]
    return BalancedGroup(first.owner, order_dependent, False)


def _returnable(group: FranzGoGroup) -> list[int]:
    """What may be given back, as its other claimer subscribes to it."""
    topic = group.topic
    return sorted(at for at, member in group.stale.items() if member in group.subscribers[topic[at]])


def _plan_all_orders(
    group: FranzGoGroup, topics: list[int], stale: list[int], first: HeterogeneousAssignment
) -> list[HeterogeneousAssignment] | None:
    """The answers of all orders that may matter; null if there are too many."""
    most = max(min(MAX_ORDERS, _MAX_PARTITIONS // max(len(group.owner), 1)), 1)
    before = owners_after_returns(group, stale)
    free = sorted({group.topic[partition] for partition, member in enumerate(before) if member == NO_MEMBER})
    at_rest = _none_returns(group, stale)
    claims = [] if at_rest else stale
    if first.only_assigned and factorial(len(free)) * factorial(len(claims)) <= most:
        others = [topic for topic in topics if topic not in set(free)]
        found = [
            plan_heterogeneous(group, [*others, *order], [*claimed, *(stale if at_rest else [])])
            for order, claimed in _orders(free, claims)
        ]
        if all(each.only_assigned for each in found):
            return found
    if factorial(len(topics)) * factorial(len(stale)) <= most:
        return [plan_heterogeneous(group, order, claimed) for order, claimed in _orders(topics, stale)]
    return None


def _orders(topics: Sequence[int], stale: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    yield from product(permutations(topics), permutations(stale))


def _none_returns(group: FranzGoGroup, stale: list[int]) -> bool:
    """Whether, in every order, only that is given back which nobody has."""
    least = [0] * group.num_members
    for member in group.owner:
        if member != NO_MEMBER:
            least[member] += 1
    most = list(least)
    for partition in stale:
        if group.owner[partition] == NO_MEMBER:
            most[group.stale[partition]] += 1
    owned = [(group.stale[at], group.owner[at]) for at in stale if group.owner[at] != NO_MEMBER]
    return all(least[member] + 1 >= most[owner] for member, owner in owned)


_MAX_EXACT_SUMS = 20_000
"""Beyond so many partitions all places from the first to the last count as possible."""


def order_dependent_positions(topic: IntArray, to_member: IntArray) -> BoolArray:
    """Of partitions that nobody had, which may go to somebody else in another order of the topics.

    Before a topic come any of the others, each with all that it has: so a partition has those places that are a sum of
    some of their numbers away from its own in its topic.

    Args:
        topic: of each partition, in the order in which they were dealt, topic after topic.
        to_member: of each, the member that it went to.
    """
    hangs = np.zeros(len(topic), bool)
    begins = np.flatnonzero(starts_new_key(topic))
    counts = np.diff(np.append(begins, len(topic)))
    if len(begins) < 2 or (to_member == to_member[0]).all():
        return hangs
    # Up to where the same member gets everything.
    turns = np.append(np.flatnonzero(to_member[1:] != to_member[:-1]), len(to_member) - 1)
    same = turns[np.searchsorted(turns, np.arange(len(to_member)))]
    steady: dict[int, BoolArray] = {}
    for begin, count in zip(begins.tolist(), counts.tolist(), strict=True):
        if count not in steady:
            steady[count] = _fixed_positions(to_member, same, count, _possible_sums(counts.tolist(), count))
        hangs[begin : begin + count] = ~steady[count]
    return hangs


def _fixed_positions(to_member: IntArray, same: IntArray, count: int, offsets: IntArray) -> BoolArray:
    """Of the partitions of a topic of so many, which go to the same member wherever they may be dealt."""
    surely = same[:count] >= np.arange(count) + len(to_member) - count
    steady = np.ones(count, bool)
    for offset in offsets.tolist():
        steady &= to_member[offset : offset + count] == to_member[:count]
        if (steady == surely).all():
            break
    return steady


def _possible_sums(counts: list[int], without: int) -> IntArray:
    """What some of the counts may add up to, one of them left out."""
    total = sum(counts) - without
    if total > _MAX_EXACT_SUMS:
        return np.arange(total + 1)  # more than there may be; who is not surely unmoved falls out early or late
    others = list(counts)
    others.remove(without)
    sums = 1
    for count in others:
        sums |= sums << count
    bits = np.frombuffer(sums.to_bytes(total // 8 + 1, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))


_MAX_STATES = 200
"""So many states are looked at."""


@dataclass(frozen=True)
class StaleOwnerOutcome:
    """Who has what afterwards, where everybody subscribes to the same topics.

    Attributes:
        owner: of each partition, in one order of those that lead to these loads.
        order_dependent: partitions that the other claimer may have after another of these orders.
        order_dependent_members: the members that claim them.
    """

    owner: list[int]
    order_dependent: set[int] = field(default_factory=set)
    order_dependent_members: set[int] = field(default_factory=set)


def owners_after_returns(group: FranzGoGroup, order: Iterable[int]) -> list[int]:
    """Who has what after partitions were given back in this order; what nobody has goes to its other claimer."""
    owner, load = list(group.owner), _loads(group)
    for partition in order:
        member, has = group.stale[partition], owner[partition]
        if has == NO_MEMBER or load[member] + 1 < load[has]:
            if has != NO_MEMBER:
                load[has] -= 1
            load[member] += 1
            owner[partition] = member
    return owner


def find_outcomes(group: FranzGoGroup) -> list[StaleOwnerOutcome]:
    """All outcomes that differ in loads; none if there are too many. Every partition has an owner that is claimed.

    What goes from one member to one other is alike: orders decide how many go, and then any of them may.
    """
    pairs: dict[tuple[int, int], list[int]] = defaultdict(list)
    for partition, member in sorted(group.stale.items()):
        pairs[group.owner[partition], member].append(partition)
    names, load = list(pairs), _loads(group)
    start = (tuple(len(pairs[name]) for name in names), (0,) * len(names))
    seen, waiting, ends = {start}, [start], []
    while waiting:
        left, went = waiting.pop()
        if not any(left):
            ends.append(went)
            continue
        now = list(load)
        for (owner, member), count in zip(names, went, strict=True):
            now[owner] -= count
            now[member] += count
        for at, (owner, member) in enumerate(names):
            if left[at]:
                goes = int(now[member] + 1 < now[owner])
                state = (_changed(left, at, -1), _changed(went, at, goes))
                if state not in seen:
                    seen.add(state)
                    waiting.append(state)
        if len(seen) > _MAX_STATES:
            return []
    return [
        _outcome(group, {name: (pairs[name], count) for name, count in zip(names, went, strict=True)}) for went in ends
    ]


def _outcome(group: FranzGoGroup, went: dict[tuple[int, int], tuple[list[int], int]]) -> StaleOwnerOutcome:
    outcome = StaleOwnerOutcome(list(group.owner))
    for (owner, member), (partitions, count) in went.items():
        for partition in partitions[:count]:
            outcome.owner[partition] = member
        if 0 < count < len(partitions):
            outcome.order_dependent.update(partitions)
            outcome.order_dependent_members.update((owner, member))
    return outcome


def _loads(group: FranzGoGroup) -> list[int]:
    load = [0] * group.num_members
    for member in group.owner:
        if member != NO_MEMBER:
            load[member] += 1
    return load


def _changed(numbers: tuple[int, ...], at: int, by: int) -> tuple[int, ...]:
    return (*numbers[:at], numbers[at] + by, *numbers[at + 1 :])
