"""franz-go's sticky plan of a group, and which partitions may go to somebody else in another order of Go's maps.

Two orders are unknown: that of the topics, and that in which partitions are given back that two members claim. Any
order counts as possible, also one that Go would not take today. What is called sure has the same owner in all of them:

- Where everybody subscribes to the same topics, loads decide, and the order of the topics only says which partition is
  dealt at which place (`alike`). All places that a partition may have are looked at.
- Where subscriptions differ, all orders are tried if they are few. If nothing is taken from anybody in any of them,
  only topics in which partitions have no owner count. Otherwise only what has a single subscriber is sure.
- What members claim twice is order-dependent where an order decides which of it is given back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import factorial

import numpy as np

from spark_assign.groups.assignors.franz_go.balancer_input import NO_MEMBER, FranzGoGroup
from spark_assign.groups.assignors.franz_go.deal_positions import hanging
from spark_assign.groups.assignors.franz_go.heterogeneous import HeterogeneousAssignment, plan_heterogeneous
from spark_assign.groups.assignors.franz_go.homogeneous import HomogeneousAssignment, plan_homogeneous
from spark_assign.groups.assignors.franz_go.stale_owner_returns import StaleOwnerOutcome, may_return, outcomes

ORDERS = 120
"""So many orders are tried at most."""
_LARGE = 20_000
"""So many partitions are looked at in all orders together; beyond, fewer orders are tried."""


@dataclass(frozen=True)
class BalancedGroup:
    """Of each partition its owner in one order, and whether it may have another; and whether loads alone decide."""

    owner: list[int]
    order_dependent: list[bool]
    alike: bool


def plan_group(group: FranzGoGroup, *, asked_in_vain: bool) -> BalancedGroup:
    """Plan one group.

    Args:
        group: the group.
        asked_in_vain: whether some, but not all subscribe to a topic of no partitions (which `group` has). The leader
            counts it if it subscribes to it itself, and then takes the way of differing subscriptions.
    """
    known = [topic for topic, count in enumerate(group.partitions) if count]
    alike = all(len(group.subscribers[topic]) == group.members for topic in known)
    if not alike:
        return _differing(group)
    answer = _alike(group)
    if not asked_in_vain:
        return answer
    other = _differing(group)
    both = zip(answer.order_dependent, other.order_dependent, answer.owner, other.owner, strict=True)
    return BalancedGroup(answer.owner, [one or two or here != there for one, two, here, there in both], True)


# --- equal subscriptions ------------------------------------------------------------------------------------------


def _alike(group: FranzGoGroup) -> BalancedGroup:
    order = list(range(len(group.partitions)))
    found = outcomes(group)
    first = (
        plan_homogeneous(group, found[0].owner, order) if found else plan_homogeneous(group, _as_claimed(group), order)
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


def _as_claimed(group: FranzGoGroup) -> list[int]:
    """Who has what if partitions are given back in their order."""
    return may_return(group, sorted(group.stale))


def _order_dependent(group: FranzGoGroup, outcome: StaleOwnerOutcome, planned: HomogeneousAssignment) -> list[bool]:
    """What is order-dependent after partitions were given back in one way."""
    order_dependent = [False] * len(planned.owner)
    topic = np.array([group.topic[partition] for partition in planned.free], np.int64)
    for at in np.flatnonzero(hanging(topic, np.array(planned.dealt, np.int64))).tolist():
        order_dependent[planned.free[at]] = True
    # Whoever gives may give something else if it is not sure what it has.
    vague = planned.from_members & (outcome.vague | {planned.owner[partition] for partition in planned.free})
    for partition, member in enumerate(planned.owner):
        had = outcome.owner[partition]
        order_dependent[partition] |= member in vague or had in vague or partition in outcome.open_
    return order_dependent


# --- differing subscriptions --------------------------------------------------------------------------------------


def _differing(group: FranzGoGroup) -> BalancedGroup:
    # Topics of no partitions last, as if they were not counted.
    topics = sorted(range(len(group.partitions)), key=lambda topic: group.partitions[topic] == 0)
    stale = _claims(group)
    first = plan_heterogeneous(group, topics, stale)
    order_dependent = [False] * len(first.owner)
    found = _tried(group, topics, stale, first)
    if found is None:
        single = [len(each) == 1 for each in group.subscribers]
        return BalancedGroup(first.owner, [not single[topic] for topic in group.topic], False)
    for other in found:
        order_dependent = [
            one or here != there for one, here, there in zip(order_dependent, first.owner, other.owner, strict=True)
        ]
    return BalancedGroup(first.owner, order_dependent, False)


def _claims(group: FranzGoGroup) -> list[int]:
    """What may be given back, as its other claimer subscribes to it."""
    topic = group.topic
    return sorted(at for at, member in group.stale.items() if member in group.subscribers[topic[at]])


def _tried(
    group: FranzGoGroup, topics: list[int], stale: list[int], first: HeterogeneousAssignment
) -> list[HeterogeneousAssignment] | None:
    """The answers of all orders that may matter; null if there are too many."""
    most = max(min(ORDERS, _LARGE // max(len(group.owner), 1)), 1)
    before = may_return(group, stale)
    free = sorted({group.topic[partition] for partition, member in enumerate(before) if member == NO_MEMBER})
    at_rest = _none_returns(group, stale)
    claims = [] if at_rest else stale
    if first.filled and factorial(len(free)) * factorial(len(claims)) <= most:
        others = [topic for topic in topics if topic not in set(free)]
        found = [
            plan_heterogeneous(group, [*others, *order], [*claimed, *(stale if at_rest else [])])
            for order, claimed in _orders(free, claims)
        ]
        if all(each.filled for each in found):
            return found
    if factorial(len(topics)) * factorial(len(stale)) <= most:
        return [plan_heterogeneous(group, order, claimed) for order, claimed in _orders(topics, stale)]
    return None


def _orders(topics: Sequence[int], stale: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    yield from product(permutations(topics), permutations(stale))


def _none_returns(group: FranzGoGroup, stale: list[int]) -> bool:
    """Whether, in every order, only that is given back which nobody has."""
    least = [0] * group.members
    for member in group.owner:
        if member != NO_MEMBER:
            least[member] += 1
    most = list(least)
    for partition in stale:
        if group.owner[partition] == NO_MEMBER:
            most[group.stale[partition]] += 1
    owned = [(group.stale[at], group.owner[at]) for at in stale if group.owner[at] != NO_MEMBER]
    return all(least[member] + 1 >= most[owner] for member, owner in owned)
