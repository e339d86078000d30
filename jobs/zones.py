"""Say what groups read across zones, what that costs a day, and which assignors, settings or replicas would save it."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click
from pyspark.sql import DataFrame

from spark_assign import Fleet, SparkAssignError, zones
from spark_assign.advice.zones import CHANGES, CURRENCY, PRICE, WORTH, changes
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet, store_or_cache
from spark_assign.cli.options import (
    compose_options,
    details,
    fail_on,
    input_options,
    output_options,
    top,
)
from spark_assign.replicas import tool_files, write_tool_files
from spark_assign.report.listed_groups import no_match_text, rows_of_first_groups
from spark_assign.report.text.zones import format_zone_options, summarize_zones
from spark_assign.stores.locations import is_path, join
from spark_assign.tables.advice import ZONES_TABLES

EXIT_CODES = """Exit codes: 0 done; 1 groups were rejected and --fail-on rejected is given; 2 wrong usage or tables;
3 failure."""


@job(__doc__, EXIT_CODES, name="zones", input_errors=(SparkAssignError, ValueError))
@input_options()
@compose_options(
    click.option(
        "--price",
        metavar="N",
        type=float,
        default=PRICE,
        help="of a gigabyte (10^9 bytes) that crosses a zone (default: 0.02, AWS's 0.01 USD in each direction)",
    ),
    click.option("--currency", metavar="NAME", default=CURRENCY, help="of the price (default: USD)"),
    click.option(
        "--worth",
        metavar="N",
        type=float,
        default=WORTH,
        help="what a change has to save a day to be recommended (default: 0.01)",
    ),
    click.option(
        "--follower-fetching",
        is_flag=True,
        help="brokers have replica.selector.class=…RackAwareReplicaSelector today",
    ),
)
@details("all read options")
@output_options()
@fail_on("rejected", "groups are rejected")
@top("groups and replica moves in the summary")
def main(options: Options) -> int:
    """Load, call, write, print."""
    return on_fleet("zones", options, __file__, _run, loads=True)


def _run(options: Options, place: str | None, fleet: Fleet) -> int:
    arguments = {name: getattr(options, name) for name in ("price", "currency", "worth", "follower_fetching")}
    found = zones(fleet, **arguments)
    tables = store_or_cache(options, found, schemas=ZONES_TABLES, inputs={"fleet": place, **arguments})
    print(_ways(options, tables) if options.details else _summary(options, tables), flush=True)
    if options.output and is_path(options.output):
        _write_files(options, tables["replica_moves"])
    return int(options.fail_on == "rejected" and not tables["rejected"].isEmpty())


def _summary(options: Options, tables: Mapping[str, DataFrame]) -> str:
    found, moves, rejected = (tables[name] for name in ("zones", "replica_moves", "rejected"))
    return summarize_zones(found, moves, rejected, options.top, follower_fetching=options.follower_fetching)


def _ways(options: Options, tables: Mapping[str, DataFrame]) -> str:
    """All ways of the groups that match, as many groups as --top says."""
    rows = rows_of_first_groups(tables["zones"], options.details, options.top)
    return format_zone_options(rows) if rows else no_match_text(options.details)


def _write_files(options: Options, moves: DataFrame) -> None:
    """The replica moves as files for Kafka's tools; those that copy nothing apart."""
    place = join(options.output, "json")
    written: list[str] = []
    for kind in CHANGES:
        files = tool_files(changes(moves, kind, follower_fetching=options.follower_fetching))
        written += write_tool_files(files, join(place, kind))
    options.outcome.locations["files"] = place
    print("\n".join(["", f"{len(written)} files for Kafka's tools:", *written[:10]]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
