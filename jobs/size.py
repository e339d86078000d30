"""Compute how many consumers each group needs, from its message rates and the capacity of one consumer."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click
from pyspark.sql import DataFrame

from spark_assign import Fleet, SparkAssignError, size_groups
from spark_assign.advice.size import DEFAULTS, OWN
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet, store_or_cache, with_capacities
from spark_assign.cli.options import capacity_option, details, exit_codes, input_options, result_options
from spark_assign.report.listed_groups import first_groups_with_steps, no_match_text
from spark_assign.report.text.loads_and_sizes import autoscaler, format_curves, summarize_sizes
from spark_assign.tables.advice import SIZE_TABLES
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import GROUP_KEY


@job(__doc__, exit_codes(), name="size", input_errors=(SparkAssignError, ValueError))
@input_options()
@click.option("--assignors", metavar="A,B,…", help="Assignors to size with (default: each group's own).")
@click.option(
    "--member-counts", metavar="N,N,…", help="Numbers of members to evaluate (default: the most informative ones)."
)
@click.option(
    "--headroom",
    type=float,
    default=DEFAULTS.headroom,
    show_default=True,
    help="Reserve of a member, as a share of its load, with which it catches up after a pause.",
)
@click.option(
    "--quantile",
    type=float,
    default=DEFAULTS.quantile,
    show_default=True,
    help="Quantile of the message rate that members must be able to handle, from 0 to 1.",
)
@capacity_option()
@details("the curves")
@click.option("--keda", is_flag=True, help="With --details: print a KEDA ScaledObject as YAML.")
@result_options("groups of each verdict in the summary")
def main(options: Options) -> int:
    """Sizes the groups, writes or keeps the tables, and prints them."""
    if options.keda and not options.details:
        raise ConfigError("--keda needs --details.")
    return on_fleet("size", options, __file__, _run, loads=True)


def _run(options: Options, place: str | None, fleet: Fleet) -> int:
    fleet = with_capacities(fleet, options.capacity)
    result = size_groups(
        fleet,
        options.assignors.split(",") if options.assignors else OWN,
        member_counts=_read_counts(options.member_counts) if options.member_counts else (),
        headroom=options.headroom,
        quantile=options.quantile,
    )
    arguments = {
        name: getattr(options, name) for name in ("assignors", "member_counts", "headroom", "quantile", "capacity")
    }
    tables = store_or_cache(options, result, schemas=SIZE_TABLES, inputs={"fleet": place, **arguments})
    print(_details(options, tables) if options.details else _summary(options, tables), flush=True)
    return int(options.fail_on == "rejected" and not tables["rejected"].isEmpty())


def _read_counts(text: str) -> list[int]:
    try:
        return [int(count) for count in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--member-counts {text}: expected whole numbers, separated by commas") from error


def _summary(options: Options, tables: Mapping[str, DataFrame]) -> str:
    return summarize_sizes(tables["sizes"], tables["rejected"], options.top)


def _details(options: Options, tables: Mapping[str, DataFrame]) -> str:
    """Returns the curves of the first `--top` groups that match `--details`, or their KEDA objects."""
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
