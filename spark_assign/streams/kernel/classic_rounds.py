"""Follows a classic application from rebalance to rebalance until every task is where it belongs.

After each assignment, the members own their active tasks and restore state, and the next rebalance follows at once or
after the probing interval, as `StreamsPartitionAssignor` asks for. No member joins or leaves, and end offsets stay.

A process restores `bytes_per_second`, active tasks first (`DefaultStateUpdater`), in equal shares. The state that no
member hosts stays on disk, and the first member of the process reports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from spark_assign.streams.kernel.classic_application import RUNNING, ClassicApplication, member_key
from spark_assign.streams.kernel.member_tasks import AT_ONCE, PROBING, MemberTasks
from spark_assign.streams.kernel.streams_partition_assignor import ClassicAssignment, plan_application
from spark_assign.streams.kernel.task_assignor_api import TaskId

MAX_ROUNDS = 200
"""Maximum number of rebalances that are followed."""


@dataclass
class Restore:
    """State that a process restores.

    Attributes:
        process_id, member_id: Process, and the member that has the task first.
        task, role: Task, and the role at the start.
        bytes: Size of what is missing.
        start: Seconds since the first rebalance.
        end: Seconds until it is restored; None if the process loses the task before.
    """

    process_id: str
    member_id: str
    task: TaskId
    role: str
    bytes: float
    start: float
    end: float | None = None
    missing: float = field(default=0.0)


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

    Args:
        application: the application before the first rebalance.
        sizes: bytes of the changelogs of every stateful task.
        bytes_per_second: what a process restores per second.

    Attributes:
        restores: What processes restore.
        stopped_seconds: Time for which active tasks restore before they run, summed over tasks.
    """

    def __init__(self, application: ClassicApplication, sizes: Mapping[TaskId, float], bytes_per_second: float) -> None:
        self._application, self._sizes, self._rate = application, sizes, bytes_per_second
        self.restores: list[Restore] = []
        self.stopped_seconds = 0.0
        self._open: dict[tuple[str, TaskId], Restore] = {}
        """What is being restored, by process and task."""
        self._process = {member.member_id: member.process_id for member in application.members}
        owners = {partition: member.member_id for member in application.members for partition in member.owned}
        self._owner = {
            task: owners[partition]
            for task in application.tasks
            for partition in application.source_partitions(task)
            if partition in owners
        }
        ends = application.end_offset_sums
        self._share: dict[tuple[str, TaskId], float] = {}
        """Share of a task's state that a process has on disk."""
        for member in application.members:
            for task, offset in member.offset_sums.items():
                if task in ends:
                    is_whole = offset == RUNNING or ends[task] <= 0
                    share = 1.0 if is_whole else min(max(offset, 0) / ends[task], 1.0)
                    key = member.process_id, task
                    self._share[key] = max(share, self._share.get(key, 0.0))

    def run(self, *, until_probing: bool = False) -> Iterator[Round]:
        """Yields the rebalances, at most `MAX_ROUNDS`; then `restores` is complete.

        Args:
            until_probing: whether to yield only those before the first probing rebalance.
        """
        start, cause = 0.0, ""
        application = self._application
        for _ in range(MAX_ROUNDS):
            assignment = plan_application(application)
            owner = {task: name for name, tasks in assignment.members.items() for task in tasks.active}
            moved = sum(self._owner.get(task, name) != name for task, name in owner.items())
            self._owner |= owner
            self._start_restores(assignment.members, start)
            stopped = sum(restore.role == "active" for restore in self._open.values())
            missing = sum(restore.missing for restore in self._open.values())
            yield Round(start, cause, assignment, moved, stopped, missing)
            rejoins = {tasks.rejoin for tasks in assignment.members.values()}
            cause = AT_ONCE if AT_ONCE in rejoins else PROBING if PROBING in rejoins else ""
            if not cause or application.end_offsets is None or (until_probing and cause == PROBING):
                break
            interval = 0.0 if cause == AT_ONCE else application.config.probing_rebalance_interval_ms / 1000
            self._restore(start, interval)
            start += interval
            application = self._next(assignment.members)
        self._restore(start, float("inf"))

    def _start_restores(self, members: Mapping[str, MemberTasks], start: float) -> None:
        """Adds what members must restore, and drops what they no longer have."""
        assigned: dict[tuple[str, TaskId], tuple[str, str]] = {}
        for member_id, tasks in members.items():
            for role, of in (("standby", tasks.standby), ("active", tasks.active)):
                assigned |= {(self._process[member_id], task): (member_id, role) for task in of if task in self._sizes}
        for key in self._open.keys() - assigned.keys():
            self._close(key)
        for key, (member_id, role) in sorted(assigned.items()):
            missing = self._sizes[key[1]] * (1 - self._share.get(key, 0.0))
            if key in self._open:
                self._open[key].role = role
            elif missing > 0:
                self._open[key] = Restore(key[0], member_id, key[1], role, missing, start, missing=missing)
                self.restores.append(self._open[key])
            else:
                self._share[key] = 1.0

    def _close(self, key: tuple[str, TaskId]) -> None:
        restore = self._open.pop(key)
        self._share[key] = 1 - restore.missing / self._sizes[key[1]]

    def _restore(self, start: float, seconds: float) -> None:
        """Restores in each process what is possible in this time."""
        by_process: dict[str, list[tuple[str, TaskId]]] = {}
        for key in self._open:
            by_process.setdefault(key[0], []).append(key)
        for keys in by_process.values():
            now, end = start, start + seconds
            while keys and now < end:
                stopped = [key for key in keys if self._open[key].role == "active"]
                active = stopped or keys
                each = min(self._open[key].missing for key in active)
                took = min(each * len(active) / self._rate, end - now)
                now += took
                self.stopped_seconds += took * len(stopped)
                for key in active:
                    restore = self._open[key]
                    restore.missing -= took * self._rate / len(active)
                    if restore.missing < 0.5:  # bytes
                        restore.missing, restore.end = 0.0, now
                        self._close(key)
                keys = [key for key in keys if key in self._open]

    def _next(self, members: Mapping[str, MemberTasks], *, keeps_disks: bool = True) -> ClassicApplication:
        """Returns the application with what its members report at the next rebalance; without `keeps_disks`, processes
        have deleted the state of tasks that they don't have (`state.cleanup.delay.ms`)."""
        application, ends = self._application, self._application.end_offset_sums
        offsets: dict[str, dict[TaskId, int]] = {member.member_id: {} for member in application.members}
        first: dict[str, str] = {}
        for member in sorted(application.members, key=member_key):
            first.setdefault(member.process_id, member.member_id)
        for key in self._open:
            self._share[key] = 1 - self._open[key].missing / self._sizes[key[1]]
        hosted = set[tuple[str, TaskId]]()
        for member_id, tasks in members.items():
            process = self._process[member_id]
            for task in sorted((tasks.active | tasks.standby) & ends.keys()):
                share = self._share.get((process, task), 0.0)
                is_running = task in tasks.active and (process, task) not in self._open
                offsets[member_id][task] = RUNNING if is_running else _to_offset(share, ends[task])
                hosted.add((process, task))
        for (process, task), share in sorted(self._share.items()):
            if keeps_disks and (process, task) not in hosted and task in ends:
                offsets[first[process]][task] = _to_offset(share, ends[task])
        return replace(
            application,
            members=[
                replace(
                    member,
                    offset_sums=offsets[member.member_id],
                    owned=[
                        partition
                        for task in sorted(members[member.member_id].active)
                        for partition in application.source_partitions(task)
                    ],
                )
                for member in application.members
            ],
        )


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
    return replace(rounds._next(last.assignment.members, keeps_disks=False), config=application.config)


def _to_offset(share: float, end: int) -> int:
    return end if share >= 1 else min(int(share * end), end)
