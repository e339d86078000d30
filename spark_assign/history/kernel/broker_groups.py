"""Groups of the broker's protocols while their records go by: consumer (KIP-848), streams (KIP-1071), share (KIP-932).

What the coordinator (4.0 to 4.4, `GroupMetadataManager`) writes, each in one step:

    who joins or subscribes anew   its metadata, the group's new epoch, the targets that changed, the target's epoch,
                                   and what it has now
    who leaves or times out        tombstones of all that is of it, and a new epoch; targets follow with the next
                                   heartbeat of another member
    a static member that leaves    what it has, with member epoch -2: it keeps it, and still belongs to the group
    a static member that is back   tombstones of the old id, and all of it under the new one: no new epoch
    who gives up or gets           what it has now; what it has been asked to give up it has until it says that it did

All records of one step have one timestamp, and their order is that of offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from spark_assign.history.kernel.embedded_protocol import NOTHING, PARTITION, Items
from spark_assign.history.kernel.ownership_tracker import OwnershipTracker
from spark_assign.history.kernel.timeline import RecordedMember

CONSUMER, SHARE, STREAMS = TYPES = ("consumer", "share", "streams")
_STABLE = {CONSUMER: 0, SHARE: 0, STREAMS: 1}
"""Of a member's state that nothing is pending: by type, as the broker numbers states."""

_TASKS = (("active", "activeTasks"), ("standby", "standbyTasks"), ("warmup", "warmupTasks"))
_PENDING = "PendingRevocation"

_OF_MEMBERS = ("MemberMetadata", "TargetAssignmentMember", "RegularExpression", "Topology")
"""Records that say who is a member, of what, and what it is to have."""


def kind_of(name: str) -> tuple[str, str] | None:
    """Type and kind of a record, by Kafka's name of it: `ConsumerGroupMemberMetadata` is consumer, MemberMetadata."""
    for group_type in TYPES:
        prefix = f"{group_type.capitalize()}Group"
        if name.startswith(prefix):
            return group_type, name.removeprefix(prefix)
    return None


class BrokerGroupTracker:
    """What is known of one group at a moment.

    Of a compacted topic anything can be missing but the last record of each key: whoever has a target, or has
    something, is a member too, with nothing else known.

    Attributes:
        epoch: the group's; None: it is none, or its epoch is not on record.
        changed: since `members` was last asked somebody came, went, subscribed anew or got another target.
    """

    def __init__(self, group_type: str, topics: Mapping[str, str]) -> None:
        self.group_type = group_type
        self.epoch: int | None = None
        self.changed = False
        self._names = topics
        self._metadata: dict[str, Mapping[str, Any]] = {}
        self._targets: dict[str, Items] = {}
        self._current: dict[str, Mapping[str, Any]] = {}
        self._regexes: dict[str, tuple[str, ...]] = {}
        self._topology: tuple[str, ...] = ()
        self._members: dict[str, RecordedMember] = {}
        self._lagging: set[str] = set()

    @property
    def settled(self) -> bool:
        """Every member has reached the group's epoch, and waits for nothing."""
        return not self._lagging

    @property
    def assignor(self) -> str | None:
        """What most of the members that ask for one ask for."""
        asked: dict[str, int] = {}
        for fields in self._metadata.values():
            name = fields.get("serverAssignor")
            if name is not None:
                asked[name] = asked.get(name, 0) + 1
        return min(asked, key=lambda name: (-asked[name], name)) if asked else None

    def members(self) -> tuple[RecordedMember, ...]:
        """The members with their targets, by member id; those of which nothing changed are the same objects."""
        self.changed = False
        everybody = self._metadata.keys() | self._targets.keys() | self._current.keys()
        return tuple(self._member(member_id) for member_id in sorted(everybody))

    def has(self, member_id: str) -> bool:
        """What a member has is on record."""
        return member_id in self._current

    def say(self, kind: str, key: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
        """One record; a tombstone of the epoch, which ends all of it, is for the caller."""
        member_id = key.get("memberId")
        known = member_id in self._metadata
        # What a member has comes again and again; it changes who is a member only where nothing else is known of it.
        self.changed |= kind in _OF_MEMBERS or (kind == "CurrentMemberAssignment" and not known)
        if kind == "Metadata" and value is not None:
            self.epoch = value["epoch"]
            for each in self._metadata:
                self._look(each)
        elif kind == "MemberMetadata":
            _put(self._metadata, member_id, value)
            self._members.pop(str(member_id), None)
            self._look(str(member_id))
        elif kind == "TargetAssignmentMember":
            _put(self._targets, member_id, None if value is None else self._items(value))
            self._members.pop(str(member_id), None)
        elif kind == "CurrentMemberAssignment":
            _put(self._current, member_id, value)
            self._look(str(member_id))
        elif kind == "RegularExpression":
            _put(self._regexes, key["regularExpression"], None if value is None else tuple(value["topics"]))
            self._members.clear()
        elif kind == "Topology":
            self._topology = () if value is None else tuple(_sources(value))
            self._members.clear()

    def owned(self, member_id: str, owners: OwnershipTracker, at_ms: int) -> None:
        """Tell what a member has now, with what it still has to give up."""
        fields = self._current[member_id]
        epoch = fields["memberEpoch"]
        owners.has(member_id, self._items(fields), epoch if epoch > 0 else self.epoch or 0, at_ms)

    def _look(self, member_id: str) -> None:
        """Whether a member has reached the group's epoch."""
        current = self._current.get(member_id)
        if member_id not in self._metadata:
            self._lagging.discard(member_id)
        elif (
            current is None
            or current["memberEpoch"] < (self.epoch or 0)
            or current.get("state", _STABLE[self.group_type]) != _STABLE[self.group_type]
        ):
            self._lagging.add(member_id)
        else:
            self._lagging.discard(member_id)

    def _member(self, member_id: str) -> RecordedMember:
        if member_id not in self._metadata:
            return RecordedMember(member_id, assignment=self._targets.get(member_id, NOTHING))
        if member_id not in self._members:
            fields = self._metadata[member_id]
            classic = fields.get("classicMemberMetadata") or {}
            timeout = fields.get("rebalanceTimeoutMs")
            self._members[member_id] = RecordedMember(
                member_id=member_id,
                group_instance_id=fields.get("instanceId"),
                client_id=fields["clientId"],
                client_host=fields["clientHost"],
                rack_id=fields["rackId"],
                session_timeout_ms=classic.get("sessionTimeoutMs"),
                rebalance_timeout_ms=None if timeout is None or timeout < 0 else timeout,
                topics=self._subscribed(fields),
                assignment=self._targets.get(member_id, NOTHING),
            )
        return self._members[member_id]

    def _subscribed(self, fields: Mapping[str, Any]) -> tuple[str, ...]:
        """Topics by name, and those that its pattern has been resolved to; of streams what the topology reads."""
        if self.group_type == STREAMS:
            return self._topology
        names = fields["subscribedTopicNames"]
        pattern = self._regexes.get(fields.get("subscribedTopicRegex") or "", ())
        return tuple(dict.fromkeys((*names, *pattern)))

    def _items(self, fields: Mapping[str, Any]) -> Items:
        """What a target or a current assignment has."""
        found: dict[tuple[str, str], set[int]] = {}
        if self.group_type == STREAMS:
            for role, name in _TASKS:
                for tasks in (*fields[name], *(fields.get(name + _PENDING) or ())):
                    found.setdefault((role, tasks["subtopologyId"]), set()).update(tasks["partitions"])
        else:
            lists = ("topicPartitions", "assignedPartitions", f"partitions{_PENDING}")
            for each in (each for name in lists for each in fields.get(name) or ()):
                topic = self._names.get(each["topicId"], each["topicId"])
                found.setdefault((PARTITION, topic), set()).update(each["partitions"])
        return {key: tuple(sorted(partitions)) for key, partitions in found.items() if partitions}


def names_of_topics(kind: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Ids and names of topics that a record brings together."""
    if kind == "PartitionMetadata":
        named = value["topics"]
    elif kind == "StatePartitionMetadata":
        named = [each for name in ("deletingTopics", "initializingTopics", "initializedTopics") for each in value[name]]
    else:
        return
    for each in named:
        if "topicId" in each:
            yield each["topicId"], each["topicName"]


def _sources(topology: Mapping[str, Any]) -> Iterator[str]:
    """The topics that a topology reads and does not make itself."""
    made = {name for each in topology["subtopologies"] for name in each["repartitionSinkTopics"]}
    topics = (name for each in topology["subtopologies"] for name in each["sourceTopics"])
    return (name for name in dict.fromkeys(topics) if name not in made)


def _put(where: dict[str, Any], key: Any, value: Any) -> None:
    if value is None:
        where.pop(key, None)
    else:
        where[key] = value
