"""Which way of reading a group should have, and why, in words.

The cheapest way is the measure. Of all ways that cost less than `worth` a day more than it, that one is taken which
changes least: the way of today; the owners of today with follower fetching, which moves nothing; then the fewest
partitions that move, the assignor that the group runs with, and the order in which the ways are told. Assignors that
Kafka does not have (`groups.assignors.server.RACK_SERVER_ASSIGNORS`) are told, and never taken.

Example: today 40.00 a day, follower fetching 0.00, cooperative-sticky with follower fetching 0.00. The second, as it
moves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_assign.groups.assignors.server import RACK_SERVER_ASSIGNORS

CURRENT = "today"
"""In place of an assignor: who has what now."""


@dataclass(frozen=True)
class ReadOption:
    """One way in which a group may read.

    Attributes:
        assignor: or `CURRENT`.
        fetching: whether with follower fetching.
        partitions: that have an owner.
        moved: that have another one than today.
        cost: a day; null where it is not known.
        refused: why there is no such way; null if there is.
    """

    assignor: str
    fetching: bool
    partitions: int
    moved: int
    cost: float | None
    refused: str | None = None


@dataclass(frozen=True)
class GroupContext:
    """What is known of a group besides.

    Attributes:
        fetching: whether it has follower fetching today.
        runs_with: the assignor that it runs with; null: not known.
        members, without_rack: how many, and how many of these have no rack.
        without_bytes: partitions of which no bytes are known.
        currency, worth: what it is paid in, and what a change has to save a day.
    """

    fetching: bool
    runs_with: str | None
    members: int
    without_rack: int
    without_bytes: int
    currency: str
    worth: float


def recommend(ways: Sequence[ReadOption], told: GroupContext) -> tuple[int | None, list[str]]:
    """The place of the way to take, null where nothing can be said, and of every way why (not)."""
    now = next(way for way in ways if _is_now(way, told))
    if now.cost is None or not now.partitions:
        why = _unknown(now, told)
        return None, [way.refused or why for way in ways]
    able = [at for at, way in enumerate(ways) if way.cost is not None and way.refused is None]
    able = [
        at for at in able if ways[at].partitions >= now.partitions and ways[at].assignor not in RACK_SERVER_ASSIGNORS
    ]
    least = min(ways[at].cost or 0.0 for at in able)
    enough = [at for at in able if (ways[at].cost or 0.0) - least < told.worth or ways[at].cost == least]
    best = min(enough, key=lambda at: (_change(ways[at], told), at))
    return best, [_reason(way, at == best, now, ways[best], told) for at, way in enumerate(ways)]


def _is_now(way: ReadOption, told: GroupContext) -> bool:
    return way.assignor == CURRENT and way.fetching == told.fetching


def _change(way: ReadOption, told: GroupContext) -> tuple[bool, bool, int, bool]:
    other = way.assignor != CURRENT
    return not _is_now(way, told), other, way.moved, other and way.assignor != told.runs_with


def _unknown(now: ReadOption, told: GroupContext) -> str:
    if not told.members:
        return "It has no members: it reads nothing"
    if not now.partitions:
        return "Who has what is not known: give owned or owned_runs"
    if told.without_bytes >= now.partitions:
        return "How many bytes are read is not known: give loads.bytes"
    if told.without_rack:
        return f"{told.without_rack:,} of {told.members:,} members have no rack: set client.rack"
    return "Leaders are on brokers without a rack: set broker.rack"


def _reason(way: ReadOption, chosen: bool, now: ReadOption, best: ReadOption, told: GroupContext) -> str:
    if way.refused is not None:
        return way.refused
    if way.cost is None or now.cost is None:
        return "What it costs is not known, as some racks are not"
    saved = now.cost - way.cost
    money = f"{abs(saved):,.2f} {told.currency} a day"
    if chosen and _is_now(way, told):
        return "Nothing crosses a zone" if not now.cost else f"No way saves {told.worth:,.2f} {told.currency} a day"
    if chosen:
        return f"Saves {money}, {_moves(way)}"
    if way.partitions < now.partitions:
        return "Fewer partitions would have an owner"
    if saved < 0:
        return f"Costs {money} more than today"
    if way.assignor in RACK_SERVER_ASSIGNORS:
        return f"Would save {money}, and Kafka has no such assignor"
    beyond = way.cost - (best.cost or 0.0)
    if beyond >= told.worth and beyond > 0:
        return f"Costs {beyond:,.2f} {told.currency} a day more than {name(best)}"
    return f"Saves no more than {name(best)}, which changes less"


def _moves(way: ReadOption) -> str:
    if not way.moved:
        return "and moves nothing"
    return f"and moves {way.moved:,} of {way.partitions:,} partitions once"


def name(way: ReadOption) -> str:
    """A way in words."""
    if way.assignor == CURRENT:
        return "follower fetching alone" if way.fetching else "today"
    return f"{way.assignor} with follower fetching" if way.fetching else way.assignor
