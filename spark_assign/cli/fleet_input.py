"""How jobs read the fleet that they are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spark_assign.cli.job import Options, spark_session
from spark_assign.cli.options import fleet_or_sample, tables_with_loads
from spark_assign.fleet import Fleet
from spark_assign.sources.files.tables import interpreted, read_fleet
from spark_assign.stores.run_store import check_output
from spark_assign.tables.errors import ConfigError


def on_fleet(
    name: str,
    options: Options,
    job_file: str,
    run: Callable[[Options, str | None, Fleet], int],
    *,
    loads: bool = False,
) -> int:
    """Read the fleet and run a job on it; the place to write to is looked at before anything is read.

    Args:
        name: of the job.
        options: of a job that `reads` and `writes`.
        job_file: the job, beside which the sample fleet is.
        run: gets the options, the place of the fleet, and the fleet.
        loads: whether the sample fleet comes with its made-up rates.
    """
    if options.output:
        check_output(options.output)
    place = fleet_or_sample(options, job_file)
    tables = tables_with_loads(options, job_file) if loads else options.table
    spark = spark_session(name, options)
    with interpreted(spark, [*([place] if place else []), *(tables or {}).values()]):
        fleet = read_fleet(spark, place, format=options.format, options=options.option, tables=tables)
        return run(options, place, fleet)


def with_capacities(fleet: Fleet, capacity: Mapping[str, str] | None) -> Fleet:
    """The fleet with what `--capacity` says; of several patterns that fit a group, the first one wins.

    Raises:
        ConfigError: what stands behind a pattern is no number.
    """
    for glob, rate in reversed(dict(capacity or {}).items()):
        try:
            messages = float(rate)
        except ValueError as error:
            raise ConfigError(f"--capacity {glob}={rate}: expected a number") from error
        fleet = fleet.with_capacity(messages, group_id=glob)
    return fleet
