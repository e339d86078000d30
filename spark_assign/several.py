"""Several assignors on one fleet: their plans in one table, and the figures of all of them counted in one go.

`metrics.measure` counts one plan; here the same is counted with the assignor as part of the key. What does not hang on
the assignor (who owns what, which claims cross, how many members and topics there are) is read and counted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.assignors.groups import Groups
from spark_assign.assignors.registry import Cooperative, find
from spark_assign.caching import settled
from spark_assign.census import held
from spark_assign.claims import mark_crossing
from spark_assign.fleet import Fleet
from spark_assign.metrics import racks_of_replicas
from spark_assign.overlap import overlap
from spark_assign.rounds import MAX_ROUNDS
from spark_assign.runs import expand
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY

KEY = [*GROUP_KEY, "assignor"]
_TOPIC_KEY = [*GROUP_KEY, "topic"]
_RUN = ["first", "step", "count"]


@dataclass(frozen=True)
class Plans:
    """What several assignors would decide.

    Attributes:
        fleet: what was planned.
        names: the assignors.
        runs: cluster, group_id, assignor, member_id, topic, first, step, count, withheld (whether the member gets it
            only in the second round); computed.
        rejected: cluster, group_id, assignor, code, detail.
        rounds: cluster, group_id, assignor, rounds, stable, later_moved, later_revoked (partitions of the rounds after
            the first) of cooperative assignors; null where there are none.
        partial: the assignors that may leave a partition of a subscribed topic to nobody.
    """

    fleet: Fleet
    names: tuple[str, ...]
    runs: DataFrame
    rejected: DataFrame
    rounds: DataFrame | None
    partial: tuple[str, ...]


def for_each(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """The rows once for every assignor, which is in the column `assignor`."""
    return rows.withColumn("assignor", F.explode(F.array(*(F.lit(name) for name in names))))


def plan_several(fleet: Fleet, names: Sequence[str]) -> Plans:
    """Plan all groups of a fleet by each of these assignors, on one census.

    Raises:
        FleetError: values that no plan can be made from.
    """
    census = fleet.census
    groups = Groups(fleet, census)
    outcomes = {name: find(name).assign(groups) for name in names}
    rejected = [for_each(census.rejected, names)]
    runs: list[DataFrame] = []
    rounds: list[DataFrame] = []
    for name, outcome in outcomes.items():
        named = F.lit(name).alias("assignor")
        for part, withheld in ((outcome.runs, False), (outcome.withheld, True)):
            if part is not None:
                runs.append(part.select(*MEMBER_KEY, "topic", *_RUN, named, F.lit(withheld).alias("withheld")))
        if outcome.rejected is not None:
            rejected.append(outcome.rejected.withColumn("assignor", named))
        assignor = find(name)
        if isinstance(assignor, Cooperative):
            rounds.append(_rounds(assignor.rounds(groups, MAX_ROUNDS)).withColumn("assignor", named))
    return Plans(
        fleet=fleet,
        names=tuple(names),
        runs=settled(reduce(DataFrame.unionByName, runs)),
        rejected=held(reduce(DataFrame.unionByName, rejected))[0],
        rounds=settled(reduce(DataFrame.unionByName, rounds)) if rounds else None,
        partial=tuple(name for name, outcome in outcomes.items() if not outcome.complete),
    )


def _rounds(rounds: DataFrame) -> DataFrame:
    later = F.col("round") > 1
    return rounds.groupBy(*GROUP_KEY).agg(
        F.max("round").alias("rounds"),
        F.max_by("stable", "round").alias("stable"),
        F.coalesce(F.sum(F.when(later, F.col("moved"))), F.lit(0)).alias("later_moved"),
        F.coalesce(F.sum(F.when(later, F.col("revoked"))), F.lit(0)).alias("later_revoked"),
    )


_SUMMED = ("subscribed_partitions", "claimed", "kept", "back", "there", "there_living", "rack_matched")
_TOLD = (
    *("members", "partitions", "max_over_mean", "stddev_per_member"),
    *("rounds", "stable", "later_moved", "later_revoked", "rejected"),
)


def measure_several(plans: Plans, listed: DataFrame) -> DataFrame:
    """Figures of every group and assignor. All that there is to count is brought together as rows and added up once.

    Args:
        plans: what was decided.
        listed: cluster, group_id of the groups to tell of beside those that were planned or rejected.

    Returns:
        cluster, group_id, assignor;
        rejected: code and detail, null where the group is planned; the figures mean nothing where it is not;
        members, partitions (that have an owner in the end), max_over_mean, stddev_per_member;
        subscribed_partitions: of all subscribed topics; claimed: by living members;
        kept: of the claimed ones, those that stay with their claimer; back: that their claimer gives up and gets back;
        there: owned by anybody before, and by somebody in the end; there_living: of those, by a living member before;
        rounds, stable, later_moved, later_revoked: see `Plans.rounds`;
        rack_matched: null where the group has no racks. Null of the others means 0, or that there is nothing.
    """
    names = plans.names
    rejected = plans.rejected.select(*KEY, F.struct("code", "detail").alias("rejected"))
    tables = [for_each(listed.select(*GROUP_KEY), names), rejected, _balance(plans), *_rack_matches(plans)]
    tables.append(for_each(_subscribed(plans.fleet), names))
    tables += [plans.rounds] if plans.rounds is not None else []
    marked = _claims(plans.fleet)
    if marked is not None:
        living = marked.where(~F.col("departed")).groupBy(*GROUP_KEY).agg(F.sum("count").alias("claimed"))
        tables += [for_each(living, names), _in_both(plans, marked), *_still_there(plans, marked)]
    every = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), tables)
    absent = (name for name in (*_SUMMED, *_TOLD) if name not in every.columns)
    nothing = (F.lit(None).cast(_KINDS.get(name, "long")).alias(name) for name in absent)
    every = every.select("*", *nothing)
    summed = (F.sum(name).alias(name) for name in _SUMMED)
    return every.groupBy(*KEY).agg(*summed, *(F.max(name).alias(name) for name in _TOLD))


_KINDS = {"stable": "boolean", "rounds": "int"}


def _balance(plans: Plans) -> DataFrame:
    """How evenly partitions are spread over members, those with none included."""
    listed = for_each(plans.fleet.census.members.select(*MEMBER_KEY), plans.names).withColumn("count", F.lit(0))
    given = F.col("given")
    return (
        plans.runs.select(*KEY, "member_id", "count")
        .unionByName(listed)
        .groupBy(*KEY, "member_id")
        .agg(F.sum("count").alias("given"))
        .groupBy(*KEY)
        .agg(
            F.count(given).alias("members"),
            F.sum(given).alias("partitions"),
            F.when(F.sum(given) > 0, F.max(given) / F.avg(given)).alias("max_over_mean"),
            F.stddev_pop(given).alias("stddev_per_member"),
        )
    )


def _subscribed(fleet: Fleet) -> DataFrame:
    return fleet.census.topics.groupBy(*GROUP_KEY).agg(F.sum("partitions").alias("subscribed_partitions"))


def _claims(fleet: Fleet) -> DataFrame | None:
    """What is owned now, as runs: `Fleet.claims`, and

    partitions (of the topic; null: it is gone), below (how many of the run's partitions exist), crossing.
    """
    claims = fleet.claims()
    if claims is None:
        return None
    known = Groups(fleet, fleet.census).only(claims.where(F.col("count") > 0))
    fitting = F.ceil((F.col("partitions") - F.col("first")) / F.col("step"))
    below = F.greatest(F.lit(0), F.least(F.col("count"), fitting))
    marked = (
        mark_crossing(known)
        .join(fleet.topics.select("cluster", "topic", "partitions"), ["cluster", "topic"], "left")
        .withColumn("below", F.when(F.col("partitions").isNull(), 0).otherwise(below).cast("int"))
    )
    return settled(marked)


def _in_both(plans: Plans, marked: DataFrame) -> DataFrame:
    """Per claim and planned run of the same member and topic: what is `kept`, and what is given `back`."""
    run = (F.col(name).alias(f"to_{name}") for name in _RUN)
    planned = plans.runs.select(*KEY, "member_id", "topic", "withheld", *run)
    both = marked.where(~F.col("departed")).join(planned, [*MEMBER_KEY, "topic"])
    shared = both.select(*KEY, "withheld", overlap().alias("shared"))
    return shared.select(
        *KEY,
        F.when(~F.col("withheld"), F.col("shared")).alias("kept"),
        F.when(F.col("withheld"), F.col("shared")).alias("back"),
    )


def _still_there(plans: Plans, marked: DataFrame) -> list[DataFrame]:
    """Partitions that were owned and are assigned: `there`, and `there_living`.

    Where an assignor gives away all of a topic, these are counted once for all assignors, on runs. Only topics that are
    assigned in part, or of which somebody claims partitions that do not exist, are looked at partition by partition.
    """
    living, exists = ~F.col("departed"), F.col("partition") < F.col("partitions")
    apart = marked.where(~F.col("crossing")).select(
        *_TOPIC_KEY,
        "partitions",
        (F.col("below") < F.col("count")).alias("astray"),
        F.col("below").alias("there"),
        F.when(living, F.col("below")).alias("there_living"),
    )
    crossed = (
        expand(marked.where("crossing"))
        .groupBy(*_TOPIC_KEY, "partition", "partitions")
        .agg(F.bool_or(living).alias("living"))
        .select(
            *_TOPIC_KEY,
            "partitions",
            (~exists).alias("astray"),
            exists.cast("int").alias("there"),
            (exists & F.col("living")).cast("int").alias("there_living"),
        )
    )
    topics = (
        apart.unionByName(crossed)
        .where(F.col("partitions").isNotNull())
        .groupBy(*_TOPIC_KEY, "partitions")
        .agg(
            F.bool_or("astray").alias("astray"),
            F.sum("there").alias("there"),
            F.sum("there_living").alias("there_living"),
        )
    )
    assigned = plans.runs.groupBy(*KEY, "topic").agg(F.sum("count").alias("assigned"))
    both = topics.join(assigned, _TOPIC_KEY)
    if not plans.partial:
        return [both.select(*KEY, "there", "there_living")]
    whole = ~F.col("assignor").isin(list(plans.partial)) | (
        (F.col("assigned") == F.col("partitions")) & ~F.col("astray")
    )
    odd = both.where(~whole).select(*KEY, "topic")
    return [both.where(whole).select(*KEY, "there", "there_living"), _one_by_one(plans, marked, odd)]


def _one_by_one(plans: Plans, marked: DataFrame, odd: DataFrame) -> DataFrame:
    """The same for these groups, assignors and topics, partition by partition."""
    topics = odd.select(*_TOPIC_KEY).distinct()
    partition = [*_TOPIC_KEY, "partition"]
    owned = (
        expand(marked.where(F.col("partitions").isNotNull()).join(topics, _TOPIC_KEY, "left_semi"))
        .groupBy(*partition)
        .agg(F.bool_or(~F.col("departed")).alias("living"))
    )
    now = expand(plans.runs.select(*KEY, "topic", *_RUN).join(odd, [*KEY, "topic"], "left_semi"))
    return now.join(owned, partition).select(
        *KEY, F.lit(1).alias("there"), F.col("living").cast("int").alias("there_living")
    )


def _rack_matches(plans: Plans) -> list[DataFrame]:
    """Partitions of members that have a replica in their own rack, in groups where members have racks."""
    fleet = plans.fleet
    if not fleet.racks_known or not fleet.census.racked_members:
        return []
    racked = fleet.members.where(F.col("rack_id") != "").select(*MEMBER_KEY, "rack_id")
    near = expand(plans.runs.select(*KEY, "member_id", "topic", *_RUN).join(racked, MEMBER_KEY)).join(
        racks_of_replicas(fleet), ["cluster", "topic", "partition", "rack_id"], "left_semi"
    )
    return [
        for_each(racked.select(*GROUP_KEY).distinct(), plans.names).withColumn("rack_matched", F.lit(0)),
        near.select(*KEY, F.lit(1).alias("rack_matched")),
    ]
