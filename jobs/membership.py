"""Say whether members should be static, and how long a session: what deploys and crashes stop, and what saves."""

from __future__ import annotations

import sys

import click

from spark_assign import Fleet, SparkAssignError, membership
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet, store_or_cache
from spark_assign.cli.options import (
    DURATION,
    DURATIONS,
    compose_options,
    details,
    fail_on,
    input_options,
    output_options,
    timing_options,
    timing_overrides,
    top,
)
from spark_assign.report.listed_groups import no_match_text
from spark_assign.report.text.membership import format_membership, groups_with_options, summarize_membership
from spark_assign.simulation import Settings
from spark_assign.tables.advice import MEMBERSHIP_TABLES

EXIT_CODES = """Exit codes: 0 done; 1 groups were rejected and --fail-on rejected is given; 2 wrong usage or tables;
3 failure."""
ARGUMENTS = {
    "restart": "restart_ms",
    "sessions": "sessions_ms",
    "restarts": "restarts_ms",
    "crashes_per_deploy": "crashes_per_deploy",
    "least_gain": "least_gain",
    "least_share": "least_share",
    "least_session": "least_session_ms",
    "margin": "margin",
    "session_bounds": "session_bounds_ms",
    "consumer_session_bounds": "consumer_session_bounds_ms",
}
"""Flags, and what they are called in Python."""


@job(__doc__, EXIT_CODES, name="membership", input_errors=(SparkAssignError, ValueError))
@input_options()
@compose_options(
    click.option("--restart", type=DURATION, help="how long a member is away when it is restarted (default: 30s)"),
    click.option("--sessions", type=DURATIONS, help="session timeouts to try (default: 10s,45s,90s,3min,10min)"),
    click.option("--restarts", type=DURATIONS, help="restart times to try (default: 5s,30s,2min)"),
    click.option("--crashes-per-deploy", type=float, help="members that crash for each rolling restart (default: 0.1)"),
    click.option(
        "--least-gain", type=float, help="partition-seconds per deploy that a change has to save (default: 30)"
    ),
    click.option("--least-share", type=float, help="the part of today's pause that it has to save (default: 0.1)"),
    click.option("--least-session", type=DURATION, help="no shorter session is advised (default: 45s)"),
    click.option("--margin", type=float, help="a static member's session, in restart times, at least (default: 1.5)"),
    click.option("--session-bounds", type=DURATIONS, help="the broker's least and most (default: 6s,30min)"),
    click.option("--consumer-session-bounds", type=DURATIONS, help="the same of KIP-848's groups (default: 45s,60s)"),
)
@timing_options()
@details("the advice and all options")
@output_options()
@fail_on("rejected", "groups are rejected")
@top("groups of each kind of advice in the summary")
def main(options: Options) -> int:
    """Load, call, write, print."""
    return on_fleet("membership", options, __file__, _run)


def _run(options: Options, place: str | None, fleet: Fleet) -> int:
    arguments = {
        argument: getattr(options, name) for name, argument in ARGUMENTS.items() if getattr(options, name) is not None
    }
    times = timing_overrides(options)
    found = membership(fleet, Settings(**times), **arguments)
    inputs = {"fleet": place, "asked": arguments, "settings": times}
    tables = store_or_cache(options, found, schemas=MEMBERSHIP_TABLES, inputs=inputs)
    memberships, rejected = tables["memberships"], tables["rejected"]
    if options.details:
        groups, rows = groups_with_options(memberships, tables["options"], options.details, options.top)
        print(format_membership(groups, rows) if groups else no_match_text(options.details), flush=True)
    else:
        print(summarize_membership(memberships, rejected, options.top), flush=True)
    return int(options.fail_on == "rejected" and not rejected.isEmpty())


if __name__ == "__main__":
    sys.exit(main())
