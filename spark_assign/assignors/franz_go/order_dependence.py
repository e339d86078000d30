"""Plans a group like franz-go, and finds the partitions whose owner depends on the order of Go's maps.

Two orders are unknown: that of the topics, and that in which disputed partitions are returned to stale owners. Every
order counts as possible, even if today's Go doesn't produce it. A partition isn't order-dependent if it has the same
owner in all orders:

- In homogeneous groups, loads decide, and the order of topics affects only the position at which a partition is
  assigned. All possible positions are examined (`order_dependent_positions`). With racks, the orders of the topics with
  unassigned partitions are tried.
- In heterogeneous groups, all orders are tried if there are few. If none of them moves a partition with an owner, only
  topics with unassigned partitions count. If there are too many orders, all partitions of topics with several
  subscribers are order-dependent.
- Disputed partitions are order-dependent if the order decides which of them are returned (`find_outcomes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from math import factorial, prod

import numpy as np

from spark_assign.assignors.franz_go.balancer_input import (
    NO_MEMBER,
    FranzGoGroup,
    HomogeneousAssignment,
    count_loads,
    plan_homogeneous,
)
from spark_assign.assignors.franz_go.heterogeneous import HeterogeneousAssignment, plan_heterogeneous
from spark_assign.numeric.arrays import BoolArray, IntArray, number_lists, starts_new_key, values_by_key

MAX_ORDERS = 120
"""Maximum number of orders that are tried."""
_MAX_PARTITIONS = 20_000
"""Maximum number of partitions over all orders; above that, fewer orders are tried."""


@dataclass(frozen=True)
class BalancedGroup:
    """The assignment of a group in one order.

    Attributes:
        owner: owner of each partition.
        order_dependent: whether each partition can have another owner in another order.
        homogeneous: whether only loads decide.
    """

    owner: list[int]
    order_dependent: list[bool]
    homogeneous: bool


def plan_group(group: FranzGoGroup, *, unmatched_subscriptions: bool) -> BalancedGroup:
    """Returns the assignment of one group.

    Args:
        group: the group.
        unmatched_subscriptions: whether some but not all members subscribe to a topic without partitions (which `group`
            contains). The leader counts it if it subscribes to it itself, and then uses the heterogeneous balancer.
    """
    known = [topic for topic, count in enumerate(group.partitions) if count]
    is_homogeneous = all(len(group.subscribers[topic]) == group.num_members for topic in known)
    if not is_homogeneous:
        return _plan_heterogeneous_group(group)
    planned = _plan_homogeneous_group(group)
    return _merge([planned, _plan_heterogeneous_group(group)]) if unmatched_subscriptions else planned


def _merge(alternatives: Sequence[BalancedGroup]) -> BalancedGroup:
    """Returns the first assignment; partitions with another owner in an alternative are order-dependent, too."""
    owners = np.array([each.owner for each in alternatives], np.int64)
    is_dependent = np.any([each.order_dependent for each in alternatives], axis=0) | (owners != owners[0]).any(axis=0)
    return replace(alternatives[0], order_dependent=is_dependent.tolist())


# --- Homogeneous groups -------------------------------------------------------------------------------------------


def _plan_homogeneous_group(group: FranzGoGroup) -> BalancedGroup:
    """Plans a homogeneous group after each outcome of the returns."""
    outcomes = find_outcomes(group)
    if not outcomes:
        owner = plan_homogeneous(group, owners_after_returns(group, sorted(group.stale))).owner
        return BalancedGroup(owner, [True] * len(owner), True)
    if group.leader_rack:
        open_topics = sorted({group.topic[at] for at, member in enumerate(outcomes[0].owner) if member == NO_MEMBER})
        if _num_orders(open_topics) * len(outcomes) > _max_orders(group):
            owner = plan_homogeneous(group, outcomes[0].owner).owner
            return BalancedGroup(owner, [True] * len(owner), True)
        orders: list[tuple[int, ...] | None] = [*permutations(open_topics)]
    else:
        orders = [None]
    pairs = [(outcome, plan_homogeneous(group, outcome.owner, order)) for outcome in outcomes for order in orders]
    return _merge(
        [BalancedGroup(planned.owner, _order_dependent(group, outcome, planned), True) for outcome, planned in pairs]
    )


def _order_dependent(group: FranzGoGroup, outcome: StaleOwnerOutcome, planned: HomogeneousAssignment) -> list[bool]:
    """Returns a mask of the order-dependent partitions after one outcome of the returns."""
    order_dependent = [False] * len(planned.owner)
    # A member whose partitions are order-dependent might lose other ones.
    changing_members = set(outcome.order_dependent_members)
    if not group.leader_rack:  # with racks, each order of the topics is tried
        topic = np.array([group.topic[partition] for partition in planned.unassigned], np.int64)
        dependent = order_dependent_positions(topic, np.array(planned.new_owner, np.int64))
        for position in np.flatnonzero(dependent).tolist():
            order_dependent[planned.unassigned[position]] = True
        changing_members |= {planned.owner[partition] for partition in planned.unassigned}
    changing_members &= planned.from_members
    for partition, owners in enumerate(zip(planned.owner, outcome.owner, strict=True)):
        order_dependent[partition] |= partition in outcome.order_dependent or not changing_members.isdisjoint(owners)
    return order_dependent


# --- Heterogeneous groups -----------------------------------------------------------------------------------------


def _plan_heterogeneous_group(group: FranzGoGroup) -> BalancedGroup:
    """Plans a heterogeneous group in all orders, if there aren't too many."""
    # Topics without partitions come last, as if they weren't counted.
    topics = sorted(range(len(group.partitions)), key=lambda topic: group.partitions[topic] == 0)
    stale = _returnable(group)
    first = plan_heterogeneous(group, topics, stale)
    if group.rules.trusts_stale_claims and group.stale:
        return BalancedGroup(first.owner, [True] * len(first.owner), False)
    assignments = _plan_all_orders(group, topics, stale, first)
    if assignments is None:
        single = [len(subscribers) == 1 for subscribers in group.subscribers]
        return BalancedGroup(first.owner, [not single[topic] for topic in group.topic], False)
    return _merge([BalancedGroup(each.owner, [False] * len(each.owner), False) for each in (first, *assignments)])


def _returnable(group: FranzGoGroup) -> list[int]:
    """Returns the disputed partitions whose stale owner subscribes to them."""
    numbers, different = number_lists(group.subscribers)
    topic, sets = group.topic, [*map(set, different)]
    return sorted(partition for partition, member in group.stale.items() if member in sets[numbers[topic[partition]]])


def _plan_all_orders(
    group: FranzGoGroup, topics: list[int], stale: list[int], first: HeterogeneousAssignment
) -> list[HeterogeneousAssignment] | None:
    """Returns the assignments of all orders that might matter; None if there are too many."""
    max_orders = _max_orders(group)
    owners = owners_after_returns(group, stale)
    unassigned_topics = sorted(
        {group.topic[partition] for partition, member in enumerate(owners) if member == NO_MEMBER}
    )
    is_fixed = _none_returns(group, stale)
    disputed = [] if is_fixed else stale
    if first.only_assigned and _num_orders(unassigned_topics, disputed) <= max_orders:
        other_topics = [topic for topic in topics if topic not in set(unassigned_topics)]
        assignments = [
            plan_heterogeneous(group, [*other_topics, *order], [*returns, *(stale if is_fixed else [])])
            for order, returns in product(permutations(unassigned_topics), permutations(disputed))
        ]
        if all(assignment.only_assigned for assignment in assignments):
            return assignments
    if _num_orders(topics, stale) <= max_orders:
        orders = product(permutations(topics), permutations(stale))
        return [plan_heterogeneous(group, order, returns) for order, returns in orders]
    return None


def _num_orders(*items: Sequence[int]) -> int:
    """Returns the number of orders of the items; of more than nine, only that there are too many."""
    return prod(factorial(min(len(each), 9)) for each in items)


def _max_orders(group: FranzGoGroup) -> int:
    return max(min(MAX_ORDERS, _MAX_PARTITIONS // max(len(group.owner), 1)), 1)


def _none_returns(group: FranzGoGroup, stale: list[int]) -> bool:
    """Checks whether, in every order, only partitions without an owner are returned."""
    min_load = count_loads(group.owner, group.num_members)
    max_load = list(min_load)
    for partition in stale:
        if group.owner[partition] == NO_MEMBER:
            max_load[group.stale[partition]] += 1
    disputed = [
        (group.stale[partition], group.owner[partition]) for partition in stale if group.owner[partition] != NO_MEMBER
    ]
    return all(min_load[member] + 1 >= max_load[owner] for member, owner in disputed)


_MAX_EXACT_SUMS = 20_000
"""Maximum number of partitions for which possible positions are exact; above that, all positions count."""


def order_dependent_positions(topic: IntArray, to_member: IntArray) -> BoolArray:
    """Returns a mask of the unassigned partitions that might get another owner in another order of the topics.

    Any of the other topics can precede a topic, each with all its partitions. So the possible positions of a partition
    differ from its position within the topic by a sum of some of their partition counts.

    Args:
        topic: topic of each partition, in assignment order, topic after topic.
        to_member: member that got each partition.
    """
    is_dependent = np.zeros(len(topic), bool)
    starts = np.flatnonzero(starts_new_key(topic))
    counts = np.diff(np.append(starts, len(topic)))
    if len(starts) < 2 or (to_member == to_member[0]).all():
        return is_dependent
    # The last position up to which the same member gets all partitions.
    last_positions = np.append(np.flatnonzero(to_member[1:] != to_member[:-1]), len(to_member) - 1)
    same_until = last_positions[np.searchsorted(last_positions, np.arange(len(to_member)))]
    fixed: dict[int, BoolArray] = {}
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        if count not in fixed:
            fixed[count] = _fixed_positions(to_member, same_until, count, _possible_sums(counts.tolist(), count))
        is_dependent[start : start + count] = ~fixed[count]
    return is_dependent


def _fixed_positions(to_member: IntArray, same_until: IntArray, count: int, offsets: IntArray | None) -> BoolArray:
    """Returns a mask of the partitions of a topic with `count` partitions that go to the same member at any offset;
    None: at every one."""
    always_same: BoolArray = same_until[:count] >= np.arange(count) + len(to_member) - count
    if offsets is None:
        return always_same
    is_fixed = np.ones(count, bool)
    for offset in offsets.tolist():
        is_fixed &= to_member[offset : offset + count] == to_member[:count]
        if (is_fixed == always_same).all():
            break
    return is_fixed


def _possible_sums(counts: list[int], without: int) -> IntArray | None:
    """Returns the possible sums of the counts, without one count `without`; None if there are too many."""
    total = sum(counts) - without
    if total > _MAX_EXACT_SUMS:
        return None
    remaining = list(counts)
    remaining.remove(without)
    sums = 1
    for count in remaining:
        sums |= sums << count
    bits = np.frombuffer(sums.to_bytes(total // 8 + 1, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))


_MAX_STATES = 200
"""Maximum number of states that are examined."""


@dataclass(frozen=True)
class StaleOwnerOutcome:
    """The owners after the returns, in a homogeneous group.

    Attributes:
        owner: owner of each partition, in one of the orders that lead to these loads.
        order_dependent: partitions that have another owner after another of these orders.
        order_dependent_members: owners and stale owners of these partitions.
    """

    owner: list[int]
    order_dependent: set[int] = field(default_factory=set)
    order_dependent_members: set[int] = field(default_factory=set)


def owners_after_returns(group: FranzGoGroup, order: Iterable[int]) -> list[int]:
    """Returns the owners after partitions were returned in this order. Those without an owner go to their stale
    owner."""
    owner, load = list(group.owner), count_loads(group.owner, group.num_members)
    for partition in order:
        member, current_owner = group.stale[partition], owner[partition]
        if current_owner == NO_MEMBER or load[member] + 1 < load[current_owner]:
            if current_owner != NO_MEMBER:
                load[current_owner] -= 1
            load[member] += 1
            owner[partition] = member
    return owner


def find_outcomes(group: FranzGoGroup) -> list[StaleOwnerOutcome]:
    """Returns all outcomes with different loads; none if there are too many. Every disputed partition must have an
    owner.

    Partitions with the same owner and stale owner are interchangeable: the order decides how many are returned, and any
    of them can be.
    """
    stale = sorted(group.stale.items())
    pairs = values_by_key(((group.owner[partition], member), partition) for partition, member in stale)
    pair_keys, load = list(pairs), count_loads(group.owner, group.num_members)
    start = (tuple(len(pairs[key]) for key in pair_keys), (0,) * len(pair_keys))
    seen, waiting, ends = {start}, [start], []
    while waiting:
        remaining, returned = waiting.pop()
        if not any(remaining):
            ends.append(returned)
            continue
        current_load = list(load)
        for (owner, member), count in zip(pair_keys, returned, strict=True):
            current_load[owner] -= count
            current_load[member] += count
        for index, (owner, member) in enumerate(pair_keys):
            if remaining[index]:
                is_returned = int(current_load[member] + 1 < current_load[owner])
                state = (_changed(remaining, index, -1), _changed(returned, index, is_returned))
                if state not in seen:
                    seen.add(state)
                    waiting.append(state)
                if len(seen) > _MAX_STATES:  # each state is as long as there are pairs
                    return []
    return [
        _outcome(group, {key: (pairs[key], count) for key, count in zip(pair_keys, returned, strict=True)})
        for returned in ends
    ]


def _outcome(group: FranzGoGroup, returned: dict[tuple[int, int], tuple[list[int], int]]) -> StaleOwnerOutcome:
    """Returns the outcome of these numbers of returned partitions."""
    outcome = StaleOwnerOutcome(list(group.owner))
    for (owner, member), (partitions, count) in returned.items():
        for partition in partitions[:count]:
            outcome.owner[partition] = member
        if 0 < count < len(partitions):
            outcome.order_dependent.update(partitions)
            outcome.order_dependent_members.update((owner, member))
    return outcome


def _changed(values: tuple[int, ...], index: int, change: int) -> tuple[int, ...]:
    """Returns the numbers with one of them changed."""
    return (*values[:index], values[index] + change, *values[index + 1 :])
