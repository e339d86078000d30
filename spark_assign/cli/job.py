"""How jobs are called and what they report: click commands, exit codes, logs, and outcomes."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import secrets
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from spark_assign.cli.options import (
    CONFIG,
    FILE_TO_WRITE,
    LOCATION,
    DurationType,
    LocationType,
    MovedOption,
    check_rule,
    location_option,
    require_file_to_write,
)
from spark_assign.cli.process import (
    CLOSED,
    INTERRUPTED,
    STOPS,
    TERMINATED,
    OutputFailed,
    Terminated,
    VisibleOutput,
    leave,
    sigterm_raises,
    starting_session,
    stop_behind,
    with_output_written,
)
from spark_assign.report.formatting import record_listed, visible, with_own_names
from spark_assign.stores.locations import (
    file_system,
    is_path,
    is_special,
    join,
    local_path,
    problem_of,
    without_credentials,
    write_in_place,
)
from spark_assign.tables.errors import (
    DISK_FAILURES,
    SparkAssignError,
    find_disk_failure,
    find_fault,
    forget_tables,
    reason,
)
from spark_assign.tables.parameters import largest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_assign.stores.run_store import ManifestOutcome, ReadTable, RowCounts


WRONG_INPUT, FAILURE = 2, 3
"""Exit codes of all jobs, besides those of signals. 0 and 1 depend on the job: 1 if it found what `--fail-on` names,
otherwise 0."""
OUTCOME = location_option(
    "--outcome",
    "Write how the job ended to FILE as JSON: a path, or a URI that pyarrow can write to.",
    type=LOCATION,
    metavar="FILE",
)
LOG_FORMAT = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of messages on standard error: text, or json, an object per line (default: text).",
)
VERBOSE = click.option("--verbose", is_flag=True, help="Show Spark warnings and tracebacks.")
Options = SimpleNamespace
"""Values of a job's options; `outcome`: the job's `Outcome`; `outcome_file`: its file, or None; `given`: the source of
each value that isn't a default, by name. A source that precedes another one is less than it."""
Rule = str | Callable[[Options], object]
"""What options must fulfill together: a text (`cli.options.check_rule`), or a function that raises `ConfigError`."""
ENVIRONMENT = "SPARK_ASSIGN"
"""Start of the names of environment variables with values of options, before the words of the command and the flag:
`SPARK_ASSIGN_PLAN_OUTPUT`. Other variables of this project, such as `SPARK_ASSIGN_SEED`, don't name a command."""
_log, _engine_is_logged = logging.getLogger(__name__), threading.Event()


def run_job(
    job: str,
    run: Callable[[], int],
    *,
    verbose: bool,
    input_errors: Sequence[type[Exception]] = (SparkAssignError,),
    progress: bool = True,
    outcome: Outcome | None = None,
    file: str | None = None,
    log_format: str = "text",
) -> int:
    """Runs a job. An error becomes one line on standard error and an exit code.

    Args:
        job: name of the job, the first word of its messages.
        run: runs the job and returns its exit code.
        verbose: whether to show a traceback after the message.
        input_errors: exceptions that report wrong input. Other exceptions are failures.
        progress: whether to log what the package has done. The engine, and progress of long steps, are always shown.
        outcome: how the job ended.
        file: file for the outcome; None: no file.
        log_format: `text`, or `json`: everything on standard error is a JSON object per line.

    Returns:
        the exit code of the job; 2 for wrong input; 3 for a failure, including an outcome file that can't be written;
        130 after Ctrl-C, 143 after SIGTERM, and 141 if standard output was closed.
    """
    outcome = outcome or Outcome(job)
    handler = logging.StreamHandler(sys.stderr)
    is_json = log_format == "json"
    handler.setFormatter(JsonFormatter() if is_json else VisibleFormatter("%(asctime)s %(message)s", "%H:%M:%S"))
    logging.basicConfig(handlers=[handler])
    _engine_is_logged.clear()
    forget_tables()
    for name in ("spark_assign.spark.progress", __name__):
        logging.getLogger(name).setLevel(logging.INFO)
    if progress:
        logging.getLogger("spark_assign").setLevel(logging.INFO)
    # They log retries, and answers that can't be read, as they are; a final failure is reported by this package.
    for name in ("kafka", "grpc", "botocore", "urllib3"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    log = logging.getLogger(f"spark_assign.{job}")
    expected: tuple[type[BaseException], ...] = (SparkAssignError, OutputFailed, *input_errors)
    exit_code = INTERRUPTED
    try:
        with contextlib.redirect_stderr(_Logged(log)) if is_json else contextlib.nullcontext():
            exit_code = run()
    except BaseException as raised:  # also SystemExit of a module of the user, and a panic of the embedded engine
        if stop := stop_behind(raised):
            exit_code, (stopped_by, word) = stop, STOPS[stop]
            if stop != CLOSED:
                log.error("%s: %s", job, word)
            outcome.failed(stopped_by.__name__, word)
        else:
            error = (outcome.replaced(raised) if outcome.attempt else None) or find_fault(raised) or raised
            if type(error).__module__.startswith(("pyspark", "py4j")):  # of stored tables, it has its location
                error = find_disk_failure(tempfile.gettempdir(), error) or error
            kind, is_expected = type(error).__name__, isinstance(error, expected)
            message = str(error) if is_expected else reason(error)
            if isinstance(error, OSError) and error.errno in DISK_FAILURES and error.filename:
                message = f"{error.filename} can't be written: {problem_of(error)}"
            text = f"{job}: {message}" if is_expected else f"{job} failed: {kind}: {message} (more with --verbose)"
            log.error("%s", text, exc_info=verbose)
            outcome.failed(kind, message)
            exit_code = WRONG_INPUT if isinstance(error, tuple(input_errors)) else FAILURE
    finally:
        is_written = _write(outcome, exit_code, file, log)
    return exit_code if is_written else FAILURE


class VisibleFormatter(logging.Formatter):
    """Writes log messages, which can contain names from a cluster, without characters that control a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the text of a message."""
        return visible(without_credentials(super().format(record)))


class JsonFormatter(logging.Formatter):
    """Writes a log message as a JSON object on one line: time (UTC), level, logger, message, and exception, if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the text of a message."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry = {"time": time, "level": record.levelname.lower(), "logger": record.name}
        entry["message"] = without_credentials(record.getMessage())
        if record.exc_info:
            entry["exception"] = without_credentials(self.formatException(record.exc_info))
        return json.dumps(entry).replace("\x7f", "\\u007f")


class _Logged(io.TextIOBase):
    """Standard error of which each line becomes a log message."""

    def __init__(self, log: logging.Logger) -> None:
        self._log, self._rest = log, ""

    def write(self, text: str) -> int:
        """Logs the lines that are complete."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(None, lines):
            self._log.warning("%s", line)
        return len(text)


# --- outcomes: how a job ended, as JSON for a scheduler, which otherwise has only an exit code and text ------------
#
#     {"job": "check", "exit_code": 1, "counts": {"alerts": 2}, "error": null, …}
#
# A job fills its `Outcome` while it runs, and `run_job` always writes it at the end (`--outcome FILE`). The manifest of
# a stored run contains the values that are known when its tables are complete (`Outcome.of_run`).


VERSION = 1
"""Version of the file format. New keys don't change it."""
_OBJECT_STORES = ("s3", "gcs", "abfs")


@dataclass
class Outcome:
    """How a job ended.

    Attributes:
        job: name of the job.
        exit_code: exit code of the job; None while it runs.
        started_at, finished_at: UTC times, ISO 8601.
        run_id, attempt: the run that was written, and its attempt.
        locations: where the output is: the run (`output`), a report, pictures, …
        rows: number of rows of each table that was written.
        counts: other counts: groups, alerts, rejected, …
        exceeded: exceeded thresholds: name, limit, and number of groups that exceed it.
        summary: text about the result, for people.
        error: kind and message, as on standard error; None if there was no error.
    """

    job: str
    exit_code: int | None = None
    started_at: str = field(default_factory=lambda: _now())
    finished_at: str | None = None
    run_id: str | None = None
    attempt: str | None = None
    locations: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    exceeded: list[dict[str, Any]] = field(default_factory=list)
    summary: str | None = None
    error: dict[str, str] | None = None

    def wrote(self, manifest: Any, output: str) -> None:
        """Records a stored run (`stores.run_store.Manifest`)."""
        self.run_id, self.attempt, self.rows = manifest.run_id, manifest.attempt, dict(manifest.rows)
        self.locations["output"] = output

    def replaced(self, error: BaseException) -> SparkAssignError | None:
        """Returns the error of a stored run that another job has replaced (`stores.run_store.find_replaced`): the one
        that was written, or that a job without `--output` reads."""
        from spark_assign.stores.run_store import find_replaced

        output = self.locations.get("output", next(iter(self.locations.values()), ""))
        return find_replaced(error, output, self.run_id, str(self.attempt))

    def of_run(self, found: str | Callable[[ReadTable], bool] | None = None) -> ManifestOutcome:
        """Returns a function for the manifest of a run: job, exit code, and rows, from the written tables.

        Args:
            found: condition for exit code 1: a table with rows (of any kind of group), or a function of the tables.
                None: the exit code is 0.
        """

        def manifest_entries(rows: RowCounts, read: ReadTable) -> Mapping[str, Any]:
            from spark_assign.stores.run_store import num_rows_of_kinds

            fails = found(read) if callable(found) else bool(found and num_rows_of_kinds(rows, found))
            return {"job": self.job, "exit_code": int(fails), "started_at": self.started_at, "rows": dict(rows)}

        return manifest_entries

    def failed(self, kind: str, message: str) -> None:
        """Records an error."""
        self.error = {"kind": kind, "message": without_credentials(message)}

    def ended(self, exit_code: int) -> None:
        """Records the end of the job."""
        self.exit_code, self.finished_at = exit_code, _now()

    def as_json(self) -> str:
        """Returns the text of the file. A byte of an argument that isn't UTF-8 is in it as text, such as `\\udcff`."""
        text = json.dumps({"version": VERSION, **asdict(self)}, indent=2, ensure_ascii=False) + "\n"
        return re.sub(r"[\ud800-\udfff]", lambda half: f"\\\\u{ord(half[0]):x}", text)


def write(outcome: Outcome, file: str) -> None:
    """Writes an outcome atomically.

    Args:
        outcome: outcome of a job that has ended.
        file: see `write_text`.

    Raises:
        OSError: the file can't be written.
    """
    write_text(outcome.as_json(), file)


def write_text(text: str, file: str) -> None:
    """Writes a text, atomically except to a device or a pipe.

    Args:
        text: content of the file.
        file: a local path, whose folder is created if necessary, or a URI that pyarrow can write to.

    Raises:
        OSError: the file can't be written.
    """
    import pyarrow as pa

    try:
        system, path = file_system(file)
        above = path.rpartition("/")[0]
        system.create_dir(above)
        if system.type_name == "local" and is_special(path):
            write_in_place(text.encode(), path)
            return
        # An object store shows a file only when it is closed. Elsewhere, the complete file is renamed.
        in_place = system.type_name in _OBJECT_STORES
        partial = path if in_place else join(above, f".{secrets.token_hex(6)}.partial")
        try:
            with system.open_output_stream(partial, compression=None) as stream:
                stream.write(text.encode())
            if partial != path:
                system.move(partial, path)
        except (OSError, ValueError, pa.ArrowException):
            with contextlib.suppress(OSError):
                if partial != path:
                    system.delete_file(partial)
            raise
    except (pa.ArrowException, ValueError) as error:
        problem = "the path isn't UTF-8" if isinstance(error, UnicodeError) else error
        raise OSError(f"pyarrow can't write to {file}: {problem}") from error


def find_option(words: Sequence[str], flag: str) -> str | None:
    """Returns the value of a flag on a command line that can't be parsed."""
    found = None
    for word, following in zip(words, [*words[1:], None], strict=False):
        if word == flag:
            found = following
        elif word.startswith(f"{flag}="):
            found = word.partition("=")[2]
    return found or None


def _write(outcome: Outcome, exit_code: int, file: str | None, log: logging.Logger) -> bool:
    """Writes the outcome to its file, if any. Returns False if the file can't be written."""
    outcome.ended(exit_code)
    try:
        if file is not None:
            write(outcome, file)
    except (OSError, SparkAssignError) as error:
        log.error("%s: --outcome %s can't be written: %s", outcome.job, file, problem_of(error))
        return False
    return True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# --- commands ------------------------------------------------------------------------------------------------------


class Command(click.Command):
    """A click command that is called with its arguments and returns an exit code."""

    def __call__(self, words: Sequence[str] | None = None) -> int:
        """Runs the command with these arguments and returns its exit code. Wrong usage is a message and exit code 2.

        Without arguments, they are those of the process, which ends after the command, unless its exit code is 0.
        """
        if words is not None:
            return self._run(list(words))
        with sigterm_raises():
            exit_code = with_output_written(partial(self._run, sys.argv[1:]), str(self.name))
        leave(exit_code)
        if exit_code:
            sys.exit(exit_code)
        return 0

    def _run(self, words: list[str]) -> int:
        try:
            exit_code = self.main(words, self.name, standalone_mode=False)
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            path = str(context.command_path if context else self.name)
            text = f"{path}: {error.format_message()}\nFor its options, run: {path} --help"
            if find_option(words, "--log-format") == "json":
                record = logging.LogRecord("spark_assign", logging.ERROR, "", 0, text, None, None)
                text = JsonFormatter().format(record)
            print(visible(without_credentials(text)), file=sys.stderr)
            outcome = Outcome(path.removeprefix("spark-assign "))
            outcome.failed("UsageError", error.format_message())
            file = find_option(words, "--outcome")
            file = file if file and file == without_credentials(file) else None
            _write(outcome, WRONG_INPUT, file, logging.getLogger("spark_assign"))
            return WRONG_INPUT
        except SystemExit as error:
            if error.code != 1:
                raise
            return CLOSED  # click's end if standard output is closed; 1 means that a job has found something
        except (click.Abort, Terminated) as error:  # before the job began
            exit_code = TERMINATED if isinstance(error, Terminated) else INTERRUPTED
            print(f"{self.name}: {STOPS[exit_code][1]}", file=sys.stderr)
        return int(exit_code or 0)


class Commands(Command, click.Group):
    """A command with subcommands (`replicas place`, `replicas check`)."""


class Job(Command):
    """A job: its options, and how it ends (`run_job`).

    Attributes:
        words: words of the command: `("replicas", "place")`.
        label: name of the job in messages.
        usage: which options go together.
        commands: jobs below it, by name: `size` of `advise size`.
        input_errors, progress: see `run_job`.
    """

    words: Sequence[str]
    label: str
    usage: Sequence[Rule]
    commands: Mapping[str, Job]
    input_errors: Sequence[type[Exception]]
    progress: bool

    @property
    def environment(self) -> str:
        """The start of the names of the environment variables that have values of its options."""
        return "_".join([ENVIRONMENT, *self.words]).upper().replace("-", "_")

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> click.Context:
        """Returns the context of the command, in which environment variables have values of its options.

        It is that of another job if the first argument names one of `commands`, or a former option does.
        """
        for each in self.params:
            if isinstance(each, MovedOption) and (words := each.words_of_command(args)) and words[0] in self.commands:
                print(f"{self.label}: {each.opts[0]} is now a command: {self.label} {words[0]}", file=sys.stderr)
                args = words
        if args and args[0] in self.commands:
            name, *words = args
            return self.commands[name].make_context(f"{info_name} {name}", words, *more, **extra)
        return super().make_context(info_name, args, *more, **{"auto_envvar_prefix": self.environment, **extra})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the options. Raises UsageError, with the most similar command, if a word before them names none."""
        if self.commands and args and not args[0].startswith("-") and not ctx.resilient_parsing:
            from spark_assign.cli.settings_errors import did_you_mean  # needs pydantic

            raise click.UsageError(f"No such command {args[0]!r}. {did_you_mean(args[0], self.commands)}.", ctx)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, and the commands."""
        super().format_options(ctx, formatter)
        if self.commands:
            with formatter.section("Commands"):
                formatter.write_dl([(name, each.get_short_help_str(120)) for name, each in self.commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Returns the commands with names that start with `incomplete`, and the options."""
        is_first = ParameterSource.COMMANDLINE not in map(ctx.get_parameter_source, ctx.params)
        names = [CompletionItem(name) for name in self.commands if is_first and name.startswith(incomplete)]
        return [*names, *super().shell_complete(ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> int:
        """Runs the job of the context and returns its exit code."""
        if isinstance(ctx.command, Job) and ctx.command is not self:
            return ctx.command.invoke(ctx)
        options, run = _options(ctx), self.callback
        assert run is not None

        def checked() -> int:
            self.check(options)
            exit_code: int = run(options)
            return exit_code

        run_it = partial(
            run_job,
            self.label,
            checked,
            verbose=options.verbose,
            input_errors=self.input_errors,
            progress=self.progress,
            outcome=options.outcome,
            file=ctx.params["outcome"],
            log_format=options.log_format,
        )
        return run_and_print(options.print_format, options.outcome, run_it)

    def check(self, options: Options) -> None:
        """Checks which options are combined. Raises ConfigError."""
        for rule in self.usage:
            if isinstance(rule, str):
                check_rule(options, rule)
            else:
                rule(options)
        for each in self.params:
            if each.type is FILE_TO_WRITE and (file := getattr(options, str(each.name))) is not None:
                require_file_to_write(each.opts[0], file)
        if hasattr(options, "owners") and not getattr(options, "clusters", None):
            from spark_assign.cli.owners import check_owners  # of no use to a snapshot, which should start soon

            check_owners(options.owners, options.owner)

    def parse(self, words: Sequence[str]) -> Options:
        """Returns the options that the job gets from these arguments.

        Raises:
            click.UsageError: wrong usage.
        """
        return _options(self.make_context(self.name, list(words)))


def job(
    about: str | None,
    exit_codes: str,
    *,
    name: str,
    label: str | None = None,
    usage: Sequence[Rule] = (),
    commands: Sequence[Job] = (),
    input_errors: Sequence[type[Exception]] = (SparkAssignError,),
    progress: bool = True,
    config: Callable[[Any], Any] = CONFIG,
    markdown: bool = False,
) -> Callable[[Callable[[Options], int]], Job]:
    """Turns a function from options to an exit code into a job.

    Args:
        about: description of the job: the docstring of its module.
        exit_codes: end of its help text.
        name: name of the command.
        label: name in messages, if it is another: that of the command of which this is a subcommand.
        usage, commands: see `Job`.
        input_errors, progress: see `run_job`.
        config: the option `--config`; default: a file with the values of the flags (`settings_file`).
        markdown: whether `-o markdown` is one of the formats.
    """

    def decorate(run: Callable[[Options], int]) -> Job:
        made = click.command(name, cls=Job, help=about, epilog=exit_codes)(
            LOG_FORMAT(VERBOSE(config(OUTCOME(print_format(markdown)(run)))))
        )
        # Decorators add parameters at the start.
        log_format, verbose, settings, outcome, printed, *own = made.params
        made.params = [*own, printed, outcome, log_format, settings, verbose]
        made.label, made.usage, made.input_errors, made.progress = label or name, usage, input_errors, progress
        made.commands = {str(each.name): each for each in commands}
        made.words = (name,) if label is None else (label, name)
        return made

    return decorate


_NO_UTF8 = re.compile("[\0\ud800-\udfff]")
"""NUL, which a settings file can have, and what Python makes of bytes that aren't UTF-8 in a command line."""


def _values(value: Any) -> Iterator[Any]:
    """Yields the texts and numbers of an option's value."""
    if isinstance(value, tuple | dict):
        for each in value.items() if isinstance(value, dict) else value:
            yield from _values(each)
    elif isinstance(value, str | int | float):
        yield value


def check_value(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Raises click.BadParameter if a value of an option has a number that is too large, or a text that isn't UTF-8."""
    for each in _values(value):
        is_time = isinstance(getattr(param.type, "element", param.type), DurationType)
        most = largest(f"{param.name} {param.metavar}", is_whole=isinstance(each, int) and not is_time)
        if isinstance(each, int | float) and not -most <= each <= most:
            raise click.BadParameter(f"{str(each)[:40]} isn't a number of at most {most:,}.", ctx, param)
        if isinstance(each, str) and _NO_UTF8.search(each):
            raise click.BadParameter("a value has a NUL, or isn't UTF-8.", ctx, param)
        is_location = isinstance(each, str) and isinstance(param.type, LocationType) and is_path(each)
        if is_location and _NO_UTF8.search(local_path(each) or ""):
            raise click.BadParameter("the path of the current folder isn't UTF-8.", ctx, param)


def _options(ctx: click.Context) -> Options:
    for param in ctx.command.params:
        check_value(ctx, param, ctx.params.get(str(param.name)))
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    values = dict(ctx.params)
    for location, *others in (("fleet", "format", "option", "table"), ("output", "output_format", "output_option")):
        if sources.get(location) in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT):
            for name in others:  # format and options of the file belong to its location
                if sources.get(name) is ParameterSource.DEFAULT_MAP:
                    values[name], sources[name] = None, ParameterSource.DEFAULT
    given = {name: source for name, source in sources.items() if source is not ParameterSource.DEFAULT}
    label = str(getattr(ctx.command, "label", ctx.command.name))
    changed = {"outcome": Outcome(label), "outcome_file": ctx.params.get("outcome")}
    return SimpleNamespace(**{**values, **changed}, given=given)


def spark_session(job: str, options: Options) -> SparkSession:
    """Returns the active session, or a new one. With `--verbose`, a new one shows Spark's warnings.

    The first call of a job logs which engine runs.
    """
    from spark_assign.spark.engine import start_session

    with starting_session():
        session, engine = start_session(f"spark_assign {job}", {"spark.log.level": "WARN"} if options.verbose else {})
    if not _engine_is_logged.is_set():
        _engine_is_logged.set()
        _log.info("engine: %s", engine)
    return session


MARKDOWN = "markdown"
"""A value of `-o` of the job compare: the comment of a pull request."""


def print_format(markdown: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns `-o`; `markdown`: whether the job prints Markdown, too."""
    last = "csv (only its rows), or markdown (with --changes" if markdown else "or csv (only its rows"
    return click.option(
        "-o",
        "--print-format",
        type=click.Choice(["table", "json", "yaml", "csv", *[MARKDOWN] * markdown]),
        default="table",
        help=f"Format of the printed summary: table (text), json, yaml, {last}; default: table).",
    )


@with_own_names
def run_and_print(format: str, outcome: Outcome, run: Callable[[], int]) -> int:
    """Runs a job, prints its outcome and the rows that it listed in this format, and returns its exit code.

    Args:
        format: a value of `-o`. With table, the job prints its own text.
        outcome: the outcome that the job fills.
        run: runs the job.
    """
    if format in ("table", MARKDOWN):
        with contextlib.redirect_stdout(VisibleOutput(sys.stdout)):
            return run()
    with contextlib.redirect_stdout(io.StringIO()) as text, record_listed() as listed:
        exit_code = run()
    from spark_assign.cli.documents import document

    summary = outcome.summary or text.getvalue().rstrip()
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(document(format, {**asdict(outcome), "summary": summary}, listed, encoding), end="")
    return exit_code
