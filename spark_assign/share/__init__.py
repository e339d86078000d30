"""Plan share groups (KIP-932): which members have which partitions, of which several may have one."""

from spark_assign.share.plan import SharePlan, plan_share

__all__ = ["SharePlan", "plan_share"]
