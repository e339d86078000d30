"""Every column of every table that a command reads, with every damage: exit code 2 that names it, or an answer.

One list has all cases, of which each run draws some. Three of its kinds differ in what can go wrong: a file that isn't
as its schema says is read by itself; a row with a value of the right type goes through commands, one damage in each of
many clusters; and a stored run is read by the commands that take one.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import json
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, BooleanType, DataType, StringType, StructType

from spark_assign.cli.mcp_questions import Questions
from spark_assign.sources.files.tables import Shape, read_checked_tables
from spark_assign.spark.dataframes import spark_type, to_arrow_schema, to_arrow_type
from spark_assign.tables.errors import SparkAssignError, find_fault
from spark_assign.tables.groups import INPUT_TABLES, OPTIONAL_SNAPSHOT_TABLES, SCHEMA_VERSION, SNAPSHOT_TABLES
from spark_assign.tables.replicas import BROKERS, CAPACITIES, REQUESTS, SIZES
from spark_assign.tables.simulation import EVENTS
from tests.frames import merged
from tests.sizes import drawn

pytestmark = [pytest.mark.spark, pytest.mark.once]

Rows = list[dict[str, Any]]
Captured = tuple[pytest.CaptureFixture[str], pytest.LogCaptureFixture]

SCHEMAS: dict[str, StructType] = {
    **(SNAPSHOT_TABLES | OPTIONAL_SNAPSHOT_TABLES | INPUT_TABLES),
    "brokers": BROKERS,
    "requests": REQUESTS,
    "sizes": SIZES,
    "capacities": CAPACITIES,
    "events": EVENTS,
}
TOPICS = {"t": 4, "u": 4, "__consumer_offsets": 2, "o": 4, "x": 2}
GROUPS = {"g": ("range", "classic"), "h": ("cooperative-sticky", "classic"), "k": ("uniform", "consumer")} | {
    "sh": (None, "share"),
    "st": (None, "streams"),
}
SUBSCRIBED = {"g": "tu", "h": "tu", "k": "t", "sh": "x", "st": "o"}
ALTERNATIVES = {"subscription_lists": "subscriptions", "owned": "owned_slices", "owned_lists": "owned_slices"}
"""Tables that a fleet has only instead of others."""
ALL_PARTITIONS = [(topic, number) for topic, count in TOPICS.items() for number in range(count)]
MEMBERS = [(group, member) for group in GROUPS for member in (0, 1)]


def fleet(cluster: str) -> dict[str, Rows]:
    """A small fleet with a group of each kind, and a value in almost every column."""
    owners = [(g, m, topics) for g, m in MEMBERS if g != "st" for topics in [SUBSCRIBED[g]]]
    key = {"cluster": cluster}
    tables: dict[str, list[dict[str, Any]]] = {
        "topics": [
            {"topic": topic, "partitions": count, "topic_id": topic, "cleanup_policy": "delete"}
            for topic, count in TOPICS.items()
        ],
        "members": [
            {"group_id": g, "member_id": f"{g}{m}", "client_id": f"c{m}", "client_host": "/127.0.0.1", "position": m}
            | {"rack_id": f"r{m + 1}", "generation_id": 3, "user_data_generation_id": 3, "error_code": None}
            | {"group_instance_id": f"i{m}" if g == "g" else None}
            | ({"process_id": f"p{m}", "client_tags": ["zone=a"]} if g == "st" else {})
            for g, m in MEMBERS
        ],
        "subscriptions": [
            {"group_id": g, "member_id": f"{g}{m}", "topic": topic} for g, m in MEMBERS for topic in SUBSCRIBED[g]
        ],
        "subscription_lists": [
            {"group_id": g, "member_ids": [f"{g}0", f"{g}1"], "topics": list(topics)}
            for g, topics in SUBSCRIBED.items()
        ],
        "owned": [
            {"group_id": g, "member_id": f"{g}{m}", "topic": topic, "partition": number, "position": number}
            for g, m, topics in owners
            for topic in topics
            for number in range(m, TOPICS[topic], 2)
        ],
        "owned_slices": [
            {"group_id": g, "member_id": f"{g}{m}", "topic": topic, "first": m, "step": 2, "count": TOPICS[topic] // 2}
            | {"position": at}
            for g, m, topics in owners
            for at, topic in enumerate(topics)
        ],
        "owned_lists": [
            {"group_id": g, "member_id": f"{g}{m}", "topics": list(topics), "firsts": [m] * len(topics)}
            | {"steps": [2] * len(topics), "counts": [TOPICS[topic] // 2 for topic in topics]}
            | {"positions": [*range(len(topics))]}
            for g, m, topics in owners
        ],
        "replicas": [
            {"topic": topic, "partition": p, "replicas": [1 + p % 3, 1 + (p + 1) % 3], "leader_id": 1 + p % 3}
            | {"end_offset": 100, "bytes": 1_000}
            for topic, p in ALL_PARTITIONS
        ],
        "brokers": [
            {"broker_id": b, "rack_id": f"r{b}", "cordoned": False, "offline_log_dirs": 0, "fenced": False}
            for b in (1, 2, 3)
        ],
        "groups": [
            {"group_id": g, "assignor": assignor, "group_type": kind, "state": "Stable", "capacity": 150.0}
            | {"leader_library": "Java", "leader_version": "4.1", "leader_confidence": "given", "load_bound": 1.5}
            | ({"standby_replicas": 1, "streams_config": ["num.standby.replicas=1"]} if g == "st" else {})
            for g, (assignor, kind) in GROUPS.items()
        ],
        "subtopologies": [
            {"group_id": "st", "subtopology": each, "partitions": 4, "stateful": each == "1", "source_topics": ["o"]}
            | {"changelog_topics": ["log"] if each == "1" else []}
            for each in "01"
        ],
        "tasks": [
            {"group_id": "st", "member_id": f"st{task % 2}", "subtopology": each, "task": task, "role": "active"}
            | {"changelog_offset": 10}
            for each in "01"
            for task in range(4)
        ],
        "changelogs": [
            {"group_id": "st", "topic": "log", "partition": p, "end_offset": 20, "bytes": 100} for p in range(4)
        ],
        "initialized": [{"group_id": "sh", "topic": "x", "first": 0, "step": 1, "count": 2}],
        "loads": [
            {"topic": topic, "partition": p, "group_id": group, "in_messages_per_second": 100.0 + p, "lag": 7}
            | {"in_messages_per_second_stddev": 5.0, "out_messages_per_second": 90.0, "in_bytes_per_second": 1_000.0}
            for topic, p in ALL_PARTITIONS
            for group in ((None, "g") if topic == "t" else (None,))
        ],
        "undescribed": [{"group_id": "un", "error": "GroupAuthorizationFailed"}],
        "offsets": [
            {"group_id": g, "topic": "t", "partition": p, "committed_offset": 90, "end_offset": 100, "lag": 10}
            for g in "ghk"
            for p in range(4)
        ],
        "log_dirs": [
            {"broker_id": b, "log_dir": each, "total_bytes": 100_000, "usable_bytes": 50_000, "cordoned": False}
            for b in (1, 2, 3)
            for each in ("/a", "/b")
        ],
        "log_dir_replicas": [
            {"topic": topic, "partition": p, "broker_id": b, "log_dir": "/a", "bytes": 1_000, "is_future": False}
            | {"offset_lag": 0}
            for topic, p in ALL_PARTITIONS
            for b in (1 + p % 3, 1 + (p + 1) % 3)
        ],
        "requests": [
            {
                "topic": "new",
                "partitions": 3,
                "replication_factor": 2,
                "start_index": 0,
                "start_partition": 0,
                "seed": 1,
            }
        ],
        "events": [
            *({"group_id": g, "at_ms": 1_000, "event": "member-leaves", "member_id": f"{g}0"} for g in "ghk"),
            {"group_id": "g", "at_ms": 2_000, "event": "member-joins", "member_id": "g9", "topics": ["t"]}
            | {"group_instance_id": "i9", "assignors": ["range"]},
            {"at_ms": 60_000, "event": "partitions-added", "topic": "t", "partitions": 2},
            {"group_id": "h", "at_ms": 70_000, "event": "rolling-restart", "down_ms": 2_000, "delay_ms": 100}
            | {"parallelism": 1, "pause_ms": 10},
        ],
        "sizes": [{"topic": "t", "partition": p, "bytes": 1_000} for p in range(4)],
        "capacities": [
            {"broker_id": b, "disk_bytes": 100_000, "in_bytes_per_second": 10_000, "out_bytes_per_second": 10_000}
            for b in (1, 2, 3)
        ],
    }
    whole = {name: dict.fromkeys(SCHEMAS[name].names) | key for name in tables}
    return {name: [{**whole[name], **row} for row in rows] for name, rows in tables.items()}


READERS = {
    "advise": "advise --capacity *=150 --details * --fleet",
    "balance": "replicas reassign --balance leader-in=0.05,in,disk,count,log-dirs --fleet",
    "check": "replicas check --fleet",
    "compare": "compare --what-if less=leave:*:1 --fleet",
    "daily": "daily --no-snapshot --no-history --output ./daily --run-id r --fleet-dir",
    "details": "plan --details * --fleet",
    "diff": "diff --after ./other --before",
    "joins": "plan --what-if join:*:1 --fleet",
    "membership": "advise membership --details * --fleet",
    "migrate": "migrate --library Java --details * --fleet",
    "operate": "replicas operate --restart all --fleet",
    "place": "replicas place --fleet",
    "plan": "plan --output ./plans --run-id r --fleet",
    "reassign": "replicas reassign --remove 3 --replication-factor *=2 --partitions-per-batch 2 --fleet",
    "simulate": "simulate --compare --fleet",
    "size": "advise size --capacity *=150 --keda --details * --fleet",
    "to-cooperative": "migrate to-cooperative c0/g --fleet",
    "to-release": "migrate to-release 4.0 --details * --fleet",
    "unused": "advise unused --fleet",
    "weighted": "plan --assignor weighted-sticky --fleet",
    "zones": "advise zones --details * --fleet",
}
READ = {
    "topics": "plan compare migrate simulate diff unused operate daily",
    "members": "plan joins migrate to-release membership zones diff operate advise size simulate unused daily",
    **dict.fromkeys(("subscriptions", "subscription_lists"), "plan joins compare unused diff advise"),
    **dict.fromkeys(
        ("owned", "owned_slices", "owned_lists"), "plan compare diff simulate to-cooperative membership unused"
    ),
    "replicas": "plan check reassign balance zones unused operate daily",
    "brokers": "plan check reassign zones place operate balance",
    "groups": "plan migrate to-release advise diff unused size operate daily to-cooperative",
    "subtopologies": "plan advise diff to-release unused",
    "tasks": "plan advise diff unused daily",
    "changelogs": "plan advise unused daily",
    "initialized": "plan advise size diff unused",
    "loads": "weighted size zones balance advise plan unused operate",
    "undescribed": "plan diff advise unused daily",
    "offsets": "unused details daily",
    **dict.fromkeys(("log_dirs", "log_dir_replicas"), "check balance reassign"),
    "requests": "place",
    "events": "simulate",
    "capacities": "balance",
    "sizes": "balance reassign",
}
"""By table: the commands that read it differently."""
RUNS = {
    "plans": (
        "plan --output-tables assignments,assignment_slices,moves,revocations,metrics,rejected --fleet",
        "report --output-file r.html --plan",
        "check --openmetrics m.txt --max-growth 1.1 --plan",
    ),
    "compared": ("compare --what-if less=leave:*:1 --fleet", "report --output-file r.html --comparison"),
    "simulated": ("simulate --store-trace --fleet", "report --output-file r.html --simulation"),
    "variants": ("simulate --compare --fleet", "report --output-file r.html --simulation"),
    "moved": (
        "replicas reassign --remove 3 --replication-factor *=2 --partitions-per-batch 5 --fleet",
        "report --output-file r.html --replicas",
        "replicas check --fleet ./sound --plan",
    ),
    "checked": ("replicas check --fleet", "report --output-file r.html --replicas"),
    "operated": ("replicas operate --restart all --fleet", "report --output-file r.html --replicas"),
    "changed": ("diff --after ./other --before", "report --output-file r.html --drift"),
    "advised": ("advise --capacity *=150 --fleet", "report --output-file r.html --advice"),
    "history": (
        "history --commit-gap 3s --deploy-gap 20s --replay --sample",
        "report --output-file r.html --history",
        "check --max-rebalances-per-day 1 --max-pause 1s --history",
        "history --details * --history",
        "replicas operate --fleet ./sound --restart all --history",
    ),
}
"""By folder: the command that stores a run in it, and those that read the run."""

VALUES: dict[str, Any] = {
    "null": None,
    "text": "x",
    "empty": "",
    "zero": 0,
    "negative": -1,
    "fraction": 1.5,
    "true": True,
}
VALUES |= {"2^31": 1 << 31, "2^63": 1 << 63, "int": (1 << 31) - 1, "long": (1 << 63) - 1, "NUL": "a\0b\n\x1b[2J"}
VALUES |= {name: float(name) for name in ("nan", "inf", "-inf", "1e308", "5e-324")}
VALUES |= {"list": [1], "texts": ["a", "a"], "no list": [], "null in list": [None], "object": {"a": 1}}
TIME = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
TYPES: dict[str, Callable[[int], pa.Array]] = {
    "string": lambda n: pa.array(["x"] * n),
    "int8": lambda n: pa.array([1] * n, pa.int8()),
    "int64": lambda n: pa.array([1] * n),
    "uint64": lambda n: pa.array([1] * n, pa.uint64()),
    "double": lambda n: pa.array([1.5] * n),
    "float": lambda n: pa.array([1.5] * n, pa.float32()),
    "bool": lambda n: pa.array([True] * n),
    "timestamp": lambda n: pa.array([TIME] * n, pa.timestamp("us", "UTC")),
    "timestamp_ns": lambda n: pa.array([TIME] * n, pa.timestamp("ns")),
    "date": lambda n: pa.array([TIME.date()] * n),
    "time": lambda n: pa.array([TIME.time()] * n),
    "duration": lambda n: pa.array([datetime.timedelta(1)] * n),
    "decimal": lambda n: pa.array([decimal.Decimal("1.50")] * n),
    "decimal256": lambda n: pa.array([decimal.Decimal(1)] * n, pa.decimal256(50)),
    "list": lambda n: pa.array([["x"]] * n),
    "list of ints": lambda n: pa.array([[1]] * n),
    "fixed list": lambda n: pa.array([[1]] * n, pa.list_(pa.int32(), 1)),
    "list of structs": lambda n: pa.array([[{"a": 1}]] * n),
    "struct": lambda n: pa.array([{"a": 1}] * n),
    "map": lambda n: pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int32())),
    "dictionary": lambda n: pa.array(["x"] * n).dictionary_encode(),
    "dictionary of ints": lambda n: pa.array([1] * n).dictionary_encode(),
    "null": pa.nulls,
    "binary": lambda n: pa.array([b"x\xff"] * n),
}
OF_ENGINES = re.compile(
    r"Traceback|Exception|Arrow|DataFusion|Sail\b|Py4J|\b(java|org|scala)\.[a-z]+\.|NoneType|Errno|Rust|pyarrow|Utf8|"
    r"\b(Key|Type|Value|Attribute|Index|Cast|Overflow)Error|Cast error|\bInt(32|64)\b|object at 0x"
)
NO_VALUE = re.compile(r"\b(None|nan|NaN|NaT|inf)\b(?! (of|contradicts)|\. Rates and lags are numbers)")
"""What Python and Arrow write instead of a value. Two sentences of a page start with `None`.

A load that rejects a group is named as it was given."""


SCOPES = {"one": 1, "all": None}
"""Of how many of the first rows a value is replaced."""
RESIZED: dict[str, Callable[[list[Any]], list[Any]]] = {
    "longer": lambda each: each * 2,
    "shorter": lambda each: each[1:],
}
"""Lists of another length than the other lists of their row."""


def can_have(kind: DataType | None, value: Any) -> bool:
    """Whether a column of this type can have the value."""
    if kind is None or value is None or isinstance(kind, ArrayType) != isinstance(value, list):
        return value is None
    if isinstance(kind, StringType) != isinstance(value, str) or isinstance(value, bool) != (kind == BooleanType()):
        return False
    with suppress(ValueError, TypeError, OverflowError, pa.ArrowException):
        return bool(pa.array([value], to_arrow_type(kind)))
    return False


def names_it(text: str, *names: str) -> None:
    """Checks that an error names what it is about, and has no text of an engine."""
    assert not (found := OF_ENGINES.search(text)), (found, text)
    assert all(re.search(rf"\b{name}\b", text, re.IGNORECASE) for name in names), (names, text)
    assert text.count(". ") or "\n" in text, f"no remedy: {text}"


def damaged_files() -> list[tuple[str, str, str, str]]:
    """Every table, column, damage, and format of a file."""
    values = [f"{scope} {value}" for scope in SCOPES for value in VALUES]
    of_formats = {"csv": values, "json": values, "parquet": [*TYPES]}
    return [
        (table, column, damage, form)
        for table in fleet("c")
        for column in SCHEMAS[table].names
        for form, more in of_formats.items()
        for damage in ("dropped", "upper case", *more)
    ]


def as_csv(value: Any) -> str | None:
    """The text of a value in csv."""
    return None if value is None else json.dumps(value) if isinstance(value, list | dict) else str(value).strip("\0")


def test_every_column_of_every_file(spark: SparkSession, tmp_path: Path, rng: Random) -> None:
    """A column has all values of the file, or the error names table and column; no value becomes null."""
    cases, tables = damaged_files(), fleet("c")
    for table, column, damage, form in rng.sample(cases, min(drawn(60, 600), len(cases))):
        schema, rows, file = SCHEMAS[table], [dict(row) for row in tables[table]], tmp_path / f"{table}.{form}"
        scope, _, word = damage.partition(" ")
        for row in rows[: SCOPES.get(scope)] if scope in SCOPES else ():
            row[column] = VALUES[word]
        names = {name: name.upper() if damage == "upper case" and name == column else name for name in schema.names}
        names = {name: shown for name, shown in names.items() if damage != "dropped" or name != column}
        if form == "csv":
            with file.open("w", newline="") as opened:
                csv.writer(opened).writerows([names.values(), *([as_csv(row[each]) for each in names] for row in rows)])
        elif form == "json":
            file.write_text("".join(json.dumps({names[each]: row[each] for each in names}) + "\n" for row in rows))
        else:
            whole = arrow(table, rows).select(list(names))
            if damage in TYPES:
                whole = whole.set_column(whole.schema.get_field_index(column), column, TYPES[damage](len(rows)))
            pq.write_table(whole.rename_columns(list(names.values())), file)
        case = f"{table}.{column}, {damage}, {form}"
        try:
            read = read_checked_tables(spark, Shape("A fleet", {table: schema}, (table,)), str(tmp_path))[table]
            found = read.first()
            assert found is not None or names_its_group(table, column, scope, None), case
            wanted = None if damage in ("dropped", "null") or scope not in SCOPES else VALUES[word]
            value = "left out" if found is None else found[column]
            assert value is not None or wanted in (None, "", []) or (form, word) == ("csv", "NUL"), case
        except (SparkAssignError, PySparkException) as error:
            text = str(error if isinstance(error, SparkAssignError) else find_fault(error))
            # A file of a type that Spark lacks is refused as a whole: its error names the type, but no column.
            names_it(text, table, rf"{column}|\w+_TYPE\w*\] |Decimal precision 50" if damage in TYPES else column)
        file.unlink()


def arrow(table: str, rows: Rows) -> pa.Table:
    """Rows of a table, of which each column can have nulls."""
    schema = pa.schema([pa.field(each.name, each.type) for each in to_arrow_schema(SCHEMAS[table])])
    return pa.Table.from_pylist(rows, schema=schema)


def called(capture: Captured, words: str, *more: str) -> tuple[int, str, str]:
    """Calls a command; returns its exit code, what it printed, and its messages.

    Paths that begin with ./ are in the folder of `capture`, which isn't that of the JVM.
    """
    capsys, caplog = capture
    job, *others = (str(Path(each).absolute()) if each.startswith("./") else each for each in [*words.split(), *more])
    caplog.clear()
    code = import_module(f"jobs.{job}").main(others)
    out, err = capsys.readouterr()
    text = "\n".join([*(each for each in caplog.messages if not each.startswith("engine: ")), err])
    assert code in (0, 1, 2), (words, code, text)
    return code, out, text


@pytest.fixture
def capture(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> Captured:
    """What a command prints and logs, in a folder with the fleets `sound` and `other`."""
    monkeypatch.chdir(tmp_path)
    sound = {name: rows for name, rows in fleet("c0").items() if name not in ("sizes", *ALTERNATIVES)}
    written(Path("sound"), sound)
    written(Path("other"), {name: rows[:-1] or rows for name, rows in sound.items()})
    return capsys, caplog


def written(folder: Path, tables: Mapping[str, Rows]) -> None:
    """Writes a fleet as Parquet files."""
    folder.mkdir()
    summary = {"schema_version": SCHEMA_VERSION, "cluster": "c0", "taken_at": "2026-11-20T00:00:00+00:00", "rows": {}}
    (folder / "snapshot.json").write_text(json.dumps(summary | {"source": {"kind": "kafka"}}))
    for name, rows in tables.items():
        pq.write_table(arrow(name, rows), folder / f"{name}.parquet")


def damaged_rows(table: str) -> list[tuple[str, str, Any]]:
    """Every damage of rows that a table with the right types can have: column, scope, and value."""
    fields = [field for field in SCHEMAS[table] if field.name != "cluster"]
    values = [
        (f.name, scope, v) for f in fields for v in VALUES.values() if can_have(f.dataType, v) for scope in SCOPES
    ]
    lists = [field.name for field in fields if isinstance(field.dataType, ArrayType)]
    values += [(name, scope, change) for name in lists for scope in SCOPES for change in RESIZED]
    return [*values, *(("*", scope, change) for scope in SCOPES for change in ("twice", "lost"))]


def damaged(rows: Rows, column: str, scope: str, value: Any) -> Rows:
    """Rows with a damage of `damaged_rows`."""
    first, rest = rows[: SCOPES[scope]], rows[len(rows[: SCOPES[scope]]) :]
    if value in [*RESIZED]:
        return [*({**row, column: RESIZED[value](row[column] or [])} for row in first), *rest]
    if column != "*":
        return [*({**row, column: value} for row in first), *rest]
    return [*first, *rows] if value == "twice" else rest


@pytest.mark.parametrize("at", range(drawn(2, 10)))
def test_every_value_through_commands(capture: Captured, rng: Random, at: int) -> None:
    """One damage in each of many clusters. An error names a row of one of them; without these, no other is affected."""
    pairs = [(table, name) for table, names in READ.items() for name in names.split()]
    for table, name in rng.sample(pairs, drawn(1, 3)):
        damages = damaged_rows(table)
        cases = dict(enumerate(rng.sample(damages, min(drawn(12, 40), len(damages))), 1))
        left_out = {*ALTERNATIVES, "sizes"} - {table} | {ALTERNATIVES.get(table, "")}
        code = 2
        while code == 2:
            fleets = {0: fleet("c0")} | {key: fleet(f"c{key}") for key in cases}
            for key, case in cases.items():
                fleets[key][table] = damaged(fleets[key][table], *case)
            tables = merged(fleets.values())
            for folder in ("fleet", "plans", "daily"):
                shutil.rmtree(folder, ignore_errors=True)
            written(Path("fleet"), {name: rows for name, rows in tables.items() if name not in left_out})
            code, out, text = called(capture, f"{READERS[name]} ./fleet")
            if code == 2:
                names_it(text, table)
                faulty = {int(key) for key in re.findall(r"\bcluster=c(\d+)", text)} & cases.keys()
                assert faulty, (name, cases, text)
                of_groups = {key: cases[key] for key in faulty if names_its_group(table, *cases[key])}
                assert not of_groups, (table, name, of_groups, text)
                cases = {key: case for key, case in cases.items() if key not in faulty}
        assert not (found := NO_VALUE.search(out)), (table, name, cases, found, out)
        if name == "plan":
            groups = groups_of(Path("plans"))
            assert {group for cluster, group in groups if cluster == "c0"} == {*GROUPS, "un"}
            for key, (column, _, value) in cases.items():
                of_cluster = {group for cluster, group in groups if cluster == f"c{key}"}
                assert {*GROUPS, "un"} <= of_cluster or column == "group_id" or value == "lost", (table, cases[key])


def test_a_row_of_offsets_costs_its_group(spark: SparkSession, capture: Captured) -> None:
    """Without a topic or a partition in a row, the lag of its group is unknown. Others have theirs, and all is planned.

    `h` lacks a topic, `k` a partition, and `g` nothing.
    """
    sound = {name: rows for name, rows in fleet("c0").items() if name not in ("sizes", "loads", *ALTERNATIVES)}
    lacking = {("h", 0): "topic", ("k", 1): "partition"}
    rows = [{**row, lacking.get((row["group_id"], row["partition"])): None} for row in sound["offsets"]]
    rows = [{name: row[name] for name in SCHEMAS["offsets"].names} for row in rows]
    written(Path("early"), sound)
    written(Path("lacking"), sound | {"offsets": rows})
    for name in ("early", "lacking"):
        shutil.copytree(name, f"{name}-later")
        of_later = Path(name, "snapshot.json").read_text().replace("2026-11-20", "2026-11-21")
        Path(f"{name}-later", "snapshot.json").write_text(of_later)
    warning = (
        "offsets: 2 groups have rows without a required value. The table isn't used for "
        "c0/h (offsets: topic=null), c0/k (offsets: partition=null). Correct it"
    )

    def printed(words: str) -> str:
        code, out, text = called(capture, words)
        assert code == 0, text
        assert warning in text, (words, text)
        return out

    lags = re.findall(r"^  ([gh]0) .*?(–|20) ", printed("plan --details [gh] --fleet ./lacking"), re.MULTILINE)
    assert lags == [("g0", "20"), ("h0", "–")]
    called(capture, "plan --output ./plans --run-id r --fleet ./early")
    printed("report --output-file r.html --plan ./plans@r --fleet ./lacking")
    for before, after, groups in (("lacking", "early-later", "ghk"), ("early", "lacking-later", "g")):
        printed(f"diff --loads --before ./{before} --after ./{after} --output ./{before}-loads --run-id r")
        files = Path(f"{before}-loads", "loads").rglob("*.parquet")
        loads = [row for file in files for row in pq.ParquetFile(file).read().to_pylist() if row["group_id"]]
        rates = {(row["group_id"], row["out_messages_per_second"]) for row in loads}
        assert rates == {(group, 0.0 if group == "g" else None) for group in groups}
    code, out, text = called(capture, "advise unused --before ./lacking --fleet ./early-later")
    assert (code, re.findall(r"(\w): null-key: offsets", out)) == (0, ["h", "k"]), (out, text)
    found = Questions(spark, {"lacking": "./lacking"}).find_groups()
    assert {row.group_id: row.lag for row in found.groups if row.group_id in "ghk"} == {"g": 40, "h": None, "k": None}


def names_its_group(table: str, column: str, _scope: str, value: Any) -> bool:
    """Whether a damaged row lacks a value that each row must have, but not that of its group, which only it can harm.
    A row of `loads` can be of no group."""
    if table in ("loads", "events") or "group_id" not in SCHEMAS[table].names or column in ("*", "group_id"):
        return False
    return not SCHEMAS[table][column].nullable and value in (None, [None])


def groups_of(run: Path) -> set[tuple[str, str]]:
    """The groups that a stored plan has planned or rejected."""
    files = [file for kind in ("metrics", "rejected") for file in run.glob(f"*{kind}/**/*.parquet")]
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return {(row["cluster"], row["group_id"]) for row in rows if "group_id" in row}


@pytest.mark.parametrize("stored", RUNS if drawn(0, 1) else ["any"])
def test_every_table_of_stored_runs(capture: Captured, rng: Random, stored: str) -> None:
    """Wrong input that names the table, or an answer; as often as not, of a column that can have nulls."""
    stored = stored if stored in RUNS else rng.choice([*RUNS])
    writer, *readers = RUNS[stored]
    of_sample = () if writer.endswith("--sample") else ("./sound",)
    assert called(capture, writer, *of_sample, "--output", f"./{stored}", "--run-id", "r")[0] == 0
    shutil.copytree(stored, "whole")
    files = sorted(Path(stored).rglob("*.parquet"))
    for _ in range(drawn(2, 12)):
        file = rng.choice(files)
        table, rows = file.relative_to(stored).parts[0], pq.ParquetFile(file).read()
        at = rng.randrange(rows.num_columns)
        column, kind = rows.column_names[at], rows.schema.types[at]
        values = [value for value in VALUES.values() if can_have(spark_type(kind), value)]
        damage = rng.choice(["null", "dropped", "value", "value", "all", *rng.sample([*TYPES], 1), "lost", "twice"])
        if damage in ("lost", "twice"):
            rows = rows.slice(1) if damage == "lost" else pa.concat_tables([rows, rows.slice(0, 1)])
        elif damage == "dropped":
            rows = rows.drop_columns(column)
        elif len(rows):
            value = rng.choice(values) if damage in ("value", "all") else None
            others = [value] * (len(rows) - 1) if damage == "all" else rows[column].to_pylist()[1:]
            changed = TYPES[damage](len(rows)) if damage in TYPES else pa.array([value, *others], kind)
            rows = rows.set_column(at, column, changed)
        pq.write_table(rows, file)
        for reader in rng.sample(readers, min(len(readers), 2)):
            case = (stored, table, column, damage, reader)
            code, out, text = called(capture, reader, f"./{stored}@r")
            if code == 2:
                names_it(text, table)
            else:
                texts = [out, *(Path(each).read_text() for each in ("r.html", "m.txt") if Path(each).exists())]
                pages = [re.sub(r"<(script|style).*?</\1>", "", each, flags=re.DOTALL) for each in texts]
                assert not any(map(NO_VALUE.search, pages)), (case, [*map(NO_VALUE.search, pages)])
        shutil.rmtree(stored)
        shutil.copytree("whole", stored)
