"""Scenario events of a consumer group, and the queue that runs a discrete-event simulation."""

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
"""Event type to the columns that it requires."""

TIMES = ("at_ms", "down_ms", "delay_ms", "pause_ms")
DOWN_MS, PAUSE_MS = 5_000, 10_000
"""Default downtime of a restarted process, and default pause between the batches of a rolling restart, in
milliseconds."""

MAX_PARTITIONS = 1_000_000
"""Maximum number of partitions of a simulated topic. The simulation keeps one object per partition."""

MAX_MS = 10**10
"""Maximum time of an event or a setting, in milliseconds (115 days), which bounds sums and running time."""

ORDER = {event: number for number, event in enumerate(NEEDS)}


class InvalidEventError(Exception):
    """An event that cannot happen. The message states the reason."""


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

    def invalid(self, reason: str) -> InvalidEventError:
        """Returns the error that describes what is wrong with the event."""
        member = f", member_id={self.member_id}" if self.member_id is not None else ""
        return InvalidEventError(f"events: at_ms={self.at_ms}, event={self.event}{member}: {reason}")


def in_order(events: Iterable[Event]) -> list[Event]:
    """Sorts events by time. Events of the same instant start with topic events, whatever the input order.

    Raises:
        InvalidEventError: an event type is unknown, or a required column is null or out of range.
    """
    listed = list(events)
    for each in listed:
        _check(each)
    return sorted(
        listed, key=lambda each: (each.at_ms, ORDER[each.event], each.member_id or "", each.partitions or 0, repr(each))
    )


def _check(event: Event) -> None:
    """Raises an error that names the first invalid column of an event."""
    if event.event not in NEEDS:
        raise event.invalid(f"unknown event. Use one of {', '.join(NEEDS)}")
    for name in NEEDS[event.event]:
        if getattr(event, name) is None:
            raise event.invalid(f"{name} is null. The event requires it")
    for name, most in (*((name, MAX_MS) for name in TIMES), ("partitions", MAX_PARTITIONS)):
        value = getattr(event, name)
        if value is not None and value < 0:
            raise event.invalid(f"{name} is {value}, expected 0 or more")
        if value is not None and value > most:
            raise event.invalid(f"{name} is {value:,}, expected at most {most:,}")
    if event.parallelism is not None and event.parallelism < 1:
        raise event.invalid(f"parallelism is {event.parallelism}, expected 1 or more")
    for name in ("topics", "assignors"):
        value = getattr(event, name)
        if value is not None and None in value:
            raise event.invalid(f"{name} contains null. Remove it")
    if event.assignors is not None and not event.assignors:
        raise event.invalid("assignors is empty. Name at least one, or use null")


class EventQueue:
    """Callbacks by simulated time, in milliseconds. Callbacks of the same instant run in the order of scheduling."""

    def __init__(self) -> None:
        self.now = 0
        self._sequence = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []

    def schedule(self, time: int, what: Callable[..., None], *args: Any) -> None:
        """Schedules a callback at a time."""
        self._sequence += 1
        heappush(self._heap, (time, self._sequence, what, args))

    def schedule_next(self, what: Callable[..., None], *args: Any) -> None:
        """Schedules a callback now, before all other callbacks. At most one may be due."""
        heappush(self._heap, (self.now, 0, what, args))

    def run_next(self, until: int | None) -> bool:
        """Runs the next callback. Returns False if none is due at or before `until`."""
        if not self._heap or (until is not None and self._heap[0][0] > until):
            return False
        self.now, _, what, args = heappop(self._heap)
        what(*args)
        return True
