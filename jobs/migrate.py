"""Plan the migration of classic groups to group.protocol=consumer: readiness, steps, costs, and rollback."""

from __future__ import annotations

import sys

import click
from pyspark.sql import functions as F

from spark_assign import Fleet, SparkAssignError, plan_migration
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet, store_or_cache
from spark_assign.cli.options import (
    PAUSE_TIMES,
    details,
    exit_codes,
    given_values,
    input_options,
    result_options,
    time_options,
)
from spark_assign.report.listed_groups import first_groups_with_steps, no_match_text
from spark_assign.report.text.migration import format_migration_steps, summarize_migration
from spark_assign.simulation.settings import Settings
from spark_assign.tables.comparison import MIGRATION_TABLES
from spark_assign.tables.groups import GROUP_KEY

POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")


@job(__doc__, exit_codes(), name="migrate", input_errors=(SparkAssignError, ValueError))
@input_options()
@click.option(
    "--server-assignor",
    metavar="NAME",
    default="uniform",
    help="Assignor of the broker after the migration: uniform or server-range (default: uniform).",
)
@click.option(
    "--policy",
    type=click.Choice(POLICIES),
    default=POLICIES[0],
    help="Setting group.consumer.migration.policy of the brokers (default: bidirectional, as in Kafka).",
)
@click.option(
    "--max-size",
    metavar="N",
    type=click.IntRange(min=1),
    help="Setting group.consumer.max.size of the brokers, in members (default: no limit).",
)
@click.option(
    "--library",
    metavar="LIBRARY",
    help="Client library of members whose client ID shows none: Java, librdkafka, … (default: unknown, a warning).",
)
@details("the steps")
@time_options(PAUSE_TIMES)
@result_options("groups of each verdict in the summary")
def main(options: Options) -> int:
    """Loads the fleet, plans the migration, writes the tables, and prints the result."""
    return on_fleet("migrate", options, __file__, _run)


def _run(options: Options, place: str | None, fleet: Fleet) -> int:
    arguments = {name: getattr(options, name) for name in ("server_assignor", "policy", "max_size", "library")}
    migration = plan_migration(fleet, settings=Settings(**given_values(options, PAUSE_TIMES)), **arguments)
    tables = store_or_cache(options, migration, schemas=MIGRATION_TABLES, inputs={"fleet": place, **arguments})
    migrations, steps, rejected = (tables[name] for name in MIGRATION_TABLES)
    if not options.details:
        print(summarize_migration(migrations, rejected, options.top), flush=True)
    else:
        order = [F.asc_nulls_last("rank"), *map(F.col, GROUP_KEY)]
        groups, rows = first_groups_with_steps(migrations, steps, options.details, order, options.top)
        print(format_migration_steps(groups, rows) if groups else no_match_text(options.details), flush=True)
    return int(options.fail_on == "rejected" and not rejected.isEmpty())


if __name__ == "__main__":
    sys.exit(main())
