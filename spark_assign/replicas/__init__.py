"""Where partitions live: place new ones as Kafka does, and move as few as possible when brokers change."""

from spark_assign.replicas.change import Change
from spark_assign.replicas.checking import Check, check
from spark_assign.replicas.files_for_tools import tool_files, write_tool_files
from spark_assign.replicas.fleet import ReplicaFleet
from spark_assign.replicas.placing import Placements, place
from spark_assign.replicas.reassigning import Reassignment, reassign

__all__ = [
    "Change",
    "Check",
    "Placements",
    "Reassignment",
    "ReplicaFleet",
    "check",
    "place",
    "reassign",
    "tool_files",
    "write_tool_files",
]
