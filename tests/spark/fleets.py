"""Small fleets for the tests, as rows, DataFrames, and files; and what jobs have written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from spark_assign import Fleet, Plan
from spark_assign.spark.engine import cached
from spark_assign.tables.groups import INPUT_TABLES, MEMBER_KEY
from tests.frames import dataframe

Row = Sequence[Any]
Subscribed = Mapping[str, Mapping[str, Iterable[str]]]
"""Group to member to topics; a text stands for topics whose names are its letters."""

KINDS_OF_A_PLAN = ("assigned", "assigned_alike", "withheld", "order_dependent", "changed_topic", "metrics", "rejected")
"""The kinds of rows that the tables of a plan are made of."""


def table(spark: SparkSession, name: str, rows: Iterable[Row], *more: StructField) -> DataFrame:
    """Rows of one input table; trailing nullable columns may be left out."""
    fields = [StructField(field.name, field.dataType) for field in INPUT_TABLES[name].fields]
    width = len(fields)
    padded = [(*row[:width], *[None] * (width - len(row[:width])), *row[width:]) for row in rows]
    return dataframe(spark, StructType([*fields, *more]), padded)


def fleet(spark: SparkSession, subscribed: Subscribed | None = None, **rows: Any) -> Fleet:
    """A fleet of rows per table, and of groups by what their members subscribe to.

    Topics may be numbers of partitions by name, and `owned` partitions by group, member, and topic: all in cluster `c`.
    Topics, members and subscriptions may be empty.
    """
    wanted = {"topics": (), **rows_of(subscribed or {})}
    for name, given in rows.items():
        if isinstance(given, Mapping) and name == "topics":
            given = [("c", topic, count) for topic, count in given.items()]
        elif isinstance(given, Mapping):
            given = [("c", *key, partition) for key, partitions in given.items() for partition in partitions]
        wanted[name] = [*wanted.get(name, ()), *given]
    return Fleet(**{name: table(spark, name, given) for name, given in wanted.items()})


def rows_of(subscribed: Subscribed) -> dict[str, list[Any]]:
    """The members and subscriptions of groups."""
    keys = [("c", group, member) for group, members in subscribed.items() for member in members]
    return {
        "members": keys,
        "subscriptions": [(*key, topic) for key in keys for topic in subscribed[key[1]][key[2]]],
    }


def with_lists(fleet: Fleet) -> Fleet:
    """The same fleet with its subscriptions as lists: one for each list of topics of a group."""
    assert fleet.subscriptions is not None
    key = ["cluster", "group_id"]  # structs, because collect_list drops nulls
    topics, members = (F.array_sort(F.collect_list(F.struct(name))).alias("all") for name in ("topic", "member_id"))
    of_members = fleet.subscriptions.groupBy(*key, "member_id").agg(topics)
    lists = of_members.groupBy(*key, F.transform("all", lambda each: each["topic"]).alias("topics")).agg(members)
    return replace(
        fleet,
        subscriptions=None,
        subscription_lists=lists.select(*key, F.col("all.member_id").alias("member_ids"), "topics"),
    )


def with_owned_lists(fleet: Fleet) -> Fleet:
    """The same fleet with what its members own as lists."""
    slices = fleet.owned_slices
    if fleet.owned is not None:
        single = {"first": F.col("partition"), "step": F.lit(1), "count": F.lit(1)}
        slices = fleet.owned.withColumns(single)
    assert slices is not None
    given = F.col("position") if "position" in slices.columns else F.lit(None)
    row = F.struct("topic", "first", "step", "count", given.cast("int").alias("position"))
    lists = slices.groupBy(*MEMBER_KEY).agg(F.collect_list(row).alias("all"))
    columns = [F.col(f"all.{name}").alias(f"{name}s") for name in ("topic", "first", "step", "count", "position")]
    return replace(fleet, owned=None, owned_slices=None, owned_lists=lists.select(*MEMBER_KEY, *columns))


def tuples(df: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """All rows of a small table, sorted; of all columns or of those named."""
    rows = [tuple(row) for row in (df.select(*columns) if columns else df).collect()]
    return sorted(rows, key=lambda row: tuple((value is not None, value) for value in row))


def kept(answer: Any) -> Any:
    """Returns a plan, a drift, or the answer of an adviser whose tables share one pass, which is computed once."""
    rows = answer.rows(*KINDS_OF_A_PLAN) if isinstance(answer, Plan) else answer.tagged_rows()
    return answer.with_tagged_rows(cached(rows))


def assert_declared(found: Any, tables: Mapping[str, StructType]) -> None:
    """Checks that each table has the columns that are declared for it."""
    assert {name: getattr(found, name).schema.names for name in tables} == {
        name: schema.names for name, schema in tables.items()
    }


def shuffled(fleet: Fleet, seed: int) -> Fleet:
    """The same rows in five Spark partitions, each in a random one."""
    tables = {name: getattr(fleet, name) for name in INPUT_TABLES if getattr(fleet, name) is not None}
    return replace(fleet, **{name: rows.repartition(5, F.rand(seed)) for name, rows in tables.items()})


KINDS = {"connected": "connect", "shared": "share", "streamed": "streams", "empty": "classic", "served": "consumer"}

REFUSED = [(name, "out-of-scope") for name in ("connected", "shared", "streamed")] + [("twice", "duplicate-member")]
"""Groups of `mixed` that questions about the consumer protocols reject, and the codes."""


def mixed(spark: SparkSession) -> Fleet:
    """Two groups of two members with racks, and one of every other kind."""
    members: list[tuple[Any, ...]] = [
        ("c", group, f"{group}-{n}", None, f"consumer-{group}-{n}", None, f"r{n}")
        for group in ("near", "far")
        for n in (0, 1)
    ]
    members += [("c", "served", "s-0"), *[("c", "twice", "m")] * 2, ("c", "alone", "kafkajs-1", None, "kafkajs")]
    subscribed = [(*row[:3], "t") for row in members if row[1] != "twice"]
    owned = {(group, f"{group}-{n}", "t"): range(n, 8, 2) for group in ("near", "far") for n in (0, 1)}
    assignors = {"near": "range", "far": "cooperative-sticky", "alone": "RoundRobinAssigner"}
    groups = [("c", group, name, "classic") for group, name in assignors.items()]
    groups += [("c", group, "range" if kind == "consumer" else None, kind) for group, kind in KINDS.items()]
    return fleet(
        spark,
        topics={"t": 8},
        members=members,
        subscriptions=subscribed,
        owned=owned,
        groups=groups,
        replicas=[("c", "t", p, [p % 2]) for p in range(8)],
        brokers=[("c", n, f"r{n}") for n in (0, 1)],
    )


def written_as_json(place: Path, tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> Path:
    """The folder, with a file of lines for each table."""
    place.mkdir(exist_ok=True)
    for name, rows in tables.items():
        (place / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def snapshot(place: Path, owners: str, assignor: str = "roundrobin", members: str = "ab", twice: bool = False) -> Path:
    """A folder with group `g`, whose members own the partitions of topic t, one letter each; and with `twice`, in which
    a member is listed twice."""
    key = {"cluster": "c", "group_id": "g"}
    listed = [key | {"member_id": member} for member in members]
    rows = {
        "topics": [{"cluster": "c", "topic": "t", "partitions": len(owners)}],
        "members": [*listed, *[{"cluster": "c", "group_id": "twice", "member_id": "m"}] * (2 * twice)],
        "subscriptions": [member | {"topic": "t"} for member in listed],
        "owned": [key | {"member_id": owner, "topic": "t", "partition": at} for at, owner in enumerate(owners)],
        "groups": [key | {"assignor": assignor, "group_type": "classic"}],
    }
    return written_as_json(place, rows)


def two_members(place: Path, assignor: str, partitions: int) -> Path:
    """A folder with group `g`, whose members a and b own half of topic t each, and with `twice`, which is rejected."""
    return snapshot(place, "a" * (partitions // 2) + "b" * (partitions // 2), assignor, twice=True)


def stored(place: Path, table: str, run_id: str = "r") -> list[dict[str, Any]]:
    """The rows of a table that a job has written as JSON."""
    files = place.glob(f"{table}/run_id={run_id}/attempt=*/*.json")
    return [json.loads(line) for file in files for line in file.open()]
