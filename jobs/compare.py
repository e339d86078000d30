"""Compare assignors for every group of a fleet, as it is and after changes, and recommend one with the reason."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_assign import Fleet, SparkAssignError, compare
from spark_assign.caching import cached
from spark_assign.command import pairs, run_job
from spark_assign.protocol.settings import Settings
from spark_assign.report.comparison import summarize_comparison
from spark_assign.schemas import COMPARE_TABLES
from spark_assign.sinks.plan_store import check_output, read_plan, write_plan
from spark_assign.sources.small import interpreted
from spark_assign.sources.tables import read_fleet
from spark_assign.what_if import Change, read_change

SAMPLE = Path(__file__).resolve().parents[1] / "conf" / "sample-fleet"
ASSIGNORS = "range,roundrobin,sticky,cooperative-sticky"
TIMES = ("heartbeat_interval_ms", "poll_interval_ms", "revoke_ms", "restore_ms")
CHANGES = """changes: as-is (the default); leave:GROUPS:NUMBER and join:GROUPS:NUMBER: so many members of each group
leave or join; leave-members:MEMBERS: a host goes; partitions:TOPICS:COUNT or partitions:TOPICS:xFACTOR. GROUPS, MEMBERS
and TOPICS are shell patterns. A name of its own comes before it: --change 'host down=leave-members:consumer-10.2.*'."""
EXIT_CODES = """exit codes: 0 done; 1 groups were rejected and --fail-on rejected is given; 2 wrong usage or tables;
3 failure. Without --fleet the shipped sample fleet is compared."""


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="compare", description=__doc__, epilog=f"{CHANGES} {EXIT_CODES}")
    add = parser.add_argument
    add("--fleet", metavar="PLACE", help="folder, URI or catalog prefix of the fleet's tables")
    add("--format", metavar="NAME", help="of the fleet's files: parquet, csv, json, or any that Spark knows")
    add("--option", metavar="K=V", action="append", help="a reader option of Spark; may be given again")
    add("--table", metavar="NAME=PLACE", action="append", help="one table from elsewhere; may be given again")
    add("--assignors", metavar="A,B,…", default=ASSIGNORS, help=f"whom to compare (default: {ASSIGNORS})")
    add("--change", metavar="CHANGE", action="append", help="what happens first, see below; may be given again")
    for name in TIMES:
        add(f"--{name.replace('_', '-')}", metavar="MS", type=int, help="for partition_seconds_paused; see simulate")
    add("--output", metavar="PLACE", help="folder, URI or catalog prefix for the comparison (default: print only)")
    add("--output-format", metavar="NAME", help="parquet (default), csv, json, or any that Spark knows")
    add("--output-option", metavar="K=V", action="append", help="a writer option of Spark; may be given again")
    add("--run-id", metavar="ID", help="the run's name; the same name again replaces it (default: the time)")
    add("--fail-on", choices=["rejected"], help="exit code 1 for rejected groups")
    add("--top", metavar="N", type=int, default=10, help="groups in the summary of each change (default: 10)")
    add("--verbose", action="store_true", help="tracebacks")
    return parser.parse_args(argv)


def run(options: argparse.Namespace) -> int:
    """Load, call, write, print."""
    changes = [read_change(text) for text in options.change or ["as-is"]]  # before Spark takes its time to start
    if options.output:
        check_output(options.output)
    spark = SparkSession.builder.appName("spark_assign compare").getOrCreate()
    place, tables = options.fleet or (None if options.table else str(SAMPLE)), pairs("--table", options.table)
    with interpreted(spark, [*([place] if place else []), *(tables or {}).values()]):
        given = {"format": options.format, "options": pairs("--option", options.option), "tables": tables}
        return _run(options, read_fleet(spark, place, **given), changes)


def _run(options: argparse.Namespace, fleet: Fleet, changes: list[Change]) -> int:
    times = {name: getattr(options, name) for name in TIMES if getattr(options, name) is not None}
    comparison = compare(fleet, options.assignors.split(","), changes, Settings(**times))
    comparison = _write(options, comparison) if options.output else cached(comparison)
    print(summarize_comparison(comparison, options.top), flush=True)
    return int(options.fail_on == "rejected" and not _rejected(comparison).isEmpty())


def _rejected(comparison: DataFrame) -> DataFrame:
    rows = comparison.where(F.col("rejected").isNotNull())
    return rows.withColumnsRenamed({"rejected": "code", "reason": "detail"})


def _write(options: argparse.Namespace, comparison: DataFrame) -> DataFrame:
    """The comparison written and read back."""
    comparison = cached(comparison)  # two tables are written of it
    run_id = options.run_id or time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    inputs: dict[str, Any] = {"fleet": options.fleet, "assignors": options.assignors, "changes": options.change}
    write_plan(
        SimpleNamespace(comparison=comparison, rejected=_rejected(comparison)),
        options.output,
        run_id=run_id,
        format=options.output_format,
        inputs=inputs,
        options=pairs("--output-option", options.output_option),
        schemas=COMPARE_TABLES,
    )
    print(f"Written to {options.output} as run_id={run_id}", flush=True)
    stored = read_plan(comparison.sparkSession, options.output, run_id, schemas=COMPARE_TABLES)
    return stored.tables["comparison"]


def main(argv: list[str] | None = None) -> int:
    """The exit code; see --help."""
    options = parse(argv)
    return run_job("compare", partial(run, options), verbose=options.verbose, wrong=(SparkAssignError, ValueError))


if __name__ == "__main__":
    sys.exit(main())
