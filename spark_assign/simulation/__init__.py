"""The group protocol in time: who stops, for how long, under eager and cooperative rebalancing."""

from spark_assign.simulation.classic_group_check import replay
from spark_assign.simulation.settings import Settings
from spark_assign.simulation.simulation import Simulation, compare_protocols, simulate, simulate_protocols

__all__ = [
    "Settings",
    "Simulation",
    "compare_protocols",
    "replay",
    "simulate",
    "simulate_protocols",
]
