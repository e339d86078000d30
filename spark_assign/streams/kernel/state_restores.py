"""The state that processes of a classic application have on disk over time, and what they restore.

A process restores `bytes_per_second`, active tasks first (`DefaultStateUpdater`), in equal shares. A standby that has
caught up reads what its task writes, which leaves less for the others. A task writes to its changelogs while it runs,
so that the end of a changelog moves away from a standby or warmup that restores it. It doesn't move while the task
itself is restored.

State that no member hosts stays on disk, and the first member of the process reports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from spark_assign.assignors.streams.classic_application import RUNNING, ClassicApplication, ClassicMember
from spark_assign.assignors.streams.member_tasks import MemberTasks
from spark_assign.assignors.streams.task_assignor_api import TaskId
from spark_assign.numeric.arrays import FloatArray, values_by_key

_Copy = tuple[str, TaskId]
"""A process and a task of which it has state."""
_ROUNDING = 1e-9
"""Share of a task's state of which less is no missing state, but a rounding error."""


class Growth(NamedTuple):
    """What a running task writes to its changelogs per second."""

    bytes_per_second: float
    records_per_second: float


NO_GROWTH = Growth(0.0, 0.0)


@dataclass
class Restore:
    """State that a process restores.

    Attributes:
        process_id, member_id: Process, and the member that has the task first.
        task, role: Task, and the role at the start.
        bytes: Size of what is missing at the start.
        start: Seconds since the start of the simulation or of the first rebalance.
        end: Time at which it is restored; None if the process loses the task before, or if it never catches up.
        missing, restored: Bytes that are missing now, and that were restored so far.
    """

    process_id: str
    member_id: str
    task: TaskId
    role: str
    bytes: float
    start: float
    end: float | None = None
    missing: float = field(default=0.0)
    restored: float = field(default=0.0)


class StateRestores:
    """The state of an application.

    Args:
        application: the application at time 0, with what its members report.
        sizes: bytes of the changelogs of every stateful task.
        bytes_per_second: what a process restores per second.
        growth: what tasks write while they run; by default nothing.

    Attributes:
        now: Time, in seconds.
        restores: What processes restore.
        stopped_seconds: Time for which tasks have no member or are restored before they run, summed over tasks.
    """

    def __init__(
        self,
        application: ClassicApplication,
        sizes: Mapping[TaskId, float],
        bytes_per_second: float,
        growth: Mapping[TaskId, Growth] = MappingProxyType({}),
    ) -> None:
        self._sizes, self._rate, self._growth = sizes, bytes_per_second, growth
        self._application, self._ends = application, application.end_offset_sums
        self.now = self.stopped_seconds = 0.0
        self.restores: list[Restore] = []
        self._open: dict[_Copy, Restore] = {}
        self._caught_up: dict[str, dict[TaskId, str]] = {}
        """Role of each task of a process that lacks nothing."""
        self._running_since: dict[TaskId, float] = {}
        self._past_seconds: dict[TaskId, float] = {}
        """Seconds for which a task ran before its last start."""
        self._num_without_member = 0
        self._position: dict[str, dict[TaskId, float]] = {}
        """Bytes of each task that a process has on disk, if nothing is written or restored there now."""
        for member in application.members:
            for task, offset in member.offset_sums.items():
                if task in sizes and task in self._ends:
                    end, held = self._ends[task], self._position.setdefault(member.process_id, {})
                    share = 1.0 if offset == RUNNING or end <= 0 else min(max(offset, 0) / end, 1.0)
                    held[task] = max(share * sizes[task], held.get(task, 0.0))

    # --- the present --------------------------------------------------------------------------------------------------

    @property
    def is_restoring(self) -> bool:
        """Whether a process restores an active task, or a standby faster than it grows."""
        return any(restore.role == "active" for restore in self._open.values()) or any(
            self._speed_left(process, self.now) / len(keys) > min(self._growth_now(key[1], self.now) for key in keys)
            for process, keys in values_by_key((key[0], key) for key in self._open).items()
        )

    @property
    def missing(self) -> float:
        """Bytes that are left to restore."""
        return sum(restore.missing for restore in self._open.values())

    @property
    def num_stopped(self) -> int:
        """Number of active tasks that are restored before they run."""
        return sum(restore.role == "active" for restore in self._open.values())

    @property
    def num_behind(self) -> int:
        """Number of standbys and warmups that haven't caught up."""
        return len(self._open) - self.num_stopped

    def has_state(self, process_id: str, task: TaskId) -> bool:
        """Checks whether a process has state of a task."""
        key = process_id, task
        is_open = key in self._open and self._open[key].missing < self._end(task, self.now)
        return is_open or any(task in of.get(process_id, {}) for of in (self._caught_up, self._position))

    def report(self, process_id: str, tasks: MemberTasks, others: Set[TaskId] | None) -> dict[TaskId, int]:
        """Returns the sum of the offsets of each task that a member reports when it joins.

        Args:
            process_id: its process.
            tasks: what it has.
            others: tasks of the other members of its process, if it also reports state that no member hosts.
        """
        result: dict[TaskId, int] = {}
        lacking = {
            task: self._open[process_id, task].missing
            for task in tasks.active | tasks.standby
            if (process_id, task) in self._open
        }
        for task in sorted((tasks.active | tasks.standby) & self._sizes.keys()):
            is_running = task in tasks.active and task not in lacking
            result[task] = RUNNING if is_running else self._offset(task, lacking.get(task, 0.0))
        if others is not None:
            for task, position in sorted(self._position.get(process_id, {}).items()):
                if task not in result and task not in others:
                    result[task] = self._offset(task, self._end(task, self.now) - position)
        return result

    def _offset(self, task: TaskId, missing: float) -> int:
        """Returns the offset of a copy that lacks these bytes."""
        end = self._ends[task] + self._records(task)
        return (
            end
            if self._is_whole(task, missing, self.now)
            else min(int((1 - missing / self._end(task, self.now)) * end), end)
        )

    def _records(self, task: TaskId) -> int:
        """Returns the number of records that a task has written to its changelogs so far."""
        growth = self._growth.get(task, NO_GROWTH).records_per_second
        return int(growth * self._seconds(task, self.now)) if growth else 0

    def application_now(self, members: Sequence[ClassicMember]) -> ClassicApplication:
        """Returns the application with these members, and with the end offsets of now."""
        application, ends = self._application, self._application.end_offsets
        if not self._growth or ends is None:
            return replace(application, members=members)
        grown = {topic: list(of) for topic, of in ends.items()}
        for task in self._growth:
            known = [topic for topic in application.subtopologies[task[0]].changelogs if topic in grown]
            if known:  # only the sum of a task's end offsets matters
                grown[known[0]][task[1]] += self._records(task)
        return replace(application, members=members, end_offsets=grown)

    # --- time ---------------------------------------------------------------------------------------------------------

    def assign(self, members: Mapping[str, MemberTasks], process: Mapping[str, str]) -> None:
        """Starts to restore what the running members lack, and drops what they no longer have.

        Args:
            members: tasks of the members that run, by ID.
            process: their processes.
        """
        assigned: dict[_Copy, tuple[str, str]] = {}
        for member_id, tasks in members.items():
            for role, of in (("standby", tasks.standby), ("active", tasks.active)):
                assigned |= {(process[member_id], task): (member_id, role) for task in of if task in self._sizes}
        hosted = self._open.keys() | {(of, task) for of, tasks in self._caught_up.items() for task in tasks}
        for key in hosted - assigned.keys():
            missing = self._open.pop(key).missing if key in self._open else 0.0
            self._caught_up.get(key[0], {}).pop(key[1], None)
            self._position.setdefault(key[0], {})[key[1]] = self._end(key[1], self.now) - missing
        for key, (member_id, role) in sorted(assigned.items()):
            if key in self._open:
                self._open[key].role = role
                continue
            held = self._position.get(key[0], {}).pop(key[1], 0.0)
            missing = 0.0 if key in hosted else self._end(key[1], self.now) - held
            if self._is_whole(key[1], missing, self.now):
                self._caught_up.setdefault(key[0], {})[key[1]] = role
            else:
                self._open[key] = Restore(key[0], member_id, key[1], role, missing, self.now, missing=missing)
                self.restores.append(self._open[key])
        active = {task: process[member_id] for member_id, tasks in members.items() for task in tasks.active}
        running = {task for task, process_id in active.items() if (process_id, task) not in self._open}
        for task in self._running_since.keys() - running:
            self._past_seconds[task] = self._seconds(task, self.now)
            del self._running_since[task]
        self._running_since |= dict.fromkeys(running - self._running_since.keys(), self.now)
        self._num_without_member = len(self._application.tasks) - len(active)

    def advance(self, until: float) -> None:
        """Restores what is possible until a time. If that is infinite, until nothing more can be restored."""
        if until <= self.now:
            return
        if self._num_without_member and until < inf:
            self.stopped_seconds += self._num_without_member * (until - self.now)
        by_process = values_by_key((key[0], key) for key in self._open)
        starts = {process: self._restore_active(keys, until) for process, keys in by_process.items()}
        for process, keys in by_process.items():  # now it is known when tasks start to run, and so to write
            self._catch_up(process, [key for key in keys if key in self._open], starts[process], until)
        self.now = until

    def _restore_active(self, keys: Iterable[_Copy], until: float) -> float:
        """Restores the active tasks of a process. Returns the time at which none is left, or `until`."""
        return self._restore_in_shares([key for key in keys if self._open[key].role == "active"], self.now, until)

    def _restore_in_shares(self, keys: Sequence[_Copy], now: float, until: float) -> float:
        """Restores tasks of a process that have one role, from a time on, while their changelogs don't grow. All have
        read the same whenever one is restored, so their order is known. Returns as `_restore_active`."""
        lacked = {key: self._open[key].missing for key in keys}
        # One that lacks no more than a rounding error is restored, so the next one isn't always the smallest one.
        left = sorted(keys, key=lambda key: max(0.0, _ROUNDING * self._end(key[1], now)) - lacked[key])
        read: float = 0
        for smallest in sorted(keys, key=lacked.__getitem__):
            if smallest not in self._open or not now < until:
                continue
            each = self._rate / len(left)
            took = (lacked[smallest] - read) / each
            is_restored = took <= until - now
            took = took if is_restored else until - now
            now, read = now + took, lacked[smallest] if is_restored else read + took * each
            if self._open[smallest].role == "active":
                self.stopped_seconds += took * len(left)
            while left and self._is_whole(left[-1][1], lacked[left[-1]] - read, now):
                key = left.pop()
                if self._open[key].role == "active":
                    self._running_since.setdefault(key[1], now)
                self._read(key, read, 0.0, now)
        for key in left:
            self._read(key, read, lacked[key] - read, now)
        return now

    @np.errstate(over="ignore", invalid="ignore")
    def _catch_up(self, process: str, left: list[_Copy], now: float, until: float) -> None:
        """Restores the standbys and warmups of a process from a time on at which no active task is left."""
        left = [key for key in left if self._open[key].role != "active"]
        if not self._growth:
            self._restore_in_shares(left, now, until)
            return
        behind = np.array([self._end(key[1], self.now) - self._open[key].missing for key in left])  # positions
        reads = [task for task, role in self._caught_up.get(process, {}).items() if role != "active"]
        columns = [
            (
                self._growth.get(task, NO_GROWTH)[0],
                self._past_seconds.get(task, 0.0),
                self._running_since.get(task, inf),
            )
            for task in (*(task for _, task in left), *reads)
        ]
        growth, past, since = np.array(columns).reshape(-1, 3).T
        size, has_caught_up = np.array([self._sizes[task] for _, task in left]), np.arange(len(growth)) >= len(left)
        at, read = np.arange(len(left)), 0.0  # those that are left, and what each of them has read

        def ends() -> FloatArray:
            bytes_now: FloatArray = size[at] + growth[at] * (past[at] + np.maximum(now - since[at], 0.0))
            return bytes_now

        while len(at):
            missing, grows = ends() - behind[at], np.where(since[at] <= now, growth[at], 0.0)
            others = float(growth[has_caught_up & (since <= now)].sum())
            each, starts = max(self._rate - others, 0.0) / len(at), since[at] - now
            times = np.full(len(at), inf)
            np.divide(missing, each - grows, out=times, where=each > grows)
            took = float(min(times.min(), until - now, starts[starts > 0].min(initial=inf)))
            if not 0 < took < inf:
                break
            now, read = now + took, read + took * each
            behind[at] += took * each
            missing = np.where(times > took, ends() - behind[at], 0.0)
            is_left = ~(missing <= np.maximum(0.0, _ROUNDING * ends()))
            for index in at[~is_left].tolist():
                self._read(left[index], read, 0.0, now)
            has_caught_up[at[~is_left]] = True
            at = at[is_left]
        for index, lacks in zip(at.tolist(), (ends() - behind[at]).tolist(), strict=True):
            self._open[left[index]].restored += read
            self._open[left[index]].missing = lacks

    def _read(self, key: _Copy, size: float, missing: float, now: float) -> None:
        """Adds bytes to what was restored, and closes the restore if none are missing."""
        restore = self._open[key]
        restore.restored += size
        restore.missing = missing
        if self._is_whole(key[1], missing, now):
            restore.missing, restore.end = 0.0, now
            del self._open[key]
            self._caught_up.setdefault(key[0], {})[key[1]] = restore.role

    def _speed_left(self, process: str, now: float) -> float:
        """Returns the bytes per second that standbys which have caught up leave to the others of a process."""
        tasks = self._caught_up.get(process, {}).items() if self._growth else ()
        return max(self._rate - sum(self._growth_now(task, now) for task, role in tasks if role != "active"), 0.0)

    def _growth_now(self, task: TaskId, now: float) -> float:
        is_running = self._running_since.get(task, inf) <= now
        return self._growth.get(task, NO_GROWTH).bytes_per_second if is_running else 0.0

    def _seconds(self, task: TaskId, now: float) -> float:
        """Returns for how long a task has run until a time."""
        return self._past_seconds.get(task, 0.0) + max(now - self._running_since.get(task, now), 0.0)

    def _end(self, task: TaskId, now: float) -> float:
        """Returns the bytes up to the end of a task's changelogs."""
        growth = self._growth.get(task, NO_GROWTH).bytes_per_second
        return self._sizes[task] + growth * self._seconds(task, now) if growth else self._sizes[task]

    def _is_whole(self, task: TaskId, missing: float, now: float) -> bool:
        # In this order, the maximum of 0 and what isn't a number is 0, so that no loop waits for the latter.
        return missing <= max(0.0, _ROUNDING * self._end(task, now))
