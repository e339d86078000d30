"""What `--help` prints for each job, kept in conf/help, so that help needs neither Spark nor a set-up.

`python -m tests.help_texts` writes the files, and docs/commands.md, again after an option has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

import click

from jobs._entry import JOBS
from spark_assign.cli.options import packaged_conf

FOLDER = packaged_conf(__file__) / "help"
PAGE = JOBS.parent / "docs" / "commands.md"

HEAD = """# Commands

This page has the help text of every command. In a clone, run a command as `./spark-assign …`, or on Spark as
`./spark-submit.sh …`. If the package is installed, run it as `spark-assign` ([two engines](sizing.md#two-engines)).
[Settings](settings.md#settings) explains settings files and environment variables.
"""


def texts() -> Iterator[tuple[str, str]]:
    """Yields the file name and the help text of each job and of each of its subcommands."""
    for file in sorted(JOBS.glob("[a-z]*.py")):
        command: click.Command = import_module(f"jobs.{file.stem}").main
        context = click.Context(command, info_name=file.stem, terminal_width=78)
        yield f"{file.stem}.txt", f"{command.get_help(context)}\n"
        for name, subcommand in getattr(command, "commands", {}).items():
            inner = click.Context(subcommand, context, info_name=name, terminal_width=78)
            yield f"{file.stem}-{name}.txt", f"{subcommand.get_help(inner)}\n"


def write() -> None:
    """Writes all files, and removes those of jobs that are gone."""
    made = dict(texts())  # before anything is removed: a job may fail
    FOLDER.mkdir(exist_ok=True)
    for file in FOLDER.glob("*.txt"):
        file.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    PAGE.write_text(page(made), encoding="utf-8")


def page(made: Mapping[str, str]) -> str:
    """Returns the reference of the commands, from their help texts by file name."""
    commands = (f"## {n.removesuffix('.txt').replace('-', ' ', 1)}\n```text\n{made[n]}```\n" for n in sorted(made))
    return "\n".join([HEAD, *commands])


if __name__ == "__main__":
    write()
