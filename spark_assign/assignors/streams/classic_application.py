"""An application on the classic protocol, as its leader sees it: `StreamsPartitionAssignor` up to the task assignor.

The members of a process (an instance of the application) share its disk; the leader treats each process as one client.
A *task* processes the partitions with its number of a subtopology's source topics. It is *stateful* if its subtopology
has a changelog.

Lag of a client for a stateful task: the sum of the changelogs' end offsets minus the sum of the offsets that the
client reports (0 if it reports none). The client that runs the task reports `RUNNING` (-2), and one that doesn't know
its offsets `UNKNOWN` (-3); both are lags as well.

Orders: tasks by subtopology and number; clients by their process ID, which Java compares as two *signed* 64-bit
integers. Steps that iterate a `HashMap` or `HashSet` use `task_hash_order` and `ClientState.hash_code`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from uuid import UUID

import numpy as np

from spark_assign.assignors.streams.leader_releases import LATEST_RULES, StreamsRules
from spark_assign.assignors.streams.task_assignor_api import Steps, TaskId
from spark_assign.java.hash_map import LONGEST_CHAIN, HashTable, java_key, spread_hashes, table_order
from spark_assign.numeric.arrays import values_by_key

HIGH_AVAILABILITY, STICKY, LEGACY_STICKY = "high-availability", "sticky", "legacy-sticky"
"""The default; the public class of `task.assignor.class`; the class of `internal.task.assignor.class`."""
NO_RACKS, MIN_TRAFFIC, BALANCE_SUBTOPOLOGY = "none", "min_traffic", "balance_subtopology"
"""Values of `rack.aware.assignment.strategy`."""

RUNNING, UNKNOWN = -2, -3
_MAX_OFFSET = (1 << 63) - 1

TopicPartition = tuple[str, int]
Racks = Mapping[str, Sequence[Iterable[str | None]] | None]
"""Racks of the replicas of each partition, by topic; None if they can't be read."""


@dataclass(frozen=True, slots=True)
class ClassicConfig:
    """Configuration of the application, with Kafka's defaults (`AssignmentConfigs`); a cost of None isn't set."""

    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    num_standby_replicas: int = 0
    probing_rebalance_interval_ms: int = 600_000
    rack_aware_strategy: str = NO_RACKS
    traffic_cost: int | None = None
    non_overlap_cost: int | None = None
    rack_aware_tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """A member (a thread) and its subscription (`SubscriptionInfo`).

    Attributes:
        member_id, process_id: Ids; that of the process is a UUID.
        rack: `client.rack` of its consumer.
        tags: `client.tag.*` of its process.
        owned: Partitions that it owns.
        offset_sums: For each task of which it reports state, the sum of changelog offsets, `RUNNING`, or `UNKNOWN`.
        error_code: Error that it reports to the group (`AssignorError`).
    """

    member_id: str
    process_id: str
    rack: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    owned: Sequence[TopicPartition] = ()
    offset_sums: Mapping[TaskId, int] = field(default_factory=dict)
    error_code: int = 0


@dataclass(frozen=True, slots=True)
class ClassicSubtopology:
    """A subtopology; its id is its index.

    Attributes:
        sources: Source topics, repartition topics included.
        changelogs: Changelog topics of its stores with logging; a source topic can serve as one.
        has_store: Whether it has a store, with or without logging.
    """

    sources: Sequence[str]
    changelogs: Sequence[str] = ()
    has_store: bool = False


@dataclass(frozen=True)
class ClassicApplication:
    """A group of the classic protocol.

    Attributes:
        members: Members, in the order in which the leader iterates them.
        subtopologies: Subtopologies, by id; one without sources doesn't exist.
        num_partitions: Number of partitions of each source topic.
        end_offsets: End offsets of the partitions of each changelog that isn't new; None if they can't be read.
        racks: Racks of the source topics and changelogs; a topic that isn't listed has no racks.
        config: Configuration.
        assignor: `HIGH_AVAILABILITY`, `STICKY`, or `LEGACY_STICKY`.
        leader_process: Process that computes the assignment; it is the one that asks for a probing rebalance.
        standby_task_order: Stateful tasks in the order in which `STICKY` assigns standbys, which depends on identity
            hash codes; None for the order of tasks.
        rules: rules of the leader's release.
    """

    members: Sequence[ClassicMember]
    subtopologies: Sequence[ClassicSubtopology]
    num_partitions: Mapping[str, int]
    end_offsets: Mapping[str, Sequence[int]] | None
    racks: Racks = field(default_factory=dict)
    config: ClassicConfig = ClassicConfig()
    assignor: str = HIGH_AVAILABILITY
    leader_process: str | None = None
    standby_task_order: Sequence[TaskId] | None = None
    rules: StreamsRules = LATEST_RULES

    def num_tasks(self, subtopology: int) -> int:
        """Returns the number of tasks of a subtopology: partitions of its largest source topic."""
        return max((self.num_partitions[topic] for topic in self.subtopologies[subtopology].sources), default=0)

    @cached_property
    def tasks(self) -> list[TaskId]:
        """All tasks, sorted."""
        return [(at, task) for at in range(len(self.subtopologies)) for task in range(self.num_tasks(at))]

    @cached_property
    def stateful(self) -> set[TaskId]:
        """Tasks with a changelog."""
        return {task for task in self.tasks if self.subtopologies[task[0]].changelogs}

    @cached_property
    def end_offset_sums(self) -> dict[TaskId, int]:
        """Sum of the end offsets of each stateful task, at most 2^63 - 1; `UNKNOWN` if they can't be read."""
        ends = self.end_offsets
        if ends is None:
            return dict.fromkeys(self.stateful, UNKNOWN)
        topics = [[ends[name] for name in of.changelogs if name in ends] for of in self.subtopologies]
        return {task: min(_MAX_OFFSET, sum(end[task[1]] for end in topics[task[0]])) for task in self.stateful}

    def source_partitions(self, task: TaskId) -> list[TopicPartition]:
        """Returns the source partitions of a task."""
        sources = self.subtopologies[task[0]].sources
        return [(topic, task[1]) for topic in sources if task[1] < self.num_partitions[topic]]

    def changelog_partitions(self, task: TaskId) -> list[TopicPartition]:
        """Returns the changelog partitions of a task."""
        return [(topic, task[1]) for topic in self.subtopologies[task[0]].changelogs]

    def partition_racks(self, partition: TopicPartition) -> set[str | None]:
        """Returns the racks of a partition's replicas; it is empty if they are unknown."""
        topic, number = partition
        racks = self.racks.get(topic) or ()
        return set(racks[number]) if number < len(racks) else set()

    @cached_property
    def steps(self) -> Steps:
        """The steps of the assignor so far."""
        return Steps()

    # --- orders of Java's hash sets -----------------------------------------------------------------------------------

    @cached_property
    def _subtopology_order(self) -> list[int]:
        ids = np.array([at for at, of in enumerate(self.subtopologies) if of.sources], np.int64)
        return ids[table_order(961 + 31 * ids, ids)].tolist() if len(ids) else []

    @cached_property
    def task_order(self) -> list[TaskId]:
        """All tasks, in the order of the leader's `HashMap`."""
        return task_hash_order([(at, task) for at in self._subtopology_order for task in range(self.num_tasks(at))])

    @cached_property
    def stateful_order(self) -> list[TaskId]:
        """Stateful tasks, in the order of the leader's `HashSet`."""
        by_subtopology = values_by_key((task[0], task) for task in self.task_order)
        logged = [at for at in self._subtopology_order if self.subtopologies[at].changelogs and at in by_subtopology]
        filled = task_hash_order([task for at in logged for task in task_hash_order(by_subtopology[at])])
        return task_hash_order(filled)


def task_hash_order(tasks: Sequence[TaskId], *, is_copy: bool = False) -> list[TaskId]:
    """Returns the iteration order of a `HashSet` of distinct tasks.

    Args:
        tasks: the tasks, in insertion order.
        is_copy: whether the set is created from a collection, and so with room for it (`new HashSet<>(tasks)`).
    """
    if not tasks:
        return []
    numbers = np.array(tasks, np.int64)
    hashes = (29791 + 961 * numbers[:, 0] + 31 * numbers[:, 1]) & 0xFFFFFFFF
    return [tasks[at] for at in hash_order(hashes, numbers[:, 0] << 32 | numbers[:, 1], is_copy=is_copy)]


def hash_order(hashes: np.ndarray, ranks: np.ndarray, *, is_copy: bool) -> list[int]:
    """Returns the iteration order of a `HashSet` as indexes into the keys, in insertion order; see `task_hash_order`.

    Args:
        hashes, ranks: hash code of each key, unsigned, and its rank in the order of `compareTo`.
        is_copy: whether the set is created with room for all keys.
    """
    if not is_copy:
        return table_order(hashes, ranks).tolist() if len(hashes) else []
    spread = spread_hashes(hashes)
    capacity = 1 << (max(int(len(hashes) / np.float32(0.75)) + 1, 16) - 1).bit_length()
    bucket = spread & (capacity - 1)
    if np.bincount(bucket).max(initial=0) <= LONGEST_CHAIN:
        order: list[int] = np.argsort(bucket, kind="stable").tolist()
        return order
    table: HashTable[int] = HashTable(capacity, ranks.__getitem__)
    for at, value in enumerate(spread.tolist()):
        table.put(at, value)
    return table.iteration_order()


# --- clients ----------------------------------------------------------------------------------------------------------


def process_key(process_id: str) -> tuple[int, int]:
    """Returns a key that sorts process IDs as `UUID.compareTo`: two signed 64-bit integers."""
    number = UUID(process_id).int
    high, low = number >> 64, number & ((1 << 64) - 1)
    return high - ((high >> 63) << 64), low - ((low >> 63) << 64)


class ClientState:
    """A process, with what its members report, and the tasks assigned so far (Kafka's `ClientState`).

    Attributes:
        process_id, hash_code: Its UUID, and the hash code of it, unsigned.
        rank: Its position in the order of process ids.
        members: Its members, in the leader's order.
        rack, tags: Those of its first member.
        previous_active, previous_standby: Tasks that it ran, and other tasks of which it has state.
        lags: Lag of each stateful task that it reports offsets of.
        active, standby: Assigned tasks.
    """

    def __init__(self, process_id: str, members: list[ClassicMember]) -> None:
        self.process_id, self.members = process_id, members
        mixed = UUID(process_id).int
        mixed = (mixed >> 64) ^ (mixed & ((1 << 64) - 1))
        self.hash_code = ((mixed >> 32) ^ mixed) & 0xFFFFFFFF
        self.capacity, self.rank = len(members), 0
        self.rack, self.tags = members[0].rack, members[0].tags
        self.previous_active: set[TaskId] = set()
        self.previous_standby: set[TaskId] = set()
        self.lags: dict[TaskId, int] = {}
        self.active: set[TaskId] = set()
        self.standby: set[TaskId] = set()

    @property
    def load(self) -> float:
        """Number of assigned tasks per member."""
        return (len(self.active) + len(self.standby)) / self.capacity

    def has(self, task: TaskId) -> bool:
        """Checks whether the task is assigned to the client in any role."""
        return task in self.active or task in self.standby


class UnknownOwnedPartitionsError(Exception):
    """A process owns partitions, but none of an existing task; Kafka throws IllegalStateException.

    Args:
        process_id: the process.
    """

    def __init__(self, process_id: str) -> None:
        super().__init__(
            f"Process {process_id} owns partitions, but none of a task of the topology, so Kafka's leader fails"
        )


def read_clients(application: ClassicApplication) -> list[ClientState]:
    """Returns the clients in the order of the leader's `HashMap`.

    Raises:
        UnknownOwnedPartitionsError: All partitions that a process owns belong to no task.
    """
    by_process = values_by_key((member.process_id, member) for member in application.members)
    clients = [ClientState(process_id, members) for process_id, members in by_process.items()]
    for rank, client in enumerate(sorted(clients, key=lambda client: process_key(client.process_id))):
        client.rank = rank
    # Copartitioned sources of a subtopology aside, a partition belongs to one task.
    subtopology = {topic: at for at, of in enumerate(application.subtopologies) for topic in of.sources}
    ends = application.end_offset_sums
    for client in clients:
        offset_sums: dict[TaskId, int] = {}
        for member in client.members:
            offset_sums.update(member.offset_sums)
            client.previous_active.update(
                (subtopology[topic], number)
                for topic, number in member.owned
                if topic in subtopology and number < application.num_partitions[topic]
            )
        if not client.previous_active and any(member.owned for member in client.members):
            raise UnknownOwnedPartitionsError(client.process_id)
        client.previous_active.update(task for task, offset_sum in offset_sums.items() if offset_sum == RUNNING)
        client.previous_standby.update(offset_sums.keys() - client.previous_active)
        for task, offset_sum in offset_sums.items():
            if task in ends:
                client.lags[task] = _compute_lag(ends[task], offset_sum)
    return client_hash_order(clients)


def _compute_lag(end: int, offset_sum: int) -> int:
    if offset_sum in (RUNNING, UNKNOWN):
        return offset_sum
    return end if end < offset_sum else end - offset_sum


def client_hash_order(clients: Sequence[ClientState], *, is_copy: bool = False) -> list[ClientState]:
    """Returns the iteration order of a `HashSet` of process IDs, filled in this order; see `task_hash_order`."""
    hashes = np.array([client.hash_code for client in clients], np.int64)
    ranks = np.array([client.rank for client in clients], np.int64)
    return [clients[at] for at in hash_order(hashes, ranks, is_copy=is_copy)]


def member_key(member: ClassicMember) -> bytes:
    """Sort key of members: by id, as `String.compareTo`."""
    return java_key(member.member_id)
