"""Plan a fleet: every group, each by its assignor, in one lazy set of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign import metrics as measure
from spark_assign import moves as change
from spark_assign.assignors.choice import CONFIGURED, choose, in_use
from spark_assign.assignors.groups import Groups
from spark_assign.assignors.registry import find
from spark_assign.fleet import Fleet
from spark_assign.report.notebook import plan_html, plan_text
from spark_assign.runs import expand
from spark_assign.schemas import GROUP_KEY, MEMBER_KEY


@dataclass(frozen=True)
class Plan:
    """What would be assigned, as lazy DataFrames (columns: `schemas.PLAN_TABLES`).

    Every consumer group of the fleet is in `metrics` or in `rejected`. (Groups of other protocols, which a snapshot
    lists in `groups` beside them, are no part of a plan.)

    Attributes:
        fleet: what was planned.
        groups: cluster, group_id, assignor of the planned groups.
        runs: the plan in its compact form: who gets partitions first, first + step, … (count of them) of a topic.
        rejected: groups that could not be planned, with a code and what to do.
        complete: whether every partition of every subscribed topic is sure to be assigned.
        withheld: runs that their next owner gets in the round after this one, once the present owner has given them
            up; null where there are none. Only cooperative assignors withhold.
        reasons: cluster, group_id, topic, first, step, count, reason, from assignors that say why they took a partition
            from a member which could have kept it; null where none does.
    """

    fleet: Fleet
    groups: DataFrame
    runs: DataFrame
    rejected: DataFrame
    complete: bool
    withheld: DataFrame | None = None
    reasons: DataFrame | None = None

    @cached_property
    def assignments(self) -> DataFrame:
        """Who gets what: cluster, group_id, member_id, topic, partition."""
        return expand(self.runs)

    @property
    def target(self) -> DataFrame:
        """Who has what in the end, as runs: `runs`, and what is withheld as yet."""
        return self.runs if self.withheld is None else self.runs.unionByName(self.withheld)

    @cached_property
    def moves(self) -> DataFrame:
        """Every change of owner against what is owned now, with the reason; see `spark_assign.moves`."""
        return change.find_moves(self)

    @cached_property
    def revocations(self) -> DataFrame:
        """What living members own and do not keep: cluster, group_id, member_id, topic, partition, next_member_id."""
        return change.find_revocations(self)

    @cached_property
    def metrics(self) -> DataFrame:
        """A row per planned group: balance, churn, oddities. Does not expand partitions, unless racks are compared."""
        return measure.measure(self)

    def with_runs(self, runs: DataFrame) -> Plan:
        """The same plan reading its runs from `runs` (say, from where they were written) in place of computing them."""
        return replace(self, runs=runs)

    def to_html(self, top: int = 10) -> str:
        """Totals and the `top` groups that hurt most, for a notebook: `displayHTML(p.to_html())`. Computes the plan."""
        return plan_html(self, top)

    def show(self, top: int = 10) -> None:
        """Print the same. Computes the plan."""
        print(plan_text(self, top))

    def _repr_html_(self) -> str:
        """What Jupyter and Databricks show of a plan at the end of a cell."""
        return self.to_html()


def plan(fleet: Fleet, assignor: str | Mapping[str, str] = CONFIGURED) -> Plan:
    """Plan every group of a fleet exactly as Kafka's own assignors would.

    Args:
        fleet: clusters, topics, groups and members.
        assignor: an assignor's name for all groups; or `configured`, each group's own (`fleet.groups.assignor`); or
            one of these per pattern over group_id (`{"payments-*": "range", "*": "configured"}`, the first that fits).

    Returns:
        the plan. Its tables are lazy, but for one look over the fleet's sizes and values, the first time it is planned.

    Raises:
        UnknownAssignorError: no such assignor.
        FleetError: values that no plan can be made from.
    """
    return plan_chosen(fleet, choose_assignors(fleet, assignor))


@dataclass(frozen=True)
class Chosen:
    """Which assignor plans which groups.

    Attributes:
        groups: cluster, group_id, assignor of the groups that can be planned.
        by_assignor: the same, as assignors are given them.
        rejected: tables of cluster, group_id, code, detail; the rest.
    """

    groups: DataFrame
    by_assignor: dict[str, Groups]
    rejected: list[DataFrame]


def choose_assignors(fleet: Fleet, assignor: str | Mapping[str, str]) -> Chosen:
    """Find each group's assignor; arguments and errors as `plan` has them."""
    patterns = {"*": assignor} if isinstance(assignor, str) else dict(assignor)
    for name in sorted(set(patterns.values()) - {CONFIGURED}):
        find(name)
    census = fleet.census
    every_group = Groups(fleet, census).only(fleet.members.select(*GROUP_KEY).distinct())
    if isinstance(assignor, str) and assignor != CONFIGURED:
        groups = every_group.withColumn("assignor", F.lit(assignor))
        return Chosen(groups, {assignor: Groups(fleet, census)}, [census.rejected])
    groups, unplannable = choose(every_group, fleet.groups, patterns)
    groups = census.keep(groups)
    by_assignor = {
        name: Groups(fleet, census, selected=groups.where(F.col("assignor") == name).select(*GROUP_KEY))
        for name in in_use(groups)
    }
    return Chosen(groups, by_assignor, [census.rejected, unplannable])


def plan_chosen(fleet: Fleet, chosen: Chosen) -> Plan:
    """Plan groups by the assignors that were found for them."""
    outcomes = [find(name).assign(groups) for name, groups in chosen.by_assignor.items()]
    groups = chosen.groups
    groups = groups.unionByName(_empty_groups(fleet)) if fleet.groups is not None else groups
    refused = [outcome.rejected for outcome in outcomes if outcome.rejected is not None]
    for refusals in refused:
        groups = groups.join(refusals.select(*GROUP_KEY), GROUP_KEY, "left_anti")
    parts = [outcome.runs.select(*MEMBER_KEY, "topic", "first", "step", "count") for outcome in outcomes]
    runs = reduce(DataFrame.unionByName, parts) if parts else _no_runs(fleet)
    if len(parts) > 1:  # else every table of the plan would hold the queries of all assignors, several times
        runs = fleet.census.keep(runs)
    withheld = [outcome.withheld for outcome in outcomes if outcome.withheld is not None]
    reasons = [outcome.reasons for outcome in outcomes if outcome.reasons is not None]
    return Plan(
        fleet=fleet,
        groups=groups,
        runs=runs,
        rejected=reduce(DataFrame.unionByName, chosen.rejected + refused),
        complete=all(outcome.complete for outcome in outcomes),
        withheld=reduce(DataFrame.unionByName, withheld) if withheld else None,
        reasons=reduce(DataFrame.unionByName, reasons) if reasons else None,
    )


def _empty_groups(fleet: Fleet) -> DataFrame:
    """Consumer groups that the fleet knows of but that have no members: nothing to decide, and not forgotten."""
    assert fleet.groups is not None
    empty = consumer_groups(fleet.groups).join(fleet.members.select(*GROUP_KEY), GROUP_KEY, "left_anti")
    sound = Groups(fleet, fleet.census).only(empty)
    return sound.select(*GROUP_KEY, F.coalesce("assignor", F.lit("none")).alias("assignor"))


def consumer_groups(groups: DataFrame) -> DataFrame:
    """The consumer groups among a fleet's `groups`; a snapshot lists those of other protocols beside them."""
    return groups.where(F.coalesce("group_type", F.lit("classic")).isin("classic", "consumer"))


def _no_runs(fleet: Fleet) -> DataFrame:
    zero = F.lit(0)
    empty = fleet.subscriptions.select(
        *MEMBER_KEY, "topic", zero.alias("first"), zero.alias("step"), zero.alias("count")
    )
    return empty.limit(0)
