"""A consumer as its own process sees it: what it owns, what it remembers, how far it has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
