"""Plans the share groups of a fleet exactly as the broker's assignor does.

Spark collects all facts of a group in one task. The kernel (`share.kernel`) returns one tagged table, and each table of
the plan is a projection of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.fleet import Fleet
from spark_assign.groups import facts
from spark_assign.share.kernel.plan_groups import (
    ASSIGNED,
    CHANGE,
    METRICS,
    REJECTED,
    SHARE_PLAN_ROWS,
    plan_share_groups,
)
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.caching import cached, uncached
from spark_assign.spark.partition_slices import expand
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.groups import ASSIGNMENT_SLICES, GROUP_KEY
from spark_assign.tables.share import CHANGES, PLAN_TABLES
from spark_assign.tables.share import METRICS as METRICS_TABLE

SHARE = "share"
"""`group_type` of share groups."""

_PLAN_SCHEMA = from_arrow_schema(SHARE_PLAN_ROWS)


@dataclass(frozen=True)
class SharePlan:
    """The plan of share groups, as lazy DataFrames (columns: `tables.share.PLAN_TABLES`).

    Every share group of the fleet is either in `metrics` or in `rejected`.

    Attributes:
        fleet: the planned fleet.
        tagged_rows: a row per slice, group, and rejected group (`share.kernel.plan_groups.SHARE_PLAN_ROWS`); cached if
            the session allows it.
    """

    fleet: Fleet
    tagged_rows: DataFrame

    @property
    def assignments(self) -> DataFrame:
        """The assignment: cluster, group_id, member_id, topic, partition. Several members can share a partition."""
        return expand(self.assignment_slices)

    @property
    def assignment_slices(self) -> DataFrame:
        """The assignment as slices: each row stands for `count` partitions first, first + step, … of a topic.

        A `count` of 0 means that the member keeps the topic without partitions, as in Kafka. Use this table as
        `owned_slices` of a fleet to start the next plan from it.
        """
        return self._rows(ASSIGNED).select(*ASSIGNMENT_SLICES.names)

    @property
    def changes(self) -> DataFrame:
        """The partitions that members get and lose, with the reason (`tables.share.CHANGES`).

        Share groups don't wait for revocations: a member gets its new partitions with its next heartbeat.
        """
        return expand(self._rows(CHANGE)).select(*CHANGES.names)

    @property
    def metrics(self) -> DataFrame:
        """Returns a row per planned group; see `tables.share.METRICS`."""
        return self._rows(METRICS).select(*METRICS_TABLE.names)

    @property
    def rejected(self) -> DataFrame:
        """The share groups that can't be planned: cluster, group_id, code, detail."""
        return self._rows(REJECTED).select(*PLAN_TABLES["rejected"].names)

    def tables(self) -> dict[str, DataFrame]:
        """Returns all tables of the plan by name."""
        return {name: getattr(self, name) for name in PLAN_TABLES}

    def unpersist(self) -> None:
        """Removes the plan from the cache of the executors; Spark recomputes it if it is needed again."""
        uncached(self.tagged_rows)

    def _rows(self, kind: str) -> DataFrame:
        return self.tagged_rows.where(F.col("kind") == kind)


def plan_share(fleet: Fleet) -> SharePlan:
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
        problem = "the table is missing, which says what is a share group"
        raise FleetError([Fault("groups", "group_type", problem, "Give it, with group_type = 'share'")])
    share_groups = fleet.groups.where(F.col("group_type") == SHARE).select(*GROUP_KEY)
    share_facts = facts.gather_facts(fleet, topic_ids=True, initialized=True, owned_order=True)
    share_facts = share_facts.join(F.broadcast(share_groups), GROUP_KEY, "left_semi")
    share_facts = share_facts.repartition(facts.num_spark_tasks(fleet), *GROUP_KEY)
    return SharePlan(fleet, cached(share_facts.mapInArrow(map_arrow_batches(plan_share_groups), _PLAN_SCHEMA)))
