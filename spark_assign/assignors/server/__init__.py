"""The assignors of the broker (KIP-848), for groups with `group.protocol=consumer`: uniform and server-range.

The group coordinator keeps a target assignment for each group, and each assignor starts from the previous target. Here,
the previous target is what members own.

    uniform         Kafka's `UniformAssignor`, the default. Sticky: members keep their partitions as far as balance
                    allows.
    server-range    Kafka's `RangeAssignor` (in the broker, its name is range). Assigns consecutive ranges and ignores
                    the previous target.

Both ignore racks. uniform@4.0.0 is the class of that release, which gives the extra partitions of a homogeneous group
to the first members in assignment order, whatever they own (before KAFKA-18688); the class of 4.0.1 to 4.4 is uniform.
They also differ from the client-side assignors during a rebalance: each member continues with the partitions that it
keeps, and gets others as soon as their owners have revoked them. Until then they are withheld.

Example: topic t has four partitions. C0 owns all of them, and C1 joins.

    uniform    C0: [t0, t1]    C1: [t2, t3]    (after C0 has revoked t2 and t3)

rack-uniform and rack-server-range aren't Kafka's. They show what the two assignors would save if they used racks: the
number of partitions of each member stays the same, no member gives up more, and as many partitions as possible are read
in the member's own rack. (A broker accepts custom assignors, see `group.consumer.assignors`.)

Uniform depends on two orders (`coordinator_order`): of members, by their ids and positions in the coordinator's
table (`members.position`), and of topics, by their ids (`topics.topic_id`).
"""

UNIFORM, SERVER_RANGE = KAFKA_SERVER_ASSIGNORS = ("uniform", "server-range")
"""Their names here, because range is also a client-side assignor. They ignore `partition.assignment.strategy`."""

UNIFORM_4_0_0 = "uniform@4.0.0"
"""The class of Kafka 4.0.0."""

RACK_UNIFORM, RACK_SERVER_RANGE = RACK_SERVER_ASSIGNORS = ("rack-uniform", "rack-server-range")
"""Rack-aware variants, not part of Kafka."""

SERVER_ASSIGNORS = (*KAFKA_SERVER_ASSIGNORS, *RACK_SERVER_ASSIGNORS, UNIFORM_4_0_0)
"""All broker-side assignors. A group converges to their target as described in KIP-848."""

TOPIC_ID_ASSIGNORS = (UNIFORM, RACK_UNIFORM, UNIFORM_4_0_0)
"""Assignors that depend on topic ids."""
