"""Read a running Kafka cluster, or Connect clusters (--connect-url), into the tables of a fleet.

Kafka: topics, groups, members, ownership, offsets. Connect: connectors, tasks, workers, who runs what.
"""

from __future__ import annotations

import logging
import sys

import click

from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import store_snapshot
from spark_assign.cli.options import DURATION, one_snapshot_place, patterns, writes_snapshot
from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.auth import secret as secret_scope
from spark_assign.sources.auth import settings as client_settings
from spark_assign.sources.connect import cluster_snapshot as connect
from spark_assign.sources.connect import cluster_snapshot as connect_cluster_options
from spark_assign.sources.connect import group as connect_group
from spark_assign.sources.connect import http_settings as connect_http_settings
from spark_assign.sources.files import snapshot_files
from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.kafka import cluster_snapshot as kafka
from spark_assign.sources.kafka import loads as kafka_loads
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.tables.errors import ConfigError

log = logging.getLogger("spark_assign.snapshot")


EXIT_CODES = "Exit codes: 0 written; 2 wrong usage or settings; 3 no cluster could be read, or it could not be written."
RENAMED = {
    "--groups": "--group",
    "--topics": "--topic",
    "--format": "--output-format",
    "--protocol": "--connect-protocol",
    "--max-delay-ms": "--connect-max-delay-ms",
}
AUTH = f"file with user:password (or the environment variable {connect_http_settings.CREDENTIALS_VARIABLE})"
TIMES = 5
OF_KAFKA = ("cluster", "group", "topic", "every", "times", "rates_since")
OF_CONNECT = (
    *("connect_workers", "connect_group", "connect_auth", "connect_config", "connect_ca"),
    *("connect_protocol", "connect_max_delay_ms"),
)


@job(__doc__, EXIT_CODES, name="snapshot", wrong=(ConfigError,), renamed=RENAMED)
@click.option("--bootstrap-server", help="host:port[,host:port…]; with --connect-url where the workers meet")
@click.option(
    "--command-config", metavar="FILE", help="a Kafka client's properties: a file, or secret://SCOPE/KEY of Databricks"
)
@click.option("--cluster", help="name for the cluster column (default: the cluster's own id)")
@patterns("--group", "only groups whose id matches")
@patterns("--topic", "only topics that match, and those that the groups use")
@click.option(
    "--every", metavar="TIME", type=DURATION, help="read offsets and sizes again, such as every 60s: the table loads"
)
@click.option(
    "--times",
    metavar="N",
    type=click.IntRange(min=2),
    help=f"readings with --every, the first included (default: {TIMES})",
)
@click.option(
    "--rates-since", metavar="TIME", type=DURATION, help="loads of one reading, by timestamps: the last 10m, say"
)
@writes_snapshot(snapshot_files.FORMATS)
@click.option("--connect-url", metavar="[NAME=]URL[,URL…]", multiple=True, help="of a Connect cluster; repeatable")
@click.option("--connect-workers", metavar="[NAME=]HOST:PORT,…", multiple=True, help="workers that may be idle")
@click.option("--connect-group", metavar="[NAME=]GROUP", multiple=True, help="the workers' group.id")
@click.option("--connect-auth", metavar="FILE", help=AUTH)
@click.option("--connect-config", metavar="FILE", help="a properties file: client certificate, bearer token, proxy")
@click.option("--connect-ca", metavar="FILE", help="certificates to trust, PEM (default: the system's)")
@click.option("--connect-timeout-s", metavar="S", type=float, default=30, help="for one answer (default: 30)")
@click.option(
    "--connect-attempts", metavar="N", type=int, default=5, help="at each request, the first included (default: 5)"
)
@click.option(
    "--connect-protocol",
    type=click.Choice(connect.PROTOCOLS),
    help="default: the group's own, or sessioned by REST alone",
)
@click.option(
    "--connect-max-delay-ms", metavar="MS", type=int, help="scheduled.rebalance.max.delay.ms (default: 300000)"
)
def main(options: Options) -> int:
    """Read, write, print."""
    check_usage(options)
    # The client retries on its own and says so at length; what fails for good comes back as our error.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    snapshot = _of_connect(options) if options.connect_url else _of_kafka(options)
    store_snapshot("snapshot", options, snapshot)
    return 0


def check_usage(options: Options) -> None:
    """Options of the one kind of snapshot given with the other would be ignored without a word.

    Raises:
        ConfigError: they are.
    """
    one_snapshot_place(options)
    for name in OF_KAFKA if options.connect_url else OF_CONNECT:
        if getattr(options, name):
            kind = "is not for" if options.connect_url else "needs"
            raise ConfigError(f"--{name.replace('_', '-')} {kind} --connect-url")
    if options.every == 0 or options.rates_since == 0:
        raise ConfigError("--every and --rates-since: expected a time above 0, such as 60s")
    if options.every and options.rates_since:
        raise ConfigError("--every and --rates-since are both given; give one of the two")
    if options.times and not options.every:
        raise ConfigError("--times needs --every, such as --every 60s")
    if not options.connect_url and not options.bootstrap_server:
        raise ConfigError("give --bootstrap-server (a Kafka cluster) or --connect-url (Connect clusters)")
    if options.connect_timeout_s <= 0 or options.connect_attempts < 1 or (options.connect_max_delay_ms or 0) < 0:
        raise ConfigError(
            "--connect-timeout-s, --connect-attempts and --connect-max-delay-ms: expected positive numbers"
        )
    if not options.bootstrap_server and (options.command_config or options.connect_group):
        raise ConfigError("--command-config and --connect-group need --bootstrap-server")
    if options.bootstrap_server and options.connect_workers:
        raise ConfigError(
            "--connect-workers: with --bootstrap-server the group names every worker; give one of the two"
        )


def _of_kafka(options: Options) -> Snapshot:
    return kafka.snapshot(
        options.bootstrap_server,
        cluster=options.cluster,
        properties=_properties(options),
        groups=options.group or None,
        topics=options.topic or None,
        loads=_loads(options),
        progress=log.info,
    )


def _loads(options: Options) -> kafka_loads.LoadReadOptions | None:
    if options.rates_since:
        return kafka_loads.LoadReadOptions(since_s=options.rates_since / 1000)
    if options.every:
        return kafka_loads.LoadReadOptions(every_s=options.every / 1000, times=options.times or TIMES)
    return None


def _of_connect(options: Options) -> Snapshot:
    targets = connect_cluster_options.parse_targets(options.connect_url, options.connect_workers, options.connect_group)
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
        log.warning("the password or token goes over http:// in the clear; use https://")
    groups = None
    if options.bootstrap_server:
        settings = client_settings.settings(_properties(options))
        with ClusterConnection(options.bootstrap_server, settings) as connection:
            groups = connect_group.read(connection, log.info)
    max_delay_ms = (
        connect.DEFAULT_MAX_DELAY_MS if options.connect_max_delay_ms is None else options.connect_max_delay_ms
    )
    snapshot = connect.snapshot(
        targets,
        http=http,
        groups=groups,
        protocol=options.connect_protocol,
        max_delay_ms=max_delay_ms,
        progress=log.info,
    )
    for error in connect.problems(snapshot).values():
        print(f"snapshot: not read: {error}", file=sys.stderr)
    return snapshot


def _properties(options: Options) -> dict[str, str]:
    if not options.command_config:
        return {}
    with secret_scope.secret_as_file(options.command_config) as file:
        return client_properties.read(file)


if __name__ == "__main__":
    sys.exit(main())
