"""`streams-sticky`: the broker's assignor of Streams groups (KIP-1071), Kafka's `StickyTaskAssignor`.

A *task* is a part of a subtopology, and reads the partitions of its number. One member runs it (*active*); a task with
state is copied by as many others as `num.standby.replicas` says (*standby*). A *process* is an instance of the
application; its members are its threads, and share its disk.

Principles, by priority
    1. A process has a task once: a standby beside its active task would die with it.
    2. Stickiness: a task stays with who runs it, else goes to who has its state.
    3. Balance: by the quotas below, and for what is new by load, tasks for each member of a process.
Stickiness comes first up to a quota, balance from there on. Racks and tags of members count for nothing.

Two quotas, one for active tasks and one for all, are what is left to be had by each member, rounded up. A member
whose number of tasks *equals* a quota leaves it together with its tasks, so that the quota of the others may fall.

Example: tasks 0 to 3 have state, one standby each; C0 and C1 are processes of one member
    C0: active [0, 1, 2, 3], C1: nothing    4 active tasks, 2 for each; 8 in all, 4 for each
    1. to whoever runs it                   C0: active [0, 1], which is its quota
    3. the others, by load                  C1: active [2, 3]
    4. standbys to who ran the task         3 and 2, as C0 does not have them: C0: standby [2, 3]; its quota is reached
    5. the others, by load                  1 and 0 to C1, the only process that does not have them
    C0: active [0, 1], standby [2, 3]       C1: active [2, 3], standby [0, 1]

Ties. Where loads are equal, the binary heap of `java.util.PriorityQueue` decides (`java.priority_queue`), and so the
order in which it is filled: that of the `HashMap` of processes, and of members in a process (`hash_order`).

`streams-sticky@4.3` is the same class as it was in 4.2 and 4.3, with three differences, named where they stand: who has
state of a task (`_keeps`), who of them may keep a standby (`_without`), and how the map of processes is filled
(`hash_order`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from spark_assign.streams.kernel.process_state import Processes, Quota
from spark_assign.streams.kernel.task_assignor_api import Group, Target, Task

STICKY, STICKY_4_3 = "streams-sticky", "streams-sticky@4.3"
"""The class of 4.4, and as it was in 4.2 and 4.3."""


def assign_tasks(group: Group, *, release_4_3: bool = False) -> Target:
    """What every member is to have; nothing is made of a group without members.

    Args:
        group: members, topology, and what members have reached.
        release_4_3: as the class was in 4.2 and 4.3.
    """
    if not group.members:
        return Target()
    assigning = _Assigning(group, release_4_3)
    waiting = assigning.keep_active(sorted(group.tasks(), key=_by_number))
    waiting = assigning.wake_standbys(waiting)
    assigning.deal_active(sorted(waiting))
    if group.standby_replicas > 0:
        lacking = assigning.keep_standbys(sorted(group.tasks(stateful=True), key=_by_number, reverse=True))
        assigning.deal_standbys(sorted(lacking, reverse=True))
    return assigning.target


def _by_number(task: Task) -> tuple[int, int]:
    """Equal numbers of different subtopologies read partitions of equal number, and belong together."""
    subtopology, number = task
    return number, subtopology


class _Assigning:
    def __init__(self, group: Group, release_4_3: bool) -> None:
        members, tasks = len(group.members), len(group.tasks())
        copies = group.standby_replicas * len(group.tasks(stateful=True))
        self.target = Target()
        self._replicas, self._release_4_3 = group.standby_replicas, release_4_3
        self._processes = Processes(group)
        self._active_quota, self._quota = Quota(tasks, members), Quota(tasks + copies, members)
        # Of two members that still have a task as active the last one counts.
        self._ran = {task: at for at, member in enumerate(group.members) for task in member.active}
        # Up to 4.3 nobody reports offsets: who has a standby counts, in the order of the members.
        self._keeps = _standbys(group) if release_4_3 else _with_state(group)

    # --- active tasks ---------------------------------------------------------------------------------------------

    def keep_active(self, tasks: Iterable[Task]) -> list[Task]:
        """1. Every task to the member that runs it, up to the quota; answers the others."""
        return [task for task in tasks if not self._give_active(self._ran.get(task), task)]

    def wake_standbys(self, tasks: Iterable[Task]) -> list[Task]:
        """2. To the least loaded of those that have its state, up to the quota; answers the others."""
        return [task for task in tasks if not self._give_active(self._least_loaded(self._keeps.get(task, ())), task)]

    def deal_active(self, tasks: Iterable[Task]) -> None:
        """3. The rest, one after the other, to the least loaded member of the least loaded process."""
        heap = self._processes.by_load()
        for task in tasks:
            process = heap.poll()
            self._run(*process.give_least_loaded(task), task)
            heap.add(process.load, process)

    def _give_active(self, member: int | None, task: Task) -> bool:
        if member is None or self._processes.count(member) >= self._active_quota.each:
            return False
        self._run(member, self._processes.give(member, task), task)
        return True

    def _run(self, member: int, has: int, task: Task) -> None:
        self.target.active[task] = member
        self._active_quota.count(has)
        self._quota.count(has)

    # --- standbys -------------------------------------------------------------------------------------------------

    def keep_standbys(self, tasks: Iterable[Task]) -> list[tuple[Task, int]]:
        """4. To who ran the task, where its process does not have it now, else to who has its state, up to the quota.

        Returns:
            tasks that are still to have standbys, and how many: from the first that finds no place on.
        """
        lacking = []
        for task in tasks:
            wanted = self._replicas
            while wanted and self._give_standby(task):
                wanted -= 1
            if wanted:
                lacking.append((task, wanted))
        return lacking

    def deal_standbys(self, lacking: Iterable[tuple[Task, int]]) -> None:
        """5. The rest to the least loaded member of the least loaded process that does not have the task, if any."""
        heap = self._processes.by_load()
        for task, wanted in lacking:
            for missing in range(wanted, 0, -1):
                polled = [heap.poll()]
                while task in polled[-1].tasks and len(heap):
                    polled.append(heap.poll())
                free = task not in polled[-1].tasks
                if free:
                    self._copy(*polled[-1].give_least_loaded(task), task)
                for process in reversed(polled):
                    heap.add(process.load, process)
                if not free:
                    self.target.unassigned[task] = missing
                    break

    def _give_standby(self, task: Task) -> bool:
        member = self._ran.get(task)
        if member is None or self._processes.has(member, task) or not self._below_quota(member):
            member = self._least_loaded(self._without(task))
            if member is None or not self._below_quota(member):
                return False
        self._copy(member, self._processes.give(member, task), task)
        return True

    def _without(self, task: Task) -> Sequence[int]:
        """Those with its state whose process does not have the task."""
        keep = self._keeps.get(task, ())
        if self._release_4_3 and keep and self._processes.has(keep[0], task):
            return ()  # Up to 4.3 the first one was the yardstick for the others, and there was none without it.
        return [member for member in keep if not self._processes.has(member, task)]

    def _below_quota(self, member: int) -> bool:
        return self._processes.count(member) < self._quota.each

    def _copy(self, member: int, has: int, task: Task) -> None:
        self.target.standby.setdefault(task, []).append(member)
        self._quota.count(has)

    # --- both -----------------------------------------------------------------------------------------------------

    def _least_loaded(self, members: Sequence[int]) -> int | None:
        """The first, or a later one if both its process and it itself have less to do than the one before."""
        best, least, fewest = None, math.inf, math.inf
        for member in members:
            load, count = self._processes.of[member].load, self._processes.count(member)
            if load < least and count < fewest:
                best, least, fewest = member, load, count
        return best


def _standbys(group: Group) -> dict[Task, list[int]]:
    """Of each task the members that have it as standby, in their order."""
    found: dict[Task, list[int]] = {}
    for at, member in enumerate(group.members):
        for task in member.standby:
            found.setdefault(task, []).append(at)
    return found


def _with_state(group: Group) -> dict[Task, list[int]]:
    """Of each task the members that have state of it: standbys before others, then by offset, the highest first."""
    found: dict[Task, list[tuple[bool, int, int]]] = {}
    for at, member in enumerate(group.members):
        standby = set(member.standby)
        for task in standby.union(member.offsets):
            found.setdefault(task, []).append((task not in standby, -member.offsets.get(task, 0), at))
    return {task: [at for _, _, at in sorted(ranked)] for task, ranked in found.items()}
