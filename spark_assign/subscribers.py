"""Who subscribes to what, in as few rows as possible.

Topics of a group that have the same subscribers form a class: members are ranked once per class and not once per
topic. In most groups all members subscribe to the same topics, so that there is one class, and its members are the
group's. A class is known by a fingerprint of its subscribers (their number and three sums of hashes), so that finding
the classes is one aggregation over the subscriptions, whose rows are never sorted nor joined.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from spark_assign.java_order import string_order
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY

CLASS_KEY = [*GROUP_KEY, "subscribers"]


def fingerprint(over: WindowSpec | None = None) -> Column:
    """Aggregate `member_id`s to a fingerprint of their multiset: number, and sums of 64 + 32 bits of hash.

    Halves of the 64-bit hash are added apart, so that the sums cannot overflow.
    """
    wide = F.xxhash64("member_id")
    parts = {
        "number": F.count(F.lit(1)),
        "low": F.sum(wide.bitwiseAND(F.lit(0xFFFFFFFF))),
        "high": F.sum(F.shiftrightunsigned(wide, 32)),
        "other": F.sum(F.hash("member_id").cast("long")),
    }
    return F.struct(*((part if over is None else part.over(over)).alias(name) for name, part in parts.items()))


def subscribed_topics(subscriptions: DataFrame, topics: DataFrame) -> DataFrame:
    """One row per group and topic that a member of it subscribes to.

    Returns:
        cluster, group_id, topic, subscribers (the class), partitions (null: the topic has no metadata).
    """
    asked = subscriptions.groupBy(*GROUP_KEY, "topic").agg(fingerprint().alias("subscribers"))
    counts = topics.where(F.col("partitions") > 0).select("cluster", "topic", "partitions")
    return asked.join(counts, ["cluster", "topic"], "left").select(*CLASS_KEY, "topic", "partitions")


def ranked_members(members: DataFrame) -> DataFrame:
    """Members in the order in which range and roundrobin serve them (`AbstractPartitionAssignor.MemberInfo`).

    Static members come first, by instance id, then the others by member id, both in the order of `String.compareTo`.

    Returns:
        cluster, group_id, subscribers (the class of all members), member_id, rack_id (null: no rack), rank (0-based).
    """
    group = Window.partitionBy(*GROUP_KEY)
    served = group.orderBy(
        F.col("group_instance_id").isNull(), string_order("group_instance_id"), string_order("member_id")
    )
    rack = F.when(F.col("rack_id") != "", F.col("rack_id")).alias("rack_id")
    return members.select(
        *GROUP_KEY,
        fingerprint(group).alias("subscribers"),
        "member_id",
        rack,
        (F.row_number().over(served) - 1).alias("rank"),
    )


def partial_classes(topics: DataFrame, ranked: DataFrame) -> DataFrame:
    """The classes that are not simply all members of their group, each with its least topic.

    Returns:
        cluster, group_id, subscribers, topic.
    """
    everyone = ranked.select(*CLASS_KEY).distinct()
    return topics.join(everyone, CLASS_KEY, "left_anti").groupBy(*CLASS_KEY).agg(F.min("topic").alias("topic"))


def partial_subscribers(subscriptions: DataFrame, partial: DataFrame) -> DataFrame:
    """The subscribers of the classes in `partial`, read off each one's least topic.

    Returns:
        cluster, group_id, subscribers, member_id; each member once per class.
    """
    return (
        subscriptions.select(*MEMBER_KEY, "topic")
        .join(partial, [*GROUP_KEY, "topic"])
        .select(*CLASS_KEY, "member_id")
        .distinct()
    )


def class_members(ranked: DataFrame, partial: DataFrame | None) -> DataFrame:
    """One row per class and subscriber, ranked within the class.

    Args:
        ranked: `ranked_members`.
        partial: `partial_subscribers`, or null where the fleet has none.

    Returns:
        cluster, group_id, subscribers, member_id, rack_id, rank (0-based, within the class), ring (rank within the
        group), members (of the class).
    """
    everyone = ranked.withColumn("ring", F.col("rank")).withColumn("members", F.col("subscribers.number"))
    if partial is None:
        return everyone
    in_class = Window.partitionBy(*CLASS_KEY).orderBy("ring")
    some = (
        ranked.select(*MEMBER_KEY, "rack_id", F.col("rank").alias("ring"))
        .join(partial, MEMBER_KEY)
        .withColumn("rank", F.row_number().over(in_class) - 1)
        .withColumn("members", F.count(F.lit(1)).over(Window.partitionBy(*CLASS_KEY)))
    )
    return everyone.unionByName(some)
