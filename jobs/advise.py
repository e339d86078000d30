"""Say what to do over the whole fleet: all advice, ranked, with what it gains, costs and risks; none contradicts."""

from __future__ import annotations

import sys

import click

from spark_assign import Fleet, SparkAssignError, advise
from spark_assign.advice.size import HEADROOM, QUANTILE
from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import on_fleet, store_or_cache, with_capacities
from spark_assign.cli.options import (
    DURATION,
    compose_options,
    details,
    fail_on,
    input_options,
    named_values,
    output_options,
    timing_options,
    timing_overrides,
    top,
)
from spark_assign.report.listed_groups import no_match_text, rows_of_first_groups
from spark_assign.report.text.advise import format_advice, format_not_advised, summarize_advice
from spark_assign.simulation import Settings
from spark_assign.spark.caching import cached
from spark_assign.tables.advice import ADVISE_TABLES

EXIT_CODES = """Exit codes: 0 done; 1 groups were rejected and --fail-on rejected is given; 2 wrong usage or tables;
3 failure."""
ARGUMENTS = {
    **{name: name for name in ("price", "currency", "follower_fetching", "consumer_price", "change_cost", "months")},
    **{name: name for name in ("deploys", "pause_price", "least_members", "least_balance", "retention_days")},
    **{name: name for name in ("headroom", "quantile")},
    "restart": "restart_ms",
}
"""Flags, and what they are called in Python."""


@job(__doc__, EXIT_CODES, name="advise", input_errors=(SparkAssignError, ValueError))
@input_options()
@named_values("--capacity", "GLOB=RATE", "messages a second that one member handles, by pattern; first match wins")
@compose_options(
    click.option("--price", type=float, help="of a gigabyte that crosses a zone (default: 0.02)"),
    click.option("--currency", metavar="NAME", help="of all prices (default: USD)"),
    click.option("--consumer-price", type=float, help="of a consumer, an hour (default: 0.05)"),
    click.option("--change-cost", type=float, help="of any change, once (default: 60)"),
    click.option("--months", type=float, help="within so many a change has to pay its cost (default: 12)"),
    click.option("--deploys", type=float, help="rolling restarts of a group a month (default: 4)"),
    click.option("--pause-price", type=float, help="of an hour in which nobody reads a partition (default: none)"),
    click.option("--least-members", type=int, help="no group is advised to have fewer (default: 2)"),
    click.option("--least-balance", type=float, help="share a balance has to take off the most loaded (default: 0.25)"),
    click.option("--retention-days", type=float, help="of topics: what a moving replica copies (default: 7)"),
    click.option("--headroom", type=float, help=f"as for size (default: {HEADROOM})"),
    click.option("--quantile", type=float, help=f"as for size (default: {QUANTILE})"),
    click.option("--restart", type=DURATION, help="how long a member is away when it is restarted (default: 30s)"),
    click.option(
        "--follower-fetching",
        is_flag=True,
        default=None,
        help="brokers have replica.selector.class=…RackAwareReplicaSelector today",
    ),
)
@timing_options()
@details("the recommendations")
@output_options()
@fail_on("rejected", "groups are rejected")
@top("pieces of advice in the summary")
def main(options: Options) -> int:
    """Load, call, write, print."""
    return on_fleet("advise", options, __file__, _run, loads=True)


def _run(options: Options, place: str | None, fleet: Fleet) -> int:
    fleet = with_capacities(fleet, options.capacity)
    arguments = {
        argument: getattr(options, name) for name, argument in ARGUMENTS.items() if getattr(options, name) is not None
    }
    times = timing_overrides(options)
    found = advise(fleet, Settings(**times), **arguments)
    found = found.with_tagged_rows(cached(found.tagged_rows()))  # a few rows per group, of many passes
    inputs = {"fleet": place, "capacity": options.capacity, "asked": arguments, "settings": times}
    tables = store_or_cache(options, found, schemas=ADVISE_TABLES, inputs=inputs)
    advice, silent, rejected = (tables[name] for name in ADVISE_TABLES)
    if options.details:
        rows = rows_of_first_groups(advice, options.details, options.top)
        less = rows_of_first_groups(silent, options.details, options.top)
        words = [*format_advice(sorted(rows, key=lambda row: row["rank"])), *format_not_advised(less)]
        print("\n".join(words).lstrip("\n") or no_match_text(options.details), flush=True)
    else:
        print(summarize_advice(advice, silent, rejected, options.top), flush=True)
    return int(options.fail_on == "rejected" and not rejected.isEmpty())


if __name__ == "__main__":
    sys.exit(main())
