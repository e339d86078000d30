"""Plan share groups (KIP-932): which members have which partitions; several members can share one."""

from __future__ import annotations

import sys

from spark_assign import SparkAssignError
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import store_run
from spark_assign.cli.options import exit_codes, input_options, result_options
from spark_assign.report.text.share_and_streams import summarize_share_plan
from spark_assign.share import plan_share
from spark_assign.sources.files.tables import read_fleet
from spark_assign.stores.run_store import check_output
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.share import PLAN_TABLES


@job(__doc__, exit_codes(), name="share", input_errors=(SparkAssignError, ValueError))
@input_options(sample=False)
@result_options()
def main(options: Options) -> int:
    """Plans the share groups of a fleet."""
    if not (options.fleet or options.table):
        raise ConfigError("No fleet given. Use --fleet LOCATION.")
    spark = spark_session("share", options)
    if options.output:
        check_output(options.output)
    given = {"format": options.format, "options": options.option, "tables": options.table}
    planned = plan_share(read_fleet(spark, options.fleet, **given))
    text, num_rejected = summarize_share_plan(planned, options.top)
    print(text, flush=True)
    if options.output:
        tables = {name: getattr(planned, name) for name in PLAN_TABLES}
        store_run(options, tables, schemas=PLAN_TABLES, inputs={"fleet": options.fleet}, found=options.fail_on)
    planned.unpersist()
    return 1 if options.fail_on == "rejected" and num_rejected else 0


if __name__ == "__main__":
    sys.exit(main())
