"""What changes hands: the plan against what is owned now.

Reasons, the first that fits
    topic-gone        the topic does not exist (any more)
    partition-gone    the topic has fewer partitions (now)
    new               nobody owned it
    member-left       its owner has left the group
    claim-conflict    two or more members claim it, and this one does not keep it
    unsubscribed      its owner does not subscribe to the topic (any more)
    unassigned        nobody gets it
    over-quota        its owner has more than its share (sticky assignors)
    rack-mismatch     it has no replica in its owner's rack (sticky assignors)
    balancing         its next owner had at least two partitions less (sticky assignors, differing subscriptions)
    rebalanced        the assignor gives it to another member
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.runs import expand
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY

if TYPE_CHECKING:
    from spark_assign.plan import Plan

_PARTITION_KEY = [*GROUP_KEY, "topic", "partition"]


def find_moves(plan: Plan) -> DataFrame:
    """Every change of owner, a row per partition and owner that loses it (one row where nobody owned it).

    Returns:
        cluster, group_id, topic, partition, from_member_id (null: nobody owned it), to_member_id (null: nobody gets
        it), reason.
    """
    fleet = plan.fleet
    now = expand(plan.target).withColumnRenamed("member_id", "to_member_id")
    claims = fleet.claims()
    if claims is None:
        return now.select(
            *_PARTITION_KEY,
            F.lit(None).cast("string").alias("from_member_id"),
            "to_member_id",
            F.lit("new").alias("reason"),
        )
    before = (
        expand(claims.join(plan.groups.select(*GROUP_KEY), GROUP_KEY, "left_semi"))
        .withColumnRenamed("member_id", "from_member_id")
        .withColumn("claimers", F.count(F.lit(1)).over(Window.partitionBy(*_PARTITION_KEY)))
    )
    changed = before.join(now, _PARTITION_KEY, "full").where(~F.col("from_member_id").eqNullSafe(F.col("to_member_id")))
    counts = fleet.topics.select("cluster", "topic", "partitions")
    still = fleet.subscriptions.select(
        *GROUP_KEY, F.col("member_id").alias("from_member_id"), "topic", F.lit(True).alias("subscribed")
    ).distinct()
    reason = (
        F.when(F.col("partitions").isNull(), "topic-gone")
        .when(F.col("partition") >= F.col("partitions"), "partition-gone")
        .when(F.col("from_member_id").isNull(), "new")
        .when(F.col("departed"), "member-left")
        .when(F.col("claimers") > 1, "claim-conflict")
        .when(F.col("subscribed").isNull(), "unsubscribed")
        .when(F.col("to_member_id").isNull(), "unassigned")
        .otherwise(F.coalesce("taken_because", F.lit("rebalanced")))
    )
    if plan.reasons is None:
        changed = changed.withColumn("taken_because", F.lit(None).cast("string"))
    else:
        taken = expand(plan.reasons).withColumnRenamed("reason", "taken_because")
        changed = changed.join(taken, _PARTITION_KEY, "left")
    return (
        changed.join(counts, ["cluster", "topic"], "left")
        .join(still, [*GROUP_KEY, "from_member_id", "topic"], "left")
        .select(*_PARTITION_KEY, "from_member_id", "to_member_id", reason.alias("reason"))
    )


def find_revocations(plan: Plan) -> DataFrame:
    """What living owners must give up before the next owner may have it.

    That is what they lose, and, of what is withheld, also what they get back later (partitions that two members claim
    are given up by both, `CooperativeStickyAssignor`).

    Returns:
        cluster, group_id, member_id (owner now), topic, partition, next_member_id (null: nobody).
    """
    fleet = plan.fleet
    given_up = plan.moves.where(F.col("from_member_id").isNotNull()).select(
        *GROUP_KEY,
        F.col("from_member_id").alias("member_id"),
        "topic",
        "partition",
        F.col("to_member_id").alias("next_member_id"),
    )
    if fleet.departed is not None:
        given_up = given_up.join(fleet.members.select(*MEMBER_KEY), MEMBER_KEY, "left_semi")
    claims = fleet.claims()
    if plan.withheld is None or claims is None:
        return given_up
    back = expand(plan.withheld).join(
        expand(claims.where(~F.col("departed"))).drop("departed"), [*MEMBER_KEY, "topic", "partition"], "left_semi"
    )
    return given_up.unionByName(back.withColumn("next_member_id", F.col("member_id")))
