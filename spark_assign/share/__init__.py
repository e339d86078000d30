"""Plans share groups (KIP-932), in which several members can share one partition."""

from spark_assign.share.plan import SharePlan, plan_share

__all__ = ["SharePlan", "plan_share"]
