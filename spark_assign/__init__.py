"""Plan Apache Kafka assignment for whole fleets on Spark, exactly as Kafka's own classes would decide."""

from spark_assign.assignors import Group, GroupAssignor, Member, register
from spark_assign.compare.compare import compare
from spark_assign.compare.drift import Drift, drift
from spark_assign.compare.what_if import Change
from spark_assign.errors import FleetError, SparkAssignError, UnknownAssignorError
from spark_assign.explain import explain
from spark_assign.fleet import Fleet
from spark_assign.plan import Plan, plan
from spark_assign.rounds import converge

__version__ = "0.1.0"

__all__ = [
    "Change",
    "Drift",
    "Fleet",
    "FleetError",
    "Group",
    "GroupAssignor",
    "Member",
    "Plan",
    "SparkAssignError",
    "UnknownAssignorError",
    "__version__",
    "compare",
    "converge",
    "drift",
    "explain",
    "plan",
    "register",
]
