"""Assignors by name: Kafka's own, and whatever a user registers beside them."""

from spark_assign.assignors.custom import Group, GroupAssignor, Member
from spark_assign.assignors.registry import custom_assignors, find, names, register

__all__ = ["Group", "GroupAssignor", "Member", "custom_assignors", "find", "names", "register"]
