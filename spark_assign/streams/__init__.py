"""Plans Kafka Streams, on the streams protocol (KIP-1071) and the classic one: active and standby tasks of members."""

from spark_assign.streams.kernel.task_assignor_api import (
    StreamsGroupAssignment,
    StreamsGroupSpec,
    StreamsMemberSpec,
    TaskAssignorError,
)
from spark_assign.streams.plan import StreamsPlan, plan_streams
from spark_assign.streams.topology import read_topology

__all__ = [
    "StreamsGroupAssignment",
    "StreamsGroupSpec",
    "StreamsMemberSpec",
    "StreamsPlan",
    "TaskAssignorError",
    "plan_streams",
    "read_topology",
]
