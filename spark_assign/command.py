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

from spark_assign.errors import SparkAssignError, reason
from spark_assign.options import CONFIG, VERBOSE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRONG_INPUT, FAILURE, INTERRUPTED = 2, 3, 130
"""Exit codes. 0 and 1 are a job's own: it is done, and what `--fail-on` names was not found or was."""

Options = SimpleNamespace
"""What a job is called with: a value for every option, and in `given` the names of those on the command line."""


def run_job(
    job: str,
    run: Callable[[], int],
    *,
    verbose: bool,
    wrong: Sequence[type[Exception]] = (SparkAssignError,),
    progress: bool = True,
) -> int:
    """Run a job; what goes wrong becomes a line on standard error and an exit code.

    Args:
        job: its name, with which its lines begin.
        run: the job; gives its exit code.
        verbose: whether a traceback follows the line.
        wrong: errors that say what is wrong with what the job was given; every other one is a failure.
        progress: whether the package tells in lines what it has done; what takes long is shown in any case.

    Returns:
        the exit code of the job, else 2 for wrong input and 3 for a failure.
    """
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("spark_assign.progress").setLevel(logging.INFO)
    if progress:
        logging.getLogger("spark_assign").setLevel(logging.INFO)
    log = logging.getLogger(f"spark_assign.{job}")
    caught: tuple[type[Exception], ...] = (SparkAssignError, *wrong)
    try:
        return run()
    except caught as error:
        log.error("%s: %s", job, error, exc_info=verbose)
        return WRONG_INPUT if isinstance(error, tuple(wrong)) else FAILURE
    except Exception as error:
        kind, why = type(error).__name__, reason(error)
        log.error("%s failed: %s: %s (more with --verbose)", job, kind, why, exc_info=verbose)
        return FAILURE


class Command(click.Command):
    """A command that is called like a function, with its words (else those of the process), and gives an exit code."""

    def __call__(self, words: Sequence[str] | None = None) -> int:
        """Run it; wrong usage is a line on standard error, and exit code 2."""
        try:
            code = self.main(None if words is None else list(words), self.name, standalone_mode=False)
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            path = context.command_path if context else self.name
            print(f"{path}: {error.format_message()}\nIts options: {path} --help", file=sys.stderr)
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
            self.label, partial(run, options), verbose=options.verbose, wrong=self.wrong, progress=self.progress
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
        made = click.command(name, cls=Job, help=about, epilog=exit_codes)(VERBOSE(config(run)))
        verbose, settings, *own = made.params  # what was put on last comes first
        made.params = [*own, settings, verbose]
        made.label, made.wrong, made.progress, made.renamed = label or name, wrong, progress, renamed or {}
        return made

    return decorate


def _options(ctx: click.Context) -> Options:
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    given = frozenset(name for name, source in sources.items() if source is ParameterSource.COMMANDLINE)
    return SimpleNamespace(**ctx.params, given=given)


def spark_session(job: str, options: Options) -> SparkSession:
    """The session of a job, the one that is there or a new one; with `--verbose` it shows Spark's warnings."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName(f"spark_assign {job}").getOrCreate()
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none, and a log of its own
    if options.verbose and context is not None:
        context.setLogLevel("WARN")
    return spark
