"""What the pages take for granted: the files of the folder that a reader works in, and names of Python."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from spark_assign import Fleet, plan
from spark_assign.history.records import records_of
from spark_assign.simulation.scenarios import SCENARIOS
from spark_assign.sources.files.tables import Shape, read_tables
from spark_assign.stores.run_store import read_run
from spark_assign.tables.connect import EVENTS as CONNECT_EVENTS
from spark_assign.tables.connect import INPUT_TABLES as CONNECT_TABLES
from spark_assign.tables.connect import REQUIRED_TABLES
from spark_assign.tables.groups import INPUT_TABLES
from spark_assign.tables.replicas import REQUESTS
from tests.docs.pages import ROOT
from tests.frames import dataframe
from tests.spark import fleets

SAMPLE = ROOT / "conf" / "sample-fleet"
APPLICATIONS = ROOT / "conf" / "sample-applications"
HISTORY = ROOT / "conf" / "sample-history" / "records.parquet"
FAULTY = {"members": "cluster,group_id,member_id\nc,g,m\n", "subscriptions": "cluster,group_id,member_id,topic\n"}
"""docs/plan.md: beside topics that the page shows."""
FLEETS = ("fleet", "snapshot", "snapshot-monday", "snapshot-friday")
CLUSTERS = ("shop-prod", "shop-eu")
"""docs/forty-clusters.md: two of them, one as the other."""
DEPLOYMENT = "cluster,at_ms,event,down_ms,pause_ms\nshop-prod,10000,rolling-restart,5000,15000\n"

DAYS = {"monday": 0, "tuesday": 1}
"""docs/loads.md: two snapshots of the sample, a day apart."""
BEHIND = {"clickstream-sessionizer": (2_000_000, 500_000), "fraud-detection": (0, 90_000)}
"""How many messages, on each of the two days, a group is behind in every partition; the others are not behind."""
RATES = {"clickstream.web": 40, "payments.authorized": 20}
"""Messages a second in the first partition of a topic, if not 1; one more in each that follows."""

_MB = 1e6
_READERS = {
    "billing": {
        "billing-1": ("a", "orders", [1]),
        "billing-2": ("b", "orders", [2]),
        "billing-3": ("c", "orders", [0]),
    },
    "audit": {"audit-1": ("a", "orders", [0, 1, 2])},
    "ranking": {"ranking-1": ("c", "clicks", [0, 1])},
    "search": {"search-1": ("c", "clicks", [0]), "search-2": (None, "clicks", [1])},
}
_MEMBERS = [({"group_id": g, "member_id": m}, *rest) for g, each in _READERS.items() for m, rest in each.items()]
_PLACED = {"orders": (10 * _MB, [[1, 2], [2, 3], [3, 1]]), "clicks": (_MB, [[1, 2, 3], [2, 3, 1]])}
ZONES: dict[str, list[dict[str, Any]]] = {
    "topics": [{"topic": name, "partitions": len(each)} for name, (_, each) in _PLACED.items()],
    "brokers": [{"broker_id": at, "rack_id": rack} for at, rack in enumerate("abc", 1)],
    "replicas": [
        {"topic": name, "partition": at, "replicas": ids}
        for name, (_, each) in _PLACED.items()
        for at, ids in enumerate(each)
    ],
    "loads": [
        {"topic": name, "partition": at, "in_bytes_per_second": rate}
        for name, (rate, each) in _PLACED.items()
        for at in range(len(each))
    ],
    "groups": [{"group_id": group, "assignor": "range", "group_type": "classic"} for group in _READERS],
    "members": [key | {"rack_id": rack} for key, rack, _, _ in _MEMBERS],
    "subscriptions": [key | {"topic": topic} for key, _, topic, _ in _MEMBERS],
    "owned": [key | {"topic": topic, "partition": each} for key, _, topic, owned in _MEMBERS for each in owned],
}
"""docs/zones.md: three brokers in three zones, two topics, four groups."""

_RETURNS = {"group_id": "returns"}
CLASSIC: dict[str, list[dict[str, Any]]] = {
    "topics": [{"topic": "returns", "partitions": 6}],
    "subscriptions": [],
    "groups": [_RETURNS | {"group_type": "classic", "assignor": "stream"}],
    "members": [_RETURNS | {"member_id": f"returns-{at}", "process_id": str(UUID(int=at))} for at in (1, 2)],
    "subtopologies": [
        _RETURNS | {"subtopology": "0", "source_topics": ["returns"], "changelog_topics": ["returns-totals-changelog"]}
    ],
    "tasks": [
        _RETURNS | {"member_id": f"returns-{1 + at % 2}", "subtopology": "0", "task": at, "role": "active"}
        for at in range(6)
    ],
    "changelogs": [
        _RETURNS
        | {"topic": "returns-totals-changelog", "partition": at, "end_offset": 10_000_000, "bytes": 12_000_000_000}
        for at in range(6)
    ],
}
"""docs/streams.md and docs/simulate.md: a classic application on two hosts, with six tasks of 12 GB each."""
RESTART = [{"at_ms": 10_000, "event": "rolling-restart", "down_ms": 20_000, "pause_ms": 120_000}]


def _week(number: int) -> dict[str, list[dict[str, Any]]]:
    """docs/zones.md: one of two snapshots, in which a topic and a group are without a use."""
    ends = {"orders": 500 + 700 * number, "legacy.events": 90, "prices": 40}
    commits = {"billing": 500 + 700 * number, "old-importer": 300}
    policies = {"prices": "compact"}
    return {
        "topics": [{"topic": name, "partitions": 1, "cleanup_policy": policies.get(name, "delete")} for name in ends],
        "replicas": [
            {"topic": name, "partition": 0, "replicas": [1, 2], "end_offset": end, "bytes": 1_000_000 * end}
            for name, end in ends.items()
        ],
        "groups": [
            {"group_id": "billing", "group_type": "classic", "state": "Stable"},
            {"group_id": "old-importer", "group_type": "classic", "state": "Empty"},
        ],
        "members": [{"group_id": "billing", "member_id": "billing-1"}],
        "subscriptions": [{"group_id": "billing", "member_id": "billing-1", "topic": "orders"}],
        "offsets": [
            {"group_id": name, "topic": "orders", "partition": 0, "committed_offset": at, "end_offset": ends["orders"]}
            for name, at in commits.items()
        ],
        "snapshot": [
            {"schema_version": 1, "taken_at": f"2026-11-{14 + 7 * number}T02:31:53+00:00", "source": {"kind": "kafka"}}
        ],
    }


_GB = 10**9
_LOGS = [(topic, at, broker) for topic in ("orders", "clicks") for at in range(6) for broker in (1, 2)]
DISKS: dict[str, list[dict[str, Any]]] = {
    "brokers": [{"broker_id": each, "rack_id": None} for each in (1, 2)],
    "replicas": [{"topic": name, "partition": at, "replicas": [1, 2]} for name, at, broker in _LOGS if broker == 1],
    "log_dirs": [
        {"broker_id": broker, "log_dir": f"/data/{disk}", "total_bytes": 500 * _GB, "usable_bytes": 300 * _GB}
        | ({"error": "KafkaStorageError"} if (broker, disk) == (2, 3) else {})
        for broker in (1, 2)
        for disk in (1, 2, 3)
    ],
    "log_dir_replicas": [
        {"topic": name, "partition": at, "broker_id": broker, "is_future": False, "bytes": (5 + 3 * at) * _GB}
        | {"log_dir": f"/data/{1 if name == 'orders' else 2}"}
        for name, at, broker in _LOGS
    ],
}
"""docs/log-dirs.md: two brokers with three log directories, of which one is empty or offline."""

JSON_FLEETS = {
    "disk-fleet": DISKS,
    "zones-fleet": ZONES,
    "classic-fleet": CLASSIC | {"events": RESTART},
    "last-week": _week(0),
    "this-week": _week(1),
}


def fill(folder: Path) -> None:
    """A folder to work in: the settings and the sample fleet of a clone, snapshots, events, the fleets of two pages."""
    shutil.copytree(ROOT / "conf", folder / "conf")
    for name in FLEETS:
        (folder / name).symlink_to(SAMPLE)
    for name in ("events", "deployment"):
        (folder / f"{name}.csv").write_text(DEPLOYMENT)
    for name in CLUSTERS:
        home = folder / "clusters" / f"cluster={name}" / "taken=20261121T023153000000Z-5a3b1c"
        home.mkdir(parents=True)
        for file in (*SAMPLE.glob("*.csv"), SAMPLE / "snapshot.json"):
            (home / file.name).write_text(file.read_text().replace(CLUSTERS[0], name))
    for name, day in DAYS.items():
        _one_day(folder / name, day)
    (folder / "faulty").mkdir()
    for table, text in FAULTY.items():
        (folder / "faulty" / f"{table}.csv").write_text(text)
    shutil.copytree(APPLICATIONS / "connect_cluster=prod", folder / "connect-fleet" / "connect_cluster=prod")
    for name, tables in JSON_FLEETS.items():
        (folder / name).mkdir()
        for table, rows in tables.items():
            lines = [json.dumps({"cluster": "shop-prod"} | row) + "\n" for row in rows]
            (folder / name / f"{table}.json").write_text("".join(lines))


def _one_day(folder: Path, day: int) -> None:
    """The sample so many days later."""
    shutil.copytree(SAMPLE, folder)
    summary = json.loads((SAMPLE / "snapshot.json").read_text())
    summary["taken_at"] = summary["taken_at"].replace("-21T", f"-{21 + day}T")
    (folder / "snapshot.json").write_text(json.dumps(summary, indent=2))
    with (SAMPLE / "offsets.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        rate = RATES.get(row["topic"], 1) + int(row["partition"])
        end = 10_000_000 + int(row["end_offset"]) + day * 86_400 * rate
        at = end - BEHIND.get(row["group_id"], (0, 0))[day]
        row |= {"end_offset": end} | ({"committed_offset": at, "lag": end - at} if row["committed_offset"] else {})
    with (folder / "offsets.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def sample_fleet(spark: SparkSession) -> Fleet:
    """The sample fleet."""
    return Fleet.read(spark, str(SAMPLE))


def sample_records(spark: SparkSession) -> DataFrame:
    """Records of the sample history."""
    return records_of(spark.read.parquet(str(HISTORY)))


def names(spark: SparkSession, page: str, fleet: Fleet) -> dict[str, Any]:
    """What the Python blocks of a page may use without having made it; a small fleet where that will do."""
    fleet = fleet if page in OF_THE_SAMPLE else small_fleet(spark)
    given: dict[str, Any] = {name: getattr(fleet, name) for name in INPUT_TABLES if getattr(fleet, name) is not None}
    given |= {"spark": spark, "fleet": fleet, "before": fleet, "after": fleet}
    given["leavers"] = fleet.members.where("member_id like 'search-indexer-0%'")
    return given | _OF_PAGES.get(page, lambda *_: {})(spark, fleet)


STORED = ("docs/databricks.md",)
"""Pages that take a stored plan of the sample for granted, in output/plan."""
OF_THE_SAMPLE = ("docs/replicas.md", "docs/operate.md", "docs/sticky.md", "docs/libraries.md")
WEIGHT = StructField("user_data", StringType())


LOADS = [
    {"cluster": "c", "topic": "t", "partition": p} | {"in_messages_per_second": r, "in_bytes_per_second": r * 1_000}
    for p, r in enumerate((300.0, 200.0, 100.0))
]
"""docs/reference.md: 300, 200 and 100 messages a second, of a thousand bytes each."""


def small_fleet(spark: SparkSession) -> Fleet:
    """Two groups of two members; payments-eu-0 owns all of the topic, and encoder-a-1 sends a weight."""
    members = [("c", group, f"{group}-{n}") for group in ("payments-eu", "encoder-a") for n in range(2)]
    weights = {"encoder-a-1": "2"}
    nothing = [None] * (len(INPUT_TABLES["members"]) - 3)
    return Fleet(
        topics=fleets.table(spark, "topics", [("c", "t", 3)]),
        members=fleets.table(spark, "members", [(*each, *nothing, weights.get(each[2])) for each in members], WEIGHT),
        subscriptions=fleets.table(spark, "subscriptions", [(*member, "t") for member in members]),
        owned_slices=fleets.table(spark, "owned_slices", [("c", "payments-eu", "payments-eu-0", "t", 0, 1, 3)]),
        replicas=fleets.table(spark, "replicas", [("c", "t", partition, [1]) for partition in range(3)]),
        brokers=fleets.table(spark, "brokers", [("c", 1, None)]),
        groups=fleets.table(spark, "groups", [("c", group, "range") for group in ("payments-eu", "encoder-a")]),
        loads=_rows(spark, INPUT_TABLES["loads"], LOADS),
    )


def _connect(spark: SparkSession, _: Fleet) -> dict[str, Any]:
    events = [
        {"at_ms": 60_000, "event": "worker-left", "subject": "w2"},
        {"at_ms": 120_000, "event": "connector-added", "subject": "es", "tasks": 2},
    ]
    tables = read_tables(spark, Shape("A ConnectFleet", CONNECT_TABLES, REQUIRED_TABLES), str(APPLICATIONS))
    return tables | {"events": _rows(spark, CONNECT_EVENTS, events)}


def _replicas(spark: SparkSession, fleet: Fleet) -> dict[str, Any]:
    request = {"cluster": "shop-prod", "topic": "new", "partitions": 3, "replication_factor": 2, "start_index": 0}
    return {"requests": _rows(spark, REQUESTS, [request]), "brokers": fleet.brokers}


def _report(spark: SparkSession, fleet: Fleet) -> dict[str, Any]:
    return {"p": plan(fleet, "range"), "displayHTML": _display}


def _display(html: str) -> None:
    assert html.lstrip().startswith("<"), html[:200]


def _applications(spark: SparkSession, _: Fleet) -> dict[str, Any]:
    return {"fleet": Fleet.read(spark, str(APPLICATIONS))}


def zones_fleet(spark: SparkSession) -> Fleet:
    """The fleet of docs/zones.md."""
    lines = {name: [{"cluster": "shop-prod"} | row for row in rows] for name, rows in ZONES.items()}
    return Fleet(**{name: _rows(spark, INPUT_TABLES[name], rows) for name, rows in lines.items()})


def _zones(spark: SparkSession, _: Fleet) -> dict[str, Any]:
    return {"fleet": zones_fleet(spark)}


def _simulate(spark: SparkSession, _: Fleet) -> dict[str, Any]:
    fleet, events = SCENARIOS["textbook-join"]().read(spark)
    return {"fleet": fleet, "events": events, "sample": sample_fleet(spark)}


def _what_if(spark: SparkSession, fleet: Fleet) -> dict[str, Any]:
    return {"after": fleet.with_members_left(group_id="payments-*", count=1)}


def _databricks(spark: SparkSession, fleet: Fleet) -> dict[str, Any]:
    return {"planned": plan(fleet), "stored": read_run(spark, "output/plan")}


_OF_PAGES: dict[str, Callable[[SparkSession, Fleet], dict[str, Any]]] = {
    "docs/connect.md": _connect,
    "docs/databricks.md": _databricks,
    "docs/operate.md": _replicas,
    "docs/report.md": _report,
    "docs/share.md": _applications,
    "docs/simulate.md": _simulate,
    "docs/streams.md": _applications,
    "docs/what-if.md": _what_if,
    "docs/zones.md": _zones,
}


def _rows(spark: SparkSession, schema: StructType, lines: list[dict[str, Any]]) -> DataFrame:
    """Rows of a table; columns that are left out are null."""
    lines = [{"connect_cluster": "prod"} | line for line in lines]
    return dataframe(spark, schema, [[line.get(field.name) for field in schema] for line in lines])
