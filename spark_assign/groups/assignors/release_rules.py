"""What the clients' assignors of older releases do otherwise than those of today.

An assignor's name with a release (`sticky@2.8`) is its profile as of that release. A release of two numbers is the
newest of its patches: 3.4 is 3.4.1. Releases that answer alike are a line:

    2.4      2.4.0 to 2.5.0    everything is balanced partition by partition
    2.5.1    2.5.1 to 2.8.0    equal subscriptions have an algorithm of their own, the first one (KAFKA-9987)
    2.8      2.8.1, 2.8.2      a partition that two members claim is taken from both, and cooperative-sticky knows
                               generations (KAFKA-12984, here as KAFKA-13081)
    3.2      3.0.0 to 3.3.2    both algorithms anew (KAFKA-12464, KAFKA-12675)
    3.4.0    3.4.0             the generation is in the subscription (KAFKA-13715)
    3.4      3.4.1             what is owned in an older generation is kept, unless claimed in a newer (KAFKA-14639)
    3.5.1    3.5.0, 3.5.1      racks (KIP-881)
    3.5      3.5.2 to 3.7.0    of a partition claimed in vain the owner stays the owner (KAFKA-15106)
    3.9      3.7.1 to 4.4      who gives up keeps its first partitions, not its first topics (KAFKA-16277); racks never
                               exceed the quota (KAFKA-15170)

Range has two lines, without racks before 3.5.0 and with them; round robin has one. The lines were read from Kafka's
classes of every release, and are held against them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from spark_assign.groups.assignors.library_assignors import AS_KAFKA, read_library

CLIENT_SIDE = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""The assignors that come with Kafka's clients, and so in as many lines as clients do."""

Version = tuple[int, int, int]
_NEWEST = 1_000_000
"""Behind every patch that there is."""
_MINORS = {2: range(4, 9), 3: range(10), 4: range(5)}
"""The releases that are known."""


@dataclass(frozen=True)
class ReleaseRules:
    """What an assignor of one line of releases does; by default as of today.

    Attributes:
        line: its name.
        racks: members look for replicas in their own rack (KIP-881).
        keeps_as_told: of what is too much a member keeps the first partitions in the order in which it tells what it
            owns, by default by (topic, partition); else by (partition, topic) (before KAFKA-16277).
        racks_exceed_quota: while partitions are handed out near to members, nobody counts how many have one more than
            the quota, so that later some lack the quota (before KAFKA-15170).
        withholds_over_quota: cooperative-sticky withholds all that was over somebody's quota, even if it comes back to
            that one, and nothing that was given up for its rack (before KAFKA-15170).
        loser_owns: who claims a partition in vain counts as its owner from there on (before KAFKA-15106).
        uneven_by_one: a group counts as balanced only if nobody could take a partition from one that has one more; by
            default, two more.
        newest_only: only claims of the newest generation count (before KAFKA-14639).
        generation_in_user_data: cooperative-sticky tells its generation there only (before KAFKA-13715).
        first_constrained: equal subscriptions are planned by the first algorithm for them (`constrained_2_8`), others
            from the claims of each partition by generation (before KAFKA-12464 and KAFKA-12675).
        shares_claims: with equal subscriptions a partition that two members claim stays with both (before KAFKA-12984).
        blind_to_generations: cooperative-sticky knows no generation at all (before KAFKA-12984).
        tells_by_hash: cooperative-sticky tells the topics of what is owned as a `HashMap` has them (before 2.8.1).
        general_only: equal subscriptions have no algorithm of their own (before KAFKA-9987).
    """

    line: str = "3.9"
    racks: bool = True
    keeps_as_told: bool = False
    racks_exceed_quota: bool = False
    withholds_over_quota: bool = False
    loser_owns: bool = False
    uneven_by_one: bool = False
    newest_only: bool = False
    generation_in_user_data: bool = False
    first_constrained: bool = False
    shares_claims: bool = False
    blind_to_generations: bool = False
    tells_by_hash: bool = False
    general_only: bool = False


LATEST_RULES = ReleaseRules()
_3_5 = replace(LATEST_RULES, line="3.5", keeps_as_told=True, racks_exceed_quota=True, withholds_over_quota=True)
_3_5_1 = replace(_3_5, line="3.5.1", loser_owns=True, uneven_by_one=True)
_3_4 = replace(_3_5_1, line="3.4", racks=False)
_3_4_0 = replace(_3_4, line="3.4.0", newest_only=True)
_3_2 = replace(_3_4_0, line="3.2", generation_in_user_data=True)
_2_8 = replace(_3_2, line="2.8", first_constrained=True)
_2_5_1 = replace(_2_8, line="2.5.1", shares_claims=True, blind_to_generations=True, tells_by_hash=True)
_2_4 = replace(_2_5_1, line="2.4", general_only=True)

LINES: dict[str, tuple[str, ReleaseRules]] = {
    "2.4.0": ("2.5.0", _2_4),
    "2.5.1": ("2.8.0", _2_5_1),
    "2.8.1": ("2.8.2", _2_8),
    "3.0.0": ("3.3.2", _3_2),
    "3.4.0": ("3.4.0", _3_4_0),
    "3.4.1": ("3.4.1", _3_4),
    "3.5.0": ("3.5.1", _3_5_1),
    "3.5.2": ("3.7.0", _3_5),
    "3.7.1": ("4.4", LATEST_RULES),
}
"""By the first release of each line its last one, and its rules."""


def read_profile(name: str) -> tuple[str, ReleaseRules] | None:
    """An assignor of Kafka's clients as of a release; null where the name is none, or none of a release that is known.

    Examples:
        >>> read_profile("sticky@3.3")[1].line
        '3.2'
        >>> read_profile("sticky")[1].line
        '3.9'
        >>> read_profile("sticky@0.9") is None
        True
    """
    assignor, at, release = name.partition("@")
    if assignor not in CLIENT_SIDE:
        return None
    if not at:
        return assignor, LATEST_RULES
    numbers = re.fullmatch(r"([1-9]\d*)\.(0|[1-9]\d*)(?:\.(0|[1-9]\d*))?", release, re.ASCII)
    if numbers is None or int(numbers[2]) not in _MINORS.get(int(numbers[1]), ()):
        return None
    version = (int(numbers[1]), int(numbers[2]), _NEWEST if numbers[3] is None else int(numbers[3]))
    return assignor, next(rules for first, (_, rules) in reversed(LINES.items()) if _version(first) <= version)


def follows(assignor: str, library: str) -> bool:
    """Whether it is known here how this library's assignor decides; else a plan follows that of Java's clients."""
    return library == "Java" or (assignor, library) in AS_KAFKA or read_library(f"{assignor}@{library}") is not None


def led_by(assignor: str | None, library: str | None, releases: str | None) -> str | None:
    """What a group is assigned by: by a Java client as of the newest of these releases, by another library as it does.

    Args:
        assignor: that the group runs with.
        library: of its leader; null: not known. Others than Java's clients have no releases here, and what is not
            known of them is as with today's Java clients.
        releases: of the leader: one (`2.8`), from one to another (`2.8-3.3`), `<=2.7`, `<2.4`, or `3.4+`. What is not
            known as a release is as of today.

    Examples:
        >>> led_by("sticky", "Java", "2.8-3.3"), led_by("sticky", "Java", "3.4+")
        ('sticky@3.3', 'sticky')
        >>> led_by("sticky", "franz-go", None), led_by("range", "Sarama", None)
        ('sticky@franz-go', 'range@3.4')
    """
    if assignor is None or library is None:
        return assignor
    own = (assignor, library)
    if read_library(f"{assignor}@{library}") is not None:
        return assignor if AS_KAFKA.get(own) == assignor else f"{assignor}@{library}"
    if own in AS_KAFKA:
        return AS_KAFKA[own]
    if assignor not in ("range", "sticky", "cooperative-sticky") or library != "Java" or releases is None:
        return assignor
    newest = releases.rpartition("-")[2].lstrip("<=")
    found = read_profile(f"{assignor}@{newest}")
    if found is None:
        return assignor
    rules = found[1]
    same = rules.racks == LATEST_RULES.racks if assignor == "range" else rules == LATEST_RULES
    return assignor if same else f"{assignor}@{newest}"


def _version(release: str) -> Version:
    major, minor, patch = release.split(".")
    return int(major), int(minor), int(patch)


def known_lines() -> str:
    """Which releases answer alike, in words.

    Examples:
        >>> known_lines()[:35]
        '2.4 (2.4.0 to 2.5.0), 2.5.1 (2.5.1 '
    """
    lines = []
    for first, (last, rules) in LINES.items():
        span = first if first == last else f"{first} to {last}"
        lines.append(rules.line if rules.line == span else f"{rules.line} ({span})")
    return ", ".join(lines)


def is_profile(name: str) -> bool:
    """Whether the name is that of an assignor as of a release, or as another library has it."""
    return "@" in name and (read_profile(name) is not None or read_library(name) is not None)


def tells_order(name: str) -> bool:
    """Whether it matters in which order members tell what they own."""
    found = read_profile(name)
    return found is not None and found[0] == "sticky" and found[1].keeps_as_told


def client_side(name: str) -> str:
    """The assignor that a profile is of; any other name is itself."""
    found = read_profile(name) or read_library(name)
    return name if found is None else found[0]
