"""Regular expressions that members of a KIP-848 group subscribe to.

The broker resolves all of a group's together, in the background, at most every ten seconds: when there is a new one,
when topics were created, and now and then.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from spark_assign.simulation.kernel.consumer_group_members import INVALID_REGULAR_EXPRESSION, HeartbeatError
from spark_assign.simulation.kernel.settings import GroupConfig
from spark_assign.simulation.kernel.target_assignment import TopicsImage

_AT_MOST_EVERY_MS = 10_000


@dataclass(frozen=True, slots=True)
class RegexUpdate:
    """What a heartbeat changes.

    Attributes:
        changed: the member subscribes to another expression than before.
        resolved: and what it means is known.
    """

    changed: bool = False
    resolved: bool = False


@dataclass(slots=True)
class Regexes:
    """Those of a group.

    Attributes:
        members: of each expression how many members subscribe to it.
        resolved: of each the topics it means, as far as that is known.
        waiting: those that are to be resolved in the background.
        version: of the metadata with which they were resolved last.
        resolved_at: when; null: never.
    """

    members: Counter[str] = field(default_factory=Counter)
    resolved: dict[str, frozenset[str]] = field(default_factory=dict)
    waiting: frozenset[str] | None = None
    version: int = 0
    resolved_at: int | None = None

    @property
    def is_used(self) -> bool:
        """Somebody subscribes to one."""
        return bool(self.members)

    @property
    def topics(self) -> tuple[frozenset[str], ...]:
        """The topics of all that are resolved."""
        return tuple(self.resolved.values())

    def of(self, regex: str) -> frozenset[str]:
        """The topics that an expression means, as far as that is known."""
        return self.resolved.get(regex, frozenset())

    def united(self, names: frozenset[str], regex: str) -> frozenset[str]:
        """What a member subscribes to by name and by expression."""
        return names | self.of(regex) if regex else names

    def used_by(self, members: int) -> bool:
        """All of them subscribe to one expression."""
        return list(self.members.values()) == [members]

    def check(self, regex: str) -> None:
        """Nobody subscribes to it yet: is it one?

        Raises:
            Refused: no.
        """
        if regex in self.members:
            return
        try:
            re.compile(regex)
        except re.error:
            raise HeartbeatError(INVALID_REGULAR_EXPRESSION) from None

    def look(self, old: str, new: str, metadata: TopicsImage, now: int, config: GroupConfig) -> RegexUpdate:
        """What is new, before it is counted, and whether to resolve anew (`maybeUpdateRegularExpressions`)."""
        found, needed = RegexUpdate(), False
        if old != new:
            needed = bool(new) and new not in self.members
            found = RegexUpdate(changed=True, resolved=not new or (not needed and new in self.resolved))
        if (not needed and not self.members) or self.waiting is not None:
            return found
        if self.resolved_at is not None and self.resolved and now <= self.resolved_at + _AT_MOST_EVERY_MS:
            return found
        members = self.members.copy()
        _move(members, old, new)
        needed |= len(members) != len(self.resolved)
        needed |= (self.version if self.resolved else 0) < metadata.created
        needed |= not self.resolved or now > (self.resolved_at or 0) + config.regex_refresh_interval_ms
        if needed and members:
            self.waiting = frozenset(members)
        return found

    def changed(self, old: str, new: str) -> frozenset[str]:
        """A member subscribes to another one; what nobody subscribes to is forgotten.

        Returns:
            the topics of the one that is forgotten.
        """
        _move(self.members, old, new)
        return frozenset() if old in self.members else self.resolved.pop(old, frozenset())

    def resolve(self, metadata: TopicsImage, now: int) -> bool:
        """Resolve what waits for it.

        Returns:
            whether any of them means other topics than before.
        """
        if self.waiting is None:
            return False
        changed = False
        for regex in self.waiting:
            if regex in self.members:
                pattern = re.compile(regex)
                topics = frozenset(name for name in metadata.by_name if pattern.fullmatch(name))
                changed |= topics != self.of(regex)
                self.resolved[regex] = topics
                self.version, self.resolved_at = metadata.version, now
        self.waiting = None
        return changed


def _move(members: Counter[str], old: str, new: str) -> None:
    if old == new:
        return
    if old and old in members:
        members[old] -= 1
        if not members[old]:
            del members[old]
    if new:
        members[new] += 1
