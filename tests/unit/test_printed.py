"""What a job prints with `-o`: one document with its outcome and the listed rows, or these rows as CSV."""

from __future__ import annotations

import ast
import csv
import json
import logging
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import jsonschema
import pytest
import yaml

from spark_assign import tables
from spark_assign.cli.job import Job, Options, job
from spark_assign.report.formatting import group_name, listed, name_clusters, with_own_names
from spark_assign.tables.errors import ConfigError

ROOT = Path(__file__).parents[2]
SCHEMA: dict[str, Any] = json.loads((ROOT / "conf" / "printed.schema.json").read_text())
STORED = {
    name
    for module in iter_modules(tables.__path__, "spark_assign.tables.")
    for attribute, value in vars(import_module(module.name)).items()
    if attribute.endswith("_TABLES") and isinstance(value, dict)
    for name in value
}
KEYS = STORED | {
    name
    for cell in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", (ROOT / "docs" / "settings.md").read_text(), re.MULTILINE)
    for name in re.findall(r"\w+", cell)
}
"""Keys of `tables`: names of stored tables, and those that docs/settings.md describes."""
ROWS = [{"group_id": "a: b", "lag": 3, "rate": math.inf, "members": ["m", 'n"']}, {"group_id": "c", "lag": None}]


def example(run: Callable[[Options], int]) -> Job:
    """A job."""
    return job("An example.", "Exit codes: 0 done.", name="example")(run)


def lists(options: Options) -> int:
    """Prints and lists rows."""
    print("Two groups")
    logging.getLogger("spark_assign.example").info("working")
    listed("groups", ROWS)
    listed("times", [{"time": datetime(2026, 11, 27, tzinfo=UTC)}])
    listed("none", [])
    options.outcome.counts = {"groups": 2}
    return 1


def test_the_schema_is_valid() -> None:
    """And names the keys of the outcome file, too."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["required"]) == set(SCHEMA["properties"])


def test_every_key_is_a_stored_table_or_documented() -> None:
    """Every name that the source gives to listed rows."""
    listing = {"collected", "listed", "first_of_each", "rows_of_first_groups", "read_rejected_lines"}
    views = {"View", "replace"}
    names = {
        argument.value
        for folder in ("spark_assign/report", "spark_assign/cli", "jobs")
        for file in (ROOT / folder).rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in listing | views
        for argument in [
            *(call.args[:2] if call.func.id in listing else []),
            *(each.value for each in call.keywords if each.arg in ("listed", "name")),
        ]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }
    assert len(names) > 20
    assert names <= KEYS


def test_only_one_cluster_is_left_out_of_names() -> None:
    """Of all that a context prints, and of no other context."""

    @with_own_names
    def named(*clusters: set[str]) -> str:
        for found in clusters:
            name_clusters(lambda found=found: found)
        return group_name({"cluster": "a", "group_id": "g"})

    assert [named({"a"}), named({"a", "b"}), named({"a"}, {"b"}), named({"b"}), named()] == ["g", *["a/g"] * 4]


def test_json_and_yaml_are_the_same_document(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing else is on standard output, and the exit code is the job's."""
    documents = []
    for format, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        assert example(lists)(["-o", format]) == 1
        documents.append({**read(capsys.readouterr().out), "started_at": "", "finished_at": ""})
    assert documents[0] == documents[1]
    jsonschema.validate(documents[0], SCHEMA)
    assert (documents[0]["summary"], documents[0]["counts"]) == ("Two groups", {"groups": 2})
    assert documents[0]["tables"] == {
        "groups": [{**ROWS[0], "rate": "inf"}, ROWS[1]],
        "times": [{"time": "2026-11-27T00:00:00+00:00"}],
        "none": [],
    }


def test_csv_has_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """A block for each table that has rows."""
    assert example(lists)(["--print-format", "csv"]) == 1
    groups, times = capsys.readouterr().out.split("\n\n")
    rows = list(csv.DictReader(groups.splitlines()))
    assert rows[0] == {"group_id": "a: b", "lag": "3", "rate": "inf", "members": '["m", "n\\""]'}
    assert (rows[1]["lag"], times) == ("", "time\n2026-11-27T00:00:00+00:00\n")


def test_the_text_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    """As the job prints it."""
    assert example(lists)([]) == 1
    assert capsys.readouterr().out == "Two groups\n"


def test_an_error_is_in_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    """With the exit code."""

    def fails(options: Options) -> int:
        raise ConfigError("no fleet")

    assert example(fails)(["-o", "json"]) == 2
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, SCHEMA)
    assert (document["exit_code"], document["error"]) == (2, {"kind": "ConfigError", "message": "no fleet"})
