"""Names that try to control a terminal, a spreadsheet, a page, or a file system (docs/threat-model.md)."""

from __future__ import annotations

import csv
import io
import json
import logging
import re
import sys
import unicodedata
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobs import plan as plan_job
from spark_assign.cli.job import Outcome, VisibleFormatter, run_and_print
from spark_assign.cli.settings_file import from_file
from spark_assign.groups.explaining import explain
from spark_assign.report import migration
from spark_assign.report.formatting import aligned, group_name, listed, visible
from spark_assign.sources.files.snapshot_files import write_folder
from spark_assign.stores.locations import folder_name, one_folder
from spark_assign.stores.run_store import safe_run_id
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from tests.docs.pages import ROOT
from tests.snapshots import of_kafka

CLEAR_SCREEN, TITLE, C1, REVERSED = "\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\u202egnp.exe"
HOSTILE = [CLEAR_SCREEN, TITLE, C1, REVERSED, "\u061c", "\U000e0041", "\r", "\b\b", "\x7f", "\x00", "\u2028"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_terminal_gets_no_control_characters(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither in a summary nor in a log message; plain names in any script stay as they are."""
    assert visible(name).isprintable()
    assert visible("zahlung-übersicht 支払い\tx\n") == "zahlung-übersicht 支払い\tx\n"

    def run() -> int:
        print(f"group {name} moves")
        return 1

    assert run_and_print("table", Outcome("plan"), run) == 1
    assert capsys.readouterr().out == f"group {visible(name)} moves\n"
    record = logging.LogRecord("x", logging.INFO, "", 0, "read %s", (name,), None)
    assert VisibleFormatter().format(record) == f"read {visible(name)}"


def test_every_format_character_is_shown_as_a_code() -> None:
    """All of Unicode's control, format, and surrogate characters, its separators of lines and paragraphs, and the two
    characters beyond these that XML can't have.
    """
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    obeyed = [chr(n) for n in range(sys.maxunicode + 1) if unicodedata.category(chr(n)) in hidden]
    assert [
        each for each in [*obeyed, "\ufffe", "\uffff"] if each not in "\t\n" and not visible(each).startswith("\\")
    ] == []


def test_a_name_cannot_fake_a_line() -> None:
    """A line end in a group id is printed as \\n."""
    assert group_name({"cluster": "c", "group_id": "g\nNo group is rejected"}) == r"c/g\nNo group is rejected"
    assert aligned([["group", "n"], ["g\nx", "1"]]) == ["  group  n", r"  g\nx   1"]
    error = FleetError(
        [Fault("topics", "topic", "the same key twice: topic=t\n  - members.group_id: gone", "Keep one")]
    )
    assert str(error).count("\n") == 1


def test_a_long_name_is_not_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rows of a table, nor by groups times steps: each name is written once."""
    assert sum(map(len, aligned([["g" * 64_000], *[["x"]] * 100]))) < 64_000 + 200 * 1_000
    named = Counter[str]()
    monkeypatch.setattr(migration, "group_name", lambda row: named.update([row["group_id"]]) or row["group_id"])
    groups = [
        {"cluster": "c", "group_id": f"g{number}", "online": None, "assignor": "range", "verdict": "v", "reasons": "r"}
        for number in range(10)
    ]
    costs = dict.fromkeys(("restarts", "simulated_restarts", "moved", "revoked", "paused_partitions"))
    steps = [{**group, **costs, "step": at, "step_type": "t", "description": "d"} for group in groups for at in (1, 2)]
    text = migration.format_migration_steps(groups, steps)
    assert text.count("  1. t") == text.count("  2. t") == 10
    assert set(named.values()) == {1}


@pytest.mark.parametrize("format", ["json", "yaml", "csv"])
def test_documents_keep_the_name_and_control_nothing(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON and YAML as escapes, which a reader turns back."""
    rows = [{"group_id": name} for name in HOSTILE]

    def run() -> int:
        listed("groups", rows)
        return 0

    run_and_print(format, Outcome("plan"), run)
    printed = capsys.readouterr().out
    assert all(line.isprintable() for line in printed.split("\n"))
    if format == "json":
        assert json.loads(printed)["tables"]["groups"] == rows


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-2", "@SUM(A1)", "\t=1"])
def test_formulas_stay_text(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A text of -o csv never starts like a formula; numbers stay numbers."""
    run_and_print("csv", Outcome("plan"), lambda: len(listed("groups", [{"group_id": name, "moved": -3}])))
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row == {"group_id": f"'{name}", "moved": "-3"}
    run_and_print("csv", Outcome("plan"), lambda: len(listed("groups", [{"group_id": f"a;{name};b"}])))
    cells = [cell for line in csv.reader(io.StringIO(capsys.readouterr().out), delimiter=";") for cell in line]
    assert cells == ["group_id", "a", f"'{name}", "b"], "as a spreadsheet reads it where the comma is decimal"
    run_and_print("csv", Outcome("plan"), lambda: len(listed("groups", [{"group_id": "g", "members": [f";{name}"]}])))
    cells = [cell for line in capsys.readouterr().out.splitlines() for cell in line.split(";")]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t")) for cell in cells), "also in a list"


@pytest.mark.parametrize("cluster", [".", "..", "../../etc", "/etc/passwd", "a/../../b", "c:\\x", "x" * 3_000, "\x00"])
def test_a_cluster_stays_in_the_folder_of_the_fleet(cluster: str, tmp_path: Path) -> None:
    """Its name is one folder, whatever it contains. The same holds for the name of a run."""
    inner = tmp_path / one_folder(cluster)
    assert inner.resolve().parent == tmp_path
    assert "/" not in inner.name
    assert len(inner.name) < 250
    name = folder_name("cluster", cluster)
    assert "/" not in name
    assert len(name) < 250
    fleet = tmp_path / "fleet"
    write_folder(of_kafka(cluster), fleet)
    assert [path.name for path in tmp_path.iterdir()] == ["fleet"]
    assert [path.name for path in fleet.iterdir()] == [name]
    assert (tmp_path / safe_run_id(cluster)).resolve().parent == tmp_path
    assert not set(safe_run_id(cluster)) & {"/", "\\", "\x00"}


def test_an_explanation_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A member ID with a line end doesn't begin a line that looks like another message."""
    row = {"cluster": "c", "group_id": "x\ny", "topic": "t0", "partition": 1}
    rows = [{**row, "explanation": "stays with x\ntouch file, which owned 1."}]
    monkeypatch.setattr("spark_assign.groups.explaining.explain_moves", lambda *_, **__: rows)
    assert explain(None, "x\ny", "t0", 1) == "t0-1 of c/x\\ny: stays with x\\ntouch file, which owned 1."  # type: ignore
    monkeypatch.setattr("spark_assign.groups.planning.plan", lambda *_: None)
    monkeypatch.setattr("spark_assign.groups.explaining.is_group_named", lambda *_: None)
    monkeypatch.setattr(plan_job, "_only_groups", lambda *_: None)
    monkeypatch.setattr(plan_job, "_choice", lambda _: None)
    assert plan_job._explain(SimpleNamespace(explain=("x\ny", "t0-1")), None) == 0  # type: ignore
    assert capsys.readouterr().out == "t0-1 of c/x\\ny: stays with x\\ntouch file, which owned 1.\n"


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = '''" + "x" * 1_000_000])
def test_settings_that_exhaust_the_parser(text: str, tmp_path: Path) -> None:
    """Deep nesting is wrong input with a message, not a failure."""
    file = tmp_path / "s.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match="isn't valid TOML"):
        from_file(file)


def test_the_threat_model_names_tests_that_exist() -> None:
    """docs/threat-model.md: a name that starts with :: is in the file of the name before it."""
    file, seen = "", 0
    for name, test in re.findall(r"`(tests/[\w/.]+)?::(\w+)`", (ROOT / "docs" / "threat-model.md").read_text()):
        file = name or file
        assert f"def {test}(" in (ROOT / file).read_text(), (file, test)
        seen += 1
    assert seen >= 12
