"""Plans one rebalance of every Connect cluster of a fleet, exactly as Kafka Connect's own assignors would.

Spark gathers the facts of each cluster in one task, the kernel (`connect.kernel`) plans complete clusters and returns
one nested row per cluster, and the tables of the plan are views of these rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, ByteType, IntegerType, StringType, StructField, StructType

from spark_assign.connect.fleet import ConnectFleet
from spark_assign.connect.kernel import indexed_facts as kinds
from spark_assign.connect.kernel.plan_clusters import plan_clusters
from spark_assign.spark.arrow_batches import map_arrow_batches
from spark_assign.spark.caching import cached, uncached
from spark_assign.tables.connect import DECIDED, ITEM, PLAN_TABLES, STATE
from spark_assign.tables.errors import Fault, FleetError

Rows = Sequence[Mapping[str, Any]]

ROWS_PER_SPARK_TASK = 600_000
"""Approximate number of facts per Spark task, which bounds the memory of an executor."""


@dataclass(frozen=True)
class ConnectPlan:
    """The result of one rebalance as lazy DataFrames (columns: `tables.connect.PLAN_TABLES`).

    Every Connect cluster that occurs in any table is in `metrics` or in `rejected`.

    Attributes:
        fleet: The planned fleet.
        decided: One row per Connect cluster with all results (`tables.connect.DECIDED`); cached if the session can.
    """

    fleet: ConnectFleet
    decided: DataFrame

    @property
    def assigned(self) -> DataFrame:
        """Items that each worker starts (eager: all of its items): connect_cluster, worker_id, kind, connector,
        task."""
        return self._inline_shares("assigned")

    @property
    def revoked(self) -> DataFrame:
        """Items that each worker must stop: connect_cluster, worker_id, kind, connector, task.

        As in Kafka, this might include an item that the worker doesn't run, which has no effect. Eager revokes
        nothing, because its workers stop everything before they join.
        """
        return self._inline_shares("revoked")

    @property
    def delays(self) -> DataFrame:
        """Time until the workers rejoin: connect_cluster, delay_ms, scheduled_rebalance_ms."""
        return self._planned.select("connect_cluster", "delay_ms", "scheduled_rebalance_ms")

    @property
    def state(self) -> DataFrame:
        """State of the leader after the rebalance, which is the `state` of the next fleet."""
        items = {name: _flatten_items(f"state.{name}").alias(name) for name in ("assignment", "revocation")}
        fields = (F.col(f"state.{name}") for name in STATE.names[1:] if name not in items)
        return self._planned.select("connect_cluster", *items.values(), *fields)

    @property
    def metrics(self) -> DataFrame:
        """One row per planned Connect cluster (`tables.connect.METRICS`)."""
        return self._planned.select("connect_cluster", "metrics.*")

    @property
    def rejected(self) -> DataFrame:
        """Connect clusters that can't be planned: connect_cluster, code, detail."""
        return self.decided.where(F.col("code").isNotNull()).select("connect_cluster", "code", "detail")

    def tables(self) -> dict[str, DataFrame]:
        """Returns all tables of the plan by name."""
        return {name: getattr(self, name) for name in PLAN_TABLES}

    def unpersist(self) -> None:
        """Frees the cached rows in the executors (one per Connect cluster); Spark recomputes them if needed."""
        uncached(self.decided)

    @property
    def _planned(self) -> DataFrame:
        return self.decided.where(F.col("code").isNull())

    def _inline_shares(self, name: str) -> DataFrame:
        shares = self._planned.select("connect_cluster", F.inline(name))
        rows = shares.select("connect_cluster", "worker_id", F.inline("items"))
        return rows.select("connect_cluster", "worker_id", _kind(F.col("task")).alias("kind"), "connector", "task")


def _flatten_items(name: str) -> Column:
    """Converts a list of tasks per connector to one list of items (`tables.connect.ITEM`)."""

    def connector_items(listed: Column) -> Column:
        return F.transform(listed["tasks"], lambda task: _item(listed["connector"], task))

    return F.flatten(F.transform(name, connector_items))


def _item(connector: Column, task: Column) -> Column:
    return F.struct(_kind(task).alias("kind"), connector.alias("connector"), task.alias("task"))


def _kind(task: Column) -> Column:
    return F.when(task.isNull(), "connector").otherwise("task")


def plan_connect(fleet: ConnectFleet) -> ConnectPlan:
    """Plans the next rebalance of every Connect cluster.

    `eager` is Kafka's `EagerAssignor`; `compatible` and `sessioned` are `IncrementalCooperativeAssignor` (KIP-415) of
    Kafka 4.x; `compatible-2.6` is the same class of Kafka 2.6.2 to 3.2.

    Returns:
        The plan. Its tables are lazy and come from one pass over the fleet; only the row count is computed at once.

    Raises:
        FleetError: The fleet is empty.
    """
    facts = gather_facts(fleet).repartition(num_spark_tasks(fleet), "connect_cluster")
    return ConnectPlan(fleet, cached(facts.mapInArrow(map_arrow_batches(_plan, 1_000), DECIDED)))


def num_spark_tasks(fleet: ConnectFleet) -> int:
    """Returns the number of Spark tasks for the kernel; each task gets complete Connect clusters.

    Raises:
        FleetError: The fleet is empty.
    """
    tables = [fleet.clusters, fleet.connectors, fleet.tasks, fleet.workers, fleet.reported]
    rows = reduce(DataFrame.unionByName, [table.select("connect_cluster") for table in tables]).count()
    if not rows:
        problem = "the fleet is empty: there are no Connect clusters"
        raise FleetError([Fault("clusters", "*", problem, "Give at least one Connect cluster")])
    return max(1, -(-rows // ROWS_PER_SPARK_TASK))


def _plan(facts: pa.Table) -> list[pa.Table]:
    """Plans the clusters of one Spark task."""
    return [plan_clusters(facts)]


# --- the facts (columns: connect.kernel.indexed_facts) ---

_COLUMNS = {
    "name": StringType(),
    "connector": StringType(),
    "task": IntegerType(),
    "position": IntegerType(),
    "names": StringType(),
    "numbers": StringType(),
    "items": ArrayType(ITEM),
}

CLUSTER_NUMBERS = ("now_ms", "generation_id", "last_completed_generation_id", "max_delay_ms")
EVENT_NUMBERS = ("at_ms", "tasks")
"""Columns in `numbers` of the facts of clusters and events."""


def gather_facts(fleet: ConnectFleet) -> DataFrame:
    """Returns the input of the kernel, one row per fact."""
    facts = [
        to_facts(
            fleet.clusters,
            kinds.CLUSTER,
            name=F.col("leader"),
            names=F.col("protocol"),
            numbers=join_numbers(*CLUSTER_NUMBERS),
        ),
        to_facts(fleet.connectors, kinds.CONNECTOR, connector=F.col("connector")),
        to_facts(fleet.tasks, kinds.TASK, connector=F.col("connector"), task=F.col("task")),
        to_facts(fleet.workers, kinds.WORKER, name=F.col("worker_id"), position=F.col("position")),
        to_facts(
            fleet.reported,
            F.when(_is_item(F.col("kind"), F.col("task")), kinds.REPORTED).otherwise(kinds.FAULTY),
            name=F.col("worker_id"),
            connector=F.col("connector"),
            task=F.col("task"),
            position=F.col("position"),
        ),
    ]
    if fleet.state is not None:
        facts += _facts_of_state(fleet.state)
    return reduce(DataFrame.unionByName, facts)


def facts_of_rows(clusters: Rows, events: Rows) -> pa.Table:
    """Returns the facts of initially empty Connect clusters and their events, from rows in the driver.

    Args:
        clusters: Rows of `tables.connect.CLUSTERS`; missing columns are null.
        events: Rows of `tables.connect.EVENTS`.
    """
    facts: list[dict[str, Any]] = []
    for row in clusters:
        values = {"name": row.get("leader"), "names": row["protocol"], "numbers": _number_text(row, CLUSTER_NUMBERS)}
        facts.append({"connect_cluster": row["connect_cluster"], "kind": kinds.CLUSTER, "items": []} | values)
    for row in events:
        subject = "name" if row["event"].startswith("worker-") else "connector"
        values = {subject: row["subject"], "names": row["event"], "numbers": _number_text(row, EVENT_NUMBERS)}
        facts.append({"connect_cluster": row["connect_cluster"], "kind": kinds.EVENT, "items": []} | values)
    columns = [StructField("connect_cluster", StringType()), StructField("kind", ByteType())]
    columns += [StructField(name, type_) for name, type_ in _COLUMNS.items()]
    return pa.Table.from_pylist(facts, to_arrow_schema(StructType(columns)))


def _number_text(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    return ",".join("" if row.get(name) is None else str(row[name]) for name in columns)


def to_facts(rows: DataFrame, kind: int | Column, **columns: Column) -> DataFrame:
    """Converts rows to facts of a kind, with these columns; missing columns are null, or an empty list.

    Spark's conversion to Arrow is quadratic in the number of null lists, so they are empty instead.
    """
    kind = F.lit(kind) if isinstance(kind, int) else kind
    defaults = {name: F.array() if isinstance(type_, ArrayType) else F.lit(None) for name, type_ in _COLUMNS.items()}
    values = (column.cast(_COLUMNS[name]).alias(name) for name, column in (defaults | columns).items())
    return rows.select("connect_cluster", kind.cast("byte").alias("kind"), *values)


def join_numbers(*columns: str) -> Column:
    """Joins numbers (or flags, as 0 and 1) to one text; null is empty."""
    return F.concat_ws(",", *(F.coalesce(F.col(name).cast("long").cast("string"), F.lit("")) for name in columns))


def _is_item(kind: Column, task: Column) -> Column:
    """Checks whether a row is a connector without a task, or a task with a number."""
    return F.coalesce(((kind == "connector") & task.isNull()) | ((kind == "task") & (task >= 0)), F.lit(False))


_STATE_NUMBERS = (
    "revoked_in_previous",
    "can_revoke",
    "scheduled_rebalance_ms",
    "delay_ms",
    "generation_id",
    "successive_revoking_rebalances",
)


def _facts_of_state(state: DataFrame) -> list[DataFrame]:
    facts = [to_facts(state, kinds.STATE, numbers=join_numbers(*_STATE_NUMBERS))]
    for name, kind in (("assignment", kinds.ASSIGNMENT), ("revocation", kinds.REVOCATION)):
        facts.append(to_facts(state.where(F.size(name) > 0), kind, items=F.col(name)))
    for name, kind in (("members", kinds.MEMBER), ("candidates", kinds.CANDIDATE)):
        workers = state.select("connect_cluster", F.posexplode(name).alias("position", "worker_id"))
        is_known = F.col("worker_id").isNotNull()
        facts.append(
            to_facts(
                workers,
                F.when(is_known, kind).otherwise(kinds.FAULTY),
                name=F.col("worker_id"),
                position=F.col("position"),
                names=F.when(~is_known, name),
            )
        )
    return facts
