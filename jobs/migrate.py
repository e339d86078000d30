"""Plan the migration of groups to group.protocol=consumer, another client release, or a cooperative assignor.

By default, the plan has the readiness, steps, costs, and rollback of each group. With --to-release, it simulates a
rolling upgrade of Kafka's Java clients: leader, rules, and moves after each restart. With --to-cooperative, it
simulates the two rolling restarts that switch one group from eager to cooperative.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import click
from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_assign import Fleet, MigrationParams, plan_migration, plan_upgrade
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import on_fleet, read_fleet_and_settings, store_or_cache
from spark_assign.cli.options import (
    PAUSE_TIMES,
    details,
    exit_codes,
    flags_of,
    fleet_or_sample,
    given_parameters,
    input_options,
    leader_client_option,
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
from spark_assign.report.listed_groups import first_groups_with_steps, no_match_text
from spark_assign.report.views import View
from spark_assign.simulation.settings import GROUP_TIMES, Settings
from spark_assign.stores.result import LazyResult
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.parameters import Param

CLASSIC_TIMES = [name for name in GROUP_TIMES if name not in PAUSE_TIMES and not name.startswith("group_consumer_")]
UPGRADE, PROTOCOL, COOPERATIVE = "With --to-release", "Without --to-release", "With --to-cooperative"
ONLY_PROTOCOL = f"{flags_of(MigrationParams)}, --library"


@dataclass(frozen=True)
class Target:
    """What groups migrate to, if it isn't group.protocol=consumer.

    Attributes:
        to_release: upgrade Kafka's Java clients to this release, for example 3.9 (default: migrate to
            group.protocol=consumer).
        to_cooperative: switch this group from eager to cooperative. Valid for Java, franz-go, and Sarama clients only.
            Prints one row per restart.
        assignor: with --to-release: assignor of Kafka's clients after the upgrade (default: each group keeps its
            current one).
    """

    to_release: Annotated[str | None, Param(metavar="RELEASE")] = None
    to_cooperative: Annotated[str | None, Param(metavar="CLUSTER/GROUP")] = None
    assignor: Annotated[str | None, Param()] = None


def check_usage(options: Options) -> None:
    """Raises `ConfigError` if a release, an assignor, or a client of the migration is unknown."""
    if options.to_release:
        check_upgrade(options.to_release, options.assignor)
    for client in (options.leader_client or {}).values():
        require_client(*_library_and_release(client))
    if options.to_cooperative and "/" not in options.to_cooperative:
        raise ConfigError(f"--to-cooperative {options.to_cooperative}: expected CLUSTER/GROUP.")


@job(
    __doc__,
    exit_codes(),
    name="migrate",
    usage=(
        f"--to-cooperative excludes --to-release, {ONLY_PROTOCOL}, --details, --output",
        f"--to-release excludes {ONLY_PROTOCOL}, {flags_of(Settings, *PAUSE_TIMES)}",
        f"{flags_of(Settings, *CLASSIC_TIMES)} needs --to-cooperative",
        "--assignor, --leader-client needs --to-release",
        check_usage,
    ),
)
@input_options()
@group_filter_options()
@parameter_options(Target)
@leader_client_option(UPGRADE)
@parameter_options(MigrationParams, condition=PROTOCOL)
@named_values(
    "--library",
    "[GLOB=]LIBRARY",
    f"{PROTOCOL}: client library of members with a client ID that shows none: Java, librdkafka, …, by shell pattern of "
    "the group ID; without a pattern, of all groups. The first matching pattern wins (default: the library of the "
    "leader, as its bytes show it; else unknown, a warning).",
    click.types.FuncParamType(find_library),
    for_all=True,
)
@details("the steps")
@parameter_options(Settings, *PAUSE_TIMES, condition=PROTOCOL)
@parameter_options(Settings, *CLASSIC_TIMES, condition=COOPERATIVE)
@result_options("groups of each verdict in the summary")
def main(options: Options) -> int:
    """Loads the fleet, plans the migration, writes the tables, and prints the result."""
    if options.to_cooperative:
        return _switch_to_cooperative(options)
    return on_fleet("migrate", options, __file__, _migrate if options.to_release is None else _upgrade)


def _migrate(options: Options, place: str | None, fleet: Fleet) -> int:
    params = MigrationParams(**given_parameters(options, MigrationParams), library=options.library)
    migration = plan_migration(fleet, params, Settings(**given_parameters(options, Settings)))
    arguments = {name: value for name, value in asdict(params).items() if name != "hypothetical_assignors"}
    migration = store_or_cache(options, migration, inputs={"fleet": place, **arguments})
    order = [F.asc_nulls_last("rank"), *map(F.col, GROUP_KEY)]
    return _print(options, migration, "migrations", order, text.format_migration_steps)


def _upgrade(options: Options, place: str | None, fleet: Fleet) -> int:
    for glob, client in reversed((options.leader_client or {}).items()):  # the first match wins
        fleet = fleet.with_leader_client(*_library_and_release(client), group_id=glob)
    upgrade = plan_upgrade(fleet, options.to_release, assignor=options.assignor)
    arguments = {name: getattr(options, name) for name in ("to_release", "assignor", "leader_client")}
    upgrade = store_or_cache(options, upgrade, inputs={"fleet": place, **arguments})
    return _print(options, upgrade, "upgrades", GROUP_KEY, text.format_restarts)


def _library_and_release(client: str) -> tuple[str, str | None]:
    library, _, release = client.partition("@")
    return library, release or None


def _switch_to_cooperative(options: Options) -> int:
    location = fleet_or_sample(options, __file__)
    fleet, exceptions = read_fleet_and_settings(spark_session("migrate", options), options, location, options.table)
    exceptions.pop("events", None)
    settings = Settings(**given_parameters(options, Settings, *GROUP_TIMES), **exceptions)
    cluster, _, group_id = options.to_cooperative.partition("/")
    steps = plan_cooperative_upgrade(fleet, cluster, group_id, settings=settings).drop("cluster", "group_id")
    rows = [row.asDict() for row in steps.collect()]  # of one group
    lines = View("", "steps").lines(rows, len(rows))[2:]
    print("\n".join([supported_clients(fleet, cluster, group_id, settings), *lines]), flush=True)
    return int(options.fail_on == "rejected" and any(row["rejection"] for row in rows))


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
        print(format_steps(groups, rows) if groups else no_match_text(options.details, result.tables[name]), flush=True)
    return int(options.fail_on == "rejected" and not result.rejected.isEmpty())


if __name__ == "__main__":
    sys.exit(main())
