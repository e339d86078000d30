"""Say what changed between two snapshots or two plans: members, ownership, topics, and how balance went."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click
from pyspark.sql import DataFrame, SparkSession

from spark_assign import Drift, Fleet, drift
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import store_run
from spark_assign.cli.options import PLACE, fail_on, input_format, named_values, together, top, writes
from spark_assign.report.text.comparison import summarize_drift
from spark_assign.sources.files.tables import read_fleet
from spark_assign.spark.caching import cached
from spark_assign.stores.locations import place_and_run
from spark_assign.stores.run_store import check_output, previous_run, read_run
from spark_assign.tables.comparison import DRIFT_TABLES
from spark_assign.tables.errors import ConfigError

EXIT_CODES = """PLACE is a snapshot, PLACE@ID a run of the plans that are stored there; the two sides need not be of one
kind, so that a plan can be held against what came of it. --from previous is the run whose name comes before that of
--to; before the first run there is nothing, so that every group of it came. Exit codes: 0 done; 1 something has changed
and --fail-on changes is given; 2 wrong usage or tables; 3 failure."""

PREVIOUS = "previous"
RENAMED = {"--plans": "in --from PLACE@ID and --to PLACE@ID"}


@job(__doc__, EXIT_CODES, name="drift", renamed=RENAMED)
@together(
    *(
        click.option(
            flag, name, type=PLACE, metavar="PLACE[@ID]", required=True, help=f"{which} snapshot, or run{more}"
        )
        for flag, name, which, more in (
            ("--from", "before", "the earlier", f"; or {PREVIOUS}"),
            ("--to", "after", "the later", ""),
        )
    )
)
@input_format("of the snapshots' files: parquet, csv, json, or any that Spark knows")
@named_values("--option", "K=V", "a reader option of Spark")
@writes()
@fail_on("changes", "exit code 1 where any group or topic has changed")
@top("groups and topics in the summary")
def main(options: Options) -> int:
    """Load, call, write, print."""
    if options.output:
        check_output(options.output)
    spark = spark_session("drift", options)
    after = _side(options, spark, options.after)
    if options.before == PREVIOUS:
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
    return int(options.fail_on == "changes" and _changed(tables["groups"], tables["topics"]))


def _changed(groups: DataFrame, topics: DataFrame) -> bool:
    return not groups.where("change <> 'same'").isEmpty() or not topics.isEmpty()


def _side(options: Options, spark: SparkSession, text: str) -> Fleet | Mapping[str, DataFrame]:
    place, run_id = place_and_run(text)
    if run_id is not None:
        return read_run(spark, place, run_id).tables
    return read_fleet(spark, place, format=options.format, options=options.option)


def _previous(options: Options, spark: SparkSession) -> str | None:
    place, run_id = place_and_run(options.after)
    if run_id is None:
        raise ConfigError(f"--from {PREVIOUS}: --to {options.after} is a snapshot; name a run, {options.after}@ID")
    before = previous_run(spark, place, run_id)
    return None if before is None else f"{place}@{before}"


def _write(options: Options, found: Drift) -> Mapping[str, DataFrame]:
    """The tables written and read back."""
    store_run(
        options,
        {name: getattr(found, name) for name in DRIFT_TABLES},
        schemas=DRIFT_TABLES,
        inputs={"from": options.before, "to": options.after},
        found=(lambda read: _changed(read("groups"), read("topics"))) if options.fail_on else None,
    )
    return read_run(found.groups.sparkSession, options.output, options.run_id, schemas=DRIFT_TABLES).tables


if __name__ == "__main__":
    sys.exit(main())
