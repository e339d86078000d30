"""Schemas of the tables of a plan of Streams groups; `spark_assign.tables.groups` has the input tables."""

from __future__ import annotations

from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from spark_assign.tables.groups import REJECTED
from spark_assign.tables.schema_fields import nullable, required

_STRING, _INT, _LONG = StringType(), IntegerType(), LongType()
_GROUP = required(cluster=_STRING, group_id=_STRING)
_TASK = required(subtopology=_STRING, task=_INT, role=_STRING)

TASKS = StructType([*_GROUP, *required(member_id=_STRING), *_TASK])
"""One row per task of the target assignment and member. `role`: `active` or `standby`."""

MOVES = StructType(
    [
        *_GROUP,
        *_TASK,
        *nullable(from_member_id=_STRING, to_member_id=_STRING),
        *required(reason=_STRING),
        *nullable(state=_STRING, changelog_offset=_LONG),
    ]
)
"""One row per task and role that changes its owner; `streams.kernel.plan_groups` lists the reasons. `state`: which
state of the task `to_member_id` has: `member` (its own), `process` (of another member of its process, on the same
disk), `none` (all of it must be restored from the changelog); null if the task is stateless or no member gets it.
`changelog_offset`: offset of that state, as the process reports it."""

METRICS = StructType(
    [
        *_GROUP,
        *required(assignor=_STRING, members=_LONG, processes=_LONG, subtopologies=_LONG, tasks=_LONG),
        *required(stateful_tasks=_LONG, standby_replicas=_LONG),
        *required(min_active=_LONG, max_active=_LONG, min_standby=_LONG, max_standby=_LONG),
        *required(moved_active=_LONG, moved_without_state=_LONG, moved_standby=_LONG),
        *required(unassigned_active=_LONG, unassigned_standby=_LONG),
    ]
)
"""One row per planned group. `standby_replicas`: the number that was planned with. `min_active` to `max_standby`: tasks
of a member. `moved_active`: active tasks that change their owner; `moved_without_state`: those whose new process has
none of their state. `moved_standby`: standbys that change their owner. `unassigned_active`: tasks of a group without
members. `unassigned_standby`: standbys without a process."""

PLAN_TABLES: dict[str, StructType] = {"tasks": TASKS, "moves": MOVES, "metrics": METRICS, "rejected": REJECTED}
