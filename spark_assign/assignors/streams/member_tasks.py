"""Distributes the tasks of a client over its members: `StreamsPartitionAssignor` from the task assignor on.

Three rounds level the number of tasks per member: stateful active tasks, standbys, stateless active tasks. In the first
two, a member keeps tasks that it reports, those with the lowest lag first, while it has fewer than the average.

An active task of which another member still owns a partition is withheld. Its next owner gets it as a standby if the
client has its state, and both rejoin at once after the owner has revoked it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from spark_assign.assignors.streams.classic_application import (
    ClassicApplication,
    ClassicMember,
    ClientState,
    TopicPartition,
    member_key,
    task_hash_order,
)
from spark_assign.assignors.streams.task_assignor_api import Steps, TaskId
from spark_assign.java.priority_queue import Heap

AT_ONCE, PROBING = "at-once", "probing"
"""When a member rejoins: at once, because a task is withheld; or after the probing interval."""


@dataclass(slots=True)
class MemberTasks:
    """The tasks of a member.

    Attributes:
        active, standby: Tasks that the member gets now.
        withheld: Active tasks that it gets after another member has revoked them.
        rejoin: `AT_ONCE`, `PROBING`, or None.
    """

    active: set[TaskId] = field(default_factory=set)
    standby: set[TaskId] = field(default_factory=set)
    withheld: set[TaskId] = field(default_factory=set)
    rejoin: str | None = None


TaskOrders = Callable[[ClientState], tuple[Sequence[TaskId], Sequence[TaskId]]]
"""Returns the active tasks and the standbys of a client in the iteration order of their sets."""


def sorted_orders(client: ClientState) -> tuple[list[TaskId], list[TaskId]]:
    """`TaskOrders` of all assignors but the public sticky one."""
    return sorted(client.active), sorted(client.standby)


def assign_to_members(
    application: ClassicApplication, clients: Sequence[ClientState], orders: TaskOrders, probing_client: str | None
) -> dict[str, MemberTasks]:
    """Returns the tasks of each member.

    Args:
        application: the application.
        clients: clients with all their tasks.
        orders: orders of the tasks of a client.
        probing_client: process of the client that asks for a probing rebalance, if there is one.
    """
    owner = {partition: member.member_id for member in application.members for partition in member.owned}
    result: dict[str, MemberTasks] = {}
    for client in clients:
        owned_in_client = {partition: member.member_id for member in client.members for partition in member.owned}
        members = sorted(client.members, key=member_key)
        active, standby = orders(client)
        stateful = task_hash_order([task for task in active if task in application.stateful])
        stateless = task_hash_order([task for task in active if task not in application.stateful])
        count = dict.fromkeys((member.member_id for member in members), 0)
        assigned = _distribute(stateful, members, count, client.lags, application.steps)
        standbys = _distribute(standby, members, count, client.lags, application.steps)
        for member_id, own in _distribute(stateless, members, count, {}, application.steps).items():
            assigned[member_id] |= own
        must_probe = client.process_id == probing_client
        for member in members:
            tasks = MemberTasks(standby=standbys[member.member_id])
            for task in sorted(assigned[member.member_id]):
                partitions = application.source_partitions(task)
                if _is_revoked(partitions, member.member_id, owned_in_client, owner.keys()):
                    tasks.withheld.add(task)
                    if task in application.stateful and task in client.previous_standby:
                        tasks.standby.add(task)
                else:
                    tasks.active.add(task)
            if tasks.withheld:
                tasks.rejoin, must_probe = AT_ONCE, False
            elif must_probe:
                tasks.rejoin, must_probe = PROBING, False
            result[member.member_id] = tasks
    return result


def _is_revoked(
    partitions: Sequence[TopicPartition], member: str, in_client: dict[TopicPartition, str], owned: Set[TopicPartition]
) -> bool:
    """Checks whether another member owns one of the partitions."""
    return any(partition in owned and in_client.get(partition) != member for partition in partitions)


def _distribute(
    tasks: Sequence[TaskId],
    members: Sequence[ClassicMember],
    count: dict[str, int],
    lags: Mapping[TaskId, int],
    steps: Steps,
) -> dict[str, set[TaskId]]:
    """Distributes tasks over members, and adds them to the members' counts.

    Args:
        tasks: tasks in the iteration order of their set.
        members: members of the client, sorted.
        count: number of tasks of each member in the rounds before.
        lags: lag of each stateful task that members report; empty for stateless tasks.
        steps: counter of steps.
    """
    result: dict[str, set[TaskId]] = {member.member_id: set() for member in members}
    if not tasks:
        return result
    minimum = (sum(count.values()) + len(tasks)) // len(members)
    remaining, kept = set(tasks), list[TaskId]()
    previous: dict[TaskId, str] = {}
    below: deque[str] = deque()
    for member in members:
        own, target = result[member.member_id], minimum - count[member.member_id]
        for _, task in sorted((lags[task], task) for task in member.offset_sums if task in remaining and task in lags):
            if len(own) < target:
                own.add(task)
                remaining.remove(task)
                kept.append(task)
            else:
                previous[task] = member.member_id
        if len(own) < target:
            below.append(member.member_id)
    if not remaining:
        kept = tasks = []
    heap: Heap[TaskId] = Heap.from_rows((task, task) for task in tasks)
    for task in kept:
        steps.count(len(heap) // 50)
        heap.remove(task)
    while below:
        member_id = below.popleft()
        task = heap.poll()
        remaining.remove(task)
        result[member_id].add(task)
        if len(result[member_id]) + count[member_id] < minimum:
            below.append(member_id)
    at_minimum = [member_id for member_id, own in result.items() if len(own) + count[member_id] == minimum]
    for task in sorted(previous.keys() & remaining):
        if previous[task] in at_minimum:
            result[previous[task]].add(task)
            remaining.remove(task)
            heap.remove(task)
            at_minimum.remove(previous[task])
    for task, member_id in zip(heap.items(), at_minimum, strict=False):
        result[member_id].add(task)
    for member_id, own in result.items():
        count[member_id] += len(own)
    return result
