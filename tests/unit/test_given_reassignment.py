"""Reassignments of other tools: which files are read, and what is wrong with the others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from spark_assign.replicas.given_reassignment import read_reassignments
from spark_assign.tables.errors import ConfigError


def _entry(topic: str, partition: Any, replicas: Any) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "replicas": replicas}


KAFKA = json.dumps({"version": 1, "partitions": [_entry("t", 0, [2, 3]) | {"log_dirs": ["any", "any"]}]})
CURRENT = json.dumps({"version": 1, "partitions": [_entry("t", 0, [1, 2])]})
GENERATED = f"""Current partition replica assignment
{CURRENT}

Proposed partition reassignment configuration
{KAFKA}
"""
PROPOSAL = {"topicPartition": {"hash": 0, "partition": 0, "topic": "t"}, "oldLeader": 1}
SUMMARY = {
    "summary": {"numReplicaMovements": 1},
    "goalSummary": [],
    "loadAfterOptimization": {"brokers": []},
    "version": 1,
}
CRUISE_CONTROL = json.dumps(
    {"proposals": [PROPOSAL | {"oldReplicas": [1, 2], "newReplicas": [2, 3]}], "loadBeforeOptimization": float("nan")}
    | SUMMARY
)
TOPICMAPPR = '{"version":1,"partitions":[{"topic":"%s","partition":0,"replicas":[2,3]}]}\n'
CHANGES = "\nPartition map changes:\n  t p0: [1 2] -> [2 3] replaced broker\n\nNew partition maps:\n  t.json\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((KAFKA, None), (f"\ufeff{KAFKA}\r\n", None), (TOPICMAPPR % "t", None)),
        *((GENERATED, [1, 2]), (CRUISE_CONTROL, [1, 2])),
    ],
)
def test_accepted_files(tmp_path: Path, text: str, expected: list[int] | None) -> None:
    """The JSON of Kafka and topicmappr, and of --generate and Cruise Control, which know the replicas before."""
    (tmp_path / "move").write_text(text)
    rows = read_reassignments([str(tmp_path / "move")])
    assert rows == [{"topic": "t", "partition": 0, "expected": expected, "target": [2, 3]}]


def test_files_of_topicmappr(tmp_path: Path) -> None:
    """One per topic, together; the combined one repeats them."""
    files = []
    for name, topics in (("t", "t"), ("u", "u"), ("all", "t")):
        files.append(str(tmp_path / f"{name}.json"))
        Path(files[-1]).write_text(TOPICMAPPR % topics)
    assert [row["topic"] for row in read_reassignments(files[:2])] == ["t", "u"]
    with pytest.raises(ConfigError, match=r"all\.json: t-0 occurs twice. Keep one"):
        read_reassignments(files)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: not JSON: Expecting value"),
        (CHANGES, "line 2: not JSON: Expecting value"),
        (json.dumps(SUMMARY), "neither partitions nor proposals.*verbose=true"),
        ('{\n"partitions": [\n}', "line 3: not JSON"),
        (f"Proposed partition reassignment configuration\n\n{KAFKA}x", "line 3: not JSON: Extra data"),
        ("[" * 100_000, "move"),
        ('{"partitions": [{"partition": ' + "9" * 5_000 + "}]}", "move: Exceeds the limit"),
        ('{"partitions": [], "partitions": []}', "move: a key of an object occurs twice, among partitions"),
        ("[1]", "neither partitions nor proposals"),
        ('{"partitions": []}', "no partitions"),
        *((f'{{"partitions": [{each}]}}', ": entry 1 isn't an object") for each in ("1", "null", '"x"', "[]")),
        *((f'{{"proposals": [{each}]}}', ": entry 1 isn't an object") for each in ("null", '"x"')),
        (
            json.dumps({"proposals": [{"topicPartition": None, "oldReplicas": [1], "newReplicas": [2]}]}),
            "of entry 1 isn't",
        ),
        (json.dumps({"proposals": [{"oldReplicas": [1], "newReplicas": [2]}]}), ": entry 1 lacks 'topicPartition'"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "entry 1 lacks 'replicas'"),
        (json.dumps({"partitions": [_entry("t", 0, [1]), _entry("t", 0, [1])]}), "t-0 occurs twice"),
        (json.dumps({"partitions": [_entry("\ud800", 0, [1])]}), r'"\\ud800"'),
        (json.dumps({"partitions": [_entry("t\x1b[31m", 0, [1])]}), "entry 1 has a wrong topic"),
        (json.dumps({"partitions": [_entry("t" * 250, 0, [1])]}), "entry 1 has a wrong topic"),
        (json.dumps({"partitions": [_entry("t", True, [1])]}), "entry 1 has a wrong topic, partition, or replica"),
        (json.dumps({"partitions": [_entry("t", 0, [])]}), "entry 1 has a wrong topic, partition, or replica"),
        (json.dumps({"partitions": [_entry("t", 0, None)]}), "entry 1 has a wrong topic, partition, or replica"),
        (json.dumps({"partitions": [_entry("u", 0, [1]), _entry("t", 0, None)]}), "entry 2 has a wrong topic"),
        (GENERATED.replace("[2, 3]", "null"), "entry 1 has a wrong topic, partition, or replica"),
        (GENERATED.replace("[1, 2]", "null"), "entry 1 has a wrong topic, partition, or replica"),
        (CRUISE_CONTROL.replace("[2, 3]", "null"), "entry 1 has a wrong topic, partition, or replica"),
        (json.dumps({"partitions": [_entry("t", 0, [-1])]}), "entry 1 has a wrong topic, partition, or replica"),
        (
            json.dumps({"partitions": [_entry("t", 0, [*range(1_001)])]}),
            "entry 1 has a wrong topic, partition, or replica",
        ),
        (json.dumps({"partitions": [_entry("t", 2**31, [1])]}), "entry 1 has a wrong topic, partition, or replica"),
    ],
)
def test_other_files(tmp_path: Path, text: str, problem: str) -> None:
    """The message names the file, the place, and the accepted formats."""
    (tmp_path / "move").write_text(text)
    with pytest.raises(ConfigError, match=problem) as raised:
        read_reassignments([str(tmp_path / "move")])
    text = str(raised.value)
    assert text.startswith("--reassignment")
    assert "Accepted are the JSON of kafka-reassign-partitions.sh" in text or re.search(r"entry \d has|twice", text)
    assert len(text) < 1_000


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """It isn't there, isn't text, or is a device that has no end."""
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    for file in (tmp_path / "nowhere", tmp_path / "bytes", Path("/dev/zero")):
        with pytest.raises(
            ConfigError, match=f"{file} can't be read" + ": line 1 isn't UTF-8" * (file.name == "bytes")
        ):
            read_reassignments([str(file)])
