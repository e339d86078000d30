"""The group protocol in time: who stops, for how long, under eager and cooperative rebalancing."""

from spark_assign.protocol.classic_group_check import replay
from spark_assign.protocol.compare import compare_protocols, simulate_protocols
from spark_assign.protocol.cooperative_upgrade import holds_for, upgrade_plan
from spark_assign.protocol.settings import Settings
from spark_assign.protocol.simulation import Simulation, simulate

__all__ = [
    "Settings",
    "Simulation",
    "compare_protocols",
    "holds_for",
    "replay",
    "simulate",
    "simulate_protocols",
    "upgrade_plan",
]
