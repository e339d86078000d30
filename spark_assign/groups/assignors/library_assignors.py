"""The assignors of client libraries other than Kafka's own: `cooperative-sticky@librdkafka`, by library and assignor.

Which kernel plans by each stands in `groups.kernel.assign`.
"""

from __future__ import annotations

ASSIGNORS: dict[str, tuple[str, ...]] = {
    "franz-go": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "librdkafka": ("range", "roundrobin", "cooperative-sticky"),
}
"""By the name of a library, its assignors."""

AS_KAFKA = {
    ("range", "franz-go"): "range@3.4",
    ("roundrobin", "franz-go"): "roundrobin",
    ("range", "aiokafka"): "range@3.4",
    ("range", "kafka-python"): "range@3.4",
    ("range", "Sarama"): "range@3.4",
    ("roundrobin", "aiokafka"): "roundrobin",
}
"""By assignor and library the profile of Kafka's own clients that answers alike. Their range knows no racks.
docs/libraries.md has what was measured."""

STATIC_OTHERWISE = frozenset({"aiokafka", "kafka-python", "Sarama"})
"""Libraries that do not line up static members first, by their instance ids, as Java does: they answer alike as long as
no member is static."""


def read_library(name: str) -> tuple[str, str] | None:
    """Assignor and library of a name with a library behind the `@`; null for every other name.

    Examples:
        >>> read_library("range@librdkafka"), read_library("range@2.8")
        (('range', 'librdkafka'), None)
    """
    assignor, _, library = name.partition("@")
    return (assignor, library) if assignor in ASSIGNORS.get(library, ()) else None
