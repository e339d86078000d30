"""What the jobs share as commands: how they are called, how they end, what they log.

Jobs are run as plain files and as a package of the wheel; what they share stands here, where both find it. Their
options are in `options`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from spark_assign.cli.options import CONFIG, OUTCOME, VERBOSE
from spark_assign.cli.outcome import Outcome, find_outcome_file, write
from spark_assign.tables.errors import SparkAssignError, reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRONG_INPUT, FAILURE, INTERRUPTED = 2, 3, 130
"""Exit codes. 0 and 1 are a job's own: it is done, and what `--fail-on` names was not found or was."""

Options = SimpleNamespace
"""What a job is called with: a value for every option, in `given` the names of those on the command line, and in
`outcome` (`spark_assign.cli.outcome.Outcome`) what it is to say of how it ends."""


def run_job(
    job: str,
    run: Callable[[], int],
    *,
    verbose: bool,
    wrong: Sequence[type[Exception]] = (SparkAssignError,),
    progress: bool = True,
    outcome: Outcome | None = None,
    file: str | None = None,
) -> int:
    """Run a job; what goes wrong becomes a line on standard error and an exit code.

    Args:
        job: its name, with which its lines begin.
        run: the job; gives its exit code.
        verbose: whether a traceback follows the line.
        wrong: errors that say what is wrong with what the job was given; every other one is a failure.
        progress: whether the package tells in lines what it has done; what takes long is shown in any case.
        outcome: what the job says of its end.
        file: where the outcome is written, whatever the end is; null for nowhere.

    Returns:
        the exit code of the job, else 2 for wrong input and 3 for a failure (also where the outcome cannot be written).
    """
    outcome = outcome or Outcome(job)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("spark_assign.spark.progress").setLevel(logging.INFO)
    if progress:
        logging.getLogger("spark_assign").setLevel(logging.INFO)
    log = logging.getLogger(f"spark_assign.{job}")
    caught: tuple[type[Exception], ...] = (SparkAssignError, *wrong)
    code = INTERRUPTED
    try:
        code = run()
    except caught as error:
        log.error("%s: %s", job, error, exc_info=verbose)
        outcome.failed(type(error).__name__, str(error))
        code = WRONG_INPUT if isinstance(error, tuple(wrong)) else FAILURE
    except Exception as error:
        kind, why = type(error).__name__, reason(error)
        log.error("%s failed: %s: %s (more with --verbose)", job, kind, why, exc_info=verbose)
        outcome.failed(kind, why)
        code = FAILURE
    except BaseException as error:  # who stops it hears of it as ever; who waits for the file does so too
        outcome.failed(type(error).__name__, "the job was stopped")
        raise
    finally:
        written = _write(outcome, code, file, log)
    return code if written else FAILURE


def _write(outcome: Outcome, code: int, file: str | None, log: logging.Logger) -> bool:
    """Whether the outcome is where it is wanted."""
    outcome.ended(code)
    if file is None:
        return True
    try:
        write(outcome, file)
    except OSError as error:
        log.error("%s: --outcome %s cannot be written: %s", outcome.job, file, error)
        return False
    return True


class Command(click.Command):
    """A command that is called like a function, with its words (else those of the process), and gives an exit code."""

    def __call__(self, words: Sequence[str] | None = None) -> int:
        """Run it; wrong usage is a line on standard error, and exit code 2."""
        words = sys.argv[1:] if words is None else list(words)
        try:
            code = self.main(words, self.name, standalone_mode=False)
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            path = str(context.command_path if context else self.name)
            print(f"{path}: {error.format_message()}\nIts options: {path} --help", file=sys.stderr)
            outcome = Outcome(path.removeprefix("spark-assign "))
            outcome.failed("UsageError", error.format_message())
            _write(outcome, WRONG_INPUT, find_outcome_file(words), logging.getLogger("spark_assign"))
            return WRONG_INPUT
        except click.Abort:
            return INTERRUPTED
        return int(code or 0)


class Commands(Command, click.Group):
    """A command of several (`replicas place`, `replicas check`)."""


class Job(Command):
    """A job: its options, and how it ends (`run_job`).

    Attributes:
        label: its name in messages.
        wrong, progress: as `run_job` has them.
        renamed: options that it had once, each with what it is called now.
    """

    label: str
    wrong: Sequence[type[Exception]]
    progress: bool
    renamed: Mapping[str, str]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it; who writes an option's old name is told the new one."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name not in self.renamed:
                raise
            raise click.UsageError(f"{error.option_name} is now {self.renamed[error.option_name]}", ctx) from None

    def invoke(self, ctx: click.Context) -> int:
        """The job's exit code."""
        options, run = _options(ctx), self.callback
        assert run is not None
        return run_job(
            self.label,
            partial(run, options),
            verbose=options.verbose,
            wrong=self.wrong,
            progress=self.progress,
            outcome=options.outcome,
            file=ctx.params["outcome"],
        )

    def parse(self, words: Sequence[str]) -> Options:
        """What the job would be called with.

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
    wrong: Sequence[type[Exception]] = (SparkAssignError,),
    progress: bool = True,
    renamed: Mapping[str, str] | None = None,
    config: Callable[[Any], Any] = CONFIG,
) -> Callable[[Callable[[Options], int]], Job]:
    """Make a job of a function that takes its options and gives its exit code.

    Args:
        about: what it does, the module's docstring.
        exit_codes: what `--help` says at its end.
        name: of the command.
        label: in messages, if that is another one.
        wrong, progress, renamed: see `Job`.
        config: the option `--config`; by default a file that has what the flags say (`settings_file`).
    """

    def decorate(run: Callable[[Options], int]) -> Job:
        made = click.command(name, cls=Job, help=about, epilog=exit_codes)(VERBOSE(config(OUTCOME(run))))
        verbose, settings, outcome, *own = made.params  # what was put on last comes first
        made.params = [*own, outcome, settings, verbose]
        made.label, made.wrong, made.progress, made.renamed = label or name, wrong, progress, renamed or {}
        return made

    return decorate


def _options(ctx: click.Context) -> Options:
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    given = frozenset(name for name, source in sources.items() if source is ParameterSource.COMMANDLINE)
    label = str(getattr(ctx.command, "label", ctx.command.name))
    return SimpleNamespace(**{**ctx.params, "outcome": Outcome(label)}, given=given)


def spark_session(job: str, options: Options) -> SparkSession:
    """The session of a job, the one that is there or a new one; with `--verbose` it shows Spark's warnings."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName(f"spark_assign {job}").getOrCreate()
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none, and a log of its own
    if options.verbose and context is not None:
        context.setLogLevel("WARN")
    return spark
