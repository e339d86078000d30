"""Compare assignors for every group of a fleet, as it is and after changes, and recommend one with the reason."""

from __future__ import annotations

import sys
from functools import partial

import click
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign import Fleet, SparkAssignError, compare
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet, store_run
from spark_assign.cli.options import compose_options, fail_on, input_options, milliseconds, output_options, top
from spark_assign.comparison.what_if import Change, read_change
from spark_assign.report.text.comparison import summarize_comparison
from spark_assign.simulation.settings import Settings
from spark_assign.spark.caching import cached
from spark_assign.stores.run_store import read_run
from spark_assign.tables.groups import COMPARE_TABLES

ASSIGNORS = "those of a group's own protocol: the clients' four, or uniform,server-range where the broker assigns"
TIMES = ("heartbeat_interval_ms", "poll_interval_ms", "revoke_ms", "restore_ms")
CHANGES = """Changes: as-is (the default); leave:GROUPS:NUMBER and join:GROUPS:NUMBER: so many members of each group
leave or join; leave-members:MEMBERS: a host goes; partitions:TOPICS:COUNT or partitions:TOPICS:xFACTOR. GROUPS, MEMBERS
and TOPICS are shell patterns. A name of its own comes before it: --change 'host down=leave-members:consumer-10.2.*'."""
EXIT_CODES = """Exit codes: 0 done; 1 groups were rejected and --fail-on rejected is given; 2 wrong usage or tables;
3 failure."""


@job(__doc__, f"{CHANGES} {EXIT_CODES}", name="compare", input_errors=(SparkAssignError, ValueError))
@input_options()
@click.option("--assignors", metavar="A,B,…", help=f"whom to compare, for all groups (default: {ASSIGNORS})")
@click.option("--change", metavar="CHANGE", multiple=True, help="what happens first, see below; repeatable")
@compose_options(*(milliseconds(name, "for paused_partition_seconds; see simulate") for name in TIMES))
@output_options()
@fail_on("rejected", "groups are rejected")
@top("groups in the summary of each change")
def main(options: Options) -> int:
    """Load, call, write, print."""
    changes = [read_change(text) for text in options.change or ("as-is",)]  # before Spark takes its time to start
    return on_fleet("compare", options, __file__, partial(_run, changes=changes))


def _run(options: Options, place: str | None, fleet: Fleet, changes: list[Change]) -> int:
    times = {name: getattr(options, name) for name in TIMES if getattr(options, name) is not None}
    assignors = options.assignors.split(",") if options.assignors is not None else None
    comparison = compare(fleet, assignors, changes, Settings(**times))
    comparison = _write(options, place, comparison) if options.output else cached(comparison)
    print(summarize_comparison(comparison, options.top), flush=True)
    return int(options.fail_on == "rejected" and not _rejected(comparison).isEmpty())


def _rejected(comparison: DataFrame) -> DataFrame:
    rows = comparison.where(F.col("rejected").isNotNull())
    return rows.withColumnsRenamed({"rejected": "code", "reason": "detail"})


def _write(options: Options, place: str | None, comparison: DataFrame) -> DataFrame:
    """The comparison written and read back."""
    comparison = cached(comparison)  # two tables are written of it
    tables = {"comparison": comparison, "rejected": _rejected(comparison)}
    inputs = {"fleet": place, "assignors": options.assignors, "changes": list(options.change)}
    store_run(options, tables, schemas=COMPARE_TABLES, inputs=inputs, found=options.fail_on)
    stored = read_run(comparison.sparkSession, options.output, options.run_id, schemas=COMPARE_TABLES)
    return stored.tables["comparison"]


if __name__ == "__main__":
    sys.exit(main())
