"""A member of a classic group as the coordinator knows it (Kafka's `ClassicGroupMember`).

What a member sends along with a protocol is here no bytes but the topics that are written in them, as the coordinator
reads nothing else; they are the same for all of its protocols.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum

from spark_assign.java.hash_map import HashTable, string_hash


class State(Enum):
    """`ClassicGroupState`; the value is what Kafka calls it in its answers."""

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
"""From where a group may come into a state. (Kafka's error lists them in an order that differs from run to run.)"""


class IllegalState(Exception):
    """Kafka throws `IllegalStateException` with this message."""


class IllegalArgument(Exception):
    """Kafka throws `IllegalArgumentException` with this message."""


class ClassicGroupMember:
    """A member.

    Attributes:
        member_id: its id.
        group_instance_id: of a static member; null: it is dynamic.
        protocol_type: `consumer`, `connect`, …
        protocols: the names of the assignors that it supports, the one it likes best first.
        topics: what it subscribes to.
        rebalance_timeout_ms: how long it may take to join again.
        session_timeout_ms: how long it may be silent.
        awaiting_join: its JoinGroup has not been answered yet.
        awaiting_sync: its SyncGroup has not been answered yet.
        hash_code: `String.hashCode` of the member id; whoever has it already may give it.
    """

    __slots__ = (
        "awaiting_join",
        "awaiting_sync",
        "group_instance_id",
        "hash_code",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "topics",
    )

    def __init__(
        self,
        member_id: str,
        *,
        protocols: Iterable[str],
        topics: Iterable[str] = (),
        protocol_type: str = "consumer",
        group_instance_id: str | None = None,
        rebalance_timeout_ms: int = 0,
        session_timeout_ms: int = 0,
        hash_code: int | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = tuple(protocols)
        self.topics = tuple(topics)
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.awaiting_join = False
        self.awaiting_sync = False
        self.hash_code = string_hash(member_id) if hash_code is None else hash_code

    @property
    def is_static_member(self) -> bool:
        """It has an instance id."""
        return self.group_instance_id is not None

    def under(self, member_id: str) -> ClassicGroupMember:
        """The same member with another id, waiting for nothing."""
        return ClassicGroupMember(
            member_id,
            protocols=self.protocols,
            topics=self.topics,
            protocol_type=self.protocol_type,
            group_instance_id=self.group_instance_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
        )


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
    return next(name for name in table.iteration_order() if name in tied)


def vote(protocols: Sequence[str], candidates: Collection[str]) -> str:
    """For which candidate a member with these protocols votes: the first in its own order.

    Raises:
        IllegalArgument: it supports none of them.
    """
    for protocol in protocols:
        if protocol in candidates:
            return protocol
    raise IllegalArgument("Member does not support any of the candidate protocols")
