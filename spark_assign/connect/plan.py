"""Plan one rebalance of every Connect cluster of a fleet, exactly as Kafka Connect's own assignors would.

The decision is a kernel over whole clusters (`connect.kernel`). Here its facts are gathered, all of a cluster in one
task; it answers with one row per cluster, from which the tables of the plan are unfolded.
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

ROWS_PER_TASK = 600_000
"""About so many rows are handed to the kernel at once, which bounds what a worker holds."""


@dataclass(frozen=True)
class ConnectPlan:
    """What one rebalance would do, as lazy DataFrames (columns: `tables.connect.PLAN_TABLES`).

    Every Connect cluster that any table names is in `metrics` or in `rejected`.

    Attributes:
        fleet: what was planned.
        decided: a row per Connect cluster with everything (`tables.connect.DECIDED`); cached where the session can.
    """

    fleet: ConnectFleet
    decided: DataFrame

    @property
    def assigned(self) -> DataFrame:
        """What each worker starts: connect_cluster, worker_id, kind, connector, task (eager: all that it gets)."""
        return self._unfolded("assigned")

    @property
    def revoked(self) -> DataFrame:
        """What each worker has to stop: connect_cluster, worker_id, kind, connector, task.

        As in Kafka it may name an item that the worker does not run; it then does nothing. Eager revokes nothing: its
        workers stop everything before they join.
        """
        return self._unfolded("revoked")

    @property
    def delays(self) -> DataFrame:
        """When the workers join again: connect_cluster, delay_ms, scheduled_rebalance_ms."""
        return self._planned.select("connect_cluster", "delay_ms", "scheduled_rebalance_ms")

    @property
    def state(self) -> DataFrame:
        """What the leader remembers afterwards: the `state` of the fleet of the next round."""
        remembered = {name: _unfolded_items(f"state.{name}").alias(name) for name in ("assignment", "revocation")}
        others = (F.col(f"state.{name}") for name in STATE.names[1:] if name not in remembered)
        return self._planned.select("connect_cluster", *remembered.values(), *others)

    @property
    def metrics(self) -> DataFrame:
        """A row per planned Connect cluster; see `tables.connect.METRICS`."""
        return self._planned.select("connect_cluster", "metrics.*")

    @property
    def rejected(self) -> DataFrame:
        """Connect clusters that could not be planned: connect_cluster, code, detail."""
        return self.decided.where(F.col("code").isNotNull()).select("connect_cluster", "code", "detail")

    def tables(self) -> dict[str, DataFrame]:
        """All tables of the plan by name."""
        return {name: getattr(self, name) for name in PLAN_TABLES}

    def release(self) -> None:
        """Give back what is cached in the executors (a row per Connect cluster); it is computed anew if needed."""
        uncached(self.decided)

    @property
    def _planned(self) -> DataFrame:
        return self.decided.where(F.col("code").isNull())

    def _unfolded(self, name: str) -> DataFrame:
        shares = self._planned.select("connect_cluster", F.inline(name))
        rows = shares.select("connect_cluster", "worker_id", F.inline("items"))
        return rows.select("connect_cluster", "worker_id", _kind(F.col("task")).alias("kind"), "connector", "task")


def _unfolded_items(name: str) -> Column:
    """Lists of tasks for each connector as one list of items (`tables.connect.ITEM`)."""

    def of_connector(listed: Column) -> Column:
        return F.transform(listed["tasks"], lambda task: _item(listed["connector"], task))

    return F.flatten(F.transform(name, of_connector))


def _item(connector: Column, task: Column) -> Column:
    return F.struct(_kind(task).alias("kind"), connector.alias("connector"), task.alias("task"))


def _kind(task: Column) -> Column:
    return F.when(task.isNull(), "connector").otherwise("task")


def plan_connect(fleet: ConnectFleet) -> ConnectPlan:
    """Plan the next rebalance of every Connect cluster.

    `eager` is Kafka's `EagerAssignor`; `compatible` and `sessioned` are `IncrementalCooperativeAssignor` (KIP-415) of
    Kafka 4.x; `compatible-2.6` is the same class as it was from 2.6.2 to 3.2.

    Returns:
        the plan. Its tables are lazy, and all come from one pass over the fleet; only its rows are counted at once.

    Raises:
        FleetError: the fleet is empty.
    """
    facts = gather_facts(fleet).repartition(tasks_for(fleet), "connect_cluster")
    return ConnectPlan(fleet, cached(facts.mapInArrow(map_arrow_batches(_decide, 1_000), DECIDED)))


def tasks_for(fleet: ConnectFleet) -> int:
    """In how many tasks the kernel does its work; whole Connect clusters are in one.

    Raises:
        FleetError: the fleet is empty.
    """
    tables = [fleet.clusters, fleet.connectors, fleet.tasks, fleet.workers, fleet.reported]
    rows = reduce(DataFrame.unionByName, [table.select("connect_cluster") for table in tables]).count()
    if not rows:
        problem = "the fleet is empty: there are no Connect clusters"
        raise FleetError([Fault("clusters", "*", problem, "Give at least one Connect cluster")])
    return max(1, -(-rows // ROWS_PER_TASK))


def _decide(facts: pa.Table) -> list[pa.Table]:
    """The work of one task."""
    return [plan_clusters(facts)]


# --- the facts; their columns are described in connect.kernel.indexed_facts ---

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
"""What the facts of clusters and of events list."""


def gather_facts(fleet: ConnectFleet) -> DataFrame:
    """All that the kernel is told, a row per fact."""
    facts = [
        fact(
            fleet.clusters,
            kinds.CLUSTER,
            name=F.col("leader"),
            names=F.col("protocol"),
            numbers=listed(*CLUSTER_NUMBERS),
        ),
        fact(fleet.connectors, kinds.CONNECTOR, connector=F.col("connector")),
        fact(fleet.tasks, kinds.TASK, connector=F.col("connector"), task=F.col("task")),
        fact(fleet.workers, kinds.WORKER, name=F.col("worker_id"), position=F.col("position")),
        fact(
            fleet.reported,
            F.when(_fits(F.col("kind"), F.col("task")), kinds.REPORTED).otherwise(kinds.FAULTY),
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
    """The same of Connect clusters that the driver holds as rows: empty ones, and what happens to them.

    Args:
        clusters: rows of `tables.connect.CLUSTERS`; columns that are left out are null.
        events: rows of `tables.connect.EVENTS`.
    """
    facts: list[dict[str, Any]] = []
    for row in clusters:
        told = {"name": row.get("leader"), "names": row["protocol"], "numbers": _list(row, CLUSTER_NUMBERS)}
        facts.append({"connect_cluster": row["connect_cluster"], "kind": kinds.CLUSTER, "items": []} | told)
    for row in events:
        subject = "name" if row["event"].startswith("worker-") else "connector"
        told = {subject: row["subject"], "names": row["event"], "numbers": _list(row, EVENT_NUMBERS)}
        facts.append({"connect_cluster": row["connect_cluster"], "kind": kinds.EVENT, "items": []} | told)
    columns = [StructField("connect_cluster", StringType()), StructField("kind", ByteType())]
    columns += [StructField(name, type_) for name, type_ in _COLUMNS.items()]
    return pa.Table.from_pylist(facts, to_arrow_schema(StructType(columns)))


def _list(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    return ",".join("" if row.get(name) is None else str(row[name]) for name in columns)


def fact(rows: DataFrame, kind: int | Column, **columns: Column) -> DataFrame:
    """Rows as facts of a kind, with these columns; the others are null, or an empty list.

    On its way into Arrow a list that is null makes Spark go over all null lists before it again; no empty one does.
    """
    kind = F.lit(kind) if isinstance(kind, int) else kind
    nothing = {name: F.array() if isinstance(type_, ArrayType) else F.lit(None) for name, type_ in _COLUMNS.items()}
    every = (column.cast(_COLUMNS[name]).alias(name) for name, column in (nothing | columns).items())
    return rows.select("connect_cluster", kind.cast("byte").alias("kind"), *every)


def listed(*columns: str) -> Column:
    """Numbers (or flags, as 0 and 1) as one text, empty where null."""
    return F.concat_ws(",", *(F.coalesce(F.col(name).cast("long").cast("string"), F.lit("")) for name in columns))


def _fits(kind: Column, task: Column) -> Column:
    """Whether an item is a connector without task or a task with its number."""
    return F.coalesce(((kind == "connector") & task.isNull()) | ((kind == "task") & (task >= 0)), F.lit(False))


_FIGURES = (
    "revoked_in_previous",
    "can_revoke",
    "scheduled_rebalance_ms",
    "delay_ms",
    "generation_id",
    "successive_revoking_rebalances",
)


def _facts_of_state(state: DataFrame) -> list[DataFrame]:
    facts = [fact(state, kinds.STATE, numbers=listed(*_FIGURES))]
    for name, kind in (("assignment", kinds.ASSIGNMENT), ("revocation", kinds.REVOCATION)):
        facts.append(fact(state.where(F.size(name) > 0), kind, items=F.col(name)))
    for name, kind in (("members", kinds.MEMBER), ("candidates", kinds.CANDIDATE)):
        workers = state.select("connect_cluster", F.posexplode(name).alias("place", "worker_id"))
        there = F.col("worker_id").isNotNull()
        facts.append(
            fact(
                workers,
                F.when(there, kind).otherwise(kinds.FAULTY),
                name=F.col("worker_id"),
                position=F.col("place"),
                names=F.when(~there, name),
            )
        )
    return facts
