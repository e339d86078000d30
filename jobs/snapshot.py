"""Read a running Kafka cluster, Connect clusters (--connect-url), or files (--from-text) into the tables of a fleet.

Kafka: topics, groups, members, ownership, and offsets. Connect: connectors, tasks, and workers, with their assignment.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

from spark_assign.cli.cluster_snapshots import Task, read_clusters, take_snapshots
from spark_assign.cli.job import FAILURE, Options, job, spark_session
from spark_assign.cli.job_tables import last_snapshot_time, read_topologies, store_snapshot
from spark_assign.cli.options import LOCAL_FOLDER, OUTPUT, PATH, flags_of, given_parameters, parameter_options, patterns
from spark_assign.report.formatting import visible
from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.auth import settings as client_settings
from spark_assign.sources.connect import cluster_snapshot as connect
from spark_assign.sources.connect import group as connect_group
from spark_assign.sources.connect import http_settings as connect_http_settings
from spark_assign.sources.connect.http_settings import HttpSettings
from spark_assign.sources.files import snapshot_files
from spark_assign.sources.files.pseudonyms import read_key
from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.kafka import cluster_snapshot as kafka
from spark_assign.sources.kafka import describe_text
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.sources.kafka.loads import LoadReadOptions
from spark_assign.stores.locations import KEYS, shortened
from spark_assign.tables.errors import ConfigError, SourceError, in_one_line
from spark_assign.tables.parameters import Param, parameter_fields
from spark_assign.tables.quoting import in_text

log = logging.getLogger("spark_assign.snapshot")
_MAX_STEP = 2_000


EXIT_CODES = "Exit codes: 0 success; 2 invalid options, settings, or files; 3 no cluster was read, or writing failed."


@dataclass(frozen=True)
class Clusters:
    """Several clusters.

    Attributes:
        clusters: TOML file with a table [clusters.NAME] for each cluster, which has its options.
        cluster: with --clusters: clusters to read, by shell pattern of their names (default: all).
        parallel: with --clusters: maximum number of snapshots at the same time.
    """

    clusters: Annotated[Path | None, Param(kind=PATH, metavar="FILE")] = None
    cluster: Annotated[str | None, Param(metavar="GLOB")] = None
    parallel: Annotated[int, Param(least=1)] = 8


@dataclass(frozen=True)
class Kafka:
    """A cluster.

    Attributes:
        bootstrap_server: Kafka bootstrap servers. With --connect-url, the servers of the Connect workers' group.
        command_config: client properties of Kafka: a file, or secret://SCOPE/KEY of Databricks.
        cluster_name: name of the cluster in the column cluster (default: the cluster ID).
        topology: file with the text of Topology.describe() of a classic Streams application (default: derived from
            tasks and topic names).
        log_dirs: also read the log directories of the brokers, and the size of each replica's log, of all topics
            (tables log_dirs and log_dir_replicas).
    """

    bootstrap_server: Annotated[str | None, Param(metavar="HOST:PORT,…")] = None
    command_config: Annotated[str | None, Param(metavar="FILE")] = None
    cluster_name: Annotated[str | None, Param()] = None
    topology: Annotated[tuple[str, ...], Param(metavar="GROUP=FILE")] = ()
    log_dirs: Annotated[bool, Param()] = False


@dataclass(frozen=True)
class Text:
    """Files instead of a cluster.

    Attributes:
        from_text: read files with the output of Kafka's tools instead of a cluster. Needs --cluster-name.
        topics_file: with --from-text: output of kafka-topics.sh --describe.
        groups_file: with --from-text: output of kafka-consumer-groups.sh --describe --all-groups, also with --state or
            --members --verbose, of kafka-share-groups.sh, or of kafka-groups.sh --list.
        brokers_file: with --from-text: racks, as printed by kafka-broker-api-versions.sh, or as lines BROKER_ID,RACK;
            and log directories, as printed by kafka-log-dirs.sh --describe.
    """

    from_text: Annotated[bool, Param()] = False
    topics_file: Annotated[tuple[str, ...], Param(metavar="FILE")] = ()
    groups_file: Annotated[tuple[str, ...], Param(metavar="FILE")] = ()
    brokers_file: Annotated[tuple[str, ...], Param(metavar="FILE")] = ()


@dataclass(frozen=True)
class Written:
    """Where a snapshot is written, and how.

    Attributes:
        fleet_dir: folder of the fleet. Only the folder of this cluster is replaced.
        table_prefix: catalog prefix of the fleet's tables, instead of --fleet-dir. Only the rows of this cluster are
            replaced.
        output_format: format of the files in --fleet-dir.
        pseudonyms: replace hosts and the IDs of members, clients, and workers by hashes with the key in KEYFILE.
    """

    fleet_dir: Annotated[str | None, Param(kind=LOCAL_FOLDER, metavar="DIR")] = None
    table_prefix: Annotated[str | None, Param(kind=OUTPUT, metavar="CATALOG.SCHEMA")] = None
    output_format: Annotated[str, Param(choices=snapshot_files.FORMATS)] = "parquet"
    pseudonyms: Annotated[str | None, Param(metavar="KEYFILE")] = None


@dataclass(frozen=True)
class Connect:
    """Connect clusters.

    Attributes:
        connect_url: REST URLs of a Connect cluster.
        connect_workers: workers that might be idle.
        connect_group: group.id of the workers.
        connect_auth: file with user:password (default: the environment variable SPARK_ASSIGN_CONNECT_AUTH).
        connect_config: properties file with a client certificate, bearer token, or proxy.
        connect_ca: trusted certificates in PEM format (default: the certificates of the system).
        connect_protocol: connect.protocol of the workers (default: as in the group; with REST only: sessioned).
        connect_max_delay_ms: scheduled.rebalance.max.delay.ms of the workers.
    """

    connect_url: Annotated[tuple[str, ...], Param(metavar="[NAME=]URL[,URL…]")] = ()
    connect_workers: Annotated[tuple[str, ...], Param(metavar="[NAME=]HOST:PORT,…")] = ()
    connect_group: Annotated[tuple[str, ...], Param(metavar="[NAME=]GROUP")] = ()
    connect_auth: Annotated[str | None, Param(metavar="FILE")] = None
    connect_config: Annotated[str | None, Param(metavar="FILE")] = None
    connect_ca: Annotated[str | None, Param(metavar="FILE")] = None
    connect_protocol: Annotated[str | None, Param(choices=connect.PROTOCOLS)] = None
    connect_max_delay_ms: Annotated[int, Param(least=0)] = connect.DEFAULT_MAX_DELAY_MS


OF_CONNECT = f"{flags_of(Connect)}, {flags_of(HttpSettings)}".removeprefix("--connect-url, ")
OF_KAFKA = f"--topic, --topology, --log-dirs, {flags_of(LoadReadOptions)}"


def check_text(options: Options) -> None:
    """Raises `ConfigError` if the text of several groups is expected."""
    if options.from_text and len(options.group) > 1:
        raise ConfigError("--group can name only one group with --from-text. Take a snapshot of each.")


@job(
    __doc__,
    EXIT_CODES,
    name="snapshot",
    input_errors=(ConfigError,),
    usage=(
        "one of --fleet-dir, --table-prefix",
        "--cluster needs --clusters: to name a cluster, use --cluster-name",
        f"--clusters excludes --cluster-name, --topology, {flags_of(Text)}, --bootstrap-server, --command-config, "
        f"--connect-url, {OF_CONNECT}: set it in the file",
        "--from-text needs --cluster-name",
        "--from-text needs --topics-file",
        f"--from-text excludes --bootstrap-server, --command-config, --connect-url, {OF_CONNECT}, {OF_KAFKA}",
        "--topics-file, --groups-file, --brokers-file needs --from-text",
        f"--connect-url excludes --cluster-name, --group, {OF_KAFKA}",
        f"{OF_CONNECT} needs --connect-url",
        "any of --bootstrap-server, --connect-url, --from-text, --clusters",
        "--interval excludes --rates-since",
        "--times needs --interval: for example 60s",
        "--command-config, --connect-group needs --bootstrap-server",
        "--bootstrap-server excludes --connect-workers: its group lists every worker",
        check_text,
    ),
)
@parameter_options(Clusters, defaults=True)
@parameter_options(Kafka, "bootstrap_server", "command_config", "cluster_name")
@patterns(
    "--group",
    "Include only groups with a matching ID. With --from-text: ID of the group whose text lacks the column GROUP.",
)
@patterns("--topic", "Include only matching topics, and the topics that the groups use.")
@parameter_options(LoadReadOptions)
@parameter_options(Kafka, "topology", "log_dirs")
@parameter_options(Text, defaults=True)
@parameter_options(Written, defaults=True)
@parameter_options(Connect)
@parameter_options(HttpSettings)
def main(options: Options) -> int:
    """Parses, reads, writes, and prints."""
    options.pseudonyms = read_key(options.pseudonyms) if options.pseudonyms else None
    if options.clusters:
        return _take_all(options)
    snapshot = _snapshot(options)
    for error in snapshot.problems().values():
        print(visible(f"snapshot: not read: {error}", escaped="\n"), file=sys.stderr)
    written = store_snapshot("snapshot", options, snapshot)
    options.outcome.rows = snapshot.rows()
    counts = ", ".join(f"{n} {table}" for table, n in snapshot.rows().items())
    print(in_one_line(f"{snapshot.cluster}: {counts}"))
    print(f"written to {written}")
    return 0


def clusters_of(file: Path) -> dict[str, dict[str, Any]]:
    """Returns the values of the flags of each cluster of a file (`--clusters`). Raises ConfigError."""
    fields = (each for parameters in (Kafka, Connect, HttpSettings) for each in parameter_fields(parameters))
    flags = {"group", "topic", *(each.flag for each in fields)} - {"cluster_name"}
    return read_clusters(file, [each for each in main.params if each.name in flags])


def _take_all(options: Options) -> int:
    """Takes the snapshots of all clusters of a file. Returns 3 if one of them could not be read or stored."""
    clusters = {
        name: values
        for name, values in clusters_of(options.clusters).items()
        if fnmatchcase(name, options.cluster or "*")
    }
    if not clusters:
        raise ConfigError(f"--cluster {options.cluster}: no cluster of {options.clusters} matches.")
    tasks = [task for name, values in clusters.items() for task in _tasks(name, values, options)]
    if options.table_prefix:
        spark_session("snapshot", options)  # for all threads
    store, last = partial(store_snapshot, "snapshot", options), partial(last_snapshot_time, "snapshot", options)
    ClusterConnection.at_once = min(options.parallel, len(tasks))
    stored, failed = take_snapshots(tasks, store, last, options.parallel)
    for snapshot in stored:
        for table, rows in snapshot.rows().items():
            options.outcome.rows[table] = options.outcome.rows.get(table, 0) + rows
    options.outcome.counts = {"snapshots": len(tasks), "failed": len(failed)}
    print(f"{len(stored)} of {len(tasks)} snapshots written to {options.fleet_dir or options.table_prefix}")
    if failed:
        options.outcome.failed("SourceError", f"not read: {'; '.join(map(': '.join, failed))}")
    return FAILURE if failed else 0


def _tasks(name: str, values: Mapping[str, Any], options: Options) -> list[Task]:
    """Returns the snapshots of a cluster of a file: of Kafka, of its Connect clusters, or of both."""
    parts = []
    if values.get("connect_url"):
        fields = (each for parameters in (Kafka, LoadReadOptions, Text) for each in parameter_fields(parameters))
        none = dict.fromkeys(
            {"group", "topic", *(each.flag for each in fields)} - {"bootstrap_server", "command_config"}
        )
        parts.append((KEYS[1], {**values, **none}))
        values = {flag: value for flag, value in values.items() if not flag.startswith("connect_")}
    if values.get("bootstrap_server") or not parts:
        parts.append((KEYS[0], {**values, "cluster_name": name}))
    tasks = []
    for key, part in parts:
        own = SimpleNamespace(**{**vars(options), **part})
        try:
            main.check(SimpleNamespace(**{**vars(own), "clusters": None, "cluster": None}))
        except ConfigError as error:
            raise ConfigError(f"{options.clusters}: [clusters.{name}]: {error}") from error
        tasks.append(Task(name, key, partial(_snapshot, own)))
    return tasks


def _snapshot(options: Options) -> Snapshot:
    if options.connect_url:
        return _connect_snapshot(options)
    if not options.from_text:
        return _kafka_snapshot(options)
    try:
        snapshot = describe_text.read(
            options.topics_file,
            options.groups_file,
            options.cluster_name,
            brokers=options.brokers_file,
            group=next(iter(options.group), None),
        )
    except SourceError as error:
        raise ConfigError(str(error)) from error
    if skipped := snapshot.source["skipped_lines"]:
        log.info("%d lines of shells and loggers were skipped", skipped)
    if unlike := snapshot.source["unlike_members"]:
        names = ", ".join(map(in_text, unlike[:3])) + ", …" * (len(unlike) > 3)
        log.warning("members of %s subscribe to different topics, and the text lacks them: plans are wrong", names)
    for row in snapshot.tables["undescribed"].to_pylist():
        log.warning("%s", in_one_line(f"{in_text(row['group_id'])} is not described: {row['error']}"))
    return snapshot


def _kafka_snapshot(options: Options) -> Snapshot:
    return kafka.snapshot(
        options.bootstrap_server,
        cluster=options.cluster_name,
        properties=client_properties.read_location(options.command_config),
        groups=options.group or None,
        topics=options.topic or None,
        loads=_loads(options),
        topologies=read_topologies(options.topology),
        log_dirs=bool(options.log_dirs),
        progress=_progress(options),
    )


def _progress(options: Options) -> Callable[[str], None]:
    """Returns where the steps of a snapshot are logged: the steps of several snapshots at a time would be mixed. A step
    is one line of bounded length, because its names are those of strangers.
    """
    write = log.debug if options.clusters else log.info
    return lambda text: write("%s", in_one_line(shortened(text, _MAX_STEP)))


def _loads(options: Options) -> LoadReadOptions | None:
    given = given_parameters(options, LoadReadOptions)
    return LoadReadOptions(**given) if given else None


def _connect_snapshot(options: Options) -> Snapshot:
    targets = connect.parse_targets(options.connect_url, options.connect_workers, options.connect_group)
    http = HttpSettings(
        credentials=connect_http_settings.credentials(options.connect_auth),
        ca_file=options.connect_ca,
        **given_parameters(options, HttpSettings),
    )
    http = connect_http_settings.configured(http, options.connect_config)
    if (http.credentials or http.token or http.tokens) and any(
        url.startswith("http:") for target in targets for url in target.urls
    ):
        log.warning("http:// sends the password or token without encryption; use https://")
    groups = None
    if options.bootstrap_server:
        settings = client_settings.settings(client_properties.read_location(options.command_config))
        with ClusterConnection(options.bootstrap_server, settings) as connection:
            groups = connect_group.read(connection, _progress(options))
    snapshot = connect.snapshot(
        targets,
        http=http,
        groups=groups,
        protocol=options.connect_protocol,
        max_delay_ms=Connect(**given_parameters(options, Connect)).connect_max_delay_ms,
        progress=_progress(options),
    )
    for text in snapshot.source.get("same_clusters", ()):
        log.warning("%s", in_one_line(text))
    return snapshot


if __name__ == "__main__":
    main()
