"""Type commands without spark-assign before them, on one engine that stays warm. Tab completes names.

Tab completes commands, options, their choices, files, and the groups and topics of the last fleet that a line named.
Ctrl-C ends a command, Ctrl-D (or exit) the shell. Each command has its settings and exit codes.
"""

from __future__ import annotations

import contextlib
import glob
import io
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
from click.shell_completion import ShellComplete

from spark_assign.cli.job import WRONG_INPUT, Options, job, spark_session
from spark_assign.cli.options import sample
from spark_assign.cli.process import CLOSED, TERMINATED
from spark_assign.tables.errors import ConfigError, SparkAssignError
from spark_assign.tables.quoting import comment_text, shell_pattern_word

PROMPT, ENDS = "spark-assign> ", ("exit", "quit")
MOST_NAMES, MAX_NAME = 1_000, 250
"""Bounds of what is completed: groups, topics, and characters of a name."""
READS_INPUT = ("mcp", "shell")
"""Jobs that read standard input, which the shell reads."""


class Shell:
    """What the lines of a shell share.

    Attributes:
        jobs: the jobs, by name.
        location: folder of the last fleet that a line named; None: no line has.
        exit_code: exit code of the last command.
    """

    def __init__(self, jobs: Any, options: Options) -> None:
        self.jobs, self.options, self.exit_code = jobs, options, 0
        self.location: str | None = None
        self._names: dict[str, Mapping[str, str]] = {}
        self._found: list[str] = []

    def run(self, line: str) -> None:
        """Runs the command of a line, and keeps its exit code. What is wrong with a line is a message."""
        name, arguments = "", []
        try:
            name, *arguments = shlex.split(line) or [name]
        except ValueError as error:
            self._wrong(f"{str(error).rstrip('.')}. Close the quote, or put a backslash before it.")
        if name == "help":
            name, *arguments = [*arguments[:1], "--help"]
        if name == "--help":
            print(f"Commands: {', '.join(self.names())}, help, exit. For the options of one, type: help NAME")
            self.exit_code = 0
        elif name in self.names():
            self._note_location(arguments)
            try:
                self.exit_code = self.jobs.get_command(click.Context(self.jobs), name)(arguments)
            except click.UsageError as error:  # the job needs a package that isn't installed
                self._wrong(error.format_message())
        elif name:
            close = "".join(f"Did you mean {each}? " for each in get_close_matches(name, self.names(), 1))
            self._wrong(f"there is no command {comment_text(name[:100])}. {close}Type help for a list.")

    def complete(self, text: str, state: int) -> str | None:
        """Returns the completion number `state` of a word, as readline asks for it."""
        import readline

        if state == 0:
            try:
                self._found = list(self.completions(readline.get_line_buffer()[: readline.get_endidx()], text))
            except (ValueError, click.ClickException, SparkAssignError):
                self._found = []  # a word that isn't complete, or a fleet that can't be read
        return self._found[state] if state < len(self._found) else None

    def completions(self, line: str, text: str) -> Iterator[str]:
        """Yields the words that can take the place of the last one of a line, `text`."""
        words = shlex.split(line[: len(line) - len(text)])
        if not words:
            yield from (f"{name} " for name in (*self.names(), "help", *ENDS) if name.startswith(text))
            return
        items = ShellComplete(self.jobs, {}, "spark-assign", "").get_completions(words, text)
        for item in items:
            if item.type == "plain":
                yield f"{item.value} "
            else:
                yield from (f"{path}/" if Path(path).is_dir() else path for path in glob.glob(f"{glob.escape(text)}*"))
        if not items and not text.startswith("-"):
            self._note_location(words)
            yield from (f"{word} " for name, word in self._fleet_names().items() if name.startswith(text))

    def names(self) -> Sequence[str]:
        """Returns the names of the jobs that can run here."""
        return [name for name in self.jobs.list_commands(click.Context(self.jobs)) if name not in READS_INPUT]

    def _note_location(self, words: Sequence[str]) -> None:
        given = dict(pairwise([*words, ""])) | dict(word.split("=", 1) for word in words if "=" in word)
        self.location = given.get("--fleet") or (sample(__file__, "fleet") if "--sample" in words else self.location)

    def _fleet_names(self) -> Mapping[str, str]:
        """Returns the first groups and topics of the fleet, and the word of each."""
        from spark_assign.api import Fleet

        if self.location is not None and self.location not in self._names:
            fleet = Fleet.read(spark_session("shell", self.options), self.location)
            columns = fleet.members.select("group_id"), fleet.topics.select("topic")
            rows = (row for frame in columns for row in frame.distinct().sort(frame[0]).limit(MOST_NAMES).collect())
            self._names[self.location] = self.words(row[0] for row in rows)
        return self._names.get(self.location or "", {})

    @staticmethod
    def words(names: Iterable[str]) -> Mapping[str, str]:
        """Returns the word of a line for each name, a pattern that matches nothing else. Names that no terminal shows
        are left out."""
        shown = [name for name in names if name.isprintable() and len(name) <= MAX_NAME]
        return {name: name if shlex.quote(glob.escape(name)) == name else shell_pattern_word(name) for name in shown}

    def _wrong(self, text: str) -> None:
        print(f"shell: {text}", file=sys.stderr)
        self.exit_code = WRONG_INPUT


def _lines() -> Iterable[str]:
    """Yields the lines that a person types, or those of standard input. Ctrl-C discards a line."""
    prompt = PROMPT if sys.stdin.isatty() else ""
    while True:
        try:
            yield input(prompt)
        except EOFError:
            return
        except KeyboardInterrupt:
            print()


@job(__doc__, "Exit codes: 0 success; otherwise, the exit code of the last command.", name="shell", progress=False)
def main(options: Options) -> int:
    """Starts the engine, and runs each line."""
    if options.print_format != "table":
        raise ConfigError("-o can't be used with shell. Give it to a command.")
    shell = Shell(import_module(f"{__package__ or 'jobs'}._entry").command, options)
    with contextlib.suppress(ImportError):  # Windows has no readline
        import readline

        readline.set_completer_delims(" \t\n")
        readline.set_completer(shell.complete)
        readline.parse_and_bind("tab: complete")
    spark_session("shell", options)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # as words of a command line
    with contextlib.redirect_stdout(sys.__stdout__):  # only with it, input() edits and completes
        for line in _lines():
            if line.strip() in ENDS:
                break
            shell.run(line)
            if shell.exit_code in (TERMINATED, CLOSED):
                break
    return shell.exit_code


if __name__ == "__main__":
    main()
