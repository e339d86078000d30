"""The leader of each partition: the current one if a table of replicas has it, else the preferred one."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def with_leaders(replicas: DataFrame) -> DataFrame:
    """Returns replicas with `leader` (broker ID): the current leader, or the first replica if that is unknown.

    Args:
        replicas: replicas (broker IDs, preferred leader first), leader?, and other columns.
    """
    preferred = F.get("replicas", F.lit(0))
    return replicas.withColumn("leader", F.coalesce("leader", preferred) if "leader" in replicas.columns else preferred)
