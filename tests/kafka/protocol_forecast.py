"""The simulation of a `protocol_story.Story`: the same events, played from the snapshot of the settled groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_assign.simulation import Settings, simulate
from spark_assign.tables.simulation import EVENTS, GROUP_SETTINGS, MEMBER_SETTINGS
from tests.frames import frame_of
from tests.kafka import protocol_story
from tests.kafka.live_groups import CALLS, Calls, Row, Tables, fleet
from tests.kafka.protocol_cases import CASES, DOWN_MS, HEARTBEAT_INTERVAL_MS, JOINS, KILLED, TOPICS, Case
from tests.kafka.protocol_story import Owners, Story
from tests.slices import Partition

AT_MS, UNTIL_MS = 1_500, 20_000
"""Between two heartbeats; and late enough for everything."""
TABLES = ("rebalances", "trace", "availability", "ownership")

AnyCase = TypeVar("AnyCase", bound=Any)


def of_cases(cases: Iterable[AnyCase], found: Callable[[AnyCase], Any]) -> dict[str, Any]:
    """Returns what is found of each case, by its group."""
    return {case.group: found(case) for case in cases}


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
        members=frame_of(spark, MEMBER_SETTINGS, members),
        groups=frame_of(spark, GROUP_SETTINGS, groups),
    )
    events = [event for case in CASES for event in _events(story, case)]
    tables = simulated(spark, _before(story), events, settings, UNTIL_MS)
    return {case.group: _forecast(story, case, tables[case.group]) for case in CASES}


def simulated(
    spark: SparkSession, before: Tables, events: Iterable[Row], settings: Settings, until_ms: int
) -> dict[str, Tables]:
    """Returns the tables of one simulation of all groups, by group; none is rejected."""
    played = simulate(fleet(spark, before), frame_of(spark, EVENTS, events), settings=settings, until_ms=until_ms)
    assert played.rejected.collect() == []
    tables: dict[str, Tables] = {}
    for name in TABLES:
        for row in getattr(played, name).collect():
            tables.setdefault(row["group_id"], {name: [] for name in TABLES})[name].append(row.asDict())
    return tables


# --- what goes in -----------------------------------------------------------------------------------------------


def _before(story: Story) -> Tables:
    """The settled groups; what their members own is of the generation that they were told last."""
    members = [
        row | {"generation_id": story.generation_before(row["group_id"]), "user_data_generation_id": None}
        for row in story.before["members"]
    ]
    return story.before | {"members": members}


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
        _of_group(story, case, MEMBER_SETTINGS)
        | {
            "member_id": by_client[each.client_id],
            "partition_assignment_strategy": _strategies(each.assignor),
            "group_instance_id": each.instance_id,
        }
        for each in case.members
    ]


def _timeout(story: Story, case: Case) -> Row:
    return _of_group(story, case, GROUP_SETTINGS) | {"session_timeout_ms": case.session_timeout_ms}


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


# --- what comes out ---------------------------------------------------------------------------------------------


def _forecast(story: Story, case: Case, tables: dict[str, list[Row]]) -> Forecast:
    clients = {id: c for e in (story.before, story.after) for id, c in protocol_story.client_ids(e, case.group).items()}
    trace = sorted(tables["trace"], key=lambda row: int(row["seq"]))
    killed = _member_id(case, story.before) if case.killed else None
    calls: Calls = {}
    for row in trace:
        partitions = named_partitions(row["detail"], TOPICS)
        if row["message"] in CALLS and partitions and row["at_ms"] >= AT_MS and row["actor"] != killed:
            calls.setdefault(clients[row["actor"]], []).append((row["message"], partitions))
    there = set(protocol_story.client_ids(story.after, case.group))
    owners = owners_at_end(tables["ownership"], clients, {clients[id] for id in there})
    [availability] = tables["availability"]
    rounds = sorted(tables["rebalances"], key=lambda row: int(row["generation_id"]))
    return Forecast(rounds, trace, availability, calls, owners)


def owners_at_end(ownership: Iterable[Row], clients: Mapping[str, str], there: Iterable[str]) -> Owners:
    """Returns what each client owns at the end of a simulation; clients in `there` may own nothing."""
    rows = list(ownership)
    end_ms = max(row["end_ms"] for row in rows)
    owners: Owners = {client: set() for client in there}
    for row in rows:
        if row["end_ms"] == end_ms:
            owners.setdefault(clients[row["member_id"]], set()).add((row["topic"], row["partition"]))
    return owners


def named_partitions(detail: str, topics: Container[str]) -> set[Partition]:
    """Returns the partitions that a detail begins with: "t-0 t-1"."""
    found: set[Partition] = set()
    for word in detail.split(" "):
        named = re.fullmatch(r"(.+)-(\d+)", word)
        if not named or named[1] not in topics:
            break
        found.add((named[1], int(named[2])))
    return found
