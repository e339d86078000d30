"""What members own now, held against a plan, counted on runs.

Only topics whose claims cross each other, or which are assigned in part, are ever expanded to partitions.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.overlap import overlap
from spark_assign.runs import expand
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY

if TYPE_CHECKING:
    from spark_assign.plan import Plan

_TOPIC_KEY = [*GROUP_KEY, "topic"]
_PARTITION_KEY = [*_TOPIC_KEY, "partition"]


class Claims:
    """The claims of a fleet's planned groups, and what becomes of them under a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.fleet = plan.fleet

    def figures(self) -> DataFrame | None:
        """Per group, in partitions: moved, revoked, owned_topic_gone, owned_beyond_count, claim_conflicts.

        Null where the fleet says nothing of ownership.
        """
        if self.fleet.claims() is None:
            return None
        moved = F.coalesce("still_there", F.lit(0)) - F.coalesce("kept", F.lit(0))
        revoked = F.col("claimed") - F.coalesce("kept", F.lit(0))
        return (
            self._oddities()
            .join(self._kept(), GROUP_KEY, "left")
            .join(self._held(), GROUP_KEY, "left")
            .withColumn("moved", moved)
            .withColumn("revoked", revoked)
            .drop("claimed", "kept", "still_there")
        )

    @cached_property
    def runs(self) -> DataFrame:
        """Claims of planned groups as runs, with the topic's `partitions` (null: gone) and their number `below` it."""
        claims = self.fleet.claims()
        assert claims is not None
        counts = self.fleet.topics.select("cluster", "topic", "partitions")
        fitting = F.ceil((F.col("partitions") - F.col("first")) / F.col("step"))
        below = F.greatest(F.lit(0), F.least(F.col("count"), fitting))
        return (
            claims.where(F.col("count") > 0)
            .join(self.plan.groups.select(*GROUP_KEY), GROUP_KEY, "left_semi")
            .join(counts, ["cluster", "topic"], "left")
            .withColumn("below", F.when(F.col("partitions").isNull(), 0).otherwise(below).cast("int"))
        )

    def _oddities(self) -> DataFrame:
        living = ~F.col("departed")
        gone = F.col("partitions").isNull()
        return self.runs.groupBy(*GROUP_KEY).agg(
            _total(F.col("count"), living).alias("claimed"),
            _total(F.col("count"), living & gone).alias("owned_topic_gone"),
            _total(F.col("count") - F.col("below"), living & ~gone).alias("owned_beyond_count"),
        )

    def _kept(self) -> DataFrame:
        """Partitions that stay with a member that claims them."""
        planned = self.plan.runs.select(*MEMBER_KEY, "topic", *(F.col(c).alias(f"to_{c}") for c in ("first", "step", "count")))
        both = self.runs.where(~F.col("departed")).join(planned, [*MEMBER_KEY, "topic"])
        return both.groupBy(*GROUP_KEY).agg(F.sum(overlap(by_rows=self.fleet.owned is not None)).alias("kept"))

    def _held(self) -> DataFrame:
        """Per group: `still_there`, partitions that somebody owned and somebody gets; `claim_conflicts`."""
        topics = (
            self._crossing()
            .groupBy(*_TOPIC_KEY, "crossing", "partitions")
            .agg(F.sum("below").alias("below"))
            .join(self._assigned(), _TOPIC_KEY, "left")
        )
        whole = F.col("assigned").isNull() | (F.col("assigned") == F.col("partitions"))
        plain = topics.where(~F.col("crossing") & whole).select(
            *GROUP_KEY,
            F.when(F.col("assigned") > 0, F.col("below")).otherwise(0).cast("long").alias("still_there"),
            F.lit(0).cast("long").alias("claim_conflicts"),
        )
        awkward = topics.where(F.col("crossing") | ~whole).select(*_TOPIC_KEY, "partitions", "assigned")
        owned = (
            expand(self.runs.drop("partitions").join(awkward, _TOPIC_KEY))
            .groupBy(*_PARTITION_KEY, "partitions", "assigned")
            .agg(F.count(F.when(~F.col("departed"), 1)).alias("claimers"))
        )
        counted = self._mark_assigned(owned).select(
            *GROUP_KEY,
            F.col("is_assigned").cast("long").alias("still_there"),
            (F.col("claimers") > 1).cast("long").alias("claim_conflicts"),
        )
        return (
            plain.unionByName(counted)
            .groupBy(*GROUP_KEY)
            .agg(F.sum("still_there").alias("still_there"), F.sum("claim_conflicts").alias("claim_conflicts"))
        )

    def _assigned(self) -> DataFrame:
        """Per group and topic: how many of its partitions are `assigned`; topics without any are left out."""
        if self.plan.complete:
            subscribed = self.fleet.census.topics.where(F.col("partitions").isNotNull())
            return subscribed.select(*_TOPIC_KEY, F.col("partitions").alias("assigned"))
        return self.plan.runs.groupBy(*_TOPIC_KEY).agg(F.sum("count").alias("assigned"))

    def _mark_assigned(self, partitions: DataFrame) -> DataFrame:
        """Add `is_assigned` to single partitions."""
        if self.plan.complete:
            there = F.col("assigned").isNotNull() & (F.col("partition") < F.col("partitions"))
            return partitions.withColumn("is_assigned", there)
        topics = partitions.select(*_TOPIC_KEY).distinct()
        now = expand(self.plan.runs.join(topics, _TOPIC_KEY, "left_semi")).select(
            *_PARTITION_KEY, F.lit(True).alias("is_assigned")
        )
        return partitions.join(now, _PARTITION_KEY, "left").withColumn(
            "is_assigned", F.coalesce("is_assigned", F.lit(False))
        )

    def _crossing(self) -> DataFrame:
        """Add `crossing`: whether some partition of the topic may be claimed twice.

        Claims cannot meet if each begins after all before it have ended, or if all have one step and differ modulo it.
        """
        last = F.col("first") + F.col("step") * (F.col("count") - 1)
        topic = Window.partitionBy(*_TOPIC_KEY)
        earlier = topic.orderBy("first", "count", "member_id").rowsBetween(Window.unboundedPreceding, -1)
        begins_within = F.coalesce(F.max(last).over(earlier) >= F.col("first"), F.lit(False))
        one_step = F.min("step").over(topic) == F.max("step").over(topic)
        residues = F.size(F.collect_set(F.col("first") % F.col("step")).over(topic))
        interleaved = one_step & (residues == F.count(F.lit(1)).over(topic))
        marked = self.runs.withColumn("within", begins_within).withColumn("interleaved", interleaved)
        return marked.withColumn("crossing", F.bool_or("within").over(topic) & ~F.col("interleaved")).drop(
            "within", "interleaved"
        )


def _total(value: Column, where: Column) -> Column:
    return F.coalesce(F.sum(F.when(where, value)), F.lit(0))
