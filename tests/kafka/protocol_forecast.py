"""The simulation of a `protocol_story.Story`: the same events, played from the snapshot of the settled groups."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_assign import Fleet
from spark_assign.simulation import Settings, simulate
from spark_assign.tables.groups import INPUT_TABLES
from spark_assign.tables.simulation import EVENTS, SETTINGS_OF_GROUPS, SETTINGS_OF_MEMBERS
from tests.frames import dataframe
from tests.kafka import protocol_story
from tests.kafka.live_groups import Partition, Row
from tests.kafka.protocol_cases import CASES, DOWN_MS, HEARTBEAT_INTERVAL_MS, JOINS, KILLED, TOPICS, Case
from tests.kafka.protocol_story import CALLS, Calls, Owners, Story

AT_MS, UNTIL_MS = 1_500, 20_000
"""Between two heartbeats; and late enough for everything."""


@dataclass(frozen=True)
class Forecast:
    """What the simulation says about one group."""

    rounds: list[Row]
    trace: list[Row]
    availability: Row
    calls: Calls
    """As in `Story.calls`, without what a killed process can no longer be told."""
    owners_after: Owners


def forecasts(spark: SparkSession, story: Story) -> dict[str, Forecast]:
    """All cases in one simulation; by group."""
    members, groups = (
        [row for case in CASES for row in _settings(story, case)],
        [_timeout(story, each) for each in CASES],
    )
    settings = Settings(
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        members=_frame(spark, SETTINGS_OF_MEMBERS, members),
        groups=_frame(spark, SETTINGS_OF_GROUPS, groups),
    )
    events = _frame(spark, EVENTS, [event for case in CASES for event in _events(story, case)])
    played = simulate(_fleet(spark, story), events, settings=settings, until_ms=UNTIL_MS)
    assert played.rejected.collect() == []
    tables = {
        name: [row.asDict() for row in getattr(played, name).collect()]
        for name in ("rounds", "trace", "availability", "ownership")
    }
    return {
        case.group: _forecast(
            story, case, {name: [row for row in rows if row["group_id"] == case.group] for name, rows in tables.items()}
        )
        for case in CASES
    }


# --- what goes in -----------------------------------------------------------------------------------------------


def _fleet(spark: SparkSession, story: Story) -> Fleet:
    """The settled groups; what their members own is of the generation that they were told last."""
    members = [
        row | {"generation_id": story.generation_before(row["group_id"]), "user_data_generation_id": None}
        for row in story.before["members"]
    ]
    rows = story.before | {"members": members}
    return Fleet(**{name: _frame(spark, INPUT_TABLES[name], rows[name]) for name in rows})


def _events(story: Story, case: Case) -> list[Row]:
    """Ids, which decide ties, are those that the coordinator gave: a joiner's is known once it has joined."""
    was, becomes = (_member_id(case, tables) for tables in (story.before, story.after))
    happens = _of_group(story, case, EVENTS) | {"at_ms": AT_MS, "event": case.event, "member_id": was or becomes}
    comes = happens | {"assignors": _strategies(case.returning().assignor)}
    if case.event == KILLED:
        crashes, starts = KILLED.split(", ")
        comes |= {"event": starts, "at_ms": AT_MS + DOWN_MS, "new_member_id": becomes}
        return [happens | {"event": crashes}, comes]
    if case.comes_back:
        return [comes | {"down_ms": DOWN_MS, "new_member_id": becomes}]
    return [comes if case.event == JOINS else happens]


def _settings(story: Story, case: Case) -> list[Row]:
    by_client = {client: id for id, client in protocol_story.client_ids(story.before, case.group).items()}
    return [
        _of_group(story, case, SETTINGS_OF_MEMBERS)
        | {
            "member_id": by_client[each.client_id],
            "partition_assignment_strategy": _strategies(each.assignor),
            "group_instance_id": each.instance_id,
        }
        for each in case.members
    ]


def _timeout(story: Story, case: Case) -> Row:
    return _of_group(story, case, SETTINGS_OF_GROUPS) | {"session_timeout_ms": case.session_timeout_ms}


def _of_group(story: Story, case: Case, schema: StructType) -> Row:
    """A row with nothing but nulls beside its key."""
    cluster = story.before["members"][0]["cluster"]
    return dict.fromkeys(schema.names) | {"cluster": cluster, "group_id": case.group}


def _strategies(assignor: str | None) -> list[str]:
    return str(assignor).split(",")


def _member_id(case: Case, tables: dict[str, list[Row]]) -> str | None:
    """The subject's, where it is there."""
    clients = protocol_story.client_ids(tables, case.group)
    return next((id for id, client in clients.items() if client == case.subject.client_id), None)


def _frame(spark: SparkSession, schema: StructType, rows: Iterable[Row]) -> DataFrame:
    return dataframe(spark, schema, [tuple(row[name] for name in schema.names) for row in rows])


# --- what comes out ---------------------------------------------------------------------------------------------


def _forecast(story: Story, case: Case, tables: dict[str, list[Row]]) -> Forecast:
    clients = {
        id: client
        for each in (story.before, story.after)
        for id, client in protocol_story.client_ids(each, case.group).items()
    }
    trace = sorted(tables["trace"], key=lambda row: int(row["seq"]))
    killed = _member_id(case, story.before) if case.killed else None
    calls: Calls = {}
    for row in trace:
        partitions = _partitions(row["detail"])
        if row["message"] in CALLS and partitions and row["at_ms"] >= AT_MS and row["actor"] != killed:
            calls.setdefault(clients[row["actor"]], []).append((row["message"], partitions))
    there = set(protocol_story.client_ids(story.after, case.group))
    owners: Owners = {clients[id]: set() for id in there}
    end_ms = max(row["to_ms"] for row in tables["ownership"])
    for row in tables["ownership"]:
        if row["to_ms"] == end_ms:
            owners.setdefault(clients[row["member_id"]], set()).add((row["topic"], row["partition"]))
    [availability] = tables["availability"]
    rounds = sorted(tables["rounds"], key=lambda row: int(row["generation_id"]))
    return Forecast(rounds, trace, availability, calls, owners)


def _partitions(detail: str) -> set[Partition]:
    """The partitions that a detail begins with: "t-0 t-1"."""
    found: set[Partition] = set()
    for word in detail.split(" "):
        named = re.fullmatch(r"(.+)-(\d+)", word)
        if not named or named[1] not in TOPICS:
            break
        found.add((named[1], int(named[2])))
    return found
