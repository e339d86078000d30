"""From eager to cooperative (KIP-429), library by library: what is possible, what of it is safe, and where that is
written.

Two rolling restarts are safe where a consumer may list an eager and a cooperative assignor together, and is eager as
long as it does: in the first everybody gets both, and the vote stays with the old one as it stands first; in the second
the old one is dropped, and from the first member on that has dropped it the new one is the only one that all have.
Elsewhere the group has to be empty for a moment: all members stop before the first one starts with the new list, or the
new ones start under another group id, with the offsets of the old one.
"""

from __future__ import annotations

from dataclasses import dataclass

TWO_RESTARTS, STOP_ALL, IMPOSSIBLE = "two rolling restarts", "stop all", "not in this library"


@dataclass(frozen=True)
class Switching:
    """What one library can do.

    Attributes:
        library: its name, as `groups.kernel.client_libraries` has it.
        safe: the way that is safe.
        why: in a sentence.
        source: the file and the function that say so.
    """

    library: str
    safe: str
    why: str
    source: str


SWITCHING = (
    Switching(
        "Java",
        TWO_RESTARTS,
        "A list that mixes makes the consumer eager until the eager assignor is dropped.",
        "kafka-clients ConsumerCoordinator (constructor), CooperativeStickyAssignor.supportedProtocols",
    ),
    Switching(
        "franz-go",
        TWO_RESTARTS,
        "It may mix, but must not go back: an eager member downgrades the group, and its members read again from what "
        "was committed.",
        "pkg/kgo/group_balancer.go CooperativeStickyBalancer, config.go Balancers",
    ),
    Switching(
        "librdkafka",
        STOP_ALL,
        "A consumer does not start with a list that mixes.",
        "src/rdkafka.c rd_kafka_new, src/rdkafka_assignor.c rd_kafka_assignor_rebalance_protocol_check",
    ),
    Switching(
        "kafka-python",
        STOP_ALL,
        "Since 3.0 it has cooperative-sticky, as cooperative only, and raises KafkaConfigurationError on a list that "
        "mixes.",
        "kafka/coordinator/consumer.py _validate_rebalance_protocol, assignors/cooperative_sticky.py",
    ),
    Switching(
        "Sarama",
        STOP_ALL,
        "Cooperative rebalancing is of September 2026; since then a list that mixes is eager as in Java. Older "
        "releases have no cooperative assignor, so that who does not know the release stops all.",
        "balance_strategy_cooperative_sticky.go SupportedProtocols, selectRebalanceProtocol (IBM/sarama#3696)",
    ),
    Switching(
        "aiokafka",
        IMPOSSIBLE,
        "It has range, roundrobin and sticky.",
        "aiokafka/coordinator/assignors (aio-libs/aiokafka#1126)",
    ),
    Switching(
        "kafkajs",
        IMPOSSIBLE,
        "It has RoundRobinAssigner alone.",
        "src/consumer/assigners (tulios/kafkajs#1156)",
    ),
    Switching(
        "kafka-go",
        IMPOSSIBLE,
        "It has range and roundrobin.",
        "groupbalancer.go (segmentio/kafka-go#985)",
    ),
)
"""A row per library."""

OF_LIBRARY = {each.library: each for each in SWITCHING}
