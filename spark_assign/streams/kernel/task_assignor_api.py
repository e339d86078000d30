"""Input and result of a task assignor: one streams group and its target assignment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Task = tuple[int, int]
"""Index of a subtopology in the order of ids (`String.compareTo`), and the number of one of its tasks."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member and its current tasks.

    Attributes:
        member_id: id of the member.
        process: id of the process that the member belongs to.
        active, standby: current tasks, in any order; they can include tasks that no longer exist.
        offsets: changelog offset of the member's state of each task that it reports.
    """

    member_id: str
    process: str
    active: Sequence[Task] = ()
    standby: Sequence[Task] = ()
    offsets: Mapping[Task, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """A streams group.

    Attributes:
        members: the members, in the order in which the coordinator passes them.
        walk: the processes in the iteration order of the assignor's `HashMap`, each with its members (indexes into
            `members`) in the iteration order of the process's map.
        subtopologies: ids of the subtopologies, ascending.
        partitions, stateful: number of tasks of each subtopology, and whether they have state.
        standby_replicas: configured number of standbys per task with state.
    """

    members: Sequence[Member]
    walk: Sequence[tuple[str, Sequence[int]]]
    subtopologies: Sequence[str]
    partitions: Sequence[int]
    stateful: Sequence[bool]
    standby_replicas: int = 0

    def tasks(self, *, stateful: bool = False) -> list[Task]:
        """Returns all tasks, or only those with state, sorted by subtopology and number."""
        numbered = enumerate(zip(self.partitions, self.stateful, strict=True))
        return [(at, task) for at, (count, state) in numbered if state or not stateful for task in range(count)]


@dataclass(frozen=True, slots=True)
class Target:
    """The target assignment of a group; members are indexes into `Group.members`.

    Attributes:
        active: the member that runs each task.
        standby: the members that keep a copy of each task's state.
        unassigned: number of standbys of each task for which there is no process.
    """

    active: dict[Task, int] = field(default_factory=dict)
    standby: dict[Task, list[int]] = field(default_factory=dict)
    unassigned: dict[Task, int] = field(default_factory=dict)


class TaskAssignorError(Exception):
    """An assignor can't compute an assignment (Kafka's `TaskAssignorException`)."""


TaskAssignor = Callable[[Group], Target]
"""A function that assigns the tasks of a group."""
