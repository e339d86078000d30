"""Schemas of the tables of Kafka Connect planning and simulation; the rules of `spark_assign.tables.groups` apply.

`kind` is `connector` or `task`. The `task` of a connector is null. Columns `…_ms` are milliseconds: a duration, or a
time since 1970.
"""

from __future__ import annotations

from pyspark.sql.types import ArrayType, StructField, StructType

from spark_assign.tables.schema_fields import columns, schema

_CLUSTER = "connect_cluster string"
_ITEM = "kind string, connector string, task int?"
_ITEMS = ArrayType(schema("kind string?, connector string?, task int?"))

# --- the ConnectFleet -------------------------------------------------------------------------------------

CLUSTERS = schema(
    _CLUSTER,
    "protocol string, now_ms long, generation_id int, last_completed_generation_id int, max_delay_ms long",
    "leader string?, version string?, delay_ms long?",
)
"""One row per Connect cluster.

`protocol`: eager, compatible, sessioned, or compatible-2.6. `now_ms`: time of the rebalance. `generation_id`:
generation of the rebalance. `last_completed_generation_id`: last generation whose assignments arrived, as far as the
leader knows; -1 if there is none. `max_delay_ms`: `scheduled.rebalance.max.delay.ms`. `leader`: a worker id.
`version`: release of the workers, of Kafka or of Confluent Platform (`7.5.1-ccs`), whose rules count (null: those of
Kafka 4.4). `delay_ms`: delay that the last rebalance announced; without `state`, connectors and tasks that no worker
runs wait for it (null: unknown)."""

CONNECTORS = schema(_CLUSTER, "connector string, state string?")
"""One row per configured connector. `state`: as REST reports it. `UNASSIGNED`: a worker ran it, and none does now;
null: it has never run, or, if all are null, unknown."""

TASKS = schema(_CLUSTER, "connector string, task int, state string?")
"""One row per configured task. `state`: as of a connector."""

WORKERS = schema(_CLUSTER, "worker_id string, position int?")
"""One row per worker. `position`: position in the iteration order of the leader's `HashMap` of workers."""

REPORTED = schema(_CLUSTER, "worker_id string", _ITEM, "position int?")
"""One row per connector or task that a worker runs. `position`: position in the worker's report."""

STATE = StructType(
    [
        *columns(_CLUSTER),
        StructField("assignment", _ITEMS),
        StructField("revocation", _ITEMS),
        *columns(
            "revoked_in_previous boolean?, can_revoke boolean?, candidates array<string>?",
            "scheduled_rebalance_ms long?, delay_ms long?, generation_id int?, members array<string>?",
            "successive_revoking_rebalances int?",
        ),
    ]
)
"""State of the leader (`assignors.connect.rebalance_input.AssignorState`). A null or a missing row: the state of a new
leader. `assignment`: connectors and tasks that the leader assigned last. `revocation`: those that it revoked last.
`can_revoke`: whether the leader may revoke (only before Kafka 3.4). `revoked_in_previous`: whether the previous
rebalance revoked anything (only since Kafka 3.4, as `successive_revoking_rebalances`). `candidates`: workers that
may get the connectors and tasks of lost workers."""

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

ASSIGNED = schema(_CLUSTER, "worker_id string", _ITEM)
"""One row per connector or task that a worker must start."""

REVOKED = ASSIGNED
"""One row per connector or task that a worker must stop."""

DELAYS = schema(_CLUSTER, "delay_ms long, scheduled_rebalance_ms long")
"""One row per planned Connect cluster. `delay_ms`: time after which all workers rejoin; 0 if no rebalance is scheduled.
`scheduled_rebalance_ms`: the time at which the leader expects that rebalance."""

_LOADS = [
    f"{bound}_{kind}_{time} long"
    for time in ("before", "after")
    for kind in ("connectors", "tasks")
    for bound in ("min", "max")
]
METRICS = schema(
    _CLUSTER,
    "protocol string, workers long, connectors long, tasks long, assigned long, revoked long, lost long, waiting long",
    *_LOADS,
    "rules string?, rules_note string?, note string?, max_waiting long?, max_delay_ms long?",
)
"""One row per planned Connect cluster. `connectors` and `tasks` are configured. The following count connectors and
tasks. `assigned`: with a worker after the rebalance; `revoked`: taken from a worker; `lost`: were assigned, and no
worker runs them; `waiting`: lost, and not assigned in this rebalance. `min_connectors_before` to `max_tasks_after`:
minimum and maximum of a worker, before and after the rebalance. `rules`: the first release of Kafka whose assignor
plans as this plan (`assignors.connect.release_rules`; null: eager, which is the same in all releases). `rules_note`:
what might differ, because the release of the workers is unknown or none of Kafka's; null if nothing. `note`: what
`scheduled.rebalance.max.delay.ms` decides about lost connectors and tasks, and the connector of which
one worker has at least two tasks more than an even share; null if nothing. `max_waiting`,
`max_delay_ms`: `waiting` and `delay_ms` if the leader, whose state isn't known, remembers who ran the connectors and
tasks that no worker runs; null if that makes no difference."""

REJECTED = schema("connect_cluster string?, code string, detail string")
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

EVENTS = schema(_CLUSTER, "at_ms long, event string, subject string, tasks int?")
"""One row per event of a Connect cluster; `connect.simulate.simulate_connect` lists the events. `subject`: the worker
or connector that the event happens to."""

REBALANCES = schema(
    _CLUSTER,
    "protocol string, rebalance int, at_ms long, event string, generation_id int, workers long, assigned long",
    "revoked long, lost_with_worker long, stopped long, started long, running long, not_running long",
    "delay_ms long",
)
"""One row per rebalance. `rebalance`: ordinal number, from 0. `at_ms`: start. `event`: the events that caused it,
`rejoin` (a worker stopped what the leader revoked), or `delay-over`. The following count connectors and tasks.
`assigned`: by the leader; `revoked`: by the leader; `lost_with_worker`: since the previous rebalance; `stopped`: by
workers; `started`: by workers; `running`: after the rebalance. `not_running`: configured tasks that no worker has
afterward. `delay_ms`: as in `DELAYS`."""

COSTS = schema(
    _CLUSTER,
    "protocol string, rebalances long, connector_starts long, connector_stops long, task_starts long",
    "task_stops long, lost_with_worker long, task_ms_not_running long, not_running long?, ended_ms long",
)
"""One row per Connect cluster and protocol. `lost_with_worker`: connectors and tasks lost with their worker, which are
not stops. `task_ms_not_running`: milliseconds summed over all tasks (`connect.kernel.simulated_cluster.ConnectCosts`).
`not_running`: configured tasks that no worker runs at the end, so their cost is open; null in runs of earlier releases.
`ended_ms`: end of the last rebalance."""

SIMULATION_TABLES: dict[str, StructType] = {"rebalances": REBALANCES, "costs": COSTS, "rejected": REJECTED}
