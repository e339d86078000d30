"""ConnectProtocol: what a Connect worker says when it joins its group, and what it is told, in bytes.

`ConnectProtocol` (version 0, eager) and `IncrementalCooperativeConnectProtocol` (KIP-415; versions 1, compatible, and
2, sessioned) differ in this: the later ones carry in the worker's metadata what it runs, and in the assignment what it
has to stop and a delay. One reader is enough for all: fields that are not there have defaults, as in Kafka's schemas.

The broker keeps both as opaque bytes and hands them out in DescribeGroups. Together they say what a worker runs
*and in which order it will say so* when it joins next: `report`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_assign.connect.kernel.connectors_and_tasks import (
    Names,
    connector_item,
    item_name,
    serialized_order,
    task_item,
)
from spark_assign.wire.reader import Reader, WireError

CONNECTOR_TASK = -1
"""The task number that stands for the connector itself."""

Task = tuple[str, int]
"""Connector and task number."""


@dataclass(frozen=True)
class Assignment:
    """What the leader gave a worker, or what a worker says that it runs. `error` 1: config offsets do not match."""

    error: int
    leader: str
    leader_url: str
    config_offset: int
    connectors: tuple[str, ...]
    tasks: tuple[Task, ...]
    revoked_connectors: tuple[str, ...]
    revoked_tasks: tuple[Task, ...]
    delay_ms: int


@dataclass(frozen=True)
class WorkerState:
    """What a worker sent with its JoinGroup. `running` is None in an eager group and for a newcomer."""

    url: str
    config_offset: int
    running: Assignment | None


def worker_state(data: bytes) -> WorkerState:
    """IncrementalCooperativeConnectProtocol.deserializeMetadata. Raises WireError."""
    reader = Reader(data)
    _check_version(reader)
    url, config_offset = reader.string(), reader.int64()
    running = reader.nullable_bytes() if reader.left else None
    return WorkerState(url, config_offset, None if running is None else assignment(running))


def assignment(data: bytes) -> Assignment:
    """IncrementalCooperativeConnectProtocol.deserializeAssignment. Raises WireError."""
    reader = Reader(data)
    _check_version(reader)
    error, leader, leader_url, config_offset = reader.int16(), reader.string(), reader.string(), reader.int64()
    connectors, tasks = _items(reader) if reader.left else ((), ())
    revoked_connectors, revoked_tasks = _items(reader) if reader.left else ((), ())
    delay_ms = reader.int32() if reader.left else 0
    return Assignment(
        error, leader, leader_url, config_offset, connectors, tasks, revoked_connectors, revoked_tasks, delay_ms
    )


def report(said: WorkerState, told: Assignment | None) -> tuple[tuple[str, ...], tuple[Task, ...]]:
    """The connectors and tasks that a worker will report when it joins next, in the order of the wire.

    WorkerCoordinator.onJoinComplete: what it was told, then what it had and was not told to stop. What it had is in
    the metadata of its last join. In an eager group a worker runs what it was told and reports nothing at all; here it
    is what it runs.

    The order is exact where nothing was revoked. A worker's own list is not yet grouped by connector, and revoking the
    first task of a connector can move the others behind the next connector; its metadata does not show that.
    """
    had = said.running
    connectors = list(told.connectors) if told else []
    tasks = list(told.tasks) if told else []
    if had is not None:
        stopped = (set(told.revoked_connectors), set(told.revoked_tasks)) if told else (set(), set())
        connectors += [name for name in had.connectors if name not in stopped[0]]
        tasks += [task for task in had.tasks if task not in stopped[1]]
    return wire_order(connectors, tasks)


def wire_order(connectors: Sequence[str], tasks: Sequence[Task]) -> tuple[tuple[str, ...], tuple[Task, ...]]:
    """ConnectProtocol.Assignment.asMap: how a worker's list comes out at the other end, each item once."""
    names = Names([*connectors, *(connector for connector, _ in tasks)])
    number = names.indexes()
    arrived = serialized_order(
        [connector_item(number[connector]) for connector in connectors],
        [task_item(number[connector], task) for connector, task in tasks],
        names.spread_hash,
    )
    walked, grouped = ([item_name(item, names.texts) for item in dict.fromkeys(items)] for items in arrived)
    return tuple(connector for connector, _ in walked), tuple((connector, task or 0) for connector, task in grouped)


def _items(reader: Reader) -> tuple[tuple[str, ...], tuple[Task, ...]]:
    connectors: list[str] = []
    tasks: list[Task] = []
    # -1 is null: nothing.
    for _ in range(reader.nullable_array_length(6)):
        connector = reader.string()
        for number in reader.int32s():
            if number == CONNECTOR_TASK:
                connectors.append(connector)
            else:
                tasks.append((connector, number))
    return tuple(connectors), tuple(tasks)


def _check_version(reader: Reader) -> None:
    """Newer versions are read as far as they are known, as Kafka does."""
    version = reader.int16()
    if version < 0:
        raise WireError(f"version {version}: expected 0 or more")
