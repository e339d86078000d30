"""The past of one group as its records tell it: its generations, and who owned what from when to when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

STABLE, EMPTY, DEAD = "Stable", "Empty", "Dead"


class RecordedMember(NamedTuple):
    """One member in one generation.

    Attributes:
        topics: what it subscribes to, in the order of its record; patterns resolved as far as the record says.
        subscription: a classic member's subscription as it sent it; it has what the member said it owned.
        assignment: (role, topic) to partitions, ascending, as the record of this generation gives them to it; of
            groups of the broker's protocols its target. Roles as in `tables.history.OWNERSHIP`.
        assigned: a classic member's assignment as its leader wrote it, by which the leader's library is told.
        position: the member's place in the record of a classic group: so the leader was told of the members.
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
    assigned: bytes | None = None
    position: int | None = None


@dataclass(frozen=True)
class Generation:
    """One generation of a classic group, or one epoch of a group of the broker's protocols.

    Members can change without a new generation: a static member that came back under a new id takes the place of the
    old one. That is told as another with the same number, right after it; it is no rebalance (`rebalanced`). A
    tombstone is one, too: `Dead`, with the last number that is known; numbers start anew after it.

    Attributes:
        at_ms: when the coordinator wrote it.
        settled_ms: when the last member had reached it, of a classic group `at_ms`; None: not on record.
        state: `Stable`, `Empty`, `Dead` (a tombstone).
        members: by member id, sorted.
        partition, offset: the record that says so.
    """

    number: int
    at_ms: int
    settled_ms: int | None
    state: str
    assignor: str | None
    leader: str | None
    members: tuple[RecordedMember, ...]
    partition: int
    offset: int


class Owned(NamedTuple):
    """What one member had of one topic, from when to when; `until_ms` None: still at the end."""

    member_id: str
    role: str
    topic: str
    partitions: tuple[int, ...]
    generation: int
    since_ms: int
    until_ms: int | None


class CommitInterval(NamedTuple):
    """Commits of one partition of which no two are further apart than the threshold."""

    from_ms: int
    until_ms: int
    commits: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True)
class UnreadableRecord:
    """A record that nothing could be made of; codes as in `tables.history.UNREAD`."""

    partition: int
    offset: int
    at_ms: int
    code: str
    detail: str
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True)
class Timeline:
    """One group.

    Attributes:
        group_type: `classic`, `consumer`, `share`, `streams`; `simple` where there are commits only.
        protocol_type: of a classic group: `consumer`, `connect`, or what its clients made up; else None.
        generations: in their order.
        owned: by since_ms, member, role, topic.
        commits: (topic, partition) to its intervals in their order.
        deleted: (topic, partition) to its number of tombstones.
        first_ms, last_ms, records: of all records of the group that are on record, commits included.
        rejected: code and detail of what members sent and nobody can read; the group is told without it.
        unread: records of the group that nothing could be made of.
        topic_ids: of topics by name their ids, where records say both.
    """

    group_type: str
    protocol_type: str | None
    generations: tuple[Generation, ...]
    owned: tuple[Owned, ...]
    commits: Mapping[tuple[str, int], tuple[CommitInterval, ...]]
    deleted: Mapping[tuple[str, int], int]
    first_ms: int
    last_ms: int
    records: int
    rejected: tuple[tuple[str, str], ...] = ()
    unread: tuple[UnreadableRecord, ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def rebalanced(self) -> tuple[bool, ...]:
        """Of each generation whether it is a new one: not a tombstone, not a change of members within one."""
        before = (None, *self.generations[:-1])
        return tuple(
            now.state != DEAD and (was is None or was.state == DEAD or was.number != now.number)
            for was, now in zip(before, self.generations, strict=False)
        )
