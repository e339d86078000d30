"""The groups that somebody wants to read of, with their steps."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.tables.groups import GROUP_KEY


def with_steps(
    groups: DataFrame,
    steps: DataFrame,
    patterns: Sequence[str],
    order: Sequence[str | Column],
    top: int,
    steps_by: Sequence[str] = ("step",),
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The first groups whose id matches a shell pattern, and their steps in order; no more than a screenful.

    Args:
        groups: a row per group.
        steps: a row per step of each.
        patterns: over group_id.
        order: which groups come first.
        top: so many groups.
        steps_by: the columns that say in which order steps come.
    """
    wanted = _matching(patterns)
    chosen = groups.where(wanted).orderBy(*order).limit(top)
    listed = [row.asDict() for row in chosen.collect()]  # `top` groups
    if not listed:
        return [], []
    of_chosen = steps.where(wanted).join(chosen.select(*GROUP_KEY), GROUP_KEY, "left_semi")
    found = of_chosen.orderBy(*GROUP_KEY, *steps_by).collect()  # at most 120 rows of each
    return listed, [row.asDict() for row in found]


def first_rows(rows: DataFrame, patterns: Sequence[str], top: int) -> list[dict[str, Any]]:
    """All rows of the first groups whose id matches a shell pattern, a screenful for each.

    Args:
        rows: some of each group.
        patterns: over group_id.
        top: so many groups.
    """
    wanted = rows.where(_matching(patterns))
    chosen = wanted.select(*GROUP_KEY).distinct().orderBy(*GROUP_KEY).limit(top)
    found = wanted.join(chosen, GROUP_KEY, "left_semi").collect()  # of `top` groups
    return [row.asDict() for row in found]


def _matching(patterns: Sequence[str]) -> Column:
    wanted = F.lit(False)
    for pattern in patterns:
        wanted = wanted | F.col("group_id").rlike(fnmatch.translate(pattern))
    return wanted


def no_match(patterns: Sequence[str]) -> str:
    """What is said where there are none."""
    return f"No group matches {', '.join(patterns)}; what was rejected is in the summary"
