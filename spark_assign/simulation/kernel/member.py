"""State of a simulated consumer's process, for the classic protocol and for KIP-848 (`ConsumerMembershipManager`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from spark_assign.simulation.kernel.settings import is_cooperative

OFF, CLOSING, JOINING, STABLE, REVOKING = "off", "closing", "joining", "stable", "revoking"
"""Member states.

`OFF`: no process runs. `CLOSING`: the member gives up its partitions and then stops; also a static member that doesn't
poll and has stopped its heartbeats. `JOINING`: waits for the response to JoinGroup or SyncGroup. `STABLE`: has its
assignment. `REVOKING`: is about to give up partitions, to join, or to apply its assignment.
"""

NO_GENERATION = -1


@dataclass(slots=True, eq=False)
class SimulatedMember:
    """A consumer, across all its restarts.

    Attributes:
        name: its first member ID, by which events refer to it.
        assignors: names of its assignors, most preferred first.
        member_id: current or last member ID. None before the first one.
        owned: partition keys that it consumes, or would if it were up, ascending.
        heartbeats_from_ms: heartbeats are sent at this time plus multiples of the interval.
        busy_until: time before which it doesn't poll.
        epoch: incremented whenever the member starts another action, which invalidates what was scheduled before.
        silent_since: time of the last heartbeat of a member that sends no more. None while it sends heartbeats.
        incarnations: number of processes so far.
        num_ids: number of member IDs so far.
        hash: `String.hashCode` of the member ID.
    """

    name: str
    group_instance_id: str | None
    rack_id: str | None
    topics: frozenset[int]
    assignors: tuple[str, ...]
    member_id: str | None = None
    state: str = OFF
    owned: list[int] = field(default_factory=list)
    heartbeats_from_ms: int = 0
    busy_until: int = 0
    epoch: int = 0
    silent_since: int | None = None
    incarnations: int = 0
    num_ids: int = 0
    hash: int = 0

    @property
    def identity(self) -> str:
        """Identity for the local state of a partition: a static member keeps it across restarts, a dynamic member
        doesn't."""
        return self.group_instance_id if self.group_instance_id is not None else str(self.member_id)

    @property
    def running(self) -> bool:
        """Whether the member participates in the group."""
        return self.state not in (OFF, CLOSING)

    def next_poll(self, now: int, interval: int) -> int:
        """Returns the time of the next poll. The phase depends on the member ID, so members poll at different times."""
        return now + (self.hash - now) % interval if interval else now

    def next_heartbeat(self, now: int, interval: int) -> int:
        """Returns the time of the next heartbeat after `now`."""
        return now + interval - (now - self.heartbeats_from_ms) % interval

    def last_heartbeat(self, now: int, interval: int) -> int:
        """Returns the time of the last heartbeat, at or before `now`."""
        return now - (now - self.heartbeats_from_ms) % interval

    def start(self, now: int) -> None:
        """Starts a new process, without any local state."""
        self.epoch += 1
        self.incarnations += 1
        self.state, self.member_id, self.owned = JOINING, None, []
        self.busy_until, self.silent_since = now, None


@dataclass(slots=True, eq=False)
class ClassicMember(SimulatedMember):
    """A member that uses the classic protocol.

    Attributes:
        remembered, remembered_generation: state of each assignor (`onAssignment`), which `sticky` sends in its user
            data. None until the first assignment.
        metadata: partition counts that it knows, by topic index.
        metadata_from: metadata expires every `metadata.max.age.ms` after this time.
        snapshot: the metadata of the last assignment that it computed as the leader.
        joined_topics: the topics of its last JoinGroup.
        subscribed_owned: the list `owned` if all its partitions are known to be of `joined_topics`.
        assigned_generation_id: the generation of its last assignment, also one before it restarted.
    """

    cooperative: bool = False
    generation_id: int = NO_GENERATION
    assigned_generation_id: int = NO_GENERATION
    remembered: list[int] | None = None
    remembered_generation: dict[str, int] = field(default_factory=dict)
    metadata: dict[int, int] = field(default_factory=dict)
    metadata_from: int = 0
    snapshot: Mapping[int, int] | None = None
    joined_topics: frozenset[int] = frozenset()
    subscribed_owned: list[int] | None = None

    def __post_init__(self) -> None:
        self.cooperative = is_cooperative(self.assignors)

    def start(self, now: int) -> None:
        """Starts a new process, without any local state."""
        SimulatedMember.start(self, now)
        self.generation_id, self.remembered, self.remembered_generation = NO_GENERATION, None, {}
        self.metadata_from, self.snapshot, self.metadata = now, None, {}
        self.cooperative = is_cooperative(self.assignors)

    def owns_only_joined_topics(self) -> bool:
        """Checks whether the member has joined with its current topics, and owns no partitions of others."""
        if self.topics is not self.joined_topics:
            return False
        if self.subscribed_owned is not self.owned and self.topics.issuperset({each >> 32 for each in self.owned}):
            self.subscribed_owned = self.owned
        return self.subscribed_owned is self.owned


RECONCILING, ACKNOWLEDGING, FENCED, STALE = "reconciling", "acknowledging", "fenced", "stale"
"""More member states.

`RECONCILING`: it received a new assignment, and hasn't applied it yet. `ACKNOWLEDGING`: it has, and reports it.
`FENCED`: it was removed, and loses its partitions at its next poll. `STALE`: it left because it didn't poll.
"""

BEATING = (JOINING, STABLE, RECONCILING, ACKNOWLEDGING)
"""States in which a member sends heartbeats."""


class LocalAssignment(NamedTuple):
    """An assignment as the client counts it (Kafka's `LocalAssignment`): each different assignment has the next
    number."""

    number: int
    partitions: frozenset[int]

    def followed_by(self, partitions: frozenset[int]) -> LocalAssignment:
        """Returns the next assignment, or this one if the partitions are equal (`updateWith`)."""
        if self.number >= 0 and partitions == self.partitions:
            return self
        return LocalAssignment(self.number + 1, partitions)


NONE = LocalAssignment(-1, frozenset())
"""The assignment of a member before its first one, and after it lost all partitions."""

_GOLDEN, _BITS = 0x9E3779B1, 0xFFFFFFFF


@dataclass(slots=True, eq=False)
class AsyncMember(SimulatedMember):
    """A member that uses the consumer protocol (KIP-848).

    Attributes:
        member_epoch: last epoch that it received. 0: it joins.
        target: last assignment that it received.
        current: assignment that it has applied.
        is_poll_scheduled: it applies the target at its next poll.
        reconciling: reconciliation is in progress, which takes time if it gives up partitions.
        sent_topics, sent_assignment: subscription and partitions that it sent last. None: nothing.
        joined: the incarnation that joined last, which distinguishes a rejoin from a first join.
        heartbeat_at_ms: time of the next heartbeat that matters. None: none does.
    """

    member_epoch: int = 0
    target: LocalAssignment = NONE
    current: LocalAssignment = NONE
    is_poll_scheduled: bool = False
    reconciling: bool = False
    sent_topics: frozenset[int] | None = None
    sent_assignment: LocalAssignment | None = None
    joined: int = 0
    heartbeat_at_ms: int | None = None

    def start(self, now: int) -> None:
        """Starts a new process, without any local state."""
        SimulatedMember.start(self, now)
        self.rejoin()

    def rejoin(self) -> None:
        """Resets the state so that the member joins again under its ID."""
        self.state, self.member_epoch, self.heartbeat_at_ms = JOINING, 0, None
        self.target = self.current = NONE
        self.is_poll_scheduled = self.reconciling = False

    def phase(self, interval: int) -> int:
        """Returns the phase of the heartbeats of a stable member; similar IDs get very different phases."""
        return (self.hash * _GOLDEN & _BITS) * interval >> 32

    @property
    def sends_heartbeats(self) -> bool:
        """Whether the member sends heartbeats."""
        return self.state in BEATING
