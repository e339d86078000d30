"""Plan the migration of classic groups to group.protocol=consumer or, with --to-release, to another client release.

Without --to-release, the plan has the readiness, steps, costs, and rollback of each group. With --to-release, it
simulates a rolling upgrade of Kafka's Java clients: leader, rules, and moves after each restart.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign import Fleet, SparkAssignError, plan_migration, plan_upgrade
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet, store_or_cache
from spark_assign.cli.options import (
    PAUSE_TIMES,
    details,
    exit_codes,
    given_values,
    input_options,
    leader_client_option,
    result_options,
    time_options,
)
from spark_assign.report.formatting import Rows
from spark_assign.report.listed_groups import first_groups_with_steps, no_match_text
from spark_assign.report.text import migration as text
from spark_assign.simulation.settings import Settings
from spark_assign.tables.comparison import MIGRATION_TABLES, UPGRADE_TABLES
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import GROUP_KEY

POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
DEFAULTS: dict[str, Any] = {"server_assignor": "uniform", "policy": POLICIES[0], "max_size": None, "library": None}
UPGRADE, PROTOCOL = "With --to-release", "Without --to-release"


@job(__doc__, exit_codes(), name="migrate", input_errors=(SparkAssignError, ValueError))
@input_options()
@click.option(
    "--to-release",
    metavar="RELEASE",
    help="Upgrade Kafka's Java clients to this release, for example 3.9 (default: migrate to group.protocol=consumer).",
)
@click.option(
    "--assignor",
    metavar="NAME",
    help=f"{UPGRADE}: assignor of Kafka's clients after the upgrade (default: each group keeps its current one).",
)
@leader_client_option(UPGRADE)
@click.option(
    "--server-assignor",
    metavar="NAME",
    help=f"{PROTOCOL}: assignor of the broker after the migration: uniform or server-range (default: uniform).",
)
@click.option(
    "--policy",
    type=click.Choice(POLICIES),
    help=f"{PROTOCOL}: setting group.consumer.migration.policy of the brokers (default: bidirectional, as in Kafka).",
)
@click.option(
    "--max-size",
    metavar="N",
    type=click.IntRange(min=1),
    help=f"{PROTOCOL}: setting group.consumer.max.size of the brokers, in members (default: no limit).",
)
@click.option(
    "--library",
    metavar="LIBRARY",
    help=f"{PROTOCOL}: client library of members with a client ID that shows none: Java, librdkafka, … (default: "
    "unknown, a warning).",
)
@details("the steps")
@time_options(PAUSE_TIMES, PROTOCOL)
@result_options("groups of each verdict in the summary")
def main(options: Options) -> int:
    """Loads the fleet, plans the migration, writes the tables, and prints the result."""
    check_usage(options)
    return on_fleet("migrate", options, __file__, _migrate if options.to_release is None else _upgrade)


def check_usage(options: Options) -> None:
    """Raises `ConfigError` if an option is given that has no meaning with, or without, `--to-release`."""
    names, problem = (*DEFAULTS, *PAUSE_TIMES), "can't be used with --to-release."
    if options.to_release is None:
        names, problem = ("assignor", "leader_client"), "needs --to-release."
    for name in given_values(options, names):
        raise ConfigError(f"--{name.replace('_', '-')} {problem}")


def _migrate(options: Options, place: str | None, fleet: Fleet) -> int:
    arguments = DEFAULTS | given_values(options, DEFAULTS)
    migration = plan_migration(fleet, settings=Settings(**given_values(options, PAUSE_TIMES)), **arguments)
    tables = store_or_cache(options, migration, schemas=MIGRATION_TABLES, inputs={"fleet": place, **arguments})
    order = [F.asc_nulls_last("rank"), *map(F.col, GROUP_KEY)]
    return _print(options, tables, "migrations", order, text.summarize_migration, text.format_migration_steps)


def _upgrade(options: Options, place: str | None, fleet: Fleet) -> int:
    for glob, client in reversed((options.leader_client or {}).items()):  # the first match wins
        library, _, version = client.partition("@")
        fleet = fleet.with_leader_client(library, version or None, group_id=glob)
    upgrade = plan_upgrade(fleet, options.to_release, assignor=options.assignor)
    arguments = {name: getattr(options, name) for name in ("to_release", "assignor", "leader_client")}
    tables = store_or_cache(options, upgrade, schemas=UPGRADE_TABLES, inputs={"fleet": place, **arguments})
    return _print(options, tables, "upgrades", GROUP_KEY, text.summarize_upgrade, text.format_restarts)


def _print(
    options: Options,
    tables: Mapping[str, DataFrame],
    name: str,
    order: Sequence[str | Column],
    summarize: Callable[[DataFrame, DataFrame, int], str],
    format_steps: Callable[[Rows, Rows], str],
) -> int:
    """Prints the summary of the table `name`, or the steps of the groups of `--details`, and returns the exit code."""
    if not options.details:
        print(summarize(tables[name], tables["rejected"], options.top), flush=True)
    else:
        groups, rows = first_groups_with_steps(tables[name], tables["steps"], options.details, order, options.top)
        print(format_steps(groups, rows) if groups else no_match_text(options.details), flush=True)
    return int(options.fail_on == "rejected" and not tables["rejected"].isEmpty())


if __name__ == "__main__":
    sys.exit(main())
