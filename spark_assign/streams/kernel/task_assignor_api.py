"""One streams group, as an assignor sees it, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Task = tuple[int, int]
"""A subtopology, numbered as the ids sort (`String.compareTo`), and the number of one of its tasks."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member and what it has reached.

    Attributes:
        member_id: its id.
        process: the id of its process.
        active, standby: its tasks, in any order; some may not be there any more.
        offsets: how far its state of a task is, as far as it reports that.
    """

    member_id: str
    process: str
    active: Sequence[Task] = ()
    standby: Sequence[Task] = ()
    offsets: Mapping[Task, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    """A group.

    Attributes:
        members: in the order in which the coordinator hands them over.
        walk: the processes in the walk of the assignor's `HashMap`; of each its members (places in `members`) in the
            walk of the map that it keeps of them.
        subtopologies: ids, ascending.
        partitions, stateful: of each subtopology how many tasks it has, and whether they have state.
        standby_replicas: so many standbys are wanted of each task that has state.
    """

    members: Sequence[Member]
    walk: Sequence[tuple[str, Sequence[int]]]
    subtopologies: Sequence[str]
    partitions: Sequence[int]
    stateful: Sequence[bool]
    standby_replicas: int = 0

    def tasks(self, *, stateful: bool = False) -> list[Task]:
        """All tasks, or those with state, by subtopology and number."""
        numbered = enumerate(zip(self.partitions, self.stateful, strict=True))
        return [(at, task) for at, (count, state) in numbered if state or not stateful for task in range(count)]


@dataclass(frozen=True, slots=True)
class Target:
    """What every member is to have in the end; members are places in `Group.members`.

    Attributes:
        active: of each task the member that runs it.
        standby: of each task those that keep a copy of its state.
        unassigned: of each task how many standbys there is no process for.
    """

    active: dict[Task, int] = field(default_factory=dict)
    standby: dict[Task, list[int]] = field(default_factory=dict)
    unassigned: dict[Task, int] = field(default_factory=dict)


class TaskAssignorError(Exception):
    """The assignor gives up (`TaskAssignorException`), in Kafka's words."""


TaskAssignor = Callable[[Group], Target]
"""What assigns the tasks of a group."""
