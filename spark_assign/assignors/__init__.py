"""Assignors by name: Kafka's own, and whatever a user registers beside them."""

from spark_assign.assignors.groups import Groups, Outcome
from spark_assign.assignors.per_group import Group, GroupAssignor, Member
from spark_assign.assignors.registry import Assignor, find, names, register

__all__ = ["Assignor", "Group", "GroupAssignor", "Groups", "Member", "Outcome", "find", "names", "register"]
