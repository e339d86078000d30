"""Releases of Kafka Streams: the rules of a classic application are those of its leader's release.

Releases with the same rules form a profile:

    4.4    4.4.0           the public `StickyTaskAssignor` rounds a process's share of the tasks up once (KAFKA-20198)
    3.8    3.8.0 to 4.3    it rounds tasks per thread down, and then multiplies by the threads

High availability, legacy sticky, and the fallback are the same in both. Older releases have no profile: they are
planned as 3.8, and `differences` names what they do otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_assign.assignors.release_rules import NEWEST_RELEASE, release_bounds

PROFILES = {"4.4": (4, 4, 0), "3.8": (3, 8, 0)}
"""Name of each profile to its first release, from the newest to the oldest."""

CHANGES = {
    (3, 8, 0): "another test of whether an assignment is stable",
    (3, 7, 0): "no balance_subtopology, and other ties of min_traffic",
    (3, 6, 1): "a rack is required of each instance even without a rack-aware strategy",
    (3, 6, 0): "no racks (KIP-925)",
    (3, 5, 2): "temporary standbys also on instances without state of the task",
    (3, 3, 0): "another order of movements if warmups are limited",
    (3, 2, 0): "no client tags, other destinations of movements (KAFKA-13600), standbys don't count in the balance of "
    "threads (KAFKA-12959)",
    (3, 1, 0): "tasks without a known lag count as previous tasks of a thread",
    (3, 0, 0): "another hash code of tasks, so sticky orders them otherwise",
    (2, 6, 0): "no warmups and no probing rebalances (KIP-441)",
}
"""First release without a difference from 3.8 to that difference, as read from Kafka's classes of every release."""


@dataclass(frozen=True)
class StreamsRules:
    """The rules of an application.

    Attributes:
        profile: name of the profile that plans the application.
        note: what might differ, because the leader's release is unknown or outside of the profile; None if nothing.
    """

    profile: str
    note: str | None

    @property
    def rounds_up_shares(self) -> bool:
        """Whether the public sticky assignor rounds the share of a process up (`PublicStickyAssignment`)."""
        return self.profile == "4.4"


LATEST_RULES = StreamsRules("4.4", None)


def find_rules(releases: str | None, *, is_public_sticky: bool) -> StreamsRules:
    """Returns the rules of an application.

    Args:
        releases: possible releases of the leader, of which the latest counts (`groups.leader_version`); None: unknown,
            planned as the latest.
        is_public_sticky: whether the assignor is the public sticky one; only that one differs between the profiles.

    Examples:
        >>> find_rules("4.3.1", is_public_sticky=True)
        StreamsRules(profile='3.8', note=None)
        >>> find_rules("3.7.2", is_public_sticky=False).note
        'as 3.8, not 3.7.2: another test of whether an assignment is stable'
    """
    oldest, newest = release_bounds(releases)
    profile = next((name for name, first in PROFILES.items() if first <= newest), "3.8")
    if releases is None:
        return StreamsRules(profile, f"as {profile}, because the release of the leader is unknown")
    differences = [text for release, text in CHANGES.items() if oldest < release]
    if is_public_sticky and profile == "4.4" and oldest < PROFILES["4.4"]:
        differences.insert(0, "up to 4.3, instances keep fewer tasks (KAFKA-20198)")
    is_known = releases.endswith("+") or newest <= NEWEST_RELEASE
    if is_known and not differences:
        return StreamsRules(profile, None)
    return StreamsRules(profile, ": ".join([f"as {profile}, not {releases}", *filter(None, ["; ".join(differences)])]))
