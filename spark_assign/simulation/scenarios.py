"""Stories that come with the package, to be simulated: rows of a Fleet's tables, of events, and settings.

- `textbook-join`: the picture of every talk about cooperative rebalancing. Two consumers own the three partitions of a
  topic, two and one, and a third one joins: with the eager protocol all three partitions stop, with the cooperative
  one and with KIP-848's only the one that moves.
- `rolling-deployment`: 200 consumers of one group are redeployed, ten at a time.
- `crash`: a consumer dies without leaving; the coordinator finds out when its session times out.
- `deploy-fleet`: every group of a fleet (the shipped sample, or another) is redeployed, consumer by consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from spark_assign.fleet import Fleet
from spark_assign.simulation.facts import facts_of_rows
from spark_assign.simulation.kernel.simulate_groups import OWNERSHIP, PLAYED, TRACE, play_whole
from spark_assign.simulation.settings import Settings
from spark_assign.tables.groups import INPUT_TABLES
from spark_assign.tables.simulation import EVENTS

Rows = list[dict[str, Any]]

CLUSTER = "story"


@dataclass(frozen=True)
class Scenario:
    """A story.

    Attributes:
        name: of the scenario, and of its group.
        about: one sentence for the screen.
        events: rows of `tables.simulation.EVENTS`; columns that are left out are null. Without `tables` they lack
            `cluster` and `group_id` and happen to every group of every cluster.
        tables: rows of the Fleet's tables by name; None if the scenario runs on a given fleet.
        settings: what `protocol.Settings` gets, in milliseconds.
        protocols: to play it with, as `simulate` has them.
    """

    name: str
    about: str
    events: Rows
    tables: dict[str, Rows] | None = None
    settings: dict[str, int] = field(default_factory=dict)
    protocols: tuple[str, ...] = ("eager", "cooperative", "consumer")

    def play(self, spark: SparkSession, given: Fleet | None = None) -> tuple[Fleet, DataFrame]:
        """The fleet before anything happens, and the events.

        Args:
            given: the fleet of a story that has none of its own; ignored by the others.

        Raises:
            ValueError: the story has no fleet of its own, and none is given.
        """
        if self.tables is not None:
            frames = {name: _dataframe(spark, rows, INPUT_TABLES[name]) for name, rows in self.tables.items()}
            return Fleet(**frames), _dataframe(spark, self.events, EVENTS)
        if given is None:
            raise ValueError(f"scenario {self.name} is told of a fleet: give one")
        events = _dataframe(spark, [{"cluster": "", **each} for each in self.events], EVENTS).drop("cluster")
        clusters = given.members.select("cluster").distinct()
        return given, events.crossJoin(clusters).select(*EVENTS.fieldNames())


def textbook_join() -> Scenario:
    """c1 owns t-0 and t-1, c2 owns t-2; c3 joins."""
    name = "textbook-join"
    return Scenario(
        name,
        "a consumer joins two that own t-0, t-1 | t-2",
        [_event(name, 10_000, "member-starts", member_id="c3")],
        _group(name, {"t": 3}, {"c1": [("t", 0, 2)], "c2": [("t", 2, 1)]}),
        {"poll_interval_ms": 0, "revoke_ms": 1_000, "restore_ms": 2_000},
    )


def rolling_deployment() -> Scenario:
    """200 consumers, two partitions each, in batches of a twentieth; each is back before its session times out."""
    name, consumers = "rolling-deployment", 200
    owned = {f"c{number:03d}": [("orders", 2 * number, 2)] for number in range(consumers)}
    rolling = {"down_ms": 5_000, "parallelism": consumers // 20, "pause_ms": 10_000}
    return Scenario(
        name,
        f"{consumers} consumers of {2 * consumers} partitions are redeployed, {rolling['parallelism']} at a time",
        [_event(name, 10_000, "rolling-restart", **rolling)],
        _group(name, {"orders": 2 * consumers}, owned),
        {"revoke_ms": 100, "restore_ms": 2_000},
        ("eager", "cooperative", "static", "consumer"),
    )


def crash() -> Scenario:
    """c2 of four consumers of twelve partitions goes silent."""
    name = "crash"
    owned = {f"c{number}": [("orders", 3 * number - 3, 3)] for number in (1, 2, 3, 4)}
    return Scenario(
        name,
        "one of four consumers dies without leaving; its session must time out",
        [_event(name, 20_000, "member-crashes", member_id="c2")],
        _group(name, {"orders": 12}, owned),
        {"revoke_ms": 200, "restore_ms": 2_000},
    )


def deploy_fleet() -> Scenario:
    """Every group of a fleet, one consumer at a time."""
    rolling = {"down_ms": 15_000, "parallelism": 1, "pause_ms": 15_000}
    return Scenario(
        "deploy-fleet",
        "every group of the fleet is redeployed, one consumer at a time",
        [{"at_ms": 10_000, "event": "rolling-restart", **rolling}],
        settings={"revoke_ms": 100, "restore_ms": 2_000},
        protocols=("configured", "eager", "cooperative", "static", "consumer"),
    )


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "textbook-join": textbook_join,
    "rolling-deployment": rolling_deployment,
    "crash": crash,
    "deploy-fleet": deploy_fleet,
}


def _event(group_id: str, at_ms: int, event: str, **more: Any) -> dict[str, Any]:
    return {"cluster": CLUSTER, "group_id": group_id, "at_ms": at_ms, "event": event, **more}


def _group(group_id: str, topics: dict[str, int], owned: dict[str, list[tuple[str, int, int]]]) -> dict[str, Rows]:
    """The tables of one settled group: partition counts, and what each member owns as (topic, first, count)."""
    key = {"cluster": CLUSTER, "group_id": group_id}
    members = [key | {"member_id": member} for member in owned]
    return {
        "topics": [{"cluster": CLUSTER, "topic": topic, "partitions": count} for topic, count in topics.items()],
        "members": [member | {"generation_id": 1} for member in members],
        "subscriptions": [member | {"topic": topic} for member in members for topic in topics],
        "owned_slices": [
            key | {"member_id": member, "topic": topic, "first": first, "step": 1, "count": count}
            for member, runs in owned.items()
            for topic, first, count in runs
        ],
    }


def _dataframe(spark: SparkSession, rows: Rows, schema: StructType) -> DataFrame:
    nullable = StructType([StructField(each.name, each.dataType) for each in schema.fields])
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=to_arrow_schema(nullable)), nullable)


@dataclass(frozen=True)
class Story:
    """What happened, as rows: the columns of `tables.simulation.SIMULATION_TABLES`, and `protocol`.

    Attributes:
        protocols: with which the groups were played, in this order.
        rounds, availability, trace, ownership: of the groups that could be played.
        rejected: groups that a protocol cannot play, each once.
    """

    protocols: tuple[str, ...]
    rounds: Rows
    availability: Rows
    trace: Rows
    ownership: Rows
    rejected: Rows


def play_story(scenario: Scenario, protocols: Sequence[str], settings: Settings) -> Story:
    """What `simulate.play_fleet` makes of a story with tables of its own, in this process.

    Args:
        scenario: a story with tables.
        protocols: of `simulate`, each once.
        settings: times; the tables of settings are not looked at.

    Raises:
        ValueError: the story has no fleet of its own.
    """
    if scenario.tables is None:
        raise ValueError(f"scenario {scenario.name} is told of a fleet: play it with Spark")
    facts = facts_of_rows(scenario.tables, scenario.events)
    found = play_whole(facts, protocols, settings.timing, (PLAYED, TRACE, OWNERSHIP))
    played = [row for row in found[PLAYED] if "code" not in row]
    refused = [row for row in found[PLAYED] if "code" in row]
    return Story(
        tuple(protocols),
        rounds=[_key(row) | each for row in played for each in row["rounds"]],
        availability=[_key(row) | row["availability"] for row in played],
        trace=found[TRACE],
        ownership=found[OWNERSHIP],
        rejected=list({(row["cluster"], row["group_id"]): _rejected(row) for row in reversed(refused)}.values()),
    )


def _key(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("cluster", "group_id", "protocol")}


def _rejected(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("cluster", "group_id", "code", "detail")}
