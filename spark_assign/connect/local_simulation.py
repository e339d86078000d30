"""Play a story of one Connect cluster here, by the kernels alone: without a session, and without Java."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spark_assign.connect.kernel.simulate_clusters import simulate_clusters
from spark_assign.connect.plan import facts_of_rows
from spark_assign.connect.scenarios import Scenario
from spark_assign.connect.simulate import make_timing

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Story:
    """What happened, as rows of `tables.connect.SIMULATION_TABLES`.

    Attributes:
        rounds: a row per rebalance.
        costs: a row per protocol.
        rejected: the cluster, if it could not be played.
    """

    rounds: Rows
    costs: Rows
    rejected: Rows


def play_story(scenario: Scenario, *, start_ms: int, stop_ms: int, rebalance_ms: int) -> Story:
    """What `simulate_connect` makes of a story with its protocols, in this process.

    Args:
        scenario: the story.
        start_ms, stop_ms, rebalance_ms: as `simulate_connect` has them, in milliseconds.

    Raises:
        ValueError: a negative time.
    """
    timing = make_timing(start_ms, stop_ms, rebalance_ms)
    facts = facts_of_rows([scenario.cluster], scenario.events)
    played = simulate_clusters(facts, scenario.protocols, timing).to_pylist()
    fine = [(_columns(row, "connect_cluster", "protocol"), row) for row in played if row["code"] is None]
    return Story(
        rounds=[key | each for key, row in fine for each in row["rounds"]],
        costs=[key | row["costs"] for key, row in fine],
        rejected=[_columns(row, "connect_cluster", "code", "detail") for row in played if row["code"] is not None],
    )


def _columns(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}
