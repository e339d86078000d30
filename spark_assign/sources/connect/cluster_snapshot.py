"""Takes a snapshot of running Connect clusters, as a ConnectFleet, by REST and, if accessible, by Kafka.

REST has connectors, tasks, states, and the workers on which something runs, by `host:port`. Kafka's group
(`connect.group`) adds the worker IDs that the assignor uses, idle workers, the order of every list, the leader, and the
leader's memory while the group is stable. docs/connect-snapshot.md gives the source of each column.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from spark_assign.sources.connect import rest
from spark_assign.sources.connect.group import ConnectGroup, ConnectGroups
from spark_assign.sources.connect.http_settings import CREDENTIALS_VARIABLE, HttpSettings
from spark_assign.sources.connect.rest import UNASSIGNED, ConnectHttp, RestView, host_and_port
from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.kafka.groups import Progress
from spark_assign.spark.dataframes import to_arrow_schema
from spark_assign.spark.progress import progress as progress_bar
from spark_assign.stores.locations import shortened, split_url
from spark_assign.tables.connect import INPUT_TABLES
from spark_assign.tables.errors import ConfigError, SourceError, count
from spark_assign.tables.schema_fields import columns, schema

PROTOCOLS = ("eager", "compatible", "sessioned", "compatible-2.6")
DEFAULT_MAX_DELAY_MS = 300_000
"""Kafka's default of scheduled.rebalance.max.delay.ms. REST doesn't report a worker's settings."""

LAST_GENERATION = 0
"""Neither REST nor DescribeGroups reports the generation. The assignor only checks whether the leader's memory is from
the last completed one, so the last one is 0 and the one to plan is 1.
"""

_NUM_THREADS, _MAX_ERROR, _MAX_PART = 8, 2_000, 500


def snapshot(
    clusters: Sequence[ConnectTarget],
    *,
    http: HttpSettings | None = None,
    groups: ConnectGroups | None = None,
    protocol: str | None = None,
    max_delay_ms: int = DEFAULT_MAX_DELAY_MS,
    progress: Progress = lambda _: None,
) -> Snapshot:
    """Takes a snapshot of Connect clusters, several at a time.

    Args:
        clusters: the clusters, see `parse_targets`.
        http: credentials, trusted certificates, timeout, attempts.
        groups: the Connect groups of their Kafka cluster (`connect.group.read`). None uses REST only.
        protocol: one of PROTOCOLS. None uses that of the group, or `sessioned` (Connect's default) with REST only.
        max_delay_ms: the workers' scheduled.rebalance.max.delay.ms.
        progress: called with a line of text for each cluster.

    Raises:
        SourceError: no cluster can be read. If only some can't, each of them is a row of `unreadable`.
    """
    settings = http or HttpSettings()

    def read_target(target: ConnectTarget) -> ConnectRows:
        rows = ConnectRows(target.name)
        try:
            view = rest.read(ConnectHttp(target.urls, settings))
            group = None if groups is None else _group_of(target, view, groups)
            _add(rows, target, view, group, protocol, max_delay_ms)
            to_tables([rows])  # so that a value that its column can't hold costs no other cluster
        except (SourceError, pa.ArrowException, UnicodeError, OverflowError) as error:
            is_ours = isinstance(error, SourceError)
            text = str(error) if is_ours else f"{target.name}: a worker sent a value that no column can hold ({error})"
            rows = ConnectRows(target.name)
            rows.add("unreadable", error=shortened(text, _MAX_ERROR))
            return rows
        progress(
            f"{target.name}: {count(len(view.connectors), 'connector')}, {count(len(rows.rows['workers']), 'worker')}"
        )
        return rows

    all_rows: list[ConnectRows] = []
    with ThreadPoolExecutor(_NUM_THREADS) as pool, progress_bar("Connect clusters read", len(clusters)) as step:
        for rows in pool.map(read_target, clusters):
            all_rows.append(rows)
            step()
    if not any(rows.rows["clusters"] for rows in all_rows):
        raise SourceError("\n".join(row["error"] for rows in all_rows for row in rows.rows["unreadable"]))
    source = {
        "kind": "connect",
        "urls": {target.name: list(target.urls) for target in clusters},
        "groups": groups is not None,
        "client": "REST" if groups is None else "REST and Kafka",
        "same_clusters": _same_clusters(all_rows),
    }
    return Snapshot(", ".join(target.name for target in clusters), source, datetime.now(UTC), to_tables(all_rows))


def _group_of(target: ConnectTarget, view: RestView, groups: ConnectGroups) -> ConnectGroup:
    """Returns the group of a cluster's workers: the group that the caller named, or the one that `_find_group` finds.
    Raises SourceError.
    """
    if view.kafka_cluster_id and groups.kafka_cluster_id and view.kafka_cluster_id != groups.kafka_cluster_id:
        raise SourceError(
            f"{target.name}: its workers meet in Kafka cluster {view.kafka_cluster_id}, --bootstrap-server leads to "
            f"{groups.kafka_cluster_id}. Read clusters of different Kafka clusters one after the other."
        )
    group_id = _find_group(target, view, groups) if target.group_id is None else target.group_id
    if group_id not in groups.groups:
        fault = shortened(groups.faults.get(group_id, "Kafka lists no Connect group of this name"), _MAX_PART)
        raise SourceError(
            f"{target.name}: group {group_id} cannot be read ({fault}). Check --connect-group, or try again."
        )
    return groups.groups[group_id]


def _find_group(target: ConnectTarget, view: RestView, groups: ConnectGroups) -> str:
    """Returns the ID of the group of a cluster's workers: the only group with a worker that REST or a URL names.

    A group that can't be read counts, too, with the workers that are known of it. If it has others that aren't known,
    it could be the right group, so the only group must then have all workers on which something runs. Otherwise, it may
    lack some, because REST still names a worker that has just left. If several groups match, none is preferred: anyone
    who may join groups can send the names of all workers, and the right group lacks one that has just left.

    Raises SourceError if this isn't exactly one group.
    """
    statuses, urls = view.statuses().values(), set(map(host_and_port, target.urls))
    named = {status.worker_id for status in statuses} | urls
    running = {status.worker_id for status in statuses if status.state != UNASSIGNED} or urls
    workers = groups.workers()
    matches = sorted(group_id for group_id, known in workers.items() if known & named)
    unknown = {group_id for group_id, known in workers.items() if None in known}
    if len(matches) == 1 and (unknown <= {*matches} or running <= workers[matches[0]]):
        return matches[0]
    group_ids = shortened(", ".join(matches), _MAX_PART)
    problem = f"groups {group_ids} have" if matches else "no Connect group that could be read has"
    problem = f"group {group_ids} has only some of the" if len(matches) == 1 else problem
    unread = sorted(groups.faults.keys() & {*matches, *unknown})
    faults = shortened("; ".join(f"{group_id}: {groups.faults[group_id]}" for group_id in unread), _MAX_PART)
    raise SourceError(
        f"{target.name}: {problem} workers {shortened(', '.join(sorted(named)), _MAX_PART)}."
        f"{faults and f' Not read: {faults}.'} Name the workers' group.id by --connect-group."
    )


def _add(
    rows: ConnectRows,
    target: ConnectTarget,
    view: RestView,
    group: ConnectGroup | None,
    protocol: str | None,
    max_delay_ms: int,
) -> None:
    """Adds the rows of one cluster."""
    rows.add(
        "clusters",
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
        rows.add("connectors", connector=connector.name, type=connector.type, state=status and status.state)
        for number in connector.tasks:
            task = connector.task_statuses.get(number)
            rows.add("tasks", connector=connector.name, task=number, state=task and task.state)
    if group is None:
        _add_by_status(rows, target, view)
    else:
        _add_by_group(rows, view, group)


def _add_by_status(rows: ConnectRows, target: ConnectTarget, view: RestView) -> None:
    """Adds workers and what they run by the last written states. FAILED and PAUSED items belong to their worker,
    UNASSIGNED ones to none.
    """
    running = {item: status for item, status in view.statuses().items() if status.state != UNASSIGNED}
    for worker_id in sorted({status.worker_id for status in running.values()} | set(target.idle_workers)):
        rows.add("workers", worker_id=worker_id, rest_worker_id=worker_id)
    for (connector, task), status in running.items():
        rows.add("reported", **_item(connector, task), worker_id=status.worker_id, state=status.state)


def _add_by_group(rows: ConnectRows, view: RestView, group: ConnectGroup) -> None:
    """Adds workers and what they will report, in Kafka's order, with the state if REST names the same worker."""
    statuses = view.statuses()
    for position, worker in enumerate(group.workers):
        rows.add(
            "workers",
            worker_id=worker.member_id,
            position=position,
            rest_worker_id=worker.rest_worker_id,
            url=worker.url,
            config_offset=worker.config_offset,
        )
        # Connectors and tasks are separate lists, each numbered from 0.
        items = [*enumerate((connector, None) for connector in worker.connectors), *enumerate(worker.tasks)]
        for item_position, (connector, task) in items:
            status = statuses.get((connector, task))
            is_current = status is not None and status.worker_id == worker.rest_worker_id
            rows.add(
                "reported",
                **_item(connector, task),
                worker_id=worker.member_id,
                position=item_position,
                state=status.state if status and is_current else None,
            )
    if group.is_stable:
        rows.add("state", **stable_memory(group))


def stable_memory(group: ConnectGroup) -> dict[str, Any]:
    """Returns the leader's memory after a round that revoked nothing and announced no delay.

    IncrementalCooperativeAssignor then remembers the assignment and the members. It has no revocation, no candidates,
    and no schedule, and the count of successive revocations is 0.
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


def _same_clusters(all_rows: Sequence[ConnectRows]) -> list[str]:
    """Returns which targets seem to be workers of one cluster, a text for each that an earlier target has.

    All of them are stored. A worker can copy the answers of another cluster, and neither its order nor its answers say
    which is the copy, so leaving one out would let a stranger remove the other. A cluster that is there twice by
    mistake is planned twice, under two names, which can be seen and does no harm to the others.
    """
    owner: dict[tuple[Any, ...], str] = {}
    found = []
    for rows in all_rows:
        # Clusters in containers can all name their worker localhost:8083. One cluster also has the same connectors.
        connectors = frozenset(row["connector"] for row in rows.rows["connectors"])
        kafka_ids = [row["kafka_cluster_id"] for row in rows.rows["clusters"]]
        keys = {row["rest_worker_id"]: (*kafka_ids, row["rest_worker_id"], connectors) for row in rows.rows["workers"]}
        if (shared := next((worker_id for worker_id, key in keys.items() if key in owner), None)) is not None:
            found.append(
                f"{owner[keys[shared]]} and {rows.connect_cluster} seem to be the same Connect cluster: both have the "
                f"worker {shared:.200} and the same connectors. Both are stored. If they are one, leave one out, or "
                "give both URLs as one cluster: URL,URL. If not, a worker of one repeats the answers of the other"
            )
        owner = dict.fromkeys(keys.values(), rows.connect_cluster) | owner
    return found


_EXTRA_COLUMNS = {
    "clusters": "group_id string?, group_state string?, kafka_cluster_id string?",
    "connectors": "type string?",
    "workers": "rest_worker_id string?, url string?, config_offset long?",
    "reported": "state string?",
}
"""Columns of a snapshot that a ConnectFleet lacks. docs/connect-snapshot.md defines them."""

TABLES: dict[str, pa.Schema] = {
    **{
        name: to_arrow_schema(StructType([*INPUT_TABLES[name], *columns(extra)]))
        for name, extra in _EXTRA_COLUMNS.items()
    },
    "tasks": to_arrow_schema(INPUT_TABLES["tasks"]),
    "state": to_arrow_schema(INPUT_TABLES["state"]),
    "unreadable": to_arrow_schema(schema("connect_cluster string?, error string?")),
}


@dataclass
class ConnectRows:
    """The rows of every table, of one cluster."""

    connect_cluster: str
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {table: [] for table in TABLES})

    def add(self, table: str, **values: Any) -> None:
        """Adds a row with the name of the cluster. Omitted columns are null."""
        self.rows[table].append({"connect_cluster": self.connect_cluster, **values})


def to_tables(all_rows: Sequence[ConnectRows]) -> dict[str, pa.Table]:
    """Returns every table of these clusters with its schema, including empty ones."""
    return {
        name: pa.Table.from_pylist([row for rows in all_rows for row in rows.rows[name]], schema=schema)
        for name, schema in TABLES.items()
    }


_NAMED = re.compile(r"([^=/,]+)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class ConnectTarget:
    """One Connect cluster: its name in the tables, the URLs of its workers, and optional details."""

    name: str
    urls: tuple[str, ...]
    idle_workers: tuple[str, ...] = ()
    """Workers (`host:port`) that might be idle, which REST doesn't list."""
    group_id: str | None = None


def parse_targets(urls: Sequence[str], workers: Sequence[str] = (), groups: Sequence[str] = ()) -> list[ConnectTarget]:
    """Returns the clusters that the options name.

    Args:
        urls: `[NAME=]URL[,URL…]` each. Several URLs are workers of one cluster. The default name is `host:port` of the
            first URL.
        workers: `[NAME=]HOST:PORT[,HOST:PORT…]` each.
        groups: `[NAME=]GROUP` each, the workers' group.id. The name is optional for a single cluster.

    Raises:
        ConfigError: a URL isn't http or has a password, or a name is used twice or by no cluster.
    """
    targets: dict[str, ConnectTarget] = {}
    for text in urls:
        name, url_list = _split(text)
        worker_urls = tuple(map(_checked, url_list.split(",")))
        name = name or host_and_port(worker_urls[0])
        if name in targets:
            raise ConfigError(f"--connect-url {text}: a cluster is called {name} already. Give each a name: NAME=URL")
        targets[name] = ConnectTarget(name, worker_urls)
    idle = {name: tuple(value.split(",")) for name, value in _by_name("--connect-workers", workers, targets).items()}
    group_ids = _by_name("--connect-group", groups, targets)
    return [
        ConnectTarget(name, target.urls, idle.get(name, ()), group_ids.get(name)) for name, target in targets.items()
    ]


def _split(text: str) -> tuple[str | None, str]:
    """Splits `[NAME=]VALUE` into name and value."""
    named = _NAMED.fullmatch(text)
    return (named[1], named[2]) if named else (None, text)


def _checked(url: str) -> str:
    """Returns a URL without surrounding spaces. Raises ConfigError, which repeats no more than the host of a URL."""
    url = url.strip()
    parts = split_url(url)
    if "@" in parts.netloc:
        raise ConfigError(
            f"--connect-url: a password does not belong on the command line. Give it in {CREDENTIALS_VARIABLE} "
            "or by --connect-auth FILE"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        found = "no URL" if url else "nothing"
        if parts.scheme in ("http", "https") and parts.hostname:
            found = f"{parts.scheme}://{parts.hostname} with a query"
        raise ConfigError(f"--connect-url: expected [NAME=]http[s]://HOST:PORT[,…], found {found}")
    return url


def _by_name(option: str, texts: Sequence[str], targets: dict[str, ConnectTarget]) -> dict[str, str]:
    """Returns the values of an option by cluster name. Raises ConfigError."""
    values: dict[str, str] = {}
    for text in texts:
        name, value = _split(text)
        if name is None and len(targets) == 1:
            name = next(iter(targets))
        if name not in targets:
            raise ConfigError(f"{option} {text}: say of which cluster, NAME=…; the clusters are {', '.join(targets)}")
        if name in values:
            raise ConfigError(f"{option} {text}: {name} has one already; give all in one list")
        values[name] = value
    return values
