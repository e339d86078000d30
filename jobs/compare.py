"""Compare assignors for every group of a fleet, now and after what-if changes, and recommend one, with reasons. Streams
groups are compared with and without their standbys."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial

import click
from pyspark.sql import functions as F

from spark_assign import Fleet, compare
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_names import check_assignors
from spark_assign.cli.job_tables import on_fleet, store_or_cache_all
from spark_assign.cli.options import (
    PAUSE_TIMES,
    ListType,
    exit_codes,
    given_parameters,
    input_options,
    parameter_options,
    result_options,
)
from spark_assign.cli.owners import group_filter_options
from spark_assign.cli.plan_kinds import has_streams_groups
from spark_assign.comparison.what_if import WhatIf, parse_what_if
from spark_assign.report.results import summary
from spark_assign.simulation.settings import Settings
from spark_assign.stores.result import LazyResult
from spark_assign.streams import compare_streams
from spark_assign.tables.streams import StreamsParams

ASSIGNORS = "those of the group's protocol: Kafka's client-side assignors, or uniform and server-range"
CHANGES = """Changes: as-is (the default); leave:GROUPS:COUNT and join:GROUPS:COUNT: COUNT members leave or join each
group; leave-members:MEMBERS: members leave, as if their host failed; partitions:TOPICS:COUNT or
partitions:TOPICS:xFACTOR.
GROUPS, MEMBERS and TOPICS are shell patterns. A name can precede a change:
--what-if 'host down=leave-members:consumer-10.2.*'."""


@job(__doc__, f"{CHANGES} {exit_codes()}", name="compare")
@input_options()
@group_filter_options()
@click.option(
    "--assignors",
    metavar="A,B,…",
    type=ListType(click.STRING),
    help=f"Assignors to compare, for all groups (default: {ASSIGNORS}).",
)
@click.option(
    "--what-if",
    metavar="CHANGE",
    multiple=True,
    help="Change to apply before comparing, for example leave:payments-*:1. See below for the syntax. Repeatable.",
)
@parameter_options(StreamsParams)
@parameter_options(Settings, *PAUSE_TIMES)
@result_options("groups in the summary of each change")
def main(options: Options) -> int:
    """Loads the fleet, compares the assignors, writes the tables, and prints the summary."""
    # Errors come before Spark starts.
    what_ifs = [parse_what_if(text) for text in options.what_if or ("as-is",)]
    check_assignors(options.assignors or ())
    Settings(**given_parameters(options, Settings))
    return on_fleet("compare", options, __file__, partial(_run, what_ifs=what_ifs))


def _run(options: Options, place: str | None, fleet: Fleet, what_ifs: list[WhatIf]) -> int:
    comparison = compare(fleet, options.assignors, what_ifs, Settings(**given_parameters(options, Settings)))
    of_streams = given_parameters(options, StreamsParams)
    compared: list[LazyResult] = [comparison]
    if has_streams_groups(fleet):
        is_other_kind = F.coalesce(F.col("rejected") == "streams-group", F.lit(False))
        compared = [replace(comparison, rows=comparison.rows.where(~is_other_kind))]
        compared += [compare_streams({each.name: each.apply(fleet) for each in what_ifs}, **of_streams)]
    inputs = {"fleet": place, "assignors": options.assignors, "what_ifs": list(options.what_if), **of_streams}
    compared = store_or_cache_all(options, compared, inputs=inputs)
    print("\n\n".join(filter(None, (summary(each, options.top) for each in compared))), flush=True)
    return int(options.fail_on == "rejected" and any(not each.rejected.isEmpty() for each in compared))


if __name__ == "__main__":
    sys.exit(main())
