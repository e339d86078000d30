"""The past of one group according to its records: its generations, and who owned which partitions at what time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, NamedTuple

from spark_assign.assignors.streams.member_tasks import AT_ONCE, PROBING
from spark_assign.streams.classic_members import DecodedMember
from spark_assign.tables.parameters import Param

STABLE, EMPTY, DEAD = "Stable", "Empty", "Dead"

_MAX_CLOCK_DIFFERENCE_MS = 10_000
"""How far the clocks of a leader, which requests a probing rebalance at a time, and of its broker can differ."""


class HistoryTooLargeError(Exception):
    """Raised if the past of a group takes too long to read. The message is for the user."""


@dataclass(frozen=True)
class HistoryThresholds:
    """Thresholds of a history, which the docs explain; times in milliseconds.

    The default of `commit_gap_ms` is twice the default auto-commit interval of clients (5 s), and no longer than the
    shortest default session timeout of clients (10 s up to 2.8, 45 s since): a session that times out is never hidden
    by an interval.

    Attributes:
        commit_gap_ms: time without an offset commit after which a partition counts as paused.
        deploy_gap_ms: longest time between two rebalances of one deploy.
        flapping_per_day: number of rebalances in 24 hours, outside of deploys, that marks a group as flapping.
        session_timeout_ms: session timeout of members whose record has none
            (`group.consumer.session.timeout.ms` of brokers).

    Examples:
        >>> HistoryThresholds(commit_gap_ms=3_000).flapping_per_day
        10
    """

    commit_gap_ms: Annotated[int, Param(least=1)] = 10_000
    deploy_gap_ms: Annotated[int, Param(least=1)] = 300_000
    flapping_per_day: Annotated[int, Param(least=1)] = 10
    session_timeout_ms: Annotated[int, Param(least=1)] = 45_000


class RecordedMember(NamedTuple):
    """One member in one generation.

    Attributes:
        topics: topics that the member subscribes to, in the order of its record. Patterns are resolved as far as the
            records say.
        subscription: a classic member's subscription as it sent it, which includes the partitions that it reported as
            owned.
        assignment: (role, topic) to partitions, ascending, that the record of this generation assigns to the member; in
            groups of the broker's protocols, its target assignment. Roles are those of `tables.history.OWNERSHIP`.
        assignment_bytes: a classic member's assignment as its leader wrote it, by which the leader's library is
            detected.
        position: index of the member in the record of a classic group, which is the order in which the leader received
            the members.
        streams: what a member of a classic Streams application reports and runs.
    """

    member_id: str
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    rack_id: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    topics: tuple[str, ...] = ()
    subscription: bytes | None = None
    assignment: Mapping[tuple[str, str], tuple[int, ...]] = MappingProxyType({})
    assignment_bytes: bytes | None = None
    position: int | None = None
    streams: DecodedMember | None = None


@dataclass(frozen=True)
class Generation:
    """One generation of a classic group, or one epoch of a group of the broker's protocols.

    Members can change without a new generation: a static member that returns with a new member id replaces the old one.
    Such a change is a `Generation` with the same id, right after the original, and no rebalance
    (`Timeline.is_rebalance`). A tombstone is a `Generation`, too: its state is `Dead`, and its id the last known one.
    Ids restart after it.

    Attributes:
        generation_id: generation id, or group epoch.
        at_ms: when the coordinator wrote the generation.
        stable_ms: when the last member had reached it; `at_ms` for a classic group; None if not on record.
        state: `Stable`, `Empty`, or `Dead` (a tombstone).
        members: members sorted by member id.
        partition: partition of the record.
        offset: offset of the record.
    """

    generation_id: int
    at_ms: int
    stable_ms: int | None
    state: str
    assignor: str | None
    leader: str | None
    members: tuple[RecordedMember, ...]
    partition: int
    offset: int


class OwnershipInterval(NamedTuple):
    """Partitions of one topic that one member owned from `start_ms` to `end_ms` (None: to the end of the records)."""

    member_id: str
    role: str
    topic: str
    partitions: tuple[int, ...]
    generation_id: int
    start_ms: int
    end_ms: int | None


class CommitInterval(NamedTuple):
    """Commits of one partition in which consecutive commits are no further apart than the threshold.

    `next_offset` is the largest offset that was committed until `next_cell_ms`.
    """

    start_ms: int
    end_ms: int
    commits: int
    first_offset: int
    last_offset: int
    next_offset: int

    def next_cell_ms(self, gap_ms: int) -> int:
        """Returns the end of the cell after the one of the first commit (`commit_intervals.CommitIntervals`)."""
        return (self.start_ms // max(gap_ms, 1) + 2) * max(gap_ms, 1)


@dataclass(frozen=True)
class UnreadableRecord:
    """A record that can't be decoded. Codes are those of `tables.history.UNREADABLE`.

    `end_ms` is the time of the record that replaces it: the next one with its key, or one that ends its group.
    """

    partition: int
    offset: int
    at_ms: int
    code: str
    detail: str
    key: bytes | None
    value: bytes | None
    end_ms: int | None = None


@dataclass(frozen=True)
class Timeline:
    """The past of one group.

    Attributes:
        group_type: `classic`, `consumer`, `share`, `streams`, or `simple` if there are only commits. If no record of
            the group can be read, it is that of their keys.
        protocol_type: protocol type of a classic group, `consumer`, `connect`, or what its clients chose; else None.
        generations: generations in the order of their records.
        ownership: sorted by start_ms, member, role, topic.
        commits: (topic, partition) to its intervals, in order of time.
        first_ms: time of the first record of the group, commits included.
        last_ms: time of the last record of the group, commits included.
        records: number of records of the group, commits included.
        rejected: code and detail of embedded bytes that can't be decoded. The timeline is built without them.
        unreadable: records of the group that can't be decoded.
        topic_ids: topic name to topic id, if the records say both.
    """

    group_type: str
    protocol_type: str | None
    generations: tuple[Generation, ...]
    ownership: tuple[OwnershipInterval, ...]
    commits: Mapping[tuple[str, int], tuple[CommitInterval, ...]]
    first_ms: int
    last_ms: int
    records: int
    rejected: tuple[tuple[str, str], ...] = ()
    unreadable: tuple[UnreadableRecord, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_rebalance(self) -> tuple[bool, ...]:
        """Whether each generation is a new one: neither a tombstone nor a change of members within a generation."""
        previous = (None, *self.generations[:-1])
        return tuple(
            generation.state != DEAD
            and (before is None or before.state == DEAD or before.generation_id != generation.generation_id)
            for before, generation in zip(previous, self.generations, strict=False)
        )

    @property
    def follow_ups(self) -> tuple[str | None, ...]:
        """Whether the leader of a classic Streams application requested each generation with the one before.

        `PROBING`: its warmups restored state in the meantime. `AT_ONCE`: tasks are assigned that were revoked before.
        None for all others, such as those in which a member joins or leaves.
        """
        previous = (None, *self.generations[:-1])
        pairs = zip(previous, self.generations, self.is_rebalance, strict=False)
        return tuple(_find_follow_up(before, after) if is_new and before else None for before, after, is_new in pairs)

    @property
    def is_idle(self) -> tuple[bool, ...]:
        """Whether each generation is an epoch that stops nothing: all members keep their target assignments.

        The coordinator starts a new epoch if racks of replicas change (KIP-1101), among other reasons. Members of the
        classic protocol rejoin at every new epoch or generation, so a group that has any has no idle epoch.
        """
        if self.protocol_type is not None:  # a classic group
            return (False,) * len(self.generations)
        previous = (None, *self.generations[:-1])
        return tuple(
            before is not None
            and generation.generation_id == before.generation_id + 1
            and generation.assignor == before.assignor
            and generation.members == before.members
            and all(member.session_timeout_ms is None for member in generation.members)
            for before, generation in zip(previous, self.generations, strict=False)
        )


def _find_follow_up(before: Generation, after: Generation) -> str | None:
    """Returns which rebalance the generation before requested, if it is this one."""
    if [member.member_id for member in before.members] != [member.member_id for member in after.members]:
        return None
    times = {member.streams.next_rebalance_ms for member in before.members if member.streams is not None} - {None}
    if 0 in times:
        return AT_ONCE
    return PROBING if any(time and time - _MAX_CLOCK_DIFFERENCE_MS <= after.at_ms for time in times) else None
