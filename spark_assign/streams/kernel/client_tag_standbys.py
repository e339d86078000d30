"""Standbys of clients with tags (KIP-708): Kafka's `ClientTagAwareStandbyTaskAssignor`, and the default without tags.

A standby goes to the least loaded client that differs in every configured tag from the clients that have the task
already. A tag with too few values for another copy stops counting. Copies that find no client this way go to the least
loaded client.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial

from spark_assign.streams.kernel.classic_application import ClientState, task_hash_order
from spark_assign.streams.kernel.client_queue import ClientQueue
from spark_assign.streams.kernel.task_assignor_api import TaskId


def assign_to_least_loaded(queue: ClientQueue, task: TaskId, num_standbys: int) -> None:
    """Assigns standbys of a task to the least loaded clients without the task, while there are any."""
    for _ in range(num_standbys):
        client = queue.poll(task, _is_without)
        if client is None:
            return
        client.standby.add(task)
        queue.offer(client)


def assign_standbys_by_tag(
    stateful: Sequence[TaskId], clients: Sequence[ClientState], num_standbys: int, tags: Collection[str]
) -> None:
    """Assigns the standbys of all tasks.

    Args:
        stateful: tasks with state, sorted.
        clients: clients by id.
        num_standbys: number of standbys per task.
        tags: keys of the tags that count (`rack.aware.assignment.tags`).
    """
    values: dict[str, set[str]] = {}
    tagged: dict[tuple[str, str], set[int]] = {}
    for client in clients:
        for tag in client.tags.items():
            values.setdefault(tag[0], set()).add(tag[1])
            tagged.setdefault(tag, set()).add(client.rank)
    owner = {task: client for client in clients for task in client.active}
    queue = ClientQueue((), lambda client: client.load)
    missing: dict[TaskId, int] = {}
    for task in stateful:
        for client in clients:
            queue.offer(client)
        used: dict[tuple[str, str], set[int]] = {}
        last = owner[task]
        for count in range(1, num_standbys + 1):
            for key, value in last.tags.items():
                if key not in tags:
                    continue
                if len(values[key]) <= count:
                    used = {tag: ranks for tag, ranks in used.items() if tag[0] != key}
                else:
                    used[key, value] = tagged[key, value]
            excluded = set[int]().union(*used.values())
            found = queue.poll(task, partial(_is_without, excluded=excluded))
            if found is None:
                missing[task] = num_standbys - count + 1
                break
            found.standby.add(task)
            last = found
    for client in clients:
        queue.offer(client)
    for task in task_hash_order(stateful):  # the map never shrinks, so that all tasks decide the order
        assign_to_least_loaded(queue, task, missing.get(task, 0))


def _is_without(client: ClientState, task: TaskId, excluded: Collection[int] = ()) -> bool:
    return client.rank not in excluded and not client.has(task)


def has_same_tags(source: ClientState, destination: ClientState) -> bool:
    """Checks whether the destination has every tag of the source with the same value."""
    return source.tags.items() <= destination.tags.items()


def can_exchange_standby(
    source: ClientState, destination: ClientState, task: TaskId, *, clients: Iterable[ClientState]
) -> bool:
    """Checks whether the task's clients keep their number of distinct tags if a standby moves to the destination."""
    others = {tag for client in clients if client is not source and client.has(task) for tag in client.tags.items()}
    return len(others | destination.tags.items()) >= len(others | source.tags.items())
