"""Builds the timeline of each group from its facts: generations, and ownership over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from typing import Any

import pyarrow as pa

from spark_assign.history.kernel.group_chunks import GroupChunk, GroupFacts, iter_chunks
from spark_assign.history.kernel.record_parser import (
    CLASSIC,
    CONSUMER,
    EMPTY_ASSIGNMENT,
    METADATA,
    PARTITION,
    SHARE,
    STREAMS,
    EmbeddedProtocolReader,
    ParsedRecord,
    RoleAssignment,
    group_by_write,
    parse_record_name,
    parse_records,
    read_rebalance_timeout,
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
from spark_assign.tables.schema_fields import MAX_ID_BYTES
from spark_assign.wire.group_records import NAMES, read_key, read_value
from spark_assign.wire.reader import WireError

# --- broker groups ----------------------------------------------------------------------------------------------------
#
# Tracks groups of the broker's protocols along their records: consumer (KIP-848), streams (KIP-1071), share
# (KIP-932).
#
# The coordinator (4.0 to 4.4, `GroupMetadataManager`) writes these records together:
#
#   a member joins or changes its     its metadata, the group's new epoch, the changed targets, the target's epoch, and
#   subscription                      its current assignment
#   a member leaves or times out      tombstones of all its records, and a new epoch; targets follow with the next
#                                     heartbeat of another member
#   a static member leaves            its current assignment with member epoch -2: it keeps its partitions, and remains
#                                     a member
#   a static member returns           tombstones of the old id, and the same records for the new id: no new epoch
#   a member releases or receives     its current assignment; partitions pending revocation are its own until it
#   partitions                        confirms that it has released them
#
# All records of one write have one timestamp, and their order is that of offsets.


_STABLE = {CONSUMER: 0, SHARE: 0, STREAMS: 1}
"""Group type to the member state, as the broker numbers states, in which nothing is pending."""

_TASKS = (("active", "activeTasks"), ("standby", "standbyTasks"), ("warmup", "warmupTasks"))
_PENDING = "PendingRevocation"

_MEMBER_RECORDS = ("MemberMetadata", "TargetAssignmentMember", "RegularExpression", "Topology")
"""Records that change the members, their subscriptions, or their targets."""


class BrokerGroupTracker:
    """The state of one group at a moment.

    A compacted topic might lack all but the last record of each key, so a member id that has only a target or a current
    assignment is a member, too, with no other fields.

    Attributes:
        epoch: the group's epoch; None if it is not on record or the group doesn't exist.
        is_changed: whether members, subscriptions, or targets changed since the last call of `members`.
    """

    def __init__(self, group_type: str, topics: Mapping[str, str]) -> None:
        self.group_type = group_type
        self.epoch: int | None = None
        self.is_changed = False
        self._topic_names = topics
        self._metadata: dict[str, Mapping[str, Any]] = {}
        self._targets: dict[str, RoleAssignment] = {}
        self._current: dict[str, Mapping[str, Any]] = {}
        self._regexes: dict[str, tuple[str, ...]] = {}
        self._subscribed: dict[tuple[tuple[str, ...], str], tuple[str, ...]] = {}
        self._topology: tuple[str, ...] = ()
        self._members: dict[str, RecordedMember] = {}
        self._lagging: set[str] = set()

    @property
    def is_stable(self) -> bool:
        """Whether every member has reached the group's epoch, with nothing pending."""
        return not self._lagging

    @property
    def assignor(self) -> str | None:
        """The server assignor that most members request; None if no member requests one."""
        requested = (fields.get("serverAssignor") for fields in self._metadata.values())
        counts = Counter(name for name in requested if name is not None)
        return min(counts, key=lambda name: (-counts[name], name)) if counts else None

    def members(self) -> tuple[RecordedMember, ...]:
        """Returns the members with their targets, sorted by member id. Unchanged members are the same objects."""
        self.is_changed = False
        member_ids = self._metadata.keys() | self._targets.keys() | self._current.keys()
        return tuple(self._member(member_id) for member_id in sorted(member_ids))

    def has_current(self, member_id: str) -> bool:
        """Checks whether the current assignment of a member is on record."""
        return member_id in self._current

    def apply(self, record_type: str, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        """Applies one record. The caller handles tombstones of the epoch, which end the group."""
        member_id = key.get("memberId")
        # Current assignments are frequent. They change the members only if nothing else is known of the member.
        self.is_changed |= record_type in _MEMBER_RECORDS or (
            record_type == "CurrentMemberAssignment" and member_id not in self._metadata
        )
        if record_type == "Metadata" and value is not None:
            self.epoch = value["epoch"]
            for known_id in self._metadata:
                self._update_lagging(known_id)
        elif record_type == "MemberMetadata":
            _set_or_delete(self._metadata, member_id, value)
            self._members.pop(str(member_id), None)
            self._update_lagging(str(member_id))
        elif record_type == "TargetAssignmentMember":
            _set_or_delete(self._targets, member_id, None if value is None else self._read_assignment(value))
            self._members.pop(str(member_id), None)
        elif record_type == "CurrentMemberAssignment":
            _set_or_delete(self._current, member_id, value)
            self._update_lagging(str(member_id))
        elif record_type == "RegularExpression":
            topics = None if value is None else tuple(value["topics"])
            _set_or_delete(self._regexes, key["regularExpression"], topics)
            self._members.clear()
            self._subscribed.clear()
        elif record_type == "Topology":
            self._topology = () if value is None else tuple(_source_topics(value))
            self._members.clear()

    def current(self, member_id: str) -> tuple[RoleAssignment, int]:
        """Returns what a member owns, with partitions pending revocation, and its epoch."""
        fields = self._current[member_id]
        epoch = fields["memberEpoch"]
        return self._read_assignment(fields), epoch if epoch > 0 else self.epoch or 0

    def _update_lagging(self, member_id: str) -> None:
        """Updates whether a member has yet to reach the group's epoch."""
        current = self._current.get(member_id)
        if member_id in self._metadata and (
            current is None
            or current["memberEpoch"] < (self.epoch or 0)
            or current.get("state", _STABLE[self.group_type]) != _STABLE[self.group_type]
        ):
            self._lagging.add(member_id)
        else:
            self._lagging.discard(member_id)

    def _member(self, member_id: str) -> RecordedMember:
        """Returns a member with its metadata, if they are on record, and its target assignment."""
        if member_id not in self._metadata:
            return RecordedMember(member_id, assignment=self._targets.get(member_id, EMPTY_ASSIGNMENT))
        if member_id not in self._members:
            fields = self._metadata[member_id]
            classic = fields.get("classicMemberMetadata") or {}
            self._members[member_id] = RecordedMember(
                member_id=member_id,
                group_instance_id=fields.get("instanceId"),
                client_id=fields["clientId"],
                client_host=fields["clientHost"],
                rack_id=fields["rackId"],
                session_timeout_ms=classic.get("sessionTimeoutMs"),
                rebalance_timeout_ms=read_rebalance_timeout(fields.get("rebalanceTimeoutMs")),
                topics=self._subscribed_topics(fields),
                assignment=self._targets.get(member_id, EMPTY_ASSIGNMENT),
            )
        return self._members[member_id]

    def _subscribed_topics(self, fields: Mapping[str, Any]) -> tuple[str, ...]:
        """Returns topics by name and those that match the pattern; the topology's source topics in a streams group."""
        if self.group_type == STREAMS:
            return self._topology
        names, regex = tuple(fields["subscribedTopicNames"]), fields.get("subscribedTopicRegex") or ""
        if (names, regex) not in self._subscribed:  # shared: an expression can match all topics of the cluster
            matches = self._regexes.get(regex, ())
            self._subscribed[names, regex] = tuple(dict.fromkeys((*names, *matches)))
        return self._subscribed[names, regex]

    def _read_assignment(self, fields: Mapping[str, Any]) -> RoleAssignment:
        """Returns the partitions or tasks of a target or a current assignment."""
        assigned: dict[tuple[str, str], set[int]] = {}
        if self.group_type == STREAMS:
            for role, name in _TASKS:
                for tasks in (*fields[name], *(fields.get(name + _PENDING) or ())):
                    assigned.setdefault((role, tasks["subtopologyId"]), set()).update(tasks["partitions"])
        else:
            for name in ("topicPartitions", "assignedPartitions", f"partitions{_PENDING}"):
                for topic_partitions in fields.get(name) or ():
                    topic_id = topic_partitions["topicId"]
                    topic = self._topic_names.get(topic_id, topic_id)
                    assigned.setdefault((PARTITION, topic), set()).update(topic_partitions["partitions"])
        return {key: tuple(sorted(partitions)) for key, partitions in assigned.items() if partitions}


def read_topic_names(record_type: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the topic ids and names that a record has together."""
    if record_type == "PartitionMetadata":
        topics = value["topics"]
    elif record_type == "StatePartitionMetadata":
        lists = ("deletingTopics", "initializingTopics", "initializedTopics")
        topics = [topic for name in lists for topic in value[name]]
    else:
        return
    for topic in topics:
        if "topicId" in topic:
            yield topic["topicId"], topic["topicName"]


def _source_topics(topology: Mapping[str, Any]) -> Iterator[str]:
    """Returns the topics that a topology reads and doesn't write itself."""
    written = {name for subtopology in topology["subtopologies"] for name in subtopology["repartitionSinkTopics"]}
    topics = (name for subtopology in topology["subtopologies"] for name in subtopology["sourceTopics"])
    return (name for name in dict.fromkeys(topics) if name not in written)


def _set_or_delete(values: dict[str, Any], key: Any, value: Any) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


# --- build timelines --------------------------------------------------------------------------------------------------


SIMPLE = "simple"
LONG_IDS = f"bytes of IDs of more than {MAX_ID_BYTES:,} bytes, once for each topic of their members,"
_MAX_TOTALS = {
    "members": 20_000_000,
    "members in records": 200_000_000,
    "subscribed topics": 20_000_000,
    "assigned partitions": 500_000_000,
    LONG_IDS: 1 << 20,
}
"""Maximum numbers in all generations of a group. Each member takes about 80 bytes, each topic in a new subscription 200
bytes, and each of the others at most a microsecond."""

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
    rejected: list[tuple[str, str]] = []
    topics = {**_read_topic_names(group), **group.topic_ids}
    tracker = GenerationTracker(topics, group.group_id)
    for write in group_by_write(parse_records(group.raw_records(), unreadable)):
        tracker.apply(write)
        exceeded = [f"{most:,} {name}" for name, most in _MAX_TOTALS.items() if tracker.totals[name] > most]
        if exceeded:
            detail = f"Its generations have more than {exceeded[0]} in all. Give records of a shorter time"
            rejected = [("too-many-members", detail)]
            kept, tracker = tracker, GenerationTracker(topics, group.group_id)
            tracker.group_type, tracker.protocol_type = kept.group_type, kept.protocol_type
            break
    has_commits = bool(group.commits or group.tombstones)
    # A tombstone alone is also written for groups that only commit.
    group_type = tracker.group_type or _type_of(unreadable) or (None if has_commits else tracker.last_tombstone_type)
    return Timeline(
        group_type=group_type or SIMPLE,
        protocol_type=tracker.protocol_type if tracker.group_type == CLASSIC else None,
        generations=tuple(tracker.generations),
        ownership=tracker.ownership.intervals(),
        commits=group.commits,
        first_ms=group.first_ms,
        last_ms=group.last_ms,
        records=group.records - len(unreadable),
        rejected=(*rejected, *tracker.embedded.rejected()),
        unreadable=tuple(unreadable),
        topic_ids={topic: topic_id for topic_id, topic in sorted(topics.items())},
    )


def _type_of(unreadable: Sequence[UnreadableRecord]) -> str | None:
    """Returns the group type that the key of the last of these records names; None if there is none."""
    names = parse_record_name(read_key(unreadable[-1].key or b"").name) if unreadable else None
    return names and names[0]


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
        totals: numbers in all of them (`_MAX_TOTALS`).
    """

    def __init__(self, topics: Mapping[str, str], group_id: str) -> None:
        self._group_id = group_id
        self.group_type: str | None = None
        self.last_tombstone_type: str | None = None
        self.protocol_type: str | None = None
        self.ownership = OwnershipTracker()
        self.embedded = EmbeddedProtocolReader()
        self._topics = topics
        self._live_type: str | None = None
        self._broker_groups: dict[str, BrokerGroupTracker] = {}
        self.generations: list[Generation] = []
        self.totals = dict.fromkeys(_MAX_TOTALS, 0)
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
        members = generation.members
        before = {member.member_id: member.topics for member in last.members} if last else {}
        changed = (member.topics for member in members if before.get(member.member_id) != member.topics)
        self.totals["subscribed topics"] += sum(map(len, changed))
        self.totals["assigned partitions"] += sum(
            len(each) for member in members for each in member.assignment.values()
        )
        self.totals["members in records"] += len(members)
        for member in members:
            size = max(len(self._group_id), len(member.member_id))
            self.totals[LONG_IDS] += (
                size * (1 + len(member.topics) + len(member.assignment)) if size > MAX_ID_BYTES else 0
            )
        if (
            last is None
            or last.state == DEAD
            or last.generation_id != generation.generation_id
            or _member_ids(last) != _member_ids(generation)
        ):
            self.generations.append(generation)
            self.totals["members"] += len(members)
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
