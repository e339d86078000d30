"""Kafka's `StickyTaskAssignor`: `streams-sticky`, the broker's assignor of Streams groups (KIP-1071).

A *task* processes the partitions with its number of a subtopology's topics. One member runs it (*active*); a task with
state has `num.standby.replicas` copies on other members (*standby*). A *process* is an instance of the application;
its members are its threads, and share its disk.

Principles, in order of priority
    1. A process has a task only once: a standby in the process of the active task would fail together with it.
    2. Stickiness: a task stays with the member that runs it; otherwise it goes to a member that has its state.
    3. Balance: members observe the quotas below; new tasks go to the process with the fewest tasks per member.
Stickiness takes precedence up to a quota, balance above it. Racks and tags of members have no effect.

There are two quotas, one for active tasks and one for all tasks: the remaining tasks per remaining member, rounded up.
A member whose number of tasks *equals* a quota no longer counts for it, nor do its tasks; the quota of the remaining
members can decrease.

Example: tasks 0 to 3 have state, one standby each; C0 and C1 are processes of one member
    C0: active [0, 1, 2, 3], C1: none       4 active tasks, 2 per member; 8 in all, 4 per member
    1. keep active tasks                    C0: active [0, 1], which is its quota
    3. remaining active tasks, by load      C1: active [2, 3]
    4. standbys on previous active members  3 and 2, which C0 no longer has: C0: standby [2, 3]; its quota is reached
    5. remaining standbys, by load          1 and 0 to C1, the only process that doesn't have them
    C0: active [0, 1], standby [2, 3]       C1: active [2, 3], standby [0, 1]

Ties: between equal loads, the binary heap of `java.util.PriorityQueue` decides (`java.priority_queue`), and so does the
order in which it is filled: that of the `HashMap` of processes, and of members in a process
(`streams_group_input.process_hash_order`).

`streams-sticky@4.3` is the class of 4.2.0, 4.2.1 and 4.3, which differs in three points: which members have state of a
task (`_state_owners`), which of them can keep a standby (`_without_task`), and how the map of processes is filled
(`streams_group_input.process_order`). The class of 4.2.2 has only the second point of 4.4 (KAFKA-20899), which 4.3.0
and 4.3.1 lack.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from spark_assign.java.priority_queue import Heap
from spark_assign.streams.kernel.task_assignor_api import StreamsGroupAssignment, StreamsGroupSpec, TaskId

STICKY = "streams-sticky"
RELEASES = {STICKY: "4.4", f"{STICKY}@4.3": "4.3", f"{STICKY}@4.2.2": "4.2.2"}
"""Name of each assignor to its release; 4.3 stands for 4.2.0, 4.2.1, and 4.3."""


def assign_tasks(group: StreamsGroupSpec, *, release: str = "4.4") -> StreamsGroupAssignment:
    """Returns the target assignment of a group; it is empty for a group without members.

    Args:
        group: the group, with the current assignment.
        release: the release whose class is followed, a value of `RELEASES`.
    """
    if not group.members:
        return StreamsGroupAssignment()
    assignment = _TaskAssignment(group, release)
    remaining = assignment.keep_active_tasks(sorted(group.tasks(), key=_by_number))
    remaining = assignment.assign_active_to_state_owners(remaining)
    assignment.assign_remaining_active(sorted(remaining))
    if group.standby_replicas > 0:
        missing_standbys = assignment.keep_standby_tasks(
            sorted(group.tasks(stateful=True), key=_by_number, reverse=True)
        )
        assignment.assign_remaining_standbys(sorted(missing_standbys, reverse=True))
    return assignment.target


def _by_number(task: TaskId) -> tuple[int, int]:
    """Sort key: tasks with the same number process partitions with the same number, and belong together."""
    subtopology, number = task
    return number, subtopology


class _TaskAssignment:
    """The assignment of one group in progress."""

    def __init__(self, group: StreamsGroupSpec, release: str) -> None:
        members, tasks = len(group.members), len(group.tasks())
        copies = group.standby_replicas * len(group.tasks(stateful=True))
        self.target = StreamsGroupAssignment()
        self._replicas, self._release = group.standby_replicas, release
        by_name = {process: Process(members) for process, members in group.process_hash_order}
        self._processes = list(by_name.values())
        self._process = [by_name[member.process_id] for member in group.members]
        self._active_quota, self._quota = Quota(tasks, members), Quota(tasks + copies, members)
        # If two members still have an active task, the last one counts.
        self._previous_active = {task: at for at, member in enumerate(group.members) for task in member.active}
        self._state_owners = _state_owners(group, knows_offsets=release == "4.4")

    # --- active tasks ---------------------------------------------------------------------------------------------

    def keep_active_tasks(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        """Step 1: keeps tasks on the member that runs them, up to the quota; returns the remaining tasks."""
        return [task for task in tasks if not self._assign_active(self._previous_active.get(task), task)]

    def assign_active_to_state_owners(self, tasks: Iterable[TaskId]) -> list[TaskId]:
        """Step 2: assigns tasks to the least loaded member with their state; returns the remaining tasks."""
        return [
            task
            for task in tasks
            if not self._assign_active(self._least_loaded(self._state_owners.get(task, ())), task)
        ]

    def assign_remaining_active(self, tasks: Iterable[TaskId]) -> None:
        """Step 3: assigns each remaining task to the least loaded member of the least loaded process."""
        heap = self._heap_by_load()
        for task in tasks:
            process = heap.poll()
            self._add_active(*process.assign_least_loaded(task), task)
            heap.add(process.load, process)

    def _assign_active(self, member: int | None, task: TaskId) -> bool:
        if member is None or self._count(member) >= self._active_quota.per_member:
            return False
        self._add_active(member, self._process[member].assign(member, task), task)
        return True

    def _add_active(self, member: int, num_tasks: int, task: TaskId) -> None:
        self.target.active[task] = member
        self._active_quota.count(num_tasks)
        self._quota.count(num_tasks)

    # --- standbys -------------------------------------------------------------------------------------------------

    def keep_standby_tasks(self, tasks: Iterable[TaskId]) -> list[tuple[TaskId, int]]:
        """Step 4: assigns standbys to the previous active member, or a member with the task's state, up to the quota.

        Returns:
            Tasks that lack standbys, and the number that each lacks.
        """
        missing_standbys = []
        for task in tasks:
            num_missing = self._replicas
            while num_missing and self._assign_standby(task):
                num_missing -= 1
            if num_missing:
                missing_standbys.append((task, num_missing))
        return missing_standbys

    def assign_remaining_standbys(self, missing_standbys: Iterable[tuple[TaskId, int]]) -> None:
        """Step 5: assigns each remaining standby to the least loaded process without the task, if there is one."""
        heap = self._heap_by_load()
        for task, num_missing in missing_standbys:
            for missing in range(num_missing, 0, -1):
                polled = [heap.poll()]
                while task in polled[-1].tasks and len(heap):
                    polled.append(heap.poll())
                is_free = task not in polled[-1].tasks
                if is_free:
                    self._add_standby(*polled[-1].assign_least_loaded(task), task)
                for process in reversed(polled):
                    heap.add(process.load, process)
                if not is_free:
                    self.target.unassigned[task] = missing
                    break

    def _assign_standby(self, task: TaskId) -> bool:
        member = self._previous_active.get(task)
        if member is None or self._has(member, task) or self._count(member) >= self._quota.per_member:
            member = self._least_loaded(self._without_task(task))
            if member is None or self._count(member) >= self._quota.per_member:
                return False
        self._add_standby(member, self._process[member].assign(member, task), task)
        return True

    def _without_task(self, task: TaskId) -> Sequence[int]:
        """Returns the members that have state of the task, but whose process doesn't have the task."""
        members = self._state_owners.get(task, ())
        if self._release == "4.3" and members and self._has(members[0], task):
            return ()  # All members are compared with the first one, and it must qualify.
        return [member for member in members if not self._has(member, task)]

    def _add_standby(self, member: int, num_tasks: int, task: TaskId) -> None:
        self.target.standby.setdefault(task, []).append(member)
        self._quota.count(num_tasks)

    # --- active tasks and standbys --------------------------------------------------------------------------------

    def _heap_by_load(self) -> Heap[Process]:
        """Returns a heap of all processes, filled in the order of the map, which is the only rule for equal loads."""
        return Heap((process.load, process) for process in self._processes)

    def _count(self, member: int) -> int:
        """Returns the number of tasks of a member."""
        return self._process[member].count[member]

    def _has(self, member: int, task: TaskId) -> bool:
        """Checks whether the member's process has the task."""
        return task in self._process[member].tasks

    def _least_loaded(self, members: Sequence[int]) -> int | None:
        """Returns the first member, or a later one if both its process's load and its own task count are lower."""
        best, min_load, min_count = None, math.inf, math.inf
        for member in members:
            load, count = self._process[member].load, self._count(member)
            if load < min_load and count < min_count:
                best, min_load, min_count = member, load, count
        return best


def _state_owners(group: StreamsGroupSpec, *, knows_offsets: bool) -> dict[TaskId, list[int]]:
    """Returns the members that have state of each task: standbys first, then by descending offset.

    Up to 4.3, members report no offsets: members with a standby have state, in the order of the members.
    """
    owners: dict[TaskId, list[tuple[bool, int, int]]] = {}
    for at, member in enumerate(group.members):
        standby, offsets = set(member.standby), member.offsets if knows_offsets else {}
        for task in standby.union(offsets):
            owners.setdefault(task, []).append((task not in standby, -offsets.get(task, 0), at))
    return {task: [at for _, _, at in sorted(ranked)] for task, ranked in owners.items()}


# --- processes and quotas ---------------------------------------------------------------------------------------------


class Process:
    """A process and the tasks of its members so far (Kafka's `ProcessState`)."""

    def __init__(self, members: Sequence[int]) -> None:
        """Creates a process without tasks.

        Args:
            members: the members of the process, in the iteration order of its map.
        """
        self.tasks: set[TaskId] = set()
        self.count = dict.fromkeys(members, 0)
        self._total = 0
        self._by_load: Heap[int] | None = None

    @property
    def load(self) -> float:
        """The number of tasks per member."""
        return self._total / len(self.count)

    def assign(self, member: int, task: TaskId) -> int:
        """Assigns a task to a member; returns its new number of tasks."""
        self._by_load = None  # as in Kafka; a new heap breaks ties in another way
        return self._add(member, task)

    def assign_least_loaded(self, task: TaskId) -> tuple[int, int]:
        """Assigns a task to the member with the fewest tasks; returns the member and its new number of tasks."""
        if len(self.count) == 1:
            member = next(iter(self.count))
            return member, self._add(member, task)
        if self._by_load is None:
            self._by_load = Heap((count, member) for member, count in self.count.items())
        member = self._by_load.poll()
        count = self._add(member, task)
        self._by_load.add(count, member)
        return member, count

    def _add(self, member: int, task: TaskId) -> int:
        self.tasks.add(task)
        self._total += 1
        self.count[member] += 1
        return self.count[member]


class Quota:
    """The number of tasks that a member can have: remaining tasks per remaining member, rounded up."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.per_member = self._compute()

    def count(self, num_tasks: int) -> None:
        """Notes the number of tasks of a member; if it equals the quota, the member and its tasks no longer count."""
        if num_tasks == self.per_member:
            self._members -= 1
            self._tasks -= num_tasks
            self.per_member = self._compute()

    def _compute(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0
