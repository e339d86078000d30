"""Recommend changes for the whole fleet, ranked, with their gains, costs, and risks, and without contradictions."""

from __future__ import annotations

import sys

import click

from spark_assign import AdviceParams, Fleet, SparkAssignError, advise
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet, store_or_cache, with_capacities
from spark_assign.cli.options import (
    DURATION,
    TIMES,
    capacity_option,
    details,
    exit_codes,
    given_values,
    input_options,
    result_options,
    time_options,
)
from spark_assign.report.listed_groups import no_match_text, rows_of_first_groups
from spark_assign.report.text.advice import format_advice, format_not_recommended, summarize_advice
from spark_assign.simulation import Settings
from spark_assign.spark.caching import cached
from spark_assign.tables.advice import ADVISE_TABLES

PARAMS = {
    **{name: name for name in ("price_per_gb", "currency", "price_per_consumer_hour", "price_per_paused_hour")},
    **{name: name for name in ("change_cost", "max_payback_months", "deploys_per_month", "min_members")},
    **{name: name for name in ("min_balance_gain", "retention_days", "headroom", "quantile", "follower_fetching")},
    "restart_time": "restart_time_ms",
}
"""Fields of `AdviceParams`, by flag."""


@job(__doc__, exit_codes(), name="advise", input_errors=(SparkAssignError, ValueError))
@input_options()
@capacity_option()
@click.option("--price-per-gb", type=float, help="Cost per gigabyte of cross-zone traffic (default: 0.02).")
@click.option("--currency", metavar="NAME", help="Currency of all prices (default: USD).")
@click.option("--price-per-consumer-hour", type=float, help="Cost per consumer and hour (default: 0.05).")
@click.option(
    "--price-per-paused-hour",
    type=float,
    help="Cost of one partition-hour without consumption, in --currency (default: not counted).",
)
@click.option("--change-cost", type=float, help="One-time cost of any change (default: 60).")
@click.option(
    "--max-payback-months",
    type=float,
    help="Payback period in months. Changes that take longer to pay for themselves aren't advised (default: 12).",
)
@click.option("--deploys-per-month", type=float, help="Rolling restarts of each group per month (default: 4).")
@click.option("--min-members", type=int, help="Minimum number of members to advise (default: 2).")
@click.option(
    "--min-balance-gain",
    type=float,
    help="Minimum reduction of the largest member's load for a rebalance to be advised, from 0 to 1 (default: 0.25).",
)
@click.option(
    "--retention-days",
    type=float,
    help="Retention of topics in days: the data that a moved replica copies (default: 7).",
)
@click.option(
    "--headroom",
    type=float,
    help=f"Reserve of a member, as a share of its load (default: {AdviceParams.headroom}).",
)
@click.option(
    "--quantile",
    type=float,
    help="Quantile of the message rate that members must be able to handle, from 0 to 1 "
    f"(default: {AdviceParams.quantile}).",
)
@click.option("--restart-time", type=DURATION, help="Time that a restarted member is away (default: 30s).")
@click.option(
    "--follower-fetching",
    is_flag=True,
    default=None,
    help="Brokers have replica.selector.class=…RackAwareReplicaSelector today.",
)
@time_options(TIMES)
@details("all advice")
@result_options("recommendations in the summary")
def main(options: Options) -> int:
    """Computes the advice, writes or keeps the tables, and prints them."""
    return on_fleet("advise", options, __file__, _run, loads=True)


def _run(options: Options, location: str | None, fleet: Fleet) -> int:
    fleet = with_capacities(fleet, options.capacity)
    fields = {PARAMS[flag]: value for flag, value in given_values(options, PARAMS).items()}
    times = given_values(options, TIMES)
    result = advise(fleet, AdviceParams(**fields), Settings(**times))
    result = result.with_tagged_rows(cached(result.tagged_rows()))  # a few rows per group, of many passes
    inputs = {"fleet": location, "capacity": options.capacity, "params": fields, "settings": times}
    tables = store_or_cache(options, result, schemas=ADVISE_TABLES, inputs=inputs)
    advice, not_recommended, rejected = (tables[name] for name in ADVISE_TABLES)
    if options.details:
        rows, declined = (
            rows_of_first_groups(table, options.details, options.top) for table in (advice, not_recommended)
        )
        lines = [*format_advice(sorted(rows, key=lambda row: row["rank"])), *format_not_recommended(declined)]
        print("\n".join(lines).lstrip("\n") or no_match_text(options.details), flush=True)
    else:
        print(summarize_advice(advice, not_recommended, rejected, options.top), flush=True)
    return int(options.fail_on == "rejected" and not rejected.isEmpty())


if __name__ == "__main__":
    sys.exit(main())
