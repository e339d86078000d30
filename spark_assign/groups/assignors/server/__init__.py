"""Uniform and server-range: the assignors of the broker (KIP-848), for groups with `group.protocol=consumer`.

Principle: the coordinator keeps a target for each group, and each of its assignors starts from the target so far. Here
that is what members own now.

Uniform (`UniformAssignor`, what a broker takes if no member asks for another) is sticky: everybody keeps what it has as
far as balance allows. Server-range (`RangeAssignor`; its name in the broker is range, as that of the clients' assignor)
lays topics out in consecutive ranges and looks at nothing that was before. Neither knows racks.

They differ from the clients' assignors in what happens on the way, too: members go on with what they keep, each at its
own pace, and get what another one still owns as soon as that one has given it up. It is withheld until then.

Example: a owns t-0 t-1 t-2 t-3 and b joins. Uniform leaves t-0 t-1 with a; b gets t-2 t-3 when a has given them up.

Rack-uniform and rack-server-range are not Kafka's but ours: they say what the two would save if they knew racks.
Everybody gets as many partitions, nobody gives up more, and as many as possible are read from the member's own rack.
(A broker takes assignors of one's own, too, by `group.consumer.assignors`.)

Uniform hangs on orders (`groups.assignors.server.coordinator_hash_order`): of members, by their ids and places in the
coordinator's table (`members.position`), and of topics, by their ids (`topics.topic_id`).
"""

UNIFORM, SERVER_RANGE = KAFKA_SERVER_ASSIGNORS = ("uniform", "server-range")
"""Their names here: range is the clients' assignor, too. `partition.assignment.strategy` is not read for them."""

RACK_UNIFORM, RACK_SERVER_RANGE = RACK_SERVER_ASSIGNORS = ("rack-uniform", "rack-server-range")
"""Ours, by the name of the one that they better."""

SERVER_ASSIGNORS = (*KAFKA_SERVER_ASSIGNORS, *RACK_SERVER_ASSIGNORS)
"""All that decide in the broker: a group goes to their target as KIP-848 has it."""

TOPIC_ID_ASSIGNORS = (UNIFORM, RACK_UNIFORM)
"""Those that look at the ids of topics."""
