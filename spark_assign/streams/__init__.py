"""Plans Streams groups (KIP-1071): the active and standby tasks of each member."""

from spark_assign.streams.kernel.task_assignor_api import (
    StreamsGroupAssignment,
    StreamsGroupSpec,
    StreamsMemberSpec,
    TaskAssignorError,
)
from spark_assign.streams.plan import StreamsPlan, plan_streams

__all__ = [
    "StreamsGroupAssignment",
    "StreamsGroupSpec",
    "StreamsMemberSpec",
    "StreamsPlan",
    "TaskAssignorError",
    "plan_streams",
]
