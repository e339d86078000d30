"""Say how many consumers each group needs, by what is written to its partitions and what one consumer can handle."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click
from pyspark.sql import DataFrame

from spark_assign import Fleet, SparkAssignError, size
from spark_assign.advice.size import HEADROOM, OWN, QUANTILE
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet, store_or_cache, with_capacities
from spark_assign.cli.options import (
    compose_options,
    details,
    fail_on,
    input_options,
    named_values,
    output_options,
    top,
)
from spark_assign.report.listed_groups import first_groups_with_steps, no_match_text
from spark_assign.report.text.loads_and_sizes import autoscaler, format_curves, summarize_sizes
from spark_assign.tables.advice import SIZE_TABLES
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import GROUP_KEY

EXIT_CODES = """Exit codes: 0 done; 1 groups were rejected and --fail-on rejected is given; 2 wrong usage or tables;
3 failure."""


@job(__doc__, EXIT_CODES, name="size", input_errors=(SparkAssignError, ValueError))
@input_options()
@compose_options(
    click.option("--assignors", metavar="A,B,…", help="by which assignors (default: each group's own)"),
    click.option("--members", metavar="N,N,…", help="numbers of members to look at (default: those that tell most)"),
    click.option(
        "--headroom",
        type=float,
        default=HEADROOM,
        show_default=True,
        help="share of its load that a member must be able to read beside it",
    ),
    click.option(
        "--quantile",
        type=float,
        default=QUANTILE,
        show_default=True,
        help="of rates, by which members are measured",
    ),
)
@named_values("--capacity", "GLOB=RATE", "messages a second that one member handles, by pattern; first match wins")
@details("the curves")
@click.option("--keda", is_flag=True, help="With --details: print a KEDA ScaledObject as YAML.")
@output_options()
@fail_on("rejected", "groups are rejected")
@top("groups of each verdict in the summary")
def main(options: Options) -> int:
    """Load, call, write, print."""
    if options.keda and not options.details:
        raise ConfigError("--keda needs --details.")
    return on_fleet("size", options, __file__, _run, loads=True)


def _run(options: Options, place: str | None, fleet: Fleet) -> int:
    fleet = with_capacities(fleet, options.capacity)
    found = size(
        fleet,
        options.assignors.split(",") if options.assignors else OWN,
        members=_numbers(options.members) if options.members else (),
        headroom=options.headroom,
        quantile=options.quantile,
    )
    arguments = {name: getattr(options, name) for name in ("assignors", "members", "headroom", "quantile", "capacity")}
    tables = store_or_cache(options, found, schemas=SIZE_TABLES, inputs={"fleet": place, **arguments})
    print(_chosen(options, tables) if options.details else _summary(options, tables), flush=True)
    return int(options.fail_on == "rejected" and not tables["rejected"].isEmpty())


def _numbers(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--members {text}: expected whole numbers with commas between them") from error


def _summary(options: Options, tables: Mapping[str, DataFrame]) -> str:
    return summarize_sizes(tables["sizes"], tables["rejected"], options.top)


def _chosen(options: Options, tables: Mapping[str, DataFrame]) -> str:
    """The curves of the groups that match, as many groups as --top says; or their numbers for KEDA."""
    by = ("assignor", "members")
    sizes, curves = first_groups_with_steps(
        tables["sizes"], tables["curves"], options.details, GROUP_KEY, options.top, by
    )
    if not sizes:
        return no_match_text(options.details)
    if not options.keda:
        return format_curves(sizes, curves)
    return "\n---\n".join(
        autoscaler(row) if row["needed"] else f"# {row['cluster']}/{row['group_id']}: {row['reason']}" for row in sizes
    )


if __name__ == "__main__":
    sys.exit(main())
