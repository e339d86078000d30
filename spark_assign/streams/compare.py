"""Plans the Streams groups of a fleet under several what-if changes, and computes what their standbys save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.fleet import FleetTables
from spark_assign.spark.dataframes import union
from spark_assign.stores.result import LazyResult
from spark_assign.streams.kernel.plan_groups import METRICS, REJECTED
from spark_assign.streams.plan import plan_streams
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.stored_plan import STORED_COMPARE_TABLES, STREAMS
from spark_assign.tables.streams import COMPARE_TABLES

_KEY = [*GROUP_KEY, "what_if"]
_WITHOUT_STANDBYS = {
    "moved_without_standbys": "moved_without_state",
    "restored_bytes_without_standbys": "restored_bytes",
    "stopped_task_seconds_without_standbys": "stopped_task_seconds",
}
"""Columns of the comparison: the metric of a plan without standbys that each of them is."""


@dataclass(frozen=True)
class StreamsComparison(LazyResult):
    """Streams groups after what-if changes, as lazy DataFrames (columns: `tables.streams.COMPARE_TABLES`).

    Attributes:
        rows: the tagged rows of the plans, computed or read back; `what_if` is the change, and `has_standbys` is false
            in the plans without standbys.
    """

    schemas: ClassVar = COMPARE_TABLES
    prefix: ClassVar = STREAMS
    stored_with: ClassVar = STORED_COMPARE_TABLES

    @cached_property
    def comparison(self) -> DataFrame:
        """One row per group and what-if change (`tables.streams.COMPARISON`)."""
        metrics = self._rows(METRICS)
        columns = (F.col(name).alias(column) for column, name in _WITHOUT_STANDBYS.items())
        without_standbys = metrics.where("NOT has_standbys").select(*_KEY, *columns)
        joined = metrics.where("has_standbys").join(without_standbys, _KEY)
        return joined.select(*self.schemas["comparison"].names)

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups that can't be planned: one row per what-if change, with a code and a detail."""
        return self._rows(REJECTED).where("has_standbys").select(*self.schemas["rejected"].names)


def compare_streams(
    states: Mapping[str, FleetTables], *, standby_replicas: int | None = None, **plan_options: Any
) -> StreamsComparison:
    """Plans every Streams group of each state of a fleet, with its standbys and without any.

    The plan without standbys starts from the same owners, but no other member has state on disk, and assigns no
    standbys. The difference is what standbys save.

    Args:
        states: the fleet after each what-if change (see `plan_streams`), by the name of the change.
        standby_replicas: overrides the configuration of all groups in the plans with standbys.
        **plan_options: other arguments of `plan_streams`. With `restore_bytes_per_second`, the comparison has the time
            and bytes of classic applications.

    Returns:
        The comparison. Its tables are lazy.

    Raises:
        ConfigError: see `plan_streams`.
        FleetError: see `plan_streams`.
    """
    frames = []
    for name, state in states.items():
        for has_standbys in (True, False):
            planned = plan_streams(
                state if has_standbys else _without_standbys(state),
                standby_replicas=standby_replicas if has_standbys else 0,
                **plan_options,
            )
            rows = planned.rows.where(F.col("kind").isin(METRICS, REJECTED))
            frames.append(rows.withColumns({"what_if": F.lit(name), "has_standbys": F.lit(has_standbys)}))
    return StreamsComparison(union(frames))


def _without_standbys(fleet: FleetTables) -> FleetTables:
    tables = {name: getattr(fleet, name) for name in ("tasks", "departed_tasks")}
    return replace(fleet, **{name: each.where("role = 'active'") for name, each in tables.items() if each is not None})
