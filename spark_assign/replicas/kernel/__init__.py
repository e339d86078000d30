"""Kernels of replica placement: exact ports of Kafka's two placers, and the planner of reassignments."""
