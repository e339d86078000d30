"""Converts the facts of many groups, as one Arrow table, to initial states and events.

A fact is a row. Its `kind` determines the columns that it uses:

    group   names (strategies), group_type, numbers (`SETTINGS`; null: as everywhere)
    member  member_id, group_instance_id, rack_id, numbers (position, generation_id), names (topics), more (strategies;
            null: as its group's)
    owned   member_id, topic, numbers (first, step, count)
    topic   topic, topic_id, numbers (partitions), at (partitions whose replicas are known), racks (of each of those)
    times   topic, numbers (partition, revoke_ms, restore_ms)
    event   event, member_id, topic, group_instance_id, new_member_id, numbers (at_ms, partitions, down_ms, delay_ms,
            parallelism, pause_ms), names (topics), more (assignors)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.groups.assignors.server.coordinator_hash_order import read_topic_ids
from spark_assign.java.hash_map import java_key
from spark_assign.simulation.kernel.assignment_request import Topics, code
from spark_assign.simulation.kernel.events import MOST_PARTITIONS, BadEvent, Event, in_order
from spark_assign.simulation.kernel.leader import ASSIGNORS
from spark_assign.simulation.kernel.member import AsyncMember, ClassicMember, SimulatedMember
from spark_assign.simulation.kernel.settings import KAFKA_DEFAULT, Timing, is_cooperative
from spark_assign.simulation.kernel.simulated_group import InitialState

GROUP, MEMBER, OWNED, TOPIC, TIMES, EVENT = range(6)

SETTINGS = (
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "max_poll_interval_ms",
    "rebalance_timeout_ms",
    "group_initial_rebalance_delay_ms",
    "metadata_max_age_ms",
    "poll_interval_ms",
    "revoke_ms",
    "restore_ms",
    "group_consumer_heartbeat_interval_ms",
    "group_consumer_session_timeout_ms",
    "group_consumer_assignment_interval_ms",
)
EVENT_NUMBERS = ("at_ms", "partitions", "down_ms", "delay_ms", "parallelism", "pause_ms")

CONFIGURED, EAGER, COOPERATIVE, STATIC, CONSUMER = "configured", "eager", "cooperative", "static", "consumer"
PROTOCOLS = (CONFIGURED, EAGER, COOPERATIVE, STATIC, CONSUMER)
"""Protocols of a simulation: as configured, or the named protocol for all members. `consumer` is that of KIP-848."""

REMOTE = {"uniform": "uniform", "range": "range", "server-range": "range"}
"""The broker's assignors (`group.remote.assignor`) by their names in fleets."""

Key = tuple[str, str]
Row = dict[str, Any]


class InvalidGroupError(Exception):
    """Raised for a group that can't be simulated, with a rejection code and a message."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


@dataclass(frozen=True, slots=True)
class SimulationInput:
    """The facts of one group: its rows by kind."""

    rows: Mapping[int, Sequence[Row]]

    def initial_state(self, protocol: str, defaults: Timing) -> tuple[InitialState, list[Event]]:
        """Returns the initial state of the group with a protocol, and its events in order.

        Raises:
            InvalidGroupError, BadEvent: the group can't be simulated.
        """
        events = in_order(map(_event, self.rows[EVENT]))
        assignors = self._assignors(protocol)
        if protocol != CONFIGURED:
            events = [replace(each, assignors=None) for each in events]
        elif self._is_consumer_protocol(protocol):
            events = [replace(each, assignors=_remote(each.assignors)) if each.assignors else each for each in events]
        topics = self._topics(events)
        number = {name: at for at, name in enumerate(topics.names)}
        counts = {row["topic"]: row["numbers"][0] for row in self.rows[TOPIC] if row["numbers"][0]}
        if large := sorted(topic for topic, count in counts.items() if count > MOST_PARTITIONS):
            many = f"{large[0]} has {counts[large[0]]:,} partitions"
            raise InvalidGroupError("too-many-partitions", f"topics: {many}, expected at most {MOST_PARTITIONS:,}")
        partitions = {number[topic]: count for topic, count in counts.items()}
        is_consumer_protocol = self._is_consumer_protocol(protocol)
        members = self._members(protocol, assignors, number)
        generation = max((row["numbers"][1] or 0 for row in self.rows[MEMBER]), default=0)
        initial_state = InitialState(members, topics, partitions, max(generation, 1), self._timing(defaults), assignors)
        initial_state.new_members_static = protocol == STATIC
        initial_state.is_consumer_protocol = is_consumer_protocol
        if is_consumer_protocol:
            initial_state.topic_ids = self._topic_ids(topics.names)
        revoke_ms: dict[int, int] = {}
        restore_ms: dict[int, int] = {}
        for row in self.rows[TIMES]:
            partition, revoke, restore = row["numbers"]
            for configured, value in ((revoke_ms, revoke), (restore_ms, restore)):
                if value is not None:
                    configured[code(number[row["topic"]], partition)] = value
        initial_state.revoke_ms, initial_state.restore_ms = revoke_ms, restore_ms
        return initial_state, events

    def _assignors(self, protocol: str) -> tuple[str, ...]:
        """Returns the assignors of members without their own."""
        configured = next((tuple(row["names"]) for row in self.rows[GROUP] if row["names"]), ())
        if self._is_consumer_protocol(protocol):
            return _remote(configured if self._is_consumer_protocol(CONFIGURED) else ())
        own = configured or KAFKA_DEFAULT
        if protocol == CONFIGURED:
            return own
        if protocol == EAGER:
            return own if ASSIGNORS.keys() >= set(own) and not is_cooperative(own) else KAFKA_DEFAULT
        return ("cooperative-sticky",)

    def _is_consumer_protocol(self, protocol: str) -> bool:
        """Checks whether the group uses the protocol of KIP-848."""
        kinds = [row.get("group_type") for row in self.rows[GROUP]]
        return protocol == CONSUMER or (protocol == CONFIGURED and "consumer" in kinds)

    def _topic_ids(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """Returns `Uuid.hashCode` and the rank by ID of each topic. If one ID is unknown, ranks are by name.

        Topics that events create come last.

        Raises:
            InvalidGroupError: an ID is invalid.
        """
        of_name = {row["topic"]: row.get("topic_id") for row in self.rows[TOPIC]}
        ids = read_topic_ids([of_name.get(name) for name in names])
        for name, is_valid in zip(names, ids.is_valid.tolist(), strict=True):
            if not is_valid and of_name.get(name) is not None:
                detail = f"topics: topic_id {of_name[name]!r} of {name} is no id. Kafka prints one as 22 characters"
                raise InvalidGroupError("bad-topic-id", detail)
        if not all(of_name.values()):
            return [(number, number) for number in range(len(names))]
        known = zip(ids.is_valid.tolist(), ids.hash.tolist(), ids.rank.tolist(), strict=True)
        return [(hash_, rank) if valid else (at, len(names) + at) for at, (valid, hash_, rank) in enumerate(known)]

    def _timing(self, defaults: Timing) -> Timing:
        configured: dict[str, Any] = {}
        for row in self.rows[GROUP]:
            configured |= {
                name: value for name, value in zip(SETTINGS, row["numbers"], strict=True) if value is not None
            }
        if "max_poll_interval_ms" in configured and "rebalance_timeout_ms" not in configured:
            configured["rebalance_timeout_ms"] = configured["max_poll_interval_ms"]
        timing = replace(defaults, **configured)
        if fault := timing.fault():
            raise InvalidGroupError("bad-settings", f"settings: {fault}")
        return timing

    def _topics(self, events: Sequence[Event]) -> Topics:
        names = {row["topic"] for kind in (OWNED, TOPIC, TIMES) for row in self.rows[kind]}
        names.update(name for row in self.rows[MEMBER] for name in row["names"] or ())
        for event in events:
            names.update(event.topics or ())
            names.update([event.topic] if event.topic is not None else [])
        racks = {row["topic"]: _layout(row) for row in self.rows[TOPIC] if row["at"]}
        return Topics.of(names, racks)

    def _members(self, protocol: str, assignors: tuple[str, ...], number: Mapping[str, int]) -> list[SimulatedMember]:
        owned = self._owned(number)
        is_consumer_protocol = self._is_consumer_protocol(protocol)
        of_kind = AsyncMember if is_consumer_protocol else ClassicMember
        shared: dict[frozenset[int], frozenset[int]] = {}
        members: list[SimulatedMember] = []
        for row in sorted(self.rows[MEMBER], key=_list_order):
            name, instance = row["member_id"], row["group_instance_id"]
            topics = frozenset(number[topic] for topic in row["names"] or ())
            likes = tuple(row["more"]) if row["more"] and protocol == CONFIGURED else assignors
            likes = _remote(likes) if is_consumer_protocol else likes
            if protocol == STATIC and instance is None:
                instance = name
            rack = row["rack_id"] or None
            member = of_kind(name, instance, rack, shared.setdefault(topics, topics), likes, name)
            member.owned = sorted(owned.pop(name, ()))
            members.append(member)
        return members

    def _owned(self, number: Mapping[str, int]) -> dict[str, list[int]]:
        owned: dict[str, list[int]] = defaultdict(list)
        owner: dict[int, str] = {}
        for row in self.rows[OWNED]:
            first, step, count = row["numbers"]
            topic, name = number[row["topic"]], row["member_id"]
            for partition in range(first, first + step * count, step):
                other = owner.setdefault(code(topic, partition), name)
                if other != name:
                    detail = f"owned: {row['topic']}-{partition} belongs to {other} and to {name}"
                    raise InvalidGroupError("owned-twice", f"{detail}; a group at rest has one owner")
                owned[name].append(code(topic, partition))
        return owned


def scenes(facts: pa.Table) -> Iterator[tuple[Key, SimulationInput]]:
    """Yields the groups of a table of facts, sorted by key."""
    of_group: dict[Key, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    columns = [name for name in facts.column_names if name not in ("cluster", "group_id", "kind")]
    for kind in range(6):
        rows = facts.filter(pc.equal(facts["kind"], kind))
        used = [name for name in columns if rows[name].null_count < len(rows)]
        unused = dict.fromkeys(name for name in columns if name not in used)
        keys = zip(rows["cluster"].to_pylist(), rows["group_id"].to_pylist(), strict=True)
        for key, *values in zip(keys, *(rows[name].to_pylist() for name in used), strict=True):
            of_group[key][kind].append(unused | dict(zip(used, values, strict=True)))
    for key in sorted(of_group):
        yield key, SimulationInput(of_group[key])


def _remote(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the broker's name of the assignor that members request, or () if they leave it to the broker.

    Raises:
        InvalidGroupError: the broker has no such assignor.
    """
    if unknown := [name for name in names if name not in REMOTE]:
        known = ", ".join(REMOTE)
        raise InvalidGroupError("unknown-assignor", f"no assignor of the broker is called {unknown[0]!r}: {known}")
    return tuple(REMOTE[name] for name in names[:1])


def _list_order(row: Row) -> tuple[bool, int, bytes]:
    """Returns the sort key of a member in the coordinator's list."""
    position = row["numbers"][0]
    return position is None, position or 0, java_key(row["member_id"])


def _layout(row: Row) -> list[frozenset[str]]:
    racks = [frozenset[str]()] * (max(row["at"]) + 1)
    for at, of_partition in zip(row["at"], row["racks"], strict=True):
        racks[at] = frozenset(of_partition)
    return racks


def _event(row: Row) -> Event:
    numbers = dict(zip(EVENT_NUMBERS, row["numbers"], strict=True))
    at_ms = numbers.pop("at_ms")
    if at_ms is None or row["event"] is None:
        raise BadEvent(f"events: at_ms={at_ms}, event={row['event']}: both must be given")
    return Event(
        at_ms=at_ms,
        event=row["event"],
        member_id=row["member_id"],
        topic=row["topic"],
        topics=None if row["names"] is None else tuple(row["names"]),
        assignors=None if row["more"] is None else tuple(row["more"]),
        group_instance_id=row["group_instance_id"],
        new_member_id=row["new_member_id"],
        **numbers,
    )
