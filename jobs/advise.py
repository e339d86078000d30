"""Recommend changes for the whole fleet, ranked, with their gains, costs, and risks, and without contradictions.

With --only, compute one part of it in detail: how many consumers each group needs (size), static or dynamic membership
and a session timeout (membership), what groups read across zones and what reduces it (zones), or which topics, groups,
and subscriptions have no known use, and how to remove them safely (unused).
"""

from __future__ import annotations

import sys

import click

from spark_assign.cli.advice_modes import MEMBERSHIP, ONLY, UNUSED, check_usage, run_mode
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet
from spark_assign.cli.options import (
    DURATION,
    DURATIONS,
    TIMES,
    capacity_option,
    details,
    exit_codes,
    input_options,
    location_option,
    result_options,
    time_options,
)
from spark_assign.cli.owners import group_filter_options


@job(__doc__, exit_codes(), name="advise")
@input_options()
@click.option("--only", type=click.Choice(ONLY), help="Compute only this part, in detail (default: all advice).")
@capacity_option()
@click.option(
    "--price-per-gb",
    type=float,
    help="Cost per gigabyte (10^9 bytes) of cross-zone traffic (default: 0.02, AWS's 0.01 USD in each direction).",
)
@click.option("--currency", metavar="NAME", help="Currency of all prices (default: USD).")
@click.option(
    "--price-per-consumer-hour", type=float, help="Without --only: cost per consumer and hour (default: 0.05)."
)
@click.option(
    "--price-per-paused-hour",
    type=float,
    help="Without --only: cost of one partition-hour without consumption, in --currency (default: not counted).",
)
@click.option("--change-cost", type=float, help="Without --only: one-time cost of any change (default: 60).")
@click.option(
    "--max-payback-months",
    type=float,
    help="Without --only: payback period in months. Changes that take longer to pay for themselves aren't advised "
    "(default: 12).",
)
@click.option(
    "--deploys-per-month", type=float, help="Without --only: rolling restarts of each group per month (default: 4)."
)
@click.option("--min-members", type=int, help="Without --only: minimum number of members to advise (default: 2).")
@click.option(
    "--min-balance-gain",
    type=float,
    help="Without --only: minimum reduction of the largest member's load for a rebalance to be advised, from 0 to 1 "
    "(default: 0.25).",
)
@click.option(
    "--retention-days",
    type=float,
    help="Without --only: retention of topics in days, which is the data that a moved replica copies (default: 7).",
)
@click.option(
    "--restore-bytes-per-second",
    metavar="N",
    type=click.FloatRange(min=0, min_open=True),
    help="Without --only: what a process of a Streams application restores from changelogs (default: 50000000).",
)
@click.option(
    "--min-stopped-task-seconds",
    metavar="N",
    type=float,
    help="Without --only: minimum savings of a setting of a Streams application when an instance is lost or joins, in "
    "task-seconds for which tasks restore before they run (default: 60).",
)
@click.option(
    "--headroom",
    type=float,
    help="Reserve of a member, as a share of its load, with which it catches up after a pause (default: 0.2).",
)
@click.option(
    "--quantile",
    type=float,
    help="Quantile of the message rate that members must be able to handle, from 0 to 1 (default: 0.95).",
)
@click.option("--restart-time", type=DURATION, help="Time that a restarted member is away (default: 30s).")
@click.option(
    "--follower-fetching",
    is_flag=True,
    default=None,
    help="Brokers have replica.selector.class=…RackAwareReplicaSelector today.",
)
@click.option(
    "--assignors",
    metavar="A,B,…",
    help="With --only size: assignors to size with (default: each group's own).",
)
@click.option(
    "--member-counts",
    metavar="N,N,…",
    help="With --only size: numbers of members to evaluate (default: the most informative ones).",
)
@click.option("--keda", is_flag=True, help="With --only size and --details: print a KEDA ScaledObject as YAML.")
@click.option(
    "--session-timeouts",
    type=DURATIONS,
    help="With --only membership: session timeouts to compare (default: 10s,45s,90s,3min,10min).",
)
@click.option(
    "--restart-times",
    type=DURATIONS,
    help="With --only membership: restart times to compare (default: 5s,30s,2min).",
)
@click.option(
    "--crashes-per-deploy",
    type=float,
    help="With --only membership: member crashes per rolling restart (default: 0.1).",
)
@click.option(
    "--min-pause-savings",
    type=float,
    help="With --only membership: minimum savings of a change, in partition-seconds per deploy (default: 30).",
)
@click.option(
    "--min-pause-reduction",
    type=float,
    help="With --only membership: minimum savings of a change, as a share of the current pause (default: 0.1).",
)
@click.option(
    "--min-session-timeout",
    type=DURATION,
    help="With --only membership: shortest session timeout to recommend (default: 45s).",
)
@click.option(
    "--session-margin",
    type=float,
    help="With --only membership: minimum session timeout of a static member, as a multiple of the restart time "
    "(default: 1.5).",
)
@click.option(
    "--session-bounds",
    type=DURATIONS,
    help="With --only membership: minimum and maximum session timeout that the broker accepts (default: 6s,30min).",
)
@click.option(
    "--consumer-session-bounds",
    type=DURATIONS,
    help="With --only membership: minimum and maximum session timeout of KIP-848 groups (default: 45s,60s).",
)
@click.option(
    "--min-daily-savings",
    metavar="N",
    type=float,
    help="With --only zones: minimum savings per day for a change to be recommended (default: 0.01).",
)
@location_option("--before", "With --only unused: an older snapshot of the clusters, to see what has changed since.")
@click.option("--min-days", type=float, help="With --only unused: days without a change to be unused (default: 7).")
@time_options(TIMES)
@group_filter_options()
@details("all advice (with --only: all figures)")
@result_options("rows in each list of the summary")
def main(options: Options) -> int:
    """Checks the options, and runs the mode that `--only` names on the fleet."""
    check_usage(options)
    return on_fleet("advise", options, __file__, run_mode, loads=options.only not in (MEMBERSHIP, UNUSED))


if __name__ == "__main__":
    sys.exit(main())
