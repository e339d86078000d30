"""Command-line options that several jobs share, each declared once: a flag has the same meaning everywhere.

| flag | meaning |
| --- | --- |
| `--fleet`, `--sample` | location of the input tables, or the bundled sample fleet |
| `--format`, `--option`, `--table` | format, reader options, and locations of single input tables |
| `--plan`, `--history`, … `LOCATION[@RUN_ID]` | stored run of another job; default: the run that finished last |
| `--output`, `--output-format`, `--output-option` | location, format, and writer options of the output tables |
| `--run-id` | name of the stored run |
| `--group`, `--topic`, `--cluster` | filter, by shell pattern |
| `--details` | print details of the matching groups instead of the summary |
| `--session-timeout-ms`, … | settings of simulated groups |
| `--fail-on`, `--top` | condition for exit code 1; number of rows in the summary |
| `--outcome` | JSON file about how the job ended (`spark_assign.cli.outcome`) |
| `--log-format` | text or JSON on standard error |
| `--config`, `--verbose` | settings file; Spark warnings and tracebacks |

The value of a flag comes from the command line, else from the environment variable `SPARK_ASSIGN_<COMMAND>_<FLAG>`,
else from the settings file, else it is the default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
from click.core import ParameterSource

from spark_assign.cli.locations import (
    INPUT,
    INPUT_FILES,
    OUTPUT,
    OUTPUT_FILES,
    LocationType,
    require_format,
    require_input,
)
from spark_assign.cli.settings_file import SETTINGS_FILE, defaults
from spark_assign.stores.locations import time_as_run_id
from spark_assign.tables.errors import ConfigError

Decorator = Callable[[Any], Any]

REPEATABLE = " Repeatable."
WHERE = "Folder, URI, or catalog prefix"
RUN = "LOCATION[@RUN_ID]"


class DurationType(click.types.StringParamType):
    """A duration such as `500ms`, `30s`, `2m` (or `2min`), `1h`, or `1d`, at most 100 years; converted to
    milliseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parses a duration."""
        text = f"{value}ms" if isinstance(value, int) else str(value).strip()
        match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,3})?)\s*(ms|s|m|min|h|d)", text)
        duration_ms = round(float(match[1]) * _UNITS_MS[match[2]]) if match else -1
        if not 0 <= duration_ms <= _MAX_DURATION_MS:
            problem = (
                f"{value!r} isn't a valid duration. Use a number and a unit, for example 500ms, 30s, 2m, 1h, or 1d"
            )
            self.fail(f"{problem}, and at most 36500d.", param, ctx)
        return duration_ms


class DurationsType(click.types.StringParamType):
    """Durations separated by commas; converted to milliseconds."""

    name = "time,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parses durations."""
        durations = value.split(",") if isinstance(value, str) else value
        return tuple(DURATION.convert(each, param, ctx) for each in durations)


DURATION, DURATIONS = DurationType(), DurationsType()
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_DURATION_MS = 36_500 * _UNITS_MS["d"]
"""Longest duration. No time of a record minus it is before the year 1, nor is a sum of some more than a long."""


def number_problem(option: click.Parameter, value: Any) -> str | None:
    """Returns why a number is too large for an option, so that no sum of some overflows; None for any other value.

    The limit is 2^53, or a billion for a whole number that isn't bytes: one more than such a number is an int. Neither
    infinity nor "not a number" is a value.
    """
    is_bytes = "BYTES" in f"{option.name} {option.metavar}".upper()
    most = 1_000_000_000 if isinstance(option.type, click.types.IntParamType) and not is_bytes else 1 << 53
    is_fine = not isinstance(value, int | float) or -most <= value <= most
    return None if is_fine else f"{str(value)[:40]} isn't a number of at most {most:,}"


def compose_options(*options: Decorator) -> Decorator:
    """Combines options into one decorator, in this order."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def pairs(flag: str, values: Sequence[str] | None) -> dict[str, str] | None:
    """Converts the NAME=VALUE values of a flag to a dict; None stays None.

    Raises:
        ConfigError: a value has no `=`.
    """
    for value in values or []:
        if "=" not in value:
            raise ConfigError(f"{flag} {value}: expected NAME=VALUE")
    return None if values is None else {value.partition("=")[0]: value.partition("=")[2] for value in values}


def named_values(
    flag: str, metavar: str, help: str, check: Callable[[str], object] | None = None, *, for_all: bool = False
) -> Decorator:
    """Returns a repeatable option with NAME=VALUE values: a dict, or None if it isn't given. `check` checks a value.

    With `for_all`, a value without a name stands for all names, `*`.
    """

    def read(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, str] | None:
        try:
            values = [f"*={value}" if for_all and "=" not in value else value for value in values]
            named = pairs(flag, values) or None
            if check is not None:
                for value in (named or {}).values():
                    check(value)
            return named
        except ConfigError as error:
            raise click.UsageError(str(error), ctx) from error

    return click.option(flag, metavar=metavar, multiple=True, callback=read, help=help + REPEATABLE)


_WRITTEN = ("--output", "--output-fleet", "--archive", "--checkpoint", "--pictures-dir", "--fleet-dir")
"""Options that name a folder to write."""


def location_option(
    flag: str, help: str, *, type: LocationType | None = None, metavar: str = "LOCATION", **more: Any
) -> Decorator:
    """Returns an option whose value is a location. `type`: how it is checked, by default as one to read or to write."""
    by_place = (INPUT_FILES, OUTPUT_FILES) if metavar in ("DIR", "FILE") else (INPUT, OUTPUT)
    type = type or by_place[flag in _WRITTEN]
    return click.option(flag, type=type, metavar=metavar, help=help, **more)


def sample_option(what: str = "fleet") -> Decorator:
    """Returns `--sample`."""
    return click.option("--sample", is_flag=True, help=f"Use the bundled sample {what}.")


def stored_run(flag: str, help: str) -> Decorator:
    """Returns an option that names a stored run of another job."""
    return location_option(flag, help, metavar=RUN)


def input_options(tables: str = "the fleet's tables", *, sample: bool = True, of_sample: str = "fleet") -> Decorator:
    """Returns `--fleet` (and `--sample`), `--format`, `--option`, and `--table`.

    Args:
        tables: description of the tables in the location.
        sample: whether `--sample` is an alternative to `--fleet` (`fleet_or_sample`).
        of_sample: what the sample has.
    """
    return compose_options(
        location_option("--fleet", f"{WHERE} of {tables}."),
        *([sample_option(of_sample)] * sample),
        format_options(),
        named_values("--table", "NAME=LOCATION", "Location of a single table.", require_input),
    )


def format_options(files: str = "files") -> Decorator:
    """Returns `--format` and `--option` of input tables."""
    formats = f"Format of the {files}: parquet, csv, json, or any other format of Spark (default: by file name)."
    return compose_options(
        format_option("--format", formats),
        named_values("--option", "K=V", "Reader option of Spark."),
    )


def format_option(flag: str, help: str) -> Decorator:
    """Returns an option that names a format of tables, which the engine must have."""

    def check(ctx: click.Context, param: click.Parameter, name: str | None) -> str | None:
        try:
            require_format(name)
        except ConfigError as error:
            raise click.BadParameter(str(error), ctx, param) from error
        return name

    return click.option(flag, metavar="NAME", callback=check, help=help)


def output_options(
    help: str = f"{WHERE} for the output tables (default: print only).", *, default_run_id: bool = True
) -> Decorator:
    """Returns `--output`, `--output-format`, `--output-option`, and `--run-id`.

    Args:
        help: what is written to the location.
        default_run_id: whether the current time is the default of `--run-id`, instead of None.
    """
    run_id: dict[str, Any] = {"default": time_as_run_id} if default_run_id else {}
    formats = "Format of the output tables: parquet (default), csv, json, or any other format of Spark."
    run_help = "Name of the stored run. An existing run of that name is replaced (default: the current time)."
    return compose_options(
        location_option("--output", help),
        format_option("--output-format", formats),
        named_values("--output-option", "K=V", "Writer option of Spark."),
        click.option("--run-id", metavar="ID", help=run_help, **run_id),
    )


def snapshot_output_options(formats: Sequence[str]) -> Decorator:
    """Returns `--fleet-dir`, `--table-prefix`, and `--output-format` of a snapshot (`check_snapshot_output`)."""
    prefix = "Catalog prefix of the fleet's tables, instead of --fleet-dir. Only the rows of this cluster are replaced."
    return compose_options(
        location_option(
            "--fleet-dir", "Folder of the fleet. Only the folder of this cluster is replaced.", metavar="DIR"
        ),
        click.option("--table-prefix", type=OUTPUT, metavar="CATALOG.SCHEMA", help=prefix),
        click.option(
            "--output-format",
            type=click.Choice(formats),
            default="parquet",
            help="Format of the files in --fleet-dir (default: parquet).",
        ),
    )


def check_snapshot_output(options: SimpleNamespace) -> None:
    """Raises `ConfigError` unless exactly one of `--fleet-dir` and `--table-prefix` is given."""
    if bool(options.fleet_dir) == bool(options.table_prefix):
        raise ConfigError("Use either --fleet-dir DIR or --table-prefix CATALOG.SCHEMA.")


def patterns(flag: str, help: str) -> Decorator:
    """Returns a repeatable option whose values are shell patterns: a tuple."""
    return click.option(flag, metavar="GLOB", multiple=True, help=help + REPEATABLE)


def details(what: str) -> Decorator:
    """Returns `--details`, which prints `what` of the matching groups instead of the summary."""
    return patterns("--details", f"Print {what} of groups with a matching ID, instead of the summary.")


def exit_codes(found: str = "groups were rejected", condition: str = "rejected") -> str:
    """Returns the end of a job's help: what its exit codes mean. `found`: what `--fail-on condition` looks for."""
    fail = f"1 {found}, with --fail-on {condition}; " if found else ""
    return f"Exit codes: 0 success; {fail}2 invalid options, settings, or tables; 3 failure."


def top(rows: str = "groups in the summary", default: int | None = 10) -> Decorator:
    """Returns `--top`."""
    help = f"Maximum number of {rows} (default: 10)."
    return click.option("--top", metavar="N", type=click.IntRange(min=0), default=default, help=help)


def fail_on(condition: str, what: str) -> Decorator:
    """Returns `--fail-on` with its one condition."""
    return click.option("--fail-on", type=click.Choice([condition]), help=f"Exit with code 1 if {what}.")


def result_options(rows: str = "groups in the summary") -> Decorator:
    """Returns `output_options`, `--fail-on rejected`, and `--top`."""
    return compose_options(output_options(), fail_on("rejected", "groups are rejected"), top(rows))


def capacity_option() -> Decorator:
    """Returns `--capacity`."""
    help = "Messages per second that one member handles, by pattern of group ids. The first match wins."
    return named_values("--capacity", "GLOB=RATE", help)


def openmetrics_option() -> Decorator:
    """Returns `--openmetrics`."""
    help = (
        "Write the metrics of every group to FILE in OpenMetrics format, for the textfile collector of node_exporter."
    )
    return click.option("--openmetrics", metavar="FILE", type=click.Path(path_type=Path), help=help)


def conditional(condition: str, help: str) -> str:
    """Returns the help of an option that holds only under a condition, such as `With --history`; empty: always."""
    return f"{condition}: {help[0].lower()}{help[1:]}" if condition else help


def leader_client_option(condition: str = "") -> Decorator:
    """Returns `--leader-client` (`conditional`)."""
    help = (
        "Client library, and optionally its version, of the group leader, by shell pattern of the group ID. The first "
        "matching pattern wins. Example: payments-*=Java@2.8."
    )
    return named_values("--leader-client", "GLOB=LIB[@V]", conditional(condition, help))


def milliseconds(name: str, help: str = "", default: int | None = None) -> Decorator:
    """Returns an option for a time in milliseconds, `--name-ms`."""
    return click.option(f"--{name.replace('_', '-')}", metavar="MS", type=int, default=default, help=help)


TIMES = {
    "session_timeout_ms": "session.timeout.ms of the members (default: 45000).",
    "heartbeat_interval_ms": "heartbeat.interval.ms of the members (default: 3000).",
    "max_poll_interval_ms": "max.poll.interval.ms of the members (default: 300000).",
    "rebalance_timeout_ms": "Time that a rebalance waits for members to join (default: max.poll.interval.ms).",
    "group_initial_rebalance_delay_ms": "group.initial.rebalance.delay.ms of the broker (default: 3000).",
    "metadata_max_age_ms": "metadata.max.age.ms of the members (default: 300000).",
    "poll_interval_ms": "Time between two polls of a member (default: 500).",
    "revoke_ms": "Time to give up a partition (default: 0).",
    "restore_ms": "Time before a new owner consumes a partition (default: 0).",
    "group_consumer_session_timeout_ms": "group.consumer.session.timeout.ms of the broker (default: 45000).",
    "group_consumer_heartbeat_interval_ms": "group.consumer.heartbeat.interval.ms of the broker (default: 5000).",
    "group_consumer_assignment_interval_ms": "group.consumer.assignment.interval.ms of the broker (default: 1000, or 0 "
    "before Kafka 4.3).",
}
"""Times of `simulation.Settings`, in milliseconds, and their help. Those of `group.consumer` are for KIP-848 groups."""


PAUSE_TIMES = {
    "heartbeat_interval_ms": "Interval between heartbeats, in milliseconds (default: 3000).",
    "poll_interval_ms": "Interval between polls, in milliseconds (default: 500).",
    "revoke_ms": "Time to revoke a partition, in milliseconds (default: 0).",
    "restore_ms": "Time before a new owner consumes a partition, in milliseconds (default: 0).",
}
"""Times that the estimate of paused_partition_seconds depends on."""


def time_options(times: Mapping[str, str], condition: str = "") -> Decorator:
    """Returns the options of `TIMES` or `PAUSE_TIMES`, such as `--session-timeout-ms` (`conditional`)."""
    return compose_options(*(milliseconds(name, conditional(condition, help)) for name, help in times.items()))


def given_values(options: SimpleNamespace, names: Iterable[str]) -> dict[str, Any]:
    """Returns the options of these names that have a value."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def packaged_conf(job_file: str) -> Path:
    """Returns the folder `conf`: in a wheel beside the jobs, in a clone beside their folder."""
    folder = Path(job_file).resolve().parent
    return folder / "conf" if (folder / "conf").is_dir() else folder.parent / "conf"


NO_FLEET = "No fleet given. Use --fleet LOCATION, or --sample for the bundled sample fleet."
TWO_FLEETS = "--fleet and --sample are both given. Use only one of them."


def fleet_or_sample(options: SimpleNamespace, job_file: str) -> str | None:
    """Returns the location of the fleet; None if `--table` names every table.

    Args:
        options: options of a job with `input_options`.
        job_file: file of the job, beside which the sample fleet is.

    Raises:
        ConfigError: no fleet or two fleets are given, or the sample fleet doesn't exist.
    """
    if is_sample(options):
        return sample(job_file, "fleet")
    if not options.fleet and not options.table:
        raise ConfigError(NO_FLEET)
    location: str | None = options.fleet
    return location


def is_sample(options: SimpleNamespace) -> bool:
    """Checks whether `--sample` is given, and `--fleet` isn't or only by a source of lower precedence.

    Raises:
        ConfigError: the same source gives both.
    """
    if not options.sample or not options.fleet:
        return bool(options.sample)
    by_sample, by_fleet = (options.given.get(name, ParameterSource.DEFAULT) for name in ("sample", "fleet"))
    if by_sample == by_fleet:
        raise ConfigError(TWO_FLEETS)
    return bool(by_sample < by_fleet)


def tables_with_sample(options: SimpleNamespace, job_file: str, name: str) -> dict[str, str] | None:
    """Returns the values of `--table`; of the sample fleet also `loads` or `requests`, which aren't in its folder."""
    tables: dict[str, str] = dict(options.table or {})
    if is_sample(options):
        tables.setdefault(name, f"{sample(job_file, name)}/{name}.csv")
    return tables or None


def sample(job_file: str, name: str) -> str:
    """Returns the location of a sample: of a `fleet`, `applications`, a `history`, `loads`, or `requests`.

    Raises:
        ConfigError: it isn't beside the job, for example because a cluster driver has only the job's file.
    """
    location = packaged_conf(job_file) / f"sample-{name}"
    if not location.is_dir():
        raise ConfigError(f"The sample {name} doesn't exist at {location}. Use the wheel or a clone.")
    return str(location)


def config_option(defaults: Callable[[Path, Sequence[str], Sequence[click.Parameter]], Mapping[str, Any]]) -> Decorator:
    """Returns `--config`: a settings file, by default `spark-assign.toml` in the working folder, if it exists.

    Args:
        defaults: returns values of flags from the file, for the words of a command and its parameters.
    """

    def read(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
        """Makes the values of the file the defaults of the flags."""
        path = path or (SETTINGS_FILE if SETTINGS_FILE.is_file() else None)
        if path is not None and not ctx.resilient_parsing:
            try:
                ctx.default_map = dict(defaults(path, getattr(ctx.command, "words", ()), ctx.command.params))
            except ConfigError as error:
                raise click.UsageError(str(error), ctx) from error
        return path

    return click.option(
        "--config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        is_eager=True,
        callback=read,
        help=f"TOML file with settings (default: {SETTINGS_FILE}, if it exists). Flags and environment variables take "
        "precedence.",
    )


CONFIG = config_option(defaults)


def streams_options() -> Decorator:
    """Returns `--standby-replicas` and `--restore-bytes-per-second`."""
    return compose_options(
        click.option(
            "--standby-replicas",
            metavar="N",
            type=click.IntRange(min=0),
            help="Number of standby replicas per task with state of Streams groups (default: as each group is "
            "configured).",
        ),
        click.option(
            "--restore-bytes-per-second",
            metavar="N",
            type=click.FloatRange(min=0, min_open=True),
            help="What a process restores from changelogs. With it, classic Streams applications are followed until "
            "every task is at its final owner (default: only the next rebalance).",
        ),
    )


def streams_thresholds() -> Decorator:
    """Returns `--max-moved-without-state` and `--max-restore-time`."""
    return compose_options(
        click.option(
            "--max-moved-without-state",
            metavar="N",
            type=click.IntRange(min=0),
            help="Alert if more than N active tasks of a Streams group move to a process without their state.",
        ),
        click.option(
            "--max-restore-time",
            metavar="TIME",
            type=DURATION,
            help="Alert if a classic Streams application restores state for longer than TIME, for example 10m. The "
            "plan needs --restore-bytes-per-second.",
        ),
    )
