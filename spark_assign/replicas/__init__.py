"""Replica placement: places new partitions as Kafka does, and moves as few replicas as possible when brokers change."""

from spark_assign.replicas.batch_schedule import Bandwidth, schedule
from spark_assign.replicas.fleet import ClusterChange, ReplicaFleet
from spark_assign.replicas.kafka_tool_files import changes_of_leader_moves, tool_files, write_tool_files
from spark_assign.replicas.kernel.load_goals import LoadGoals
from spark_assign.replicas.operation import Operation, operate
from spark_assign.replicas.placement import Placements, place
from spark_assign.replicas.reassignment import Reassignment, reassign
from spark_assign.replicas.replica_check import ReplicaCheck, check

__all__ = [
    "Bandwidth",
    "ClusterChange",
    "LoadGoals",
    "Operation",
    "Placements",
    "Reassignment",
    "ReplicaCheck",
    "ReplicaFleet",
    "changes_of_leader_moves",
    "check",
    "operate",
    "place",
    "reassign",
    "schedule",
    "tool_files",
    "write_tool_files",
]
