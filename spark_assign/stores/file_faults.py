"""Collects what is wrong with the files of tables, so that one error names all of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import quote

from spark_assign.stores.cluster_folders import name_of
from spark_assign.tables.errors import SourceError, in_one_line, reason

MAX_DISPLAYED = 5
"""Number of faults of a table that a message displays."""
MAX_RECORD_CHARACTERS = 500


class FileFaults:
    """The faults of tables that are read from files."""

    def __init__(self) -> None:
        self._lines: dict[str, list[tuple[str, int, str]]] = {}
        self._has_values = False

    def add_value(self, table: str, problem: str, path: str, record: str, row: int) -> None:
        """Adds a value or row that doesn't parse.

        Args:
            table: the table.
            problem: names the table, the column, and the value.
            path: the file.
            record: the row, as text.
            row: its number; the first row after a header has number 1.
        """
        self._has_values = True
        line = f"{problem}, in {name_of_path(path)}: {shortened(record, MAX_RECORD_CHARACTERS)} (row {row:,})"
        self._add(table, path, row, line)

    def add_file(self, table: str, path: str, problem: str, remedy: str) -> None:
        """Adds a file that can't be read at all."""
        line = f"{table}: file://{path} cannot be read: {problem}. {remedy}"
        self._add(table, path, 0, line)

    def add_same_names(self, table: str, paths: Mapping[str, str]) -> None:
        """Adds files with a column that differs from another one only in case, which engines ignore. `paths`: a file by
        column."""
        first: dict[str, str] = {}
        for name, path in paths.items():
            if (other := first.setdefault(name.lower(), name)) != name:
                self.add_file(table, path, f"the column {name} is also called {other}", "Remove or rename one of them")

    def _add(self, table: str, path: str, row: int, line: str) -> None:
        self._lines.setdefault(table, []).append((path, row, in_one_line(line)))

    def is_full(self, table: str) -> bool:
        """Checks whether the faults of a table suffice for the message."""
        return len(self._lines.get(table, ())) > MAX_DISPLAYED

    def has(self, table: str) -> bool:
        """Checks whether a table has a fault."""
        return table in self._lines

    def verify(self) -> None:
        """Raises SourceError if there is a fault. The message displays the first few of each table."""
        if not self._lines:
            return
        shown = [line for lines in self._lines.values() for *_, line in sorted(lines)[:MAX_DISPLAYED]]
        more = ["… and more"] if any(len(lines) > MAX_DISPLAYED for lines in self._lines.values()) else []
        title = "values that do not parse" if self._has_values else "files that cannot be read"
        raise SourceError(f"{title}:\n" + "\n".join(f"  - {line}" for line in [*shown, *more]))


def shortened(text: str, limit: int = 100) -> str:
    """Returns at most `limit` characters of a value, with `…` if it has more."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def name_of_path(path: str) -> str:
    """Returns the name of a local file for messages."""
    return name_of(quote(path, safe="/="))


def problem_of(error: Exception) -> str:
    """Returns why a file can't be opened or decoded, in a few words that start with a small letter."""
    number = getattr(error, "errno", None)
    problem: str = os.strerror(number) if number else reason(error).rstrip(".")
    return problem[:1].lower() + problem[1:]


class UnreadableFileError(Exception):
    """A file can't be read: the problem, and the remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy
