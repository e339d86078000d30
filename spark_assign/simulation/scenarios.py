"""Packaged scenarios: rows of the tables of a fleet, events, and settings.

- `textbook-join`: two consumers own the three partitions of a topic, two and one, and a third consumer joins. With
  eager rebalancing, all three partitions pause; with cooperative rebalancing or KIP-848, only the one that moves.
- `rolling-deployment`: the 200 consumers of one group are restarted, ten at a time.
- `crash`: a consumer dies without leaving. The coordinator detects it when its session times out.
- `deploy-fleet`: the consumers of every group of a fleet (the sample, or another) are restarted, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_assign.fleet import FleetTables
from spark_assign.simulation.facts import facts_of_rows
from spark_assign.simulation.kernel.simulate_groups import OWNERSHIP, RESULTS, TRACE, simulate_in_memory
from spark_assign.simulation.settings import Settings
from spark_assign.spark.dataframes import dataframe_of_rows
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import INPUT_TABLES
from spark_assign.tables.simulation import EVENTS

Rows = list[dict[str, Any]]

CLUSTER = "scenario"


@dataclass(frozen=True)
class Scenario:
    """A packaged input of a simulation.

    Attributes:
        name: the name of the scenario, and of its group.
        about: a sentence that describes it.
        events: rows of `tables.simulation.EVENTS`; missing columns are null. Without `tables`, they have no `cluster`
            and no `group_id`, and happen to every group of every cluster.
        tables: rows of the tables of a fleet, by name. None: the scenario runs on a given fleet.
        settings: arguments of `Settings`, in milliseconds.
        variants: the variants to simulate.
    """

    name: str
    about: str
    events: Rows
    tables: dict[str, Rows] | None = None
    settings: dict[str, int] = field(default_factory=dict)
    variants: tuple[str, ...] = ("eager", "cooperative", "consumer")

    def read(self, spark: SparkSession, fleet: FleetTables | None = None) -> tuple[FleetTables, DataFrame]:
        """Returns the fleet at the start, and the events.

        Args:
            spark: the session.
            fleet: the fleet of a scenario without `tables`; other scenarios ignore it.

        Raises:
            ConfigError: the scenario has no tables, and `fleet` is None.
        """
        if self.tables is not None:
            frames = {name: dataframe_of_rows(spark, rows, INPUT_TABLES[name]) for name, rows in self.tables.items()}
            return FleetTables(**frames), dataframe_of_rows(spark, self.events, EVENTS)
        if fleet is None:
            raise ConfigError(f"scenario {self.name} has no fleet. Pass one")
        events = dataframe_of_rows(spark, [{"cluster": "", **each} for each in self.events], EVENTS).drop("cluster")
        clusters = fleet.members.select("cluster").distinct()
        return fleet, events.crossJoin(clusters).select(*EVENTS.fieldNames())


def textbook_join() -> Scenario:
    """c1 owns t-0 and t-1, c2 owns t-2, and c3 joins."""
    name = "textbook-join"
    return Scenario(
        name,
        "a consumer joins two that own t-0, t-1 | t-2",
        [_event(name, 10_000, "member-starts", member_id="c3")],
        _group(name, {"t": 3}, {"c1": [("t", 0, 2)], "c2": [("t", 2, 1)]}),
        {"poll_interval_ms": 0, "revoke_ms": 1_000, "restore_ms": 2_000},
    )


def rolling_deployment() -> Scenario:
    """200 consumers with two partitions each, ten at a time. Each returns before its session times out."""
    name, consumers = "rolling-deployment", 200
    owned = {f"c{number:03d}": [("orders", 2 * number, 2)] for number in range(consumers)}
    rolling = {"down_ms": 5_000, "parallelism": 10, "pause_ms": 10_000}
    return Scenario(
        name,
        f"{consumers} consumers of {2 * consumers} partitions are restarted, {rolling['parallelism']} at a time",
        [_event(name, 10_000, "rolling-restart", **rolling)],
        _group(name, {"orders": 2 * consumers}, owned),
        {"revoke_ms": 100, "restore_ms": 2_000},
        ("eager", "cooperative", "static", "consumer"),
    )


def crash() -> Scenario:
    """Four consumers own twelve partitions, and c2 crashes."""
    name = "crash"
    owned = {f"c{number}": [("orders", 3 * number - 3, 3)] for number in (1, 2, 3, 4)}
    return Scenario(
        name,
        "one of four consumers crashes; its session must time out",
        [_event(name, 20_000, "member-crashes", member_id="c2")],
        _group(name, {"orders": 12}, owned),
        {"revoke_ms": 200, "restore_ms": 2_000},
    )


def deploy_fleet() -> Scenario:
    """Every group of a fleet, one consumer at a time."""
    rolling = {"down_ms": 15_000, "parallelism": 1, "pause_ms": 15_000}
    return Scenario(
        "deploy-fleet",
        "every group of the fleet is restarted, one consumer at a time",
        [{"at_ms": 10_000, "event": "rolling-restart", **rolling}],
        settings={"revoke_ms": 100, "restore_ms": 2_000},
        variants=("configured", "eager", "cooperative", "static", "consumer"),
    )


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "textbook-join": textbook_join,
    "rolling-deployment": rolling_deployment,
    "crash": crash,
    "deploy-fleet": deploy_fleet,
}


def _event(group_id: str, at_ms: int, event: str, **columns: Any) -> dict[str, Any]:
    return {"cluster": CLUSTER, "group_id": group_id, "at_ms": at_ms, "event": event, **columns}


def _group(group_id: str, topics: dict[str, int], owned: dict[str, list[tuple[str, int, int]]]) -> dict[str, Rows]:
    """Returns the tables of one stable group, from partition counts, and (topic, first, count) slices by member."""
    key = {"cluster": CLUSTER, "group_id": group_id}
    members = [key | {"member_id": member} for member in owned]
    return {
        "topics": [{"cluster": CLUSTER, "topic": topic, "partitions": count} for topic, count in topics.items()],
        "members": [member | {"generation_id": 1} for member in members],
        "subscriptions": [member | {"topic": topic} for member in members for topic in topics],
        "owned_slices": [
            key | {"member_id": member, "topic": topic, "first": first, "step": 1, "count": count}
            for member, slices in owned.items()
            for topic, first, count in slices
        ],
    }


@dataclass(frozen=True)
class LocalSimulation:
    """Results of a simulation without Spark: rows of `tables.simulation.SIMULATION_TABLES`, with the column `variant`.

    Attributes:
        variants: the simulated variants.
        rebalances, availability, trace, ownership: rows of the groups that can be simulated.
        rejected: groups that can't be simulated with some variant, one row per group.
    """

    variants: tuple[str, ...]
    rebalances: Rows
    availability: Rows
    trace: Rows
    ownership: Rows
    rejected: Rows


def simulate_scenario(scenario: Scenario, variants: Sequence[str], settings: Settings) -> LocalSimulation:
    """Simulates a scenario with tables in this process; see `simulation.simulate_fleet`.

    Args:
        scenario: a scenario with tables.
        variants: distinct variants of `simulate`.
        settings: times. Tables of exceptions are ignored.

    Raises:
        ConfigError: the scenario has no tables.
    """
    if scenario.tables is None:
        raise ConfigError(f"scenario {scenario.name} has no fleet. Simulate it with Spark")
    facts = facts_of_rows(scenario.tables, scenario.events)
    tables = simulate_in_memory(facts, variants, settings.timing, (RESULTS, TRACE, OWNERSHIP))
    simulated = [(_columns(row, "variant"), row) for row in tables[RESULTS] if "code" not in row]
    rejected = [_columns(row, "code", "detail") for row in tables[RESULTS] if "code" in row]
    return LocalSimulation(
        tuple(variants),
        rebalances=[key | each for key, row in simulated for each in row["rebalances"]],
        availability=[key | row["availability"] for key, row in simulated],
        trace=tables[TRACE],
        ownership=tables[OWNERSHIP],
        rejected=list({(row["cluster"], row["group_id"]): row for row in reversed(rejected)}.values()),
    )


def _columns(row: dict[str, Any], *names: str) -> dict[str, Any]:
    """Returns the key of the group and other columns of a row."""
    return {name: row[name] for name in ("cluster", "group_id", *names)}
