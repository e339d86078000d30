"""Prints the outcome of a job, and the rows that its summary lists, as JSON, YAML, or CSV, instead of the text.

The text of a summary is for people. With `-o`, standard output has one document (conf/printed.schema.json), and nothing
else. CSV has only the rows: a block with a header per table, with an empty line between two blocks.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TextIO

import click

from spark_assign.cli.outcome import Outcome
from spark_assign.report.formatting import record_listed, visible

VERSION = 1
"""Version of the document. New keys, tables, and columns don't change it."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Starts of texts that a spreadsheet computes."""

PRINT_FORMAT = click.option(
    "-o",
    "--print-format",
    type=click.Choice(["table", "json", "yaml", "csv"]),
    default="table",
    help="Format of the printed summary: table (text), json, yaml, or csv (only its rows; default: table).",
)


def run_and_print(format: str, outcome: Outcome, run: Callable[[], int]) -> int:
    """Runs a job, prints its outcome and the rows that it listed in this format, and returns its exit code.

    Args:
        format: a value of `-o`. With table, the job prints its own text.
        outcome: the outcome that the job fills.
        run: runs the job.
    """
    if format == "table":
        with contextlib.redirect_stdout(_Visible(sys.stdout)):
            return run()
    with contextlib.redirect_stdout(io.StringIO()) as text, record_listed() as listed:
        exit_code = run()
    tables = {name: [_plain(row) for row in rows] for name, rows in listed.items()}
    if format == "csv":
        print("\n".join(_csv(rows) for rows in tables.values() if rows), end="")
        return exit_code
    summary = outcome.summary or text.getvalue().rstrip()
    document = {**asdict(outcome), "version": VERSION, "summary": summary, "tables": tables}
    printed = json.dumps(document, indent=2, ensure_ascii=False) if format == "json" else "\n".join(_yaml(document))
    # JSON allows characters in a text that a terminal obeys, and that YAML doesn't allow.
    print("".join(each if each.isprintable() or each == "\n" else _code(each, format) for each in printed))
    return exit_code


def _code(character: str, format: str) -> str:
    """Returns a character as a code inside quotes: JSON has surrogate pairs, YAML hasn't."""
    return f"\\U{ord(character):08x}" if character > "\uffff" and format == "yaml" else json.dumps(character)[1:-1]


class _Visible(io.TextIOBase):
    """Standard output on which nothing that is printed can control the terminal."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        """Writes a text in its visible form."""
        return self._out.write(visible(text))

    def flush(self) -> None:
        """Flushes standard output."""
        self._out.flush()

    def isatty(self) -> bool:
        """Returns whether standard output is a terminal."""
        return self._out.isatty()


def _plain(value: Any) -> Any:
    """Returns a value that JSON has. Times become ISO 8601, numbers that JSON lacks become text."""
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns a header and rows. Lists are JSON, and null is empty. A text that a spreadsheet would compute starts with
    an apostrophe.
    """

    def cell(value: Any) -> Any:
        if isinstance(value, list | dict):
            return json.dumps(value)
        if not isinstance(value, str):
            return value
        return visible(f"'{value}" if value.startswith(_FORMULA) else value)

    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: cell(each) for name, each in row.items()})
    return text.getvalue()


def _yaml(value: Any, indent: str = "") -> Iterator[str]:
    """Returns the lines of a dict or list as YAML. Scalars are as in JSON, which is a part of YAML."""
    entries = (
        [(f"{name}:", each) for name, each in value.items()]
        if isinstance(value, dict)
        else [("-", each) for each in value]
    )
    for name, each in entries:
        if not each or not isinstance(each, dict | list):
            yield f"{indent}{name} {json.dumps(each, ensure_ascii=False)}"
        elif name == "-":
            first, *more = _yaml(each, f"{indent}  ")
            yield f"{indent}- {first.lstrip()}"
            yield from more
        else:
            yield f"{indent}{name}"
            yield from _yaml(each, f"{indent}  ")
