"""Assignors by name: Kafka's own, and whatever a user registers beside them."""

from spark_assign.assignors.per_group import Group, GroupAssignor, Member
from spark_assign.assignors.registry import custom, find, names, register

__all__ = ["Group", "GroupAssignor", "Member", "custom", "find", "names", "register"]
