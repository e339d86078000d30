"""Kafka's assignor of streams groups (KIP-1071), one group at a time, without Spark."""
