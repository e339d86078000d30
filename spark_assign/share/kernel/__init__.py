"""The assignor of share groups (KIP-932): `org.apache.kafka.coordinator.group.assignor.SimpleAssignor`."""

SIMPLE = "share-simple"
"""Its name here; Kafka calls it `simple`. There is no other for share groups."""
