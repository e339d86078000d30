"""What each process and each of its members has got so far (`ProcessState`), and who is to get the next task."""

from __future__ import annotations

from collections.abc import Sequence

from spark_assign.java.priority_queue import Heap
from spark_assign.streams.kernel.task_assignor_api import Group, Task


class Process:
    """A process of a Streams application: its members share a disk, and no two of them need the same task."""

    def __init__(self, members: Sequence[int]) -> None:
        """One that has nothing.

        Args:
            members: in the walk of its map.
        """
        self.tasks: set[Task] = set()
        self.count = dict.fromkeys(members, 0)
        self._total = 0
        self._by_load: Heap[int] | None = None

    @property
    def load(self) -> float:
        """Tasks for each member."""
        return self._total / len(self.count)

    def give(self, member: int, task: Task) -> int:
        """A task for this member; the number of tasks that it then has."""
        self._by_load = None  # as the class does: a new heap has other ties than the old one
        return self._add(member, task)

    def give_least_loaded(self, task: Task) -> tuple[int, int]:
        """A task for the member with fewest; the member, and the number of tasks that it then has."""
        if len(self.count) == 1:
            member = next(iter(self.count))
            return member, self._add(member, task)
        if self._by_load is None:
            self._by_load = Heap((count, member) for member, count in self.count.items())
        member = self._by_load.poll()
        count = self._add(member, task)
        self._by_load.add(count, member)
        return member, count

    def _add(self, member: int, task: Task) -> int:
        self.tasks.add(task)
        self._total += 1
        self.count[member] += 1
        return self.count[member]


class Quota:
    """How many tasks a member may have: what is left to be had, by those who have not had theirs, rounded up."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.each = self._share()

    def count(self, has: int) -> None:
        """A member has so many tasks now; if that is its quota, it and they are out of the reckoning."""
        if has == self.each:
            self._members -= 1
            self._tasks -= has
            self.each = self._share()

    def _share(self) -> int:
        return -(-self._tasks // self._members) if self._members else 0


class Processes:
    """All processes of a group.

    Attributes:
        of: of each member its process.
    """

    def __init__(self, group: Group) -> None:
        """Processes that have nothing."""
        made = {process: Process(members) for process, members in group.walk}
        self._walk = list(made.values())
        self.of = [made[member.process] for member in group.members]

    def by_load(self) -> Heap[Process]:
        """A heap of all, filled in the walk of the map; there is no other rule for equal loads."""
        return Heap((process.load, process) for process in self._walk)

    def count(self, member: int) -> int:
        """How many tasks a member has."""
        return self.of[member].count[member]

    def has(self, member: int, task: Task) -> bool:
        """Whether the member's process has this task."""
        return task in self.of[member].tasks

    def give(self, member: int, task: Task) -> int:
        """A task for this member; the number of tasks that it then has."""
        return self.of[member].give(member, task)
