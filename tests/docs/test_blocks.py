"""The blocks of the pages that nothing runs, tables and figures in their sentences: held against what they speak of."""

from __future__ import annotations

import csv
import dataclasses
import importlib
import json
import re
import shlex
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from jobs import advise, check, compare, plan, report, snapshot
from spark_assign.assignors import group_facts as group_facts
from spark_assign.groups.kernel.plan_groups import PlanParams, plan_groups
from spark_assign.groups.planning import ENTRY_POINTS
from spark_assign.simulation import Settings
from spark_assign.simulation.scenarios import SCENARIOS
from spark_assign.tables import comparison as comparison_schemas
from spark_assign.tables import connect as connect_schemas
from spark_assign.tables import groups as schemas
from spark_assign.tables import replicas as replica_schemas
from spark_assign.tables import simulation as protocol_schemas
from tests import table_reference
from tests.docs import given, homes
from tests.docs.pages import ROOT, block, others, pages, steps


def sample(table: str) -> list[dict[str, str]]:
    """Rows of the sample fleet, which has no group of Streams and no share group, and no tables of them."""
    path = given.SAMPLE / f"{table}.csv"
    if table in ("subtopologies", "tasks", "initialized"):
        assert not path.exists()
        return []
    with path.open() as file:
        return list(csv.DictReader(file))


def test_the_snapshot_of_the_sample_fleet() -> None:
    """docs/snapshot.md: the figures are those of its tables; what is said around them, tests/kafka compares."""
    *progress, rows, written = block("docs/snapshot.md", "02:31:53 read")
    types = Counter(group["group_type"] for group in sample("groups"))
    described = Counter(g["group_type"] for g in sample("groups") if g["group_id"] in of("members", "group_id"))
    ends = {(row["topic"], row["partition"]) for row in sample("offsets")}
    assert [re.findall(r"\d+", line.partition(" ")[2]) for line in progress] == [
        [str(len(sample("brokers"))), str(len(sample("topics")))],
        [str(len(sample("groups")))],
        *([str(types[kind])] * 2 for kind in ("classic", "consumer")),
        [str(len(sample("groups")))] * 2,
        [str(len(ends))] * 2,
    ]
    assert sum(described.values()) == 17
    snapshot = json.loads((given.SAMPLE / "snapshot.json").read_text())
    assert {line.split()[0] for line in progress} == {snapshot["taken_at"][11:19]}
    topics: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in sample("subscriptions"):
        topics[row["group_id"], row["member_id"]].add(row["topic"])
    lists = {(group, frozenset(names)) for (group, _), names in topics.items()}
    owning = {(row["group_id"], row["member_id"]) for row in sample("owned_slices")}
    lengths = {"subscription_lists": len(lists), "owned_lists": len(owning)}
    lengths |= {table: len(sample(table)) for table in schemas.SNAPSHOT_TABLES if table not in lengths}
    assert rows == "shop-prod: " + ", ".join(f"{lengths[table]} {table}" for table in schemas.SNAPSHOT_TABLES)
    assert written == "written to fleet/cluster=shop-prod"


def of(table: str, column: str) -> set[str]:
    """The values of a column of the sample fleet."""
    return {row[column] for row in sample(table)}


def test_the_environment_of_airflow() -> None:
    """docs/airflow.md: pip installs the provider, which brings the extra `airflow`; the variables name its folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    provider = tomllib.loads((ROOT / "jobs" / "airflow" / "pyproject.toml").read_text())["project"]
    (pip,) = [step for step in steps(ROOT / "docs/airflow.md") if step.words[0] == "pip"]
    assert pip.words[2:] == ["/opt/spark_assign/jobs/airflow"]
    assert set(provider["dependencies"]) > set(project["optional-dependencies"]["airflow"])
    exports = [step.words[1:] for step in steps(ROOT / "docs/airflow.md") if step.words[0] == "export"]
    variables = dict(word.split("=", 1) for words in exports for word in words)
    assert variables["AIRFLOW__CORE__DAGS_FOLDER"].endswith("/jobs/airflow")
    assert json.loads(variables["AIRFLOW_CONN_SPARK_DEFAULT"]) == {"conn_type": "spark", "host": "local[*]"}
    dag = tomllib.loads((ROOT / "conf/airflow.toml").read_text())["dag"][0]
    for step in steps(ROOT / "docs/airflow.md"):
        if step.words[:3] == ["airflow", "dags", "test"]:
            assert step.words[3] == dag["dag_id"]


def test_a_settings_file(tmp_path: Path) -> None:
    """docs/settings.md: the file and the flags that it stands for are the same; those of its table are the jobs'."""
    (tmp_path / "compare.toml").write_text("\n".join(block("docs/settings.md", "top = 20")))
    page = (ROOT / "docs" / "settings.md").read_text()
    (variables,) = re.findall(r"^This file is equivalent to `compare (.+)`\.$", page, re.MULTILINE)
    by_file = vars(compare.main.parse(["--config", str(tmp_path / "compare.toml")]))
    by_flags = vars(compare.main.parse(shlex.split(variables)))
    for name in ("top", "what_if"):
        assert by_file[name] == by_flags[name]
    assert by_file["fleet"] == str(tmp_path / by_flags["fleet"])
    jobs = (advise, check, compare, report, snapshot)
    flags = {flag for job in jobs for each in job.main.params for flag in each.opts}
    for row in table("docs/settings.md", "| flag | in every job"):
        assert set(re.findall(r"--[a-z-]+", row[0])) <= flags


def test_settings_that_say_who_leads(tmp_path: Path) -> None:
    """docs/libraries.md: taken by the job plan."""
    file = tmp_path / "plan.toml"
    file.write_text("\n".join([*block("docs/libraries.md", "[[leader_client"), '[fleet]\nlocation = "./fleet"']))
    assert plan.main.parse(["--config", str(file)]).leader_client == {"billing-*": "Java@2.8"}


def test_the_entry_point_of_a_package() -> None:
    """docs/weighted.md: of the name that is looked for."""
    (name,) = tomllib.loads("\n".join(block("docs/weighted.md", "[project")))["project"]["entry-points"]
    assert name == ENTRY_POINTS


def test_the_bundle_has_what_its_commands_name() -> None:
    """docs/databricks.md: variables, targets, jobs and their parameters."""
    bundle = pytest.importorskip("yaml").safe_load((ROOT / "databricks.yml").read_text())
    for step in (step for page in pages() for step in steps(page)):
        if step.language != "sh" or step.words[:2] != ["databricks", "bundle"]:
            continue
        words = iter(step.words[2:])
        verb, parameters = next(words), {}
        if verb == "deployment":
            assert next(words) == "bind"
            assert any(step.words[4] in each for each in bundle["resources"].values()), str(step)
            words = iter(step.words[6:])
        job = bundle["resources"]["jobs"][next(words)] if verb == "run" else None
        for word in words:
            value = next(words)
            if word == "--params":
                parameters = dict(each.split("=") for each in value.split(","))
            else:
                assert word in ("--var", "--target"), str(step)
                assert value.split("=")[0] in bundle[{"--var": "variables", "--target": "targets"}[word]], str(step)
        assert set(parameters) <= {each["name"] for each in (job or {}).get("parameters", ())}, str(step)


def test_benchmarks_take_what_their_commands_give() -> None:
    """docs/benchmarks.md and its figures: names and options of `python -m benchmarks`."""
    source = (ROOT / "benchmarks/__main__.py").read_text()
    listed = set(re.findall(r"^\| `([a-z-]+)` \|", (ROOT / "docs/benchmarks.md").read_text(), re.M))
    for text in re.findall(r"python -m benchmarks([^\n`#]*)", (ROOT / "docs/benchmarks.md").read_text()):
        for word in shlex.split(text):
            if word.startswith("--"):
                assert f'"{word}"' in source
            elif re.fullmatch("[a-z-]+", word):
                assert word in listed
    assert all(f'"{name}"' in source or f"{name.replace('-', '_')}" in source for name in listed)


def table(page: str, head: str) -> list[list[str]]:
    """The cells of the rows of a page's table, by how its head begins."""
    lines = (ROOT / page).read_text().splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith(head)]
    rows = []
    for line in lines[at + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]])
    return rows


def agree(page: str, name: str, cell: str, schema: StructType) -> None:
    """Exactly the columns of the table, and marked with `?` just those that may be null."""
    names = [each.split() for each in re.sub(r"\([^)]*\)", "", cell).split(",")]
    plain = {words[0].rstrip("?"): any(word.endswith("?") for word in words) for words in names}
    assert plain == {field.name: field.nullable for field in schema}, f"{page}: {name}"


def each_of(names: str, cells: str) -> Iterable[tuple[str, str]]:
    """The tables of a row that has several."""
    names = re.sub(r"\([^)]*\)", "", names).replace(", or ", ", ")
    return zip([name.strip() for name in names.split(",")], cells.split(";"), strict=True)


def test_tables_of_a_fleet() -> None:
    """docs/plan.md: their columns, and what may be empty."""
    seen = set()
    for names, cells in table("docs/plan.md", "| table | columns"):
        for name, cell in each_of(names, cells):
            seen.add(name)
            if name == "owned_slices":
                assert cell.strip() == "or first, step, count instead of partition"
                assert set(schemas.INPUT_TABLES[name].names) == {
                    *schemas.INPUT_TABLES["owned"].names,
                    *("first", "step", "count"),
                } - {"partition"}
            else:
                agree("docs/plan.md", name, cell, schemas.INPUT_TABLES[name])
    assert seen == set(schemas.INPUT_TABLES) - {"departed"}


def test_the_table_of_loads() -> None:
    """docs/loads.md: its columns, what may be null, and that each figure is told."""
    ((name, cell),) = table("docs/loads.md", "| table | columns")
    agree("docs/loads.md", name, cell, schemas.INPUT_TABLES[name])
    figures = [row[0] for row in table("docs/loads.md", "| column | unit")]
    assert figures == [field.name for field in schemas.LOADS if field.nullable][1:]


def test_tables_of_a_plan() -> None:
    """docs/plan.md and docs/what-if.md: those that there are."""
    assert {row[0] for row in table("docs/plan.md", "| table | one row per |")} == {*schemas.PLAN_TABLES, "plan_rows"}
    assert {row[0] for row in table("docs/what-if.md", "| table | a row is |")} == set(comparison_schemas.DRIFT_TABLES)


def test_settings_to_apply() -> None:
    """docs/change.md: each is one that another page explains or that the advice names."""
    pages_and_code = [*(ROOT / "docs").glob("*.md"), *(ROOT / "spark_assign").rglob("*.py")]
    known = "\n".join(file.read_text(encoding="utf-8") for file in pages_and_code if file.name != "change.md")
    named = [line for each in others(ROOT / "docs/change.md") for line in each.lines]
    assert [line for line in named if line.partition("=")[0] not in known] == []


def test_messages_of_the_troubleshooting_page() -> None:
    """docs/troubleshooting.md: each message is one of the package, of a job, or of the launcher."""
    files = [file for folder in ("spark_assign", "jobs", "conf") for file in (ROOT / folder).rglob("*.py")]
    scripts = [ROOT / name for name in ("spark-assign", "spark-submit.sh", "conf/launcher.sh")]
    joined = re.sub(r'"\s*\n\s*f?"', "", "\n".join(file.read_text(encoding="utf-8") for file in [*files, *scripts]))
    cells = re.findall(r"^\| (`.*?`) \|", (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8"), re.M)
    parts = [part.strip() for cell in cells for text in re.findall(r"`([^`]+)`", cell) for part in text.split("…")]
    assert len(parts) > 30
    assert [part for part in parts if part not in joined] == []


def test_the_reference_of_tables() -> None:
    """docs/tables.md is what `python -m tests.table_reference` writes, and has each table of each module."""
    assert table_reference.PAGE.read_text(encoding="utf-8") == table_reference.page()
    modules = {file.stem for file in (ROOT / "spark_assign" / "tables").glob("[a-z]*.py")}
    no_tables = "counted_nouns errors own_groups parameters quoting schema_check schema_fields stored_plan views"
    assert set(table_reference.AREAS) == modules - set(no_tables.split())


def test_the_life_of_a_group() -> None:
    """docs/architecture.md: the facts of the example, and the plan rows that the kernels make of them."""
    facts, rows = (block("docs/architecture.md", f"kind{' ' * width}member_id  topic") for width in (10, 11))
    kinds = {name: getattr(group_facts, name) for name in ("MEMBER", "SUBSCRIPTION", "OWNED_SLICE")}
    names = ("member_id", "topic", "partitions", "first", "step", "count")
    records = []
    for kind, *values in (line.split() for line in facts[1:]):
        typed = (int(value) if value.isdigit() else value for value in values)
        records.append({"cluster": "c", "group_id": "g", "kind": kinds[kind], **dict(zip(names, typed, strict=False))})
    table_of_facts = pa.Table.from_pylist(records, schema=pa.schema(group_facts.FACT_TYPES))
    params = PlanParams((("*", "cooperative-sticky"),), ("cooperative-sticky",))
    found = [row for each in plan_groups(table_of_facts, params) for row in each.to_pylist()]
    columns = (("kind", "member_id", "topic", "first", "step", "count"), ("kind", "topic", *CHANGED_TOPIC_LISTS))
    drawn = {" ".join(f"{_text(row[name])}" for name in of_kind) for row in found for of_kind in columns}
    shown = [" ".join(line.split()) for line in rows if line.strip() and not line.startswith("kind")]
    assert len(shown) == 3
    assert set(shown) <= drawn


CHANGED_TOPIC_LISTS = ("member_ids", "member_flags", "owned", "planned")


def _text(value: object) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)


def test_tables_of_connect() -> None:
    """docs/connect.md: their columns, and what may be null."""
    seen = set()
    for name, cell in table("docs/connect.md", "| table | columns"):
        name = name.removesuffix(" (optional)")
        seen.add(name)
        agree("docs/connect.md", name, cell, connect_schemas.INPUT_TABLES[name])
    assert seen == set(connect_schemas.INPUT_TABLES)


def test_tables_of_a_placement() -> None:
    """docs/operate.md: their columns, and what may be null."""
    of_place = {"requests": replica_schemas.REQUESTS, "brokers": replica_schemas.BROKERS}
    rows = table("docs/operate.md", "| table | columns")
    assert {row[0] for row in rows} == set(of_place)
    for name, cell in rows:
        agree("docs/operate.md", name, cell, of_place[name])


def test_settings_of_a_simulation() -> None:
    """docs/simulate.md: every time with its default."""
    defaults = {each.name: each.default for each in dataclasses.fields(Settings)}
    rows = table("docs/simulate-rules.md", "| `Settings` | Kafka | default |")
    assert [row[0] for row in rows] == [name for name in defaults if name not in ("groups", "members", "partitions")]
    assert defaults.pop("rebalance_timeout_ms") is None
    assert {row[0]: row[2] for row in rows}["rebalance_timeout_ms"] == "max_poll_interval_ms"
    assert defaults.pop("group_consumer_assignment_interval_ms") is None
    assert {row[0]: row[2] for row in rows}["broker_release"] == defaults.pop("broker_release")
    assert all(int(row[2].replace(",", "")) == defaults[row[0]] for row in rows if row[0] in defaults)


def test_events_of_a_simulation() -> None:
    """docs/simulate.md: the table is the one that the schema has, and its scenarios are those that there are."""
    in_schema = re.search(r"^\| event \|.*?\n\n", (ROOT / "spark_assign/tables/simulation.py").read_text(), re.M | re.S)
    assert in_schema is not None
    plain = re.findall(r"[a-z_-]+|\d+", re.sub(r"\W*[(:][^|]*", " ", in_schema[0]))
    rows = table("docs/simulate-rules.md", "| event | needs |")
    assert {name.strip("` ") for row in rows for name in row[0].split(",")} <= set(plain)
    for row in rows:
        for name in re.findall(r"\b[a-z]+_[a-z_]+\b", " ".join(row[1:])):
            assert name in protocol_schemas.EVENTS.names, row
    assert {row[0].strip("`") for row in table("docs/simulate.md", "| `simulate` |")} == set(SCENARIOS)


def test_files_and_names_that_the_pages_speak_of() -> None:
    """A path in a sentence is there, and what is called spark_assign.… can be imported."""
    for page in pages():
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        root = ROOT / "tests" if page.name == "rules-index.md" else ROOT  # its columns are "files in `tests/`"
        for code in re.findall(r"`([^`\s]+)`", text):
            if re.fullmatch(r"(spark_assign|tests|jobs|conf|docs)/[\w./-]+", code) and "NAME" not in code:
                assert (root / code).exists(), f"{page.name}: {code}"
            found = re.match(r"spark_assign(\.[a-z_]+)+", code)
            if found:
                assert _is_there(found[0]), f"{page.name}: {code}"


def _is_there(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), attribute) or bool(importlib.import_module(name))
    except ImportError:
        return False


def test_commands_of_other_tests_are_run() -> None:
    """Each command that needs Kafka belongs to a test that asks for it."""
    for step in homes.steps_at(homes.KAFKA):
        test = ROOT / homes.KAFKA / f"{homes.needs_kafka(step)}.py"
        assert re.search(rf'documented\.steps\("{homes.needs_kafka(step)}"', test.read_text()), str(step)


def test_the_commands_of_the_symptoms() -> None:
    """docs/questions.md: each command of its tables has the options of its job, and is one of a kind on its line."""
    rows = [line for line in (ROOT / "docs/questions.md").read_text().splitlines() if line.startswith("| ")]
    command = r"`([a-z]+(?: \w\S*)* --[^`]*)`"
    found = [shlex.split(text) for row in rows for text in re.findall(command, row)]
    assert len(found) > 30
    for job, *words in found:
        main = importlib.import_module(f"jobs.{job}").main
        if words[0] in main.commands:
            main, words = main.commands[words[0]], words[1:]
        main.parse(words)
