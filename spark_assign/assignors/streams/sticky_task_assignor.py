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
task (`_state_owners`), which of them can keep a standby (`_owners_by_load`), and how the map of processes is filled
(`streams_group_input.process_order`). The class of 4.2.2 has only the second point of 4.4 (KAFKA-20899), which 4.3.0
and 4.3.1 lack.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Set
from operator import itemgetter

from spark_assign.assignors.streams.task_assignor_api import Steps, StreamsGroupAssignment, StreamsGroupSpec, TaskId
from spark_assign.java.priority_queue import Heap, poll_in_turns
from spark_assign.tables.streams import TASK_ASSIGNORS

STICKY = TASK_ASSIGNORS[0]
RELEASES = dict(zip(TASK_ASSIGNORS, ("4.4", "4.3", "4.2.2"), strict=True))
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
    remaining = assignment.keep_active_tasks(group.tasks())
    remaining = assignment.assign_active_to_state_owners(remaining)
    assignment.assign_remaining_active(sorted(remaining))
    if group.standby_replicas > 0:
        missing_standbys = assignment.keep_standby_tasks(group.tasks(stateful=True))
        assignment.assign_remaining_standbys(missing_standbys)
    return assignment.target


_by_number = itemgetter(1)
"""Sort key: tasks with the same number process partitions with the same number, and belong together.

Tasks that are sorted by subtopology and number stay in the order of subtopologies.
"""


class _TaskAssignment:
    """The assignment of one group in progress."""

    def __init__(self, group: StreamsGroupSpec, release: str) -> None:
        members, tasks = len(group.members), sum(group.partitions)
        stateful_tasks = sum(num for num, stateful in zip(group.partitions, group.stateful, strict=True) if stateful)
        self.target = StreamsGroupAssignment()
        self._replicas, self._release, self._steps = group.standby_replicas, release, Steps()
        self._count = [0] * members  # of tasks
        by_name = {process: Process(members, self._count) for process, members in group.process_hash_order}
        self._processes = list(by_name.values())
        self._has_equal_processes = len({len(process.members) for process in self._processes}) == 1
        self._process = [by_name[member.process_id] for member in group.members]
        self._active_quota = Quota(tasks, members)
        self._quota = Quota(tasks + group.standby_replicas * stateful_tasks, members)
        # If two members still have an active task, the last one counts.
        self._previous_active = {task: at for at, member in enumerate(group.members) for task in member.active}
        self._state_owners = _state_owners(group, knows_offsets=release == "4.4")

    # --- active tasks ---------------------------------------------------------------------------------------------

    def keep_active_tasks(self, tasks: Sequence[TaskId]) -> Sequence[TaskId]:
        """Step 1: keeps tasks on the member that runs them, up to the quota; returns the remaining tasks."""
        if not self._previous_active:
            return tasks
        active, count, quotas, remaining = self.target.active, self._count, self._quotas(), list[TaskId]()
        for task in sorted(tasks, key=_by_number):
            member = self._previous_active.get(task)
            if member is None or (num_tasks := count[member]) >= quotas[0]:
                remaining.append(task)
                continue
            active[task] = member
            count[member] = num_tasks = num_tasks + 1
            if num_tasks in quotas:
                self._active_quota.count(num_tasks)
                self._quota.count(num_tasks)
                quotas = self._quotas()
        for process in self._processes:
            process.num_tasks = sum([count[member] for member in process.members])
        return remaining

    def _quotas(self) -> tuple[int, int]:
        return self._active_quota.per_member, self._quota.per_member

    def assign_active_to_state_owners(self, tasks: Sequence[TaskId]) -> Sequence[TaskId]:
        """Step 2: assigns tasks to the least loaded member with their state; returns the remaining tasks."""
        if not self._state_owners:
            return tasks
        remaining = []
        for task in sorted(tasks, key=_by_number):
            member = self._least_loaded(self._state_owners.get(task, ()))
            if member is None or self._count[member] >= self._active_quota.per_member:
                remaining.append(task)
            else:
                self._add_active(member, task)
        return remaining

    def assign_remaining_active(self, tasks: Sequence[TaskId]) -> None:
        """Step 3: assigns each remaining task to the least loaded member of the least loaded process."""
        if self._has_equal_processes and tasks:
            # Kafka polls a process, assigns a task, and adds the process again: processes take turns.
            turns = poll_in_turns([process.num_tasks for process in self._processes], self._processes)
            for task, process in zip(tasks, turns, strict=False):
                self._add_active(process.next_member(), task)
            return
        heap = self._heap_by_load()
        for task in tasks:
            process = heap.poll()
            self._add_active(process.next_member(), task)
            heap.add(self._load(process), process)

    def _add_active(self, member: int, task: TaskId) -> None:
        self.target.active[task] = member
        num_tasks = self._add(member)
        if num_tasks == self._active_quota.per_member:
            self._active_quota.count(num_tasks)

    # --- standbys -------------------------------------------------------------------------------------------------

    def keep_standby_tasks(self, tasks: Sequence[TaskId]) -> list[tuple[TaskId, int]]:
        """Step 4: assigns standbys to the previous active member, or a member with the task's state, up to the quota.

        Returns:
            Tasks that lack standbys, and the number that each lacks, in descending order.
        """
        if not self._previous_active and not self._state_owners:
            return [(task, self._replicas) for task in reversed(tasks)]
        process_of, count, quota, missing_standbys = self._process, self._count, self._quota, []
        for task in sorted(tasks, key=_by_number)[::-1]:
            previous, num_missing, processes = (
                self._previous_active.get(task),
                self._replicas,
                self._processes_with(task),
            )
            owners = self._owners_by_load(self._state_owners.get(task, ()), processes)
            while num_missing:
                member = previous
                if member is None or process_of[member] in processes or count[member] >= quota.per_member:
                    member = next(owners, None)
                    if member is None or count[member] >= quota.per_member:
                        break
                self._add_standby(member, task)
                processes.add(process_of[member])
                process_of[member].turns = None  # as in Kafka; a new heap of members breaks ties in another way
                num_missing -= 1
            if num_missing:
                missing_standbys.append((task, num_missing))
        return sorted(missing_standbys, reverse=True)

    def assign_remaining_standbys(self, missing_standbys: Iterable[tuple[TaskId, int]]) -> None:
        """Step 5: assigns each remaining standby to the least loaded process without the task, if there is one."""
        heap = self._heap_by_load()
        for task, num_missing in missing_standbys:
            processes = self._processes_with(task)
            for missing in range(num_missing, 0, -1):
                polled = [heap.poll()]
                while polled[-1] in processes and len(heap):
                    polled.append(heap.poll())
                self._steps.count(2 * len(polled))
                is_free = polled[-1] not in processes
                if is_free:
                    processes.add(polled[-1])
                    self._add_standby(polled[-1].next_member(), task)
                for process in reversed(polled):
                    heap.add(self._load(process), process)
                if not is_free:
                    self.target.unassigned[task] = missing
                    break

    def _owners_by_load(self, owners: Sequence[int], processes: Set[Process]) -> Iterator[int]:
        """Yields the least loaded member with state of a task in a process outside `processes`, while there is one.

        The caller adds the process of each member to `processes`; the loads of the others must not change.
        """
        process_of = self._process

        def qualifies(member: int) -> bool:
            if self._release == "4.3" and process_of[owners[0]] in processes:
                return False  # All members are compared with the first one, and it must qualify.
            return process_of[member] not in processes

        if all(len(process_of[member].members) == 1 for member in owners):  # its load is the member's number of tasks
            yield from filter(qualifies, sorted(owners, key=self._count.__getitem__))
            return
        remaining = owners
        while (member := self._least_loaded(remaining := list(filter(qualifies, remaining)))) is not None:
            self._steps.count(len(remaining))
            yield member

    def _add_standby(self, member: int, task: TaskId) -> None:
        self.target.standby.setdefault(task, []).append(member)
        self._add(member)

    # --- active tasks and standbys --------------------------------------------------------------------------------

    def _heap_by_load(self) -> Heap[Process]:
        """Returns a heap of all processes, filled in the order of the map, which is the only rule for equal loads."""
        return Heap((self._load(process), process) for process in self._processes)

    def _load(self, process: Process) -> float:
        """Returns the number of tasks per member, or the number of tasks if all processes have as many members."""
        return process.num_tasks if self._has_equal_processes else process.load

    def _processes_with(self, task: TaskId) -> set[Process]:
        """Returns the processes that have the task, of which one has the active task."""
        members = (self.target.active[task], *self.target.standby.get(task, ()))
        return {self._process[member] for member in members}

    def _add(self, member: int) -> int:
        """Counts one more task of a member; returns their number."""
        self._process[member].num_tasks += 1
        self._count[member] = num_tasks = self._count[member] + 1
        if num_tasks == self._quota.per_member:
            self._quota.count(num_tasks)
        return num_tasks

    def _least_loaded(self, members: Sequence[int]) -> int | None:
        """Returns the first member, or a later one if both its process's load and its own task count are lower."""
        if len(members) < 2:
            return members[0] if members else None
        best, min_load, min_count = None, math.inf, math.inf
        for member in members:
            load, count = self._process[member].load, self._count[member]
            if load < min_load and count < min_count:
                best, min_load, min_count = member, load, count
        return best


def _state_owners(group: StreamsGroupSpec, *, knows_offsets: bool) -> dict[TaskId, list[int]]:
    """Returns the members that have state of each task: standbys first, then by descending offset.

    Up to 4.3, members report no offsets: members with a standby have state, in the order of the members.
    """
    owners: dict[TaskId, list[int]] = {}
    ranks: dict[tuple[TaskId, int], tuple[bool, int]] = {}
    for at, member in enumerate(group.members):
        offsets = member.offsets if knows_offsets else {}
        if not member.standby and not offsets:
            continue
        standby = set(member.standby)
        for task in standby.union(offsets):
            owners.setdefault(task, []).append(at)
        for task, offset in offsets.items():
            ranks[task, at] = task not in standby, -offset
    if ranks:
        for task, members in owners.items():
            members.sort(key=lambda at, task=task: ranks.get((task, at), (False, 0)))  # type: ignore[misc]
    return owners


# --- processes and quotas ---------------------------------------------------------------------------------------------


class Process:
    """A process and the number of tasks of its members so far (Kafka's `ProcessState`)."""

    def __init__(self, members: Sequence[int], count: Sequence[int]) -> None:
        """Creates a process without tasks.

        Args:
            members: the members of the process, in the iteration order of its map.
            count: the number of tasks of each member of the group.
        """
        self.members, self.num_tasks = members, 0
        self.turns: Iterator[int] | None = None
        """Members in the order in which Kafka's heap returns them; None: the next call creates the heap."""
        self._count = count

    @property
    def load(self) -> float:
        """The number of tasks per member."""
        return self.num_tasks / len(self.members)

    def next_member(self) -> int:
        """Returns the member with the fewest tasks, which must get a task before the next call."""
        if len(self.members) == 1:
            return self.members[0]
        if self.turns is None:
            self.turns = poll_in_turns([self._count[member] for member in self.members], self.members)
        return next(self.turns)


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
