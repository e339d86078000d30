"""Alerts: the groups of a plan that somebody has to look at, since they are beyond a threshold.

A group that could not be planned, and one whose largest member has grown against the mean since an earlier run though
the partitions could be spread more evenly.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import ALERTS

MAX_GROWTH = 1.25
"""Largest over mean may grow by a quarter from one run to the next."""

THRESHOLDS = {
    "imbalance": "max_growth",
    "rejected": "max_rejected",
    "rebalances": "max_rebalances_a_day",
    "pause": "max_pause",
    "unread": "max_unread",
}
"""Kinds of alerts, and the threshold that each is beyond; of the past (`history.alerts`) the last three."""

_SAME = 1e-9
"""Two quotients of the same counts may differ in the last bits."""


def alerts(
    rejected: DataFrame, drifted: DataFrame | None = None, *, max_growth: float = MAX_GROWTH, max_rejected: int = 0
) -> DataFrame:
    """The groups beyond a threshold, a row each (columns: `tables.groups.ALERTS`), lazily.

    Args:
        rejected: the table `rejected` of a plan: cluster, group_id, code, detail.
        drifted: the table `groups` of the drift from an earlier run to this plan; None where there is none.
        max_growth: max over mean after / max over mean before that is still allowed. What cannot be more even (5
            partitions on 8 members have 1.60) is no alert, however much it has grown; nor is a group that just came.
        max_rejected: so many rejected groups are allowed; one more, and all of them are alerts.

    Raises:
        ConfigError: a threshold that makes no sense.
    """
    if not max_growth >= 1:
        raise ConfigError(f"max_growth {max_growth}: expected 1 or more, such as {MAX_GROWTH} for a quarter more")
    if max_rejected < 0:
        raise ConfigError(f"max_rejected {max_rejected}: expected 0 or more")
    too_many = rejected.limit(max_rejected + 1).agg((F.count(F.lit(1)) > max_rejected).alias("too_many"))
    nothing = (F.lit(None).cast("double").alias(name) for name in ("max_over_mean_before", "max_over_mean_after"))
    found = rejected.crossJoin(F.broadcast(too_many)).where("too_many")
    why = F.concat_ws(": ", "code", "detail")
    found = found.select("cluster", "group_id", F.lit("rejected").alias("alert"), *nothing, why.alias("detail"))
    if drifted is not None:
        found = found.unionByName(_grown(drifted, max_growth))
    return found.select(*ALERTS.fieldNames())


def _grown(drifted: DataFrame, max_growth: float) -> DataFrame:
    before, after = F.col("max_over_mean_before"), F.col("max_over_mean_after")
    mean = F.col("partitions_after") / F.col("members_after")
    even: Column = F.ceil(mean) / mean  # nothing can be more even than this
    beyond = (after > before * max_growth + _SAME) & (after > even + _SAME)
    names = ("members", "partitions")
    both = (F.format_string(f"%d → %d {name}", f"{name}_before", f"{name}_after") for name in names)
    return drifted.where(beyond).select(
        "cluster",
        "group_id",
        F.lit("imbalance").alias("alert"),
        "max_over_mean_before",
        "max_over_mean_after",
        F.concat_ws(", ", F.format_string("%.2f would be even", even), *both).alias("detail"),
    )
