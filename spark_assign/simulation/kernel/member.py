"""A consumer as its own process sees it: what it owns, what it remembers, how far it has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from spark_assign.simulation.kernel.settings import is_cooperative

OFF, CLOSING, JOINING, STABLE, REVOKING = "off", "closing", "joining", "stable", "revoking"
"""`OFF`: no process. `CLOSING`: gives up its partitions, then stops (or a static one that does not poll, and has fallen
silent). `JOINING`: joins, and waits for the answer to JoinGroup or SyncGroup. `STABLE`: has its assignment.
`REVOKING`: is about to give partitions up, to join or to take its assignment."""

NO_GENERATION = -1


@dataclass(slots=True, eq=False)
class SimulatedMember:
    """A consumer through all its restarts.

    Attributes:
        name: its first member id, by which events call it.
        strategies: the assignors that it asks for.
        member_id: the one it has now or had last; null before it was given one.
        owned: partitions it consumes or would consume, ascending (code: topic index << 32 | partition).
        beats_from: heartbeats follow this moment, one an interval.
        busy_until: before that it does not poll.
        epoch: counts up whenever it does something else; what was planned before is void then.
        silent_since: when a member that sends no heartbeats any more was heard of last; null: it is heard.
        lives: processes it has had.
        ids: member ids it has had.
        hash: `String.hashCode` of the member id.
    """

    name: str
    group_instance_id: str | None
    rack_id: str | None
    topics: frozenset[int]
    strategies: tuple[str, ...]
    member_id: str | None = None
    state: str = OFF
    owned: list[int] = field(default_factory=list)
    beats_from: int = 0
    busy_until: int = 0
    epoch: int = 0
    silent_since: int | None = None
    lives: int = 0
    ids: int = 0
    hash: int = 0

    @property
    def identity(self) -> str:
        """Who it is to a partition's state: a static member is the same after a restart, a dynamic one is not."""
        return self.group_instance_id if self.group_instance_id is not None else str(self.member_id)

    @property
    def running(self) -> bool:
        """Whether it takes part in the group."""
        return self.state not in (OFF, CLOSING)

    def next_poll(self, now: int, interval: int) -> int:
        """When it polls next; members poll at moments of their own, which hang on their ids."""
        return now + (self.hash - now) % interval if interval else now

    def next_beat(self, now: int, interval: int) -> int:
        """When it sends its next heartbeat after now."""
        return now + interval - (now - self.beats_from) % interval

    def last_beat(self, now: int, interval: int) -> int:
        """When it was heard of last."""
        return now - (now - self.beats_from) % interval

    def start(self, now: int) -> None:
        """A new process, which knows nothing yet."""
        self.epoch += 1
        self.lives += 1
        self.state, self.member_id, self.owned = JOINING, None, []
        self.busy_until, self.silent_since = now, None


@dataclass(slots=True, eq=False)
class ClassicMember(SimulatedMember):
    """One that speaks the classic protocol.

    Attributes:
        remembered, remembered_generation: of each assignor its own memory (`onAssignment`): what `sticky` tells in its
            user data; null until it is assigned something for the first time.
        metadata: of the topics it looks after the partitions it has seen, by topic index.
        metadata_from: it looks again every `metadata.max.age.ms` after this moment.
        snapshot: the metadata that it assigned by, if it leads the group.
        told: the topics that it asked for when it joined last.
    """

    cooperative: bool = False
    generation_id: int = NO_GENERATION
    remembered: list[int] | None = None
    remembered_generation: dict[str, int] = field(default_factory=dict)
    metadata: dict[int, int] = field(default_factory=dict)
    metadata_from: int = 0
    snapshot: Mapping[int, int] | None = None
    told: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.cooperative = is_cooperative(self.strategies)

    def start(self, now: int) -> None:
        """A new process, which knows nothing yet."""
        SimulatedMember.start(self, now)
        self.generation_id, self.remembered, self.remembered_generation = NO_GENERATION, None, {}
        self.metadata_from, self.snapshot, self.metadata = now, None, {}
        self.cooperative = is_cooperative(self.strategies)


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
