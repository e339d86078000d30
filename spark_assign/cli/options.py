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
| `--session-timeout`, … | settings of simulated groups, and other parameters (`parameter_options`) |
| `--fail-on`, `--top` | condition for exit code 1; number of rows in the summary |
| `--outcome` | JSON file about how the job ended (`spark_assign.cli.job`) |
| `--log-format` | text or JSON on standard error |
| `--config`, `--verbose` | settings file; Spark warnings and tracebacks |

The value of a flag comes from the command line, else from the environment variable `SPARK_ASSIGN_<COMMAND>_<FLAG>`,
else from the settings file, else it is the default.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from spark_assign.cli.settings_file import SETTINGS_FILE, defaults
from spark_assign.stores.locations import is_path, local_path, split_run_id, time_as_run_id, without_credentials
from spark_assign.tables.errors import DISK_FAILURES, ConfigError
from spark_assign.tables.parameters import ParameterField, parameter_fields

# --- locations: checked before a job starts, whether what it reads exists, and whether it may write ----------------


LOCAL_FILES = "SPARK_ASSIGN_LOCAL_FILES"
"""Environment variable that the launchers set if a path without a scheme is a path of this machine."""


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def require_input(location: str, *, is_folder: bool = False) -> None:
    """Checks whether a location to read exists, if this process can know it: a path of this machine.

    Args:
        location: a folder, file, URI, or catalog prefix, optionally with a run. Its name can have wildcards.
        is_folder: whether it can't be a catalog prefix.

    Raises:
        ConfigError: there is no such file or folder, or the engine has no catalog or doesn't know the URI's scheme.
    """
    place = split_run_id(location)[0]
    _require_engine(place, is_folder=is_folder)
    is_local = place.startswith("file:") or bool(os.environ.get(LOCAL_FILES))
    path = local_path(place) if is_local and is_path(place) and not set("*?[{") & set(place) else None
    if path is not None and not os.path.exists(path):
        raise ConfigError(f"there is no file or folder {path}")


def require_output(location: str, *, is_folder: bool = False) -> None:
    """Checks whether a folder can be created and written, if it is on this machine.

    Args:
        location: a folder, URI, or catalog prefix.
        is_folder: whether it can't be a catalog prefix.

    Raises:
        ConfigError: a file or a broken link is where a folder must be, nothing can be created there, the path has
            control characters, or the engine has no catalog or doesn't know the URI's scheme.
    """
    _require_engine(location, is_folder=is_folder, is_written=True)
    path = local_path(location) if is_path(location) or os.path.exists(location) else None
    if path is None:
        return
    if _CONTROL.search(path):
        raise ConfigError(f"can't write to {location!r}: the path has a line end or another control character")
    existing = Path(path)
    while not os.path.lexists(existing):
        existing = existing.parent
    if not existing.is_dir():
        raise ConfigError(f"can't write to {location}: {existing} isn't a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ConfigError(f"can't write to {location}: no permission to write to {existing}")
    try:
        with contextlib.suppress(FileNotFoundError):
            os.lstat(path)  # a name can be too long
        os.rmdir(tempfile.mkdtemp(prefix=".spark-assign-", dir=existing))
    except OSError as error:  # /proc
        if error.errno in DISK_FAILURES:  # the job fails then, but its input isn't wrong
            return
        raise ConfigError(f"can't write to {location}: {error.strerror} in {existing}") from error


def require_local_folder(location: str) -> None:
    """Checks a folder that this process writes, without the engine. Raises ConfigError if it isn't on this machine."""
    path = local_path(location)
    if path is None:
        raise ConfigError(f"{location} isn't a folder of this machine (one of this name would be ./{location})")
    require_output(path, is_folder=True)


def require_file_to_write(flag: str, file: Path) -> None:
    """Checks a file before anything is computed. Raises ConfigError if it is a folder, or has no folder."""
    try:
        is_folder = stat.S_ISDIR(os.stat(file).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        is_folder = False
    except OSError as error:  # a name can be too long
        raise ConfigError(f"{flag} {file}: {error.strerror}") from error
    if is_folder:
        raise ConfigError(f"{flag} {file} is a folder. Name a file in it, for example {file / 'file'}.")
    if not file.absolute().parent.is_dir():
        raise ConfigError(f"{flag} {file}: the folder {file.absolute().parent} doesn't exist. Create it first.")


def _require_engine(location: str, *, is_folder: bool, is_written: bool = False) -> None:
    """Raises ConfigError if a location is a name in a catalog, or a URI, that the engine can't open."""
    is_name = not is_path(location) and not os.path.exists(location)
    if (is_folder and is_name) or (not is_name and ":" not in location):
        return
    from spark_assign.spark.engine import check_scheme, choose, needs_spark

    if choose()[0] != "embedded":
        return
    check_scheme(location, is_written=is_written)
    if is_name:
        raise needs_spark(f"{location}, a name in a catalog (a folder would be ./{location}),")


def require_format(name: str | None) -> None:
    """Checks whether the engine can read and write a format. Raises ConfigError; not for None, the default."""
    if name in (None, "parquet", "csv", "json"):
        return
    from spark_assign.spark.engine import TABLE_FORMATS, choose, needs_spark

    if name not in TABLE_FORMATS and choose()[0] == "embedded":
        raise needs_spark(f"The format {name}")


class CheckedType(click.types.StringParamType):
    """A text that a function checks before a job starts: it raises ConfigError."""

    def __init__(self, check: Callable[[str], object]) -> None:
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Checks a value."""
        try:
            self._check(value)
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


class LocationType(CheckedType):
    """A folder, URI, or catalog prefix, optionally with a run (`LOCATION@RUN_ID`). In a settings file, a relative path
    starts from the file's folder."""

    name = "location"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuses passwords and keys, which messages, manifests, and reports would repeat."""
        text = "".join(str(value).split())  # a password can have spaces
        if "://" in text and without_credentials(text) != text:  # not a local file `a?key=1`
            remedy = "Give them in the environment, in a profile, or in the store's settings of Spark (spark.hadoop.…)"
            self.fail(f"a location has a password, a key, or a token in it. {remedy}.", param, ctx)
        return super().convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Returns a request to the shell to complete the name of a file or folder."""
        return [CompletionItem(incomplete, type="file")]


class LocalFolderType(LocationType):
    """A folder of this machine that a job writes; converted to a path."""

    def __init__(self) -> None:
        super().__init__(require_local_folder)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Checks a folder."""
        location: str = super().convert(value, param, ctx)
        return local_path(location) if location.startswith("file:") else location


class PathType(click.Path):
    """A path of this machine, as a `Path`."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuses NUL, which a settings file can have."""
        if "\0" in str(value):
            self.fail("a path has a NUL.", param, ctx)
        return super().convert(value, param, ctx)


PATH, FILE_TO_WRITE = PathType(), PathType()
"""A path, and one of a file that a job writes in the end (`require_file_to_write`)."""
FORMAT = CheckedType(require_format)
"""A format of tables, which the engine must have."""
INPUT, OUTPUT, LOCATION = LocationType(require_input), LocationType(require_output), LocationType(local_path)
"""A location that is read, one that is written, and one of which only the form is
checked."""
INPUT_FILES, OUTPUT_FILES = (LocationType(partial(check, is_folder=True)) for check in (require_input, require_output))
"""A file or folder that is read, and one that is written."""
LOCAL_FOLDER = LocalFolderType()
SERVERS_METAVAR = "HOST:PORT,…"


def _require_servers(text: str) -> None:
    """Refuses an empty text, which would look like no option. The client checks the servers (`check_servers`)."""
    if not text.strip():
        raise ConfigError(f"expected {SERVERS_METAVAR}")


SERVERS = CheckedType(_require_servers)
"""A folder of this machine that is written without the engine."""


# --- options -------------------------------------------------------------------------------------------------------


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


class ListType(click.types.StringParamType):
    """Values separated by commas; converted to a tuple."""

    def __init__(self, element: click.ParamType[Any]) -> None:
        self.element, self.name = element, f"{element.name},…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Converts each value. A key of a pair occurs once."""
        values = (each.strip() for each in value.split(",")) if isinstance(value, str) else value
        found = tuple(self.element.convert(each, param, ctx) for each in values)
        keys = [key for key, _ in found] if isinstance(self.element, PairType) else []
        if (twice := next((key for key in keys if keys.count(key) > 1), None)) is not None:
            self.fail(f"{twice} is listed twice. Remove one of them", param, ctx)
        return found


class PairType(click.types.StringParamType):
    """`KEY=VALUE`, or also `KEY`; converted to a tuple of both, with None for a missing value."""

    def __init__(self, key: click.ParamType[Any], value: click.ParamType[Any], *, optional: bool = False) -> None:
        self.key, self.value, self.optional, self.name = key, value, optional, f"{key.name}={value.name}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Converts both parts."""
        if not isinstance(value, str):
            return value
        key, _, text = value.partition("=")
        if not text and not self.optional:
            self.fail(f"{value}: expected {self.name.upper()}", param, ctx)
        return self.key.convert(key, param, ctx), self.value.convert(text, param, ctx) if text else None


DURATION = DurationType()
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_DURATION_MS = 36_500 * _UNITS_MS["d"]
"""Longest duration. No time of a record minus it is before the year 1, nor is a sum of some more than a long."""


def duration_text(milliseconds: int) -> str:
    """Returns a duration in its largest unit that has a whole number, such as `90s`."""
    unit = next(unit for unit, size in reversed(_UNITS_MS.items()) if milliseconds % size == 0 and unit != "min")
    return f"{milliseconds // _UNITS_MS[unit]}{unit}" if milliseconds else "0s"


def parameter_options(parameters: type, *names: str, condition: str = "", defaults: bool = False) -> Decorator:
    """Returns the options of fields of a dataclass (`tables.parameters`): type, bounds, default, and help are theirs.

    Args:
        parameters: the dataclass.
        names: names of the fields, in order; by default all that have a `Param`.
        condition: when the options apply, such as `With --history`; empty: always.
        defaults: whether an option that isn't given has the default of the dataclass, instead of None.
    """
    known = {each.name: each for each in parameter_fields(parameters)}
    return compose_options(*(parameter_option(known[name], condition, defaults) for name in names or known))


def parameter_option(field: ParameterField, condition: str = "", has_default: bool = False) -> Decorator:
    """Returns the option of a field (`parameter_options`)."""

    def check(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value is not None and not field.param.accepts(value if field.unit != "s" else value / 1_000):
            raise click.BadParameter(f"expected {field.expected}.", ctx, param)
        return value

    given: dict[str, Any] = {}
    if has_default and field.default is not None:
        given["default"] = round(field.default * 1_000) if field.unit == "s" else field.default
    given["help"] = _help(field, condition)
    flag = flag_of(field.flag)
    if field.type is bool:
        return click.option(flag, is_flag=True, **{"default": None, **given})
    word = "TIME" if field.unit else "N" if field.type in (int, float) else "NAME"
    metavar: str | None = word
    kind: Any = DURATION if field.unit else _NUMBERS.get(field.type, click.STRING)
    if field.is_sequence:
        kind, metavar = ListType(kind), _LISTS[word]
    elif field.param.choices:
        kind, metavar = click.Choice(field.param.choices), None
    elif field.type in _RANGES and not field.unit and field.param.bounds:
        kind = _RANGES[field.type](**field.param.bounds)
    kind, metavar = field.param.kind or kind, field.param.metavar or metavar
    kind = SERVERS if metavar == SERVERS_METAVAR else kind
    return click.option(flag, type=kind, metavar=metavar, callback=check, multiple=field.is_repeatable, **given)


_LISTS = {"TIME": "TIME,…", "N": "N,N,…", "NAME": "A,B,…"}
_NUMBERS = {int: click.INT, float: click.FLOAT}
_RANGES = {int: click.IntRange, float: click.FloatRange}


def _help(field: ParameterField, condition: str) -> str:
    """Returns what a field means, with its default."""
    is_name = "." in field.about.partition(" ")[0]  # such as group.id
    about = field.about if is_name or condition else f"{field.about[:1].upper()}{field.about[1:]}"
    about = f"{condition}: {about}" if condition else about
    if field.is_repeatable:
        return f"{about}.{REPEATABLE}"
    if "default: " in about or field.default in (None, ()) or field.type is bool:
        return f"{about}."
    texts = [_value_text(field, each) for each in (field.default if field.is_sequence else [field.default])]
    shown = f"default: {','.join(texts)})."
    return f"{about[:-1]}; {shown}" if about.endswith(")") else f"{about} ({shown}"


def _value_text(field: ParameterField, value: Any) -> str:
    if field.unit and not isinstance(value, str):
        return duration_text(value if field.unit == "ms" else int(value * 1_000))
    return str(int(value)) if field.type is float and value == int(value) else str(value)


def given_parameters(options: SimpleNamespace, parameters: type, *names: str) -> dict[str, Any]:
    """Returns the values of fields (`parameter_options`) that options of a job give, by field."""
    known = [each for each in parameter_fields(parameters) if not names or each.name in names]
    values = ((each, getattr(options, each.flag, None)) for each in known)
    return {each.name: value / 1_000 if each.unit == "s" else value for each, value in values if value is not None}


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
    named: dict[str, str] = {}
    for name, _, value in (value.partition("=") for value in values or []):
        named.setdefault(name, value)  # of patterns, the first match wins
    return None if values is None else named


class NamedOption(click.Option):
    """A repeatable option with NAME=VALUE values.

    Attributes:
        names: names that a value can have; empty: any.
        keys: keys of a table in a settings file that stands for a value: those of the name, of the value, and of what
            follows an `@` in the value. `[[leader_client]]` has groups, library, and version.
    """

    def __init__(self, *args: Any, names: Sequence[str] = (), keys: Sequence[str] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self.names, self.keys = names, keys


def named_values(
    flag: str,
    metavar: str,
    help: str,
    type: click.ParamType[Any] = click.STRING,
    *,
    for_all: bool = False,
    names: Sequence[str] = (),
    keys: Sequence[str] = (),
) -> Decorator:
    """Returns a repeatable option with NAME=VALUE values of a type: a dict, or None if it isn't given.

    Names that are patterns are added to those of the settings file, and precede them.

    Args:
        flag, metavar, help, type: see `click.option`.
        for_all: whether a value without a name stands for all names, `*`.
        names, keys: see `NamedOption`.
    """

    def read(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, Any] | None:
        if "GLOB" in metavar and ctx.get_parameter_source(flag[2:].replace("-", "_")) is ParameterSource.COMMANDLINE:
            values = [*values, *(ctx.default_map or {}).get(str(param.name), ())]
        try:
            values = [f"*={value}" if for_all and "=" not in value else value for value in values]
            named = pairs(flag, values) or {}
            if unknown := [name for name in named if names and name not in names]:
                from spark_assign.cli.settings_errors import did_you_mean  # needs pydantic

                raise ConfigError(f"{flag}: unknown name {unknown[0]}. {did_you_mean(unknown[0], names)}")
            return {name: type.convert(value, param, ctx) for name, value in named.items()} or None
        except ConfigError as error:
            raise click.UsageError(str(error), ctx) from error

    about = {"metavar": metavar, "multiple": True, "callback": read, "help": help + REPEATABLE}
    return click.option(flag, cls=NamedOption, names=names, keys=keys, **about)


def location_option(
    flag: str, help: str, *, type: LocationType | None = None, metavar: str = "LOCATION", **more: Any
) -> Decorator:
    """Returns an option whose value is a location. `type`: how it is checked, by default as one to read or to write."""
    by_place = (INPUT_FILES, OUTPUT_FILES) if metavar in ("DIR", "FILE") else (INPUT, OUTPUT)
    type = type or by_place[flag == "--output"]
    return click.option(flag, type=type, metavar=metavar, help=help, **more)


def sample_option(what: str = "fleet") -> Decorator:
    """Returns `--sample`."""
    return click.option("--sample", is_flag=True, help=f"Use the bundled sample {what}.")


def stored_run(flag: str, help: str) -> Decorator:
    """Returns an option that names a stored run of another job."""
    return location_option(flag, help, metavar=RUN)


def input_options(
    tables: str = "the fleet's tables", *, sample: bool = True, of_sample: str = "fleet", names: Sequence[str] = ()
) -> Decorator:
    """Returns `--fleet` (and `--sample`), `--format`, `--option`, and `--table`.

    Args:
        tables: description of the tables in the location.
        sample: whether `--sample` is an alternative to `--fleet` (`fleet_or_sample`).
        of_sample: what the sample has.
        names: names of the tables; empty: any.
    """
    return compose_options(
        location_option("--fleet", f"{WHERE} of {tables}."),
        *([sample_option(of_sample)] * sample),
        format_options(),
        named_values("--table", "NAME=LOCATION", "Location of a single table.", INPUT, names=names),
    )


def format_options(files: str = "files") -> Decorator:
    """Returns `--format` and `--option` of input tables."""
    formats = f"Format of the {files}: parquet, csv, json, or any other format of Spark (default: by file name)."
    return compose_options(
        click.option("--format", metavar="NAME", type=FORMAT, help=formats),
        named_values("--option", "K=V", "Reader option of Spark."),
    )


def output_options(
    help: str = f"{WHERE} for the output tables (default: print only).",
    *,
    type: LocationType | None = None,
    default_run_id: bool = True,
) -> Decorator:
    """Returns `--output`, `--output-format`, `--output-option`, and `--run-id`.

    Args:
        help: what is written to the location.
        type: see `location_option`.
        default_run_id: whether the current time is the default of `--run-id`, instead of None.
    """
    run_id: dict[str, Any] = {"default": time_as_run_id} if default_run_id else {}
    formats = "Format of the output tables: parquet (default), csv, json, or any other format of Spark."
    run_help = "Name of the stored run. An existing run of that name is replaced (default: the current time)."
    return compose_options(
        location_option("--output", help, type=type),
        click.option("--output-format", metavar="NAME", type=FORMAT, help=formats),
        named_values("--output-option", "K=V", "Writer option of Spark."),
        click.option("--run-id", metavar="ID", help=run_help, **run_id),
    )


class MovedOption(click.Option):
    """A hidden option that is now a command. On a command line, `Job` runs the command. In a settings file or a
    variable, which are those of another command, it is an error that names the command.

    Attributes:
        command: the command, with `{}` for the value of the option.
    """

    def __init__(self, *flags: Any, command: str, **attributes: Any) -> None:
        attributes |= {"hidden": True, "expose_value": False, "help": "Now a command.", "callback": self._refuse}
        super().__init__(*flags, **attributes)
        self.command = command

    def words_of_command(self, args: Sequence[str]) -> list[str]:
        """Returns the arguments with the words of the command before them; empty if the option isn't one of them."""
        for at, arg in enumerate(args):
            name, has_value, value = arg.partition("=")
            if name == self.opts[0] and (has_value or at + 1 < len(args)):
                value, rest = (value, args[at + 1 :]) if has_value else (args[at + 1], args[at + 2 :])
                return [*(word.format(value) for word in self.command.split()[1:]), *args[:at], *rest]
        return []

    def _refuse(self, ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise click.UsageError(f"{self.opts[0]} {value} is now a command: {self.command.format(value)}", ctx)


def moved_option(flag: str, command: str, names: Iterable[str] = ()) -> Decorator:
    """Returns an option that is now a command (`MovedOption`). `names`: the values that it had; empty: any."""
    return click.option(flag, cls=MovedOption, command=command, type=click.Choice([*names]) if names else None)


def patterns(flag: str, help: str) -> Decorator:
    """Returns a repeatable option whose values are shell patterns: a tuple."""
    return click.option(flag, metavar="GLOB", multiple=True, help=help + REPEATABLE)


def details(what: str) -> Decorator:
    """Returns `--details`, which prints `what` of the matching groups instead of the summary."""
    return patterns("--details", f"Print {what} of the first --top groups with a matching ID, instead of the summary.")


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
    return named_values("--capacity", "GLOB=RATE", help, click.FLOAT)


def openmetrics_option() -> Decorator:
    """Returns `--openmetrics`."""
    help = (
        "Write the metrics of every group to FILE in OpenMetrics format, for the textfile collector of node_exporter."
    )
    return click.option("--openmetrics", metavar="FILE", type=FILE_TO_WRITE, help=help)


def leader_client_option() -> Decorator:
    """Returns `--leader-client`."""
    help = (
        "Client library, and optionally its version, of the group leader, by shell pattern of the group ID. The first "
        "matching pattern wins. Example: payments-*=Java@2.8."
    )
    keys = ("groups", "library", "version")
    return named_values("--leader-client", "GLOB=LIB[@V]", help, keys=keys)


def library_and_release(client: str) -> tuple[str, str | None]:
    """Returns the library and the release, if there is one, of a value of `--leader-client`."""
    library, _, release = client.partition("@")
    return library, release or None


PAUSE_TIMES = ("heartbeat_interval_ms", "poll_interval_ms", "revoke_ms", "restore_ms")
"""Times of `simulation.Settings` that the estimate of paused_partition_seconds depends on."""


def given_values(options: SimpleNamespace, names: Iterable[str]) -> dict[str, Any]:
    """Returns the options of these names that have a value."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def is_given(options: SimpleNamespace, name: str) -> bool:
    """Checks whether an option without a default has a value."""
    value = getattr(options, name)
    return value is not None and value is not False and value != ()


def flag_of(name: str) -> str:
    """Returns the flag of an option: `--run-id`."""
    return f"--{name.replace('_', '-')}"


def flags_of(parameters: type, *names: str) -> str:
    """Returns the flags of fields (`parameter_options`) in a rule (`check_rule`)."""
    fields = (each for each in parameter_fields(parameters) if not names or each.name in names)
    return ", ".join(flag_of(each.flag) for each in fields)


def refuse_flags(options: SimpleNamespace, names: Sequence[str], because: str) -> None:
    """Raises `ConfigError` if a flag is given with a name that starts with one of these. A value of a settings
    file or environment variable can be for other calls of the job.

    Args:
        options: the options of a job.
        names: starts of names of options.
        because: why they have no effect, as a sentence without a period.
    """
    for name, source in options.given.items():
        if source is ParameterSource.COMMANDLINE and name.startswith(tuple(names)):
            raise ConfigError(f"{because}. Remove {flag_of(name)}.")


def check_rule(options: SimpleNamespace, rule: str) -> None:
    """Checks which options are combined.

    Args:
        options: the options of a job.
        rule: `--a, --b needs --c, --d` (any of them), `--a excludes --b, --c`, `one of --a, --b` (exactly one), or
            `any of --a, --b` (at least one), and optionally the reason after a colon.

    Raises:
        ConfigError: the options break the rule.
    """
    text, _, why = rule.partition(": ")
    names = {flag: is_given(options, flag[2:].replace("-", "_")) for flag in re.findall(r"--[a-z-]+", text)}
    flags, others = list(names), []
    for verb in (" needs ", " excludes "):
        if verb in text:
            count = text.partition(verb)[0].count("--")
            flags, others = flags[:count], flags[count:]
    given, also_given = ([flag for flag in part if names[flag]] for part in (flags, others))
    reason = f": {why}" if why else ""
    if " excludes " in text and given and also_given:
        raise ConfigError(f"{also_given[0]} can't be used with {given[0]}{reason}.")
    if " needs " in text and given and not also_given:
        raise ConfigError(f"{given[0]} needs {alternatives(others)}{reason}.")
    if text.startswith("any of ") and not given:
        raise ConfigError(f"Use {alternatives(flags)}{reason}.")
    if text.startswith("one of ") and len(given) != 1:
        problem = f"{given[1]} can't be used with {given[0]}{reason}. " if given else ""
        raise ConfigError(f"{problem}Use exactly one of {', '.join(flags)}.")


def alternatives(names: Sequence[str]) -> str:
    """Returns names as `a, b, or c`."""
    *first, last = names
    return f"{', '.join(first)}{',' if len(first) > 1 else ''} or {last}" if first else last


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


def _read_config(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """Makes the values of the settings file the defaults of the flags."""
    path = path or (SETTINGS_FILE if SETTINGS_FILE.is_file() else None)
    if path is not None and not ctx.resilient_parsing:
        try:
            ctx.default_map = defaults(path, ctx.command)
        except ConfigError as error:
            raise click.UsageError(str(error), ctx) from error
    return path


CONFIG = click.option(
    "--config",
    metavar="FILE",
    type=PATH,
    is_eager=True,
    callback=_read_config,
    help=f"TOML file with settings (default: {SETTINGS_FILE}, if it exists). Flags and environment variables take "
    "precedence.",
)
