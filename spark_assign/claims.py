"""What members own now, held against a plan, counted on runs.

Only topics whose claims cross each other, or which are assigned in part, are ever expanded to partitions.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.assignors.groups import Groups
from spark_assign.overlap import overlap
from spark_assign.runs import expand
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY

if TYPE_CHECKING:
    from spark_assign.plan import Plan

ODDITIES = ("owned_topic_gone", "owned_beyond_count", "claim_conflicts")
"""Partitions: of topics that do not exist, beyond their topic's count, claimed by two living members or more."""

_TOPIC_KEY = [*GROUP_KEY, "topic"]
_PARTITION_KEY = [*_TOPIC_KEY, "partition"]


class Claims:
    """The claims of a fleet's groups, and what becomes of them under a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.fleet = plan.fleet

    def counts(self) -> list[DataFrame]:
        """Tables of cluster, group_id and counts of partitions, to be summed up per group.

        claimed: of living members. kept: of those, what stays with its claimer. back: what its claimer gives up
        and gets back. still_there: owned by anybody, left or
        living, and assigned now. owned_topic_gone, owned_beyond_count, claim_conflicts: `ODDITIES`. No table where the
        fleet says nothing of ownership.
        """
        if self.fleet.claims() is None:
            return []
        counts = [self._by_run(), self._by_partition(), self._common(self.plan.runs, "kept")]
        return counts if self.plan.withheld is None else [*counts, self._common(self.plan.withheld, "back")]

    @cached_property
    def runs(self) -> DataFrame:
        """Claims as runs, and what is known of their topic.

        Beside the claims' columns: `partitions` of the topic (null: it is gone); `below`, how many of the run's
        partitions exist; `assigned`, how many of the topic's are (null: none); `awkward`, whether the run cannot be
        counted as a whole: others cross it, its topic is assigned in part, or it goes on beyond its topic's end.
        """
        claims = self.fleet.claims()
        assert claims is not None
        known = Groups(self.fleet, self.fleet.census).only(claims.where(F.col("count") > 0))
        fitting = F.ceil((F.col("partitions") - F.col("first")) / F.col("step"))
        below = F.greatest(F.lit(0), F.least(F.col("count"), fitting))
        partly = F.coalesce(F.col("assigned") < F.col("partitions"), F.lit(False))
        runs = (
            mark_crossing(known)
            .join(self.fleet.topics.select("cluster", "topic", "partitions"), ["cluster", "topic"], "left")
            .join(self._assigned(), _TOPIC_KEY, "left")
            .withColumn("below", F.when(F.col("partitions").isNull(), 0).otherwise(below).cast("int"))
            .withColumn("awkward", F.col("crossing") | partly | self._astray())
            .drop("crossing")
        )
        return self.fleet.census.keep(runs)

    def _astray(self) -> Column:
        """Whether a run goes on beyond its topic's end while sticky assignors may give such partitions away, too."""
        if self.plan.complete:
            return F.lit(False)
        return F.coalesce(F.col("below") < F.col("count"), F.lit(False)) & F.col("partitions").isNotNull()

    def _assigned(self) -> DataFrame:
        """Per group and topic: how many of its partitions are `assigned`; topics without any are left out."""
        if self.plan.complete:
            subscribed = self.fleet.census.topics.where(F.col("partitions").isNotNull())
            return subscribed.select(*_TOPIC_KEY, F.col("partitions").alias("assigned"))
        return self.plan.target.groupBy(*_TOPIC_KEY).agg(F.sum("count").alias("assigned"))

    def _by_run(self) -> DataFrame:
        """What can be counted on whole runs."""
        living, gone = ~F.col("departed"), F.col("partitions").isNull()
        return self.runs.select(
            *GROUP_KEY,
            F.when(living, F.col("count")).alias("claimed"),
            F.when(living & gone, F.col("count")).alias("owned_topic_gone"),
            F.when(living & ~gone, F.col("count") - F.col("below")).alias("owned_beyond_count"),
            F.when(~F.col("awkward") & F.col("assigned").isNotNull(), F.col("below")).alias("still_there"),
        )

    def _by_partition(self) -> DataFrame:
        """What awkward runs hold, partition by partition."""
        owned = (
            expand(self.runs.where("awkward"))
            .groupBy(*_PARTITION_KEY, "partitions", "assigned")
            .agg(F.count(F.when(~F.col("departed"), 1)).alias("claimers"))
        )
        if self.plan.complete:
            assigned = F.col("assigned").isNotNull() & (F.col("partition") < F.col("partitions"))
            owned = owned.withColumn("is_assigned", assigned)
        else:
            topics = owned.select(*_TOPIC_KEY).distinct()
            now = expand(self.plan.target.join(topics, _TOPIC_KEY, "left_semi"))
            now = now.select(*_PARTITION_KEY, F.lit(True).alias("is_assigned"))
            owned = owned.join(now, _PARTITION_KEY, "left")
        return owned.select(
            *GROUP_KEY,
            F.col("is_assigned").cast("int").alias("still_there"),
            (F.col("claimers") > 1).cast("int").alias("claim_conflicts"),
        )

    def _common(self, runs: DataFrame, name: str) -> DataFrame:
        """What members claim and have in these runs of the plan too."""
        run = {f"to_{name}": F.col(name) for name in ("first", "step", "count")}
        planned = runs.select(*MEMBER_KEY, "topic", *(value.alias(name) for name, value in run.items()))
        both = self.runs.where(~F.col("departed")).join(planned, [*MEMBER_KEY, "topic"])
        return both.select(*GROUP_KEY, overlap().alias(name))


def mark_crossing(claims: DataFrame) -> DataFrame:
    """Add `crossing`: whether some partition of the claim's topic may be claimed twice.

    Claims cannot meet if each begins after all before it have ended, or if all have one step and differ modulo it.
    """
    last = F.col("first") + F.col("step") * (F.col("count") - 1)
    topic = Window.partitionBy(*_TOPIC_KEY)
    earlier = topic.orderBy("first", "count", "member_id").rowsBetween(Window.unboundedPreceding, -1)
    begins_within = F.coalesce(F.max(last).over(earlier) >= F.col("first"), F.lit(False))
    one_step = F.min("step").over(topic) == F.max("step").over(topic)
    residues = F.size(F.collect_set(F.col("first") % F.col("step")).over(topic))
    interleaved = one_step & (residues == F.count(F.lit(1)).over(topic))
    marked = claims.withColumn("within", begins_within).withColumn("interleaved", interleaved)
    crossing = F.bool_or("within").over(topic) & ~F.col("interleaved")
    return marked.withColumn("crossing", crossing).drop("within", "interleaved")
