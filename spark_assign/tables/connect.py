"""Schemas of the tables of Kafka Connect planning and simulation; the rules of `spark_assign.tables.groups` apply.

`kind` is `connector` or `task`. The `task` of a connector is null. Columns `…_ms` are milliseconds: a duration, or a
time since 1970.
"""

from __future__ import annotations

from pyspark.sql.types import ArrayType, BooleanType, IntegerType, LongType, StringType, StructType

from spark_assign.tables.schema_fields import nullable, required

_STRING, _INT, _LONG, _BOOLEAN = StringType(), IntegerType(), LongType(), BooleanType()
_CLUSTER = required(connect_cluster=_STRING)
_ITEM = [*required(kind=_STRING, connector=_STRING), *nullable(task=_INT)]
_ITEMS = ArrayType(StructType(nullable(kind=_STRING, connector=_STRING, task=_INT)))

# --- the ConnectFleet -------------------------------------------------------------------------------------

CLUSTERS = StructType(
    [
        *_CLUSTER,
        *required(protocol=_STRING, now_ms=_LONG, generation_id=_INT, last_completed_generation_id=_INT),
        *required(max_delay_ms=_LONG),
        *nullable(leader=_STRING),
    ]
)
"""One row per Connect cluster.

`protocol`: eager, compatible, sessioned, or compatible-2.6. `now_ms`: time of the rebalance. `generation_id`:
generation of the rebalance. `last_completed_generation_id`: last generation whose assignments arrived, as far as the
leader knows; -1 if there is none. `max_delay_ms`: `scheduled.rebalance.max.delay.ms`. `leader`: a worker id.
"""

CONNECTORS = StructType([*_CLUSTER, *required(connector=_STRING)])
"""One row per configured connector."""

TASKS = StructType([*_CLUSTER, *required(connector=_STRING, task=_INT)])
"""One row per configured task."""

WORKERS = StructType([*_CLUSTER, *required(worker_id=_STRING), *nullable(position=_INT)])
"""One row per worker. `position`: position in the iteration order of the leader's `HashMap` of workers."""

REPORTED = StructType([*_CLUSTER, *required(worker_id=_STRING), *_ITEM, *nullable(position=_INT)])
"""One row per connector or task that a worker runs. `position`: position in the worker's report."""

STATE = StructType(
    [
        *_CLUSTER,
        *nullable(assignment=_ITEMS, revocation=_ITEMS, revoked_in_previous=_BOOLEAN, can_revoke=_BOOLEAN),
        *nullable(candidates=ArrayType(_STRING), scheduled_rebalance_ms=_LONG, delay_ms=_LONG, generation_id=_INT),
        *nullable(members=ArrayType(_STRING), successive_revoking_rebalances=_INT),
    ]
)
"""State of the leader (`connect.kernel.rebalance_input.AssignorState`). A null or a missing row: the state of a new
leader. `can_revoke` belongs to `compatible-2.6`; `revoked_in_previous` and `successive_revoking_rebalances` belong to
Kafka 4.x."""

INPUT_TABLES: dict[str, StructType] = {
    "clusters": CLUSTERS,
    "connectors": CONNECTORS,
    "tasks": TASKS,
    "workers": WORKERS,
    "reported": REPORTED,
    "state": STATE,
}
REQUIRED_TABLES = ("clusters", "connectors", "tasks", "workers", "reported")

# --- the ConnectPlan --------------------------------------------------------------------------------------

ASSIGNED = StructType([*_CLUSTER, *required(worker_id=_STRING), *_ITEM])
"""One row per connector or task that a worker must start."""

REVOKED = ASSIGNED
"""One row per connector or task that a worker must stop."""

DELAYS = StructType([*_CLUSTER, *required(delay_ms=_LONG, scheduled_rebalance_ms=_LONG)])
"""One row per planned Connect cluster. `delay_ms`: time after which all workers rejoin; 0 if no rebalance is scheduled.
`scheduled_rebalance_ms`: the time at which the leader expects that rebalance."""

_LOADS = [
    f"{bound}_{kind}_{time}"
    for time in ("before", "after")
    for kind in ("connectors", "tasks")
    for bound in ("min", "max")
]
METRICS = StructType(
    [
        *_CLUSTER,
        *required(protocol=_STRING, workers=_LONG, connectors=_LONG, tasks=_LONG),
        *required(assigned=_LONG, revoked=_LONG, lost=_LONG, waiting=_LONG, **dict.fromkeys(_LOADS, _LONG)),
    ]
)
"""One row per planned Connect cluster. `connectors` and `tasks` are configured. These count connectors and tasks:
`assigned`; `revoked`; `lost`: were assigned, and no worker runs them; `waiting`: lost, and not assigned in this
rebalance. `min_connectors_before` to `max_tasks_after`: minimum and maximum of a worker, before and after the
rebalance."""

REJECTED = StructType([*nullable(connect_cluster=_STRING), *required(code=_STRING, detail=_STRING)])
"""One row per Connect cluster that can't be planned: the most severe code, and the details of all faults. Rows without
a cluster are listed under null."""

PLAN_TABLES: dict[str, StructType] = {
    "assigned": ASSIGNED,
    "revoked": REVOKED,
    "delays": DELAYS,
    "state": STATE,
    "metrics": METRICS,
    "rejected": REJECTED,
}

# --- the ConnectSimulation --------------------------------------------------------------------------------

EVENTS = StructType([*_CLUSTER, *required(at_ms=_LONG, event=_STRING, subject=_STRING), *nullable(tasks=_INT)])
"""One row per event of a Connect cluster; `connect.simulate.simulate_connect` lists the events."""

_PROTOCOL = required(protocol=_STRING)

REBALANCES = StructType(
    [
        *_CLUSTER,
        *_PROTOCOL,
        *required(rebalance=_INT, at_ms=_LONG, event=_STRING, generation_id=_INT, workers=_LONG),
        *required(assigned=_LONG, revoked=_LONG, lost_with_worker=_LONG, stopped=_LONG, started=_LONG),
        *required(running=_LONG, not_running=_LONG, delay_ms=_LONG),
    ]
)
"""One row per rebalance. `rebalance`: ordinal number, from 0. `at_ms`: start. `event`: the events that caused it,
`rejoin` (a worker stopped what the leader revoked), or `delay-over`. These count connectors and tasks: `assigned` and
`revoked` by the leader; `lost_with_worker` since the previous rebalance; `stopped` and `started` by workers; `running`
afterward. `not_running`: configured tasks that no worker has afterward. `delay_ms`: as in `DELAYS`."""

COSTS = StructType(
    [
        *_CLUSTER,
        *_PROTOCOL,
        *required(rebalances=_LONG, connector_starts=_LONG, connector_stops=_LONG, task_starts=_LONG),
        *required(task_stops=_LONG, lost_with_worker=_LONG, task_ms_not_running=_LONG, ended_ms=_LONG),
    ]
)
"""One row per Connect cluster and protocol. `lost_with_worker`: connectors and tasks lost with their worker, which are
not stops. `task_ms_not_running`: milliseconds summed over all tasks (`connect.kernel.simulation.ConnectCosts`).
`ended_ms`: end of the last rebalance."""

SIMULATION_TABLES: dict[str, StructType] = {"rebalances": REBALANCES, "costs": COSTS, "rejected": REJECTED}
