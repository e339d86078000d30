"""Builds the timeline of each group from its facts: generations, and ownership over time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from operator import attrgetter

import pyarrow as pa

from spark_assign.history.kernel.broker_groups import BrokerGroupTracker, read_topic_names
from spark_assign.history.kernel.group_chunks import GroupChunk, GroupFacts, iter_chunks
from spark_assign.history.kernel.record_parser import (
    CLASSIC,
    METADATA,
    EmbeddedProtocolReader,
    ParsedRecord,
    RoleAssignment,
    group_by_write,
    parse_record_name,
    parse_records,
)
from spark_assign.history.kernel.timeline import (
    DEAD,
    EMPTY,
    STABLE,
    Generation,
    HistoryThresholds,
    OwnershipInterval,
    RecordedMember,
    Timeline,
    UnreadableRecord,
)
from spark_assign.wire.group_records import NAMES, read_value
from spark_assign.wire.reader import WireError

SIMPLE = "simple"

_TOPIC_NAME_RECORDS = {
    number: names[1]
    for number, name in NAMES.items()
    if (names := parse_record_name(name)) and "PartitionMetadata" in name
}
"""Key type to record type of the records that have topic ids and names together."""


def build_timelines(facts: pa.Table, thresholds: HistoryThresholds) -> Iterator[tuple[str, str, Timeline]]:
    """Yields cluster, group, and timeline of each group, sorted by cluster and group.

    Args:
        facts: FACTS of complete groups, in any order. `unreadable` facts are ignored.
        thresholds: the thresholds.
    """
    for chunk in iter_chunks(facts, thresholds.commit_gap_ms):
        yield from build_chunk_timelines(chunk)


def build_chunk_timelines(chunk: GroupChunk) -> Iterator[tuple[str, str, Timeline]]:
    """Yields cluster, group, and timeline of each group of a chunk."""
    for group in chunk.groups():
        yield group.cluster, group.group_id, _build_timeline(group)


def _build_timeline(group: GroupFacts) -> Timeline:
    """Returns the timeline of a group from its records in order."""
    unreadable: list[UnreadableRecord] = []
    topics = {**_read_topic_names(group), **group.topic_ids}
    tracker = GenerationTracker(topics)
    for write in group_by_write(parse_records(group.raw_records(), unreadable)):
        tracker.apply(write)
    has_commits = bool(group.commits or group.deleted)
    return Timeline(
        # A tombstone alone is also written for groups that only commit.
        group_type=tracker.group_type or (SIMPLE if has_commits else tracker.last_tombstone_type) or SIMPLE,
        protocol_type=tracker.protocol_type if tracker.group_type == CLASSIC else None,
        generations=tuple(tracker.generations),
        ownership=tracker.ownership.intervals(),
        commits=group.commits,
        deleted=group.deleted,
        first_ms=group.first_ms,
        last_ms=group.last_ms,
        records=group.records - len(unreadable),
        rejected=tuple(tracker.embedded.rejected()),
        unreadable=tuple(unreadable),
        topic_ids={topic: topic_id for topic_id, topic in sorted(topics.items())},
    )


def _read_topic_names(group: GroupFacts) -> dict[str, str]:
    """Returns topic id to name from the group's own records (those of 4.0, and of share groups)."""
    names: dict[str, str] = {}
    for key, value in group.raw_records_of_types(list(_TOPIC_NAME_RECORDS)):
        record_type = int.from_bytes(key[:2], "big")
        if value is not None:
            try:
                fields = read_value(record_type, value).fields
            except WireError:
                continue  # `parse_records` reports it.
            names.update(read_topic_names(_TOPIC_NAME_RECORDS[record_type], fields))
    return names


# --- generations --------------------------------------------------------------------------------------------------


class GenerationTracker:
    """The state of one group while its records are applied in order.

    Attributes:
        group_type: current or last type of the group; None if there are at most tombstones.
        last_tombstone_type: group type of the group's last tombstone.
        protocol_type: protocol type of a classic group.
        generations: the generations of all records so far.
    """

    def __init__(self, topics: Mapping[str, str]) -> None:
        self.group_type: str | None = None
        self.last_tombstone_type: str | None = None
        self.protocol_type: str | None = None
        self.ownership = OwnershipTracker()
        self.embedded = EmbeddedProtocolReader()
        self._topics = topics
        self._live_type: str | None = None
        self._broker_groups: dict[str, BrokerGroupTracker] = {}
        self.generations: list[Generation] = []
        self._last_generation_type: str | None = None

    def apply(self, write: list[ParsedRecord]) -> None:
        """Applies records that were written together."""
        previous_type = self._live_type
        for record in write:
            self._apply_record(record)
        if self._live_type == CLASSIC:
            if write[-1].is_classic:
                self._apply_classic(write[-1])
        elif self._live_type is not None:
            self._apply_broker(self._live_type, write, previous_type)
        else:
            self._apply_dead(write, previous_type)

    def _apply_record(self, record: ParsedRecord) -> None:
        """Updates the type of the group and the state of a broker group."""
        group_type = record.group_type
        if record.is_group_tombstone:
            self._broker_groups.pop(group_type, None)
            if self._live_type == group_type:
                self._live_type = None
            self.last_tombstone_type = group_type
            return
        if record.is_classic or record.record_type == METADATA:
            self._live_type = self.group_type = group_type
        if not record.is_classic:
            if group_type not in self._broker_groups:
                self._broker_groups[group_type] = BrokerGroupTracker(group_type, self._topics)
            if record.value is not None:
                self.group_type = group_type
            self._broker_groups[group_type].apply(record.record_type, record.key, record.value)

    def _apply_classic(self, record: ParsedRecord) -> None:
        """Adds a GroupMetadata record: a generation, and the owners in it."""
        value = record.value
        assert value is not None
        generation_id, at_ms = value["generation"], record.at_ms
        self.protocol_type = value["protocolType"] or self.protocol_type
        members = self.embedded.read_members(value)
        for member in members:
            self.ownership.set_owned(member.member_id, member.assignment, generation_id, at_ms)
        self._drop_all_except({member.member_id for member in members}, at_ms)
        # The coordinator of 4.x writes a group without a generation when its first member requests a member id.
        if generation_id or members:
            generation = _new_generation(
                record, generation_id, members, value["protocol"], leader=value["leader"], stable_ms=at_ms
            )
            self._add(CLASSIC, generation)

    def _apply_broker(self, group_type: str, write: list[ParsedRecord], previous_type: str | None) -> None:
        """Adds the records of one write of a group whose members the broker assigns."""
        group, at_ms = self._broker_groups[group_type], write[-1].at_ms
        self._update_ownership(group_type, write)
        if previous_type != group_type:
            self._drop_all_except(
                {member_id for member_id in self.ownership.members() if group.has_current(member_id)}, at_ms
            )
        last = self.generations[-1] if self.generations else None
        record = next((written for written in reversed(write) if written.record_type == METADATA), write[-1])
        epoch = group.epoch
        assert epoch is not None
        is_new = last is None or last.state == DEAD or last.generation_id != epoch
        if is_new or group.is_changed:
            self._add(group_type, _new_generation(record, epoch, group.members(), group.assignor))
        if group.is_stable:
            self._mark_stable(epoch, at_ms)

    def _apply_dead(self, write: list[ParsedRecord], previous_type: str | None) -> None:
        """Handles a group that was deleted, or of which only current assignments are known so far."""
        tombstone = next((record for record in reversed(write) if record.is_group_tombstone), None)
        if tombstone is None:
            for group_type in {record.group_type for record in write}:
                self._update_ownership(group_type, write)
        elif previous_type is not None or not self.generations:
            self._drop_all_except((), tombstone.at_ms)
            generation_id = self.generations[-1].generation_id if self.generations else 0
            generation = _new_generation(tombstone, generation_id, stable_ms=tombstone.at_ms)
            self.generations.append(replace(generation, state=DEAD))

    def _update_ownership(self, group_type: str, write: list[ParsedRecord]) -> None:
        """Updates what members own, for those whose current assignment was written."""
        group = self._broker_groups.get(group_type)
        at_ms = write[-1].at_ms
        records = (
            record
            for record in write
            if record.group_type == group_type and record.record_type == "CurrentMemberAssignment"
        )
        for member_id in dict.fromkeys(record.key["memberId"] for record in records):
            if group is not None and group.has_current(member_id):
                self.ownership.set_owned(member_id, *group.current(member_id), at_ms)
            else:
                self.ownership.drop(member_id, at_ms)

    def _drop_all_except(self, member_ids: Iterable[str], at_ms: int) -> None:
        for member_id in set(self.ownership.members()).difference(member_ids):
            self.ownership.drop(member_id, at_ms)

    def _add(self, group_type: str, generation: Generation) -> None:
        """Adds a new generation or one with other members, or completes the last one."""
        last = self.generations[-1] if self.generations else None
        if (
            last is None
            or last.state == DEAD
            or last.generation_id != generation.generation_id
            or _member_ids(last) != _member_ids(generation)
        ):
            self.generations.append(generation)
            self._last_generation_type = group_type
        elif self._last_generation_type == group_type:
            self.generations[-1] = replace(last, members=generation.members, assignor=generation.assignor)

    def _mark_stable(self, epoch: int, at_ms: int) -> None:
        """Sets the time at which all members had reached an epoch."""
        for index in range(len(self.generations) - 1, -1, -1):
            generation = self.generations[index]
            if generation.generation_id != epoch or generation.stable_ms is not None:
                return
            self.generations[index] = replace(generation, stable_ms=at_ms)


def _new_generation(
    record: ParsedRecord,
    generation_id: int,
    members: tuple[RecordedMember, ...] = (),
    assignor: str | None = None,
    *,
    leader: str | None = None,
    stable_ms: int | None = None,
) -> Generation:
    """Returns the generation of a live group that a record begins."""
    state = STABLE if members else EMPTY
    return Generation(
        generation_id, record.at_ms, stable_ms, state, assignor, leader, members, record.partition, record.offset
    )


def _member_ids(generation: Generation) -> list[str]:
    return [member.member_id for member in generation.members]


# --- ownership ----------------------------------------------------------------------------------------------------


class OwnershipTracker:
    """What members own, and what they owned before.

    A partition has one interval from when a member receives it to when the member loses it, however often it is
    written. Another member id is another interval, even for the same static member.
    """

    def __init__(self) -> None:
        self._open: dict[str, tuple[RoleAssignment, dict[tuple[str, str], list[OwnershipInterval]]]] = {}
        self._closed: list[OwnershipInterval] = []

    def members(self) -> Collection[str]:
        """Returns the ids of the members whose ownership was set and not dropped."""
        return self._open.keys()

    def set_owned(self, member_id: str, assignment: RoleAssignment, generation_id: int, at_ms: int) -> None:
        """Sets exactly what a member owns from `at_ms` on."""
        previous, intervals = self._open.get(member_id) or ({}, {})
        if assignment is previous:
            return
        for key in previous.keys() | assignment.keys():
            before, after = previous.get(key, ()), assignment.get(key, ())
            if before != after:
                still_open = self._lose_partitions(intervals.pop(key, []), after, at_ms)
                gained = tuple(sorted(set(after).difference(before))) if before else after
                if gained:
                    still_open.append(OwnershipInterval(member_id, *key, gained, generation_id, at_ms, None))
                if still_open:
                    intervals[key] = still_open
        self._open[member_id] = assignment, intervals

    def drop(self, member_id: str, at_ms: int) -> None:
        """Removes a member that left."""
        self.set_owned(member_id, {}, 0, at_ms)
        self._open.pop(member_id, None)

    def intervals(self) -> tuple[OwnershipInterval, ...]:
        """Returns all intervals; those that last to the end have no end."""
        open_intervals = (by_topic.values() for _, by_topic in self._open.values())
        still_open = chain.from_iterable(chain.from_iterable(open_intervals))
        sort_key = attrgetter("start_ms", "member_id", "role", "topic", "partitions")
        return tuple(sorted([*self._closed, *still_open], key=sort_key))

    def _lose_partitions(
        self, intervals: Iterable[OwnershipInterval], owned: Collection[int], at_ms: int
    ) -> list[OwnershipInterval]:
        """Closes the intervals of partitions that are no longer owned; returns the others."""
        owned = frozenset(owned)
        still_open = []
        for interval in intervals:
            lost = tuple(partition for partition in interval.partitions if partition not in owned)
            # An interval of length zero is no ownership.
            if lost and at_ms > interval.start_ms:
                self._closed.append(interval._replace(partitions=lost, end_ms=at_ms))
            if len(lost) < len(interval.partitions):
                kept = tuple(partition for partition in interval.partitions if partition in owned)
                still_open.append(interval._replace(partitions=kept))
        return still_open
