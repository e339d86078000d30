"""Schemas of the tables of a plan of Streams groups; `spark_assign.tables.groups` has the input tables."""

from __future__ import annotations

from pyspark.sql.types import StructType

from spark_assign.tables.groups import REJECTED
from spark_assign.tables.schema_fields import schema

_GROUP = "cluster string, group_id string"
_TASK = "subtopology string, task int, role string"

TASKS = schema(_GROUP, "member_id string", _TASK)
"""One row per task of the target assignment and member. `role`: `active` or `standby`."""

MOVES = schema(
    _GROUP,
    _TASK,
    "from_member_id string?, to_member_id string?, reason string, state string?, changelog_offset long?",
)
"""One row per task and role that changes its owner; `streams.kernel.plan_groups` lists the reasons. `role`: `active` or
`standby`. `state`: which state of the task `to_member_id` has: `member` (its own), `process` (of another member of its
process, on the same disk), `none` (all of it must be restored from the changelog); null if the task is stateless or no
member gets it. `changelog_offset`: offset of that state, as the process reports it."""

METRICS = schema(
    _GROUP,
    "assignor string, members long, processes long, subtopologies long, tasks long, stateful_tasks long",
    "standby_replicas long, min_active long, max_active long, min_standby long, max_standby long",
    "moved_active long, moved_without_state long, moved_standby long, unassigned_active long",
    "unassigned_standby long",
)
"""One row per planned group. `stateful_tasks`: tasks with state, which standbys replicate. `standby_replicas`: the
number that was planned with. `min_active` to `max_standby`: tasks of a member. `moved_active`: active tasks that change
their owner; `moved_without_state`: those that move to a process without their state. `moved_standby`: standbys that
change their owner. `unassigned_active`: tasks of a group without members. `unassigned_standby`: standbys without a
process."""

PLAN_TABLES: dict[str, StructType] = {"tasks": TASKS, "moves": MOVES, "metrics": METRICS, "rejected": REJECTED}
