"""Hostile names in everything that is written to be pasted: the real parsers read back exactly the name."""

from __future__ import annotations

import ast
import csv
import fnmatch
import io
import itertools
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import javaproperties
import pyarrow as pa
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from spark_assign.advice.kernel.advise import advise
from spark_assign.advice.kernel.unused import group_commands
from spark_assign.cli.job import Outcome, run_and_print
from spark_assign.groups.kernel.client_libraries import LIBRARIES
from spark_assign.report.advice import settings_commands
from spark_assign.report.formatting import distinct, listed, visible
from spark_assign.report.loads_and_sizes import autoscaler, autoscalers, reason_comment
from spark_assign.report.openmetrics import Figures, expose
from spark_assign.report.sequence_diagram import sequence_diagram
from spark_assign.tables.quoting import comment_text, kubernetes_name, properties_value, shell_word, string_literal
from tests.hostile_names import NAMES, draw, of_cell, of_label
from tests.unit import test_advice_rows, test_membership
from tests.unit.report_rows import group
from tests.unit.test_protocol_report import trace

SIZED = {"needed": 3, "saturation_members": 12, "capacity": 40.0, "assignor": "range", "threads_per_pod": None}
"""What a manifest shows of a row of `sizes`."""
WRITERS = ("shell_word", "shell_pattern_word")
PACKAGE = Path(__file__).parents[2] / "spark_assign"
STUBS = ("kafka-configs.sh", "kafka-consumer-groups.sh", "spark-assign")


@pytest.fixture
def run_shell(tmp_path: Path) -> Any:
    """A function that runs lines in an empty folder, and returns the words that each command of STUBS got."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "empty").mkdir()
    for name in STUBS:
        stub = tmp_path / "bin" / name
        stub.write_text(f'#!/bin/bash\nprintf "%s\\0" "$@" "END" >> {tmp_path}/words\n')
        stub.chmod(0o755)

    def run(lines: str) -> list[list[str]]:
        words = tmp_path / "words"
        words.unlink(missing_ok=True)
        bash = {"input": lines.encode(), "cwd": tmp_path / "empty", "capture_output": True}
        subprocess.run(["bash", "-n"], check=True, **bash)
        environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "BOOTSTRAP_SERVERS": "b:9092", "LC_ALL": "C.UTF-8"}
        subprocess.run(["bash"], env=environment, check=False, **bash)
        assert list((tmp_path / "empty").iterdir()) == []
        calls = words.read_bytes().decode().split("END\0") if words.is_file() else [""]
        return [call.split("\0")[:-1] for call in calls[:-1]]

    return run


def test_no_other_way_to_write_a_name() -> None:
    """In advice and reports, what follows an option of a command is a number or comes from `tables.quoting`."""
    seen = 0
    for path in sorted([*(PACKAGE / "advice").rglob("*.py"), *(PACKAGE / "report").rglob("*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for before, value in itertools.pairwise(node.values if isinstance(node, ast.JoinedStr) else []):
                if isinstance(before, ast.Constant) and re.search(r"--[a-z-]+[ =]$", str(before.value)):
                    assert isinstance(value, ast.FormattedValue)
                    is_quoted = isinstance(value.value, ast.Call) and ast.unparse(value.value.func) in WRITERS
                    is_number = value.format_spec is not None or ast.unparse(value.value) == "other['value']"
                    assert is_quoted or is_number, f"{path}:{node.lineno}"
                    seen += is_quoted
    assert seen >= 8


def test_what_is_written_is_one_line_that_printing_keeps() -> None:
    """So no terminal changes what is pasted, and no name adds a line."""
    for name in NAMES:
        for write in (shell_word, properties_value, string_literal, comment_text):
            assert write(name).isprintable(), name
            assert visible(write(name)) == write(name)


def test_commands_of_advice(run_shell: Any, seed: int) -> None:
    """The group of each command is one word, and the pattern of --details matches the group only."""
    names, commands = draw(seed, 40), list[tuple[str, str]]()
    for rows, _, params, missing in (case.values for case in test_advice_rows.CASES):
        table = test_advice_rows.facts(*rows)
        for name in names:
            ids = pa.array([None if each is None else name for each in table["group_id"].to_pylist()], pa.string())
            named = table.set_column(table.schema.get_field_index("group_id"), "group_id", ids)
            found = [row for batch in advise(named, params, missing) for row in batch.to_pylist()]
            commands += [(name, row["command"]) for row in found if row["command"]]
    different = sorted({command for _, command in commands})
    assert len(different) > 3 * len(names)
    words = dict(zip(different, run_shell("\n".join(f"spark-assign {each}" for each in different)), strict=True))
    for name, command in commands:
        if "--details" in command:
            pattern = words[command][words[command].index("--details") + 1]
            assert fnmatch.fnmatchcase(name.replace("\0", "\ufffd"), pattern), (name, command)
            assert pattern != "*x"


def test_settings_of_members(run_shell: Any, seed: int) -> None:
    """java.util.Properties reads the instance ID, and a shell that gets the lines by mistake runs nothing."""
    names = draw(seed, 40)
    groups = test_membership.run(**{name: test_membership.four(restore_ms=60_000) for name in names})
    for row in groups[test_membership.GROUP_ROW]:
        found = javaproperties.loads(row["settings"])
        prefix = re.sub("[^A-Za-z0-9._-]", "-", row["group_id"])[:240]  # Topic.validate refuses other characters
        assert found == {"group.instance.id": f"{prefix}-0"}
    assert len(groups[test_membership.GROUP_ROW]) == len(names)
    assert run_shell("\n".join(row["settings"] for row in groups[test_membership.GROUP_ROW])) == []


@pytest.mark.parametrize("name", NAMES)
def test_settings_in_python(name: str) -> None:
    """Python reads the literal; Go has the same escapes."""
    for library in ("kafka-python", "franz-go", "Sarama"):
        syntax = LIBRARIES[library].templates
        text = syntax.instance.format(syntax.quote(name))
        assert "\n" not in text
        literal = re.search(r'"(?:[^"\\]|\\.)*"', text)
        assert literal is not None
        assert eval(literal[0], {"__builtins__": {}}) == name


def test_shell_commands(run_shell: Any, seed: int) -> None:
    """The broker's settings, and the commands of the daily page, have the group as one argument."""
    names = draw(seed, 40)
    members = [row for row in test_membership.four() if row["table"] != "groups"]
    rows = [*members, test_membership.facts.group(restore_ms=60_000) | {"group_type": "consumer"}]
    params = replace(test_membership.PARAMS, restart_time_ms=39_000, consumer_session_bounds_ms=(45_000, 90_000))
    groups = test_membership.run(params, **dict.fromkeys(names, rows))[test_membership.GROUP_ROW]
    lines, expected = [], []
    for row in groups:
        name, shown = row["group_id"], row["group_id"].replace("\0", "\ufffd")
        commands = settings_commands(name, row["settings"].splitlines(), "")
        lines += [*commands.apply, *commands.verify, *commands.undo]
        servers = ["--bootstrap-server", "b:9092", "--describe", "--group", shown]
        config = ["--entity-name", shown, "--add-config", "consumer.session.timeout.ms=90000"]
        expected += [
            ["--bootstrap-server", "b:9092", "--alter", "--entity-type", "groups", *config],
            [*servers, "--members", "--verbose"],
            [*servers, "--state"],
        ]
    assert len(groups) == len(names)
    assert run_shell("\n".join(lines)) == expected


def test_a_group_that_no_tool_can_name_has_no_commands() -> None:
    """Kafka stores offsets of the empty group ID, and its tools refuse it."""
    assert [group_commands("c", "", kind) for kind in ("classic", "consumer", "share")] == [[]] * 3


def test_names_of_kubernetes() -> None:
    """A valid one stays; others that become alike differ by a hash."""
    assert kubernetes_name("orders-2") == "orders-2"
    changed = [kubernetes_name(name) for name in ("Orders_2", "orders.2", "-orders-2", "\ud800", "", "x" * 64)]
    assert [name[:-9] for name in changed] == ["orders-2", "orders-2", "orders-2", "group", "group", "x" * 40]
    assert len(set(changed)) == len(changed)
    for changed_name in (*changed, kubernetes_name("orders-2-0badcafe")):
        longer = kubernetes_name(changed_name)
        assert longer != changed_name, "it would be the object of another group"
        assert re.fullmatch(r"[a-z0-9-]{1,46}-[0-9a-f]{16}", longer)
        assert len(longer) <= 63


def test_names_of_one_manifest_differ() -> None:
    """Also of two clusters with the same group, and of a group with two assignors."""
    groups = [("a", "orders", "range"), ("b", "orders", "range"), ("b", "orders", "sticky")]
    groups += [("a", "Orders.X", "range"), ("a", kubernetes_name("Orders.X"), "range"), ("a", "alone", "range")]
    sizes = [SIZED | dict(zip(("cluster", "group_id", "assignor"), each, strict=True), reason="") for each in groups]
    found = [each["metadata"]["name"] for each in yaml.safe_load_all(autoscalers(sizes))]
    assert len(set(found)) == len(groups)
    assert found[3:] == ["orders-x-b06fe2e0", kubernetes_name("orders-x-b06fe2e0"), "alone"]


@pytest.mark.parametrize("name", NAMES)
def test_manifests(name: str) -> None:
    """KEDA's objects, one YAML document each, in which the group is a text."""
    row = {**SIZED, "cluster": "c", "group_id": name, "reason": f"Topic {name}"}
    text = "\n---\n".join([autoscaler(row), reason_comment(row), autoscaler(row)])
    documents = [each for each in yaml.safe_load_all(text) if each is not None]
    assert len(documents) == 2
    for document in documents:
        own = document["metadata"]["name"]
        assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", own), "Kubernetes would refuse it"
        assert document["metadata"] == document["spec"]["scaleTargetRef"] == {"name": own}
        assert document["spec"]["triggers"][0]["metadata"]["consumerGroup"] == name
        assert document["spec"]["minReplicaCount"] == 3
        assert set(document) == {"apiVersion", "kind", "metadata", "spec"}
    assert visible(text) == text


def test_diagrams() -> None:
    """One line per statement, without syntax of Mermaid in a label; its codes give the name back."""
    words = {"coordinator", "event"}  # actors of a trace that aren't members
    for name in NAMES:
        text = sequence_diagram(trace([(0, name, "coordinator", "JoinGroup", name), (1, "b", None, "event", name)]))
        lines = text.splitlines()
        assert lines[0] == "sequenceDiagram"
        labels = [line.partition(" as ")[2] for line in lines if re.match(r"    participant m\d as ", line)]
        assert {re.sub(r"#(\d+);", lambda match: chr(int(match[1])), label) for label in labels} == {name, "b"} - words
        statement = r"    (participant \w+ as .*|\w+--?>>\w+: .*|Note over [\w,]+: .*)"
        assert all(re.fullmatch(statement, line) and line.isprintable() for line in lines[1:]), name
        assert not any(re.search(r"[;%{}<$&`\"]|\bend\b", re.sub(r"#\d+;", "", label)) for label in labels)


def test_metrics() -> None:
    """The parser of prometheus-client reads each name back; control characters, such as the U+0000 for which Prometheus
    refuses the whole text, are codes, and no two names become one.
    """
    figures = Figures(run_id="r", groups=[group(1, 5, 85, 58, 26, group_id=name) for name in NAMES])
    text = expose(figures).decode()
    assert all(visible(line) == line for line in text.split("\n"))
    found = [
        sample.labels["group"]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "group" in sample.labels
    ]
    assert sorted(set(found)) == sorted(map(distinct, NAMES))
    assert sorted(map(of_label, set(found))) == sorted(NAMES)


def test_documents(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON, YAML, and CSV of -o: the same rows, and nothing that a terminal obeys."""
    rows = [{"group_id": name, "topics": [name, "t"]} for name in NAMES]
    for format in ("json", "yaml", "csv"):
        run_and_print(format, Outcome("plan"), lambda: len(listed("groups", rows)))
        printed = capsys.readouterr().out
        assert visible(printed) == printed
        if format == "csv":
            cells = [*csv.DictReader(io.StringIO(printed, newline=""))]
            assert len({row["group_id"] for row in cells}) == len(NAMES)
            assert [of_cell(row["group_id"]) for row in cells] == NAMES
            assert [json.loads(re.sub("(?<=;)'(?='*=)", "", row["topics"]))[0] for row in cells] == NAMES
            continue
        assert (json.loads(printed) if format == "json" else yaml.safe_load(printed))["tables"]["groups"] == rows
