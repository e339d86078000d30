"""The states that a drift holds against each other: a fleet, a plan, or the tables of a stored plan, as facts.

Drift: what changed between two fleets, or between two plans, or between a plan and what came of it.

Members that came and went, partitions that have another owner, topics that grew, and per group how its balance went.
The facts of both sides are brought together by group, once, and held against each other there
(`comparison.kernel.drift`): as runs, so that what both sides have in the same run is never expanded to partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.comparison.kernel import drift as kernel
from spark_assign.comparison.kernel.group_states import LATE, PLANNED_GROUP, PRESENT, REFUSED
from spark_assign.fleet import Fleet
from spark_assign.groups import facts
from spark_assign.groups.kernel.facts import DEPARTED_SLICE, OWNED_BITMAP, OWNED_SLICE
from spark_assign.groups.kernel.plan_groups import ASSIGNED, METRICS, REJECTED, WITHHELD
from spark_assign.groups.planning import Plan
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.partition_slices import expand, to_bitmaps
from spark_assign.tables.comparison import DRIFT_TABLES, DRIFT_TOPICS
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
    return _fact(fleet.members, PRESENT, *_ABOUT)


def _planned(plan: Plan) -> DataFrame:
    rows = plan.rows(ASSIGNED, WITHHELD, METRICS, REJECTED)
    named = F.col("kind")
    kind = F.when(named == METRICS, PLANNED_GROUP).when(named == REJECTED, REFUSED).otherwise(OWNED_SLICE)
    return rows.select(*GROUP_KEY, kind.cast("byte").alias("kind"), *_RUN, "assignor", "code")


def _stored(tables: Mapping[str, DataFrame]) -> DataFrame:
    lacking = [name for name in ("metrics", "rejected") if name not in tables]
    if lacking or ("runs" not in tables and "assignments" not in tables):
        lacking = lacking or ["runs"]
        raise SourceError(
            f"the stored plan lacks {', '.join(lacking)}; it has {', '.join(sorted(tables))}. Write it so"
        )
    known = [_fact(tables["rejected"], REFUSED, "code")]
    if "runs" in tables:
        known.append(_fact(tables["runs"], OWNED_SLICE, *_RUN))
    else:
        known.append(_fact(to_bitmaps(tables["assignments"]), OWNED_BITMAP, *_BLOCKS))
    assigned, withheld = F.col("partitions"), F.lit(0)
    if "revocations" in tables:
        named = (
            tables["revocations"].where("next_member_id is not null").withColumn("member_id", F.col("next_member_id"))
        )
        known.append(_fact(to_bitmaps(named), LATE, *_BLOCKS))
        assigned, withheld = F.col("partitions") + F.col("withheld"), F.col("withheld")
    numbers = {"members": F.col("members"), "assigned": assigned, "withheld": withheld}
    figures = (value.cast("long").alias(name) for name, value in numbers.items())
    known.append(_fact(tables["metrics"], PLANNED_GROUP, "assignor", *figures, "max_over_mean"))
    return _together(known)


def _fact(rows: DataFrame, kind: int, *columns: str | Column) -> DataFrame:
    return rows.select(*GROUP_KEY, F.lit(kind).cast("byte").alias("kind"), *columns)


def _together(known: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), known)


_KINDS = {"groups": kernel.GROUP, "members": kernel.MEMBER, "ownership": kernel.OWNERSHIP}
"""Of each table but the topics the kind of rows that it is made of."""


@dataclass(frozen=True)
class Drift:
    """What changed, as lazy DataFrames (columns: `tables.comparison.DRIFT_TABLES`).

    Each table is one pass over both sides, unless `tagged_rows` is stored (`with_tagged_rows`).

    Attributes:
        before, after: the two sides.
        stored: what one pass has answered, read back; null where every table is computed.

    Examples:
        >>> changed = drift(fleet, plan(fleet, "range"))
        >>> changed.ownership.select("group_id", "topic").distinct().orderBy("group_id").show()
        +-----------+-----+
        |   group_id|topic|
        +-----------+-----+
        |  encoder-a|    t|
        |payments-eu|    t|
        +-----------+-----+
    """

    before: State
    after: State
    stored: DataFrame | None = None

    def tagged_rows(self, tables: Iterable[str] = tuple(DRIFT_TABLES)) -> DataFrame:
        """All that these tables are projections of, as one table (`DRIFTED` of the schemas); topics are not in it."""
        return self._pass_over(*(_KINDS[table] for table in tables if table in _KINDS))

    def with_tagged_rows(self, decided: DataFrame) -> Drift:
        """The same drift reading its rows from where `decided` was written, in place of computing them."""
        return replace(self, stored=decided)

    @cached_property
    def groups(self) -> DataFrame:
        """A row per group that is on either side, with what changed in it."""
        return self._rows("groups").select(*DRIFT_TABLES["groups"].names)

    @cached_property
    def members(self) -> DataFrame:
        """A row per member that came, went or, being static, restarted. Groups that one side rejects are left out."""
        return self._rows("members").select(*DRIFT_TABLES["members"].names)

    @cached_property
    def ownership(self) -> DataFrame:
        """A row per partition that has another owner. Groups that one side rejects are left out."""
        return expand(self._rows("ownership")).select(*DRIFT_TABLES["ownership"].names)

    @cached_property
    def topics(self) -> DataFrame:
        """A row per topic that changed; none where one side does not know its topics, as stored plans do not."""
        return _topics(self.before, self.after)

    def _rows(self, table: str) -> DataFrame:
        rows = self._pass_over(_KINDS[table]) if self.stored is None else self.stored
        return rows.where(F.col("kind") == _KINDS[table])

    def _pass_over(self, *kinds: str) -> DataFrame:
        params = kernel.DriftParams((self.before.checked, self.after.checked), frozenset(kinds))
        told = in_whole_groups(self.before, self.after)
        return told.mapInArrow(
            map_arrow_batches(partial(kernel.drift, params=params)), from_arrow_schema(kernel.DRIFTED)
        )


def drift(before: Fleet | Plan | Mapping[str, DataFrame], after: Fleet | Plan | Mapping[str, DataFrame]) -> Drift:
    """What changed between two fleets or plans.

    Args:
        before: a fleet (what is owned now), a plan (what is assigned in the end), or the tables of a stored plan
            (`stores.run_store.read_run(…).tables`; metrics, rejected, and runs or assignments; with revocations what
            a cooperative plan withholds at first counts for its next owner). Of a stored plan only members that get
            something are known by name, and topics not at all.
        after: likewise. The two sides need not be of one kind: a plan against the fleet that came of it.

    Returns:
        the drift. Every group of either side is in its `groups`; one that has a fault is there with the code.

    Raises:
        FleetError: values of a fleet that cannot be read.
        SourceError: a stored plan lacks a table.

    Examples:
        >>> changed = drift(fleet, fleet.with_members_left(group_id="payments-*", number=1))
        >>> smaller = changed.groups.where("members_after < members_before")
        >>> smaller.select("group_id", "members_before", "members_after").show()
        +-----------+--------------+-------------+
        |   group_id|members_before|members_after|
        +-----------+--------------+-------------+
        |payments-eu|             2|            1|
        +-----------+--------------+-------------+
    """
    return Drift(state_of(before), state_of(after))


def _topics(before: State, after: State) -> DataFrame:
    if before.topics is None or after.topics is None:
        names = {field.name: F.lit(None).cast(field.dataType) for field in DRIFT_TOPICS.fields}
        return before.facts.limit(0).select(*(value.alias(name) for name, value in names.items()))
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
