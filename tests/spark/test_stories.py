"""Stories that are played by the kernels alone are what Spark makes of them: facts, rows, text and what is drawn."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs import simulate
from spark_assign.connect import simulate_connect
from spark_assign.connect.simulate import ninety_by_ten
from spark_assign.connect.simulate import simulate_scenario as play_connect_story
from spark_assign.report.group_pictures import local_picture_data, read_picture_data
from spark_assign.report.simulation import summarize_local_simulation, summarize_simulation
from spark_assign.simulation import Settings, facts
from spark_assign.simulation.kernel.simulation_input import read_simulation_inputs
from spark_assign.simulation.scenarios import (
    SCENARIOS,
    Scenario,
    crash,
    rolling_deployment,
    simulate_scenario,
    textbook_join,
)
from spark_assign.simulation.simulate_groups import simulate_fleet
from spark_assign.stores.driver_rows import write_rows
from spark_assign.stores.run_store import read_run
from spark_assign.tables.connect import SIMULATION_TABLES
from tests.frames import scenario_tables

pytestmark = [pytest.mark.spark, pytest.mark.once]

ALL = ("eager", "cooperative", "static", "configured")
TIMES = {"start_ms": 2_000, "stop_ms": 1_000, "rebalance_ms": 3_000}


def as_lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows in an order of their own."""
    return sorted(json.dumps(dict(row), sort_keys=True) for row in rows)


def collected(table: DataFrame) -> list[str]:
    """The rows of a table, likewise."""
    return as_lines(row.asDict(recursive=True) for row in table.collect())


def changing() -> Scenario:
    """A story with more in its events than those that come with the package have."""
    story = textbook_join()
    events = [
        {"event": "topic-created", "topic": "u", "partitions": 2},
        {"event": "subscription-changes", "member_id": "c1", "topics": ["t", "u"]},
        {"event": "member-starts", "member_id": "c4", "group_instance_id": "i4", "assignors": ["range"]},
        {"event": "member-restarts", "member_id": "c2", "new_member_id": "c9", "down_ms": 700},
        {"event": "slow-member", "member_id": "c1", "delay_ms": 4_000},
    ]
    keys = [{"cluster": "scenario", "group_id": story.name, "at_ms": 10_000 * at} for at, _ in enumerate(events, 1)]
    assert story.tables is not None
    more = {"cluster": "scenario", "topic": "u", "partitions": 1}
    tables = story.tables | {"topics": [*story.tables["topics"], more]}
    happens = [*story.events, *(key | event for key, event in zip(keys, events, strict=True))]
    return Scenario("changing", "", happens, tables, story.settings, ALL)


def test_every_story_of_one_group_is_here() -> None:
    """Those that are played without Spark are those of this page."""
    alone = {name for name, story in SCENARIOS.items() if story().tables is not None}
    assert alone == {"textbook-join", "rolling-deployment", "crash"}


@pytest.mark.parametrize("scenario", [textbook_join(), rolling_deployment(), crash(), changing()], ids=lambda s: s.name)
def test_facts_are_the_same(spark: SparkSession, scenario: Scenario) -> None:
    """From rows and from DataFrames."""
    fleet, events = scenario.read(spark)
    assert scenario.tables is not None
    from_rows = facts.facts_of_rows(scenario.tables, scenario.events)
    from_frames = facts.gather_facts(fleet, events, Settings())
    rows = pa.Table.from_pylist([row.asDict(recursive=True) for row in from_frames.collect()])
    assert dict(read_simulation_inputs(from_rows)) == dict(read_simulation_inputs(rows))


ENDLESS = {"rebalance_timeout_ms": 3_000, "revoke_ms": 4_000}
"""An eager group then never comes to rest."""


@pytest.mark.parametrize(
    ("scenario", "variants", "times"),
    [
        (textbook_join(), ALL, {}),
        (textbook_join(), ("cooperative",), {"poll_interval_ms": 700, "restore_ms": 5_000}),
        (textbook_join(), ("cooperative", "eager"), ENDLESS),
        (crash(), ALL, {}),
        (rolling_deployment(), rolling_deployment().variants, {}),
        (changing(), ALL, {}),
    ],
    ids=lambda value: value.name if isinstance(value, Scenario) else None,
)
def test_the_tables_are_equal(
    spark: SparkSession, scenario: Scenario, variants: tuple[str, ...], times: dict[str, int]
) -> None:
    """Rows, what is printed of them, and what is drawn."""
    settings = Settings(**{**scenario.settings, **times})
    story = simulate_scenario(scenario, variants, settings)
    played = simulate_fleet(*scenario.read(spark), variants, settings, None)
    of_one = {"variant": variants[0]} if len(variants) == 1 else {}  # the tables then have no such column
    for name in ("rebalances", "availability"):
        rows = [row.asDict() | of_one for row in getattr(played, name).collect()]
        assert as_lines(getattr(story, name)) == as_lines(rows), name
    assert as_lines(story.rejected) == collected(played.rejected)
    text, group = summarize_local_simulation(story)
    expected, worst = summarize_simulation(played.availability, played.rejected, variants, 10)
    assert text == expected
    assert (group is None) == (not worst) == bool(story.rejected)
    if group is not None:
        here, there = local_picture_data(story, group), read_picture_data(played, worst[0])
        assert here.messages == there.messages
        for name in ("trace", "rebalances", "ownership"):
            for variant in variants:
                drawn = [dict(row) for row in getattr(there, name)[variant]]
                for row in drawn:
                    row.pop("rows", None)  # how many there are
                assert as_lines(getattr(here, name)[variant]) == as_lines(drawn), (name, variant)
    played.unpersist()


@pytest.mark.parametrize(("connectors", "tasks"), [(6, 2), (90, 10)])
def test_the_same_of_connect(spark: SparkSession, connectors: int, tasks: int) -> None:
    """Rows."""
    scenario = ninety_by_ten(connectors, tasks)
    fleet, events = scenario_tables(spark, scenario)
    story = play_connect_story(scenario, **TIMES)
    played = simulate_connect(fleet, events, **TIMES, protocols=scenario.protocols)
    for name in SIMULATION_TABLES:
        assert as_lines(story[name]) == collected(getattr(played, name)), name
    played.unpersist()


def test_rows_are_read_as_a_plan_is(spark: SparkSession, tmp_path: Path) -> None:
    """Written here and by Spark in turns: the last one is the run, and nothing of those before it stays."""
    tables = {"costs": play_connect_story(ninety_by_ten(2, 2), **TIMES)["costs"]}
    schemas = {"costs": SIMULATION_TABLES["costs"]}
    words = ["90x10", "--pictures-dir", str(tmp_path), "--output", str(tmp_path), "--run-id", "a run"]
    words += ["--output-format"]
    assert simulate.main([*words, "parquet"]) == 0
    assert simulate.main([*words, "json"]) == 0
    assert simulate.main([*words, "parquet"]) == 0
    stored = read_run(spark, str(tmp_path), schemas=SIMULATION_TABLES)
    assert stored.manifest.content["inputs"] == {"scenario": "90x10", **TIMES}
    assert stored.manifest.rows == {"rebalances": 741, "costs": 3, "rejected": 0}
    assert {name: table.count() for name, table in stored.tables.items()} == stored.manifest.rows
    story = play_connect_story(ninety_by_ten(), **TIMES)
    assert collected(stored.tables["rebalances"]) == as_lines(story["rebalances"])
    write_rows(tables, tmp_path, run_id="a run", inputs={}, schemas=schemas)
    stored = read_run(spark, str(tmp_path), "a run", schemas=schemas)
    assert collected(stored.tables["costs"]) == as_lines(tables["costs"])
    assert len(list(tmp_path.glob("costs/run_id=*/attempt=*"))) == 1
    assert len(list(tmp_path.glob("manifest/*.json"))) == 4
