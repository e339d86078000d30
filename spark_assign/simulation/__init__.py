"""Simulates rebalances over time: which partitions nobody consumes, and for how long."""

from spark_assign.simulation.settings import Settings
from spark_assign.simulation.simulate_groups import Simulation, VariantSimulation, simulate, simulate_variants

__all__ = ["Settings", "Simulation", "VariantSimulation", "simulate", "simulate_variants"]
