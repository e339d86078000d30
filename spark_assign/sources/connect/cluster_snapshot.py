"""A snapshot of running Connect clusters: a ConnectFleet by REST and, where it may be asked, by Kafka.

REST alone knows connectors, tasks, states, and workers on which something runs, by `host:port`. With the group
(`connect_group`) workers have the ids that the assignor works with, idle ones are there, the order of every list is
Kafka's, the leader is known, and so is its memory while the group is at rest. docs/connect-snapshot.md says what
each column rests on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from spark_assign.sources.connect import rest
from spark_assign.sources.connect.group import ConnectGroup, ConnectGroups
from spark_assign.sources.connect.http_settings import CREDENTIALS_VARIABLE, HttpSettings
from spark_assign.sources.connect.rest import UNASSIGNED, ConnectHttp, RestView, host_and_port
from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.kafka.groups import Progress
from spark_assign.spark.progress import progress as shown
from spark_assign.tables.connect import INPUT_TABLES
from spark_assign.tables.errors import ConfigError, SourceError

PROTOCOLS = ("eager", "compatible", "sessioned", "compatible-2.6")
DEFAULT_MAX_DELAY_MS = 300_000
"""scheduled.rebalance.max.delay.ms where nobody set it. REST does not tell a worker's settings."""

LAST_GENERATION = 0
"""Neither REST nor DescribeGroups tells the generation. The assignor only asks whether the leader's memory is of the
last completed one, so the last one counts as 0 and the one to plan as 1."""

_AT_ONCE = 8


def snapshot(
    clusters: Sequence[ConnectTarget],
    *,
    http: HttpSettings | None = None,
    groups: ConnectGroups | None = None,
    protocol: str | None = None,
    max_delay_ms: int = DEFAULT_MAX_DELAY_MS,
    progress: Progress = lambda _: None,
) -> Snapshot:
    """Read Connect clusters, several at a time.

    Args:
        clusters: where they are, see `connect_targets.targets`.
        http: credentials, trusted certificates, time-out, attempts.
        groups: the Connect groups of their Kafka cluster (`connect_group.read`); None reads by REST alone.
        protocol: one of PROTOCOLS; None takes the group's own, or `sessioned` (Connect's default) by REST alone.
        max_delay_ms: the workers' scheduled.rebalance.max.delay.ms.
        progress: told in a line what has been read so far.

    Raises:
        SourceError: no cluster could be read. One among others that cannot is a row of `unreadable`.
    """
    settings = http or HttpSettings()

    def one(target: ConnectTarget) -> ConnectRows:
        rows = ConnectRows()
        try:
            view = rest.read(ConnectHttp(target.urls, settings))
            group = None if groups is None else _group_of(target, view, groups)
        except SourceError as error:
            rows.add("unreadable", target.name, error=str(error))
            return rows
        _add(rows, target, view, group, protocol, max_delay_ms)
        progress(f"{target.name}: {len(view.connectors)} connectors, {len(rows.rows['workers'])} workers")
        return rows

    found = ConnectRows()
    with ThreadPoolExecutor(_AT_ONCE) as pool, shown("Connect clusters read", len(clusters)) as step:
        for rows in pool.map(one, clusters):
            found.extend(rows)
            step()
    if not found.rows["clusters"]:
        raise SourceError("\n".join(row["error"] for row in found.rows["unreadable"]))
    _check_each_once(found)
    source = {
        "kind": "connect",
        "urls": {target.name: list(target.urls) for target in clusters},
        "groups": groups is not None,
        "client": "REST" if groups is None else "REST and Kafka",
    }
    return Snapshot(", ".join(target.name for target in clusters), source, datetime.now(UTC), found.tables())


def _group_of(target: ConnectTarget, view: RestView, groups: ConnectGroups) -> ConnectGroup:
    """The group of a cluster's workers: named by the caller, or the one that has the workers REST speaks of."""
    if view.kafka_cluster_id and groups.kafka_cluster_id and view.kafka_cluster_id != groups.kafka_cluster_id:
        raise SourceError(
            f"{target.name}: its workers meet in Kafka cluster {view.kafka_cluster_id}, --bootstrap-server leads to "
            f"{groups.kafka_cluster_id}. Read clusters of different Kafka clusters one after the other."
        )
    group_id = target.group_id
    if group_id is None:
        seen = {status.worker_id for status in view.statuses().values()} | {host_and_port(url) for url in target.urls}
        having = groups.having(seen)
        if len(having) != 1:
            problem = f"groups {', '.join(having)} have" if having else "no Connect group that could be read has"
            faults = "".join(f" {name}: {fault}." for name, fault in sorted(groups.faults.items()) if not having)
            raise SourceError(
                f"{target.name}: {problem} workers {', '.join(sorted(seen))}.{faults} "
                "Name the workers' group.id by --connect-group."
            )
        group_id = having[0]
    if group_id not in groups.groups:
        fault = groups.faults.get(group_id, "Kafka lists no Connect group of this name")
        raise SourceError(
            f"{target.name}: group {group_id} cannot be read ({fault}). Check --connect-group, or try again."
        )
    return groups.groups[group_id]


def _add(
    rows: ConnectRows,
    target: ConnectTarget,
    view: RestView,
    group: ConnectGroup | None,
    protocol: str | None,
    max_delay_ms: int,
) -> None:
    name = target.name
    rows.add(
        "clusters",
        name,
        protocol=protocol or (group and group.protocol) or "sessioned",
        now_ms=int(time.time() * 1000),
        generation_id=LAST_GENERATION + 1,
        last_completed_generation_id=LAST_GENERATION,
        max_delay_ms=max_delay_ms,
        leader=group and group.leader,
        group_id=group.group_id if group else target.group_id,
        group_state=group and group.state,
        delay_ms=group and group.delay_ms,
        kafka_cluster_id=view.kafka_cluster_id,
        version=view.version,
    )
    for connector in view.connectors:
        status = connector.status
        rows.add("connectors", name, connector=connector.name, type=connector.type, state=status and status.state)
        for number in connector.tasks:
            task = connector.task_statuses.get(number)
            rows.add("tasks", name, connector=connector.name, task=number, state=task and task.state)
    if group is None:
        _add_by_status(rows, target, view)
    else:
        _add_by_group(rows, name, view, group)


def _add_by_status(rows: ConnectRows, target: ConnectTarget, view: RestView) -> None:
    """Who runs what by the last states written; FAILED and PAUSED ones are their worker's, UNASSIGNED ones nobody's."""
    running = {item: status for item, status in view.statuses().items() if status.state != UNASSIGNED}
    for worker_id in sorted({status.worker_id for status in running.values()} | set(target.idle_workers)):
        rows.add("workers", target.name, worker_id=worker_id, rest_worker_id=worker_id)
    for (connector, task), status in running.items():
        rows.add("reported", target.name, **_item(connector, task), worker_id=status.worker_id, state=status.state)


def _add_by_group(rows: ConnectRows, name: str, view: RestView, group: ConnectGroup) -> None:
    """Who will report what, in Kafka's orders; the state where REST names the same worker."""
    statuses = view.statuses()
    for position, worker in enumerate(group.workers):
        rows.add(
            "workers",
            name,
            worker_id=worker.member_id,
            position=position,
            rest_worker_id=worker.rest_worker_id,
            url=worker.url,
            config_offset=worker.config_offset,
        )
        items: list[tuple[str, int | None]] = [(connector, None) for connector in worker.connectors]
        items += worker.tasks
        # Connectors and tasks are lists of their own, each counted from 0.
        places = [*range(len(worker.connectors)), *range(len(worker.tasks))]
        for (connector, task), place in zip(items, places, strict=True):
            status = statuses.get((connector, task))
            here = status is not None and status.worker_id == worker.rest_worker_id
            rows.add(
                "reported",
                name,
                **_item(connector, task),
                worker_id=worker.member_id,
                position=place,
                state=status.state if status and here else None,
            )
    if group.at_rest:
        rows.add("state", name, **memory_at_rest(group))


def memory_at_rest(group: ConnectGroup) -> dict[str, Any]:
    """The leader's memory after a round that stopped nothing and announced no delay.

    IncrementalCooperativeAssignor then remembers what everybody runs and who is there; no revocation, no candidates, no
    schedule, and the count of successive revocations is back at 0.
    """
    assignment = [_item(connector, None) for worker in group.workers for connector in worker.connectors]
    assignment += [_item(connector, task) for worker in group.workers for connector, task in worker.tasks]
    return {
        "assignment": assignment,
        "revocation": [],
        "revoked_in_previous": False,
        "can_revoke": True,
        "candidates": [],
        "scheduled_rebalance_ms": 0,
        "delay_ms": 0,
        "generation_id": LAST_GENERATION,
        "members": sorted(worker.member_id for worker in group.workers),
        "successive_revoking_rebalances": 0,
    }


def _item(connector: str, task: int | None) -> dict[str, Any]:
    return {"kind": "connector" if task is None else "task", "connector": connector, "task": task}


def _check_each_once(found: ConnectRows) -> None:
    """Two URLs may be two workers of one cluster: then it would be planned twice. Raises SourceError."""
    connectors: dict[str, set[str]] = {row["connect_cluster"]: set() for row in found.rows["clusters"]}
    for row in found.rows["connectors"]:
        connectors[row["connect_cluster"]].add(row["connector"])
    kafka = {row["connect_cluster"]: row["kafka_cluster_id"] for row in found.rows["clusters"]}
    owner: dict[tuple[str | None, str, frozenset[str]], str] = {}
    for row in found.rows["workers"]:
        name = row["connect_cluster"]
        # Clusters in containers may all call their worker localhost:8083; the same one also runs the same connectors.
        first = owner.setdefault((kafka[name], row["rest_worker_id"], frozenset(connectors[name])), name)
        if first != name:
            raise SourceError(
                f"{first} and {name} are the same Connect cluster: both have the worker {row['rest_worker_id']} and "
                "the same connectors. Leave one out, or give both URLs as one cluster: URL,URL"
            )


def problems(snapshot: Snapshot) -> Mapping[str, str]:
    """Clusters that could not be read, with the reason."""
    return {row["connect_cluster"]: row["error"] for row in snapshot.tables["unreadable"].to_pylist()}


_MORE: dict[str, list[tuple[str, pa.DataType]]] = {
    "clusters": [
        ("group_id", pa.string()),
        ("group_state", pa.string()),
        ("delay_ms", pa.int64()),
        ("kafka_cluster_id", pa.string()),
        ("version", pa.string()),
    ],
    "connectors": [("type", pa.string()), ("state", pa.string())],
    "tasks": [("state", pa.string())],
    "workers": [("rest_worker_id", pa.string()), ("url", pa.string()), ("config_offset", pa.int64())],
    "reported": [("state", pa.string())],
}
"""What a snapshot knows beyond the ConnectFleet; docs/connect-snapshot.md says what each column means."""

TABLES: dict[str, pa.Schema] = {
    **{
        name: pa.schema([*to_arrow_schema(schema), *(pa.field(*more) for more in _MORE.get(name, []))])
        for name, schema in INPUT_TABLES.items()
    },
    "unreadable": pa.schema([("connect_cluster", pa.string()), ("error", pa.string())]),
}


@dataclass
class ConnectRows:
    """Rows of every table, of one cluster or of several."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {table: [] for table in TABLES})

    def add(self, table: str, connect_cluster: str, **values: Any) -> None:
        """One row; columns not given are null."""
        self.rows[table].append({"connect_cluster": connect_cluster, **values})

    def extend(self, other: ConnectRows) -> None:
        """All rows of another one, after these."""
        for table, rows in other.rows.items():
            self.rows[table] += rows

    def tables(self) -> dict[str, pa.Table]:
        """Every table, with its schema, empty ones too."""
        return {name: pa.Table.from_pylist(self.rows[name], schema=schema) for name, schema in TABLES.items()}


_NAMED = re.compile(r"([^=/,]+)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class ConnectTarget:
    """One Connect cluster: its name in the tables, URLs of its workers, and what the caller knows beside."""

    name: str
    urls: tuple[str, ...]
    idle_workers: tuple[str, ...] = ()
    """Workers (`host:port`) that may run nothing, which REST does not list."""
    group_id: str | None = None


def parse_targets(urls: Sequence[str], workers: Sequence[str] = (), groups: Sequence[str] = ()) -> list[ConnectTarget]:
    """The clusters that the options name.

    Args:
        urls: `[NAME=]URL[,URL…]` each; several URLs are workers of one cluster. Without a name the cluster is called by
            `host:port` of the first URL.
        workers: `[NAME=]HOST:PORT[,HOST:PORT…]` each.
        groups: `[NAME=]GROUP` each, the workers' group.id. The name may be left out where there is one cluster.

    Raises:
        ConfigError: no http URL, a password in it, a name twice or one that no cluster has.
    """
    found: dict[str, ConnectTarget] = {}
    for text in urls:
        name, places = _split(text)
        listed = tuple(_checked(place, text) for place in places.split(","))
        name = name or host_and_port(listed[0])
        if name in found:
            raise ConfigError(f"--connect-url {text}: a cluster is called {name} already. Give each a name: NAME=URL")
        found[name] = ConnectTarget(name, listed)
    idle = {name: tuple(value.split(",")) for name, value in _by_name("--connect-workers", workers, found)}
    group_ids = dict(_by_name("--connect-group", groups, found))
    return [ConnectTarget(name, target.urls, idle.get(name, ()), group_ids.get(name)) for name, target in found.items()]


def _split(text: str) -> tuple[str | None, str]:
    named = _NAMED.fullmatch(text)
    return (named[1], named[2]) if named else (None, text)


def _checked(url: str, text: str) -> str:
    url = url.strip()
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ConfigError(
            f"--connect-url: a password does not belong on the command line. Give it in {CREDENTIALS_VARIABLE} "
            "or by --connect-auth FILE"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"--connect-url {text}: expected [NAME=]http[s]://HOST:PORT[,…], found {url or 'nothing'}")
    return url


def _by_name(option: str, texts: Sequence[str], found: dict[str, ConnectTarget]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for text in texts:
        name, value = _split(text)
        if name is None and len(found) == 1:
            name = next(iter(found))
        if name not in found:
            names = ", ".join(found)
            raise ConfigError(f"{option} {text}: say of which cluster, NAME=…; the clusters are {names}")
        if name in dict(pairs):
            raise ConfigError(f"{option} {text}: {name} has one already; give all in one list")
        pairs.append((name, value))
    return pairs
