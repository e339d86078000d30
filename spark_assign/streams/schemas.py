"""Every table of a plan of Streams groups, declared once; what they are planned from is in `spark_assign.schemas`."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from spark_assign.kernels.streams import plan_groups
from spark_assign.schema_fields import nullable, required
from spark_assign.schemas import REJECTED

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
"""Every change of owner in a role, with the reason (`kernels.streams.task_moves`). `state`: whether `to_member_id` has
state of the task: `member` (it itself), `process` (another member of its process, on the same disk), `none` (all of it
has to be restored from the changelog); null where the task has no state, or nobody gets it. `changelog_offset`: how far
the state there is, as that process reports it."""

METRICS = StructType([*_GROUP, *required(assignor=_STRING), *required(**dict.fromkeys(plan_groups.COUNTS, _LONG))])
"""A row per planned group. `tasks`, `stateful_tasks`: of its subtopologies, each counted once; `standby_replicas`: what
was planned with; `min_active` … `max_standby`: tasks of one member; `moved_active`: tasks that get another owner than
they have, of those `moved_without_state` one whose process has nothing of their state; `moved_standby`: likewise, of
copies; `unassigned_active`: tasks of a group without members; `unassigned_standby`: copies for which there is no
process."""

DECIDED = from_arrow_schema(plan_groups.DECIDED)
"""Everything that a plan holds, a row per task, move, group or refusal; `kind` says which columns a row uses
(`kernels.streams.plan_groups`). The tables of a plan are projections of it."""

PLAN_TABLES: dict[str, StructType] = {"tasks": TASKS, "moves": MOVES, "metrics": METRICS, "rejected": REJECTED}
