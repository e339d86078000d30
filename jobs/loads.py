"""Report the load of partitions: the busiest partitions, and how long groups with lag need to catch up."""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession

from spark_assign import Offsets, SparkAssignError, loads_between
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import store_and_read
from spark_assign.cli.options import (
    exit_codes,
    format_options,
    location_option,
    output_options,
    sample,
    sample_option,
    top,
)
from spark_assign.report.text.loads_and_sizes import summarize_loads
from spark_assign.sources.files.tables import read_fleet
from spark_assign.spark.caching import cached
from spark_assign.stores.run_store import check_output
from spark_assign.tables.advice import LOADS_TABLES
from spark_assign.tables.errors import ConfigError

EXIT_CODES = f"""With --before, the loads are computed from the offsets of both snapshots. Without it, the snapshot must
have read them itself (snapshot --interval or --rates-since). {exit_codes("")}"""


@job(__doc__, EXIT_CODES, name="loads", input_errors=(SparkAssignError, ValueError))
@location_option("--before", "Earlier snapshot: folder, URI, or catalog prefix.")
@location_option("--after", "Snapshot: folder, URI, or catalog prefix.")
@sample_option("fleet with its loads")
@format_options("files of the snapshots")
@output_options()
@top("partitions and groups in the summary")
def main(options: Options) -> int:
    """Parses, loads, computes, writes, and prints."""
    if bool(options.after) == options.sample or (options.before and options.sample):
        raise ConfigError("Use either --after LOCATION, with or without --before, or --sample.")
    if options.output:
        check_output(options.output)
    loads = _loads(options, spark_session("loads", options))
    if options.output:
        inputs = {"before": options.before, "after": options.after}
        loads = store_and_read(options, {"loads": loads}, schemas=LOADS_TABLES, inputs=inputs)["loads"]
    else:
        loads = cached(loads)
    print(summarize_loads(loads, options.top), flush=True)
    return 0


def _loads(options: Options, spark: SparkSession) -> DataFrame:
    if options.sample:
        tables = {"loads": f"{sample(__file__, 'loads')}/loads.csv"}
        of_sample = read_fleet(spark, sample(__file__, "fleet"), tables=tables).loads
        assert of_sample is not None
        return of_sample
    how = {"format": options.format, "options": options.option}
    if options.before:
        return loads_between(*(Offsets.read(spark, place, **how) for place in (options.before, options.after)))
    loads = read_fleet(spark, options.after, **how).loads
    if loads is None:
        raise ConfigError(
            f"{options.after} has no table loads. Name an earlier snapshot with --before, or take the snapshot with "
            "--interval 60s or --rates-since 10m."
        )
    return loads


if __name__ == "__main__":
    sys.exit(main())
