"""What members of a classic group and their leader sent as bytes that the broker never reads: whole records' members.

Most of a record's members say what they said in the record before. Bytes that were there already are not read again,
and a member of which nothing changed is the same object, so that what compares generations sees it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from spark_assign.connect import connect_protocol
from spark_assign.history.kernel.timeline import RecordedMember
from spark_assign.wire import consumer_protocol
from spark_assign.wire.reader import WireError

PARTITION, CONNECTOR, TASK = "partition", "connector", "task"
CONSUMER, CONNECT = "consumer", "connect"

Items = Mapping[tuple[str, str], tuple[int, ...]]
"""(role, topic) to partitions, ascending."""

UNREADABLE = {
    "unreadable-subscription": "What the member subscribes to is not told",
    "unreadable-assignment": "What the member was given is not told",
}
"""By code what follows from it."""

NOTHING: Items = {}
_Topics = tuple[tuple[str, ...], str | None]
_NO_TOPICS: _Topics = ((), None)
_Value = TypeVar("_Value")


class EmbeddedProtocolReader:
    """Reads the members of one group's records, one record after the other."""

    def __init__(self) -> None:
        self._members: dict[str, tuple[tuple[Any, ...], RecordedMember]] = {}
        self._topics: _Recent[_Topics] = _Recent()
        self._items: _Recent[Items] = _Recent()
        self._unread: dict[str, dict[str, str]] = {code: {} for code in UNREADABLE}

    def members(self, value: Mapping[str, Any]) -> tuple[RecordedMember, ...]:
        """The members of a GroupMetadata value, by member id."""
        members: dict[str, tuple[tuple[Any, ...], RecordedMember]] = {}
        for position, fields in enumerate(value["members"]):
            said = (value["protocolType"], position, *fields.values())
            known = self._members.get(fields["memberId"])
            if known is None or known[0] != said:
                known = said, self._member(value, position, fields)
            members[fields["memberId"]] = known
        self._members = members
        self._topics.turn(len(members))
        self._items.turn(len(members))
        return tuple(members[member_id][1] for member_id in sorted(members))

    def rejected(self) -> Iterator[tuple[str, str]]:
        """Code and detail of what could not be read."""
        for code, members in self._unread.items():
            if members:
                more = f" and {len(members) - 1} more" if len(members) > 1 else ""
                yield code, f"{members[min(members)]}{more}. {UNREADABLE[code]}"

    def _member(self, value: Mapping[str, Any], position: int, fields: Mapping[str, Any]) -> RecordedMember:
        topics, rack = self._subscribed(value, fields)
        return RecordedMember(
            member_id=fields["memberId"],
            group_instance_id=fields.get("groupInstanceId"),
            client_id=fields["clientId"],
            client_host=fields["clientHost"],
            rack_id=rack,
            session_timeout_ms=fields["sessionTimeout"],
            rebalance_timeout_ms=_timeout(fields.get("rebalanceTimeout")),
            topics=topics,
            subscription=fields["subscription"],
            assignment=self._assigned(value, fields),
            assigned=fields["assignment"],
            position=position,
        )

    def _subscribed(self, value: Mapping[str, Any], fields: Mapping[str, Any]) -> _Topics:
        data = fields["subscription"]
        if value["protocolType"] != CONSUMER or not data:
            return _NO_TOPICS
        try:
            return self._topics.found((data,), _topics_of_consumer)
        except WireError as error:
            self._unreadable("unreadable-subscription", value, fields, error)
            return _NO_TOPICS

    def _assigned(self, value: Mapping[str, Any], fields: Mapping[str, Any]) -> Items:
        data = fields["assignment"]
        if not data or value["protocolType"] not in (CONSUMER, CONNECT):
            return NOTHING
        try:
            if value["protocolType"] == CONSUMER:
                return self._items.found((data,), _items_of_consumer)
            return self._items.found((data, fields["subscription"]), _items_of_worker)
        except WireError as error:
            self._unreadable("unreadable-assignment", value, fields, error)
            return NOTHING

    def _unreadable(self, code: str, value: Mapping[str, Any], fields: Mapping[str, Any], error: WireError) -> None:
        member_id = fields["memberId"]
        self._unread[code].setdefault(member_id, f"{member_id=!s}, generation={value['generation']}: {error}")


class _Recent(Generic[_Value]):
    """What bytes say, as long as records have them."""

    def __init__(self) -> None:
        self._new: dict[tuple[bytes, ...], _Value] = {}
        self._old: dict[tuple[bytes, ...], _Value] = {}

    def found(self, key: tuple[bytes, ...], read: Callable[..., _Value]) -> _Value:
        """What they say, read once."""
        found = self._new.get(key)
        if found is None:
            found = self._old.get(key)
            self._new[key] = found = read(*key) if found is None else found
        return found

    def turn(self, members: int) -> None:
        """After a record: what has not been met for a while is forgotten."""
        if len(self._new) > 4 * members + 64:
            self._old, self._new = self._new, {}


def _topics_of_consumer(data: bytes) -> _Topics:
    said = consumer_protocol.subscription_as_sent(data)
    return said.topics, said.rack_id


def _items_of_consumer(assignment: bytes) -> Items:
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for topic, partitions in consumer_protocol.assigned(assignment):
        if partitions:
            found[PARTITION, topic] = found.get((PARTITION, topic), ()) + partitions
    return {key: tuple(sorted(set(partitions))) for key, partitions in found.items()}


def _items_of_worker(assignment: bytes, said: bytes) -> Items:
    """What a Connect worker runs: what it was told, and what it ran when it joined and was not told to stop."""
    told = connect_protocol.assignment(assignment)
    ran = connect_protocol.worker_state(said).running
    connectors, tasks = set(told.connectors), set(told.tasks)
    if ran is not None:
        connectors |= set(ran.connectors) - set(told.revoked_connectors)
        tasks |= set(ran.tasks) - set(told.revoked_tasks)
    found: dict[tuple[str, str], list[int]] = {(CONNECTOR, connector): [0] for connector in connectors}
    for connector, task in tasks:
        found.setdefault((TASK, connector), []).append(task)
    return {key: tuple(sorted(numbers)) for key, numbers in found.items()}


def _timeout(given: int | None) -> int | None:
    """Not on record before GroupMetadata version 1."""
    return None if given is None or given < 0 else given
