"""Tracks groups of the broker's protocols along their records: consumer (KIP-848), streams (KIP-1071), share (KIP-932).

The coordinator (4.0 to 4.4, `GroupMetadataManager`) writes these records together:

    a member joins or changes its     its metadata, the group's new epoch, the changed targets, the target's epoch, and
    subscription                      its current assignment
    a member leaves or times out      tombstones of all its records, and a new epoch; targets follow with the next
                                      heartbeat of another member
    a static member leaves            its current assignment with member epoch -2: it keeps its partitions, and remains
                                      a member
    a static member returns           tombstones of the old id, and the same records for the new id: no new epoch
    a member releases or receives     its current assignment; partitions pending revocation are its own until it
    partitions                        confirms that it has released them

All records of one write have one timestamp, and their order is that of offsets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from spark_assign.history.kernel.record_parser import (
    CONSUMER,
    EMPTY_ASSIGNMENT,
    PARTITION,
    SHARE,
    STREAMS,
    RoleAssignment,
    read_rebalance_timeout,
)
from spark_assign.history.kernel.timeline import RecordedMember

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
        names = fields["subscribedTopicNames"]
        matches = self._regexes.get(fields.get("subscribedTopicRegex") or "", ())
        return tuple(dict.fromkeys((*names, *matches)))

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
