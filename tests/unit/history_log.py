"""A log of __consumer_offsets, written record by record as a coordinator does, and what is told of it."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from spark_assign.history.kernel import facts
from spark_assign.history.kernel.build_history import build_tables
from spark_assign.history.kernel.build_timelines import build_timelines
from spark_assign.history.kernel.timeline import HistoryThresholds, OwnershipInterval, Timeline
from spark_assign.history.schemas import HISTORY_ROWS
from spark_assign.spark.dataframes import to_arrow_schema
from spark_assign.wire.group_records import NAMES, write_key, write_value
from tests.cases import keyed

SCHEMA: pa.Schema = to_arrow_schema(HISTORY_ROWS)
TYPES = {name: number for number, name in NAMES.items()}
ID = {name: "B" * 10 + letter * 11 + "A" for name, letter in (("t", "t"), ("u", "u"), ("v", "v"))}
"""Ids of the topics t, u and v."""


@dataclass
class Log:
    """Records in their order."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def write(
        self,
        at_ms: int,
        name: str,
        value: Mapping[str, Any] | bytes | None,
        *,
        group: str = "g",
        version: int | None = None,
        **key: Any,
    ) -> None:
        """A record of a type; no value is a tombstone."""
        number = TYPES[name]
        names = {"group": group} if number < 3 else {"groupId": group}
        if version is None:
            version = 3 if number == 2 else 0
        data = write_value(number, dict(value), version) if isinstance(value, Mapping) else value
        self.rows.append(
            {
                "cluster": "c",
                "group_id": group,
                "kind": facts.RECORD,
                "partition": 7,
                "offset": len(self.rows),
                "at_ms": at_ms,
                "key": write_key(number, {**names, **key}),
                "value": data,
            }
        )

    def commits(self, topic: str, partition: int, since: int, until: int, count: int = 2, **more: Any) -> None:
        """An interval of commits of the group g."""
        numbers = {"start_ms": since, "end_ms": until, "commits": count, "first_offset": 0, "last_offset": count}
        numbers |= {"cell_offset": 0, "next_offset": 0}
        row = {"cluster": "c", "group_id": "g", "kind": facts.COMMITS, "topic": topic}
        self.rows.append({**row, "commit_intervals": [{"partition": partition, **numbers}], **more})

    def facts(self, draw: random.Random | None = None) -> pa.Table:
        """As facts; with a draw in any order."""
        rows = list(self.rows)
        if draw is not None:
            draw.shuffle(rows)
        return pa.Table.from_pylist(rows, schema=facts.FACTS)

    def compacted(self, draw: random.Random) -> Log:
        """What a cleaner leaves: up to some place the last record of each key; old tombstones go."""
        clean = draw.randrange(len(self.rows) + 1)
        old = draw.randrange(clean + 1)
        last = {row["key"]: row["offset"] for row in self.rows[:clean]}
        kept = [
            row
            for row in self.rows
            if row["offset"] >= clean
            or (last[row["key"]] == row["offset"] and (row["value"] is not None or row["offset"] >= old))
        ]
        return Log(kept)

    def timeline(self, draw: random.Random | None = None) -> Timeline:
        """Of the one group there is."""
        ((_, _, timeline),) = build_timelines(self.facts(draw), HistoryThresholds())
        return timeline

    def table_rows(self, kind: str, *columns: str) -> list[Any]:
        """Rows of a kind in their order; times in milliseconds."""
        tables = build_tables(self.facts(), HistoryThresholds(), SCHEMA)
        rows = (row for table in tables for row in table.to_pylist() if row["kind"] == kind)
        return [tuple(_plain(row[name]) for name in columns) for row in rows]


def _plain(value: Any) -> Any:
    return round(value.timestamp() * 1000) if hasattr(value, "timestamp") else value


def owners(intervals: Iterable[OwnershipInterval], at_ms: int) -> dict[tuple[str, int], set[str]]:
    """Who has what at a moment, by topic and partition; roles are part of the topic but for `partition`."""
    found: dict[tuple[str, int], set[str]] = {}
    for own in intervals:
        if own.start_ms <= at_ms and (own.end_ms is None or at_ms < own.end_ms):
            topic = own.topic if own.role == "partition" else f"{own.role} {own.topic}"
            for partition in own.partitions:
                members = found.setdefault((topic, partition), set())
                assert own.member_id not in members, f"{own} twice"
                members.add(own.member_id)
    return found


# --- classic groups ---------------------------------------------------------------------------------------


def subscription(*topics: str, version: int = 1) -> bytes:
    """ConsumerProtocol: what a member subscribes to."""
    return struct.pack(">hi", version, len(topics)) + b"".join(map(text_bytes, topics)) + struct.pack(">ii", -1, 0)


def assignment(has: Mapping[str, Iterable[int]], version: int = 1) -> bytes:
    """ConsumerProtocol: what a member is given."""
    parts = [text_bytes(topic) + numbers_bytes(list(partitions)) for topic, partitions in has.items()]
    return struct.pack(">hi", version, len(parts)) + b"".join(parts) + struct.pack(">i", -1)


def text_bytes(text: str) -> bytes:
    """Returns a string as Kafka's protocols write it: its length, then its bytes."""
    return struct.pack(">h", len(text.encode())) + text.encode()


def numbers_bytes(numbers: Sequence[int]) -> bytes:
    """Returns an array of int32 as Kafka's protocols write it."""
    return struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)


def classic_member(
    member_id: str, has: Mapping[str, Iterable[int]], topics: Iterable[str] | None = None, **fields: Any
) -> dict[str, Any]:
    """A member of a GroupMetadata value; it subscribes to what it has, if nothing else is said."""
    return {
        "memberId": member_id,
        "groupInstanceId": None,
        "clientId": f"client-{member_id}",
        "clientHost": "/10.0.0.1",
        "rebalanceTimeout": 300_000,
        "sessionTimeout": 45_000,
        "subscription": subscription(*(has if topics is None else topics)),
        "assignment": assignment(has) if has else b"",
        **fields,
    }


def generation(number: int, members: Sequence[Mapping[str, Any]], **fields: Any) -> dict[str, Any]:
    """A GroupMetadata value."""
    return {
        "protocolType": "consumer",
        "generation": number,
        "protocol": "range" if members else None,
        "leader": members[0]["memberId"] if members else None,
        "currentStateTimestamp": 1,
        "members": list(members),
        **fields,
    }


# --- groups of the broker's protocols ---------------------------------------------------------------------


def topics(has: Mapping[str, Iterable[int]]) -> list[dict[str, Any]]:
    """Partitions by the ids of topics; none of a topic is no entry."""
    found: Iterator[tuple[str, list[int]]] = ((name, sorted(partitions)) for name, partitions in has.items())
    return [{"topicId": ID[name], "partitions": partitions} for name, partitions in found if partitions]


def metadata(member_id: str, *names: str, **fields: Any) -> dict[str, Any]:
    """A ConsumerGroupMemberMetadata value."""
    return {
        "instanceId": None,
        "rackId": None,
        "clientId": f"client-{member_id}",
        "clientHost": "/10.0.0.1",
        "subscribedTopicNames": list(names),
        **keyed("subscribedTopicRegex=None rebalanceTimeoutMs=300_000 serverAssignor=None classicMemberMetadata=None"),
        **fields,
    }


def current(epoch: int, has: Mapping[str, Iterable[int]], gives: Mapping[str, Iterable[int]] = {}) -> dict[str, Any]:
    """A ConsumerGroupCurrentMemberAssignment value of a member that waits for nothing but what it gives up."""
    return {
        "memberEpoch": epoch,
        "previousMemberEpoch": max(epoch - 1, 0),
        "state": 1 if any(gives.values()) else 0,
        "assignedPartitions": topics(has),
        "partitionsPendingRevocation": topics(gives),
    }


def join(
    log: Log, at: int, epoch: int, member_id: str, targets: dict[str, dict[str, list[int]]], **has: list[int]
) -> None:
    """What the coordinator writes when a member joins: who, the epoch, targets, and what it has."""
    log.write(at, "ConsumerGroupMemberMetadata", metadata(member_id, "t"), memberId=member_id)
    log.write(at, "ConsumerGroupMetadata", {"epoch": epoch, "metadataHash": 0})
    for each, target in targets.items():
        log.write(at, "ConsumerGroupTargetAssignmentMember", {"topicPartitions": topics(target)}, memberId=each)
    log.write(at, "ConsumerGroupTargetAssignmentMetadata", {"assignmentEpoch": epoch, "assignmentTimestamp": 0})
    log.write(at, "ConsumerGroupCurrentMemberAssignment", current(epoch, has), memberId=member_id)


def tombstones(log: Log, at: int, member_id: str) -> None:
    """A member goes."""
    for name in ("CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata"):
        log.write(at, f"ConsumerGroup{name}", None, memberId=member_id)


# --- Streams groups ---------------------------------------------------------------------------------------


def subtopology(name: str, sources: list[str], sinks: list[str]) -> dict[str, object]:
    """Of a StreamsGroupTopology value."""
    lists = ("sourceTopicRegex", "stateChangelogTopics", "repartitionSourceTopics", "copartitionGroups")
    given = {"subtopologyId": name, "sourceTopics": sources, "repartitionSinkTopics": sinks}
    return {**given, **{each: [] for each in lists}}


def streams_metadata(member_id: str) -> dict[str, object]:
    """A StreamsGroupMemberMetadata value."""
    nothing = {"instanceId": None, "rackId": None, "userEndpoint": None, "clientTags": []}
    known = {"clientId": member_id, **keyed("clientHost=/10.0.0.1 rebalanceTimeoutMs=1 topologyEpoch=1 processId=p")}
    return {**nothing, **known}


def tasks_of(name: str, partitions: list[int]) -> list[dict[str, object]]:
    """Tasks of a subtopology."""
    return [{"subtopologyId": name, "partitions": partitions}]
