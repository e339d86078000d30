"""Shell patterns in queries match what Python's `fnmatch` matches."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from pyspark.sql import SparkSession

from spark_assign.spark.shell_patterns import any_true, matches
from spark_assign.tables.errors import ConfigError

pytestmark = pytest.mark.spark

NAMES = ["prod-a", "nonprod-a", "prod-b\n", "prod-", "a.b", "axb", "[x]", "A-prod", "ü-1", "a\nb", "", "prod-a-prod-b"]
NAMES += ["^-\\&& #$", "(a|b)", "😀", "a" * 65_536]
PATTERNS = ["prod-*", "*prod-?", "prod-a", "a.b", "a?b", "[!p]*", "[[]x]", "[a-c]*", "*a*b", "", "*", "*-[ab]", "ü*"]
PATTERNS += ["[a[]*", "[]]*", "[]", "[!]", "[!]]*", "[^-]*", "[\\-]*", "*[&&]*", "[z-a]*", "[!z-a]*", "[a-c-x]xb"]
PATTERNS += [
    "*[a-]",
    "?",
    "**b",
    "p*d-*-b",
    "*?b*",
    "a*a*",
    "prod*prod*",
    "^-\\&& #$",
    "(a|b)",
    "*\n",
    "[a-",
    "[0-9--a]*",
    "[|]*",
]


def test_as_fnmatch(spark: SparkSession) -> None:
    """Every name with every pattern, and of two columns both."""
    rows = spark.createDataFrame([(name, "x") for name in NAMES], "name string, other string")
    for pattern in PATTERNS:
        found = {row["name"] for row in rows.where(matches(name=pattern, other="[x]")).collect()}
        assert found == {name for name in NAMES if fnmatchcase(name, pattern)}, pattern
    assert rows.where(matches(name="*", other="y")).isEmpty()
    some = any_true(matches(name=f"{number}*") for number in range(300)) | matches(name="a.b")
    assert [row["name"] for row in rows.where(some).collect()] == ["a.b"], "of more conditions than messages are deep"
    with pytest.raises(ConfigError, match="more than 1,000 wildcards"):
        matches(name="?" * 100_000)
