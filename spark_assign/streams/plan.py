"""Plans the streams groups of a fleet (KIP-1071) exactly as the broker's assignor does.

Spark collects all facts of a group in one task. The kernel (`streams.kernel`) returns one tagged table, and each table
of the plan is a projection of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

from pyspark.sql import DataFrame

from spark_assign.fleet import Fleet
from spark_assign.spark.tagged_pass import run_pass, to_facts, union
from spark_assign.stores.result import LazyResult
from spark_assign.streams.kernel import plan_groups as kernel
from spark_assign.streams.kernel import streams_group_input as kinds
from spark_assign.streams.kernel.sticky_task_assignor import STICKY
from spark_assign.streams.kernel.task_assignor_api import TaskAssignor
from spark_assign.tables import stored_plan
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.schema_fields import tagged_schema
from spark_assign.tables.streams import PLAN_TABLES

ROWS_PER_SPARK_TASK = 200_000
"""Approximate number of facts per Spark task, which bounds the memory of a worker; a group is never split."""

PLAN_ROWS = tagged_schema(PLAN_TABLES)
"""Schema of the tagged rows (`streams.kernel.plan_groups`)."""


@dataclass(frozen=True)
class StreamsPlan(LazyResult):
    """The broker's target assignment, as lazy DataFrames (columns: `tables.streams.PLAN_TABLES`).

    Every streams group of the fleet is either in `metrics` or in `rejected`.

    Attributes:
        fleet: The planned fleet.
    """

    schemas: ClassVar = PLAN_TABLES
    prefix: ClassVar = stored_plan.STREAMS
    stored_with: ClassVar = stored_plan.STORED_PLAN_TABLES

    fleet: Fleet

    @cached_property
    def tasks(self) -> DataFrame:
        """The target: cluster, group_id, member_id, subtopology, task, role (`active` or `standby`)."""
        return self._rows(kernel.TASK, PLAN_TABLES["tasks"])

    @cached_property
    def moves(self) -> DataFrame:
        """All changes of owners, with the reason, and whether the next owner has the task's state: a row per task,
        role, and owner that loses or gets the task (`tables.streams.MOVES`)."""
        return self._rows(kernel.MOVE, PLAN_TABLES["moves"])

    @cached_property
    def metrics(self) -> DataFrame:
        """One row per planned group (`tables.streams.METRICS`)."""
        return self._rows(kernel.METRICS, PLAN_TABLES["metrics"])


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
            function from a `StreamsGroupSpec` to a `StreamsGroupAssignment`, whose result isn't checked.
        standby_replicas: overrides the configuration of all groups (`groups.standby_replicas`).

    Returns:
        The plan. Its tables are lazy, and all come from one pass over the fleet. The fleet's rows are counted and
        checked at once.

    Raises:
        ConfigError: There is no such assignor, or the number of standby replicas is negative.
        FleetError: The table `subtopologies` is missing, or the fleet has invalid rows that belong to no group.
    """
    if fleet.subtopologies is None:
        problem = "the table is missing, and a plan of streams groups needs it"
        raise FleetError([Fault("subtopologies", "*", problem, "Add a row for each subtopology of each group")])
    if standby_replicas is not None and standby_replicas < 0:
        raise ConfigError(f"standby_replicas is {standby_replicas}, expected 0 or more")
    plan_groups = partial(kernel.plan_streams_groups, params=_build_params(assignor, standby_replicas))
    sizes = fleet.sizes
    tasks = max(1, -(-(sizes.members + sizes.subtopologies + sizes.tasks) // ROWS_PER_SPARK_TASK))
    return StreamsPlan(run_pass(gather_facts(fleet), GROUP_KEY, tasks, plan_groups, PLAN_ROWS), fleet)


def _build_params(assignor: str | TaskAssignor, standby_replicas: int | None) -> kernel.StreamsPlanParams:
    if not isinstance(assignor, str):
        name = getattr(assignor, "__name__", type(assignor).__name__)
        return kernel.StreamsPlanParams(name, assignor, standby_replicas)
    if assignor not in kernel.ASSIGNORS:
        names = ", ".join(kernel.ASSIGNORS)
        raise ConfigError(f"{assignor}: no such assignor of streams groups. Use one of {names}")
    return kernel.StreamsPlanParams(assignor, kernel.ASSIGNORS[assignor], standby_replicas)


def gather_facts(fleet: Fleet) -> DataFrame:
    """Returns the kernel's input, a row per fact (`streams.kernel.streams_group_input`); it includes the members of
    other groups, which the kernel ignores."""
    member = {"member_id": "member_id", "name": "process_id", "number": "position"}
    subtopology = {"name": "subtopology", "number": "partitions", "stateful": "stateful"}
    task = {"member_id": "member_id", "name": "subtopology", "number": "task", "text": "role"}
    sources = [
        (fleet.members, kinds.MEMBER, member),
        (fleet.subtopologies, kinds.SUBTOPOLOGY, subtopology),
        (fleet.groups, kinds.GROUP, {"text": "group_type", "number": "standby_replicas"}),
        *(
            (rows, kind, task | {"offset": "changelog_offset"})
            for rows, kind in ((fleet.tasks, kinds.TASK), (fleet.departed_tasks, kinds.DEPARTED_TASK))
        ),
    ]
    return union(to_facts(rows, kinds.FACTS, kind, **columns) for rows, kind, columns in sources if rows is not None)
