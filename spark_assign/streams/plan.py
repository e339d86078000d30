"""Plans the streams groups of a fleet (KIP-1071) exactly as the broker's assignor does.

Spark collects all facts of a group in one task. The kernel (`streams.kernel`) returns one tagged table, and each table
of the plan is a projection of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.fleet import Fleet
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.caching import cached, uncached
from spark_assign.streams.kernel import streams_group_input as kinds
from spark_assign.streams.kernel.plan_groups import (
    ASSIGNORS,
    METRICS,
    MOVE,
    REJECTED,
    STREAMS_PLAN_ROWS,
    TASK,
    StreamsPlanParams,
    plan_streams_groups,
)
from spark_assign.streams.kernel.sticky_task_assignor import STICKY
from spark_assign.streams.kernel.task_assignor_api import TaskAssignor
from spark_assign.tables.errors import Fault, FleetError, UnknownAssignorError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.streams import PLAN_TABLES

ROWS_PER_SPARK_TASK = 200_000
"""Approximate number of facts per Spark task, which bounds the memory of a worker; a group is never split."""

_PLAN_SCHEMA = from_arrow_schema(STREAMS_PLAN_ROWS)


@dataclass(frozen=True)
class StreamsPlan:
    """The broker's target assignment, as lazy DataFrames (columns: `tables.streams.PLAN_TABLES`).

    Every streams group of the fleet is either in `metrics` or in `rejected`.

    Attributes:
        fleet: the planned fleet.
        tagged_rows: all rows of the plan (`streams.kernel.plan_groups.STREAMS_PLAN_ROWS`); cached if the session
            allows it.
    """

    fleet: Fleet
    tagged_rows: DataFrame

    @property
    def tasks(self) -> DataFrame:
        """The target: cluster, group_id, member_id, subtopology, task, role (`active` or `standby`)."""
        return self._rows(TASK, "tasks")

    @property
    def moves(self) -> DataFrame:
        """All changes of owners, with the reason, and whether the next owner has the task's state.

        A row per task, role, and owner that loses or gets the task: see `tables.streams.MOVES`.
        """
        renamed = {"member_id": "from_member_id", "next_member_id": "to_member_id"}
        return (
            self.tagged_rows.where(F.col("kind") == MOVE)
            .withColumnsRenamed(renamed)
            .select(*PLAN_TABLES["moves"].names)
        )

    @property
    def metrics(self) -> DataFrame:
        """The metrics, a row per planned group: see `tables.streams.METRICS`."""
        return self._rows(METRICS, "metrics")

    @property
    def rejected(self) -> DataFrame:
        """The streams groups that can't be planned: cluster, group_id, code, detail (what to do)."""
        return self._rows(REJECTED, "rejected")

    def unpersist(self) -> None:
        """Removes the plan from the cache of the executors; Spark recomputes it if it is needed again."""
        uncached(self.tagged_rows)

    def _rows(self, kind: str, table: str) -> DataFrame:
        return self.tagged_rows.where(F.col("kind") == kind).select(*PLAN_TABLES[table].names)


def plan_streams(
    fleet: Fleet, assignor: str | TaskAssignor = STICKY, *, standby_replicas: int | None = None
) -> StreamsPlan:
    """Plans every streams group of a fleet: those that `groups` calls `streams`, or that have subtopologies or tasks.

    The plan is the target that the group coordinator computes (`TargetAssignmentBuilder`) if `fleet.tasks` is the
    current assignment. The plan doesn't include the steps from there to the target.

    Args:
        fleet: members with `process_id` (null: a process of its own), `subtopologies`, and the current assignment in
            `tasks`.
        assignor: `streams-sticky`, the class of Kafka 4.4; `streams-sticky@4.3`, the class of 4.2 and 4.3; or a
            function from a `Group` to a `Target`, whose result isn't checked.
        standby_replicas: overrides the configuration of all groups (`groups.standby_replicas`).

    Returns:
        The plan. Its tables are lazy, and all come from one pass over the fleet. The fleet's rows are counted and
        checked at once.

    Raises:
        UnknownAssignorError: There is no such assignor.
        FleetError: The table `subtopologies` is missing, or the fleet has invalid rows that belong to no group.
        ValueError: The number of standby replicas is negative.
    """
    if fleet.subtopologies is None:
        problem = "the table is missing, and a plan of streams groups needs it"
        raise FleetError([Fault("subtopologies", "*", problem, "Give a row for each subtopology of each group")])
    if standby_replicas is not None and standby_replicas < 0:
        raise ValueError(f"standby_replicas is {standby_replicas}, expected 0 or more")
    plan = partial(plan_streams_groups, params=_build_params(assignor, standby_replicas))
    facts = gather_facts(fleet).repartition(_num_spark_tasks(fleet), *GROUP_KEY)
    return StreamsPlan(fleet, cached(facts.mapInArrow(map_arrow_batches(plan), _PLAN_SCHEMA)))


def _build_params(assignor: str | TaskAssignor, standby_replicas: int | None) -> StreamsPlanParams:
    if not isinstance(assignor, str):
        return StreamsPlanParams(getattr(assignor, "__name__", type(assignor).__name__), assignor, standby_replicas)
    if assignor not in ASSIGNORS:
        raise UnknownAssignorError(f"{assignor} is no assignor of streams groups; there are {', '.join(ASSIGNORS)}")
    return StreamsPlanParams(assignor, ASSIGNORS[assignor], standby_replicas)


def _num_spark_tasks(fleet: Fleet) -> int:
    """Returns the number of Spark tasks of the pass.

    Raises:
        FleetError: See `Fleet.sizes`.
    """
    sizes = fleet.sizes
    return max(1, -(-(sizes.members + sizes.subtopologies + sizes.tasks) // ROWS_PER_SPARK_TASK))


# --- the facts; streams.kernel.streams_group_input describes their columns----------------------------------------


def gather_facts(fleet: Fleet) -> DataFrame:
    """Collects the kernel's input, a row per fact, including members of other groups, which the kernel ignores."""
    assert fleet.subtopologies is not None
    facts = [
        _to_facts(fleet.members, kinds.MEMBER, member_id="member_id", name="process_id", number="position"),
        _to_facts(fleet.subtopologies, kinds.SUBTOPOLOGY, name="subtopology", number="partitions", stateful="stateful"),
    ]
    if fleet.groups is not None:
        facts.append(_to_facts(fleet.groups, kinds.GROUP, text="group_type", number="standby_replicas"))
    task_columns = {"member_id": "member_id", "name": "subtopology", "number": "task"}
    task_columns |= {"text": "role", "offset": "changelog_offset"}
    for rows, kind in ((fleet.tasks, kinds.TASK), (fleet.departed_tasks, kinds.DEPARTED_TASK)):
        if rows is not None:
            facts.append(_to_facts(rows, kind, **task_columns))
    return reduce(DataFrame.unionByName, facts)


_COLUMNS = {
    field.name: field.dataType for field in from_arrow_schema(kinds.FACTS) if field.name not in (*GROUP_KEY, "kind")
}


def _to_facts(rows: DataFrame, kind: int, **columns: str) -> DataFrame:
    """Returns rows as facts of a kind, with these source columns by fact column; the remaining fact columns are
    null."""
    sources: dict[str, Column] = {name: F.col(column) for name, column in columns.items()}
    fact_columns = (sources.get(name, F.lit(None)).cast(type_).alias(name) for name, type_ in _COLUMNS.items())
    return rows.select(*GROUP_KEY, F.lit(kind).cast("byte").alias("kind"), *fact_columns)
