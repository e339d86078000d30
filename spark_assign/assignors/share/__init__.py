"""Kafka's assignor of share groups (KIP-932): `org.apache.kafka.coordinator.group.assignor.SimpleAssignor`."""
