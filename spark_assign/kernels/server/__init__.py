"""The assignors of the broker (KIP-848): uniform and range of `org.apache.kafka.coordinator.group.assignor`.

And two of ours, which Kafka does not have: what either would do if it looked at racks.
"""

UNIFORM, SERVER_RANGE = KAFKAS = ("uniform", "server-range")
"""Their names here: range is the clients' assignor, too. `partition.assignment.strategy` is not read for them."""

RACK_UNIFORM, RACK_SERVER_RANGE = OURS = ("rack-uniform", "rack-server-range")
"""Ours, by the name of the one that they better."""

SERVER_SIDE = (*KAFKAS, *OURS)
"""All that decide in the broker: a group goes to their target as KIP-848 has it."""

BY_IDS = (UNIFORM, RACK_UNIFORM)
"""Those that look at the ids of topics."""
