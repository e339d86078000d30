"""Which groups hurt most: by partitions affected, in rows and, the same, in columns of `tables.groups.METRICS`.

A partition is affected if it gets another owner or is given up, if nobody gets it, or if it is one of those that the
fullest member of its group has above an even share. An even share is the fewest partitions that the fullest member can
have: partitions by members, rounded up. So a group of eight members and five partitions, whose largest over mean is
1.60, is as even as can be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.tables.groups import GROUP_KEY

Row = Mapping[str, Any]

SUMS = ("members", "partitions", "moved", "revoked", "unassigned", "withheld")
"""Metrics that add up over groups."""


def even_share(row: Row) -> int:
    """The fewest partitions that the fullest member of a group can have."""
    return math.ceil(row["partitions"] / row["members"]) if row["members"] else 0


def over_share(row: Row) -> int:
    """Partitions that the fullest member has above an even share."""
    return max(0, int(row["max_per_member"]) - even_share(row))


def nobody_gets(row: Row) -> int:
    """Partitions that nobody gets, in this round or the next."""
    return int(row["unassigned"] - row["withheld"])


def affected(row: Row) -> int:
    """Partitions affected."""
    return max(int(row["moved"]), int(row["revoked"])) + nobody_gets(row) + over_share(row)


def over_share_column() -> Column:
    """As `over_share`."""
    share = F.when(F.col("members") > 0, F.ceil(F.col("partitions") / F.col("members"))).otherwise(F.lit(0))
    return F.greatest(F.col("max_per_member") - share, F.lit(0))


def worst_first(metrics: DataFrame) -> DataFrame:
    """Most partitions affected first, as `affected`; names decide between equals."""
    nobody = F.col("unassigned") - F.col("withheld")
    order = F.desc(F.greatest("moved", "revoked") + nobody + over_share_column())
    return metrics.orderBy(order, F.desc_nulls_last("max_over_mean"), *GROUP_KEY)
