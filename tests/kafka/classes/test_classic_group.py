"""Random sequences of steps, fresh at every run, by Kafka's own `ClassicGroup` and by ours: no difference."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.golden import classic_group_rows
from tests.golden.classic_group_calls import run_calls
from tests.golden.classic_group_rows import Row
from tests.kafka import random_steps
from tests.kafka.group_steps import answered
from tests.sizes import drawn

pytestmark = pytest.mark.kafka

PROGRAM = "ClassicGroupSteps"
SEQUENCES = drawn(60, 120)


def ours(rows: list[Row]) -> list[str]:
    """What our group makes of the same steps, as JSON."""
    return list(map(_settled, run_calls(rows)))


def _settled(result: dict[str, Any]) -> str:
    """With the states of an error sorted: Java lists them in an order that differs from run to run."""
    if isinstance(error := result.get("error"), dict):
        error["message"] = re.sub(r"(?<=one of \[)[^]]+", lambda found: _sorted(found[0]), error["message"])
    return json.dumps(result)


def _sorted(states: str) -> str:
    return ", ".join(sorted(states.split(", ")))


def test_kafka_still_answers_as_recorded(kafka_jars: str) -> None:
    """The program that is asked below gives for the recorded steps what was recorded."""
    rows = [row for row in classic_group_rows.recorded() if row["sequence"] < "fuzz-0020"]
    now = answered([{**row, "expect": None} for row in rows], kafka_jars, PROGRAM)
    assert classic_group_rows.differences(rows, [json.dumps(row["expect"]) for row in now]) == []


def test_random_sequences(kafka_jars: str, seed: int) -> None:
    """Every step's answer or error, and the whole state after it."""
    rows: list[Row] = [
        {"sequence": n, "step": u, "op": p} for n, o in random_steps.sequences(seed, SEQUENCES) for u, p in enumerate(o)
    ]
    expected = [{**row, "expect": json.loads(_settled(row["expect"]))} for row in answered(rows, kafka_jars, PROGRAM)]
    differences = classic_group_rows.differences(expected, ours(rows))
    largest = max(len(row["expect"]["members"]) for row in expected)
    errors = sum("error" in row["expect"] for row in expected)
    print(f"{len(rows)} steps, {errors} of them errors of Kafka's, groups of up to {largest} members")
    assert not differences, f"{len(differences)} steps differ:\n" + "\n".join(differences[:5])
    assert largest > 96
