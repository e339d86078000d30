"""Say what goes through each partition: the hottest ones, and how long groups that are behind need to catch up."""

from __future__ import annotations

import sys

import click
from pyspark.sql import DataFrame, SparkSession

from spark_assign import Offsets, SparkAssignError, loads_between
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import store_run
from spark_assign.cli.options import PLACE, input_format, named_values, top, writes
from spark_assign.report.text.loads_and_sizes import summarize_loads
from spark_assign.sources.files.tables import read_fleet
from spark_assign.spark.caching import cached
from spark_assign.stores.run_store import check_output, read_run
from spark_assign.tables.advice import LOADS_TABLES
from spark_assign.tables.errors import ConfigError

EXIT_CODES = """Without --before the loads are those that a snapshot has read itself (snapshot --every, --rates-since);
with it they are made of the offsets of two snapshots. Exit codes: 0 done; 2 wrong usage or tables; 3 failure."""


@job(__doc__, EXIT_CODES, name="loads", wrong=(SparkAssignError, ValueError))
@click.option("--before", type=PLACE, metavar="PLACE", help="an earlier snapshot: the loads are between the two")
@click.option("--fleet", type=PLACE, metavar="PLACE", required=True, help="the snapshot: folder, URI or catalog prefix")
@input_format("of the snapshots' files: parquet, csv, json, or any that Spark knows")
@named_values("--option", "K=V", "a reader option of Spark")
@writes()
@top("partitions and groups in the summary")
def main(options: Options) -> int:
    """Load, call, write, print."""
    if options.output:
        check_output(options.output)
    spark = spark_session("loads", options)
    found = _loads(options, spark)
    if options.output:
        inputs = {"before": options.before, "fleet": options.fleet}
        store_run(options, {"loads": found}, schemas=LOADS_TABLES, inputs=inputs)
        stored = read_run(spark, options.output, options.run_id, schemas=LOADS_TABLES)
        found = stored.tables["loads"]
    else:
        found = cached(found)
    print(summarize_loads(found, options.top), flush=True)
    return 0


def _loads(options: Options, spark: SparkSession) -> DataFrame:
    how = {"format": options.format, "options": options.option}
    if options.before:
        sides = [Offsets.read(spark, place, **how) for place in (options.before, options.fleet)]
        return loads_between(*sides)
    loads = read_fleet(spark, options.fleet, **how).loads
    if loads is None:
        raise ConfigError(
            f"{options.fleet} has no table loads: give an earlier snapshot by --before, or take the snapshot with "
            "--every 60s or --rates-since 10m"
        )
    return loads


if __name__ == "__main__":
    sys.exit(main())
