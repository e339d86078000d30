"""What goes back to a member that claims it in an older generation, in all orders in which that may be decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from spark_assign.groups.assignors.franz_go.balancer_input import NO_MEMBER, FranzGoGroup

_MOST = 200
"""So many states are looked at."""


@dataclass(frozen=True)
class StaleOwnerOutcome:
    """Who has what afterwards, where everybody subscribes to the same topics.

    Attributes:
        owner: of each partition, in one order of those that lead to these loads.
        open_: partitions that the other claimer may have after another of these orders.
        vague: the members that claim them.
    """

    owner: list[int]
    open_: set[int] = field(default_factory=set)
    vague: set[int] = field(default_factory=set)


def may_return(group: FranzGoGroup, order: Iterable[int]) -> list[int]:
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


def outcomes(group: FranzGoGroup) -> list[StaleOwnerOutcome]:
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
        if len(seen) > _MOST:
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
            outcome.open_.update(partitions)
            outcome.vague.update((owner, member))
    return outcome


def _loads(group: FranzGoGroup) -> list[int]:
    load = [0] * group.members
    for member in group.owner:
        if member != NO_MEMBER:
            load[member] += 1
    return load


def _changed(numbers: tuple[int, ...], at: int, by: int) -> tuple[int, ...]:
    return (*numbers[:at], numbers[at] + by, *numbers[at + 1 :])
