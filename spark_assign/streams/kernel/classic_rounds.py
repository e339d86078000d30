"""Follows a classic application from rebalance to rebalance until every task is where it belongs.

After each assignment, the members own their active tasks and restore state (`state_restores`), and the next rebalance
follows at once or after the probing interval, as `StreamsPartitionAssignor` asks for. No member joins or leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from spark_assign.assignors.streams.classic_application import ClassicApplication, ClassicMember, member_key
from spark_assign.assignors.streams.member_tasks import AT_ONCE, PROBING, MemberTasks
from spark_assign.assignors.streams.streams_partition_assignor import ClassicAssignment, plan_application
from spark_assign.assignors.streams.task_assignor_api import TaskId
from spark_assign.streams.kernel.state_restores import Growth, StateRestores

MAX_ROUNDS = 200
"""Maximum number of rebalances that are followed."""


@dataclass(frozen=True)
class Round:
    """A rebalance.

    Attributes:
        start: Seconds since the first one.
        cause: `AT_ONCE` or `PROBING`; empty for the first one.
        assignment: What the leader assigns.
        moved: Number of active tasks with another member than before.
        stopped: Number of active tasks that the member must restore first.
        missing: Bytes that are left to restore.
    """

    start: float
    cause: str
    assignment: ClassicAssignment
    moved: int
    stopped: int
    missing: float


class ClassicRounds:
    """The rebalances of an application.

    They end when no member asks for another one, and also if all that is left to do is to restore warmups that never
    catch up.

    Args:
        application: the application before the first rebalance.
        sizes: bytes of the changelogs of every stateful task.
        bytes_per_second: what a process restores per second.
        growth: what tasks write to their changelogs; by default nothing.

    Attributes:
        state: What processes have on disk, and restore.
    """

    def __init__(
        self,
        application: ClassicApplication,
        sizes: Mapping[TaskId, float],
        bytes_per_second: float,
        growth: Mapping[TaskId, Growth] = MappingProxyType({}),
    ) -> None:
        self._application = application
        self.state = StateRestores(application, sizes, bytes_per_second, growth)
        self._process = {member.member_id: member.process_id for member in application.members}
        owners = {partition: member.member_id for member in application.members for partition in member.owned}
        self._owner = {
            task: owners[partition]
            for task in application.tasks
            for partition in application.source_partitions(task)
            if partition in owners
        }

    def run(self, *, until_probing: bool = False) -> Iterator[Round]:
        """Yields the rebalances, at most `MAX_ROUNDS`; then `state` is final.

        Args:
            until_probing: whether to yield only those before the first probing rebalance.
        """
        cause, application, state = "", self._application, self.state
        before: Mapping[str, MemberTasks] = {}
        for _ in range(MAX_ROUNDS):
            assignment = plan_application(application)
            members = assignment.members
            owner = {task: name for name, tasks in members.items() for task in tasks.active}
            moved = sum(self._owner.get(task, name) != name for task, name in owner.items())
            self._owner |= owner
            state.assign(members, self._process)
            yield Round(state.now, cause, assignment, moved, state.num_stopped, state.missing)
            rejoins = {tasks.rejoin for tasks in members.values()}
            cause = AT_ONCE if AT_ONCE in rejoins else PROBING if PROBING in rejoins else ""
            is_last = until_probing and cause == PROBING
            is_last |= members == before and not state.is_restoring and state.num_behind > 0
            if not cause or application.end_offsets is None or is_last:
                break
            interval = 0.0 if cause == AT_ONCE else application.config.probing_rebalance_interval_ms / 1000
            state.advance(state.now + interval)
            application, before = state.application_now(self.reports(members)), members
        state.advance(float("inf"))

    def reports(self, assigned: Mapping[str, MemberTasks], *, keeps_disks: bool = True) -> list[ClassicMember]:
        """Returns the members with what they report at the next rebalance; without `keeps_disks`, processes have
        deleted the state of tasks that they don't have (`state.cleanup.delay.ms`)."""
        members = self._application.members
        first: dict[str, str] = {}
        hosted: dict[str, set[TaskId]] = {}
        for member in sorted(members, key=member_key):
            first.setdefault(member.process_id, member.member_id)
            tasks = assigned[member.member_id]
            hosted.setdefault(member.process_id, set()).update(tasks.active, tasks.standby)
        return [
            replace(
                member,
                offset_sums=self.state.report(
                    member.process_id,
                    assigned[member.member_id],
                    hosted[member.process_id] if keeps_disks and first[member.process_id] == member.member_id else None,
                ),
                owned=[
                    partition
                    for task in sorted(assigned[member.member_id].active)
                    for partition in self._application.source_partitions(task)
                ],
            )
            for member in members
        ]


def settle(application: ClassicApplication) -> ClassicApplication | None:
    """Returns an application once every task is at its final owner, all state is restored, and no other state is on
    disk; None if that takes more than `MAX_ROUNDS` rebalances, or if end offsets can't be read.

    The final owners don't depend on the number of warmups (`max.warmup.replicas`), so that all tasks move at once.
    """
    config = replace(application.config, max_warmup_replicas=len(application.stateful))
    sizes = dict.fromkeys(application.stateful, 1.0)
    rounds = ClassicRounds(replace(application, config=config), sizes, bytes_per_second=1e9)
    *_, last = rounds.run()
    if not last.assignment.is_stable:
        return None
    return replace(application, members=rounds.reports(last.assignment.members, keeps_disks=False))
