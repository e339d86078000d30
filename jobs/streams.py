"""Plan Kafka Streams groups (KIP-1071): active and standby tasks of each member, and state to restore."""

from __future__ import annotations

import sys

import click

from spark_assign import SparkAssignError
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import read_given_fleet, show_plan
from spark_assign.cli.options import exit_codes, input_options, result_options
from spark_assign.comparison.what_if import WhatIf, parse_what_if
from spark_assign.report.text.share_and_streams import summarize_streams_plan
from spark_assign.streams import plan_streams
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.streams import PLAN_TABLES

CHANGES = """Changes, which are applied in order: leave:GROUPS:NUMBER and join:GROUPS:NUMBER remove members from and add
members to each matching group, each a process of its own; leave-members:MEMBERS removes the matching members of all
groups, as if a host failed. GROUPS and MEMBERS are shell patterns."""


@job(__doc__, f"{CHANGES} {exit_codes()}", name="streams", input_errors=(SparkAssignError, ValueError))
@input_options("the fleet's tables, including subtopologies", sample=False)
@click.option(
    "--assignor",
    metavar="NAME",
    default="streams-sticky",
    help="Assignor: streams-sticky (of Kafka 4.4) or streams-sticky@4.3 (of 4.2 and 4.3; default: streams-sticky).",
)
@click.option(
    "--standby-replicas",
    metavar="N",
    type=click.IntRange(min=0),
    help="Number of standby replicas per task with state (default: as each group is configured).",
)
@click.option(
    "--what-if",
    metavar="CHANGE",
    multiple=True,
    help="Change to apply before planning. See below for the syntax. Repeatable.",
)
@result_options()
def main(options: Options) -> int:
    """Plans the streams groups of a fleet after the changes."""
    what_ifs = [_of_members(text) for text in options.what_if]  # before Spark takes its time to start
    fleet = read_given_fleet("streams", options)
    for what_if in what_ifs:
        fleet = what_if.apply(fleet)
    planned = plan_streams(fleet, options.assignor, standby_replicas=options.standby_replicas)
    inputs = {"fleet": options.fleet, "assignor": options.assignor, "what_ifs": list(options.what_if)}
    inputs["standby_replicas"] = options.standby_replicas
    return show_plan(options, planned, summarize_streams_plan, schemas=PLAN_TABLES, inputs=inputs)


def _of_members(text: str) -> WhatIf:
    """Reads a change of members. The number of tasks depends on `subtopologies`, not on topics."""
    what_if = parse_what_if(text)
    if text.partition(":")[0].rpartition("=")[2] == "partitions":
        raise ConfigError(f"What-if {text}: the number of tasks is in subtopologies. Change it there.")
    return what_if


if __name__ == "__main__":
    sys.exit(main())
