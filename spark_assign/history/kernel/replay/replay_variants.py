"""In which ways a past is replayed."""

from __future__ import annotations

from dataclasses import dataclass

from spark_assign.groups.assignors.release_rules import CLIENT_SIDE
from spark_assign.groups.assignors.server import KAFKAS
from spark_assign.groups.kernel.client_libraries import COOPERATIVE

EAGER, COOPERATES, SERVED = "eager", "cooperative", "consumer"
ASSIGNORS = (*CLIENT_SIDE, *KAFKAS)
"""All that come with Kafka: four of its clients, two of its broker."""


@dataclass(frozen=True, order=True)
class ReplayVariant:
    """An assignor, and whether all members are static."""

    assignor: str
    static: bool

    @property
    def protocol(self) -> str:
        """By which the assignor's groups rebalance."""
        return protocol_of(self.assignor)


def protocol_of(assignor: str) -> str:
    """The protocol: the broker's own, cooperative, or eager as all others.

    Examples:
        >>> protocol_of("sticky"), protocol_of("cooperative-sticky"), protocol_of("uniform")
        ('eager', 'cooperative', 'consumer')
    """
    if assignor in KAFKAS:
        return SERVED
    return COOPERATES if assignor == COOPERATIVE else EAGER
