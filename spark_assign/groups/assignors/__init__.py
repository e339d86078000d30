"""The assignors of Kafka, of other client libraries, and of users, as pure kernels over groups."""

from spark_assign.groups.assignors.custom import GroupAssignor, GroupSpec, MemberSubscription

__all__ = ["GroupAssignor", "GroupSpec", "MemberSubscription"]
