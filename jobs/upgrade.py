"""Simulate a rolling upgrade of Kafka's Java clients in classic groups: leader, rules, and moves after each restart."""

from __future__ import annotations

import sys

import click

from spark_assign import Fleet, SparkAssignError, plan_upgrade
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet, store_or_cache
from spark_assign.cli.options import details, exit_codes, input_options, leader_client_option, result_options
from spark_assign.report.listed_groups import first_groups_with_steps, no_match_text
from spark_assign.report.text.migration import format_restarts, summarize_upgrade
from spark_assign.tables.comparison import UPGRADE_TABLES
from spark_assign.tables.groups import GROUP_KEY


@job(__doc__, exit_codes(), name="upgrade", input_errors=(SparkAssignError, ValueError))
@input_options()
@click.option(
    "--to-release",
    metavar="RELEASE",
    required=True,
    help="Release of Kafka's clients after the upgrade, for example 3.9.",
)
@click.option(
    "--assignor",
    metavar="NAME",
    help="Assignor of Kafka's clients after the upgrade (default: each group keeps its current one).",
)
@leader_client_option()
@details("the steps")
@result_options("groups of each verdict in the summary")
def main(options: Options) -> int:
    """Loads the fleet, simulates the upgrade, writes the tables, and prints the result."""
    return on_fleet("upgrade", options, __file__, _run)


def _run(options: Options, place: str | None, fleet: Fleet) -> int:
    for glob, client in reversed((options.leader_client or {}).items()):  # the first match wins
        library, _, version = client.partition("@")
        fleet = fleet.with_leader_client(library, version or None, group_id=glob)
    upgrade = plan_upgrade(fleet, options.to_release, assignor=options.assignor)
    arguments = {name: getattr(options, name) for name in ("to_release", "assignor", "leader_client")}
    tables = store_or_cache(options, upgrade, schemas=UPGRADE_TABLES, inputs={"fleet": place, **arguments})
    upgrades, steps, rejected = (tables[name] for name in UPGRADE_TABLES)
    if not options.details:
        print(summarize_upgrade(upgrades, rejected, options.top), flush=True)
    else:
        groups, rows = first_groups_with_steps(upgrades, steps, options.details, GROUP_KEY, options.top)
        print(format_restarts(groups, rows) if groups else no_match_text(options.details), flush=True)
    return int(options.fail_on == "rejected" and not rejected.isEmpty())


if __name__ == "__main__":
    sys.exit(main())
