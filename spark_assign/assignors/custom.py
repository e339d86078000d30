"""Assignors that look at one group at a time, in plain Python: the way in for an assignor of one's own."""

from spark_assign.kernels.group.custom_assignor import Group, GroupAssignor, Member, TopicPartition

__all__ = ["Group", "GroupAssignor", "Member", "TopicPartition"]
