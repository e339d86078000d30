"""Read a running Kafka cluster, or Connect clusters (--connect-url), into the tables of a fleet.

Kafka: topics, groups, members, ownership, offsets. Connect: connectors, tasks, workers, who runs what.
"""

from __future__ import annotations

import argparse
import logging
import sys

from spark_assign.errors import ConfigError, SparkAssignError
from spark_assign.sources import (
    client_properties,
    client_settings,
    connect,
    connect_access,
    connect_group,
    connect_targets,
    kafka,
    snapshot_files,
)
from spark_assign.sources.kafka_connection import ClusterConnection
from spark_assign.sources.snapshot import Snapshot

log = logging.getLogger("spark_assign.snapshot")


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: written; 2: wrong usage or settings; 3: no cluster could be read."""
    parser = _parser()
    options = parser.parse_args(argv)
    _check(parser, options)
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    log.setLevel(logging.INFO)
    # The client retries on its own and says so at length; what fails for good comes back as our error.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    try:
        snapshot = _of_connect(options) if options.connect_url else _of_kafka(options)
        if options.output:
            snapshot_files.write_folder(snapshot, options.output, options.format)
        else:
            from pyspark.sql import SparkSession

            snapshot_files.write_tables(snapshot, SparkSession.builder.getOrCreate(), options.table_prefix)
    except SparkAssignError as error:
        print(f"snapshot: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 3
    print(f"{snapshot.cluster}: " + ", ".join(f"{n} {table}" for table, n in snapshot.rows().items()))
    print(f"written to {options.output or options.table_prefix}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="snapshot", description=__doc__)
    parser.add_argument("--bootstrap-server", help="host:port[,host:port…]")
    parser.add_argument("--command-config", metavar="FILE", help="a Kafka client's properties file: SASL, TLS")
    parser.add_argument("--cluster", help="name for the cluster column (default: the cluster's own id)")
    parser.add_argument("--groups", metavar="GLOB", help="only groups whose id matches")
    parser.add_argument("--topics", metavar="GLOB", help="only topics that match, and those that the groups use")
    output = parser.add_mutually_exclusive_group(required=True)
    output.add_argument("--output", metavar="DIR", help="folder for a file per table; replaced as a whole")
    output.add_argument("--table-prefix", metavar="CATALOG.SCHEMA", help="write tables with Spark instead")
    parser.add_argument("--format", choices=snapshot_files.FORMATS, default="parquet", help="of --output")
    of_connect = parser.add_argument_group("Connect clusters; --bootstrap-server is then where their workers meet")
    add = of_connect.add_argument
    add(
        "--connect-url",
        metavar="[NAME=]URL[,URL…]",
        action="append",
        default=[],
        help="of a cluster; repeatable",
    )
    add("--connect-workers", metavar="[NAME=]HOST:PORT,…", action="append", default=[], help="workers that may be idle")
    add("--connect-group", metavar="[NAME=]GROUP", action="append", default=[], help="the workers' group.id")
    auth = f"file with user:password (or the environment variable {connect_access.CREDENTIALS_VARIABLE})"
    add("--connect-auth", metavar="FILE", help=auth)
    add("--connect-config", metavar="FILE", help="a properties file: client certificate, bearer token, proxy")
    add("--connect-ca", metavar="FILE", help="certificates to trust, PEM (default: the system's)")
    add("--connect-timeout-s", metavar="S", type=float, default=30, help="for one answer (default 30)")
    add("--connect-attempts", metavar="N", type=int, default=5, help="at each request, the first included (default 5)")
    add("--protocol", choices=connect.PROTOCOLS, help="default: the group's own, or sessioned by REST alone")
    add("--max-delay-ms", metavar="MS", type=int, help="scheduled.rebalance.max.delay.ms (default 300000)")
    return parser


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Options of the one kind of snapshot given with the other would be ignored without a word."""
    of_connect = (
        "connect_workers",
        "connect_group",
        "connect_auth",
        "connect_config",
        "connect_ca",
        "protocol",
        "max_delay_ms",
    )
    of_kafka = ("cluster", "groups", "topics")
    for name in of_kafka if options.connect_url else of_connect:
        if getattr(options, name):
            kind = "is not for" if options.connect_url else "needs"
            parser.error(f"--{name.replace('_', '-')} {kind} --connect-url")
    if not options.connect_url and not options.bootstrap_server:
        parser.error("give --bootstrap-server (a Kafka cluster) or --connect-url (Connect clusters)")
    if options.connect_timeout_s <= 0 or options.connect_attempts < 1 or (options.max_delay_ms or 0) < 0:
        parser.error("--connect-timeout-s, --connect-attempts and --max-delay-ms: expected positive numbers")
    if not options.bootstrap_server and (options.command_config or options.connect_group):
        parser.error("--command-config and --connect-group need --bootstrap-server")
    if options.bootstrap_server and options.connect_workers:
        parser.error("--connect-workers: with --bootstrap-server the group names every worker; give one of the two")


def _of_kafka(options: argparse.Namespace) -> Snapshot:
    return kafka.snapshot(
        options.bootstrap_server,
        cluster=options.cluster,
        properties=_properties(options),
        groups=options.groups,
        topics=options.topics,
        progress=log.info,
    )


def _of_connect(options: argparse.Namespace) -> Snapshot:
    targets = connect_targets.targets(options.connect_url, options.connect_workers, options.connect_group)
    http = connect_access.HttpSettings(
        options.connect_timeout_s,
        options.connect_attempts,
        connect_access.credentials(options.connect_auth),
        options.connect_ca,
    )
    http = connect_access.configured(http, options.connect_config)
    if (http.credentials or http.token or http.tokens) and any(
        url.startswith("http:") for target in targets for url in target.urls
    ):
        log.warning("the password or token goes over http:// in the clear; use https://")
    groups = None
    if options.bootstrap_server:
        settings = client_settings.settings(_properties(options))
        with ClusterConnection(options.bootstrap_server, settings) as connection:
            groups = connect_group.read(connection, log.info)
    max_delay_ms = connect.DEFAULT_MAX_DELAY_MS if options.max_delay_ms is None else options.max_delay_ms
    snapshot = connect.snapshot(
        targets, http=http, groups=groups, protocol=options.protocol, max_delay_ms=max_delay_ms, progress=log.info
    )
    for error in connect.problems(snapshot).values():
        print(f"snapshot: not read: {error}", file=sys.stderr)
    return snapshot


def _properties(options: argparse.Namespace) -> dict[str, str]:
    return client_properties.read(options.command_config) if options.command_config else {}


if __name__ == "__main__":
    sys.exit(main())
