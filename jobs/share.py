"""Plan share groups (KIP-932): which members have which partitions; several members can share one."""

from __future__ import annotations

import sys

from spark_assign import SparkAssignError
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import read_given_fleet, show_plan
from spark_assign.cli.options import exit_codes, input_options, result_options
from spark_assign.report.text.share_and_streams import summarize_share_plan
from spark_assign.share import plan_share
from spark_assign.tables.share import PLAN_TABLES


@job(__doc__, exit_codes(), name="share", input_errors=(SparkAssignError, ValueError))
@input_options(sample=False)
@result_options()
def main(options: Options) -> int:
    """Plans the share groups of a fleet."""
    planned = plan_share(read_given_fleet("share", options))
    return show_plan(options, planned, summarize_share_plan, schemas=PLAN_TABLES, inputs={"fleet": options.fleet})


if __name__ == "__main__":
    sys.exit(main())
