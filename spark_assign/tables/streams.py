"""Schemas of the tables of a plan of Streams groups; `spark_assign.tables.groups` has the input tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pyspark.sql.types import StructType

from spark_assign.tables.groups import REJECTED
from spark_assign.tables.parameters import Param
from spark_assign.tables.schema_fields import schema
from spark_assign.tables.simulation import REBALANCES

TASK_ASSIGNORS = ("streams-sticky", "streams-sticky@4.3", "streams-sticky@4.2.2")
"""Assignors of the streams protocol; one without a release is that of Kafka 4.4."""


@dataclass(frozen=True)
class StreamsParams:
    """Parameters of `plan_streams` and `compare_streams`.

    Attributes:
        standby_replicas: number of standby replicas per task with state of Streams groups (default: as each group is
            configured).
        restore_bytes_per_second: what a process restores from changelogs. With it, classic Streams applications are
            followed until every task is at its final owner (default: only the next rebalance).
    """

    standby_replicas: Annotated[int | None, Param(least=0)] = None
    restore_bytes_per_second: Annotated[float | None, Param(least=1)] = None


_GROUP = "cluster string, group_id string"
_TASK = "subtopology string, task int, role string"

TASKS = schema(_GROUP, "member_id string", _TASK)
"""One row per task of the target assignment and member. `role`: `active` or `standby`. In the classic protocol also
`warmup`, a standby that restores the state of a task which the member gets later, and `withheld`, an active task that
the member gets in the rebalance that follows, after its owner has revoked it; until then it can have a standby."""

MOVES = schema(
    _GROUP,
    _TASK,
    "from_member_id string?, to_member_id string?, reason string, state string?, changelog_offset long?",
)
"""One row per task and role that changes its owner; `streams.kernel.plan_groups` lists the reasons. `role`: `active`,
`standby`, or `warmup`. `state`: which state of the task `to_member_id` has: `member` (its own), `process` (of another
member of its process, on the same disk), `none` (all of it must be restored from the changelog); null if the task is
stateless or no member gets it. `changelog_offset`: offset of that state, as the process reports it."""

METRICS = schema(
    _GROUP,
    "assignor string, members long, processes long, subtopologies long, tasks long, stateful_tasks long",
    "standby_replicas long, min_active long, max_active long, min_standby long, max_standby long",
    "moved_active long, moved_without_state long, moved_standby long, unassigned_active long",
    "unassigned_standby long, warmups long?, withheld long?, pending_moves long?, follow_up string?, "
    "order_dependent long?, assumed_offsets long?, state_bytes long?, standby_bytes long?, probing_rebalances long?, "
    "caught_up_seconds double?, restored_bytes long?, stopped_task_seconds double?, never_caught_up long?, "
    "changelog_bytes_per_second double?, rules string?, rules_note string?",
)
"""One row per planned group. `assignor`: in the classic protocol `high-availability`, `sticky`, `legacy-sticky`, or
`fallback`, if end offsets can't be read. `stateful_tasks`: tasks with state, which standbys replicate.
`standby_replicas`: the number that was planned with. `min_active` to `max_standby`: tasks of a member. `moved_active`:
active tasks that change their owner; `moved_without_state`: those that move to a process without their state.
`moved_standby`: standbys that change their owner. `unassigned_active`: tasks of a group without members.
`unassigned_standby`: standbys without a process.

The other columns but `rules_note` are null outside of the classic protocol. `warmups`, `withheld`: number of tasks with
this role. `pending_moves`: number of tasks and standbys that aren't at their final owner, because it must restore their
state first. `follow_up`: the rebalance that follows: `at-once` (tasks are withheld), `probing` (after
`probing.rebalance.interval.ms`), or null (none). `order_dependent`: standbys that Kafka might put elsewhere, because
the public `StickyTaskAssignor` assigns them in the order of identity hash codes. `assumed_offsets`: standbys with an
unknown `changelog_offset`, which count as caught up. `state_bytes`: size of the state of all tasks. `standby_bytes`:
size of the state that standbys and warmups have on disks in addition, once it is restored. Both are null if
`changelogs.bytes` is unknown.

`rules`: the first release of Kafka Streams with the rules of the plan, `4.4` or `3.8`, by `groups.leader_version`.
`rules_note`: what the leader might do otherwise, because its release is unknown or older, or, in the streams protocol,
that the number of standbys isn't known, and is 0 in the plan; null if the plan follows the group.

The columns from `probing_rebalances` to `changelog_bytes_per_second` are totals of `rounds` and `restores`, and null
without these. `probing_rebalances`: number of probing rebalances that follow. `caught_up_seconds`: time until every
task is at its final owner and all state is restored; null if that takes more than 200 rebalances, if a standby or
warmup never catches up, or if end offsets can't be read. `restored_bytes`: bytes that all processes restore.
`stopped_task_seconds`: time for which active tasks restore their state before they run, summed over tasks.
`never_caught_up`: number of standbys and warmups that never catch up, because their changelogs grow at least as fast as
the process restores them. `changelog_bytes_per_second`: rate at which all changelogs grow while their tasks run; null
if no rate is known (`loads`), so that their sizes are fixed."""

ROUNDS = schema(
    _GROUP,
    "round int, start_seconds double, cause string?, moved_active long, withheld long, warmups long, "
    "pending_moves long, stopped_active long, restore_bytes long",
)
"""One row per classic application and rebalance, from the planned one until every task is at its final owner, if a
restore rate is given and `changelogs.bytes` is known. `round`: from 1. `start_seconds`: time since the planned
rebalance. `cause`: `at-once` or `probing`, as `follow_up`; null for the first. `moved_active`: active tasks with
another member than before. `withheld`, `warmups`, `pending_moves`: as in `metrics`. `stopped_active`: active tasks that
restore their state before they run. `restore_bytes`: bytes that are left to restore at the start."""

RESTORES = schema(
    _GROUP,
    "member_id string",
    _TASK,
    "bytes long, start_seconds double, restore_seconds double?",
)
"""One row per task and process that restores its state in these rebalances. `role`: `active` (the task stops
meanwhile) or `standby` (or a warmup). `bytes`: size of the state that is missing. `start_seconds`: time since the
planned rebalance. `restore_seconds`: time until it is restored, with what the task writes meanwhile; null if the
process loses the task before, or if it never catches up."""

PLAN_TABLES: dict[str, StructType] = {
    "tasks": TASKS,
    "moves": MOVES,
    "metrics": METRICS,
    "rounds": ROUNDS,
    "restores": RESTORES,
    "rejected": REJECTED,
}

STEPS = schema(
    _GROUP,
    "step int, at_ms long, event string, member_ids array<string>, rebalances int, moved_active long, "
    "moved_without_state long, stopped_task_seconds double, restored_bytes long, never_caught_up long",
)
"""One row per classic application and event of a simulation; the instances of a rolling restart that restart together
are one row. An application without events has one row, with the step 0 and the event `none`. The numbers are of the
time until the next event, or until all is restored. `step`: from 1. `at_ms`: milliseconds since the start.
`member_ids`: members to which the event happens, all those of an instance. `rebalances`: generations that started.
`moved_active`: active tasks that another member took over; `moved_without_state`: those that moved to a process without
their state. `stopped_task_seconds`: time for which no member runs a task, because the member has closed or restores the
state, summed over tasks. `restored_bytes`: bytes that all processes restore. `never_caught_up`: standbys and warmups
that never catch up, in the row of the last event (others: 0)."""

SIMULATION_TABLES: dict[str, StructType] = {"steps": STEPS, "rebalances": REBALANCES, "rejected": REJECTED}

COMPARISON = schema(
    _GROUP,
    "what_if string, assignor string, members long, processes long, tasks long, standby_replicas long",
    "min_active long, max_active long, min_standby long, max_standby long, moved_active long",
    "moved_without_state long, moved_standby long, unassigned_standby long, warmups long?, pending_moves long?",
    "state_bytes long?, standby_bytes long?, probing_rebalances long?, caught_up_seconds double?",
    "restored_bytes long?, stopped_task_seconds double?, moved_without_standbys long",
    "restored_bytes_without_standbys long?, stopped_task_seconds_without_standbys double?",
)
"""One row per Streams group and what-if change. Most columns are those of the table `metrics` of a plan. The last three
are `moved_without_state`, `restored_bytes`, and `stopped_task_seconds` of the same change if the group had no standbys,
so that the difference is what its standbys save. `moved_without_standbys`: active tasks that would move to a process
without their state. `restored_bytes_without_standbys`: bytes that would be restored.
`stopped_task_seconds_without_standbys`: time for which active tasks would restore their state before they run, summed
over tasks."""

COMPARE_REJECTED = schema(_GROUP, "what_if string, code string, detail string")
"""One row per group that can't be planned and what-if change."""

COMPARE_TABLES: dict[str, StructType] = {"comparison": COMPARISON, "rejected": COMPARE_REJECTED}

DRIFT_GROUPS = schema(
    _GROUP,
    "change string, members_before long, members_after long, joined long, left long, tasks_before long",
    "tasks_after long, moved_active long, moved_standby long",
)
"""One row per Streams group of either state that has tasks. `change`: `added`, `removed`, `changed`, or `unchanged`.
`members_before`, `members_after`, `joined`, `left`: numbers of members with tasks. `tasks_before`, `tasks_after`:
active tasks. `moved_active`, `moved_standby`: active tasks and standbys that a member has only afterward."""

DRIFT_TASKS = schema(_GROUP, _TASK, "from_members array<string>, to_members array<string>")
"""One row per task and role with other owners. `from_members`: members that had it only before; `to_members`: members
that have it only afterward. A task can have several standbys."""

DRIFT_TABLES: dict[str, StructType] = {"groups": DRIFT_GROUPS, "tasks": DRIFT_TASKS}
