"""Plans Kafka Streams, on the streams protocol (KIP-1071) and the classic one: active and standby tasks of members.
Simulates classic applications over time."""

from spark_assign.assignors.streams.task_assignor_api import (
    StreamsGroupAssignment,
    StreamsGroupSpec,
    StreamsMemberSpec,
    TaskAssignorError,
)
from spark_assign.streams.compare import StreamsComparison, compare_streams
from spark_assign.streams.drift import StreamsDrift, find_streams_drift
from spark_assign.streams.plan import StreamsPlan, plan_streams
from spark_assign.streams.simulate_applications import StreamsSimulation, simulate_streams
from spark_assign.streams.topology import read_topology

__all__ = [
    "StreamsComparison",
    "StreamsDrift",
    "StreamsGroupAssignment",
    "StreamsGroupSpec",
    "StreamsMemberSpec",
    "StreamsPlan",
    "StreamsSimulation",
    "TaskAssignorError",
    "compare_streams",
    "find_streams_drift",
    "plan_streams",
    "read_topology",
    "simulate_streams",
]
