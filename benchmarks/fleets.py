"""Synthetic fleets of any size as Parquet tables, and the floor that plans are measured against.

Names carry their group's number: each group has its own topics, as many distinct names as a real fleet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_assign import Fleet, plan
from spark_assign.tables.groups import INPUT_TABLES, MEMBER_KEY

CLUSTERS = 20
GENERATION = 7
SEED = 20


@dataclass(frozen=True)
class Shape:
    """`groups` groups, each with `members` members that all read `topics` topics of `partitions` each."""

    groups: int
    members: int
    topics: int
    partitions: int

    @property
    def total(self) -> int:
        """Partitions of the whole fleet."""
        return self.groups * self.topics * self.partitions

    @property
    def slug(self) -> str:
        """For the name of a folder."""
        return f"{self.groups}-{self.members}-{self.topics}-{self.partitions}"

    def __str__(self) -> str:
        return f"{self.groups:,} x {self.members:,} x {self.topics:,} x {self.partitions:,}"


def _names(group: Column) -> list[Column]:
    """cluster and group_id of a group's number."""
    cluster = F.concat(F.lit("cluster-"), (group % CLUSTERS).cast("string"))
    return [cluster.alias("cluster"), F.concat(F.lit("group-"), group.cast("string")).alias("group_id")]


def _member(group: Column, member: Column) -> Column:
    name = F.concat(F.lit("member-"), group.cast("string"), F.lit("-"), member.cast("string"))
    return name.alias("member_id")


def _topic(group: Column, topic: Column) -> Column:
    name = F.concat(F.lit("topic-"), group.cast("string"), F.lit("-"), topic.cast("string"))
    return name.alias("topic")


def _by(row: Column, size: int) -> Column:
    """Integer division that stays a bigint."""
    return F.floor(row / size)


def written(spark: SparkSession, shape: Shape, folder: Path) -> Path:
    """The fleet's tables as Parquet under `folder`; written once per shape."""
    return _write(folder / f"fleet-{shape.slug}", partial(_tables, spark, shape))


def written_with_owners(
    spark: SparkSession, shape: Shape, folder: Path, *, left: int = 1, joined: int = 0, form: str = "owned"
) -> Path:
    """The same after `left` members of each group have left and `joined` new ones have come, who own nothing.

    Before that the group's partitions went round its members. The table is `owned`, `owned_slices`, or `owned_lists`.
    """
    path = folder / f"{form}-{shape.slug}-less-{left}-plus-{joined}"
    owners = {"owned": _owned, "owned_slices": _owned_runs, "owned_lists": _owned_lists}[form]
    return _write(path, lambda: _tables(spark, shape, left, joined) | {form: owners(spark, shape, left)})


def _write(path: Path, tables: Callable[[], dict[str, DataFrame]]) -> Path:
    if not path.exists():
        for name, table in tables().items():
            table.write.parquet(str(path / name))
    return path


def _tables(spark: SparkSession, shape: Shape, left: int = 0, joined: int = 0) -> dict[str, DataFrame]:
    """topics, members and subscriptions, as rows and as lists; the numbers of those who joined follow those of the
    first members."""
    row, present = F.col("id"), shape.members - left + joined

    def number(place: Column) -> Column:
        return place + F.when(place >= shape.members - left, left).otherwise(0)

    group = _by(row, shape.topics)
    topics = spark.range(shape.groups * shape.topics).select(
        _names(group)[0], _topic(group, row % shape.topics), F.lit(shape.partitions).alias("partitions")
    )
    group, member = _by(row, present), number(row % present)
    members = spark.range(shape.groups * present).select(
        *_names(group), _member(group, member), F.when(member < shape.members, GENERATION).alias("generation_id")
    )
    group = _by(row, present * shape.topics)
    subscriptions = spark.range(shape.groups * present * shape.topics).select(
        *_names(group), _member(group, number(_by(row, shape.topics) % present)), _topic(group, row % shape.topics)
    )
    places, topic_places = (F.sequence(F.lit(0), F.lit(size - 1)) for size in (present, shape.topics))
    lists = spark.range(shape.groups).select(
        *_names(row),
        F.transform(places, lambda place: _member(row, number(place))).alias("member_ids"),
        F.transform(topic_places, lambda place: _topic(row, place)).alias("topics"),
    )
    return {"topics": topics, "members": members, "subscriptions": subscriptions, "subscription_lists": lists}


def _owned(spark: SparkSession, shape: Shape, left: int) -> DataFrame:
    """A row per partition that a member who is still there owns."""
    row, in_group = F.col("id"), shape.topics * shape.partitions
    group, owner = _by(row, in_group), row % in_group % shape.members
    return (
        spark.range(shape.total)
        .where(owner < shape.members - left)
        .select(
            *_names(group),
            _member(group, owner),
            _topic(group, _by(row, shape.partitions) % shape.topics),
            (row % shape.partitions).cast("int").alias("partition"),
        )
    )


def _owned_runs(spark: SparkSession, shape: Shape, left: int) -> DataFrame:
    """The same as a run for each member and topic: every so many partitions as there were members."""
    row, present = F.col("id"), shape.members - left
    group = _by(row, present * shape.topics)
    owner, topic = _by(row, shape.topics) % present, row % shape.topics
    first = F.pmod(owner - topic * shape.partitions, F.lit(shape.members))
    return (
        spark.range(shape.groups * present * shape.topics)
        .where(first < shape.partitions)
        .select(
            *_names(group),
            _member(group, owner),
            _topic(group, topic),
            first.cast("int").alias("first"),
            F.lit(shape.members).alias("step"),
            F.ceil((shape.partitions - first) / shape.members).cast("int").alias("count"),
        )
    )


def _owned_lists(spark: SparkSession, shape: Shape, left: int) -> DataFrame:
    """The runs as lists, a row for each member."""
    key = ("cluster", "group_id", "member_id")
    runs = _owned_runs(spark, shape, left).groupBy(*key).agg(F.collect_list(F.struct(*_RUN)).alias("all"))
    return runs.select(*key, *(F.col(f"all.{name}").alias(f"{name}s") for name in _RUN))


_RUN = ("topic", "first", "step", "count")


def written_differing(spark: SparkSession, members: int, topics: int, partitions: int, folder: Path) -> Path:
    """One group whose members each subscribe to 80 % of the topics; every second one is new and owns nothing.

    The others own, as rows, what a sticky plan gave them before the new ones came.
    """
    path = folder / f"differing-{members}-{topics}-{partitions}"
    if path.exists():
        return path
    row = F.col("id")
    tables = _tables(spark, Shape(1, members, topics, partitions))
    del tables["subscription_lists"]
    tables["members"] = spark.range(members).select(
        *_names(F.lit(0)), _member(F.lit(0), row), F.when(row % 2 == 1, GENERATION).alias("generation_id")
    )
    member, topic = _by(row, topics), row % topics
    tables["subscriptions"] = (
        spark.range(members * topics)
        .where(F.pmod(F.xxhash64(member, topic, F.lit(SEED)), F.lit(100)) < 80)
        .select(*_names(F.lit(0)), _member(F.lit(0), member), _topic(F.lit(0), topic))
    )
    _write(path, lambda: tables)
    fleet = read(spark, path)
    earlier = fleet.members.where(F.col("generation_id").isNotNull()).drop("generation_id")
    subscriptions = fleet.subscription_rows.join(earlier, MEMBER_KEY, "left_semi")
    plan(Fleet(fleet.topics, earlier, subscriptions), "sticky").assignments.write.parquet(str(path / "owned"))
    return path


def read(spark: SparkSession, path: Path) -> Fleet:
    """A new Fleet over the written tables: nothing of an earlier plan is remembered. Lists of subscriptions are read in
    place of rows, where both are written."""
    tables = {name: spark.read.parquet(str(path / name)) for name in INPUT_TABLES if (path / name).exists()}
    if "subscription_lists" in tables:
        tables.pop("subscriptions")
    return Fleet(**tables)


def floor(spark: SparkSession, shape: Shape) -> DataFrame:
    """As many rows as the plan has, its five columns made of the row's number: the least a plan can cost."""
    row = F.col("id")
    group = _by(row, shape.topics * shape.partitions)
    partition = row % shape.partitions
    member = _by(partition * shape.members, shape.partitions)
    return spark.range(shape.total).select(
        *_names(group),
        _member(group, member),
        _topic(group, _by(row, shape.partitions) % shape.topics),
        partition.cast("int").alias("partition"),
    )


def bare_floor(spark: SparkSession, shape: Shape) -> DataFrame:
    """The same with constant strings: what moving the rows costs without making any name."""
    names = [F.lit(f"{name}-0").alias(name) for name in ("cluster", "group_id", "member_id", "topic")]
    return spark.range(shape.total).select(*names, (F.col("id") % shape.partitions).cast("int").alias("partition"))
