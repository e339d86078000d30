"""Plan every share group of a fleet exactly as the broker's own assignor would.

The decision is a kernel over whole groups (`share.kernel`). The facts of share groups are gathered, all of a group in
one task; it answers with one table, of which every table of the plan is a projection.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.fleet import Fleet
from spark_assign.groups import facts
from spark_assign.share.kernel.plan_groups import ASSIGNED, CHANGE, METRICS, REJECTED, decide
from spark_assign.share.schemas import DECIDED
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.caching import cached, uncached
from spark_assign.spark.partition_slices import expand
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.groups import GROUP_KEY, RUNS
from spark_assign.tables.share import CHANGES, PLAN_TABLES
from spark_assign.tables.share import METRICS as FIGURES

SHARE = "share"
"""`group_type` of share groups."""


@dataclass(frozen=True)
class SharePlan:
    """What would be assigned, as lazy DataFrames (columns: `tables.share.PLAN_TABLES`).

    Every share group of the fleet is in `metrics` or in `rejected`.

    Attributes:
        fleet: what was planned.
        decided: a row per run, group and refusal (`tables.share.DECIDED`); cached where the session can.
    """

    fleet: Fleet
    decided: DataFrame

    @property
    def assignments(self) -> DataFrame:
        """Who gets what: cluster, group_id, member_id, topic, partition. A partition may have several members."""
        return expand(self.runs)

    @property
    def runs(self) -> DataFrame:
        """The same in compact form: who gets partitions first, first + step, … (count of them) of a topic.

        A count of 0: the member keeps the topic without a partition, as Kafka does. As `owned_runs` of a fleet they are
        what the next plan begins with.
        """
        return self._rows(ASSIGNED).select(*RUNS.names)

    @property
    def changes(self) -> DataFrame:
        """What members are given, and what is taken from them, with the reason (`tables.share.CHANGES`).

        Share groups know no revocation before an assignment: a member has its new partitions with its next heartbeat.
        """
        return expand(self._rows(CHANGE)).select(*CHANGES.names)

    @property
    def metrics(self) -> DataFrame:
        """A row per planned group; see `tables.share.METRICS`."""
        return self._rows(METRICS).select(*FIGURES.names)

    @property
    def rejected(self) -> DataFrame:
        """Share groups that could not be planned: cluster, group_id, code, detail."""
        return self._rows(REJECTED).select(*PLAN_TABLES["rejected"].names)

    def tables(self) -> dict[str, DataFrame]:
        """All tables of the plan by name."""
        return {name: getattr(self, name) for name in PLAN_TABLES}

    def release(self) -> None:
        """Give back what is cached in the executors; it is computed anew if needed."""
        uncached(self.decided)

    def _rows(self, kind: str) -> DataFrame:
        return self.decided.where(F.col("kind") == kind)


def plan_share(fleet: Fleet) -> SharePlan:
    """Plan every share group of a fleet (KIP-932): `SimpleAssignor` of Kafka 4.2 to 4.4.

    Share groups are those whose `groups.group_type` is `share`; others are not looked at. What members own now
    (`owned` or `owned_runs`, in which several may own a partition) is their assignment so far. `initialized` says which
    partitions the coordinator can assign; without it that is all of them.

    Returns:
        the plan. Its tables are lazy, and all come from one pass over the fleet, whose tables are checked at once.

    Raises:
        FleetError: `groups` is missing, or values are there that no plan can be made from.
    """
    if fleet.groups is None:
        problem = "the table is missing, which says what is a share group"
        raise FleetError([Fault("groups", "group_type", problem, "Give it, with group_type = 'share'")])
    told = facts.gather_facts(fleet, topic_ids=True, initialized=True, in_order=True)
    groups = fleet.groups.where(F.col("group_type") == SHARE).select(*GROUP_KEY)
    mine = told.join(F.broadcast(groups), GROUP_KEY, "left_semi").repartition(facts.num_spark_tasks(fleet), *GROUP_KEY)
    return SharePlan(fleet, cached(mine.mapInArrow(map_arrow_batches(decide), DECIDED)))
