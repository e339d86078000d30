"""Every table of Kafka Connect planning, declared once; the rules of `spark_assign.tables.groups` hold.

`kind` is `connector` or `task`; a connector's `task` is null. Times are milliseconds, `…_ms` of a clock since 1970.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

_STRING, _INT, _LONG, _BOOLEAN = StringType(), IntegerType(), LongType(), BooleanType()

_CLUSTER = StructField("connect_cluster", _STRING, nullable=False)
_WORKER = StructField("worker_id", _STRING, nullable=False)
_CONNECTOR = StructField("connector", _STRING, nullable=False)
_KIND = StructField("kind", _STRING, nullable=False)
_TASK = StructField("task", _INT)
_POSITION = StructField("position", _INT)

ITEM = StructType([StructField("kind", _STRING), StructField("connector", _STRING), StructField("task", _INT)])

# --- the ConnectFleet -------------------------------------------------------------------------------------

CLUSTERS = StructType(
    [
        _CLUSTER,
        StructField("protocol", _STRING, nullable=False),
        StructField("now_ms", _LONG, nullable=False),
        StructField("generation_id", _INT, nullable=False),
        StructField("last_completed_generation_id", _INT, nullable=False),
        StructField("max_delay_ms", _LONG, nullable=False),
        StructField("leader", _STRING),
    ]
)
"""`protocol`: eager, compatible, sessioned or compatible-2.6. `generation_id` is that of the rebalance to be planned,
`last_completed_generation_id` the last whose result the leader knows to have arrived (-1: none). `max_delay_ms` is
`scheduled.rebalance.max.delay.ms`."""

CONNECTORS = StructType([_CLUSTER, _CONNECTOR])

TASKS = StructType([_CLUSTER, _CONNECTOR, StructField("task", _INT, nullable=False)])

WORKERS = StructType([_CLUSTER, _WORKER, _POSITION])
"""`position`: the worker's place when the leader walks over its `HashMap` of workers."""

REPORTED = StructType([_CLUSTER, _WORKER, _KIND, _CONNECTOR, _TASK, _POSITION])
"""What each worker runs now. `position`: the item's place in the worker's report."""

STATE = StructType(
    [
        _CLUSTER,
        StructField("assignment", ArrayType(ITEM)),
        StructField("revocation", ArrayType(ITEM)),
        StructField("revoked_in_previous", _BOOLEAN),
        StructField("can_revoke", _BOOLEAN),
        StructField("candidates", ArrayType(_STRING)),
        StructField("scheduled_rebalance_ms", _LONG),
        StructField("delay_ms", _LONG),
        StructField("generation_id", _INT),
        StructField("members", ArrayType(_STRING)),
        StructField("successive_revoking_rebalances", _INT),
    ]
)
"""What the leader remembers (`connect.kernel.rebalance_input.AssignorState`). Null, or no row at all: as in the
beginning. `can_revoke` is of `compatible-2.6`; `revoked_in_previous` and `successive_revoking_rebalances` are of Kafka
4.x."""

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

ASSIGNED = StructType([_CLUSTER, _WORKER, _KIND, _CONNECTOR, _TASK])

REVOKED = ASSIGNED

DELAYS = StructType(
    [
        _CLUSTER,
        StructField("delay_ms", _LONG, nullable=False),
        StructField("scheduled_rebalance_ms", _LONG, nullable=False),
    ]
)
"""`delay_ms`: after this time all workers join again; 0: no rebalance is scheduled. `scheduled_rebalance_ms` is the
leader's own note of when that is."""

METRICS = StructType(
    [
        _CLUSTER,
        StructField("protocol", _STRING, nullable=False),
        *(
            StructField(name, _LONG, nullable=False)
            for name in (
                "workers",
                "connectors",
                "tasks",
                "assigned",
                "revoked",
                "lost",
                "waiting",
                *(
                    f"{bound}_{kind}_{when}"
                    for when in ("before", "after")
                    for kind in ("connectors", "tasks")
                    for bound in ("min", "max")
                ),
            )
        ),
    ]
)
"""A row per planned Connect cluster. `connectors` and `tasks` are configured. Of both together: `assigned`, `revoked`,
`lost` (they were assigned, and no worker runs them) and `waiting` (of the lost: not handed out in this round).
`min_connectors_before` … `max_tasks_after`: of a worker, what it reports, and what it runs after the round."""

REJECTED = StructType(
    [
        StructField("connect_cluster", _STRING),
        StructField("code", _STRING, nullable=False),
        StructField("detail", _STRING, nullable=False),
    ]
)
"""A row per Connect cluster that could not be planned, by the gravest code; `detail` tells all. Rows that name no
cluster stand under null."""

PLAN_TABLES: dict[str, StructType] = {
    "assigned": ASSIGNED,
    "revoked": REVOKED,
    "delays": DELAYS,
    "state": STATE,
    "metrics": METRICS,
    "rejected": REJECTED,
}

_LISTED = StructType([StructField("connector", _STRING), StructField("task", _INT)])
_SHARE = StructType([_WORKER, StructField("items", ArrayType(_LISTED))])
_REMEMBERED = StructType([StructField("connector", _STRING), StructField("tasks", ArrayType(_INT))])

DECIDED = StructType(
    [
        StructField("connect_cluster", _STRING),
        StructField("assigned", ArrayType(_SHARE)),
        StructField("revoked", ArrayType(_SHARE)),
        StructField("delay_ms", _LONG),
        StructField("scheduled_rebalance_ms", _LONG),
        StructField(
            "state",
            StructType(
                [
                    StructField("assignment", ArrayType(_REMEMBERED)),
                    StructField("revocation", ArrayType(_REMEMBERED)),
                    *STATE.fields[3:],
                ]
            ),
        ),
        StructField("metrics", StructType(METRICS.fields[1:])),
        StructField("code", _STRING),
        StructField("detail", _STRING),
    ]
)
"""What the kernel answers (`connect.kernel.result_table.DECIDED`): folded, a connector itself being a task that is
null."""

# --- the ConnectSimulation --------------------------------------------------------------------------------

EVENTS = StructType(
    [
        _CLUSTER,
        StructField("at_ms", _LONG, nullable=False),
        StructField("event", _STRING, nullable=False),
        StructField("subject", _STRING, nullable=False),
        StructField("tasks", _INT),
    ]
)
"""What happens to a Connect cluster; `connect.simulate.simulate_connect` lists the events."""

_PROTOCOL = StructField("protocol", _STRING, nullable=False)

ROUNDS = StructType(
    [
        _CLUSTER,
        _PROTOCOL,
        StructField("round", _INT, nullable=False),
        StructField("at_ms", _LONG, nullable=False),
        StructField("event", _STRING, nullable=False),
        StructField("generation_id", _INT, nullable=False),
        *(
            StructField(name, _LONG, nullable=False)
            for name in (
                "workers",
                "assigned",
                "revoked",
                "gone",
                "stopped",
                "started",
                "running",
                "not_running",
                "delay_ms",
            )
        ),
    ]
)
"""A row per rebalance, numbered from 0; `at_ms` is its begin, `event` what it follows from: events, `rejoin` (a worker
had to give something up) or `delay-over`. Of connectors and tasks together: `assigned` and `revoked` by the leader;
`gone` with workers since the round before; `stopped` and `started` by workers; `running` afterwards. `not_running`:
configured tasks that no worker has afterwards. `delay_ms`: after this time all join again; 0: no delay."""

COSTS = StructType(
    [
        _CLUSTER,
        _PROTOCOL,
        *(
            StructField(name, _LONG, nullable=False)
            for name in (
                "rounds",
                "connector_starts",
                "connector_stops",
                "task_starts",
                "task_stops",
                "gone",
                "task_ms_not_running",
                "ended_ms",
            )
        ),
    ]
)
"""A row per Connect cluster and protocol. `gone`: connectors and tasks that went with their worker, which is no stop.
`task_ms_not_running`: milliseconds added up over all tasks, see `connect.kernel.simulation`. `ended_ms`: when the last
round was over."""

SIMULATION_TABLES: dict[str, StructType] = {"rounds": ROUNDS, "costs": COSTS, "rejected": REJECTED}

PLAYED = StructType(
    [
        StructField("connect_cluster", _STRING),
        StructField("protocol", _STRING),
        StructField("rounds", ArrayType(StructType(ROUNDS.fields[2:]))),
        StructField("costs", StructType(COSTS.fields[2:])),
        StructField("code", _STRING),
        StructField("detail", _STRING),
    ]
)
"""What the kernel answers (`connect.kernel.simulate_clusters.PLAYED`)."""
