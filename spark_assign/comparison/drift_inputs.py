"""The states that a drift holds against each other: a fleet, a plan, or the tables of a stored plan, as facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.comparison.kernel import group_states as kernel
from spark_assign.fleet import Fleet
from spark_assign.groups import facts
from spark_assign.groups.kernel.facts import DEPARTED_SLICE, OWNED_BITMAP, OWNED_SLICE
from spark_assign.groups.kernel.plan_groups import ASSIGNED, METRICS, REJECTED, WITHHELD
from spark_assign.groups.planning import Plan
from spark_assign.spark.partition_slices import to_bitmaps
from spark_assign.tables.errors import SourceError
from spark_assign.tables.groups import GROUP_KEY

_ABOUT = ("member_id", "group_instance_id", "client_id", "client_host")
_RUN = ("member_id", "topic", "first", "step", "count")
_BLOCKS = ("member_id", "topic", "block", "bits", "twice", "count")


@dataclass(frozen=True)
class State:
    """One side of a drift.

    Attributes:
        facts: what is known of its groups (`comparison.kernel.group_states`), but for the column `after`.
        checked: whether they tell which groups are faulty; else that is to be found out.
        tasks: in how many tasks they are worked on; null where nobody knows how many there are.
        topics: cluster, topic, partitions; null where they are not known.
    """

    facts: DataFrame
    checked: bool
    tasks: int | None = None
    topics: DataFrame | None = None


def state_of(side: Fleet | Plan | Mapping[str, DataFrame]) -> State:
    """What is owned now (a fleet), or assigned in the end (a plan, or the tables of a stored one).

    Raises:
        FleetError: values of a fleet that cannot be read.
        SourceError: a stored plan lacks a table.
    """
    if isinstance(side, Fleet):
        known = facts.gather_facts(side)
        if side.departed is not None:  # no state that is held against another has it
            known = known.where(F.col("kind") != DEPARTED_SLICE)
        return State(_together([known, _present(side)]), False, facts.num_spark_tasks(side), facts.topic_counts(side))
    if isinstance(side, Plan):
        known = _together([_planned(side), _present(side.fleet)])
        return State(known, True, facts.num_spark_tasks(side.fleet), facts.topic_counts(side.fleet))
    return State(_stored(side), True)


def in_whole_groups(before: State, after: State) -> DataFrame:
    """The facts of both, all of a group in one task."""
    tagged = ((before, False), (after, True))
    together = _together([state.facts.withColumn("after", F.lit(is_after)) for state, is_after in tagged])
    known = [state.tasks for state in (before, after) if state.tasks is not None]
    if len(known) == 2:
        return together.repartition(sum(known), *GROUP_KEY)
    # A stored plan does not say how large it is: about as large as what it is held against, or as Spark's shuffles are.
    shuffles = str(together.sparkSession.conf.get("spark.sql.shuffle.partitions", "200"))
    tasks = 2 * max(known, default=0)
    if shuffles.isdecimal() and tasks > int(shuffles):
        return together.repartition(tasks, *GROUP_KEY)
    return together.repartition(*GROUP_KEY)


def _present(fleet: Fleet) -> DataFrame:
    return _fact(fleet.members, kernel.PRESENT, *_ABOUT)


def _planned(plan: Plan) -> DataFrame:
    rows = plan.rows(ASSIGNED, WITHHELD, METRICS, REJECTED)
    named = F.col("kind")
    kind = F.when(named == METRICS, kernel.PLANNED_GROUP).when(named == REJECTED, kernel.REFUSED).otherwise(OWNED_SLICE)
    return rows.select(*GROUP_KEY, kind.cast("byte").alias("kind"), *_RUN, "assignor", "code")


def _stored(tables: Mapping[str, DataFrame]) -> DataFrame:
    lacking = [name for name in ("metrics", "rejected") if name not in tables]
    if lacking or ("runs" not in tables and "assignments" not in tables):
        lacking = lacking or ["runs"]
        raise SourceError(
            f"the stored plan lacks {', '.join(lacking)}; it has {', '.join(sorted(tables))}. Write it so"
        )
    known = [_fact(tables["rejected"], kernel.REFUSED, "code")]
    if "runs" in tables:
        known.append(_fact(tables["runs"], OWNED_SLICE, *_RUN))
    else:
        known.append(_fact(to_bitmaps(tables["assignments"]), OWNED_BITMAP, *_BLOCKS))
    assigned, withheld = F.col("partitions"), F.lit(0)
    if "revocations" in tables:
        named = (
            tables["revocations"].where("next_member_id is not null").withColumn("member_id", F.col("next_member_id"))
        )
        known.append(_fact(to_bitmaps(named), kernel.LATE, *_BLOCKS))
        assigned, withheld = F.col("partitions") + F.col("withheld"), F.col("withheld")
    numbers = {"members": F.col("members"), "assigned": assigned, "withheld": withheld}
    figures = (value.cast("long").alias(name) for name, value in numbers.items())
    known.append(_fact(tables["metrics"], kernel.PLANNED_GROUP, "assignor", *figures, "max_over_mean"))
    return _together(known)


def _fact(rows: DataFrame, kind: int, *columns: str | Column) -> DataFrame:
    return rows.select(*GROUP_KEY, F.lit(kind).cast("byte").alias("kind"), *columns)


def _together(known: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), known)
