"""Plan Streams groups (KIP-1071): who runs which task and who keeps a copy of its state, for every group of a fleet."""

from spark_assign.streams.kernel.task_assignor_api import Group, Member, Target, TaskAssignorError
from spark_assign.streams.plan import StreamsPlan, plan_streams

__all__ = ["Group", "Member", "StreamsPlan", "Target", "TaskAssignorError", "plan_streams"]
