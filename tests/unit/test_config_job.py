"""`spark-assign config`: schemas that an editor can use, and verdicts on files."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from jobs import config
from spark_assign.groups.alerts import AlertLimits
from spark_assign.tables.parameters import parameter_fields

ROOT = Path(__file__).parents[2]
OTHERS = (
    *("advise", "check", "compare", "daily", "diff", "migrate", "report"),
    *("simulate", "snapshot"),
)
OF_REPLICAS = ("replicas place", "replicas check", "replicas reassign", "replicas schedule", "replicas operate")


def schema(of: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """As it is printed."""
    assert config.main(["--schema", of]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(found)
    return found


@pytest.mark.parametrize("of", ["plan", "airflow", *OTHERS, *OF_REPLICAS])
def test_a_schema_knows_every_key_and_no_other(of: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of every job's settings and of Airflow's."""
    found = schema(of, capsys)
    assert found["title"] == f"spark_assign: settings of {of}"
    assert found["additionalProperties"] is False
    assert found["properties"]


@pytest.mark.parametrize("of", ["plan", "airflow"])
def test_the_shipped_files_are_right_by_their_schema(of: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And by --check, which knows by itself whose settings they are."""
    file = ROOT / "conf" / f"{of}.toml"
    given = json.loads(json.dumps(tomllib.loads(file.read_text()), default=str))
    jsonschema.validate(given, schema(of, capsys))
    assert config.main(["--check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: valid settings of {of}\n"


def test_airflow_has_the_thresholds_of_the_jobs() -> None:
    """Their names, and their defaults; the provider can't import them."""
    fields = config._airflow().Settings.model_fields
    limits = {each.flag: each.default for each in parameter_fields(AlertLimits) if each.flag in fields}
    assert len(limits) == 5
    assert {name: fields[name].default or None for name in limits} == {
        name: each or None for name, each in limits.items()
    }


def test_an_editor_sees_what_the_job_would_say(capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown keys, wrong values, and names that are none."""
    found = jsonschema.Draft202012Validator(schema("plan", capsys))
    for wrong in (
        {"tpo": 3},
        {"top": "ten"},
        {"top": -1},
        {"fail_on": ["reject"]},
        {"group_assignor": [{"groups": "a"}]},
    ):
        assert not found.is_valid(wrong), wrong
    assert found.is_valid(
        {"output": {"tables": ["assignment_slices"]}, "group_assignor": [{"groups": "a", "assignor": "range"}]}
    )
    compare = jsonschema.Draft202012Validator(schema("compare", capsys))
    assert compare.is_valid({"assignors": ["range"], "what_if": "leave:*:1", "fleet": {"options": {"sep": ";"}}})
    assert compare.is_valid({"fleet": "./fleet", "fail-on": "rejected", "run_id": "r", "run-id": "r"})
    assert not compare.is_valid({"assignor": "range"})


def test_a_file_that_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """All of it, and exit code 2."""
    file = tmp_path / "my.toml"
    file.write_text("tpo = 3\ntop = -1\n")
    assert config.main(["--check", str(file)]) == 2
    assert "my.toml: 2 faults:" in caplog.text
    assert config.main(["check", "--check", str(file)]) == 2
    assert "unknown key tpo. Did you mean top?" in caplog.text
    file.write_text("[[dag]]\nretries = 'x'\n")
    assert config.main(["--check", str(file)]) == 2
    assert "dag 1: dag_id is missing" in caplog.text
    assert capsys.readouterr().out == ""


def test_a_file_of_another_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its flags."""
    file = tmp_path / "my.toml"
    file.write_text('what_if = ["leave:*:1"]\n[fleet]\nlocation = "./fleet"\n')
    assert config.main(["compare", "--check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: valid settings of compare\n"


SECTIONS = """
[plan]
top = 3
[plan.fleet]
location = "./fleet"
[compare]
top = 4
what-if = "leave:*:1"
[replicas.reassign]
add = "5"
"""


def test_a_file_for_several_jobs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each section is checked. A section that isn't a job's is a fault."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "spark-assign.toml"
    file.write_text(SECTIONS)
    assert config.main(["--check", file.name]) == 0
    assert capsys.readouterr().out == "spark-assign.toml: valid settings of plan, compare, replicas reassign\n"
    file.write_text(SECTIONS.replace("[compare]", "[comparison]"))
    assert config.main(["--check", file.name]) == 2
    assert "No job is called comparison. Did you mean compare?" in caplog.text


def test_where_settings_come_from(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The environment precedes the file, which precedes the defaults. Variables of the launcher aren't settings."""
    monkeypatch.chdir(tmp_path)
    Path("spark-assign.toml").write_text(SECTIONS)
    monkeypatch.setenv("SPARK_ASSIGN_COMPARE_TOP", "5")
    monkeypatch.setenv("SPARK_ASSIGN_SEED", "7")

    def shown(*words: str) -> dict[str, list[str]]:
        assert config.main(["--show", *words]) == 0, caplog.text
        rows = [line.split() for line in capsys.readouterr().out.splitlines()]
        return {row[0]: row[1:] for row in rows}

    compare = shown("compare")
    assert compare["--top"] == ["5", "SPARK_ASSIGN_COMPARE_TOP"]
    assert compare["--what-if"] == ['["leave:*:1"]', "spark-assign.toml"]
    assert compare["--fleet"] == ["–", "default"]
    assert shown("replicas", "reassign")["--add"] == ["5", "spark-assign.toml"]
    plan = shown()
    assert plan["--top"] == ["3", "spark-assign.toml"]
    assert plan["--fleet"] == [str(tmp_path / "fleet"), "spark-assign.toml"]
    Path("other.toml").write_text("top = 6")
    assert shown("diff", "--config", "other.toml")["--top"] == ["6", "other.toml"]
    monkeypatch.setenv("SPARK_ASSIGN_ENGINE", "embedded")
    assert " ".join(shown()["engine"]) == (
        f"Sail {version('pysail')}, in this process SPARK_ASSIGN_ENGINE=embedded, as spark-assign sets it"
    )
    monkeypatch.setenv("SPARK_ASSIGN_ENGINE", "spark")
    assert shown()["engine"][0] == "Spark"
    monkeypatch.setenv("SPARK_ASSIGN_COMPARE_TOP", "five")
    assert config.main(["--show", "compare"]) == 2
    assert "SPARK_ASSIGN_COMPARE_TOP: 'five' is not a valid integer" in caplog.text


@pytest.mark.parametrize(
    ("text", "problem"), [("tops = 3", "unknown key tops"), ("top = 'x'", "top is 'x'"), ("top =", "isn't valid TOML")]
)
def test_a_file_that_cannot_be_shown(text: str, problem: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`--show` refuses a file by the words of `--check`, and one that isn't there too."""
    file = tmp_path / "plan.toml"
    assert config.main(["--show", "plan", "--config", str(file)]) == 2
    file.write_text(text)
    assert config.main(["--show", "plan", "--config", str(file)]) == 2
    shown = caplog.messages[-1]
    assert config.main(["--check", str(file)]) == 2
    assert caplog.messages[-1] == shown
    assert f"config: {file}: {problem}" in shown
    assert f"{file}: can't be read" in caplog.messages[0]


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [("TOP", "9" * 20, "isn't a number of at most"), ("TABLE", "loads", "expected NAME=VALUE")],
)
def test_a_value_of_the_environment_that_the_job_refuses(
    name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`--show` refuses it too."""
    monkeypatch.setenv(f"SPARK_ASSIGN_PLAN_{name}", value)
    assert config.main(["--show", "plan"]) == 2
    assert f"SPARK_ASSIGN_PLAN_{name}: " in caplog.text
    assert problem in caplog.text


USE_ONE = "Use one of --schema [JOB], --show [JOB], --check FILE, and --prune LOCATION"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], USE_ONE),
        (["--schema", "--check", "x.toml"], USE_ONE),
        (["--show", "--schema"], USE_ONE),
        (["--schema", "planner"], "No job is called planner. Did you mean plan?"),
        (["--schema", "replicas"], "No job is called replicas. Did you mean replicas"),
        (["--check", "/nothing.toml"], "/nothing.toml: can't be read"),
    ],
)
def test_wrong_usage(words: list[str], message: str, caplog: pytest.LogCaptureFixture) -> None:
    """With the remedy."""
    assert config.main(words) == 2
    assert message in caplog.text


def test_help_and_stories_do_not_wait_for_pydantic() -> None:
    """It is loaded where settings are read."""
    check = "import sys; import jobs.simulate, jobs.check; "
    check += "jobs.simulate.main(['--help']); assert 'pydantic' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
