"""Reads the metadata and the assignments of Connect workers (`ConnectProtocol`).

`ConnectProtocol` is version 0 (eager), and `IncrementalCooperativeConnectProtocol` (KIP-415) is versions 1 (compatible)
and 2 (sessioned). Later versions also have the worker's current assignment in the metadata, and revoked items and a
delay in the assignment. One reader reads all versions; missing fields have defaults, as in Kafka's schemas.

The broker keeps both as opaque bytes and returns them in DescribeGroups. They determine what a worker runs, *and in
which order it reports this* when it joins next (`next_report`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_assign.assignors.connect.connectors_and_tasks import (
    Names,
    connector_item,
    item_name,
    serialized_order,
    task_item,
)
from spark_assign.wire.reader import Reader, WireError

CONNECTOR_TASK = -1
"""The task number that stands for the connector itself."""

ConnectorTaskId = tuple[str, int]
"""Connector and task number."""

Report = tuple[tuple[str, ...], tuple[ConnectorTaskId, ...]]
"""Connectors and tasks."""


@dataclass(frozen=True)
class ConnectAssignment:
    """An assignment from the leader, or the one that a worker runs. `error` 1: config offsets don't match.

    The URL of the leader and the config offset of the assignment are skipped.
    """

    error: int
    leader: str
    connectors: tuple[str, ...]
    tasks: tuple[ConnectorTaskId, ...]
    revoked_connectors: tuple[str, ...]
    revoked_tasks: tuple[ConnectorTaskId, ...]
    delay_ms: int


@dataclass(frozen=True)
class WorkerState:
    """A worker's metadata in JoinGroup. `running` is `None` in an eager group, and for a new worker."""

    url: str
    config_offset: int
    running: ConnectAssignment | None


def read_worker_state(data: bytes) -> WorkerState:
    """Reads a worker's metadata (`IncrementalCooperativeConnectProtocol.deserializeMetadata`). Raises WireError."""
    reader = Reader(data)
    reader.version()
    url, config_offset = reader.string(), reader.int64()
    running = reader.nullable_bytes() if reader.left else None
    return WorkerState(url, config_offset, None if running is None else read_assignment(running))


def read_assignment(data: bytes) -> ConnectAssignment:
    """Reads an assignment (`IncrementalCooperativeConnectProtocol.deserializeAssignment`). Raises WireError."""
    reader = Reader(data)
    reader.version()
    error, leader, _, _ = reader.int16(), reader.string(), reader.string(), reader.int64()
    connectors, tasks = _read_items(reader) if reader.left else ((), ())
    revoked_connectors, revoked_tasks = _read_items(reader) if reader.left else ((), ())
    delay_ms = reader.int32() if reader.left else 0
    return ConnectAssignment(error, leader, connectors, tasks, revoked_connectors, revoked_tasks, delay_ms)


def next_report(state: WorkerState, assignment: ConnectAssignment | None) -> Report:
    """Returns the connectors and tasks that a worker reports when it joins next, in serialized order.

    These are the items of its assignment, then the previous items that the assignment doesn't revoke
    (`WorkerCoordinator.onJoinComplete`). The previous items are in the metadata of its last join. A worker of an eager
    group runs its assignment and reports nothing; here, the result is what it runs.

    The order is exact if nothing was revoked. A worker's own list isn't grouped by connector yet, and revoking the
    first task of a connector might move the others behind the next connector, which its metadata doesn't show.
    """
    previous = state.running
    connectors = list(assignment.connectors) if assignment else []
    tasks = list(assignment.tasks) if assignment else []
    if previous is not None:
        revoked = (set(assignment.revoked_connectors), set(assignment.revoked_tasks)) if assignment else (set(), set())
        connectors += [name for name in previous.connectors if name not in revoked[0]]
        tasks += [task for task in previous.tasks if task not in revoked[1]]
    return arrival_order(connectors, tasks)


def arrival_order(connectors: Sequence[str], tasks: Sequence[ConnectorTaskId]) -> Report:
    """Returns a worker's list as a receiver reads it, each item once (`ConnectProtocol.Assignment.asMap`)."""
    names = Names([*connectors, *(connector for connector, _ in tasks)])
    index = names.indexes()
    ordered = serialized_order(
        [connector_item(index[connector]) for connector in connectors],
        [task_item(index[connector], task) for connector, task in tasks],
        names.spread_hash,
    )
    named_connectors, named_tasks = (
        [item_name(item, names.texts) for item in dict.fromkeys(items)] for items in ordered
    )
    return tuple(name for name, _ in named_connectors), tuple((name, task or 0) for name, task in named_tasks)


def _read_items(reader: Reader) -> Report:
    """Returns the connectors and tasks of a serialized map."""
    connectors: list[str] = []
    tasks: list[ConnectorTaskId] = []
    # A length of -1 is null, which is read as empty.
    for _ in range(reader.nullable_array_length(6)):
        connector = reader.string()
        for task in reader.int32s():
            if task == CONNECTOR_TASK:
                connectors.append(connector)
            elif task < CONNECTOR_TASK:
                raise WireError(f"task {task} of connector {connector}: expected {CONNECTOR_TASK} or more")
            else:
                tasks.append((connector, task))
    return tuple(connectors), tuple(tasks)
