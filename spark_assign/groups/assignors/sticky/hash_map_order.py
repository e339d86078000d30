"""The hash maps of members that the sticky assignors fill, and in which order each is walked.

    subscriptions             filled as the leader lists the members: equal subscriptions, claims in conflict, claims of
                              older generations, and the subscribers of a topic
    what members own          filled in the walk of the first: who keeps one partition more (constrained)
    the same while balanced   (general) without the members that take no part; they come back in the end
    a copy of that            what is gone back to where balancing has not helped

All are walked alike, but where more than eight members share a bucket (`java_hash`). Only there is each of them filled,
emptied and walked as Java does it.
"""

from __future__ import annotations

import numpy as np

from spark_assign.groups.assignors.sticky.sticky_types import StickyGroups, TreeifiedMembers
from spark_assign.java.hash_map import HashTable, table_orders
from spark_assign.numeric.array_types import BoolArray, IntArray


def walks(
    hashes: IntArray, ids: IntArray, group: IntArray, listed: IntArray
) -> tuple[IntArray, TreeifiedMembers | None]:
    """`StickyGroups.walk` and `StickyGroups.treeified`.

    Args:
        hashes: of each member the `String.hashCode` of its id.
        ids: of each member a number that sorts as its id does.
        group: of each member, ascending.
        listed: the members as leaders list them, group after group.
    """
    sorted_group = group[listed]
    order, again = table_orders(hashes[listed], ids[listed], sorted_group)
    walk = _places(listed[order])
    return walk, None if again is order else TreeifiedMembers(_places(listed[again]), hashes)


def walk_while_balanced(groups: StickyGroups, takes_part: BoolArray) -> IntArray:
    """Of each member of one group its place in the map of what members own, while the group is balanced."""
    if groups.treeified is None:
        return groups.walk
    return _places(_set_aside(groups, takes_part)[0].walk() + np.flatnonzero(~takes_part).tolist())


def walk_after_balancing(groups: StickyGroups, takes_part: BoolArray, *, reverted: bool) -> IntArray:
    """The same at the end; `reverted` where balancing has not helped."""
    if groups.treeified is None:
        return groups.walk
    owned, aside = _set_aside(groups, takes_part)
    if reverted:
        copy: HashTable[int] = HashTable(rank=_same)
        _fill(copy, owned.walk(), groups.treeified)
        owned.clear()
        _fill(owned, copy.walk(), groups.treeified)
    _fill(owned, aside.walk(), groups.treeified)
    return _places(owned.walk())


def _set_aside(groups: StickyGroups, takes_part: BoolArray) -> tuple[HashTable[int], HashTable[int]]:
    """What members own, without those that take no part, and these (`GeneralAssignmentBuilder.balance`)."""
    assert groups.treeified is not None
    listed = np.argsort(groups.walk).tolist()
    size = len(listed)
    owned: HashTable[int] = HashTable(rank=_same)
    potential: HashTable[int] = HashTable(1 << (size - 1).bit_length(), _same)
    aside: HashTable[int] = HashTable(rank=_same)
    _fill(owned, listed, groups.treeified)
    _fill(potential, listed, groups.treeified)
    for member in potential.walk():
        if not takes_part[member]:
            owned.remove(member)
            _fill(aside, [member], groups.treeified)
    return owned, aside


def _fill(table: HashTable[int], members: list[int], treeified: TreeifiedMembers) -> None:
    for member in members:
        table.add(member, int(treeified.hash[member]))


def _same(member: int) -> int:
    """Members are numbered as their ids sort."""
    return member


def _places(order: IntArray | list[int]) -> IntArray:
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place
