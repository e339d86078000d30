"""Say what changed between two snapshots or two plans: members, ownership, topics, and how balance went."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from spark_assign import Drift, Fleet, drift
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import store_run
from spark_assign.cli.options import (
    RUN,
    compose_options,
    exit_codes,
    fail_on,
    format_options,
    location_option,
    output_options,
    top,
)
from spark_assign.report.text.comparison import summarize_drift
from spark_assign.sources.files.tables import read_fleet
from spark_assign.spark.caching import cached
from spark_assign.stores.locations import split_run_id
from spark_assign.stores.run_store import check_output, previous_run, read_run
from spark_assign.tables.comparison import DRIFT_TABLES
from spark_assign.tables.errors import ConfigError

PREVIOUS = "previous"
EXIT_CODES = f"""LOCATION is a snapshot, LOCATION@RUN_ID a stored plan; the states can be of different kinds, for
example a plan and a later snapshot. {PREVIOUS} is the run before that of --to, in the order of run IDs; if there is
none, every group is new. {exit_codes("something has changed", "changes")}"""


@job(__doc__, EXIT_CODES, name="drift")
@location_option(
    "--from", f"Earlier state: a snapshot, a stored plan, or {PREVIOUS}.", name="before", metavar=RUN, required=True
)
@location_option("--to", "Later state: a snapshot or a stored plan.", name="after", metavar=RUN, required=True)
@compose_options(*format_options("files of the snapshots"))
@output_options()
@fail_on("changes", "a group or topic has changed")
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
    place, run_id = split_run_id(text)
    if run_id is not None:
        return read_run(spark, place, run_id).tables
    return read_fleet(spark, place, format=options.format, options=options.option)


def _previous(options: Options, spark: SparkSession) -> str | None:
    place, run_id = split_run_id(options.after)
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
