"""Say what changed between two snapshots or two plans: members, ownership, topics, and how balance went."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from spark_assign import Drift, Fleet, drift
from spark_assign.caching import cached
from spark_assign.command import run_job
from spark_assign.errors import ConfigError
from spark_assign.places import is_path
from spark_assign.report.drift import summarize_drift
from spark_assign.schemas import DRIFT_TABLES
from spark_assign.sinks.plan_store import check_output, read_plan, run_before, write_plan
from spark_assign.sources.tables import read_fleet

EXIT_CODES = """With --plans, --from and --to name runs of that plan store; what is a folder (./snapshot) is a snapshot
even then, so that a plan can be held against what came of it. --from previous is the run whose name comes before that
of --to; before the first run there is nothing, so that every group of it came. exit codes: 0 done; 1 something has
changed and --fail-on changes is given; 2 wrong usage or tables; 3 failure."""

PREVIOUS = "previous"


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="drift", description=__doc__, epilog=EXIT_CODES)
    add = parser.add_argument
    add(
        "--from", dest="before", metavar="PLACE_OR_RUN", required=True, help="the earlier snapshot, or run; or previous"
    )
    add("--to", dest="after", metavar="PLACE_OR_RUN", required=True, help="the later snapshot, or run")
    add("--plans", metavar="PLACE", help="folder, URI or catalog prefix that plans were written to")
    add("--format", metavar="NAME", help="of the snapshots' files: parquet, csv, json, or any that Spark knows")
    add("--output", metavar="PLACE", help="folder, URI or catalog prefix for the tables (default: print only)")
    add("--output-format", metavar="NAME", help="parquet (default), csv, json, or any that Spark knows")
    add("--run-id", metavar="ID", help="the run's name; the same name again replaces it (default: the time)")
    add("--fail-on", choices=["changes"], help="exit code 1 where any group or topic has changed")
    add("--top", metavar="N", type=int, default=10, help="groups and topics in the summary (default: 10)")
    add("--verbose", action="store_true", help="tracebacks")
    return parser.parse_args(argv)


def run(options: argparse.Namespace) -> int:
    """Load, call, write, print."""
    if options.output:
        check_output(options.output)
    spark = SparkSession.builder.appName("spark_assign drift").getOrCreate()
    after = _side(options, spark, options.after)
    if options.plans and options.before == PREVIOUS:
        options.before = _previous(options, spark)
    before: Fleet | Mapping[str, DataFrame]
    if options.before is None and not isinstance(after, Fleet):  # there was nothing before the first run
        before = {name: table.limit(0) for name, table in after.items()}
    else:
        before = _side(options, spark, options.before)
    found = drift(before, after)
    tables = _write(options, found) if options.output else {"groups": cached(found.groups), "topics": found.topics}
    print(f"From {options.before or 'nothing'} to {options.after}")
    print(summarize_drift(tables["groups"], tables["topics"], options.top), flush=True)
    changed = not tables["groups"].where("change <> 'same'").isEmpty() or not tables["topics"].isEmpty()
    return int(options.fail_on == "changes" and changed)


def _side(options: argparse.Namespace, spark: SparkSession, place: str) -> Fleet | Mapping[str, DataFrame]:
    if options.plans and not is_path(place):
        return read_plan(spark, options.plans, place).tables
    return read_fleet(spark, place, format=options.format)


def _previous(options: argparse.Namespace, spark: SparkSession) -> str | None:
    if is_path(options.after):
        raise ConfigError(f"--from {PREVIOUS}: --to {options.after} is a snapshot; name a run of {options.plans}")
    return run_before(spark, options.plans, options.after)


def _write(options: argparse.Namespace, found: Drift) -> Mapping[str, DataFrame]:
    """The tables written and read back."""
    run_id = options.run_id or time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    inputs = {"from": options.before, "to": options.after, "plans": options.plans}
    form = options.output_format
    write_plan(found, options.output, run_id=run_id, format=form, inputs=inputs, schemas=DRIFT_TABLES)
    print(f"Written to {options.output} as run_id={run_id}", flush=True)
    return read_plan(found.groups.sparkSession, options.output, run_id, schemas=DRIFT_TABLES).tables


def main(argv: list[str] | None = None) -> int:
    """The exit code; see --help."""
    options = parse(argv)
    return run_job("drift", partial(run, options), verbose=options.verbose)


if __name__ == "__main__":
    sys.exit(main())
