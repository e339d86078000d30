"""Compute what groups read across zones, its cost per day, and which assignors, settings, or replicas reduce it."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click
from pyspark.sql import DataFrame

from spark_assign import Fleet, SparkAssignError, measure_zone_traffic
from spark_assign.advice.zones import CHANGES, DEFAULTS, changes
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet, store_or_cache
from spark_assign.cli.options import details, exit_codes, input_options, result_options
from spark_assign.replicas import tool_files, write_tool_files
from spark_assign.report.listed_groups import no_match_text, rows_of_first_groups
from spark_assign.report.text.zones import format_zone_options, summarize_zones
from spark_assign.stores.locations import is_path, join
from spark_assign.tables.advice import ZONES_TABLES


@job(__doc__, exit_codes(), name="zones", input_errors=(SparkAssignError, ValueError))
@input_options()
@click.option(
    "--price-per-gb",
    metavar="N",
    type=float,
    default=DEFAULTS.price_per_gb,
    help="Cost per gigabyte (10^9 bytes) of cross-zone traffic (default: 0.02, AWS's 0.01 USD in each direction).",
)
@click.option("--currency", metavar="NAME", default=DEFAULTS.currency, help="Currency of all prices (default: USD).")
@click.option(
    "--min-daily-savings",
    metavar="N",
    type=float,
    default=DEFAULTS.min_daily_savings,
    help="Minimum savings per day for a change to be recommended (default: 0.01).",
)
@click.option(
    "--follower-fetching",
    is_flag=True,
    help="Brokers have replica.selector.class=…RackAwareReplicaSelector today.",
)
@details("all read options")
@result_options("groups and replica moves in the summary")
def main(options: Options) -> int:
    """Measures the traffic, writes or keeps the tables, and prints them."""
    return on_fleet("zones", options, __file__, _run, loads=True)


def _run(options: Options, location: str | None, fleet: Fleet) -> int:
    names = ("price_per_gb", "currency", "min_daily_savings", "follower_fetching")
    arguments = {name: getattr(options, name) for name in names}
    result = measure_zone_traffic(fleet, **arguments)
    tables = store_or_cache(options, result, schemas=ZONES_TABLES, inputs={"fleet": location, **arguments})
    print(_details(options, tables) if options.details else _summary(options, tables), flush=True)
    if options.output and is_path(options.output):
        _write_files(options, tables["replica_moves"])
    return int(options.fail_on == "rejected" and not tables["rejected"].isEmpty())


def _summary(options: Options, tables: Mapping[str, DataFrame]) -> str:
    zones, moves, rejected = (tables[name] for name in ("zones", "replica_moves", "rejected"))
    return summarize_zones(zones, moves, rejected, options.top, follower_fetching=options.follower_fetching)


def _details(options: Options, tables: Mapping[str, DataFrame]) -> str:
    """Returns the read options of the first `--top` groups that match `--details`."""
    rows = rows_of_first_groups(tables["zones"], options.details, options.top)
    return format_zone_options(rows) if rows else no_match_text(options.details)


def _write_files(options: Options, moves: DataFrame) -> None:
    """Writes the replica moves as files for Kafka's tools, each kind to its own folder."""
    place = join(options.output, "json")
    written: list[str] = []
    for kind in CHANGES:
        files = tool_files(changes(moves, kind, follower_fetching=options.follower_fetching))
        written += write_tool_files(files, join(place, kind))
    options.outcome.locations["files"] = place
    print("\n".join(["", f"{len(written)} files for Kafka's tools:", *written[:10]]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
