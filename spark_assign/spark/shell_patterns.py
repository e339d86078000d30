"""Shell patterns as conditions of queries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_assign.tables.errors import ConfigError

_PART = re.compile(r"\*+|\[(?P<negated>!?+)(?P<characters>\][^\]]*+|[^\]]++)\]|.", re.DOTALL)
_CHARACTERS = re.compile(r"(.)-(.)|.", re.DOTALL)
_MAX_WILDCARDS = 1_000


def matches(**patterns: str) -> Column:
    """Returns the condition that each named column, as a whole, matches its shell pattern (`fnmatch.fnmatchcase`).

    Raises:
        ConfigError: a pattern has too many wildcards for the expressions of an engine.
    """
    for pattern in patterns.values():
        if sum(map(pattern.count, "*?[")) > _MAX_WILDCARDS:
            raise ConfigError(f"The pattern {pattern[:40]}… has more than {_MAX_WILDCARDS:,} wildcards. Write fewer.")
    conditions = (F.col(name).rlike(_regex(pattern)) for name, pattern in patterns.items() if pattern != "*")
    return reduce(and_, conditions, F.lit(True))


def any_true(conditions: Iterable[Column]) -> Column:
    """Returns the condition that one of these conditions is true. Messages to an engine can be 100 levels deep, so that
    thousands of conditions are a tree."""
    found = [*conditions] or [F.lit(False)]
    while len(found) > 1:
        found = [reduce(or_, found[at : at + 2]) for at in range(0, len(found), 2)]
    return found[0]


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
