"""The assignors of the broker (KIP-848): uniform and range of `org.apache.kafka.coordinator.group.assignor`."""
