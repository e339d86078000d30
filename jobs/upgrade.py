"""Say what a rolling upgrade of Kafka's Java clients moves in classic groups: by step, who leads, whose rules hold."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click
from pyspark.sql import DataFrame

from spark_assign import Fleet, SparkAssignError, upgrade
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet, store_or_cache
from spark_assign.cli.options import (
    compose_options,
    details,
    fail_on,
    input_options,
    leader_client_option,
    output_options,
    top,
)
from spark_assign.report.listed_groups import first_groups_with_steps, no_match_text
from spark_assign.report.text.migration import format_restarts, summarize_upgrade
from spark_assign.tables.comparison import UPGRADE_TABLES
from spark_assign.tables.groups import GROUP_KEY

EXIT_CODES = """Exit codes: 0 done; 1 groups were rejected and --fail-on rejected is given; 2 wrong usage or tables;
3 failure."""


@job(__doc__, EXIT_CODES, name="upgrade", input_errors=(SparkAssignError, ValueError))
@input_options()
@compose_options(
    click.option("--to", metavar="RELEASE", required=True, help="the release of Kafka's clients to go to, such as 3.9"),
    click.option(
        "--assignor",
        metavar="NAME",
        help="switch to this assignor of Kafka's clients on the way (default: each group keeps its own)",
    ),
)
@leader_client_option()
@details("the steps")
@output_options()
@fail_on("rejected", "groups are rejected")
@top("groups of each verdict in the summary")
def main(options: Options) -> int:
    """Load, call, write, print."""
    return on_fleet("upgrade", options, __file__, _run)


def _run(options: Options, place: str | None, fleet: Fleet) -> int:
    for glob, client in reversed((options.leader_client or {}).items()):  # the first one wins
        library, _, version = client.partition("@")
        fleet = fleet.with_leader_client(library, version or None, group_id=glob)
    found = upgrade(fleet, options.to, assignor=options.assignor)
    arguments = {name: getattr(options, name) for name in ("to", "assignor", "clients")}
    tables = store_or_cache(options, found, schemas=UPGRADE_TABLES, inputs={"fleet": place, **arguments})
    print(_steps(options, tables) if options.details else _summary(options, tables), flush=True)
    return int(options.fail_on == "rejected" and not tables["rejected"].isEmpty())


def _summary(options: Options, tables: Mapping[str, DataFrame]) -> str:
    return summarize_upgrade(tables["upgrades"], tables["rejected"], options.top)


def _steps(options: Options, tables: Mapping[str, DataFrame]) -> str:
    """The steps of the groups that match, as many groups as --top says."""
    groups, steps = first_groups_with_steps(
        tables["upgrades"], tables["steps"], options.details, GROUP_KEY, options.top
    )
    return format_restarts(groups, steps) if groups else no_match_text(options.details)


if __name__ == "__main__":
    sys.exit(main())
