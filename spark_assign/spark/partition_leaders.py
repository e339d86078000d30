"""The leader of each partition: the current one if a table of replicas has it, else the preferred one."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def with_leaders(replicas: DataFrame) -> DataFrame:
    """Returns replicas with `leader_id`: the current leader, or the first replica if that is unknown.

    Args:
        replicas: replicas (broker IDs, preferred leader first), leader_id?, and other columns.
    """
    preferred = F.get("replicas", F.lit(0))
    return replicas.withColumn(
        "leader_id", F.coalesce("leader_id", preferred) if "leader_id" in replicas.columns else preferred
    )
