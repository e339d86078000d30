"""Shell patterns as conditions of queries."""

from __future__ import annotations

import fnmatch
from functools import reduce
from operator import and_

from pyspark.sql import Column
from pyspark.sql import functions as F


def matches(**patterns: str) -> Column:
    """Returns the condition that each named column, as a whole, matches its shell pattern (`fnmatch.fnmatchcase`)."""
    conditions = (F.col(name).rlike(_regex(pattern)) for name, pattern in patterns.items() if pattern != "*")
    return reduce(and_, conditions, F.lit(True))


def _regex(pattern: str) -> str:
    r"""Returns the regular expression for `rlike`, which searches. Python's has only an end, and Java's `\Z` is also
    true before a last line break."""
    return rf"\A{fnmatch.translate(pattern)[:-2]}\z"
