"""Input and result of a task assignor: one streams group and its target assignment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from spark_assign.tables.errors import SparkAssignError

TaskId = tuple[int, int]
"""Index of a subtopology in the order of ids (`String.compareTo`), and the number of one of its tasks."""


@dataclass(frozen=True, slots=True)
class StreamsMemberSpec:
    """A member and its current tasks.

    Attributes:
        member_id: Id of the member.
        process_id: Id of the process that the member belongs to.
        active, standby: Current tasks, in any order; they can include tasks that no longer exist.
        offsets: Changelog offset of the member's state of each task that it reports.
    """

    member_id: str
    process_id: str
    active: Sequence[TaskId] = ()
    standby: Sequence[TaskId] = ()
    offsets: Mapping[TaskId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamsGroupSpec:
    """A streams group.

    Attributes:
        members: Members, in the order in which the coordinator passes them.
        process_hash_order: Processes in the iteration order of the assignor's `HashMap`, each with its members (indexes
            into `members`) in the iteration order of the process's map.
        subtopologies: Ids of the subtopologies, ascending.
        partitions, stateful: Number of tasks of each subtopology, and whether they have state.
        standby_replicas: Configured number of standbys per task with state.
    """

    members: Sequence[StreamsMemberSpec]
    process_hash_order: Sequence[tuple[str, Sequence[int]]]
    subtopologies: Sequence[str]
    partitions: Sequence[int]
    stateful: Sequence[bool]
    standby_replicas: int = 0

    def tasks(self, *, stateful: bool = False) -> list[TaskId]:
        """Returns all tasks, or only those with state, sorted by subtopology and number."""
        numbered = enumerate(zip(self.partitions, self.stateful, strict=True))
        return [(at, task) for at, (count, state) in numbered if state or not stateful for task in range(count)]


@dataclass(frozen=True, slots=True)
class StreamsGroupAssignment:
    """The target assignment of a group; members are indexes into `StreamsGroupSpec.members`.

    Attributes:
        active: Member that runs each task.
        standby: Members that keep a copy of each task's state.
        unassigned: Number of standbys of each task for which there is no process.
    """

    active: dict[TaskId, int] = field(default_factory=dict)
    standby: dict[TaskId, list[int]] = field(default_factory=dict)
    unassigned: dict[TaskId, int] = field(default_factory=dict)


class TaskAssignorError(SparkAssignError):
    """An assignor can't compute an assignment (Kafka's `TaskAssignorException`)."""


class TooManyStepsError(Exception):
    """Raised if an assignor would take too long."""


MAX_STEPS = 100_000_000
"""Maximum number of steps of an assignor, of about a microsecond each; a step considers a process for a task."""


class Steps:
    """The number of steps that an assignor has made for a group."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def count(self, number: int) -> None:
        """Counts steps.

        Raises:
            TooManyStepsError: There are more than `MAX_STEPS`.
        """
        self._left -= number
        if self._left < 0:
            text = (
                f"The assignor takes more than {MAX_STEPS:,} steps, in each of which it considers a process for a task"
            )
            raise TooManyStepsError(f"{text}. Use fewer tasks, standbys, or processes")


TaskAssignor = Callable[[StreamsGroupSpec], StreamsGroupAssignment]
"""A function that assigns the tasks of a group."""
