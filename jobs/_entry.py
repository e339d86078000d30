"""The command `spark-assign` of the wheel, in which this folder is called spark_assign_jobs: `spark-assign plan …`.

A job is imported when it is called. A scheduler that calls the function itself, as a Python wheel task of Databricks
does, treats a return without an exception as success. An exit code other than 0 is therefore raised.
"""

from __future__ import annotations

import ast
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from spark_assign.cli.job import Commands
from spark_assign.cli.locations import LOCAL_FILES
from spark_assign.cli.options import packaged_conf
from spark_assign.tables.errors import KAFKA_SOURCE, missing_extra

JOBS = Path(__file__).parent


class Jobs(Commands):
    """The jobs in this folder, each a command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of the jobs."""
        return sorted(file.stem for file in JOBS.glob("*.py") if not file.stem.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports and returns a job.

        Raises:
            click.UsageError: the job needs kafka-python, which isn't installed.
        """
        if cmd_name not in self.list_commands(ctx):
            return None
        try:
            command: click.Command = import_module(f"{__package__}.{cmd_name}").main
        except ModuleNotFoundError as error:
            if str(error.name).partition(".")[0] != "kafka":
                raise
            raise click.UsageError(str(missing_extra(f"{cmd_name} needs kafka-python", "kafka"))) from error
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes each job with the first line of its docstring, without importing it."""
        with formatter.section("Jobs"):
            formatter.write_dl(list(self._first_lines(ctx).items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Returns the jobs with names that start with `incomplete`, without importing them, and the options."""
        jobs = [(name, line) for name, line in self._first_lines(ctx).items() if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=line) for name, line in jobs), *options]

    def _first_lines(self, ctx: click.Context) -> dict[str, str]:
        """Returns the first line of each job's docstring."""
        sources = {name: (JOBS / f"{name}.py").read_text(encoding="utf-8") for name in self.list_commands(ctx)}
        about = {name: str(ast.get_docstring(ast.parse(source))) for name, source in sources.items()}
        return {name: text.partition("\n")[0] for name, text in about.items()}


EPILOG = "For the options of a job, run: spark-assign JOB --help"


@click.command(cls=Jobs, name="spark-assign", epilog=EPILOG, invoke_without_command=True)
@click.version_option(package_name="spark_assign", prog_name="spark-assign")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Plan Apache Kafka assignment on Spark, exactly as Kafka's own classes would decide."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """Runs the job named by the arguments of the process."""
    if text := _help(sys.argv[1:]):
        click.echo(text, nl=False)
        return
    _spark_of_this_machine()
    code = command()
    if code:
        sys.exit(code)


def _help(words: list[str]) -> str | None:
    """Returns the help text of the job that the words name, without importing it; None if they don't ask for help."""
    if "--help" not in words[1:]:
        return None
    names = ("-".join(words[:2]), words[0])
    files = (packaged_conf(__file__) / "help" / f"{name}.txt" for name in names)
    file = next((file for file in files if file.is_file()), None)
    return None if file is None else file.read_text("utf-8").replace("Usage: ", "Usage: spark-assign ", 1)


def kafka_source(words: Sequence[str]) -> list[str]:
    """Returns spark-submit's option for Spark's Kafka source, which Spark doesn't include, if the job needs it.

    Args:
        words: the job and its arguments.
    """
    is_needed = words[0] == "history" and ("--reader spark" in " ".join(words) or "--reader=spark" in words)
    return ["--packages", f"{KAFKA_SOURCE}:{version('pyspark')}"] if is_needed else []


def _spark_of_this_machine() -> None:
    """Selects the installed Spark, this Python, and the settings of ./spark-submit.sh, unless the environment does."""
    if any(name in os.environ for name in ("SPARK_HOME", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON")):
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if "HADOOP_CONF_DIR" not in os.environ:
        os.environ[LOCAL_FILES] = "yes"
    settings = packaged_conf(__file__) / "spark"
    quiet = f"-Dlog4j2.configurationFile='file:{settings / 'log4j2.properties'}'"
    words = ["--properties-file", str(settings / "local.conf"), "--driver-java-options", quiet]
    words += [*kafka_source(sys.argv[1:] or [""]), "pyspark-shell"]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join(words)


if __name__ == "__main__":
    main()
