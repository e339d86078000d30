"""A fleet whose groups, members, and racks have hostile names, through complete commands; and extreme sizes."""

from __future__ import annotations

import csv
import glob
import io
import itertools
import json
import random
import re
import subprocess
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_assign import Fleet, FleetError, plan
from spark_assign.replicas import LoadGoals, ReplicaFleet, check, reassign
from spark_assign.report.listed_groups import collected
from spark_assign.simulation import simulate
from spark_assign.sources.files.snapshot_catalog import last_taken
from spark_assign.spark import subscription_lists
from spark_assign.spark.dataframes import with_brokers
from spark_assign.spark.shell_patterns import matches
from spark_assign.stores.run_store import read_run
from spark_assign.tables.errors import SourceError
from spark_assign.tables.groups import MEMBERS, REPLICAS, SUBSCRIPTION_LISTS, TOPICS
from spark_assign.tables.replicas import BROKERS
from spark_assign.tables.simulation import EVENTS
from spark_assign.tables.stored_plan import STORED_PLAN_TABLES
from tests.docs.pages import ROOT
from tests.frames import dataframe, frame_of
from tests.hostile_names import NAMES, draw, of_cell, of_label
from tests.sizes import drawn

pytestmark = [pytest.mark.spark]

SIZES = {"big": 2_300, "small": 2}
"""Members, and as many topics, of two groups."""
COLUMNS = ("group_id", "member_id", "group_instance_id", "client_id", "client_host", "rack_id")


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> Path:
    """The sample fleet with such names, in a working folder of its own."""
    folder, numbers = tmp_path / "fleet", dict[tuple[str, str], int]()
    names = [*dict.fromkeys([*(each for each in NAMES if "PWNED" in each or "script>" in each), *draw(seed, 10)])]
    names = [each for each in names if each]
    folder.mkdir()
    for file in (ROOT / "conf" / "sample-fleet").glob("*.csv"):
        with file.open(newline="") as opened:
            first, *rows = csv.reader(opened)
        columns = [at for at, name in enumerate(first) if name in COLUMNS]
        for row in rows:
            for at in columns:
                if row[at]:
                    number = numbers.setdefault((first[at], row[at]), len(numbers))
                    row[at] = names[number % len(names)] + (f"~{number}" if number >= len(names) else "")
        with (folder / file.name).open("w", newline="") as opened:
            csv.writer(opened).writerows([first, *rows])
    (folder / "snapshot.json").write_bytes((ROOT / "conf" / "sample-fleet" / "snapshot.json").read_bytes())
    monkeypatch.chdir(tmp_path)
    return folder


class _Elements(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def lines(text: str, word: str) -> Iterator[str]:
    """The commands or settings after a word."""
    yield from re.findall(rf"^ +{word} +(.*)$", text, re.MULTILINE)


def test_the_page_of_the_day(fleet: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """All steps of `daily`: no element, attribute, command, or control character comes from a name."""
    output = str(Path("daily").absolute())  # a server of Spark Connect has its own working folder
    words = ["--no-snapshot", "--fleet-dir", str(fleet), "--no-history", "--output", output, "--run-id", "../../up"]
    assert import_module("jobs.daily").main(words) == 0
    assert {path.name for path in (*Path().iterdir(), *Path("..").glob("up*"))} == {"fleet", "daily"}
    (page,) = {file.read_text() for file in Path("daily").rglob("index.html")}
    elements = _Elements(page).found
    assert [tag for tag, _ in elements if tag in ("script", "img", "iframe", "object")] == ["script"]
    attributes = [(name, value or "") for _, given in elements for name, value in given.items()]
    assert not [name for name, _ in attributes if name.startswith("on")]
    assert all(value.startswith("#") for name, value in attributes if name in ("href", "src", "xlink:href"))
    assert "&lt;script&gt;alert(1)" in page
    printed = capsys.readouterr().out
    for text in (page, printed):
        assert not {unicodedata.category(each) for each in text if each not in "\n\t"} & {"Cc", "Cf", "Zl", "Zp"}
    commands = [f"true {command}" for command in lines(printed, "see")]
    hostile = "PWNED" if drawn(1, 0) else r" --\w+ \$?'.*[^\w.'-]"  # the full run draws all names
    assert any(re.search(hostile, command) for command in commands)
    subprocess.run(["bash", "-e"], input="\n".join(commands), text=True, check=True)
    assert not list(Path().glob("PWNED"))


def test_manifests_for_keda(fleet: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """One manifest for each group that can be sized, with its exact name."""
    loads = f"loads={ROOT / 'conf' / 'sample-loads' / 'loads.csv'}"
    words = ["size", "--fleet", str(fleet), "--table", loads, "--capacity", "*=150", "--keda", "--details"]
    capsys.readouterr()
    assert import_module("jobs.advise").main([*words, "*PWNED*", "-o", "table"]) == 0
    printed = capsys.readouterr().out
    manifests = [each for each in yaml.safe_load_all(printed[printed.index("# ") :]) if each]
    assert {manifest["kind"] for manifest in manifests} == {"ScaledObject"}
    names = {manifest["spec"]["triggers"][0]["metadata"]["consumerGroup"] for manifest in manifests}
    assert len(names) > 1
    assert {re.sub(r"~\d+\Z", "", name) for name in names} <= {*NAMES}


def put(folder: Path, table: str, rows: list[dict[str, Any]]) -> None:
    """Writes a table of a fleet, with numbers that the schema has as int."""
    numbers = {"partitions", "partition", "broker_id"}
    found = pa.Table.from_pylist(rows)
    texts = [pa.string() if each.type == pa.null() else each.type for each in found.schema]
    types = [pa.int32() if name in numbers else each for name, each in zip(found.column_names, texts, strict=True)]
    pq.write_table(found.cast(pa.schema(zip(found.column_names, types, strict=True))), folder / f"{table}.parquet")


def group_keys(names: list[str]) -> list[tuple[str, str]]:
    """Cluster and group of each group of `named_fleet`."""
    return [(f"c{number % 2}", name) for number, name in enumerate(names)] + [(name, "g") for name in names]


def named_fleet(folder: Path, names: list[str]) -> Path:
    """A fleet with a group of each name; its members, clients, hosts, and racks have the names, too, and a cluster of
    each name.
    """
    folder.mkdir()
    tables = defaultdict[str, list[dict[str, Any]]](list)
    for number, (cluster, name) in enumerate(group_keys(names)):
        key, kind = {"cluster": cluster, "group_id": name}, ("classic", "consumer", "share", "classic")[number % 4]
        assignor = {"classic": "range", "consumer": "uniform"}.get(kind)
        tables["groups"].append({**key, "assignor": assignor, "group_type": kind})
        for at in (0, 1):
            member_id, instance, *of_client = (
                names[(number + at * 5 + more) % len(names)] for more in (0, 3, 7, 9, 11)
            )
            texts = dict(zip(("client_id", "client_host", "rack_id"), of_client, strict=True))
            is_static = kind == "classic" and instance
            static = {"group_instance_id": instance if is_static else None}
            tables["members"].append({**key, "member_id": member_id, **static, **texts})
            tables["subscriptions"].append({**key, "member_id": member_id, "topic": "t"})
        tables["owned"].append({**key, "member_id": names[number % len(names)], "topic": "t", "partition": 0})
        tables["offsets"].append(
            {**key, "topic": "t", "partition": 0, "committed_offset": 1, "end_offset": 9, "lag": 8}
        )
        tables["events"].append(
            {**key, "at_ms": 1000, "event": "member-leaves", "member_id": names[number % len(names)]}
        )
    for cluster in ("c0", "c1", *names):
        tables["topics"].append({"cluster": cluster, "topic": "t", "partitions": 4})
        load = {"group_id": None, "in_messages_per_second": 100.0}
        tables["loads"].append({"cluster": cluster, "topic": "t", "partition": 0, **load})
        racks = [rack for rack in names if len(rack.encode()) < 256][:9]
        tables["brokers"] += [{"cluster": cluster, "broker_id": at, "rack_id": rack} for at, rack in enumerate(racks)]
        tables["replicas"] += [{"cluster": cluster, "topic": "t", "partition": at, "replicas": [at]} for at in range(4)]
    for table, rows in tables.items():
        put(folder, table, rows)
    return folder


MANY = ("--top", "100000")
COMMANDS = [
    *(("plan", *MANY), ("plan", *MANY, "--details", "*"), ("compare", *MANY), ("migrate", *MANY)),
    *(("migrate", *MANY, "--details", "*"), ("advise", *MANY, "--capacity", "*=50"), ("advise", "membership", *MANY)),
    *(("advise", "size", *MANY, "--capacity", "*=50"), ("advise", "zones", *MANY), ("advise", "unused", *MANY)),
    *(("simulate", *MANY), ("replicas", "check"), ("replicas", "reassign"), ("plan", *MANY, "--group", "[!g]*")),
]
"""Every command that prints the groups of a fleet."""


def shown(text: str) -> None:
    """No character of a text controls a terminal or a page."""
    found = {each for each in text if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert not (found | {*text} & {"\ufffe", "\uffff"}) - {"\n", "\t"}


def keys_of(rows: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """Cluster and group of each row of a printed table."""
    return sorted((row.get("cluster") or "", row.get("group_id") or "") for row in rows)


def rows_of(printed: str, tables: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of `-o csv`, which has as many as JSON."""
    lines = iter(csv.reader(io.StringIO(printed, newline="")))
    found = {}
    for table in filter(tables.get, tables):
        header = next(line for line in lines if line)
        found[table] = [
            dict(zip(header, map(of_cell, line), strict=True)) for line in itertools.islice(lines, len(tables[table]))
        ]
    assert not [*lines]
    return found


def test_each_name_in_each_document(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    """JSON, YAML, and CSV of each command have exactly the names of the fleet, and text controls nothing."""
    names = draw(seed, 8)
    folder = named_fleet(tmp_path / "fleet", names)
    known = {*names, "c0", "c1", "g", ""}
    for job, *words in random.Random(seed).sample(COMMANDS, drawn(1, len(COMMANDS))):
        texts = {}
        for format in ("table", "json", "yaml", "csv"):
            capsys.readouterr()
            given = [*words, "--fleet", str(folder), "-o", format]
            given += ["--events", str(folder / "events.parquet")] if job == "simulate" else []
            assert import_module(f"jobs.{job}").main(given) == 0
            texts[format], messages = capsys.readouterr()
            shown(texts[format])
            shown(messages)
        tables = json.loads(texts["json"])["tables"]
        of_yaml = yaml.load(texts["yaml"], yaml.CSafeLoader)["tables"]
        of_csv = rows_of(texts["csv"], tables)
        assert of_yaml.keys() == tables.keys()
        for table, rows in tables.items():
            assert keys_of(of_yaml[table]) == keys_of(rows), (job, words, table)
            assert keys_of(of_csv.get(table, [])) == keys_of(rows), (job, words, table)
            assert {name for key in keys_of(rows) for name in key} <= known, (job, words, table)


def test_each_name_in_each_store(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    """A plan as Parquet, CSV, and JSON has the same names, and so do its metrics. On its page, they are only text."""
    names = draw(seed, 8)
    folder = named_fleet(tmp_path / "fleet", names)
    keys = group_keys(names)
    metrics, page, stored = tmp_path / "m.prom", tmp_path / "report.html", {}
    for format in ("parquet", "csv", "json"):
        place = ["--output", str(tmp_path / format), "--run-id", "r", "--output-format", format]
        assert import_module("jobs.plan").main(["--fleet", str(folder), *place, "--openmetrics", str(metrics)]) == 0
        run = read_run(spark, str(tmp_path / format), "r", schemas=STORED_PLAN_TABLES)
        stored[format] = {table: sorted(map(repr, frame.collect())) for table, frame in run.tables.items()}
        groups = [row for table in ("metrics", "share_metrics") for row in run.tables[table].collect()]
        assert sorted((row["cluster"], row["group_id"]) for row in groups) == sorted(keys)
    assert stored["csv"] == stored["json"] == stored["parquet"]
    exposed = metrics.read_bytes().decode()
    shown(exposed)
    samples = [each for family in text_string_to_metric_families(exposed) for each in family.samples]
    labels = {(each.labels["cluster"], each.labels["group"]) for each in samples if "group" in each.labels}
    assert {tuple(map(of_label, each)) for each in labels} == {key for at, key in enumerate(keys) if at % 4 != 2}
    words = ["--plan", f"{tmp_path}/csv@r", "--fleet", str(folder), "--output-file", str(page)]
    assert import_module("jobs.report").main([*words, "--title", "</title><script>"]) == 0
    shown(page.read_text())
    elements = _Elements(page.read_text()).found
    assert [tag for tag, _ in elements if tag in ("script", "img", "iframe", "object")] == ["script"]
    attributes = [(name, value or "") for _, given in elements for name, value in given.items()]
    assert not [name for name, _ in attributes if name.startswith("on")]
    assert all(value.startswith("#") for name, value in attributes if name in ("href", "src", "xlink:href"))
    ids = [value for name, value in attributes if name == "id"]
    assert len(ids) == len({*ids})


def test_a_pattern_finds_exactly_one_name(spark: SparkSession) -> None:
    """As `tables.quoting.shell_pattern_word` writes it for `--details`, among all names at once."""
    frame = dataframe(spark, "name string", [(name,) for name in NAMES])
    patterns = [matches(name=glob.escape(name)).alias(f"p{at}") for at, name in enumerate(NAMES)]
    for name, *found in frame.select("name", *patterns).collect():
        assert [NAMES[at] for at, is_match in enumerate(found) if is_match] == [name]


def test_a_hundred_thousand_topics_in_one_subscription(spark: SparkSession) -> None:
    """Lists are read in linear time and memory: no row has the list that it came from."""
    topics = spark.range(100_000).select(F.concat(F.lit("topic-"), F.col("id").cast("string")).alias("topic"))
    keys = {name: F.lit(name) for name in ("cluster", "group_id", "member_id")}
    lists = subscription_lists.to_lists(topics.withColumns(keys))
    assert subscription_lists.list_topics(lists).count() == 100_000
    assert subscription_lists.list_members(lists).count() == 1


def test_members_that_all_subscribe_to_thousands_of_topics(spark: SparkSession) -> None:
    """Their group isn't simulated, and its list isn't expanded. Another group is."""
    lists = [("c", g, [f"m{at}" for at in range(n)], [f"t{at}" for at in range(n)]) for g, n in SIZES.items()]
    events = [{"cluster": "c", "group_id": g, "at_ms": 1, "event": "member-leaves", "member_id": "m0"} for g in SIZES]
    members = [{"cluster": "c", "group_id": g, "member_id": name} for _, g, names, _ in lists for name in names]
    topics = [{"cluster": "c", "topic": f"t{at}", "partitions": 2} for at in range(SIZES["big"])]
    fleet = Fleet(
        members=frame_of(spark, MEMBERS, members),
        topics=frame_of(spark, TOPICS, topics),
        subscription_lists=dataframe(spark, SUBSCRIPTION_LISTS, lists),
    )
    simulated = simulate(fleet, frame_of(spark, EVENTS, events), "eager")
    assert {row["group_id"]: row["code"] for row in simulated.rejected.collect()} == {"big": "too-many-partitions"}
    assert {row["group_id"] for row in simulated.rebalances.collect()} == {"small"}


def test_a_member_that_owns_a_million_partitions(spark: SparkSession) -> None:
    """It is planned from slices."""
    topics = spark.range(1_000).select(
        F.lit("c").alias("cluster"), F.col("id").cast("string").alias("topic"), F.lit(1_000).alias("partitions")
    )
    member = {"group_id": F.lit("g"), "member_id": F.lit("m")}
    owned = topics.withColumns(member | {"first": F.lit(0), "step": F.lit(1), "count": F.lit(1_000)})
    members = spark.createDataFrame([("c", "g", "m")], "cluster string, group_id string, member_id string")
    fleet = Fleet(
        members=members,
        subscriptions=topics.withColumns(member).drop("partitions"),
        topics=topics,
        owned_slices=owned.drop("partitions"),
    )
    (row,) = plan(fleet, "cooperative-sticky").metrics.collect()
    assert (row["partitions"], row["moved"]) == (1_000_000, 0)


def test_hundreds_of_brokers_with_long_racks(spark: SparkSession) -> None:
    """Replicas are joined with brokers: no row has all brokers of its cluster."""
    brokers = [{"cluster": "c", "broker_id": at, "rack_id": "r" * 254 + str(at % 3)} for at in range(800)]
    replicas = [
        {"cluster": "c", "topic": "t", "partition": at, "replicas": [at % 800, 800, 801]} for at in range(5_000)
    ]
    fleet = ReplicaFleet(frame_of(spark, REPLICAS, replicas), frame_of(spark, BROKERS, brokers))
    counts = {row["code"]: row["count"] for row in check(fleet).problems.groupBy("code").count().collect()}
    assert counts == {"unknown-broker": 5_000}


def test_brokers_of_long_lists_of_replicas(spark: SparkSession) -> None:
    """No replica has a copy of a list of its partition. An empty list and null stay what they are."""
    lists = [list(range(20_000)), [2, 1], [], None]
    schema = "cluster string, partition int, replicas array<int>, same array<int>"
    rows = dataframe(spark, schema, [("c", at, each, each) for at, each in enumerate(lists)])
    brokers = dataframe(spark, "cluster string, broker_id int, rack_id string", [("c", 1, "r1"), ("d", 2, "r2")])
    found = with_brokers(rows, "brokers", "replicas", brokers).orderBy("partition").collect()
    assert [(row["replicas"], row["same"]) for row in found] == [(each, each) for each in lists]
    assert [[each["broker_id"] for each in row["brokers"]] for row in found] == [each or [] for each in lists]
    assert [each["rack_id"] for each in found[1]["brokers"]] == [None, "r1"]


def test_a_factor_beyond_int_rejects_its_group(spark: SparkSession) -> None:
    """A topic that a change makes larger than an int: the other groups are planned."""
    topics = spark.createDataFrame(
        [("c", "t", 3), ("c", "large", 2**31 - 1)], "cluster string, topic string, partitions int"
    )
    members = [("c", "g", "m"), ("c", "bad", "m")]
    subscriptions = [("c", "g", "m", "t"), ("c", "bad", "m", "large")]
    fleet = Fleet(
        members=spark.createDataFrame(members, "cluster string, group_id string, member_id string"),
        subscriptions=spark.createDataFrame(
            subscriptions, "cluster string, group_id string, member_id string, topic string"
        ),
        topics=topics,
    )
    planned = plan(fleet.with_partitions(topic="*", factor=2), "range")
    assert [(row["group_id"], row["partitions"]) for row in planned.metrics.collect()] == [("g", 6)]
    assert [(row["group_id"], row["code"]) for row in planned.rejected.collect()] == [("bad", "too-many-partitions")]


def test_numbers_of_replicas_that_no_cluster_has(spark: SparkSession) -> None:
    """Rates and sizes beyond long reject their cluster; a broker with two rows is a fault."""
    key = "cluster string, topic string, partition int"
    clusters = ("nan", "large", "negative", "fine")
    replicas = [(cluster, "t", number, [1 + number, 2 - number]) for cluster in clusters for number in (0, 1)]
    brokers = [(cluster, broker, f"r{broker}") for cluster in clusters for broker in (1, 2)]
    rates = dict(zip(clusters, (float("nan"), 1e308, -1.0, 10.0), strict=True))
    loads = [(cluster, "t", number, rate) for cluster, rate in rates.items() for number in (0, 1)]
    schema = "cluster string, broker_id int, rack_id string"
    fleet = ReplicaFleet(
        spark.createDataFrame(replicas, f"{key}, replicas array<int>"),
        spark.createDataFrame(brokers, schema),
        loads=spark.createDataFrame(loads, f"{key}, in_bytes_per_second double"),
    )
    rejected = reassign(fleet, goals=LoadGoals({"in": 0.1})).rejected.collect()
    assert {(row["cluster"], row["code"]) for row in rejected} == {(each, "bad-load") for each in clusters[:3]}
    with pytest.raises(FleetError, match=r"brokers\.broker_id: the same key twice: 16 rows"):
        check(ReplicaFleet(fleet.replicas, spark.createDataFrame(brokers * 2, schema))).problems.collect()


@pytest.mark.parametrize("micros", [2**63 - 1, -(2**62), 253_402_300_800_000_000])
def test_a_time_that_no_page_can_show(spark: SparkSession, micros: int) -> None:
    """It is wrong input, with its column."""
    table = spark.createDataFrame([(micros,)], "micros long").select(F.timestamp_micros("micros").alias("start_time"))
    with pytest.raises(SourceError, match="start_time: a time isn't in the years 1 to 9999"):
        collected(table)
    times = [("c", micros), ("c", 1_000_000), ("d", micros)]
    stored = spark.createDataFrame(times, "cluster string, micros long")
    stored = stored.select("cluster", F.timestamp_micros("micros").alias("taken_at"))
    catalog: Any = SimpleNamespace(catalog=SimpleNamespace(tableExists=lambda _: True), table=lambda _: stored)
    assert str(last_taken(catalog, "p", "cluster", "c")) == "1970-01-01 00:00:01+00:00"
    assert last_taken(catalog, "p", "cluster", "d") is None, "which ended the snapshots of all clusters"
