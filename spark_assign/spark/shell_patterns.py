"""Shell patterns as conditions of queries."""

from __future__ import annotations

import re
from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F

_PART = re.compile(r"\*+|\[(?P<negated>!?+)(?P<characters>\][^\]]*+|[^\]]++)\]|.", re.DOTALL)
_CHARACTERS = re.compile(r"(.)-(.)|.", re.DOTALL)


def matches(**patterns: str) -> Column:
    """Returns the condition that each named column, as a whole, matches its shell pattern (`fnmatch.fnmatchcase`)."""
    conditions = (F.col(name).rlike(_regex(pattern)) for name, pattern in patterns.items() if pattern != "*")
    return reduce(and_, conditions, F.lit(True))


def _regex(pattern: str) -> str:
    """Returns the regular expression for `rlike`, which searches. Java and Rust understand it, unlike the atomic groups
    of `fnmatch.translate`.

    A star takes the first place where the part up to the next star fits: Java doesn't go back into `(…){1}+`. To Rust,
    which never backtracks, the `+` is a repetition, which changes nothing before a star. Example: `a*b*c` becomes
    `(?:a){1}+(?:.*?b){1}+(?:.*?c)`.
    """
    return rf"\A(?s:(?:{_PART.sub(_translated, pattern)}))\z"


def _translated(part: re.Match[str]) -> str:
    if part["characters"] is None:
        return {"*": "){1}+(?:.*?", "?": "."}.get(part[0][0]) or re.escape(part[0])
    items = [
        "-".join(re.escape(end) for end in item.groups() if end) or re.escape(item[0])
        for item in _CHARACTERS.finditer(part["characters"])
        if item[1] is None or item[1] <= item[2]
    ]
    if not items:  # only ranges that are empty
        return "." if part["negated"] else r"[^\s\S]"
    return f"[{'^' if part['negated'] else ''}{''.join(items)}]"
