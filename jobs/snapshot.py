"""Read a running Kafka cluster, Connect clusters (--connect-url), or files (--from-text) into the tables of a fleet.

Kafka: topics, groups, members, ownership, and offsets. Connect: connectors, tasks, and workers, with their assignment.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from spark_assign.cli.cluster_snapshots import Task, read_clusters, take_snapshots
from spark_assign.cli.job import FAILURE, Options, job, spark_session
from spark_assign.cli.job_tables import last_snapshot_time, read_topologies, store_snapshot
from spark_assign.cli.options import (
    DURATION,
    REPEATABLE,
    Decorator,
    check_snapshot_output,
    patterns,
    snapshot_output_options,
)
from spark_assign.report.formatting import visible
from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.auth import settings as client_settings
from spark_assign.sources.connect import cluster_snapshot as connect
from spark_assign.sources.connect import group as connect_group
from spark_assign.sources.connect import http_settings as connect_http_settings
from spark_assign.sources.files import snapshot_files
from spark_assign.sources.files.pseudonyms import read_key
from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.kafka import cluster_snapshot as kafka
from spark_assign.sources.kafka import describe_text
from spark_assign.sources.kafka import loads as kafka_loads
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.stores.cluster_folders import KEYS
from spark_assign.tables.errors import ConfigError, SourceError

log = logging.getLogger("spark_assign.snapshot")


EXIT_CODES = "Exit codes: 0 success; 2 invalid options, settings, or files; 3 no cluster was read, or writing failed."
READINGS = 5
FILES = ("topics_file", "groups_file", "brokers_file")
KAFKA_OPTIONS = ("cluster_name", "group", "topic", "interval", "times", "rates_since", "topology", "from_text")
CLUSTER_OPTIONS = ("bootstrap_server", "command_config", "connect_url")
CONNECT_OPTIONS = (
    *("connect_workers", "connect_group", "connect_auth", "connect_config", "connect_ca"),
    *("connect_protocol", "connect_max_delay_ms"),
)
HELP = {
    "--clusters": "TOML file with a table [clusters.NAME] for each cluster, which has its options.",
    "--cluster": "With --clusters: clusters to read, by shell pattern of their names (default: all).",
    "--parallel": "With --clusters: maximum number of snapshots at the same time (default: 8).",
    "--bootstrap-server": "Kafka bootstrap servers. With --connect-url, those of the Connect workers' group.",
    "--command-config": "Client properties of Kafka: a file, or secret://SCOPE/KEY of Databricks.",
    "--cluster-name": "Name of the cluster in the column cluster (default: the cluster ID).",
    "--from-text": "Read files with the output of Kafka's tools instead of a cluster. Needs --cluster-name.",
    "--topics-file": f"With --from-text: output of kafka-topics.sh --describe.{REPEATABLE}",
    "--groups-file": "With --from-text: output of kafka-consumer-groups.sh --describe --all-groups, also with "
    f"--state or --members --verbose, of kafka-share-groups.sh, or of kafka-groups.sh --list.{REPEATABLE}",
    "--brokers-file": "With --from-text: racks, as printed by kafka-broker-api-versions.sh, or as lines "
    f"BROKER_ID,RACK.{REPEATABLE}",
    "--interval": "Read offsets and log sizes repeatedly at this interval, for example 60s, and write the table loads.",
    "--times": f"Number of readings with --interval, including the first (default: {READINGS}).",
    "--rates-since": "Compute loads in one reading from record timestamps, of the last TIME, for example 10m.",
    "--topology": "File with the text of Topology.describe() of a classic Streams application (default: derived from "
    f"tasks and topic names).{REPEATABLE}",
    "--pseudonyms": "Replace hosts and the IDs of members, clients, and workers by hashes with the key in KEYFILE.",
    "--connect-url": "REST URLs of a Connect cluster. Repeatable.",
    "--connect-workers": "Workers that might be idle. Repeatable.",
    "--connect-group": "group.id of the workers. Repeatable.",
    "--connect-auth": "File with user:password (default: the environment variable "
    f"{connect_http_settings.CREDENTIALS_VARIABLE}).",
    "--connect-config": "Properties file with a client certificate, bearer token, or proxy.",
    "--connect-ca": "Trusted certificates in PEM format (default: those of the system).",
    "--connect-timeout-s": "Timeout of a request, in seconds (default: 30).",
    "--connect-attempts": "Number of attempts per request, including the first (default: 5).",
    "--connect-protocol": "connect.protocol of the workers (default: that of the group; with REST only: sessioned).",
    "--connect-max-delay-ms": "scheduled.rebalance.max.delay.ms of the workers (default: 300000).",
}


def _option(flag: str, metavar: str | None = None, **more: Any) -> Decorator:
    return click.option(flag, metavar=metavar, help=HELP[flag], **more)


@job(__doc__, EXIT_CODES, name="snapshot", input_errors=(ConfigError,))
@_option("--clusters", "FILE", type=click.Path(path_type=Path))
@_option("--cluster", "GLOB", default="*")
@_option("--parallel", "N", type=click.IntRange(min=1), default=8)
@_option("--bootstrap-server", "HOST:PORT,…")
@_option("--command-config", "FILE")
@_option("--cluster-name", "NAME")
@patterns(
    "--group",
    "Include only groups with a matching ID. With --from-text: ID of the group whose text lacks the column GROUP.",
)
@patterns("--topic", "Include only matching topics, and the topics that the groups use.")
@_option("--interval", "TIME", type=DURATION)
@_option("--times", "N", type=click.IntRange(min=2))
@_option("--rates-since", "TIME", type=DURATION)
@_option("--topology", "GROUP=FILE", multiple=True)
@_option("--from-text", is_flag=True)
@_option("--topics-file", "FILE", multiple=True)
@_option("--groups-file", "FILE", multiple=True)
@_option("--brokers-file", "FILE", multiple=True)
@snapshot_output_options(snapshot_files.FORMATS)
@_option("--pseudonyms", "KEYFILE")
@_option("--connect-url", "[NAME=]URL[,URL…]", multiple=True)
@_option("--connect-workers", "[NAME=]HOST:PORT,…", multiple=True)
@_option("--connect-group", "[NAME=]GROUP", multiple=True)
@_option("--connect-auth", "FILE")
@_option("--connect-config", "FILE")
@_option("--connect-ca", "FILE")
@_option("--connect-timeout-s", "S", type=float, default=30)
@_option("--connect-attempts", "N", type=int, default=5)
@_option("--connect-protocol", type=click.Choice(connect.PROTOCOLS))
@_option("--connect-max-delay-ms", "MS", type=int)
def main(options: Options) -> int:
    """Parses, reads, writes, and prints."""
    options.pseudonyms = read_key(options.pseudonyms) if options.pseudonyms else None
    if options.clusters:
        return _take_all(options)
    check_usage(options)
    snapshot = _snapshot(options)
    for error in snapshot.problems().values():
        print(visible(f"snapshot: not read: {error}", also="\n"), file=sys.stderr)
    written = store_snapshot("snapshot", options, snapshot)
    options.outcome.rows = snapshot.rows()
    print(f"{snapshot.cluster}: " + ", ".join(f"{n} {table}" for table, n in snapshot.rows().items()))
    print(f"written to {written}")
    return 0


def clusters_of(file: Path) -> dict[str, dict[str, Any]]:
    """Returns the values of the flags of each cluster of a file (`--clusters`). Raises ConfigError."""
    flags = {*CLUSTER_OPTIONS, *CONNECT_OPTIONS, "group", "topic", "topology", "connect_timeout_s", "connect_attempts"}
    return read_clusters(file, [each for each in main.params if each.name in flags])


def _take_all(options: Options) -> int:
    """Takes the snapshots of all clusters of a file. Returns 3 if one of them could not be read or stored."""
    check_snapshot_output(options)
    for name in ("cluster_name", "topology", "from_text", *FILES, *CLUSTER_OPTIONS, *CONNECT_OPTIONS):
        if getattr(options, name):
            raise ConfigError(f"{_flag(name)} can't be used with --clusters. Set it in {options.clusters}.")
    clusters = {
        name: values for name, values in clusters_of(options.clusters).items() if fnmatchcase(name, options.cluster)
    }
    if not clusters:
        raise ConfigError(f"--cluster {options.cluster}: no cluster of {options.clusters} matches.")
    tasks = [task for name, values in clusters.items() for task in _tasks(name, values, options)]
    if options.table_prefix:
        spark_session("snapshot", options)  # for all threads
    store, last = partial(store_snapshot, "snapshot", options), partial(last_snapshot_time, "snapshot", options)
    stored, failed = take_snapshots(tasks, store, last, options.parallel)
    for snapshot in stored:
        for table, rows in snapshot.rows().items():
            options.outcome.rows[table] = options.outcome.rows.get(table, 0) + rows
    options.outcome.counts = {"snapshots": len(tasks), "failed": len(failed)}
    print(f"{len(stored)} of {len(tasks)} snapshots written to {options.fleet_dir or options.table_prefix}")
    if failed:
        options.outcome.failed("SourceError", f"not read: {', '.join(failed)}")
    return FAILURE if failed else 0


def _tasks(name: str, values: Mapping[str, Any], options: Options) -> list[Task]:
    """Returns the snapshots of a cluster of a file: of Kafka, of its Connect clusters, or of both."""
    parts = []
    if values.get("connect_url"):
        parts.append((KEYS[1], {**values, **dict.fromkeys(KAFKA_OPTIONS)}))
        values = {flag: value for flag, value in values.items() if not flag.startswith("connect_")}
    if values.get("bootstrap_server") or not parts:
        parts.append((KEYS[0], {**values, "cluster_name": name}))
    tasks = []
    for key, part in parts:
        own = SimpleNamespace(**{**vars(options), **part})
        try:
            check_usage(own)
        except ConfigError as error:
            raise ConfigError(f"{options.clusters}: [clusters.{name}]: {error}") from error
        tasks.append(Task(name, key, partial(_snapshot, own)))
    return tasks


def check_usage(options: Options) -> None:
    """Raises `ConfigError` if options contradict each other, or apply only to the other kind of snapshot."""
    check_snapshot_output(options)
    if options.cluster != "*" and not options.clusters:
        raise ConfigError("--cluster needs --clusters. To name a cluster, use --cluster-name.")
    if options.from_text:
        _check_text_usage(options)
        return
    for name in FILES:
        if getattr(options, name):
            raise ConfigError(f"{_flag(name)} needs --from-text.")
    for name in KAFKA_OPTIONS if options.connect_url else CONNECT_OPTIONS:
        if getattr(options, name):
            verb = "can't be used with" if options.connect_url else "needs"
            raise ConfigError(f"{_flag(name)} {verb} --connect-url.")
    if options.interval == 0 or options.rates_since == 0:
        raise ConfigError("--interval and --rates-since must be positive, for example 60s.")
    if options.interval and options.rates_since:
        raise ConfigError("--interval and --rates-since are both given. Use only one of them.")
    if options.times and not options.interval:
        raise ConfigError("--times needs --interval, for example --interval 60s.")
    if not options.connect_url and not options.bootstrap_server:
        raise ConfigError("Use --bootstrap-server (Kafka), --connect-url (Connect), --from-text, or --clusters.")
    if options.connect_timeout_s <= 0 or options.connect_attempts < 1 or (options.connect_max_delay_ms or 0) < 0:
        raise ConfigError(
            "--connect-timeout-s, --connect-attempts, and --connect-max-delay-ms must be positive numbers."
        )
    if not options.bootstrap_server and (options.command_config or options.connect_group):
        raise ConfigError("--command-config and --connect-group need --bootstrap-server.")
    if options.bootstrap_server and options.connect_workers:
        raise ConfigError("--connect-workers can't be used with --bootstrap-server, whose group lists every worker.")


def _check_text_usage(options: Options) -> None:
    for name in ("cluster_name", "topics_file"):
        if not getattr(options, name):
            raise ConfigError(f"--from-text needs {_flag(name)}.")
    for name in (*CLUSTER_OPTIONS, *CONNECT_OPTIONS, *KAFKA_OPTIONS[2:-1]):
        if getattr(options, name):
            raise ConfigError(f"{_flag(name)} can't be used with --from-text.")
    if len(options.group) > 1:
        raise ConfigError("--group can name only one group with --from-text. Take a snapshot of each.")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


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
        names = ", ".join(unlike[:3]) + ", …" * (len(unlike) > 3)
        log.warning(
            "%s", visible(f"members of {names} subscribe to different topics, and the text lacks them: plans are wrong")
        )
    for row in snapshot.tables["undescribed"].to_pylist():
        log.warning("%s", visible(f"{row['group_id']} is not described: {row['error']}"))
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
        progress=_progress(options),
    )


def _progress(options: Options) -> Callable[[str], None]:
    """Returns where the steps of a snapshot are logged: the steps of several snapshots at a time would be mixed."""
    return log.debug if options.clusters else log.info


def _loads(options: Options) -> kafka_loads.LoadReadOptions | None:
    if options.rates_since:
        return kafka_loads.LoadReadOptions(since_s=options.rates_since / 1000)
    if options.interval:
        return kafka_loads.LoadReadOptions(every_s=options.interval / 1000, times=options.times or READINGS)
    return None


def _connect_snapshot(options: Options) -> Snapshot:
    targets = connect.parse_targets(options.connect_url, options.connect_workers, options.connect_group)
    http = connect_http_settings.HttpSettings(
        options.connect_timeout_s,
        options.connect_attempts,
        connect_http_settings.credentials(options.connect_auth),
        options.connect_ca,
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
    max_delay_ms = (
        connect.DEFAULT_MAX_DELAY_MS if options.connect_max_delay_ms is None else options.connect_max_delay_ms
    )
    return connect.snapshot(
        targets,
        http=http,
        groups=groups,
        protocol=options.connect_protocol,
        max_delay_ms=max_delay_ms,
        progress=_progress(options),
    )


if __name__ == "__main__":
    sys.exit(main())
