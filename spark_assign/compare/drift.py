"""Drift: what changed between two fleets, or between two plans, or between a plan and what came of it.

Members that came and went, partitions that have another owner, topics that grew, and per group how its balance went.
Ownership is compared as runs: what both sides have in the same run is never expanded to partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.errors import SourceError
from spark_assign.fleet import Fleet
from spark_assign.plan import Plan, consumer_groups
from spark_assign.runs import compress, expand
from spark_assign.schemas import DRIFT_GROUPS, DRIFT_MEMBERS, DRIFT_OWNERSHIP, DRIFT_TOPICS, GROUP_KEY, MEMBER_KEY

_RUN = [*MEMBER_KEY, "topic", "first", "step", "count"]
_PARTITION = [*GROUP_KEY, "topic", "partition"]
_ABOUT = ["group_instance_id", "client_id", "client_host"]


@dataclass(frozen=True)
class State:
    """One side of a drift.

    Attributes:
        members: cluster, group_id, member_id, group_instance_id, client_id, client_host.
        runs: cluster, group_id, member_id, topic, first, step, count: who has what.
        groups: cluster, group_id, assignor of all groups, those without members too.
        rejected: cluster, group_id, code of groups that cannot be trusted.
        topics: cluster, topic, partitions; null where they are not known.
        balance: cluster, group_id, members, partitions, max_over_mean, where they were counted already; else null.
    """

    members: DataFrame
    runs: DataFrame
    groups: DataFrame
    rejected: DataFrame
    topics: DataFrame | None = None
    balance: DataFrame | None = None

    def figures(self) -> DataFrame:
        """Per group: cluster, group_id, members, partitions, max_over_mean."""
        if self.balance is not None:
            return self.balance
        nothing = self.members.select(*MEMBER_KEY, F.lit(0).alias("count"))
        given = F.col("given")
        return (
            self.runs.select(*MEMBER_KEY, "count")
            .unionByName(nothing)
            .groupBy(*MEMBER_KEY)
            .agg(F.sum("count").alias("given"))
            .groupBy(*GROUP_KEY)
            .agg(
                F.count(given).alias("members"),
                F.sum(given).alias("partitions"),
                F.when(F.sum(given) > 0, F.max(given) / F.avg(given)).alias("max_over_mean"),
            )
        )

    def without(self, groups: DataFrame) -> State:
        """The same without the members and the ownership of some groups."""
        return replace(
            self,
            members=self.members.join(groups, GROUP_KEY, "left_anti"),
            runs=self.runs.join(groups, GROUP_KEY, "left_anti"),
        )


@dataclass(frozen=True)
class Drift:
    """What changed, as lazy DataFrames (columns: `schemas.DRIFT_TABLES`)."""

    before: State
    after: State

    @cached_property
    def groups(self) -> DataFrame:
        """A row per group that is on either side, with what changed in it."""
        return _groups(self)

    @cached_property
    def members(self) -> DataFrame:
        """A row per member that came, went or, being static, restarted. Groups that one side rejects are left out."""
        return _members(*self._both)

    @cached_property
    def ownership(self) -> DataFrame:
        """A row per partition that has another owner. Groups that one side rejects are left out."""
        return _ownership(self, *self._both)

    @cached_property
    def topics(self) -> DataFrame:
        """A row per topic that changed; none where one side does not know its topics, as stored plans do not."""
        return _topics(self.before, self.after)

    @cached_property
    def _both(self) -> tuple[State, State]:
        """The two sides without the groups that one of them rejects."""
        rejected = self.before.rejected.select(*GROUP_KEY).unionByName(self.after.rejected.select(*GROUP_KEY))
        return self.before.without(rejected), self.after.without(rejected)


def drift(before: Fleet | Plan | Mapping[str, DataFrame], after: Fleet | Plan | Mapping[str, DataFrame]) -> Drift:
    """What changed between two fleets or plans.

    Args:
        before: a fleet (what is owned now), a plan (what is assigned in the end), or the tables of a stored plan
            (`sinks.plan_store.read_plan(…).tables`; metrics, rejected, and runs or assignments; with revocations what
            a cooperative plan withholds at first counts for its next owner). Of a stored plan only members that get
            something are known by name, and topics not at all.
        after: likewise. The two sides need not be of one kind: a plan against the fleet that came of it.

    Returns:
        the drift. Every group of either side is in its `groups`; one that has a fault is there with the code.

    Raises:
        FleetError: values of a fleet that cannot be read.
        SourceError: a stored plan lacks a table.
    """
    return Drift(_state(before), _state(after))


# --- the two sides ---------------------------------------------------------------------------------------------


def _state(side: Fleet | Plan | Mapping[str, DataFrame]) -> State:
    if isinstance(side, Fleet):
        runs = side.runs()
        return _of_fleet(side, _nothing_owned(side) if runs is None else runs)
    if isinstance(side, Plan):
        state = _of_fleet(side.fleet, side.target.select(*_RUN), side.rejected)
        return replace(state, groups=side.groups)
    return _of_stored_plan(side)


def _of_fleet(fleet: Fleet, runs: DataFrame, rejected: DataFrame | None = None) -> State:
    groups = fleet.members.select(*GROUP_KEY).distinct()
    if fleet.groups is None:
        groups = groups.withColumn("assignor", F.lit(None).cast("string"))
    else:
        known = consumer_groups(fleet.groups).groupBy(*GROUP_KEY).agg(F.min("assignor").alias("assignor"))
        groups = groups.join(known, GROUP_KEY, "full")
    members = fleet.members.select(*MEMBER_KEY, *_ABOUT)
    topics = fleet.topics.select("cluster", "topic", "partitions")
    rejected = fleet.rejected if rejected is None else rejected
    return State(members, runs, groups, rejected.select(*GROUP_KEY, "code"), topics)


def _nothing_owned(fleet: Fleet) -> DataFrame:
    zero = (F.lit(0).alias(name) for name in ("first", "step", "count"))
    return fleet.subscriptions.select(*MEMBER_KEY, "topic", *zero).limit(0)


def _of_stored_plan(tables: Mapping[str, DataFrame]) -> State:
    lacking = [name for name in ("metrics", "rejected") if name not in tables]
    if lacking or ("runs" not in tables and "assignments" not in tables):
        lacking = lacking or ["runs"]
        raise SourceError(
            f"the stored plan lacks {', '.join(lacking)}; it has {', '.join(sorted(tables))}. Write it so"
        )
    runs = tables["runs"].select(*_RUN) if "runs" in tables else compress(tables["assignments"])
    unknown = (F.lit(None).cast("string").alias(name) for name in _ABOUT)
    metrics = tables["metrics"]
    balance = metrics.select(*GROUP_KEY, "members", "partitions", "max_over_mean")
    if "revocations" in tables:
        runs = runs.unionByName(_next_round(runs, tables["revocations"], metrics))
        balance = _in_the_end(runs, metrics)
    return State(
        members=runs.select(*MEMBER_KEY).distinct().select(*MEMBER_KEY, *unknown),
        runs=runs,
        groups=metrics.select(*GROUP_KEY, "assignor"),
        rejected=tables["rejected"].select(*GROUP_KEY, "code"),
        balance=balance,
    )


def _next_round(runs: DataFrame, revocations: DataFrame, metrics: DataFrame) -> DataFrame:
    """What a cooperative plan withholds at first, as runs of who gets it a round later."""
    withholding = metrics.where("withheld > 0").select(*GROUP_KEY)
    given = expand(runs.join(withholding, GROUP_KEY, "left_semi")).select(*_PARTITION)
    named = revocations.where("next_member_id is not null").join(withholding, GROUP_KEY, "left_semi")
    late = named.select(*_PARTITION, F.col("next_member_id").alias("member_id"))
    return compress(late.join(given, _PARTITION, "left_anti")).select(*_RUN)


def _in_the_end(runs: DataFrame, metrics: DataFrame) -> DataFrame:
    """The balance of a stored plan, where something is withheld counted anew: cluster, group_id, members, …"""
    withholding = metrics.where("withheld > 0").select(*GROUP_KEY)
    of_member = runs.join(withholding, GROUP_KEY, "left_semi").groupBy(*MEMBER_KEY).agg(F.sum("count").alias("given"))
    most = of_member.groupBy(*GROUP_KEY).agg(F.max("given").alias("most"))
    partitions = F.col("partitions") + F.col("withheld")
    uneven = F.coalesce(F.col("most") * F.col("members") / partitions, F.col("max_over_mean"))
    return metrics.join(most, GROUP_KEY, "left").select(
        *GROUP_KEY, "members", partitions.alias("partitions"), uneven.alias("max_over_mean")
    )


# --- what changed ----------------------------------------------------------------------------------------------


def _members(before: State, after: State) -> DataFrame:
    gone = before.members.join(after.members.select(*MEMBER_KEY), MEMBER_KEY, "left_anti")
    new = after.members.join(before.members.select(*MEMBER_KEY), MEMBER_KEY, "left_anti")
    instance = [*GROUP_KEY, "group_instance_id"]
    earlier = gone.where(F.col("group_instance_id").isNotNull()).select(
        *instance, F.col("member_id").alias("previous_member_id")
    )
    came = new.join(earlier, instance, "left").withColumn(
        "change", F.when(F.col("previous_member_id").isNull(), "came").otherwise("restarted")
    )
    back = new.where(F.col("group_instance_id").isNotNull()).select(*instance)
    went = gone.join(back, instance, "left_anti").withColumns(
        {"change": F.lit("went"), "previous_member_id": F.lit(None).cast("string")}
    )
    return came.unionByName(went).select(*DRIFT_MEMBERS.names)


def _ownership(drift: Drift, before: State, after: State) -> DataFrame:
    restarted = drift.members.where(F.col("change") == "restarted").select(
        *GROUP_KEY, F.col("previous_member_id").alias("member_id"), F.col("member_id").alias("new_id")
    )
    then = before.runs.join(restarted, MEMBER_KEY, "left").withColumn("member_id", F.coalesce("new_id", "member_id"))
    then, now = then.select(*_RUN), after.runs.select(*_RUN)
    changed = expand(then.join(now, _RUN, "left_anti")), expand(now.join(then, _RUN, "left_anti"))
    key = [*_PARTITION, "member_id"]
    lost = changed[0].join(changed[1], key, "left_anti").select(*_PARTITION, F.col("member_id").alias("from_member_id"))
    won = changed[1].join(changed[0], key, "left_anti").select(*_PARTITION, F.col("member_id").alias("to_member_id"))
    change = (
        F.when(F.col("from_member_id").isNull(), "newly-owned")
        .when(F.col("to_member_id").isNull(), "no-longer-owned")
        .otherwise("moved")
    )
    return lost.join(won, _PARTITION, "full").withColumn("change", change).select(*DRIFT_OWNERSHIP.names)


def _topics(before: State, after: State) -> DataFrame:
    if before.topics is None or after.topics is None:
        known = before.topics if after.topics is None else after.topics
        any_table = before.groups if known is None else known
        names = {field.name: F.lit(None).cast(field.dataType) for field in DRIFT_TOPICS.fields}
        return any_table.limit(0).select(*(value.alias(name) for name, value in names.items()))
    key = ["cluster", "topic"]
    then = before.topics.withColumnRenamed("partitions", "partitions_before")
    now = after.topics.withColumnRenamed("partitions", "partitions_after")
    change = (
        F.when(F.col("partitions_before").isNull(), "created")
        .when(F.col("partitions_after").isNull(), "deleted")
        .when(F.col("partitions_before") < F.col("partitions_after"), "grown")
        .when(F.col("partitions_before") > F.col("partitions_after"), "shrunk")
    )
    both = then.join(now, key, "full").withColumn("change", change)
    return both.where(F.col("change").isNotNull()).select(*DRIFT_TOPICS.names)


def _groups(drift: Drift) -> DataFrame:
    member, owner = drift.members, drift.ownership
    counted = {"came": "came", "went": "went", "restarted": "restarted"}
    members = member.groupBy(*GROUP_KEY).agg(*(_count(change).alias(name) for name, change in counted.items()))
    counted = {"moved": "moved", "newly_owned": "newly-owned", "no_longer_owned": "no-longer-owned"}
    owned = owner.groupBy(*GROUP_KEY).agg(*(_count(change).alias(name) for name, change in counted.items()))
    then, now = _side(drift.before, "before"), _side(drift.after, "after")
    rows = then.join(now, GROUP_KEY, "full").join(members, GROUP_KEY, "left").join(owned, GROUP_KEY, "left")
    numbers = ("came", "went", "restarted", "moved", "newly_owned", "no_longer_owned")
    rows = rows.withColumns({name: F.coalesce(name, F.lit(0)) for name in numbers})
    unlike = F.coalesce(F.col("assignor_before") != F.col("assignor_after"), F.lit(False))
    unlike = unlike | F.coalesce(F.col("members_before") != F.col("members_after"), F.lit(False))
    unlike = unlike | ~F.col("rejected_before").eqNullSafe(F.col("rejected_after"))
    for name in numbers:
        unlike = unlike | (F.col(name) > 0)
    change = (
        F.when(F.col("there_before").isNull(), "came")
        .when(F.col("there_after").isNull(), "went")
        .when(unlike, "changed")
        .otherwise("same")
    )
    return rows.withColumn("change", change).select(
        *(F.col(field.name).cast(field.dataType).alias(field.name) for field in DRIFT_GROUPS.fields)
    )


def _count(change: str) -> Column:
    return F.count(F.when(F.col("change") == change, 1))


def _side(state: State, when: str) -> DataFrame:
    """All groups of one side with its figures, each column with `_before` or `_after` behind its name."""
    rejected = state.rejected.groupBy(*GROUP_KEY).agg(F.min("code").alias("rejected"))
    known = state.groups.select(*GROUP_KEY, "assignor").join(rejected, GROUP_KEY, "full")
    sound = F.col("rejected").isNull()
    rows = known.join(state.figures(), GROUP_KEY, "left").withColumn("there", F.lit(True))
    rows = rows.withColumns(
        {name: F.when(sound, F.coalesce(name, F.lit(0))) for name in ("members", "partitions")}
        | {"max_over_mean": F.when(sound, F.col("max_over_mean"))}
    )
    return rows.select(
        *GROUP_KEY, *(F.col(name).alias(f"{name}_{when}") for name in rows.columns if name not in GROUP_KEY)
    )
