"""The vote for the protocol of a generation (`ClassicGroup.selectProtocol`, `ClassicGroupMember.vote`).

Principle: candidates are the protocols that all members support. Each member votes for the first candidate in its own
list; the most votes win. Of several with as many, the first in Java's `HashMap` of votes wins.

Example: [range, sticky], [sticky, range] and [roundrobin, sticky, range]: range and sticky are candidates, and sticky
wins with two votes. (An assignor that only some have is no candidate, however many would like it best.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from spark_assign.java.hash_map import HashTable, string_hash
from spark_assign.simulation.kernel.classic_group_state import IllegalArgument

Protocols = Sequence[str]
"""Of one member, the one it likes best first."""


def select(
    lists: Collection[tuple[str, ...]],
    supporters: Mapping[str, int],
    in_java_order: Callable[[], Iterable[Protocols]],
) -> str:
    """The protocol that wins.

    Args:
        lists: the protocols of every member, in any order.
        supporters: how many members support each protocol.
        in_java_order: gives the protocols of every member in the order of the map of members; asked for in a tie.

    Raises:
        IllegalArgument: no protocol of some member is supported by all.
    """
    candidates = {name for name, members in supporters.items() if members == len(lists)}
    votes = Counter[str]()
    for protocols, voters in Counter(lists).items():
        votes[vote(protocols, candidates)] += voters
    most = max(votes.values())
    tied = {name for name, count in votes.items() if count == most}
    if len(tied) == 1:
        return tied.pop()
    table: HashTable[str] = HashTable()
    for member in in_java_order():
        name = vote(member, candidates)
        table.add(name, string_hash(name))
    return next(name for name in table.walk() if name in tied)


def vote(protocols: Sequence[str], candidates: Collection[str]) -> str:
    """For which candidate a member with these protocols votes: the first in its own order.

    Raises:
        IllegalArgument: it supports none of them.
    """
    for protocol in protocols:
        if protocol in candidates:
            return protocol
    raise IllegalArgument("Member does not support any of the candidate protocols")
