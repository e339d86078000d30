"""What can happen to a group."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

NEEDS: dict[str, tuple[str, ...]] = {
    "topic-created": ("topic", "partitions"),
    "topic-deleted": ("topic",),
    "partitions-added": ("topic", "partitions"),
    "metadata-refresh": (),
    "member-starts": ("member_id",),
    "member-leaves": ("member_id",),
    "member-crashes": ("member_id",),
    "member-restarts": ("member_id",),
    "rolling-restart": (),
    "slow-member": ("member_id", "delay_ms"),
    "subscription-changes": ("member_id", "topics"),
}
"""Every event, and the columns that it needs."""

NUMBERS = ("at_ms", "partitions", "down_ms", "delay_ms", "pause_ms")
DOWN_MS, PAUSE_MS = 5_000, 10_000
"""How long a process is away, and how long a rolling restart waits between batches, where an event does not say."""

MOST_PARTITIONS = 1_000_000
"""Of a topic that can be played, as each partition is kept by itself; more is one zero too many."""

ORDER = {event: number for number, event in enumerate(NEEDS)}


class BadEvent(Exception):
    """An event that cannot happen; the message says why."""


@dataclass(frozen=True, slots=True)
class Event:
    """A row of `tables.simulation.EVENTS`, for one group."""

    at_ms: int
    event: str
    member_id: str | None = None
    topic: str | None = None
    partitions: int | None = None
    topics: tuple[str, ...] | None = None
    group_instance_id: str | None = None
    assignors: tuple[str, ...] | None = None
    new_member_id: str | None = None
    down_ms: int | None = None
    delay_ms: int | None = None
    parallelism: int | None = None
    pause_ms: int | None = None

    def refused(self, why: str) -> BadEvent:
        """The error that says what is wrong with the event."""
        member = f", member_id={self.member_id}" if self.member_id is not None else ""
        return BadEvent(f"events: at_ms={self.at_ms}, event={self.event}{member}: {why}")


def in_order(events: Iterable[Event]) -> list[Event]:
    """Events as they happen: by time; of one instant topics first, whatever order they came in.

    Raises:
        BadEvent: an event that there is not, or one that lacks what it needs.
    """
    listed = list(events)
    for each in listed:
        _check(each)
    return sorted(
        listed, key=lambda each: (each.at_ms, ORDER[each.event], each.member_id or "", each.partitions or 0, repr(each))
    )


def _check(event: Event) -> None:
    if event.event not in NEEDS:
        raise event.refused(f"there is no such event; there are {', '.join(NEEDS)}")
    for name in NEEDS[event.event]:
        if getattr(event, name) is None:
            raise event.refused(f"{name} is null; this event needs it")
    for name in NUMBERS:
        value = getattr(event, name)
        if value is not None and value < 0:
            raise event.refused(f"{name} is {value}, expected 0 or more")
    if (event.partitions or 0) > MOST_PARTITIONS:
        raise event.refused(f"partitions is {event.partitions:,}, expected at most {MOST_PARTITIONS:,}")
    if event.parallelism is not None and event.parallelism < 1:
        raise event.refused(f"parallelism is {event.parallelism}, expected 1 or more")
    for name in ("topics", "assignors"):
        value = getattr(event, name)
        if value is not None and None in value:
            raise event.refused(f"{name} holds a null; leave it out")
    if event.assignors is not None and not event.assignors:
        raise event.refused("assignors is empty; name at least one, or leave it out")


class EventQueue:
    """What is to happen, by time; at one instant in the order in which it was asked for."""

    def __init__(self) -> None:
        self.now = 0
        self._asked = 0
        self._waiting: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, time: int, what: Callable[..., None], *args: Any) -> None:
        """Call it at that time."""
        self._asked += 1
        heappush(self._waiting, (time, self._asked, what, args))

    def step(self, until: int | None) -> bool:
        """Let the next thing happen; false if there is none before or at that time."""
        if not self._waiting or (until is not None and self._waiting[0][0] > until):
            return False
        self.now, _, what, args = heappop(self._waiting)
        what(*args)
        return True
