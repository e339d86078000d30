"""Finds which tasks of Streams groups changed owners between two fleets or stored plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.fleet import FleetTables
from spark_assign.spark.dataframes import union
from spark_assign.stores.result import Result
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.stored_plan import STORED_DRIFT_TABLES, STREAMS
from spark_assign.tables.streams import DRIFT_TABLES

_TASK = [*GROUP_KEY, "subtopology", "task", "role"]
_SIDES = ("before", "after")


@dataclass(frozen=True)
class StreamsDrift(Result):
    """What changed in Streams groups, as lazy DataFrames (columns: `tables.streams.DRIFT_TABLES`).

    Attributes:
        owners: the tasks of both sides, with `members_before` and `members_after`.
    """

    schemas: ClassVar = DRIFT_TABLES
    prefix: ClassVar = STREAMS
    stored_with: ClassVar = STORED_DRIFT_TABLES

    owners: DataFrame

    @cached_property
    def groups(self) -> DataFrame:
        """One row per group of either side that has tasks."""
        tasks = [_sum(F.col("role") == "active", F.size(f"members_{side}")).alias(f"tasks_{side}") for side in _SIDES]
        moved = [_sum(F.col("role") == role, F.size("gained")).alias(f"moved_{role}") for role in ("active", "standby")]
        members = [_members(side).alias(side) for side in _SIDES]
        changes = F.sum(F.size("gained") + F.size("lost")).alias("changes")
        groups = self._with_changes().groupBy(*GROUP_KEY).agg(*tasks, *moved, *members, changes)
        change = (
            F.when(F.size("before") == 0, "added")
            .when(F.size("after") == 0, "removed")
            .when(F.col("changes") > 0, "changed")
            .otherwise("unchanged")
        )
        numbers = {f"members_{side}": F.size(side).cast("long") for side in _SIDES}
        numbers["joined"] = F.size(F.array_except("after", "before")).cast("long")
        numbers["left"] = F.size(F.array_except("before", "after")).cast("long")
        return groups.withColumns({"change": change, **numbers}).select(*DRIFT_TABLES["groups"].names)

    @cached_property
    def tasks(self) -> DataFrame:
        """One row per task and role with other owners."""
        changed = self._with_changes().where("size(gained) + size(lost) > 0")
        renamed = changed.withColumnsRenamed({"lost": "from_members", "gained": "to_members"})
        return renamed.select(*DRIFT_TABLES["tasks"].names)

    def _with_changes(self) -> DataFrame:
        gained, lost = (F.array_except(f"members_{a}", f"members_{b}") for a, b in (_SIDES[::-1], _SIDES))
        return self.owners.withColumns({"gained": gained, "lost": lost})


def _sum(condition: Column, value: Column) -> Column:
    return F.sum(F.when(condition, value).otherwise(0)).cast("long")


def _members(side: str) -> Column:
    return F.array_distinct(F.flatten(F.collect_list(f"members_{side}")))


def find_streams_drift(
    before: FleetTables | Mapping[str, DataFrame], after: FleetTables | Mapping[str, DataFrame]
) -> StreamsDrift | None:
    """Finds which tasks of Streams groups changed owners; None if neither side has tasks, or a plan lacks them.

    Args:
        before: a fleet (its table `tasks`), or the tables of a stored plan (`streams_tasks`). Groups that one side
            rejects or couldn't describe are omitted: nothing is known of their tasks.
        after: likewise. The sides can be of different kinds. Warmups and withheld tasks don't count.
    """
    tasks = {side: _tasks(state) for side, state in zip(_SIDES, (before, after), strict=True)}
    frames = [
        rows.where("role IN ('active', 'standby')").select(*_TASK, "member_id", F.lit(side).alias("side"))
        for side, rows in tasks.items()
        if rows is not None
    ]
    plans = [state for state in (before, after) if not isinstance(state, FleetTables)]
    if not frames or any(f"{STREAMS}metrics" in plan and f"{STREAMS}tasks" not in plan for plan in plans):
        return None
    sets = (
        F.array_sort(F.collect_set(F.when(F.col("side") == side, F.col("member_id")))).alias(f"members_{side}")
        for side in _SIDES
    )
    owners = union(frames).groupBy(*_TASK).agg(*sets)
    for state in (before, after):
        if (rejected := _rejected(state)) is not None:
            owners = owners.join(rejected, GROUP_KEY, "left_anti")
    return StreamsDrift(owners)


def _tasks(state: FleetTables | Mapping[str, DataFrame]) -> DataFrame | None:
    if isinstance(state, FleetTables):
        return state.tasks if state.sizes.tasks else None
    return state.get(f"{STREAMS}tasks")


def _rejected(state: FleetTables | Mapping[str, DataFrame]) -> DataFrame | None:
    if isinstance(state, FleetTables):
        return state.unknown_groups if state.sizes.undescribed else None
    return state.get(f"{STREAMS}rejected")
