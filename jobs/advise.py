"""Recommend changes for the whole fleet, ranked, with their gains, costs, and risks, and without contradictions.

With --only, compute one part of it in detail: how many consumers each group needs (size), static or dynamic membership
and a session timeout (membership), what groups read across zones and what reduces it (zones), or which topics, groups,
and subscriptions have no known use, and how to remove them safely (unused).
"""

from __future__ import annotations

import sys

import click

from spark_assign.cli.advice_modes import MEMBERSHIP, ONLY, UNUSED, check_usage, mode_options, run_mode
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet
from spark_assign.cli.options import (
    capacity_option,
    details,
    exit_codes,
    input_options,
    location_option,
    parameter_options,
    result_options,
)
from spark_assign.cli.owners import group_filter_options
from spark_assign.simulation.settings import GROUP_TIMES, Settings


@job(__doc__, exit_codes(), name="advise", usage=("--keda needs --details", check_usage))
@input_options()
@click.option("--only", type=click.Choice(ONLY), help="Compute only this part, in detail (default: all advice).")
@capacity_option()
@mode_options()
@click.option("--keda", is_flag=True, help="With --only size and --details: print a KEDA ScaledObject as YAML.")
@location_option("--before", "With --only unused: an older snapshot of the clusters, to see what has changed since.")
@parameter_options(Settings, *GROUP_TIMES)
@group_filter_options()
@details("all advice (with --only: all figures)")
@result_options("rows in each list of the summary")
def main(options: Options) -> int:
    """Runs the mode that `--only` names on the fleet."""
    return on_fleet("advise", options, __file__, run_mode, loads=options.only not in (MEMBERSHIP, UNUSED))


if __name__ == "__main__":
    sys.exit(main())
