"""Regular expressions that members of a KIP-848 group subscribe to.

The broker resolves all expressions of a group together, in the background, at most every ten seconds: if there is a new
expression, if topics were created, and periodically.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from spark_assign.simulation.kernel.consumer_group_members import INVALID_REGULAR_EXPRESSION, HeartbeatError
from spark_assign.simulation.kernel.settings import GroupConfig
from spark_assign.simulation.kernel.target_assignment import TopicsImage
from spark_assign.wire.topic_regex import TopicRegexError, topic_matcher

_AT_MOST_EVERY_MS = 10_000


@dataclass(slots=True)
class Regexes:
    """The expressions of a group.

    Attributes:
        members: number of members that subscribe to each expression.
        resolved: topics of each resolved expression.
        pending: expressions that await resolution in the background.
        version: version of the metadata at the last resolution.
        resolved_at: time of the last resolution. None: never.
    """

    members: Counter[str] = field(default_factory=Counter)
    resolved: dict[str, frozenset[str]] = field(default_factory=dict)
    pending: frozenset[str] | None = None
    version: int = 0
    resolved_at: int | None = None

    @property
    def topics(self) -> tuple[frozenset[str], ...]:
        """The topics of each resolved expression."""
        return tuple(self.resolved.values())

    def topics_of(self, regex: str) -> frozenset[str]:
        """Returns the topics of an expression, as far as it is resolved."""
        return self.resolved.get(regex, frozenset())

    def subscription(self, names: frozenset[str], regex: str) -> frozenset[str]:
        """Returns all topics that a member subscribes to, by name and by expression."""
        return names | self.topics_of(regex) if regex else names

    def check(self, regex: str) -> None:
        """Checks that a new expression is valid.

        Raises:
            HeartbeatError: it isn't.
        """
        if regex in self.members:
            return
        try:
            topic_matcher(regex)
        except TopicRegexError:
            raise HeartbeatError(INVALID_REGULAR_EXPRESSION) from None

    def update(self, old: str, new: str, metadata: TopicsImage, now: int, config: GroupConfig) -> bool:
        """Marks expressions for resolution before a changed one is counted (`maybeUpdateRegularExpressions`).

        Returns:
            whether a changed expression is already resolved.
        """
        needed = old != new and bool(new) and new not in self.members
        is_resolved = old != new and (not new or (not needed and new in self.resolved))
        if (not needed and not self.members) or self.pending is not None:
            return is_resolved
        if self.resolved_at is not None and self.resolved and now <= self.resolved_at + _AT_MOST_EVERY_MS:
            return is_resolved
        members = self.members.copy()
        _move(members, old, new)
        needed |= len(members) != len(self.resolved)
        needed |= (self.version if self.resolved else 0) < metadata.created
        needed |= not self.resolved or now > (self.resolved_at or 0) + config.regex_refresh_interval_ms
        if needed and members:
            self.pending = frozenset(members)
        return is_resolved

    def changed(self, old: str, new: str) -> frozenset[str]:
        """Replaces the expression of a member, and drops an expression that no member subscribes to.

        Returns:
            the topics of the dropped expression.
        """
        _move(self.members, old, new)
        return frozenset() if old in self.members else self.resolved.pop(old, frozenset())

    def resolve(self, metadata: TopicsImage, now: int) -> bool:
        """Resolves the pending expressions.

        Returns:
            whether the topics of any expression changed.
        """
        if self.pending is None:
            return False
        changed = False
        for regex in self.pending:
            if regex in self.members:
                topics = frozenset(filter(topic_matcher(regex), metadata.by_name))
                changed |= topics != self.topics_of(regex)
                self.resolved[regex] = topics
                self.version, self.resolved_at = metadata.version, now
        self.pending = None
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
