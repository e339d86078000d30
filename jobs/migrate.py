"""Say which classic groups may go over to group.protocol=consumer, in which steps, what it costs, and the way back."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign import Fleet, SparkAssignError, migrate
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet, store_or_cache
from spark_assign.cli.options import (
    compose_options,
    details,
    fail_on,
    input_options,
    milliseconds,
    output_options,
    top,
)
from spark_assign.report.listed_groups import first_groups_with_steps, no_match_text
from spark_assign.report.text.migration import format_migration_steps, summarize_migration
from spark_assign.simulation.settings import Settings
from spark_assign.tables.comparison import MIGRATION_TABLES
from spark_assign.tables.groups import GROUP_KEY

POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
TIMES = ("heartbeat_interval_ms", "poll_interval_ms", "revoke_ms", "restore_ms")
EXIT_CODES = """Exit codes: 0 done; 1 groups were rejected and --fail-on rejected is given; 2 wrong usage or tables;
3 failure."""


@job(__doc__, EXIT_CODES, name="migrate", input_errors=(SparkAssignError, ValueError))
@input_options()
@compose_options(
    click.option(
        "--server-assignor",
        metavar="NAME",
        default="uniform",
        help="the broker's assignor that groups go over to: uniform (default) or server-range",
    ),
    click.option(
        "--policy",
        type=click.Choice(POLICIES),
        default=POLICIES[0],
        help="group.consumer.migration.policy of the brokers (default: bidirectional, as in Kafka)",
    ),
    click.option(
        "--max-size",
        metavar="N",
        type=click.IntRange(min=1),
        help="group.consumer.max.size of the brokers (default: no limit)",
    ),
    click.option(
        "--library",
        metavar="LIBRARY",
        help="what members run on whose client ids do not tell: Java, librdkafka, … (default: unknown, a warning)",
    ),
)
@details("the steps")
@compose_options(*(milliseconds(name, "for paused_partition_seconds; see simulate") for name in TIMES))
@output_options()
@fail_on("rejected", "groups are rejected")
@top("groups of each verdict in the summary")
def main(options: Options) -> int:
    """Load, call, write, print."""
    return on_fleet("migrate", options, __file__, _run)


def _run(options: Options, place: str | None, fleet: Fleet) -> int:
    times = {name: getattr(options, name) for name in TIMES if getattr(options, name) is not None}
    found = migrate(
        fleet,
        options.server_assignor,
        policy=options.policy,
        max_size=options.max_size,
        library=options.library,
        settings=Settings(**times),
    )
    arguments = {name: getattr(options, name) for name in ("server_assignor", "policy", "max_size", "library")}
    tables = store_or_cache(options, found, schemas=MIGRATION_TABLES, inputs={"fleet": place, **arguments})
    print(_steps(options, tables) if options.details else _summary(options, tables), flush=True)
    return int(options.fail_on == "rejected" and not tables["rejected"].isEmpty())


def _summary(options: Options, tables: Mapping[str, DataFrame]) -> str:
    return summarize_migration(tables["migrations"], tables["rejected"], options.top)


def _steps(options: Options, tables: Mapping[str, DataFrame]) -> str:
    """The steps of the groups that match, as many groups as --top says."""
    order = [F.asc_nulls_last("rank"), *map(F.col, GROUP_KEY)]
    groups, steps = first_groups_with_steps(tables["migrations"], tables["steps"], options.details, order, options.top)
    return format_migration_steps(groups, steps) if groups else no_match_text(options.details)


if __name__ == "__main__":
    sys.exit(main())
