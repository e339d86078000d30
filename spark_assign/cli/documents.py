"""Prints the outcome of a job, and the rows that its summary lists, as JSON, YAML, or CSV, instead of the text.

The text of a summary is for people. With `-o`, standard output has one document (conf/printed.schema.json), and nothing
else. CSV has only the rows: a block with a header per table, with an empty line between two blocks.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spark_assign.report.formatting import distinct

VERSION = 2
"""Version of the document. New keys, tables, and columns don't change it."""


_FORMULA = re.compile("(?:^|(?<=[;\n]))(?='*[=+\\-@\t\uff0b\uff0d\uff1d\uff20])")
"""Starts of texts that a spreadsheet computes, also inside: many separate cells by semicolons, by their language. One
that starts so after apostrophes gets another one, so that it differs from the text without."""


def document(
    format: str,
    outcome: Mapping[str, Any],
    listed: Mapping[str, Sequence[Mapping[str, Any]]],
    encoding: str = "utf-8",
) -> str:
    """Returns the document that a job prints.

    Args:
        format: json, yaml, or csv.
        outcome: the outcome of the job, by key.
        listed: the rows that the summary lists, by table.
        encoding: the encoding of standard output. JSON and YAML have codes of characters that it lacks.
    """
    tables = {name: [_plain(row) for row in rows] for name, rows in listed.items()}
    if format == "csv":
        return "\n".join(_csv(rows) for rows in tables.values() if rows)
    content = {**outcome, "version": VERSION, "tables": tables}
    text = json.dumps(content, indent=2, ensure_ascii=False) if format == "json" else "\n".join(_yaml(content))
    # JSON allows characters in a text that a terminal obeys, and that YAML doesn't allow.
    return "".join(each if each == "\n" or _is_shown(each, encoding) else _code(each, format) for each in text) + "\n"


def _is_shown(character: str, encoding: str) -> bool:
    is_encoded = character.isascii() or character.encode(encoding, "ignore") != b""
    return is_encoded and character.isprintable()


def _code(character: str, format: str) -> str:
    """Returns a character as a code inside quotes: JSON has surrogate pairs, YAML hasn't."""
    return f"\\U{ord(character):08x}" if character > "\uffff" and format == "yaml" else json.dumps(character)[1:-1]


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
            value = json.dumps(value).replace("\x7f", "\\u007f")
        elif isinstance(value, str):
            value = distinct(value)
        return _FORMULA.sub("'", value) if isinstance(value, str) else value

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
