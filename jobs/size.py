"""Say how many consumers each group needs, by what is written to its partitions and what one consumer can handle."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click
from pyspark.sql import DataFrame

from spark_assign import Fleet, SparkAssignError, size
from spark_assign.advising.schemas import SIZE_TABLES
from spark_assign.advising.size import HEADROOM, OWN, QUANTILE
from spark_assign.command.job import Options, job, spark_session
from spark_assign.command.options import (
    fail_on,
    fleet_or_sample,
    named_values,
    patterns,
    reads,
    tables_with_loads,
    together,
    top,
    writes,
)
from spark_assign.command.storing import store_or_keep
from spark_assign.errors import ConfigError
from spark_assign.report.chosen import no_match, with_steps
from spark_assign.report.size import autoscaler, curves_in_words, summarize_sizes
from spark_assign.schemas import GROUP_KEY
from spark_assign.sinks.plan_store import check_output
from spark_assign.sources.small import interpreted
from spark_assign.sources.tables import read_fleet

EXIT_CODES = """Exit codes: 0 done; 1 groups were rejected and --fail-on rejected is given; 2 wrong usage or tables;
3 failure."""


@job(__doc__, EXIT_CODES, name="size", wrong=(SparkAssignError, ValueError))
@reads()
@together(
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
@patterns("--group", "the curves of these groups, in place of the summary")
@click.option("--keda", is_flag=True, help="of --group: numbers for KEDA, as YAML")
@writes()
@fail_on("rejected", "exit code 1 for rejected groups")
@top("groups of each verdict in the summary")
def main(options: Options) -> int:
    """Load, call, write, print."""
    if options.keda and not options.group:
        raise ConfigError("--keda goes with --group: it is for the groups that you name")
    if options.output:
        check_output(options.output)
    place = fleet_or_sample(options, __file__)
    tables = tables_with_loads(options, __file__)
    spark = spark_session("size", options)
    with interpreted(spark, [*([place] if place else []), *(tables or {}).values()]):
        given = {"format": options.format, "options": options.option, "tables": tables}
        return _run(options, place, read_fleet(spark, place, **given))


def _run(options: Options, place: str | None, fleet: Fleet) -> int:
    for glob, rate in reversed((options.capacity or {}).items()):  # the first one wins
        fleet = fleet.with_capacity(_number(f"--capacity {glob}={rate}", rate), group_id=glob)
    numbers = [each for each in (options.members or "").split(",") if each]
    found = size(
        fleet,
        options.assignors.split(",") if options.assignors else OWN,
        members=[int(_number(f"--members {options.members}", each)) for each in numbers],
        headroom=options.headroom,
        quantile=options.quantile,
    )
    asked = {name: getattr(options, name) for name in ("assignors", "members", "headroom", "quantile", "capacity")}
    tables = store_or_keep(options, found, schemas=SIZE_TABLES, inputs={"fleet": place, **asked})
    print(_chosen(options, tables) if options.group else _summary(options, tables), flush=True)
    return int(options.fail_on == "rejected" and not tables["rejected"].isEmpty())


def _number(said: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"{said}: expected a number") from error


def _summary(options: Options, tables: Mapping[str, DataFrame]) -> str:
    return summarize_sizes(tables["sizes"], tables["rejected"], options.top)


def _chosen(options: Options, tables: Mapping[str, DataFrame]) -> str:
    """The curves of the groups that match, as many groups as --top says; or their numbers for KEDA."""
    by = ("assignor", "members")
    sizes, curves = with_steps(tables["sizes"], tables["curves"], options.group, GROUP_KEY, options.top, by)
    if not sizes:
        return no_match(options.group)
    if not options.keda:
        return curves_in_words(sizes, curves)
    return "\n---\n".join(
        autoscaler(row) if row["needed"] else f"# {row['cluster']}/{row['group_id']}: {row['reason']}" for row in sizes
    )


if __name__ == "__main__":
    sys.exit(main())
