"""What the project says of itself: licence, version, and what is written for those who work on it."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import spark_assign

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
APACHE_2_0 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_the_licence_is_apache_2_0() -> None:
    """Word for word, and as pyproject.toml says."""
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2_0
    assert PROJECT["license"] == "Apache-2.0"
    assert not [each for each in PROJECT["classifiers"] if each.startswith("License ::")], "the expression says it"
    assert [name for name in PROJECT["license-files"] if not (ROOT / name).is_file()] == []


def test_what_derives_from_kafka_is_named() -> None:
    """Its message schemas by file, and whose they are."""
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert "Apache Kafka\nCopyright" in notice
    for schema in (ROOT / "spark_assign" / "wire").glob("*.json"):
        assert schema.name in notice


def test_the_version_stands_once() -> None:
    """In the package, from which the wheel and the zip of ./spark-submit.sh take it."""
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", spark_assign.__version__)
    assert "version" not in PROJECT
    assert PROJECT["dynamic"] == ["version"]
    init = (ROOT / "spark_assign" / "__init__.py").read_text(encoding="utf-8")
    assert f'\n__version__ = "{spark_assign.__version__}"\n' in init
    assert re.search(rf"^## {re.escape(spark_assign.__version__)} ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_types_may_be_read() -> None:
    """PEP 561."""
    assert (ROOT / "spark_assign" / "py.typed").is_file()


@pytest.mark.parametrize("name", sorted(spark_assign.__all__))
def test_what_is_public_is_described(name: str) -> None:
    """By a docstring, with an example for whoever calls it."""
    text = getattr(spark_assign, name)
    if name == "__version__":
        return
    assert text.__doc__, name
    if not issubclass(text, Exception) if isinstance(text, type) else True:
        assert re.search(r"^\s*Examples?:$", text.__doc__, re.MULTILINE), f"{name} has no example"


def yaml_files() -> list[Path]:
    """What is written for other people's tools."""
    return [ROOT / ".pre-commit-config.yaml", *sorted((ROOT / ".github").rglob("*.y*ml"))]


@pytest.mark.parametrize("file", yaml_files(), ids=lambda file: file.name)
def test_yaml_can_be_read(file: Path) -> None:
    """By a parser."""
    assert yaml.safe_load(file.read_text(encoding="utf-8"))


def test_what_runs_on_a_push_is_what_runs_here() -> None:
    """The workflow calls .ci/run, after it has set up what that needs, and may read the repository only."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    (command,) = (step["run"] for step in job["steps"] if "run" in step)
    on_a_push, nightly = re.fullmatch(r"\.ci/run \$\{\{ (contains.*) && '(\w+)' \|\| '' \}\}", command).groups()
    assert on_a_push == """contains(fromJSON('["schedule", "workflow_dispatch"]'), github.event_name)"""
    assert nightly == "full"
    assert all("@" in step["uses"] for step in job["steps"] if "uses" in step)
    java = next(step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/setup-java"))
    assert java["java-version"] == "17"


def test_pre_commit_runs_what_the_tests_run() -> None:
    """By the environment of the clone, so that versions are the lock's."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [repository["repo"] for repository in hooks] == ["local"]
    entries = {hook["id"]: hook["entry"] for hook in hooks[0]["hooks"]}
    for part, entry in {"ruff": "ruff check", "format": "ruff format", "mypy": "mypy"}.items():
        assert entries[part].startswith(f".venv/bin/python -m {entry}")
