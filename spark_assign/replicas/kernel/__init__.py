"""Where replicas go: Kafka's two placers, number for number, and the planner of reassignments."""
