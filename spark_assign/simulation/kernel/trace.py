"""What a person would write on a sequence diagram, and the rows of rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

COORDINATOR, EVENT = "coordinator", "event"
"""Actors that are no members; `event`: something happens from outside."""
SHOWN_CAUSES = 3


@dataclass(slots=True)
class TraceRow:
    """A row of `tables.simulation.TRACE`."""

    at_ms: int
    generation_id: int
    actor: str
    message: str
    to: str | None
    detail: str


@dataclass(slots=True)
class RebalanceRow:
    """A row of `tables.simulation.ROUNDS` in the making; `begin_ms` is null until somebody wants to rebalance."""

    begin_ms: int = 0
    causes: list[str] = field(default_factory=list)
    generation_id: int = 0
    joined_ms: int = 0
    end_ms: int = 0
    members: int = 0
    leader: str | None = None
    assignor: str | None = None
    revoked: int = 0
    lost: int = 0
    assigned: int = 0
    moved: int = 0

    @property
    def cause(self) -> str:
        """Why there is a rebalance."""
        more = len(self.causes) - SHOWN_CAUSES
        return "; ".join(self.causes[:SHOWN_CAUSES]) + (f"; {more} more" if more > 0 else "")


def partitions_text(codes: Iterable[int], names: Sequence[str]) -> str:
    """Partitions by name, separated by blanks."""
    return " ".join(f"{names[code >> 32]}-{code & 0xFFFFFFFF}" for code in sorted(codes))
