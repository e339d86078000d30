"""Former place of the base classes of custom assignors."""

from spark_assign.assignors import GroupAssignor, GroupSpec, MemberSubscription

__all__ = ["GroupAssignor", "GroupSpec", "MemberSubscription"]
