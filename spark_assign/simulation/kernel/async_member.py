"""A consumer of KIP-848 as its own process sees it (Kafka's `ConsumerMembershipManager`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from spark_assign.simulation.kernel.member import JOINING, STABLE, SimulatedMember

RECONCILING, ACKNOWLEDGING, FENCED, STALE = "reconciling", "acknowledging", "fenced", "stale"
"""`RECONCILING`: it was told of another assignment, and has not come to it yet. `ACKNOWLEDGING`: it has, and says so.
`FENCED`: it is out, and loses its partitions when it polls. `STALE`: it has left as it did not poll."""

BEATING = (JOINING, STABLE, RECONCILING, ACKNOWLEDGING)
"""States in which it sends heartbeats."""


class LocalAssignment(NamedTuple):
    """An assignment as the client counts them: every one that differs from the last has a number of its own."""

    number: int
    partitions: frozenset[int]

    def followed_by(self, partitions: frozenset[int]) -> LocalAssignment:
        """The next one; the same, if that has the same partitions (`updateWith`)."""
        if self.number >= 0 and partitions == self.partitions:
            return self
        return LocalAssignment(self.number + 1, partitions)


NONE = LocalAssignment(-1, frozenset())
"""Before the first one, and after all is lost."""

_GOLDEN, _BITS = 0x9E3779B1, 0xFFFFFFFF


@dataclass(slots=True, eq=False)
class AsyncMember(SimulatedMember):
    """One that speaks KIP-848's protocol.

    Attributes:
        member_epoch: as it was told last; 0: it joins.
        target: the assignment that it was told last.
        current: the one that it has come to.
        polls_for_it: it comes to its target when it polls next.
        reconciling: it is on its way, which takes time where it has to give up something.
        sent_topics, sent: what it has told of its subscription and of its partitions; null: nothing.
        joined: its processes that have joined before, to say who is back.
        beat_at: when it will send the next heartbeat that matters; null: none does.
    """

    member_epoch: int = 0
    target: LocalAssignment = NONE
    current: LocalAssignment = NONE
    polls_for_it: bool = False
    reconciling: bool = False
    sent_topics: frozenset[int] | None = None
    sent: LocalAssignment | None = None
    joined: int = 0
    beat_at: int | None = None

    def start(self, now: int) -> None:
        """A new process, which knows nothing yet."""
        SimulatedMember.start(self, now)
        self.rejoin()

    def rejoin(self) -> None:
        """It has nothing any more, and begins anew under its id."""
        self.state, self.member_epoch, self.beat_at = JOINING, 0, None
        self.target = self.current = NONE
        self.polls_for_it = self.reconciling = False

    def phase(self, interval: int) -> int:
        """When the first heartbeat of a play is of a member that has been there before; ids alike are far apart."""
        return (self.hash * _GOLDEN & _BITS) * interval >> 32

    @property
    def beating(self) -> bool:
        """Whether it sends heartbeats."""
        return self.state in BEATING
