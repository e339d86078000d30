"""Which assignor plans which group."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.assignors.registry import names
from spark_assign.schemas import GROUP_KEY

CONFIGURED = "configured"
"""In place of a name: the assignor that each group is configured with."""


def choose(
    every_group: DataFrame, configured: DataFrame | None, patterns: Mapping[str, str]
) -> tuple[DataFrame, DataFrame]:
    """Give each group its assignor.

    Args:
        every_group: cluster, group_id.
        configured: the fleet's `groups`, if it has any.
        patterns: from a shell pattern over group_id (`payments-*`) to an assignor's name or `configured`; the first
            pattern that fits decides.

    Returns:
        cluster, group_id, assignor of the groups that can be planned; and cluster, group_id, code, detail of the rest.
    """
    wanted = F.lit(None).cast("string")
    for pattern, name in reversed(list(patterns.items())):
        wanted = F.when(F.col("group_id").rlike(fnmatch.translate(pattern)), F.lit(name)).otherwise(wanted)
    groups = every_group.withColumn("wanted", wanted)
    if configured is None:
        groups = groups.withColumn("own", F.lit(None).cast("string"))
    else:
        # The broker's range of KIP-848 is another assignor than the client's.
        server_side = (F.col("group_type") == "consumer") & (F.col("assignor") == "range")
        own = F.when(server_side, "server-range").otherwise(F.col("assignor"))
        groups = groups.join(configured.select(*GROUP_KEY, own.alias("own")), GROUP_KEY, "left")
    assignor = F.when(F.col("wanted") == CONFIGURED, F.col("own")).otherwise(F.col("wanted"))
    code = (
        F.when(F.col("wanted").isNull(), "no-pattern")
        .when(F.col("assignor").isNull(), "no-assignor")
        .when(~F.col("assignor").isin(names()), "unknown-assignor")
    )
    detail = (
        F.when(F.col("code") == "no-pattern", "No pattern fits the group. Add one, say '*'")
        .when(
            F.col("code") == "no-assignor",
            "groups.assignor does not say what it is configured with. Name an assignor",
        )
        .otherwise(
            F.concat(
                F.lit("It is configured with "),
                "assignor",
                F.lit(f". Name one of {', '.join(names())}, or register it"),
            )
        )
    )
    groups = groups.withColumn("assignor", assignor).withColumn("code", code)
    chosen = groups.where(F.col("code").isNull()).select(*GROUP_KEY, "assignor")
    others = groups.where(F.col("code").isNotNull())
    return chosen, others.withColumn("detail", detail).select(*GROUP_KEY, "code", "detail")


def in_use(chosen: DataFrame) -> list[str]:
    """The assignors that at least one group is planned by; at most as many as are registered."""
    return sorted(row["assignor"] for row in chosen.select("assignor").distinct().collect())
