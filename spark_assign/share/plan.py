"""Plans the share groups of a fleet exactly as the broker's assignor does.

Spark collects all facts of a group in one task. The kernel (`share.kernel`) returns one tagged table, and each table of
the plan is a projection of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from spark_assign.fleet import FleetTables
from spark_assign.groups import facts
from spark_assign.share.kernel import plan_groups as kernel
from spark_assign.spark.dataframes import expand, run_pass
from spark_assign.stores.result import LazyResult
from spark_assign.tables import stored_plan
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.groups import ASSIGNMENT_SLICES, GROUP_KEY, REJECTED
from spark_assign.tables.schema_fields import tagged_schema
from spark_assign.tables.share import CHANGES, METRICS, PLAN_TABLES

SHARE = "share"
"""`group_type` of share groups."""

PLAN_ROWS = tagged_schema(
    {"assignment_slices": ASSIGNMENT_SLICES, "metrics": METRICS, "rejected": REJECTED},
    change=StringType(),
    reason=StringType(),
)
"""Schema of the tagged rows (`share.kernel.plan_groups`)."""


@dataclass(frozen=True)
class SharePlan(LazyResult):
    """The plan of share groups, as lazy DataFrames (columns: `tables.share.PLAN_TABLES`).

    Every share group of the fleet is either in `metrics` or in `rejected`.

    Attributes:
        fleet: The planned fleet.
    """

    schemas: ClassVar = PLAN_TABLES
    prefix: ClassVar = stored_plan.SHARE
    stored_with: ClassVar = stored_plan.STORED_PLAN_TABLES

    fleet: FleetTables

    @cached_property
    def assignments(self) -> DataFrame:
        """The assignment: cluster, group_id, member_id, topic, partition. Several members can share a partition."""
        return expand(self.assignment_slices)

    @cached_property
    def assignment_slices(self) -> DataFrame:
        """The assignment as slices: each row stands for `count` partitions first, first + step, … of a topic.

        A `count` of 0 means that the member keeps the topic without partitions, as in Kafka. Use this table as
        `owned_slices` of a fleet to start the next plan from it.
        """
        return self._rows(kernel.ASSIGNED, ASSIGNMENT_SLICES)

    @cached_property
    def changes(self) -> DataFrame:
        """The partitions that members get and lose, with the reason (`tables.share.CHANGES`).

        Share groups don't wait for revocations: a member gets its new partitions with its next heartbeat.
        """
        return expand(self._rows(kernel.CHANGE)).select(*CHANGES.names)

    @cached_property
    def metrics(self) -> DataFrame:
        """One row per planned group (`tables.share.METRICS`)."""
        return self._rows(kernel.METRICS, METRICS).fillna(0)


def plan_share(fleet: FleetTables) -> SharePlan:
    """Plans every share group of a fleet (KIP-932) as `SimpleAssignor` of Kafka 4.2 to 4.4 does.

    Share groups are the groups whose `groups.group_type` is `share`; the plan ignores all other groups. The current
    assignment is `owned` or `owned_slices`, in which several members can own a partition. The table `initialized` lists
    the partitions that the coordinator can assign; without it, the coordinator can assign all of them.

    Returns:
        The plan. Its tables are lazy, and all come from one pass over the fleet. The fleet's tables are checked at
        once.

    Raises:
        FleetError: The table `groups` is missing, or the fleet contains invalid rows that belong to no group.
    """
    if fleet.groups is None:
        problem = "the table is missing, so no group is known to be a share group"
        raise FleetError([Fault("groups", "group_type", problem, "Add it, with group_type = 'share'")])
    share_groups = fleet.groups.where(F.col("group_type") == SHARE).select(*GROUP_KEY)
    share_facts = facts.gather_facts(fleet, topic_ids=True, initialized=True, owned_order=True)
    share_facts = share_facts.join(F.broadcast(share_groups), GROUP_KEY, "left_semi")
    tasks = facts.num_spark_tasks(fleet)
    return SharePlan(run_pass(share_facts, GROUP_KEY, tasks, kernel.plan_share_groups, PLAN_ROWS), fleet)
