"""Recommend static or dynamic membership and a session timeout, from simulated deploys and crashes."""

from __future__ import annotations

import sys

import click

from spark_assign import Fleet, MembershipParams, SparkAssignError, advise_membership
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet, store_or_cache
from spark_assign.cli.options import (
    DURATION,
    DURATIONS,
    TIMES,
    details,
    exit_codes,
    given_values,
    input_options,
    result_options,
    time_options,
)
from spark_assign.report.listed_groups import no_match_text
from spark_assign.report.text.advice import format_membership, groups_with_options, summarize_membership
from spark_assign.simulation import Settings
from spark_assign.tables.advice import MEMBERSHIP_TABLES

PARAMS = {
    "restart_time": "restart_time_ms",
    "session_timeouts": "session_timeouts_ms",
    "restart_times": "restart_times_ms",
    "min_session_timeout": "min_session_timeout_ms",
    "session_bounds": "session_bounds_ms",
    "consumer_session_bounds": "consumer_session_bounds_ms",
    **{name: name for name in ("crashes_per_deploy", "min_pause_savings", "min_pause_reduction", "session_margin")},
}
"""Fields of `MembershipParams`, by flag."""


@job(__doc__, exit_codes(), name="membership", input_errors=(SparkAssignError, ValueError))
@input_options()
@click.option("--restart-time", type=DURATION, help="Time that a restarted member is away (default: 30s).")
@click.option(
    "--session-timeouts", type=DURATIONS, help="Session timeouts to compare (default: 10s,45s,90s,3min,10min)."
)
@click.option("--restart-times", type=DURATIONS, help="Restart times to compare (default: 5s,30s,2min).")
@click.option("--crashes-per-deploy", type=float, help="Member crashes per rolling restart (default: 0.1).")
@click.option(
    "--min-pause-savings",
    type=float,
    help="Minimum savings of a change, in partition-seconds per deploy (default: 30).",
)
@click.option(
    "--min-pause-reduction",
    type=float,
    help="Minimum savings of a change, as a share of the current pause (default: 0.1).",
)
@click.option("--min-session-timeout", type=DURATION, help="Shortest session timeout to recommend (default: 45s).")
@click.option(
    "--session-margin",
    type=float,
    help="Minimum session timeout of a static member, as a multiple of the restart time (default: 1.5).",
)
@click.option(
    "--session-bounds",
    type=DURATIONS,
    help="Minimum and maximum session timeout that the broker accepts (default: 6s,30min).",
)
@click.option(
    "--consumer-session-bounds",
    type=DURATIONS,
    help="Minimum and maximum session timeout of KIP-848 groups (default: 45s,60s).",
)
@time_options(TIMES)
@details("the recommendation and all options")
@result_options("groups of each recommendation in the summary")
def main(options: Options) -> int:
    """Computes the advice, writes or keeps the tables, and prints them."""
    return on_fleet("membership", options, __file__, _run)


def _run(options: Options, location: str | None, fleet: Fleet) -> int:
    fields = {PARAMS[flag]: value for flag, value in given_values(options, PARAMS).items()}
    times = given_values(options, TIMES)
    result = advise_membership(fleet, MembershipParams(**fields), Settings(**times))
    inputs = {"fleet": location, "params": fields, "settings": times}
    tables = store_or_cache(options, result, schemas=MEMBERSHIP_TABLES, inputs=inputs)
    advice, rejected = tables["membership_advice"], tables["rejected"]
    if options.details:
        groups, rows = groups_with_options(advice, tables["options"], options.details, options.top)
        print(format_membership(groups, rows) if groups else no_match_text(options.details), flush=True)
    else:
        print(summarize_membership(advice, rejected, options.top), flush=True)
    return int(options.fail_on == "rejected" and not rejected.isEmpty())


if __name__ == "__main__":
    sys.exit(main())
