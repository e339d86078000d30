"""What `Cluster.group_log` says of single groups: each line that is about one, and the generations of a classic one."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeVar

ATTEMPTS = 4
Played = TypeVar("Played")
Line = tuple[int, str]
"""When (ms since 1970), and what was said."""

_RAISED = re.compile(r"Bumped (?:streams )?group epoch to (\d+)")
_TARGET = re.compile(r"Computed a new target assignment for epoch (\d+)")
_EXPIRED = re.compile(r"has failed, removing it|because the member session expired")
_JOINED = re.compile(
    r"(?:Pending dynamic member with id|Created a new member id) (\S+) .*(?:Adding|added) to the group"
)
_STABILIZED = re.compile(r"Stabilized group \S+ generation (\d+) with (\d+) members")


def about(group: str, log: Iterable[Line]) -> list[Line]:
    """The lines about a group, whatever its protocol."""
    named = re.compile(rf"(?:\bgroup |\[GroupId ){re.escape(group)}[] .]")
    return [(at, text) for at, text in log if named.search(text)]


def epochs(group: str, log: Iterable[Line]) -> dict[int, int]:
    """Every epoch of a group of the broker's protocols, and when it is first heard of; nobody says that one was raised
    where a member of a streams group is gone, only that there is a target for it."""
    found: dict[int, int] = {}
    for at, epoch in (*_numbers(_RAISED, group, log), *targets(group, log)):
        found[epoch] = min(at, found.get(epoch, at))
    return found


def targets(group: str, log: Iterable[Line]) -> list[tuple[int, int]]:
    """When there was a target for which epoch."""
    return list(_numbers(_TARGET, group, log))


def _numbers(of: re.Pattern[str], group: str, log: Iterable[Line]) -> Iterator[tuple[int, int]]:
    made = ((at, of.search(text)) for at, text in about(group, log))
    return ((at, int(found[1])) for at, found in made if found)


def generations(group: str, log: Iterable[Line]) -> list[tuple[int, int]]:
    """Every generation that the coordinator has made of a classic group, with the number of its members."""
    made = [_STABILIZED.search(text) for _, text in about(group, log)]
    return [(int(found[1]), int(found[2])) for found in made if found]


def joined(group: str, log: Iterable[Line]) -> list[str]:
    """Returns the id of every member that the group has ever had, in the order in which they came into it."""
    return [found[1] for _, text in about(group, log) for found in [_JOINED.search(text)] if found]


def expirations(group: str, log: Iterable[Line]) -> int:
    """Returns the number of members whose session the coordinator saw expire, in a group of any protocol."""
    return sum(_EXPIRED.search(text) is not None for _, text in about(group, log))


class HeldUpError(Exception):
    """The machine was too busy: a member lost its session, or did not get its part in a generation."""


def repeated(play: Callable[[int], Played]) -> Played:
    """Returns the result of the first attempt (0, 1, …) that does not raise HeldUpError."""
    for attempt in range(ATTEMPTS):
        with contextlib.suppress(HeldUpError):
            return play(attempt)
    raise AssertionError(f"members were held up each of {ATTEMPTS} times")


def nobody_was_held_up(
    groups: Collection[str], log: Iterable[Line], rows: Iterable[dict[str, Any]], failures: int = 0
) -> bool:
    """Whether every member of these classic groups was told its part in every generation of the log, and only as many
    members failed as expected.

    One that asks for its part late, when somebody has given up partitions by then and joins again, gets none and has to
    join, too; it owns what it has by an old generation, and so by nothing. Kafka's members do so on a busy machine, and
    no snapshot of before foretells it.
    """
    log = list(log)
    seen = {(row["group"], row["generation_id"], row["client_id"]) for row in rows if row["event"] == "assigned"}
    if sum("has failed, removing it" in text for group in groups for _, text in about(group, log)) != failures:
        return False
    return all(sum((n, u) == (g, e) for n, u, _ in seen) == m for g in groups for e, m in generations(g, log))
