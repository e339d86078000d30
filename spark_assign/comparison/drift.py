"""Finds what changed between two fleets or plans, or between a plan and the fleet that it led to.

Changes are members that joined and left, partitions with another owner, resized topics, and the balance of each group.
Each side (a fleet, a plan, or the tables of a stored plan) is read as facts. The facts of both sides are grouped once
and compared there (`comparison.kernel.drift`) as slices, so that equal slices are never expanded to partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar, Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.assignors.group_facts import DEPARTED_SLICE, OWNED_BITMAP, OWNED_SLICE
from spark_assign.comparison.kernel import drift as kernel
from spark_assign.comparison.kernel.drift import PLANNED_GROUP, PRESENT_MEMBER, REJECTED_GROUP, WITHHELD_BITMAP
from spark_assign.fleet import FleetTables
from spark_assign.groups import facts
from spark_assign.groups.kernel.plan_groups import ASSIGNED, METRICS, REJECTED, WITHHELD
from spark_assign.groups.planning import Plan
from spark_assign.spark.dataframes import expand, map_arrow_batches, to_arrow_schema, to_bitmaps, union
from spark_assign.stores.result import PassResult
from spark_assign.stores.run_store import checked
from spark_assign.tables.comparison import DRIFT_ROWS, DRIFT_TABLES, DRIFT_TOPICS
from spark_assign.tables.errors import SourceError
from spark_assign.tables.groups import GROUP_KEY, PLAN_TABLES
from spark_assign.tables.stored_plan import STREAMS

Side = FleetTables | Plan | Mapping[str, DataFrame]
"""One of the compared states: a fleet, a plan, or the tables of a stored plan."""

_MEMBER_COLUMNS = ("member_id", "group_instance_id", "client_id", "client_host")
_SLICE_COLUMNS = ("member_id", "topic", "first", "step", "count")
_BITMAP_COLUMNS = ("member_id", "topic", "block", "bits", "twice", "count")


@dataclass(frozen=True)
class State:
    """One side of a drift.

    Attributes:
        facts: the facts of its groups (`comparison.kernel.drift`), without the column `after`.
        checked: whether the facts contain the faulty groups; otherwise, they are searched for.
        tasks: number of Spark tasks; `None` if the size is unknown.
        topics: cluster, topic, partitions; `None` if unknown.
    """

    facts: DataFrame
    checked: bool
    tasks: int | None = None
    topics: DataFrame | None = None


def read_state(side: Side) -> State:
    """Returns the facts of what is owned now (a fleet), or finally assigned (a plan, or the tables of a stored one).

    Raises:
        FleetError: values of a fleet that can't be read.
        SourceError: a stored plan lacks a table.
    """
    if isinstance(side, FleetTables):
        live_facts = facts.gather_facts(side).where(F.col("kind") != DEPARTED_SLICE)  # a plan has no departed members
        all_facts = union([live_facts, _member_facts(side)])
        return State(all_facts, False, facts.num_spark_tasks(side), facts.topic_counts(side))
    if isinstance(side, Plan):
        all_facts = union([_plan_facts(side), _member_facts(side.fleet)])
        return State(all_facts, True, facts.num_spark_tasks(side.fleet), facts.topic_counts(side.fleet))
    return State(_stored_plan_facts(side), True)


def group_facts_of(before: State, after: State) -> DataFrame:
    """Returns the facts of both states, with all facts of a group in one task."""
    tagged = ((before, False), (after, True))
    all_facts = union([state.facts.withColumn("after", F.lit(is_after)) for state, is_after in tagged])
    known_tasks = [state.tasks for state in (before, after) if state.tasks is not None]
    if len(known_tasks) == 2:
        return all_facts.repartition(sum(known_tasks), *GROUP_KEY)
    # The size of a stored plan is unknown: assumes that of the other side, or Spark's default for shuffles.
    shuffles = str(all_facts.sparkSession.conf.get("spark.sql.shuffle.partitions", "200"))
    tasks = 2 * max(known_tasks, default=0)
    if shuffles.isdecimal() and tasks > int(shuffles):
        return all_facts.repartition(tasks, *GROUP_KEY)
    return all_facts.repartition(*GROUP_KEY)


def _member_facts(fleet: FleetTables) -> DataFrame:
    return _facts_of_kind(fleet.members, PRESENT_MEMBER, *_MEMBER_COLUMNS)


def _plan_facts(plan: Plan) -> DataFrame:
    rows = plan.rows(ASSIGNED, WITHHELD, METRICS, REJECTED)
    kind = F.when(F.col("kind") == METRICS, PLANNED_GROUP).when(F.col("kind") == REJECTED, REJECTED_GROUP)
    kind = kind.otherwise(OWNED_SLICE)
    return rows.select(*GROUP_KEY, kind.cast("byte").alias("kind"), *_SLICE_COLUMNS, "assignor", "code")


def _stored_plan_facts(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Returns a stored plan as facts, to compare it as a fleet is compared."""
    missing = [name for name in ("metrics", "rejected") if name not in tables]
    if missing or ("assignment_slices" not in tables and "assignments" not in tables):
        missing = missing or ["assignment_slices"]
        raise SourceError(
            f"The stored plan has no table {', '.join(missing)}, only {', '.join(sorted(tables))}. Store the missing "
            "tables, too."
        )
    of_streams = f"{STREAMS}rejected"
    schemas = PLAN_TABLES | {of_streams: PLAN_TABLES["rejected"]}
    tables = {name: checked(name, table, schemas[name]) for name, table in tables.items() if name in schemas}
    rejected = [tables[name] for name in ("rejected", of_streams) if name in tables]
    all_facts = [_facts_of_kind(table, REJECTED_GROUP, "code") for table in rejected]
    if "assignment_slices" in tables:
        all_facts.append(_facts_of_kind(tables["assignment_slices"], OWNED_SLICE, *_SLICE_COLUMNS))
    else:
        all_facts.append(_facts_of_kind(to_bitmaps(tables["assignments"]), OWNED_BITMAP, *_BITMAP_COLUMNS))
    assigned, withheld = F.col("partitions"), F.lit(0)
    if "revocations" in tables:
        revocations = tables["revocations"].where("next_member_id is not null")
        next_owners = to_bitmaps(revocations.withColumn("member_id", F.col("next_member_id")))
        all_facts.append(_facts_of_kind(next_owners, WITHHELD_BITMAP, *_BITMAP_COLUMNS))
        assigned, withheld = F.col("partitions") + F.col("withheld"), F.col("withheld")
    counts = {"members": F.col("members"), "assigned": assigned, "withheld": withheld}
    columns = (value.cast("long").alias(name) for name, value in counts.items())
    all_facts.append(_facts_of_kind(tables["metrics"], PLANNED_GROUP, "assignor", *columns, "max_over_mean"))
    return union(all_facts)


def _facts_of_kind(rows: DataFrame, kind: int, *columns: str | Column) -> DataFrame:
    return rows.select(*GROUP_KEY, F.lit(kind).cast("byte").alias("kind"), *columns)


_KINDS = {"groups": kernel.GROUP, "members": kernel.MEMBER, "ownership": kernel.OWNERSHIP}
"""The kind of rows that each table, except topics, consists of."""


@dataclass(frozen=True)
class Drift(PassResult):
    """What changed, as lazy DataFrames (columns: `tables.comparison.DRIFT_TABLES`).

    Each table is one pass over both sides, unless `tagged_rows` is stored (`with_tagged_rows`).

    Attributes:
        before, after: the two sides.
        stored: the stored rows of one pass; `None`: every table is computed.

    Examples:
        >>> changed = find_drift(fleet, plan(fleet, "range"))
        >>> changed.ownership.select("group_id", "topic").distinct().orderBy("group_id").show()
        +-----------+-----+
        |   group_id|topic|
        +-----------+-----+
        |  encoder-a|    t|
        |payments-eu|    t|
        +-----------+-----+
    """

    schemas: ClassVar = DRIFT_TABLES

    before: State
    after: State
    stored: DataFrame | None = None

    def tagged_rows(self, tables: Iterable[str] = ()) -> DataFrame:
        """Returns the tagged rows (`DRIFT_ROWS`) that these tables are projections of; topics aren't included."""
        return self._pass_over(*(_KINDS[table] for table in tables or _KINDS if table in _KINDS))

    def with_tagged_rows(self, rows: DataFrame) -> Self:
        """Returns the same drift, reading its rows from a stored table instead of computing them."""
        return replace(self, stored=rows)

    @cached_property
    def groups(self) -> DataFrame:
        """One row per group of either side, with what changed in it."""
        return self._rows("groups").select(*DRIFT_TABLES["groups"].names)

    @cached_property
    def members(self) -> DataFrame:
        """One row per member that joined, left, or restarted (if static). Groups that one side rejects are omitted."""
        return self._rows("members").select(*DRIFT_TABLES["members"].names)

    @cached_property
    def ownership(self) -> DataFrame:
        """One row per partition with another owner. Groups that one side rejects are omitted."""
        return expand(self._rows("ownership")).select(*DRIFT_TABLES["ownership"].names)

    @cached_property
    def topics(self) -> DataFrame:
        """One row per topic that changed; none if one side doesn't know its topics, as a stored plan."""
        return _topic_changes(self.before, self.after)

    def _rows(self, table: str) -> DataFrame:
        rows = self._pass_over(_KINDS[table]) if self.stored is None else self.stored
        return rows.where(F.col("kind") == _KINDS[table])

    def _pass_over(self, *kinds: str) -> DataFrame:
        checked = self.before.checked, self.after.checked
        work = partial(kernel.find_drift, checked=checked, kinds=kinds, schema=to_arrow_schema(DRIFT_ROWS))
        return group_facts_of(self.before, self.after).mapInArrow(map_arrow_batches(work), DRIFT_ROWS)


def find_drift(
    before: FleetTables | Plan | Mapping[str, DataFrame], after: FleetTables | Plan | Mapping[str, DataFrame]
) -> Drift:
    """Finds what changed between two fleets or plans.

    Args:
        before: a fleet (current ownership), a plan (final assignment), or the tables of a stored plan
            (`stores.run_store.read_run(…).tables`: metrics, rejected, and assignment_slices or assignments; with
            revocations, partitions that a cooperative plan withholds at first count for their next owner). Of a stored
            plan, only the names of members with partitions are known, and no topics.
        after: likewise. The sides can be of different kinds: a plan and the fleet that it led to.

    Returns:
        The drift. Every group of either side is in its `groups`; a faulty one with its code.

    Raises:
        FleetError: values of a fleet that can't be read.
        SourceError: a stored plan lacks a table.

    Examples:
        >>> changed = find_drift(fleet, fleet.with_members_left(group_id="payments-*", count=1))
        >>> smaller = changed.groups.where("members_after < members_before")
        >>> smaller.select("group_id", "members_before", "members_after").show()
        +-----------+--------------+-------------+
        |   group_id|members_before|members_after|
        +-----------+--------------+-------------+
        |payments-eu|             2|            1|
        +-----------+--------------+-------------+
    """
    return Drift(read_state(before), read_state(after))


def _topic_changes(before: State, after: State) -> DataFrame:
    """Returns the topics that were created, deleted, grown, or shrunk; no rows if topics are unknown."""
    if before.topics is None or after.topics is None:
        nulls = (F.lit(None).cast(field.dataType).alias(field.name) for field in DRIFT_TOPICS)
        return before.facts.limit(0).select(*nulls)
    key = ["cluster", "topic"]
    topics = before.topics.withColumnRenamed("partitions", "partitions_before")
    topics_after = after.topics.withColumnRenamed("partitions", "partitions_after")
    change = (
        F.when(F.col("partitions_before").isNull(), "created")
        .when(F.col("partitions_after").isNull(), "deleted")
        .when(F.col("partitions_before") < F.col("partitions_after"), "grown")
        .when(F.col("partitions_before") > F.col("partitions_after"), "shrunk")
    )
    topics = topics.join(topics_after, key, "full").withColumn("change", change)
    return topics.where(F.col("change").isNotNull()).select(*DRIFT_TOPICS.names)
