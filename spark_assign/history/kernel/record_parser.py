"""Decodes the records of one group: the records, which of them were written together, and the bytes that members sent.

Members of a classic group and their leader send bytes that the broker never reads. Most members of a record are
unchanged since the record before. Bytes that occurred before aren't decoded again, and an unchanged member is the same
object, so a comparison of generations finds that out at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

from spark_assign.connect import connect_protocol
from spark_assign.history.kernel.timeline import RecordedMember, UnreadableRecord
from spark_assign.streams.classic_members import DecodedMember, StreamsMember, decode_member
from spark_assign.wire import consumer_protocol, streams_protocol
from spark_assign.wire.group_records import read_key, read_value
from spark_assign.wire.reader import WireError
from spark_assign.wire.streams_protocol import TaskId

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
CONNECT = "connect"
"""Protocol type of Connect workers."""

METADATA = "Metadata"
"""The record of a group's epoch in the broker's protocols."""

RawRecord = tuple[int, int, int, bytes | None, bytes | None, str | None, str | None]
"""Partition, offset, time, key, and value of a record; code and detail if its version isn't known."""

PARTITION, CONNECTOR, TASK = "partition", "connector", "task"
ACTIVE, STANDBY = "active", "standby"

RoleAssignment = Mapping[tuple[str, str], tuple[int, ...]]
"""(role, topic) to partitions, ascending."""

UNREADABLE = {
    "unreadable-subscription": "The subscription of the member is unknown",
    "unreadable-assignment": "The assignment of the member is unknown",
    "unreadable-tasks": "The Kafka Streams tasks of the member are unknown",
}
"""Code to the consequence of bytes that can't be decoded."""

EMPTY_ASSIGNMENT: RoleAssignment = {}
_Subscription = tuple[tuple[str, ...], str | None]
_NO_SUBSCRIPTION: _Subscription = ((), None)
_Value = TypeVar("_Value")


# --- records ------------------------------------------------------------------------------------------------------


def parse_record_name(name: str) -> tuple[str, str] | None:
    """Returns group type and record type of a record name; None for another record.

    `ConsumerGroupMemberMetadata` yields consumer and MemberMetadata; the record of a classic group is `GroupMetadata`.
    """
    if name == "GroupMetadata":
        return CLASSIC, name
    for group_type in (CONSUMER, SHARE, STREAMS):
        prefix = f"{group_type.capitalize()}Group"
        if name.startswith(prefix):
            return group_type, name.removeprefix(prefix)
    return None


class ParsedRecord(NamedTuple):
    """A decoded record. `value` is None for a tombstone; `record_type` has no prefix of the group type."""

    partition: int
    offset: int
    at_ms: int
    group_type: str
    record_type: str
    key: Mapping[str, Any]
    value: Mapping[str, Any] | None

    @property
    def is_classic(self) -> bool:
        """Whether it is a record of a classic group."""
        return self.group_type == CLASSIC

    @property
    def is_group_tombstone(self) -> bool:
        """Whether it ends the group, which is deleted or converted to another type."""
        return self.value is None and (self.is_classic or self.record_type == METADATA)


def parse_records(records: Iterable[RawRecord], unreadable: list[UnreadableRecord]) -> Iterator[ParsedRecord]:
    """Yields the records about the group itself, without duplicates; appends unreadable records to `unreadable`."""
    previous = None
    current: dict[str, dict[object, int]] = {}  # indexes of unreadable records without a later one of their key
    for partition, offset, at_ms, key, value, code, detail in records:
        if (partition, offset) == previous:
            continue
        previous = partition, offset
        record_key = read_key(key or b"")
        names = parse_record_name(record_key.name)
        assert names is not None  # commits aren't among the records
        of_type = current.setdefault(names[0], {})
        fields = None
        try:
            if value is not None and code is None:
                fields = read_value(record_key.type, value).fields
        except WireError as error:
            code, detail = "corrupt", str(error)
        record = ParsedRecord(partition, offset, at_ms, *names, record_key.fields, fields)
        name = record.record_type, *record.key.values()
        replaced = list(of_type) if record.is_group_tombstone else [name] if name in of_type else []
        for index in map(of_type.pop, replaced):
            unreadable[index] = replace(unreadable[index], end_ms=at_ms)
        if code is None:
            yield record
        else:
            of_type[name] = len(unreadable)
            unreadable.append(UnreadableRecord(partition, offset, at_ms, code, detail or "", key, value))


def group_by_write(records: Iterable[ParsedRecord]) -> Iterator[list[ParsedRecord]]:
    """Groups records that were written together: consecutive records with one timestamp.

    Two writes in the same millisecond are separated if their records show it: each generation of a classic group is
    one write, and so is each epoch with the records that follow from it. A conversion to another group type (KIP-848
    upgrades and downgrades write the tombstones of one type and the records of the other) is one write.
    """
    write: list[ParsedRecord] = []
    has_epoch = False
    for record in records:
        if write and _starts_write(write[-1], record, has_epoch=has_epoch):
            yield write
            write, has_epoch = [], False
        write.append(record)
        has_epoch |= record.record_type == METADATA and record.value is not None
    if write:
        yield write


def _starts_write(last: ParsedRecord, record: ParsedRecord, *, has_epoch: bool) -> bool:
    """Checks whether a record belongs to another write than the records before it, of which some can have an epoch."""
    if record.at_ms != last.at_ms or record.partition != last.partition:
        return True
    if last.is_classic:
        return last.value is not None or record.is_classic
    if last.is_group_tombstone:
        return not record.is_classic
    return has_epoch and _is_first_in_write(record)


def _is_first_in_write(record: ParsedRecord) -> bool:
    """Checks whether the coordinator writes such a record first, or second to another such record."""
    if record.is_classic or record.record_type == METADATA:
        return True
    if record.record_type == "MemberMetadata":
        return record.value is not None
    return record.record_type == "CurrentMemberAssignment" and record.value is None


# --- embedded bytes -----------------------------------------------------------------------------------------------


class EmbeddedProtocolReader:
    """Reads the members in the consecutive records of one group."""

    def __init__(self) -> None:
        self._members: dict[str, tuple[tuple[Any, ...], RecordedMember]] = {}
        self._subscriptions: _RecentValues[_Subscription] = _RecentValues()
        self._assignments: _RecentValues[RoleAssignment] = _RecentValues()
        self._topics: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._unreadable: dict[str, dict[str, str]] = {code: {} for code in UNREADABLE}

    def read_members(self, value: Mapping[str, Any]) -> tuple[RecordedMember, ...]:
        """Returns the members of a GroupMetadata value, sorted by member id."""
        members: dict[str, tuple[tuple[Any, ...], RecordedMember]] = {}
        for position, fields in enumerate(value["members"]):
            content = (value["protocolType"], value["protocol"], position, *fields.values())
            known = self._members.get(fields["memberId"])
            if known is None or known[0] != content:
                known = content, self._read_member(value, position, fields)
            members[fields["memberId"]] = known
        self._members = members
        self._subscriptions.expire(len(members))
        self._assignments.expire(len(members))
        return tuple(members[member_id][1] for member_id in sorted(members))

    def rejected(self) -> Iterator[tuple[str, str]]:
        """Yields the code and detail of bytes that could not be decoded."""
        for code, members in self._unreadable.items():
            if members:
                more = f" and {len(members) - 1} more" if len(members) > 1 else ""
                yield code, f"{members[min(members)]}{more}. {UNREADABLE[code]}"

    def _read_member(self, value: Mapping[str, Any], position: int, fields: Mapping[str, Any]) -> RecordedMember:
        """Returns a member of a GroupMetadata record."""
        topics, rack = self._read_subscription(value, fields)
        assignment, streams = self._read_assignment(value, fields), self._read_streams(value, fields)
        if streams is not None:
            assignment = {**assignment, **_tasks_by_role(streams)}
        return RecordedMember(
            member_id=fields["memberId"],
            group_instance_id=fields.get("groupInstanceId"),
            client_id=fields["clientId"],
            client_host=fields["clientHost"],
            rack_id=rack,
            session_timeout_ms=fields["sessionTimeout"],
            rebalance_timeout_ms=read_rebalance_timeout(fields.get("rebalanceTimeout")),
            topics=topics,
            subscription=fields["subscription"],
            assignment=assignment,
            assignment_bytes=fields["assignment"],
            position=position,
            streams=streams,
        )

    def _read_streams(self, value: Mapping[str, Any], fields: Mapping[str, Any]) -> DecodedMember | None:
        """Returns what a member of a classic Streams application reports and runs; None if the bytes were redacted."""
        if value["protocolType"] != CONSUMER or value["protocol"] != streams_protocol.PROTOCOL:
            return None
        try:
            sent = consumer_protocol.subscription_as_sent(fields["subscription"])
            if not sent.user_data:
                return None
            assigned = consumer_protocol.assignment(fields["assignment"]) if fields["assignment"] else None
            return decode_member(StreamsMember(fields["memberId"], sent, assigned))
        except WireError as error:
            self._reject("unreadable-tasks", value, fields, error)
            return None

    def _read_subscription(self, value: Mapping[str, Any], fields: Mapping[str, Any]) -> _Subscription:
        data = fields["subscription"]
        if value["protocolType"] != CONSUMER:
            return _NO_SUBSCRIPTION
        try:
            return self._subscriptions.get((data,), self._read_consumer_subscription)
        except WireError as error:
            self._reject("unreadable-subscription", value, fields, error)
            return _NO_SUBSCRIPTION

    def _read_consumer_subscription(self, data: bytes) -> _Subscription:
        subscription = consumer_protocol.subscription_as_sent(data)
        return self._topics.setdefault(subscription.topics, subscription.topics), subscription.rack_id

    def _read_assignment(self, value: Mapping[str, Any], fields: Mapping[str, Any]) -> RoleAssignment:
        data = fields["assignment"]
        if not data or value["protocolType"] not in (CONSUMER, CONNECT):
            return EMPTY_ASSIGNMENT
        try:
            if value["protocolType"] == CONSUMER:
                return self._assignments.get((data,), _read_consumer_assignment)
            return self._assignments.get((data, fields["subscription"]), _read_worker_assignment)
        except WireError as error:
            self._reject("unreadable-assignment", value, fields, error)
            return EMPTY_ASSIGNMENT

    def _reject(self, code: str, value: Mapping[str, Any], fields: Mapping[str, Any], error: WireError) -> None:
        member_id = fields["memberId"]
        self._unreadable[code].setdefault(member_id, f"{member_id=!s}, generation={value['generation']}: {error}")


class _RecentValues(Generic[_Value]):
    """A cache of decoded bytes that occurred in recent records."""

    def __init__(self) -> None:
        self._new: dict[tuple[bytes, ...], _Value] = {}
        self._old: dict[tuple[bytes, ...], _Value] = {}

    def get(self, key: tuple[bytes, ...], read: Callable[..., _Value]) -> _Value:
        """Returns the decoded value, which is decoded once."""
        value = self._new.get(key)
        if value is None:
            value = self._old.get(key)
            self._new[key] = value = read(*key) if value is None else value
        return value

    def expire(self, num_members: int) -> None:
        """Forgets values that haven't been used for a while. Called after each record."""
        if len(self._new) > 4 * num_members + 64:
            self._old, self._new = self._new, {}


def _read_consumer_assignment(assignment: bytes) -> RoleAssignment:
    partitions_by_topic: dict[tuple[str, str], set[int]] = {}
    for topic, partitions in consumer_protocol.assigned(assignment):
        if partitions:
            partitions_by_topic.setdefault((PARTITION, topic), set()).update(partitions)
    return {key: tuple(sorted(partitions)) for key, partitions in partitions_by_topic.items()}


def _tasks_by_role(member: DecodedMember) -> RoleAssignment:
    """Returns the tasks of a member of a classic Streams application; warmups are standbys there."""
    tasks: dict[tuple[str, str], set[int]] = {}
    for role, assigned in ((ACTIVE, member.active.values()), (STANDBY, member.standby)):
        for task in assigned:
            tasks.setdefault((role, subtopology_name(task)), set()).add(task.partition)
    return {key: tuple(sorted(numbers)) for key, numbers in tasks.items()}


def subtopology_name(task: TaskId) -> str:
    """Returns the name of a task's subtopology, as it is in the name of the task."""
    return str(task).rpartition("_")[0]


def _read_worker_assignment(assignment: bytes, metadata: bytes) -> RoleAssignment:
    """Returns what a Connect worker runs: its assignment, and what it ran when it joined and need not stop."""
    assigned = connect_protocol.read_assignment(assignment)
    running = connect_protocol.read_worker_state(metadata).running
    connectors, tasks = set(assigned.connectors), set(assigned.tasks)
    if running is not None:
        connectors |= set(running.connectors) - set(assigned.revoked_connectors)
        tasks |= set(running.tasks) - set(assigned.revoked_tasks)
    ids_by_connector: dict[tuple[str, str], list[int]] = {(CONNECTOR, connector): [0] for connector in connectors}
    for connector, task in tasks:
        ids_by_connector.setdefault((TASK, connector), []).append(task)
    return {key: tuple(sorted(ids)) for key, ids in ids_by_connector.items()}


def read_rebalance_timeout(timeout_ms: int | None) -> int | None:
    """Returns a rebalance timeout; None if not on record, as before version 1 of GroupMetadata and in share groups."""
    return None if timeout_ms is None or timeout_ms < 0 else timeout_ms
