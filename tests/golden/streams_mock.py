"""Kafka's `MockAssignor`, which keeps active tasks and deals the others to whoever has fewest: for tests, as there."""

from __future__ import annotations

from spark_assign.java.hash_map import HashTable, string_hash, text_order
from spark_assign.java.priority_queue import Heap
from spark_assign.streams import StreamsGroupAssignment, StreamsGroupSpec, TaskAssignorError


def streams_mock(group: StreamsGroupSpec) -> StreamsGroupAssignment:
    """Standbys there are none. A task that two members run is an error, and so is one behind the last."""
    target = StreamsGroupAssignment()
    count = [0] * len(group.members)
    for at, member in enumerate(group.members):
        for task in member.active:
            subtopology, number = task
            if number >= group.partitions[subtopology]:
                size = group.partitions[subtopology]
                raise IndexError(f"Index {number} out of bounds for length {size}")
            if task in target.active:
                name = group.subtopologies[subtopology]
                raise TaskAssignorError(f"Task {number} of subtopology {name} is assigned to multiple members")
            target.active[task] = at
            count[at] += 1
    heap: Heap[int] = Heap((count[at], at) for at in _walk(group, count))
    for at in text_order(group.subtopologies):
        for number in range(group.partitions[at]):
            if (at, number) not in target.active:
                member = heap.poll()
                target.active[at, number] = member
                count[member] += 1
                heap.add(count[member], member)
    return target


def _walk(group: StreamsGroupSpec, count: list[int]) -> list[int]:
    """Members in the walk of a `HashSet` of pairs of member and count, filled in the walk of a `HashMap` of members."""
    ids = [member.member_id for member in group.members]
    table: HashTable[int] = HashTable(rank=None)
    for at in text_order(ids):
        table.add(at, (31 * string_hash(ids[at]) + count[at]) & 0xFFFFFFFF)
    return table.iteration_order()
