"""Every table of a plan of Streams groups, declared once; what they are planned from is in
`spark_assign.tables.groups`."""

from __future__ import annotations

from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from spark_assign.tables.groups import REJECTED
from spark_assign.tables.schema_fields import nullable, required

_STRING, _INT, _LONG = StringType(), IntegerType(), LongType()


_GROUP = required(cluster=_STRING, group_id=_STRING)
_TASK = required(subtopology=_STRING, task=_INT, role=_STRING)

TASKS = StructType([*_GROUP, *required(member_id=_STRING), *_TASK])
"""Who is to have which task in the end (the target). `role`: `active` or `standby`."""

MOVES = StructType(
    [
        *_GROUP,
        *_TASK,
        *nullable(from_member_id=_STRING, to_member_id=_STRING),
        *required(reason=_STRING),
        *nullable(state=_STRING, changelog_offset=_LONG),
    ]
)
"""Every change of owner in a role, with the reason (`streams.kernel.task_moves`). `state`: whether `to_member_id` has
state of the task: `member` (it itself), `process` (another member of its process, on the same disk), `none` (all of it
has to be restored from the changelog); null where the task has no state, or nobody gets it. `changelog_offset`: how far
the state there is, as that process reports it."""

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
"""A row per planned group. `tasks`, `stateful_tasks`: of its subtopologies, each counted once; `standby_replicas`: what
was planned with; `min_active` … `max_standby`: tasks of one member; `moved_active`: tasks that get another owner than
they have, of those `moved_without_state` one whose process has nothing of their state; `moved_standby`: likewise, of
copies; `unassigned_active`: tasks of a group without members; `unassigned_standby`: copies for which there is no
process."""

PLAN_TABLES: dict[str, StructType] = {"tasks": TASKS, "moves": MOVES, "metrics": METRICS, "rejected": REJECTED}
