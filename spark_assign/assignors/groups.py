"""What an assignor is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.schemas import GROUP_KEY

if TYPE_CHECKING:
    from spark_assign.census import Census
    from spark_assign.fleet import Fleet


@dataclass(frozen=True)
class Groups:
    """The groups of a fleet that one assignor is asked to plan, in the shapes that assignors think in.

    Attributes:
        fleet: the whole fleet; its tables may hold other groups and faulty ones too.
        census: its sizes.
        selected: cluster, group_id of the groups to plan; null means all that have no fault.
    """

    fleet: Fleet
    census: Census
    selected: DataFrame | None = None

    def only(self, rows: DataFrame) -> DataFrame:
        """Those rows (with cluster, group_id) that belong to the groups to plan."""
        if self.selected is not None:
            return rows.join(self.selected, GROUP_KEY, "left_semi")
        if self.census.rejected_groups:
            return rows.join(self.census.rejected.select(*GROUP_KEY), GROUP_KEY, "left_anti")
        return rows

    @cached_property
    def topics(self) -> DataFrame:
        """One row per group and subscribed topic with metadata: cluster, group_id, subscribers, topic, partitions."""
        return self.only(self.census.topics.where(F.col("partitions").isNotNull()))

    @cached_property
    def members(self) -> DataFrame:
        """One row per class of subscribers and member: see `class_members`."""
        return self.only(self.census.members)


@dataclass(frozen=True)
class Outcome:
    """What an assignor decided.

    Attributes:
        runs: cluster, group_id, member_id, topic, first, step, count; no empty runs.
        rejected: cluster, group_id, code, detail of groups that it cannot plan; null where there are none.
        complete: whether every partition of every subscribed topic is sure to go to somebody.
        withheld: runs that their next owner gets once the present one has given them up; null where there are none.
        reasons: cluster, group_id, topic, first, step, count, reason of partitions that were taken from a member which
            could have kept them; null where the assignor does not say.
    """

    runs: DataFrame
    rejected: DataFrame | None = None
    complete: bool = False
    withheld: DataFrame | None = None
    reasons: DataFrame | None = None
