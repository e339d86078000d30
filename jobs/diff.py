"""Find what changed between two snapshots or plans: members, ownership, topics, and balance.

With --loads, report the load of partitions: the busiest partitions, and how long groups with lag need to catch up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import click
from pyspark.sql import DataFrame, SparkSession

import spark_assign.cli  # noqa: F401 - Ctrl-C in what follows
from spark_assign import Drift, Fleet, find_drift
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.job_tables import store_all, store_and_read
from spark_assign.cli.options import (
    RUN,
    LocationType,
    exit_codes,
    fail_on,
    format_options,
    location_option,
    output_options,
    require_input,
    sample,
    sample_option,
    top,
)
from spark_assign.cli.owners import group_filter_options, select_groups, select_tables
from spark_assign.report.loads_and_sizes import summarize_loads
from spark_assign.report.results import summary
from spark_assign.sources.files.snapshot_offsets import Offsets, loads_between
from spark_assign.spark.engine import cached
from spark_assign.stores.locations import split_run_id
from spark_assign.stores.run_store import previous_run, read_run
from spark_assign.streams import StreamsDrift, find_streams_drift
from spark_assign.tables.advice import LOADS_TABLES
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.stored_plan import KINDS, STREAMS

PREVIOUS = "previous"
EARLIER = LocationType(lambda location: None if location == PREVIOUS else require_input(location))
PLANS = KINDS[""] | {f"{STREAMS}{name}": KINDS[STREAMS][name] for name in ("tasks", "metrics", "rejected")}
"""Schemas of the tables of a stored plan that are read."""

STATES = f"""LOCATION is a snapshot, LOCATION@RUN_ID a stored plan; the states can be of different kinds, for
example a plan and a later snapshot. {PREVIOUS} is the run before the run of --after, in the order of run IDs; if
there is none, every group counts as added. With --loads, both are snapshots, and the loads are computed from their
offsets; without --before, they are the loads that the snapshot itself has read (snapshot --interval or
--rates-since)."""
LOADS = (
    "Report the loads of partitions instead of the changes: message rates, lag, and how long groups need to catch up."
)


def check_usage(options: Options) -> None:
    """Raises `ConfigError` if a state is missing, or isn't of the kind that is compared."""
    if not options.loads:
        if not options.before or not options.after:
            raise ConfigError("Use --before and --after, each with a snapshot or a stored plan.")
        if options.before == PREVIOUS and split_run_id(options.after)[1] is None:
            raise ConfigError(
                f"--before {PREVIOUS} requires a stored run, but --after {options.after} is a snapshot. Use --after "
                f"{options.after}@RUN_ID."
            )
        return
    if not options.after and not options.sample:
        raise ConfigError("With --loads, use either --after LOCATION, with or without --before, or --sample.")
    for name in ("before", "after"):
        text = getattr(options, name) or ""
        if text == PREVIOUS or split_run_id(text)[1] is not None:
            raise ConfigError(f"--{name} {text} isn't a snapshot. --loads compares the offsets of two snapshots.")


@job(
    __doc__,
    f"{STATES} {exit_codes('groups or topics changed', 'changes')}",
    name="diff",
    usage=(
        "--sample needs --loads",
        "--sample excludes --before, --after",
        "--loads excludes --fail-on",
        check_usage,
    ),
)
@location_option("--before", f"Earlier state: a snapshot, a stored plan, or {PREVIOUS}.", metavar=RUN, type=EARLIER)
@location_option("--after", "Later state: a snapshot or a stored plan.", metavar=RUN)
@click.option("--loads", is_flag=True, help=LOADS)
@sample_option("fleet with its loads, with --loads")
@format_options("files of the snapshots")
@group_filter_options()
@output_options()
@fail_on("changes", "a group or topic has changed")
@top("groups and topics, or partitions, in the summary")
def main(options: Options) -> int:
    """Loads both states, finds the drift or the loads, writes the tables, and prints the summary."""
    spark = spark_session("diff", options)
    if options.loads:
        print(summarize_loads(_stored_loads(options, spark), options.top), flush=True)
        return 0
    after = _read_state(options, spark, options.after)
    if options.before == PREVIOUS:
        options.before = _previous(options, spark)
    before: Fleet | Mapping[str, DataFrame]
    if options.before is None and not isinstance(after, Fleet):  # before the first run, there are no groups
        before = {name: table.limit(0) for name, table in after.items()}
    else:
        before = _read_state(options, spark, options.before)
    drift, of_streams = find_drift(before, after), find_streams_drift(before, after)
    found: list[Drift | StreamsDrift] = [drift.with_tagged_rows(cached(drift.tagged_rows()))]
    if of_streams is not None:
        found.append(of_streams.with_tables({**of_streams.tables, "groups": cached(of_streams.groups)}))
    names = [f"{each.prefix}{name}" for each in found for name in ("groups", "topics") if name in each.schemas]

    def has_changes(read: Callable[[str], DataFrame]) -> bool:
        return any(not read(name).where("change <> 'unchanged'").isEmpty() for name in names)

    if options.output:
        inputs = {"before": options.before, "after": options.after}
        found = store_all(options, found, inputs, has_changes if options.fail_on else None)
    print(f"From {options.before or 'no earlier run'} to {options.after}")
    print("\n\n".join(summary(each, options.top) for each in found), flush=True)
    tables = {name: table for each in found for name, table in each.with_prefix(each.tables).items()}
    return int(options.fail_on == "changes" and has_changes(tables.__getitem__))


def _loads(options: Options, spark: SparkSession) -> DataFrame:
    if options.sample:
        tables = {"loads": f"{sample(__file__, 'loads')}/loads.csv"}
        of_sample = Fleet.read(spark, sample(__file__, "fleet"), tables=tables).loads
        assert of_sample is not None
        return of_sample
    how = {"format": options.format, "options": options.option}
    if options.before:
        return loads_between(*(Offsets.read(spark, place, **how) for place in (options.before, options.after)))
    loads = Fleet.read(spark, options.after, **how).loads
    if loads is None:
        raise ConfigError(
            f"{options.after} has no table loads. Name an earlier snapshot with --before, or take the snapshot with "
            "--interval 60s or --rates-since 10m."
        )
    return loads


def _stored_loads(options: Options, spark: SparkSession) -> DataFrame:
    """Returns the loads: written and read back or, without `--output`, cached."""
    loads = select_tables(spark, {"rows": _loads(options, spark)}, options)["rows"]
    if not options.output:
        return cached(loads)
    inputs = {"before": options.before, "after": options.after}
    return store_and_read(options, {"loads": loads}, schemas=LOADS_TABLES, inputs=inputs)["loads"]


def _read_state(options: Options, spark: SparkSession, text: str) -> Fleet | Mapping[str, DataFrame]:
    place, run_id = split_run_id(text)
    if run_id is not None:
        return select_tables(spark, read_run(spark, place, run_id, schemas=PLANS).tables, options)
    fleet = Fleet.read(spark, place, format=options.format, options=options.option)
    return select_groups(spark, fleet, options)


def _previous(options: Options, spark: SparkSession) -> str | None:
    place, run_id = split_run_id(options.after)
    assert run_id is not None  # see check_usage
    before = previous_run(spark, place, run_id)
    return None if before is None else f"{place}@{before}"


if __name__ == "__main__":
    main()
