"""Synthetic fleets of any size as Parquet tables, and the floor that plans are measured against.

Names carry their group's number: each group has its own topics, as many distinct names as a real fleet.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_assign import Fleet

CLUSTERS = 20


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
    path = folder / f"fleet-{shape.groups}-{shape.members}-{shape.topics}-{shape.partitions}"
    if path.exists():
        return path
    row = F.col("id")
    group = _by(row, shape.topics)
    topics = spark.range(shape.groups * shape.topics).select(
        _names(group)[0], _topic(group, row % shape.topics), F.lit(shape.partitions).alias("partitions")
    )
    group = _by(row, shape.members)
    members = spark.range(shape.groups * shape.members).select(*_names(group), _member(group, row % shape.members))
    group = _by(row, shape.members * shape.topics)
    subscriptions = spark.range(shape.groups * shape.members * shape.topics).select(
        *_names(group),
        _member(group, _by(row, shape.topics) % shape.members),
        _topic(group, row % shape.topics),
    )
    for name, table in {"topics": topics, "members": members, "subscriptions": subscriptions}.items():
        table.write.parquet(str(path / name))
    return path


def read(spark: SparkSession, path: Path) -> Fleet:
    """A new Fleet over the written tables: nothing of an earlier plan is remembered."""
    names = ("topics", "members", "subscriptions")
    return Fleet(**{name: spark.read.parquet(str(path / name)) for name in names})


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
