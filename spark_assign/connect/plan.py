"""Plans one rebalance of every Connect cluster of a fleet, exactly as Kafka Connect's own assignors would.

Spark collects the facts of each cluster in one task. The kernel (`connect.kernel`) plans complete clusters and returns
one tagged table, and each table of the plan is a projection of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructType

from spark_assign.connect.fleet import ConnectFleet
from spark_assign.connect.kernel import plan_clusters as kernel
from spark_assign.connect.kernel.indexed_facts import KEY, TABLES
from spark_assign.spark.dataframes import gather_columns, run_pass, union
from spark_assign.stores.result import LazyResult
from spark_assign.tables import stored_plan
from spark_assign.tables.connect import DELAYS, INPUT_TABLES, METRICS, PLAN_TABLES, REJECTED, STATE
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.schema_fields import nullable, tagged_schema

ROWS_PER_SPARK_TASK = 600_000
"""Approximate number of facts per Spark task, which bounds the memory of an executor."""

_STRING, _INT = StringType(), IntegerType()
_TASKS_BY_CONNECTOR = ArrayType(StructType(nullable(connector=_STRING, tasks=ArrayType(_INT))))
PLAN_ROWS = tagged_schema(
    {"metrics": METRICS, "delays": DELAYS, "state": STATE, "rejected": REJECTED},
    worker_id=_STRING,
    items=ArrayType(StructType(nullable(connector=_STRING, task=_INT))),
    assignment=_TASKS_BY_CONNECTOR,
    revocation=_TASKS_BY_CONNECTOR,
)
"""Schema of the tagged rows (`connect.kernel.plan_clusters`)."""


@dataclass(frozen=True)
class ConnectPlan(LazyResult):
    """The result of one rebalance as lazy DataFrames (columns: `tables.connect.PLAN_TABLES`).

    Every Connect cluster that occurs in any table is in `metrics` or in `rejected`.

    Attributes:
        fleet: The planned fleet.
    """

    schemas: ClassVar = PLAN_TABLES
    prefix: ClassVar = stored_plan.CONNECT
    stored_with: ClassVar = stored_plan.STORED_PLAN_TABLES

    fleet: ConnectFleet

    @cached_property
    def assigned(self) -> DataFrame:
        """Items that each worker starts (eager: all of its items): connect_cluster, worker_id, kind, connector,
        task."""
        return self._items(kernel.ASSIGNED)

    @cached_property
    def revoked(self) -> DataFrame:
        """Items that each worker must stop: connect_cluster, worker_id, kind, connector, task.

        As in Kafka, this might include an item that the worker doesn't run, which has no effect. Eager revokes
        nothing, because its workers stop everything before they join.
        """
        return self._items(kernel.REVOKED)

    @cached_property
    def delays(self) -> DataFrame:
        """Time until the workers rejoin: connect_cluster, delay_ms, scheduled_rebalance_ms."""
        return self._rows(kernel.METRICS, DELAYS)

    @cached_property
    def state(self) -> DataFrame:
        """State of the leader after the rebalance, which is the `state` of the next fleet."""
        items = {name: _flatten_items(name) for name in ("assignment", "revocation")}
        return self._rows(kernel.STATE).withColumns(items).select(*STATE.names)

    @cached_property
    def metrics(self) -> DataFrame:
        """One row per planned Connect cluster (`tables.connect.METRICS`)."""
        return self._rows(kernel.METRICS, METRICS)

    def _items(self, kind: str) -> DataFrame:
        rows = self._rows(kind).select("connect_cluster", "worker_id", F.inline("items"))
        return rows.withColumn("kind", _kind(F.col("task"))).select(*PLAN_TABLES["assigned"].names)


def _flatten_items(name: str) -> Column:
    """Converts a list of tasks per connector to one list of kind, connector, and task."""

    def connector_items(listed: Column) -> Column:
        # Names are repeated here: Sail copies all that a function of an item uses, here `listed`, for each item.
        connectors = F.array_repeat(listed["connector"], F.size(listed["tasks"]))
        items = F.arrays_zip(connectors, listed["tasks"]).cast("array<struct<connector: string, task: int>>")
        return F.transform(
            items,
            lambda item: F.struct(
                _kind(item["task"]).alias("kind"), *(item[name].alias(name) for name in ("connector", "task"))
            ),
        )

    return F.flatten(F.transform(name, connector_items))


def _kind(task: Column) -> Column:
    return F.when(task.isNull(), "connector").otherwise("task")


def plan_connect(fleet: ConnectFleet) -> ConnectPlan:
    """Plans the next rebalance of every Connect cluster.

    `eager` is Kafka's `EagerAssignor`; `compatible` and `sessioned` are `IncrementalCooperativeAssignor` (KIP-415)
    of the release in `clusters.version`, or that of Kafka 3.6.1 to 4.4 without a version; `compatible-2.6` is that
    of 2.6.2 to 3.2. `metrics.rules` has the rules that were used.

    Returns:
        The plan. Its tables are lazy and come from one pass over the fleet; only the row count is computed at once.

    Raises:
        FleetError: The fleet is empty.
    """
    facts, tasks = gather_facts(fleet), num_spark_tasks(fleet)
    return ConnectPlan(run_pass(facts, KEY, tasks, kernel.plan_clusters, PLAN_ROWS, 1_000), fleet)


def num_spark_tasks(fleet: ConnectFleet) -> int:
    """Returns the number of Spark tasks for the kernel; each task gets complete Connect clusters.

    Raises:
        FleetError: The fleet is empty.
    """
    tables = (fleet.clusters, fleet.connectors, fleet.tasks, fleet.workers, fleet.reported)
    rows = union(table.select("connect_cluster") for table in tables).count()
    if not rows:
        problem = "the fleet is empty: there are no Connect clusters"
        raise FleetError([Fault("clusters", "*", problem, "Add at least one Connect cluster")])
    return max(1, -(-rows // ROWS_PER_SPARK_TASK))


def gather_facts(fleet: ConnectFleet, events: DataFrame | None = None) -> DataFrame:
    """Returns the input of the kernel (`connect.kernel.indexed_facts.TABLES`)."""
    tables = {name: getattr(fleet, name) for name in INPUT_TABLES} | {"events": events}
    return gather_columns(tables, KEY, TABLES)
