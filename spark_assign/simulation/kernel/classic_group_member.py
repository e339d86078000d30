"""A member of a classic group, as the coordinator knows it (Kafka's `ClassicGroupMember`), and the vote for the
protocol.

The metadata of a protocol is represented by the topics that it contains, because the coordinator reads nothing else. It
is the same for all protocols of a member.

The vote (`ClassicGroup.selectProtocol`, `ClassicGroupMember.vote`): candidates are the protocols that all members
support. Each member votes for the first candidate in its list, and the most votes win. In a tie, the first protocol in
the order of Java's `HashMap` of votes wins.

Example: [range, sticky], [sticky, range], and [roundrobin, sticky, range]: range and sticky are candidates, and sticky
wins with two votes. A protocol that only some members support is no candidate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import Enum

from spark_assign.java.hash_map import HashTable, string_hash


class State(Enum):
    """`ClassicGroupState`. The value is the name in Kafka's responses."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES = {
    State.EMPTY: (State.PREPARING_REBALANCE,),
    State.PREPARING_REBALANCE: (State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY),
    State.COMPLETING_REBALANCE: (State.PREPARING_REBALANCE,),
    State.STABLE: (State.COMPLETING_REBALANCE,),
    State.DEAD: (State.STABLE, State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE, State.EMPTY, State.DEAD),
}
"""States from which a group can enter a state. The order in Kafka's error message varies between runs."""


class IllegalState(Exception):
    """Kafka throws `IllegalStateException` with this message."""


class IllegalArgument(Exception):
    """Kafka throws `IllegalArgumentException` with this message."""


@dataclass(slots=True, eq=False)
class ClassicGroupMember:
    """A member.

    Attributes:
        member_id: the member ID.
        protocols: names of the supported assignors, most preferred first.
        topics: subscribed topics.
        protocol_type: `consumer`, `connect`, …
        group_instance_id: instance ID of a static member. None: dynamic.
        rebalance_timeout_ms: time that the member may take to rejoin.
        hash_code: `String.hashCode` of the member ID; computed if it isn't passed.
        awaiting_join: whether its JoinGroup awaits a response.
        awaiting_sync: whether its SyncGroup awaits a response.
    """

    member_id: str
    _: KW_ONLY
    protocols: tuple[str, ...]
    topics: tuple[str, ...] = ()
    protocol_type: str = "consumer"
    group_instance_id: str | None = None
    rebalance_timeout_ms: int = 0
    hash_code: int = -1
    awaiting_join: bool = False
    awaiting_sync: bool = False

    def __post_init__(self) -> None:
        if self.hash_code < 0:
            self.hash_code = string_hash(self.member_id)

    @property
    def is_static_member(self) -> bool:
        """Whether the member has an instance ID."""
        return self.group_instance_id is not None

    def with_id(self, member_id: str) -> ClassicGroupMember:
        """Returns this member with another ID. It awaits no response."""
        return replace(self, member_id=member_id, hash_code=-1, awaiting_join=False, awaiting_sync=False)


def select(
    lists: Collection[tuple[str, ...]],
    supporters: Mapping[str, int],
    in_java_order: Callable[[], Iterable[Sequence[str]]],
) -> str:
    """Returns the protocol that wins the vote.

    Args:
        lists: the protocols of every member, in any order.
        supporters: number of members that support each protocol.
        in_java_order: returns the protocols of every member, most preferred first, in the order of the map of members.
            Called only in a tie.

    Raises:
        IllegalArgument: a member supports no candidate.
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
    return next(name for name in table.iteration_order() if name in tied)


def vote(protocols: Sequence[str], candidates: Collection[str]) -> str:
    """Returns the candidate that a member votes for: the first one in its own list.

    Raises:
        IllegalArgument: the member supports no candidate.
    """
    for protocol in protocols:
        if protocol in candidates:
            return protocol
    raise IllegalArgument("Member does not support any of the candidate protocols")
