"""Find what changed between two snapshots or plans: members, ownership, topics, and balance."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from spark_assign import Drift, Fleet, find_drift
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import store_and_read
from spark_assign.cli.options import RUN, exit_codes, fail_on, format_options, location_option, output_options, top
from spark_assign.report.text.comparison import summarize_drift
from spark_assign.sources.files.tables import read_fleet
from spark_assign.spark.caching import cached
from spark_assign.stores.locations import split_run_id
from spark_assign.stores.run_store import check_output, previous_run, read_run
from spark_assign.tables.comparison import DRIFT_TABLES
from spark_assign.tables.errors import ConfigError

PREVIOUS = "previous"
STATES = f"""LOCATION is a snapshot, LOCATION@RUN_ID a stored plan; the states can be of different kinds, for
example a plan and a later snapshot. {PREVIOUS} is the run before that of --after, in the order of run IDs; if there is
none, every group counts as added."""


@job(__doc__, f"{STATES} {exit_codes('groups or topics changed', 'changes')}", name="diff")
@location_option("--before", f"Earlier state: a snapshot, a stored plan, or {PREVIOUS}.", metavar=RUN, required=True)
@location_option("--after", "Later state: a snapshot or a stored plan.", metavar=RUN, required=True)
@format_options("files of the snapshots")
@output_options()
@fail_on("changes", "a group or topic has changed")
@top("groups and topics in the summary")
def main(options: Options) -> int:
    """Loads both states, finds the drift, writes the tables, and prints the summary."""
    if options.output:
        check_output(options.output)
    spark = spark_session("diff", options)
    after = _read_state(options, spark, options.after)
    if options.before == PREVIOUS:
        options.before = _previous(options, spark)
    before: Fleet | Mapping[str, DataFrame]
    if options.before is None and not isinstance(after, Fleet):  # before the first run, there are no groups
        before = {name: table.limit(0) for name, table in after.items()}
    else:
        before = _read_state(options, spark, options.before)
    drift = find_drift(before, after)
    tables = _write(options, drift) if options.output else {"groups": cached(drift.groups), "topics": drift.topics}
    print(f"From {options.before or 'no earlier run'} to {options.after}")
    print(summarize_drift(tables["groups"], tables["topics"], options.top), flush=True)
    return int(options.fail_on == "changes" and _has_changes(tables["groups"], tables["topics"]))


def _has_changes(groups: DataFrame, topics: DataFrame) -> bool:
    return not groups.where("change <> 'unchanged'").isEmpty() or not topics.isEmpty()


def _read_state(options: Options, spark: SparkSession, text: str) -> Fleet | Mapping[str, DataFrame]:
    place, run_id = split_run_id(text)
    if run_id is not None:
        return read_run(spark, place, run_id).tables
    return read_fleet(spark, place, format=options.format, options=options.option)


def _previous(options: Options, spark: SparkSession) -> str | None:
    place, run_id = split_run_id(options.after)
    if run_id is None:
        raise ConfigError(
            f"--before {PREVIOUS} requires a stored run, but --after {options.after} is a snapshot. Use --after "
            f"{options.after}@RUN_ID."
        )
    before = previous_run(spark, place, run_id)
    return None if before is None else f"{place}@{before}"


def _write(options: Options, drift: Drift) -> Mapping[str, DataFrame]:
    """Returns the tables, written and read back."""
    return store_and_read(
        options,
        {name: getattr(drift, name) for name in DRIFT_TABLES},
        schemas=DRIFT_TABLES,
        inputs={"before": options.before, "after": options.after},
        found=(lambda read: _has_changes(read("groups"), read("topics"))) if options.fail_on else None,
    )


if __name__ == "__main__":
    sys.exit(main())
