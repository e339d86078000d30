"""Plan the streams groups of a fleet, exactly as the broker's own assignor would (KIP-1071).

The decision is a kernel over whole groups (`streams.kernel`). Here its facts are gathered, all of a group in one task;
it answers with one table, of which every table of the plan is a projection.
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
from spark_assign.streams.kernel import grouped_facts as kinds
from spark_assign.streams.kernel.plan_groups import ASSIGNORS, METRICS, MOVE, REJECTED, TASK, StreamsPlanParams, decide
from spark_assign.streams.kernel.sticky import STICKY
from spark_assign.streams.kernel.task_assignor_api import TaskAssignor
from spark_assign.streams.schemas import DECIDED
from spark_assign.tables.errors import Fault, FleetError, UnknownAssignorError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.streams import PLAN_TABLES

ROWS_PER_TASK = 200_000
"""About so many facts are handed to the kernel at once (a group is never parted), which bounds what a worker holds."""


@dataclass(frozen=True)
class StreamsPlan:
    """What the broker would have every member reach, as lazy DataFrames (columns: `tables.streams.PLAN_TABLES`).

    Every streams group of the fleet is in `metrics` or in `rejected`.

    Attributes:
        fleet: what was planned.
        decided: all that was decided, as one table (`tables.streams.DECIDED`); cached where the session can.
    """

    fleet: Fleet
    decided: DataFrame

    @property
    def tasks(self) -> DataFrame:
        """The target: cluster, group_id, member_id, subtopology, task, role (`active` or `standby`)."""
        return self._rows(TASK, "tasks")

    @property
    def moves(self) -> DataFrame:
        """Every change of owner against what members have now, with the reason, and whether state is there.

        A row per task, role, and owner that loses or gets it: see `tables.streams.MOVES`.
        """
        renamed = {"member_id": "from_member_id", "next_member_id": "to_member_id"}
        return self.decided.where(F.col("kind") == MOVE).withColumnsRenamed(renamed).select(*PLAN_TABLES["moves"].names)

    @property
    def metrics(self) -> DataFrame:
        """A row per planned group: see `tables.streams.METRICS`."""
        return self._rows(METRICS, "metrics")

    @property
    def rejected(self) -> DataFrame:
        """Streams groups that could not be planned: cluster, group_id, code, detail (what to do)."""
        return self._rows(REJECTED, "rejected")

    def release(self) -> None:
        """Give back what is cached in the executors; it is computed anew if needed."""
        uncached(self.decided)

    def _rows(self, kind: str, table: str) -> DataFrame:
        return self.decided.where(F.col("kind") == kind).select(*PLAN_TABLES[table].names)


def plan_streams(
    fleet: Fleet, assignor: str | TaskAssignor = STICKY, *, standby_replicas: int | None = None
) -> StreamsPlan:
    """Plan every streams group of a fleet: those that `groups` calls `streams`, or that have subtopologies or tasks.

    The plan is the target that the group coordinator computes (`TargetAssignmentBuilder`) where members have reached
    what `fleet.tasks` says. How they get from there to the target (who gives up first) is not planned.

    Args:
        fleet: members with `process_id` (null: a process of its own), `subtopologies`, and in `tasks` who has what.
        assignor: `streams-sticky`, the class of Kafka 4.4; `streams-sticky@4.3`, as it was in 4.2 and 4.3; or a
            function of your own from a `Group` to a `Target`, whose answer is taken as it is.
        standby_replicas: in place of what each group is configured with (`groups.standby_replicas`).

    Returns:
        the plan. Its tables are lazy, and all come from one pass over the fleet; only its rows are counted and checked
        at once.

    Raises:
        UnknownAssignorError: no such assignor.
        FleetError: there are no subtopologies, or rows that belong to no group are faulty.
        ValueError: a negative number of standby replicas.
    """
    if fleet.subtopologies is None:
        problem = "the table is missing, and a plan of streams groups needs it"
        raise FleetError([Fault("subtopologies", "*", problem, "Give a row for each subtopology of each group")])
    if standby_replicas is not None and standby_replicas < 0:
        raise ValueError(f"standby_replicas is {standby_replicas}, expected 0 or more")
    asked = partial(decide, question=_question(assignor, standby_replicas))
    facts = gather_facts(fleet).repartition(tasks_for(fleet), *GROUP_KEY)
    return StreamsPlan(fleet, cached(facts.mapInArrow(map_arrow_batches(asked), DECIDED)))


def _question(assignor: str | TaskAssignor, standby_replicas: int | None) -> StreamsPlanParams:
    if not isinstance(assignor, str):
        return StreamsPlanParams(getattr(assignor, "__name__", type(assignor).__name__), assignor, standby_replicas)
    if assignor not in ASSIGNORS:
        raise UnknownAssignorError(f"{assignor} is no assignor of streams groups; there are {', '.join(ASSIGNORS)}")
    return StreamsPlanParams(assignor, ASSIGNORS[assignor], standby_replicas)


def tasks_for(fleet: Fleet) -> int:
    """In how many tasks the kernel does its work; whole groups are in one.

    Raises:
        FleetError: as `fleet.sizes` does.
    """
    sizes = fleet.sizes
    return max(1, -(-(sizes.members + sizes.subtopologies + sizes.tasks) // ROWS_PER_TASK))


# --- the facts; their columns are described in streams.kernel.grouped_facts ------------------------------------------


def gather_facts(fleet: Fleet) -> DataFrame:
    """All that the kernel is told, a row per fact. Members of other groups are among them; it passes them over."""
    assert fleet.subtopologies is not None
    facts = [
        _fact(fleet.members, kinds.MEMBER, member_id="member_id", name="process_id", number="position"),
        _fact(fleet.subtopologies, kinds.SUBTOPOLOGY, name="subtopology", number="partitions", stateful="stateful"),
    ]
    if fleet.groups is not None:
        facts.append(_fact(fleet.groups, kinds.GROUP, text="group_type", number="standby_replicas"))
    of_task = {"member_id": "member_id", "name": "subtopology", "number": "task"}
    of_task |= {"text": "role", "offset": "changelog_offset"}
    for rows, kind in ((fleet.tasks, kinds.TASK), (fleet.departed_tasks, kinds.LEFT)):
        if rows is not None:
            facts.append(_fact(rows, kind, **of_task))
    return reduce(DataFrame.unionByName, facts)


_COLUMNS = {
    field.name: field.dataType for field in from_arrow_schema(kinds.FACTS) if field.name not in (*GROUP_KEY, "kind")
}


def _fact(rows: DataFrame, kind: int, **columns: str) -> DataFrame:
    """Rows as facts of a kind, with these columns of theirs; the others are null."""
    told: dict[str, Column] = {name: F.col(column) for name, column in columns.items()}
    every = (told.get(name, F.lit(None)).cast(type_).alias(name) for name, type_ in _COLUMNS.items())
    return rows.select(*GROUP_KEY, F.lit(kind).cast("byte").alias("kind"), *every)
