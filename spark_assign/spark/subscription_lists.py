"""Subscriptions as lists: one row says that all of its members subscribe to all of its topics.

Members of a group usually subscribe to the same topics. As rows, 2,000 members of 1,000 topics are two million
subscriptions; as lists, they are one row with 3,000 names. A null list counts as a list with a null name, which the
checks report.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.spark.dataframes import union
from spark_assign.tables.groups import GROUP_KEY, MEMBER_KEY


def all_rows(subscriptions: DataFrame | None, lists: DataFrame | None) -> DataFrame:
    """Returns cluster, group_id, member_id, topic from one or both of the tables."""
    tables = [] if subscriptions is None else [subscriptions]
    if lists is not None:
        tables.append(to_rows(lists))
    return union(table.select(*MEMBER_KEY, "topic") for table in tables)


def all_topics(subscriptions: DataFrame | None, lists: DataFrame | None) -> DataFrame:
    """Returns the subscribed topics of each group from one or both of the tables: cluster, group_id, topic."""
    tables = [] if subscriptions is None else [subscriptions]
    if lists is not None:
        tables.append(list_topics(lists))
    return union(table.select(*GROUP_KEY, "topic") for table in tables).distinct()


def count_subscribers(subscriptions: DataFrame | None, lists: DataFrame | None) -> DataFrame:
    """Returns the number of members that subscribe to each topic of a group, from one or both of the tables: cluster,
    group_id, topic, subscribers.
    """
    tables = [] if subscriptions is None else [subscriptions.withColumn("subscribers", F.lit(1))]
    if lists is not None:
        tables.append(list_topics(lists.withColumn("subscribers", F.size(_names("member_ids"))), "subscribers"))
    rows = union(table.select(*GROUP_KEY, "topic", "subscribers") for table in tables)
    return rows.groupBy(*GROUP_KEY, "topic").agg(F.sum("subscribers").alias("subscribers"))


def to_rows(lists: DataFrame) -> DataFrame:
    """Returns one row per member and topic: cluster, group_id, member_id, topic. Duplicates are kept."""
    members = lists.select(*GROUP_KEY, F.explode(_names("member_ids")).alias("member_id"), "topics")
    return members.select(*MEMBER_KEY, F.explode(_names("topics")).alias("topic"))


def to_lists(rows: DataFrame) -> DataFrame:
    """Returns subscriptions as one list per distinct set of topics: cluster, group_id, member_ids, topics."""
    topics = F.sort_array(F.collect_set(F.struct("topic"))).alias("topics")
    of_member = rows.groupBy(*MEMBER_KEY).agg(topics).withColumn("topics", F.col("topics.topic").cast("array<string>"))
    # Sorted, so that the hash of a list is the same in each query that computes it.
    members = F.sort_array(F.collect_list(F.struct("member_id"))).alias("members")
    lists = of_member.groupBy(*GROUP_KEY, "topics").agg(members)
    return lists.select(*GROUP_KEY, "topics", F.col("members.member_id").cast("array<string>").alias("member_ids"))


def list_members(lists: DataFrame) -> DataFrame:
    """Returns the members of the lists that have topics: cluster, group_id, member_id, list (hash of its content)."""
    lists = lists.where("topics IS NULL OR size(topics) > 0")
    return _exploded(lists, "member_ids", "member_id")


def list_topics(lists: DataFrame, *more: str) -> DataFrame:
    """Returns the topics of the lists that have members: cluster, group_id, topic, list (hash of its content), and more
    columns of the lists.
    """
    lists = lists.where("member_ids IS NULL OR size(member_ids) > 0")
    return _exploded(lists, "topics", "topic", *more)


def _exploded(lists: DataFrame, column: str, name: str, *more: str) -> DataFrame:
    """Returns one row per element of a column of lists: GROUP_KEY, the element, list, and more columns of the lists.

    The hash is computed before: the embedded engine would copy both lists to each of their elements.
    """
    hashed = lists.select(*GROUP_KEY, _names(column).alias(column), _hash(), *more)
    return hashed.select(*GROUP_KEY, F.explode(column).alias(name), "list", *more)


def without_members(lists: DataFrame, leavers: DataFrame) -> DataFrame:
    """Returns the lists without these members (cluster, group_id, member_id)."""
    gone = leavers.groupBy(*GROUP_KEY).agg(F.collect_list("member_id").alias("gone"))
    left = F.when(F.col("gone").isNull(), F.col("member_ids")).otherwise(F.array_except("member_ids", "gone"))
    return lists.join(gone, GROUP_KEY, "left").withColumn("member_ids", left).drop("gone")


def with_members(lists: DataFrame, joiners: DataFrame, topics: Sequence[str] | None) -> DataFrame:
    """Returns the lists with these members (cluster, group_id, member_id).

    Args:
        lists: cluster, group_id, member_ids, topics.
        joiners: the new members.
        topics: topics that they subscribe to. None: all subscribed topics of their group.
    """
    new = joiners.groupBy(*GROUP_KEY).agg(F.sort_array(F.collect_list("member_id")).alias("member_ids"))
    if topics is not None:
        new = new.withColumn("topics", F.array(*map(F.lit, topics)).cast("array<string>"))
    else:
        new = new.join(
            list_topics(lists).groupBy(*GROUP_KEY).agg(F.sort_array(F.collect_set("topic")).alias("topics")), GROUP_KEY
        )
    return union([lists, new])


def _hash() -> Column:
    """Returns a hash of a list. The number of members separates them from the topics."""
    return F.xxhash64(F.size("member_ids"), "member_ids", "topics").alias("list")


def _names(column: str) -> Column:
    return F.coalesce(column, F.array(F.lit(None).cast("string")))
