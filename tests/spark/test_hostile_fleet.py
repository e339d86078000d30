"""A fleet whose groups, members, and racks have hostile names, through complete commands; and extreme sizes."""

from __future__ import annotations

import csv
import re
import subprocess
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_assign import Fleet, FleetError, plan
from spark_assign.replicas import LoadGoals, ReplicaFleet, check, reassign
from spark_assign.report.listed_groups import collected
from spark_assign.simulation import simulate
from spark_assign.sources.files.snapshot_catalog import last_taken
from spark_assign.spark import subscription_lists
from spark_assign.tables.errors import SourceError
from spark_assign.tables.groups import MEMBERS, REPLICAS, SUBSCRIPTION_LISTS, TOPICS
from spark_assign.tables.replicas import BROKERS
from spark_assign.tables.simulation import EVENTS
from tests.docs.pages import ROOT
from tests.frames import dataframe, frame_of

pytestmark = [pytest.mark.spark]

NAMES = [
    *("x; touch PWNED #", "$(touch PWNED)", "`touch PWNED`", "'; touch PWNED; '", '"; touch PWNED; "', "-rf", "\\"),
    *("a\nkind: Secret\n---\nb", "yes", "1e3", "*x", "!!python/object:os.system", "a: b", "<script>alert(1)</script>"),
    *('"><svg onload=alert(1)>', "{{7*7}}", "\x1b[2J\x1b]0;t\x07", "\u202egnp.exe", "../../etc/passwd", "\U000e0041"),
]
SIZES = {"big": 2_300, "small": 2}
"""Members, and as many topics, of two groups."""
COLUMNS = ("group_id", "member_id", "group_instance_id", "client_id", "client_host", "rack_id")


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sample fleet with such names, in a working folder of its own."""
    folder, numbers = tmp_path / "fleet", dict[tuple[str, str], int]()
    folder.mkdir()
    for file in (ROOT / "conf" / "sample-fleet").glob("*.csv"):
        with file.open(newline="") as opened:
            first, *rows = csv.reader(opened)
        columns = [at for at, name in enumerate(first) if name in COLUMNS]
        for row in rows:
            for at in columns:
                if row[at]:
                    number = numbers.setdefault((first[at], row[at]), len(numbers))
                    row[at] = NAMES[number % len(NAMES)] + (f"~{number}" if number >= len(NAMES) else "")
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
    assert any("PWNED" in command for command in commands)
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
    assert {name.partition("~")[0] for name in names} <= set(NAMES)


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
