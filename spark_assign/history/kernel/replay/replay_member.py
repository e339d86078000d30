"""Members at one step of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplayMember:
    """A member at one step.

    Attributes:
        member_id: under which it is known; a static one keeps that which it had first.
        person: the same over restarts, static or not.
        hash: `String.hashCode` of `member_id`.
    """

    member_id: str
    person: str
    instance: str | None
    rack: str | None
    hash: int
    topics: frozenset[int]


Seats = Mapping[str, ReplayMember]
"""By member id, in the order in which a leader is told of them."""
