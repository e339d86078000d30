"""Plan one rebalance of every Connect cluster of a fleet, exactly as Kafka Connect's own assignors would.

The decision is a kernel over whole clusters (`kernels.connect`). Here its facts are gathered, all of a cluster in one
task; it answers with one row per cluster, from which the tables of the plan are unfolded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType

from spark_assign.caching import cached, uncached
from spark_assign.connect.fleet import ConnectFleet
from spark_assign.connect.schemas import DECIDED, PLAN_TABLES, STATE
from spark_assign.errors import Fault, FleetError
from spark_assign.in_arrow import in_arrow
from spark_assign.kernels.connect import sheet as kinds
from spark_assign.kernels.connect.rounds import plan_facts

ROWS_PER_TASK = 500_000
"""About so many rows are handed to the kernel at once, which bounds what a worker holds."""


@dataclass(frozen=True)
class ConnectPlan:
    """What one rebalance would do, as lazy DataFrames (columns: `connect.schemas.PLAN_TABLES`).

    Every Connect cluster that any table names is in `metrics` or in `rejected`.

    Attributes:
        fleet: what was planned.
        decided: a row per Connect cluster with everything (`connect.schemas.DECIDED`); cached where the session can.
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
        """A row per planned Connect cluster; see `connect.schemas.METRICS`."""
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
    """Lists of tasks for each connector as one list of items (`connect.schemas.ITEM`)."""

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
    return ConnectPlan(fleet, cached(facts.mapInArrow(in_arrow(_decide, 1_000), DECIDED)))


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
    return [plan_facts(facts)]


# --- the facts; their columns are described in kernels.connect.sheet --------------------------------------------

_NUMBERS, _TEXTS = ArrayType(IntegerType()), ArrayType(StringType())
_COLUMNS = {
    "text": StringType(),
    "figures": ArrayType(LongType()),
    "workers": _TEXTS,
    "kinds": _TEXTS,
    "connectors": _TEXTS,
    "tasks": _NUMBERS,
    "positions": _NUMBERS,
}


def gather_facts(fleet: ConnectFleet) -> DataFrame:
    """All that the kernel is told, a few rows per cluster."""
    clock = listed("now_ms", "generation_id", "last_completed_generation_id", "max_delay_ms")
    facts = [
        fact(fleet.clusters, kinds.CLUSTER, workers=F.array("leader"), text=F.col("protocol"), figures=clock),
        _together(fleet.connectors, kinds.CONNECTOR, connectors="connector"),
        _together(fleet.tasks, kinds.TASK, connectors="connector", tasks="task"),
        _together(fleet.workers, kinds.WORKER, workers="worker_id", positions="position"),
        _together(
            fleet.reported,
            kinds.REPORTED,
            workers="worker_id",
            kinds="kind",
            connectors="connector",
            tasks="task",
            positions="position",
        ),
    ]
    if fleet.state is not None:
        facts += _facts_of_state(fleet.state)
    return reduce(DataFrame.unionByName, facts)


def _together(rows: DataFrame, kind: int, **columns: str) -> DataFrame:
    """All rows of a cluster as one fact, their columns as lists side by side.

    Nothing is lost: what stands twice stays, for the kernel to find, and so do nulls, which a list of structs keeps.
    """
    together = rows.groupBy("connect_cluster").agg(F.collect_list(F.struct(*columns.values())).alias("rows"))
    return fact(together, kind, **{name: F.col(f"rows.{column}") for name, column in columns.items()})


def fact(rows: DataFrame, kind: int, **columns: Column) -> DataFrame:
    """Rows as facts of a kind, with these columns; the others are null."""
    every = (columns.get(name, F.lit(None)).cast(type_).alias(name) for name, type_ in _COLUMNS.items())
    return rows.select("connect_cluster", F.lit(kind).cast("byte").alias("kind"), *every)


def listed(*columns: str) -> Column:
    """Numbers (or flags, as 0 and 1) as one list."""
    return F.array(*(F.col(name).cast("long") for name in columns))


_FIGURES = (
    "revoked_in_previous",
    "can_revoke",
    "scheduled_rebalance_ms",
    "delay_ms",
    "generation_id",
    "successive_revoking_rebalances",
)


def _facts_of_state(state: DataFrame) -> list[DataFrame]:
    facts = [fact(state, kinds.STATE, figures=listed(*_FIGURES))]
    for name, kind in (("assignment", kinds.ASSIGNMENT), ("revocation", kinds.REVOCATION)):
        columns = {f"{part}s": F.col(f"{name}.{part}") for part in ("kind", "connector", "task")}
        facts.append(fact(state.where(F.size(name) > 0), kind, **columns))
    for name, kind in (("members", kinds.MEMBER), ("candidates", kinds.CANDIDATE)):
        facts.append(fact(state.where(F.size(name) > 0), kind, workers=F.col(name)))
    return facts
