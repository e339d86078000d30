"""The command `spark-assign` of the wheel, in which this folder is called spark_assign_jobs: `spark-assign plan …`.

A job is imported when it is called. A scheduler that calls the function itself, as a Python wheel task of Databricks
does, treats a return without an exception as success. An exit code other than 0 is therefore raised.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import distributions, version
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from spark_assign.cli.job import Commands
from spark_assign.cli.options import LOCAL_FILES, packaged_conf
from spark_assign.cli.process import with_output_written
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


CONFIGURES_SPARK = ("SPARK_HOME", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON")
"""Variables of an environment that has its own Spark."""

ENGINE = "SPARK_ASSIGN_ENGINE"
"""Variable with the engine of the job, for `spark_assign.spark.engine`: embedded or spark."""


@click.command(cls=Jobs, name="spark-assign", epilog=EPILOG, invoke_without_command=True)
@click.version_option(package_name="spark_assign", prog_name="spark-assign")
@click.option("--env", type=click.Choice(["local"]), help="Run on the installed Spark, not on the embedded engine.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Run on Spark, with this setting. Repeatable.")
@click.option("--packages", metavar="NAMES", help="Run on Spark, with these libraries of Maven, separated by commas.")
@click.option("--jars", metavar="FILES", help="Run on Spark, with these jars, separated by commas.")
@click.option("--py-files", metavar="FILES", help="Run on Spark, with these Python files, separated by commas.")
@click.pass_context
def command(ctx: click.Context, /, env: str | None, conf: tuple[str, ...], **files: str | None) -> None:
    """Plan Apache Kafka assignment, exactly as Kafka's own classes would decide.

    Jobs run on Sail, an engine in this process that needs no Java, if it is installed and the environment doesn't
    configure a Spark; otherwise on Spark.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        return
    options = [word for setting in conf for word in ("--conf", setting)]
    options += [word for name, value in files.items() if value for word in (f"--{name.replace('_', '-')}", value)]
    os.environ[ENGINE] = _engine(forced=bool(env or options))
    if os.environ[ENGINE] == "spark":
        _configure_spark([ctx.invoked_subcommand, *sys.argv[1:]], options, is_local=env == "local")


def main() -> None:
    """Runs the job named by the arguments of the process."""
    if text := _help(sys.argv[1:]):
        sys.exit(with_output_written(lambda: min(sys.stdout.write(text), 0), "spark-assign"))
    # The tests run on pandas 3, of which PySpark warns with every pandas UDF.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    command()  # raises an exit code other than 0


def _help(words: list[str]) -> str | None:
    """Returns the help text of the job that the words name, without importing it; None if they don't ask for help."""
    if "--help" not in words[1:]:
        return None
    files = (packaged_conf(__file__) / "help" / f"{name}.txt" for name in ("-".join(words[:2]), words[0]))
    file = next((file for file in files if file.is_file()), None)
    return None if file is None else file.read_text("utf-8").replace("Usage: ", "Usage: spark-assign ", 1)


def kafka_source(words: Sequence[str]) -> list[str]:
    """Returns spark-submit's option for Spark's Kafka source, which Spark doesn't include, if the job needs it.

    Args:
        words: the job and its arguments.
    """
    is_needed = words[0] == "history" and (("--reader", "spark") in pairwise(words) or "--reader=spark" in words)
    return ["--packages", f"{KAFKA_SOURCE}:{version('pyspark')}"] if is_needed else []


def _engine(forced: bool) -> str:
    """Returns the engine of the job: `spark` or `embedded`.

    Args:
        forced: whether options of the command choose Spark.

    Raises:
        click.UsageError: they do, and Spark isn't installed.
    """
    is_configured = any(name in os.environ for name in CONFIGURES_SPARK)
    if forced:
        if not is_configured and not any(distributions(name="pyspark")):
            raise click.UsageError(
                "Spark, which the options before the job choose, isn't installed: run pip install '.[spark]' in an "
                "environment without pyspark-client."
            )
        return "spark"
    if os.environ.get(ENGINE) in ("embedded", "spark"):
        return os.environ[ENGINE]
    return "spark" if is_configured or find_spec("pysail") is None else "embedded"


def _configure_spark(words: Sequence[str], options: list[str], is_local: bool) -> None:
    """Adds options of spark-submit to the Spark that the environment configures. If it configures none, or the
    installed Spark is chosen, selects that one, this Python, and the settings of ./spark-submit.sh.

    Args:
        words: the job and its arguments.
    """
    if is_local:
        for name in CONFIGURES_SPARK:
            os.environ.pop(name, None)
    if any(name in os.environ for name in CONFIGURES_SPARK):
        if options:
            given = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
            os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*options, *given])
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if "HADOOP_CONF_DIR" not in os.environ:
        os.environ[LOCAL_FILES] = "yes"
    settings = packaged_conf(__file__) / "spark"
    log = re.sub(r'([\\"])', r"\\\1", f"file:{settings / 'log4j2.properties'}")
    first = ["--properties-file", str(settings / "local.conf")]
    first += ["--driver-java-options", f'-Dlog4j2.configurationFile="{log}"']
    if not {"--packages", "--jars"} & set(options):
        first += kafka_source(words)
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*first, *options, "pyspark-shell"])
    java = settings / "java"  # as in ./spark-submit.sh: without a module of which the JVM warns
    if os.access(java / "bin" / "java", os.X_OK):
        home = os.environ.get("JAVA_HOME")
        os.environ.setdefault("SPARK_ASSIGN_JAVA", f"{home}/bin/java" if home else "java")
        os.environ["JAVA_HOME"] = str(java)


if __name__ == "__main__":
    main()
