"""What the REST interface of a Connect cluster says: connectors, tasks, where each runs, in which state.

`/`, `/connectors`, `/connectors?expand=status&expand=info`: three requests a cluster, whatever its size. The expanded
listing leaves out a connector that has no status yet (ConnectorsResource.listConnectors skips it), and releases before
2.3 do not expand at all; those connectors are asked for one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from spark_assign.sources.connect.connect_http import ConnectHttp, NotThereError
from spark_assign.tables.errors import SourceError

UNASSIGNED = "UNASSIGNED"
"""AbstractStatus.State: its worker has given it up and no other has it; the worker named is the former one."""


@dataclass(frozen=True)
class Status:
    """The last state written (RUNNING, FAILED, PAUSED, STOPPED, RESTARTING, UNASSIGNED), and by which worker."""

    state: str
    worker_id: str


@dataclass(frozen=True)
class Connector:
    """One connector. `tasks` are those configured; `task_statuses` may have others (to be stopped) and lack some."""

    name: str
    type: str | None
    tasks: tuple[int, ...]
    status: Status | None
    task_statuses: Mapping[int, Status]


@dataclass(frozen=True)
class RestView:
    """A cluster, as one of its workers sees it."""

    version: str | None
    kafka_cluster_id: str | None
    connectors: tuple[Connector, ...]

    def statuses(self) -> dict[tuple[str, int | None], Status]:
        """By connector and task; None is the connector itself."""
        found: dict[tuple[str, int | None], Status] = {}
        for connector in self.connectors:
            if connector.status is not None:
                found[connector.name, None] = connector.status
            found |= {(connector.name, number): status for number, status in connector.task_statuses.items()}
        return found


def read(http: ConnectHttp) -> RestView:
    """Everything that is read of one cluster. Raises SourceError."""
    root = http.get("/")
    if not isinstance(root, dict) or "version" not in root:
        raise SourceError(f"{http.url}/ answers, but not as a Connect worker. Give the root of its REST interface.")
    names = http.get("/connectors")
    expanded = http.get("/connectors?expand=status&expand=info")
    # Before 2.3 the answer is the plain list again.
    expanded = expanded if isinstance(expanded, dict) else {}
    try:
        connectors = [
            _connector(name, expanded[name]) if name in expanded else _one_by_one(http, name)
            for name in sorted({*names, *expanded})
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SourceError(
            f"{http.url}/connectors: the answer is not as Connect gives it ({type(error).__name__}: {error}). "
            "Is there a proxy that changes answers?"
        ) from None
    return RestView(
        root.get("version"), root.get("kafka_cluster_id"), tuple(each for each in connectors if each is not None)
    )


def _connector(name: str, entry: Mapping[str, Any]) -> Connector:
    info, status = entry["info"], entry["status"]
    return Connector(
        name,
        info.get("type") or status.get("type"),
        _task_numbers(info["tasks"]),
        *_statuses(status),
    )


def _one_by_one(http: ConnectHttp, name: str) -> Connector | None:
    """A connector that the expanded listing does not have; None where it is gone meanwhile."""
    path = f"/connectors/{quote(name, safe='')}"
    try:
        info = http.get(path)
        tasks = _task_numbers([task["id"] for task in http.get(f"{path}/tasks")])
    except NotThereError:
        return None
    try:
        status = http.get(f"{path}/status")
    except NotThereError:
        return Connector(name, info.get("type"), tasks, None, {})
    return Connector(name, info.get("type") or status.get("type"), tasks, *_statuses(status))


def _task_numbers(ids: list[Mapping[str, Any]]) -> tuple[int, ...]:
    return tuple(sorted(int(each["task"]) for each in ids))


def _statuses(status: Mapping[str, Any]) -> tuple[Status | None, dict[int, Status]]:
    own = status.get("connector")
    return (
        None if own is None else Status(own["state"], own["worker_id"]),
        {int(task["id"]): Status(task["state"], task["worker_id"]) for task in status.get("tasks", [])},
    )
