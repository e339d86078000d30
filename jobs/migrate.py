"""Plan the migration of groups to group.protocol=consumer, another client release, or a cooperative assignor.

The plan has the readiness, steps, costs, and rollback of each group. The command to-release upgrades Java clients, and
to-cooperative switches one group from eager to cooperative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

import click
from pyspark.sql import Column
from pyspark.sql import functions as F

import spark_assign.cli  # noqa: F401 - Ctrl-C in what follows
from spark_assign import Fleet, MigrationParams, plan_migration, plan_upgrade
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import on_fleet, read_fleet_and_settings, store_or_cache
from spark_assign.cli.options import (
    PAUSE_TIMES,
    compose_options,
    details,
    exit_codes,
    fail_on,
    fleet_or_sample,
    given_parameters,
    input_options,
    leader_client_option,
    library_and_release,
    moved_option,
    named_values,
    parameter_options,
    result_options,
)
from spark_assign.cli.owners import group_filter_options
from spark_assign.comparison.what_if import require_client
from spark_assign.migration.cooperative_upgrade import plan_cooperative_upgrade, supported_clients
from spark_assign.migration.migrate import find_library
from spark_assign.migration.upgrade import check_upgrade
from spark_assign.report import migration as text
from spark_assign.report.formatting import Rows
from spark_assign.report.listed_groups import details_text, first_groups_with_steps
from spark_assign.report.views import View
from spark_assign.simulation.settings import GROUP_TIMES, Settings
from spark_assign.stores.result import LazyResult
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import GROUP_KEY

TIMES = [name for name in GROUP_TIMES if not name.startswith("group_consumer_")]
"""Times of `Settings` that a switch of assignors depends on."""
GROUPS = compose_options(input_options(), group_filter_options())
PRINTED = compose_options(details("the steps"), result_options("groups of each verdict in the summary"))


@job(None, exit_codes(), name="to-release", label="migrate")
@click.argument("release")
@GROUPS
@click.option("--assignor", metavar="NAME", help="Assignor after the upgrade (default: each group keeps its own).")
@leader_client_option()
@PRINTED
def to_release(options: Options) -> int:
    """Upgrade Kafka's Java clients to RELEASE, for example 3.9, in a rolling restart. The plan has leader, rules, and
    moves after each restart."""
    check_upgrade(options.release, options.assignor)
    for client in (options.leader_client or {}).values():
        require_client(*library_and_release(client))
    return on_fleet("migrate", options, __file__, _upgrade)


@job(None, exit_codes(), name="to-cooperative", label="migrate")
@click.argument("target", metavar="CLUSTER/GROUP")
@GROUPS
@parameter_options(Settings, *TIMES)
@fail_on("rejected", "a restart is rejected")
def to_cooperative(options: Options) -> int:
    """Switch a group from eager to cooperative in two rolling restarts, one row per restart. Valid for Java, franz-go,
    and Sarama clients only."""
    cluster, slash, group_id = options.target.partition("/")
    if not slash:
        raise ConfigError(f"{options.target}: expected CLUSTER/GROUP.")
    location = fleet_or_sample(options, __file__)
    fleet, exceptions = read_fleet_and_settings(spark_session("migrate", options), options, location, options.table)
    exceptions.pop("events", None)
    settings = Settings(**given_parameters(options, Settings, *TIMES), **exceptions)
    steps = plan_cooperative_upgrade(fleet, cluster, group_id, settings=settings).drop("cluster", "group_id")
    rows = [row.asDict() for row in steps.collect()]  # of one group
    lines = View("", "steps").lines(rows, len(rows))[2:]
    print("\n".join([supported_clients(fleet, cluster, group_id, settings), *lines]), flush=True)
    return int(options.fail_on == "rejected" and any(row["rejection"] for row in rows))


@job(__doc__, exit_codes(), name="migrate", commands=(to_release, to_cooperative))
@GROUPS
@moved_option("--to-release", "migrate to-release {}")
@moved_option("--to-cooperative", "migrate to-cooperative {}")
@parameter_options(MigrationParams)
@named_values(
    "--library",
    "[GLOB=]LIBRARY",
    "Client library of members with a client ID that shows none: Java, librdkafka, …, by shell pattern of the group "
    "ID; without a pattern, of all groups. The first matching pattern wins (default: the library of the leader, as its "
    "bytes show it; else unknown, a warning).",
    click.types.FuncParamType(find_library),
    for_all=True,
)
@parameter_options(Settings, *PAUSE_TIMES)
@PRINTED
def main(options: Options) -> int:
    """Plans the migration to the consumer protocol."""
    return on_fleet("migrate", options, __file__, _migrate)


def _migrate(options: Options, place: str | None, fleet: Fleet) -> int:
    params = MigrationParams(**given_parameters(options, MigrationParams), library=options.library)
    migration = plan_migration(fleet, params, Settings(**given_parameters(options, Settings)))
    arguments = {name: value for name, value in asdict(params).items() if name != "hypothetical_assignors"}
    migration = store_or_cache(options, migration, inputs={"fleet": place, **arguments})
    order = [F.asc_nulls_last("rank"), *map(F.col, GROUP_KEY)]
    return _print(options, migration, "migrations", order, text.format_migration_steps)


def _upgrade(options: Options, place: str | None, fleet: Fleet) -> int:
    for glob, client in reversed((options.leader_client or {}).items()):  # the first match wins
        fleet = fleet.with_leader_client(*library_and_release(client), group_id=glob)
    upgrade = plan_upgrade(fleet, options.release, assignor=options.assignor)
    arguments = {"to_release": options.release, "assignor": options.assignor, "leader_client": options.leader_client}
    upgrade = store_or_cache(options, upgrade, inputs={"fleet": place, **arguments})
    return _print(options, upgrade, "upgrades", GROUP_KEY, text.format_restarts)


def _print(
    options: Options,
    result: LazyResult,
    name: str,
    order: Sequence[str | Column],
    format_steps: Callable[[Rows, Rows], str],
) -> int:
    """Prints the summary of the table `name`, or the steps of the groups of `--details`, and returns the exit code."""
    if not options.details:
        result.show(options.top)
    else:
        groups, rows = first_groups_with_steps(result.tables, (name, "steps"), options.details, order, options.top)
        text = format_steps(groups, rows) if groups else ""
        print(details_text(text, options.details, result.tables[name], options.top), flush=True)
    return int(options.fail_on == "rejected" and not result.rejected.isEmpty())


if __name__ == "__main__":
    main()
