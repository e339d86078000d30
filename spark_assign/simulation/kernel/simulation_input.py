"""Converts the input tables of many groups (`TABLES`) to initial states and events."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa

from spark_assign.assignors.group_facts import REMEDIES, format_row, join_faults
from spark_assign.assignors.server.coordinator_order import read_topic_ids
from spark_assign.groups.kernel.tagged_rows import InputTable, split_tables
from spark_assign.java.hash_map import java_key
from spark_assign.simulation.kernel.assignment_request import Topics, code
from spark_assign.simulation.kernel.events import MAX_PARTITIONS, Event, InvalidEventError, in_order
from spark_assign.simulation.kernel.leader import ASSIGNORS
from spark_assign.simulation.kernel.member import AsyncMember, ClassicMember, SimulatedMember
from spark_assign.simulation.kernel.settings import GROUP_TIMES, KAFKA_DEFAULT, TimingConfig, is_cooperative
from spark_assign.simulation.kernel.simulated_group import InitialState

TABLES = {
    "groups": InputTable((), ("group_type", "assignors", "leader_library", "subscriptions", *GROUP_TIMES)),
    "members": InputTable(
        ("member_id",), ("position", "generation_id", "group_instance_id", "rack_id", "topics", "assignors")
    ),
    "owned": InputTable(("topic", "member_id", "first", "step", "count")),
    "topics": InputTable(("topic",), ("topic_id", "partitions", "at", "racks")),
    "times": InputTable(("topic", "partition"), ("revoke_ms", "restore_ms")),
    "events": InputTable(("at_ms", "event", "member_id"), tuple(field.name for field in fields(Event)[3:])),
    "clients": InputTable(("member_id",), ("client_id", "client_host")),
    "leaders": InputTable((), ("group_type", "leader_library", "leader_confidence")),
}
"""The input tables. Null times and assignors: the defaults, or those of the group. `topics.at`: partitions with known
replicas; `racks`: the racks of each of them. Only the advice on membership reads the last two."""

CONFIGURED, EAGER, COOPERATIVE, STATIC, CONSUMER = "configured", "eager", "cooperative", "static", "consumer"
VARIANTS = (CONFIGURED, EAGER, COOPERATIVE, STATIC, CONSUMER)
"""How a group runs: as configured, or all members as named. `static`: cooperative with static members. `consumer`:
KIP-848."""

SERVER_ASSIGNORS = {"uniform": "uniform", "range": "range", "server-range": "range"}
"""The broker's assignors (`group.remote.assignor`) by their names in fleets."""

MAX_TOTAL = 5 * MAX_PARTITIONS
"""Maximum number of partitions of all topics of a group and of its events: some GB."""

MAX_SUBSCRIPTIONS = 5_000_000
"""Maximum number of subscriptions of a group, one of a member to a topic: some GB."""

MAX_GENERATION = 2**31 - 1_000_000
"""Maximum generation of a group at the start, so that the generations of its rebalances are ints."""

Key = tuple[str, str]
Row = dict[str, Any]


class InvalidGroupError(Exception):
    """Raised for a group that can't be simulated, with a rejection code and a message."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


@dataclass(frozen=True, slots=True)
class SimulationInput:
    """The input of one group: its rows by table."""

    rows: Mapping[str, Sequence[Row]]

    def initial_state(self, variant: str, defaults: TimingConfig) -> tuple[InitialState, list[Event]]:
        """Returns the initial state of the group with a variant, and its events in order.

        Raises:
            InvalidGroupError, InvalidEventError: the group can't be simulated.
        """
        if (total := max((row["subscriptions"] or 0 for row in self.rows["groups"]), default=0)) > MAX_SUBSCRIPTIONS:
            detail = f"subscriptions: {total:,} of members to topics, expected at most {MAX_SUBSCRIPTIONS:,}"
            raise InvalidGroupError("too-many-partitions", detail)
        events = in_order(map(read_event, self.rows["events"]))
        assignors = self._assignors(variant)
        is_consumer_protocol = self._is_consumer_protocol(variant)
        if variant != CONFIGURED:
            events = [replace(each, assignors=None) for each in events]
        elif is_consumer_protocol:
            events = [
                replace(each, assignors=_server_assignor(each.assignors)) if each.assignors else each for each in events
            ]
        topics = self._topics(events)
        topic_index = {name: index for index, name in enumerate(topics.names)}
        counts = {row["topic"]: row["partitions"] for row in self.rows["topics"] if row["partitions"]}
        if large := sorted(topic for topic, count in counts.items() if count > MAX_PARTITIONS):
            count = f"{large[0]} has {counts[large[0]]:,} partitions"
            raise InvalidGroupError("too-many-partitions", f"topics: {count}, expected at most {MAX_PARTITIONS:,}")
        if (total := sum(counts.values()) + sum(event.partitions or 0 for event in events)) > MAX_TOTAL:
            detail = f"topics and events: {total:,} partitions, expected at most {MAX_TOTAL:,}"
            raise InvalidGroupError("too-many-partitions", detail)
        generation = max([1, *(row["generation_id"] or 1 for row in self.rows["members"])])
        if generation > MAX_GENERATION:
            detail = f"members: generation_id is {generation:,}, expected at most {MAX_GENERATION:,}"
            raise InvalidGroupError("bad-generation", detail)
        times = {code(topic_index[row["topic"]], row["partition"]): row for row in self.rows["times"]}
        for row in self.rows["times"]:
            for name in ("revoke_ms", "restore_ms"):
                if (row[name] or 0) < 0:
                    detail = f"settings: {name} of {row['topic']}-{row['partition']} is {row[name]}, expected 0 or more"
                    raise InvalidGroupError("bad-settings", detail)
        return InitialState(
            members=self._members(variant, assignors, topic_index),
            topics=topics,
            partitions={topic_index[topic]: count for topic, count in counts.items()},
            generation_id=generation,
            timing=self._timing(defaults),
            assignors=assignors,
            new_members_static=variant == STATIC,
            revoke_ms={at: row["revoke_ms"] for at, row in times.items() if row["revoke_ms"] is not None},
            restore_ms={at: row["restore_ms"] for at, row in times.items() if row["restore_ms"] is not None},
            is_consumer_protocol=is_consumer_protocol,
            leader_library=next((row["leader_library"] for row in self.rows["groups"]), None),
            topic_ids=self._topic_ids(topics.names) if is_consumer_protocol else (),
        ), events

    def _assignors(self, variant: str) -> tuple[str, ...]:
        """Returns the assignors of members without their own."""
        configured = next((tuple(row["assignors"]) for row in self.rows["groups"] if row["assignors"]), ())
        if self._is_consumer_protocol(variant):
            return _server_assignor(configured if self._is_consumer_protocol(CONFIGURED) else ())
        own = configured or KAFKA_DEFAULT
        if variant == CONFIGURED:
            return own
        if variant == EAGER:
            return own if ASSIGNORS.keys() >= set(own) and not is_cooperative(own) else KAFKA_DEFAULT
        return ("cooperative-sticky",)

    def _is_consumer_protocol(self, variant: str) -> bool:
        """Checks whether the group uses KIP-848."""
        group_types = [row["group_type"] for row in self.rows["groups"]]
        return variant == CONSUMER or (variant == CONFIGURED and "consumer" in group_types)

    def _topic_ids(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """Returns `Uuid.hashCode` and the rank by ID of each topic. If one ID is unknown, ranks are by name.

        Topics that events create come last.

        Raises:
            InvalidGroupError: an ID is invalid.
        """
        id_by_name = {row["topic"]: row["topic_id"] for row in self.rows["topics"]}
        ids = read_topic_ids([id_by_name.get(name) for name in names])
        for name, is_valid in zip(names, ids.is_valid.tolist(), strict=True):
            if not is_valid and id_by_name.get(name) is not None:
                detail = f"topics: topic_id {id_by_name[name]!r} of {name} isn't a topic ID. Kafka's have 22 characters"
                raise InvalidGroupError("bad-topic-id", detail)
        if not all(id_by_name.values()):
            return [(index, index) for index in range(len(names))]
        known = zip(ids.is_valid.tolist(), ids.hash.tolist(), ids.rank.tolist(), strict=True)
        return [(hash_, rank) if valid else (at, len(names) + at) for at, (valid, hash_, rank) in enumerate(known)]

    def _timing(self, defaults: TimingConfig) -> TimingConfig:
        times = {name: row[name] for row in self.rows["groups"] for name in GROUP_TIMES}
        timing = defaults.with_exceptions(times)
        if fault := timing.fault():
            raise InvalidGroupError("bad-settings", f"settings: {fault}")
        return timing

    def _topics(self, events: Sequence[Event]) -> Topics:
        names = {row["topic"] for table in ("owned", "topics", "times") for row in self.rows[table]}
        names.update(name for row in self.rows["members"] for name in row["topics"] or ())
        for event in events:
            names.update(event.topics or (), () if event.topic is None else (event.topic,))
        racks = {row["topic"]: _layout(row) for row in self.rows["topics"] if row["at"]}
        return Topics.of(names, racks)

    def _members(
        self, variant: str, assignors: tuple[str, ...], topic_index: Mapping[str, int]
    ) -> list[SimulatedMember]:
        """Returns the members of the group as a variant runs them.

        Raises:
            InvalidGroupError: two members have the same instance ID, or own the same partition.
        """
        owned = self._owned(topic_index)
        is_consumer_protocol = self._is_consumer_protocol(variant)
        member_class = AsyncMember if is_consumer_protocol else ClassicMember
        shared: dict[frozenset[int], frozenset[int]] = {}
        members: list[SimulatedMember] = []
        instances: set[str] = set()
        for row in sorted(self.rows["members"], key=list_order):
            name, instance = row["member_id"], row["group_instance_id"]
            topics = frozenset(topic_index[topic] for topic in row["topics"] or ())
            own = tuple(row["assignors"]) if row["assignors"] and variant == CONFIGURED else assignors
            own = _server_assignor(own) if is_consumer_protocol else own
            if variant == STATIC and instance is None:
                instance = name
            if instance is not None:
                if instance in instances:  # of the settings; the fleet's own ones are checked before
                    faults = {"duplicate-instance": [format_row("members", group_instance_id=instance)]}
                    raise InvalidGroupError(*join_faults(faults, REMEDIES))
                instances.add(instance)
            rack = row["rack_id"] or None
            member = member_class(name, instance, rack, shared.setdefault(topics, topics), own, name)
            member.owned = sorted(owned.pop(name, ()))
            members.append(member)
        return members

    def _owned(self, topic_index: Mapping[str, int]) -> dict[str, list[int]]:
        """Returns the partition keys that each member owns.

        Raises:
            InvalidGroupError: two members own the same partition.
        """
        owned: dict[str, list[int]] = defaultdict(list)
        owners: dict[int, str] = {}
        for row in self.rows["owned"]:
            first, step, count = row["first"], row["step"], row["count"]
            topic, member_id = topic_index[row["topic"]], row["member_id"]
            for partition in range(first, first + step * count, step):
                owner = owners.setdefault(code(topic, partition), member_id)
                if owner != member_id:
                    detail = f"owned: {owner} and {member_id} own {row['topic']}-{partition}"
                    raise InvalidGroupError("owned-twice", f"{detail}. In a stable group, a partition has one owner")
                owned[member_id].append(code(topic, partition))
        return owned


def read_simulation_inputs(batch: pa.Table) -> Iterator[tuple[Key, SimulationInput]]:
    """Yields the groups of a table, sorted by key."""
    for (cluster, group_id), rows in split_tables(batch, ("cluster", "group_id"), TABLES):
        yield (cluster, group_id), SimulationInput(rows)


def _server_assignor(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the broker's name of the assignor that members request, or () if they leave it to the broker.

    Raises:
        InvalidGroupError: the broker has no such assignor.
    """
    if unknown := [name for name in names if name not in SERVER_ASSIGNORS]:
        detail = f"the broker has no assignor {unknown[0]!r}. Assignors: {', '.join(SERVER_ASSIGNORS)}"
        raise InvalidGroupError("unknown-assignor", detail)
    return tuple(SERVER_ASSIGNORS[name] for name in names[:1])


def list_order(row: Mapping[str, Any]) -> tuple[bool, int, bytes]:
    """Returns the sort key of a member in the coordinator's list."""
    return row["position"] is None, row["position"] or 0, java_key(row["member_id"])


def _layout(row: Row) -> list[frozenset[str]]:
    known = {at: racks for at, racks in zip(row["at"], row["racks"], strict=True) if at < MAX_PARTITIONS}
    racks = [frozenset[str]()] * (max(known, default=-1) + 1)
    for at, of_partition in known.items():
        racks[at] = frozenset(of_partition)
    return racks


def read_event(row: Row) -> Event:
    """Returns the event of a row. Raises InvalidEventError if it has no time or no name."""
    if row["at_ms"] is None or row["event"] is None:
        raise InvalidEventError(f"events: at_ms={row['at_ms']}, event={row['event']}: expected both to be set")
    values: Row = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    return Event(**values)
