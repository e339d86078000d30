"""The options that several jobs have, each declared once: one flag, one meaning.

| flag | meaning |
| --- | --- |
| `--fleet`, `--sample` | what is read: a place of tables, or the fleet that comes with the package |
| `--format`, `--option`, `--table` | format of the files, Spark's reader options, single tables from elsewhere |
| `--run PLACE@ID` | what an earlier job has stored: a run, without an id the one that finished last |
| `--output`, `--output-format`, `--output-option` | where what is written goes, and how |
| `--run-id` | what the run that is written is called |
| `--group`, `--topic` | only those; shell patterns, repeatable |
| `--session-timeout-ms`, … | what groups are set to, for who plays them |
| `--fail-on`, `--top` | what ends with exit code 1; how many lines the summary has |
| `--outcome` | every job: a file that says how it ended, as JSON (`outcome`) |
| `--config`, `--verbose` | every job: a file with what the flags say; warnings and tracebacks |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from spark_assign.cli.settings_file import defaults
from spark_assign.stores.locations import time_as_run_id
from spark_assign.tables.errors import ConfigError

Decorator = Callable[[Any], Any]

REPEATABLE = "; repeatable"


class PlaceType(click.types.StringParamType):
    """A folder, URI or catalog prefix, perhaps with a run (`PLACE@ID`); in a settings file relative to that file."""

    name = "place"


PLACE = PlaceType()

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class DurationType(click.types.StringParamType):
    """A time such as `500ms`, `30s`, `2m` (or `2min`), `1h` or `1d`, in milliseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,3})?)\s*(ms|s|m|min|h|d)", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no time; write 500ms, 30s, 2m, 1h or 1d", param, ctx)
        return round(float(found[1]) * _UNITS_MS[found[2]])


class DurationsType(click.types.StringParamType):
    """Several times with commas between them."""

    name = "time,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read them."""
        words = value.split(",") if isinstance(value, str) else value
        return tuple(DURATION.convert(each, param, ctx) for each in words)


DURATION, DURATIONS = DurationType(), DurationsType()


def together(*options: Decorator) -> Decorator:
    """Several options as one decorator, in this order."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def pairs(flag: str, given: Sequence[str] | None) -> dict[str, str] | None:
    """NAME=VALUE words of a flag as a dict, null where the flag is not given.

    Raises:
        ConfigError: a word has no `=`.
    """
    for word in given or []:
        if "=" not in word:
            raise ConfigError(f"{flag} {word}: expected NAME=VALUE")
    return None if given is None else {word.partition("=")[0]: word.partition("=")[2] for word in given}


def named_values(flag: str, metavar: str, help: str) -> Decorator:
    """A repeatable option of NAME=VALUE words: a dict, null where it is not given."""

    def read(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> dict[str, str] | None:
        try:
            return pairs(flag, value) or None
        except ConfigError as error:
            raise click.UsageError(str(error), ctx) from error

    return click.option(flag, metavar=metavar, multiple=True, callback=read, help=help + REPEATABLE)


def reads(what: str = "the fleet's tables", *, sample: bool = True) -> Decorator:
    """`--fleet` (and `--sample`), `--format`, `--option` and `--table`.

    Args:
        what: what is in the place.
        sample: whether the sample fleet can be had in place of one's own; see `fleet_or_sample`.
    """
    options = [
        click.option("--fleet", type=PLACE, metavar="PLACE", help=f"folder, URI or catalog prefix of {what}"),
        *([click.option("--sample", is_flag=True, help="the sample fleet that comes with spark_assign")] * sample),
        input_format("of the files: parquet, csv, json, or any that Spark knows"),
        named_values("--option", "K=V", "a reader option of Spark"),
        named_values("--table", "NAME=PLACE", "one table from elsewhere"),
    ]
    return together(*options)


def input_format(help: str) -> Decorator:
    """`--format`: of what is read."""
    return click.option("--format", metavar="NAME", help=help)


def stored_run(what: str, *, required: bool = False) -> Decorator:
    """`--run`: what an earlier job has stored."""
    return click.option("--run", type=PLACE, metavar="PLACE[@ID]", required=required, help=what)


def writes(
    what: str = "folder, URI or catalog prefix for the tables (default: print only)",
    *,
    formats: str = "parquet (default), csv, json, or any that Spark knows",
    now: bool = True,
) -> Decorator:
    """`--output`, `--output-format`, `--output-option` and `--run-id`.

    Args:
        what: what is written where.
        formats: what the tables can be written as.
        now: whether a run that is not named is named by the time; else it is null.
    """
    run_id: dict[str, Any] = {"default": time_as_run_id} if now else {}
    named = "the name of the run that is written; the same name again replaces it (default: the time)"
    return together(
        click.option("--output", type=PLACE, metavar="PLACE", help=what),
        click.option("--output-format", metavar="NAME", help=formats),
        named_values("--output-option", "K=V", "a writer option of Spark"),
        click.option("--run-id", metavar="ID", help=named, **run_id),
    )


def writes_snapshot(formats: Sequence[str]) -> Decorator:
    """`--output`, `--table-prefix` and `--output-format` of what is read from a cluster; see `one_snapshot_place`."""
    return together(
        click.option(
            "--output",
            type=PLACE,
            metavar="DIR",
            help="folder of the fleet; of it only this cluster's folder is replaced",
        ),
        click.option(
            "--table-prefix",
            metavar="CATALOG.SCHEMA",
            help="tables of a catalog instead; of them only this cluster's rows are replaced",
        ),
        click.option("--output-format", type=click.Choice(formats), default="parquet", help="of --output"),
    )


def one_snapshot_place(options: SimpleNamespace) -> None:
    """Check that it is said where a snapshot goes.

    Raises:
        ConfigError: neither `--output` nor `--table-prefix` is given, or both are.
    """
    if bool(options.output) == bool(options.table_prefix):
        raise ConfigError("give --output DIR or --table-prefix CATALOG.SCHEMA, one of the two")


def patterns(flag: str, help: str) -> Decorator:
    """`--group` or `--topic`: shell patterns; a tuple."""
    return click.option(flag, metavar="GLOB", multiple=True, help=help + REPEATABLE)


def top(what: str = "groups in the summary", default: int | None = 10) -> Decorator:
    """`--top`."""
    return click.option("--top", metavar="N", type=click.IntRange(min=0), default=default, help=f"{what} (default: 10)")


def fail_on(what: str, help: str) -> Decorator:
    """`--fail-on` with its one condition."""
    return click.option("--fail-on", type=click.Choice([what]), help=help)


def milliseconds(name: str, help: str = "", default: int | None = None) -> Decorator:
    """A time, `--name-ms`."""
    return click.option(f"--{name.replace('_', '-')}", metavar="MS", type=int, default=default, help=help)


TIMES = (
    *("session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms", "rebalance_timeout_ms"),
    *("group_initial_rebalance_delay_ms", "metadata_max_age_ms", "poll_interval_ms", "revoke_ms", "restore_ms"),
    *("group_consumer_session_timeout_ms", "group_consumer_heartbeat_interval_ms"),
    "group_consumer_assignment_interval_ms",
)
"""What groups are set to, under the names of `protocol.Settings`."""


def times_of_groups() -> Decorator:
    """`--session-timeout-ms` and the other times that groups are set to; see `given_times`."""
    return together(*(milliseconds(name) for name in TIMES))


def given_times(options: SimpleNamespace) -> dict[str, Any]:
    """Those that are given, for `protocol.Settings`."""
    return {name: getattr(options, name) for name in TIMES if getattr(options, name) is not None}


def shipped(job_file: str) -> Path:
    """The folder conf: in a wheel beside the jobs, in a clone beside their folder."""
    here = Path(job_file).resolve().parent
    return here / "conf" if (here / "conf").is_dir() else here.parent / "conf"


def fleet_or_sample(options: SimpleNamespace, job_file: str) -> str | None:
    """The place of the fleet that is asked for; null where `--table` alone names the tables.

    Args:
        options: of a job that `reads`.
        job_file: the job, beside which the sample fleet is.

    Raises:
        ConfigError: neither `--fleet` nor `--sample` is given, or both are; or the sample fleet is not there.
    """
    by_words = [name for name in ("fleet", "sample") if name in options.given]
    named_inputs = by_words or [name for name in ("fleet", "sample") if getattr(options, name)]
    if len(named_inputs) == 2:
        raise ConfigError("--fleet and --sample are both given; give one of the two")
    if named_inputs == ["sample"]:
        return sample_fleet(job_file)
    if not named_inputs and not options.table:
        raise ConfigError("there is no fleet: give --fleet PLACE, or --sample for the sample fleet")
    place: str | None = options.fleet
    return place


def tables_with_loads(options: SimpleNamespace, job_file: str) -> dict[str, str] | None:
    """What `--table` says; for the sample fleet also its made-up rates, which are not among its files."""
    tables: dict[str, str] = dict(options.table or {})
    loads = shipped(job_file) / "sample-loads" / "loads.csv"
    if options.sample and not options.fleet and "loads" not in tables and loads.exists():
        tables["loads"] = str(loads)
    return tables or None


def sample_fleet(job_file: str) -> str:
    """Where the sample fleet is. Raises ConfigError, as `sample`."""
    return sample(job_file, "fleet")


def sample(job_file: str, what: str) -> str:
    """Where a sample is: of a `fleet`, of a `history`.

    Raises:
        ConfigError: it is not beside this job (a driver in a cluster has the job's file alone).
    """
    place = shipped(job_file) / f"sample-{what}"
    if not place.is_dir():
        raise ConfigError(f"the sample {what} should be in {place} and is not; use the wheel, or a clone")
    return str(place)


def _from_file(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """What the settings file says becomes the flags' defaults."""
    if path is not None:
        try:
            ctx.default_map = defaults(path, ctx.command.params)
        except ConfigError as error:
            raise click.UsageError(str(error), ctx) from error
    return path


CONFIG = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    is_eager=True,
    callback=_from_file,
    help="settings in TOML: what the flags say, which win over it",
)
OUTCOME = click.option(
    "--outcome", type=PLACE, metavar="FILE", help="write how the job ended, as JSON: a file, or a URI pyarrow writes to"
)
VERBOSE = click.option("--verbose", is_flag=True, help="Spark's warnings, and tracebacks")
