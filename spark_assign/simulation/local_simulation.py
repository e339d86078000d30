"""Play a story of a few small groups here, by the kernels alone: without a session, and without Java."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_assign.simulation.facts import facts_of_rows
from spark_assign.simulation.kernel.simulate_groups import OWNERSHIP, PLAYED, TRACE, play_whole
from spark_assign.simulation.scenarios import Scenario
from spark_assign.simulation.settings import Settings

Rows = list[dict[str, Any]]


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
