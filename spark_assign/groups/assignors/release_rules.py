"""The assignors of client libraries other than Kafka's own: `cooperative-sticky@librdkafka`, by library and assignor.

Which kernel plans by each stands in `groups.kernel.assign`.


What the clients' assignors of older releases do otherwise than those of today.

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

LIBRARY_ASSIGNORS: dict[str, tuple[str, ...]] = {
    "franz-go": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "librdkafka": ("range", "roundrobin", "cooperative-sticky"),
}
"""By the name of a library, its assignors."""

KAFKA_EQUIVALENTS = {
    ("range", "franz-go"): "range@3.4",
    ("roundrobin", "franz-go"): "roundrobin",
    ("range", "aiokafka"): "range@3.4",
    ("range", "kafka-python"): "range@3.4",
    ("range", "Sarama"): "range@3.4",
    ("roundrobin", "aiokafka"): "roundrobin",
}
"""By assignor and library the profile of Kafka's own clients that answers alike. Their range knows no racks.
docs/libraries.md has what was measured."""

LIBRARIES_WITHOUT_STATIC_ORDER = frozenset({"aiokafka", "kafka-python", "Sarama"})
"""Libraries that do not line up static members first, by their instance ids, as Java does: they answer alike as long as
no member is static."""


def parse_library_assignor(name: str) -> tuple[str, str] | None:
    """Assignor and library of a name with a library behind the `@`; null for every other name.

    Examples:
        >>> parse_library_assignor("range@librdkafka"), parse_library_assignor("range@2.8")
        (('range', 'librdkafka'), None)
    """
    assignor, _, library = name.partition("@")
    return (assignor, library) if assignor in LIBRARY_ASSIGNORS.get(library, ()) else None


CLIENT_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
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
        release_line: its name.
        uses_racks: members look for replicas in their own rack (KIP-881).
        keeps_in_owned_order: of what is too much a member keeps the first partitions in the order in which it tells
            what it owns, by default by (topic, partition); else by (partition, topic) (before KAFKA-16277).
        racks_exceed_quota: while partitions are handed out near to members, nobody counts how many have one more than
            the quota, so that later some lack the quota (before KAFKA-15170).
        withholds_over_quota: cooperative-sticky withholds all that was over somebody's quota, even if it comes back to
            that one, and nothing that was given up for its rack (before KAFKA-15170).
        rejected_owner_counts: who claims a partition in vain counts as its owner from there on (before KAFKA-15106).
        balances_to_one: a group counts as balanced only if nobody could take a partition from one that has one more; by
            default, two more.
        only_newest_generation: only claims of the newest generation count (before KAFKA-14639).
        generation_in_user_data: cooperative-sticky tells its generation there only (before KAFKA-13715).
        uses_constrained_2_8: equal subscriptions are planned by the first algorithm for them (`constrained_2_8`),
            others from the claims of each partition by generation (before KAFKA-12464 and KAFKA-12675).
        conflicts_keep_both: with equal subscriptions a partition that two members claim stays with both (before
            KAFKA-12984).
        ignores_generations: cooperative-sticky knows no generation at all (before KAFKA-12984).
        reports_in_hash_order: cooperative-sticky tells the topics of what is owned as a `HashMap` has them (before
            2.8.1).
        only_general: equal subscriptions have no algorithm of their own (before KAFKA-9987).
    """

    release_line: str = "3.9"
    uses_racks: bool = True
    keeps_in_owned_order: bool = False
    racks_exceed_quota: bool = False
    withholds_over_quota: bool = False
    rejected_owner_counts: bool = False
    balances_to_one: bool = False
    only_newest_generation: bool = False
    generation_in_user_data: bool = False
    uses_constrained_2_8: bool = False
    conflicts_keep_both: bool = False
    ignores_generations: bool = False
    reports_in_hash_order: bool = False
    only_general: bool = False


LATEST_RULES = ReleaseRules()
_3_5 = replace(
    LATEST_RULES, release_line="3.5", keeps_in_owned_order=True, racks_exceed_quota=True, withholds_over_quota=True
)
_3_5_1 = replace(_3_5, release_line="3.5.1", rejected_owner_counts=True, balances_to_one=True)
_3_4 = replace(_3_5_1, release_line="3.4", uses_racks=False)
_3_4_0 = replace(_3_4, release_line="3.4.0", only_newest_generation=True)
_3_2 = replace(_3_4_0, release_line="3.2", generation_in_user_data=True)
_2_8 = replace(_3_2, release_line="2.8", uses_constrained_2_8=True)
_2_5_1 = replace(
    _2_8, release_line="2.5.1", conflicts_keep_both=True, ignores_generations=True, reports_in_hash_order=True
)
_2_4 = replace(_2_5_1, release_line="2.4", only_general=True)

RELEASE_LINES: dict[str, tuple[str, ReleaseRules]] = {
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


def parse_release_assignor(name: str) -> tuple[str, ReleaseRules] | None:
    """An assignor of Kafka's clients as of a release; null where the name is none, or none of a release that is known.

    Examples:
        >>> parse_release_assignor("sticky@3.3")[1].release_line
        '3.2'
        >>> parse_release_assignor("sticky")[1].release_line
        '3.9'
        >>> parse_release_assignor("sticky@0.9") is None
        True
    """
    assignor, at, release = name.partition("@")
    if assignor not in CLIENT_ASSIGNORS:
        return None
    if not at:
        return assignor, LATEST_RULES
    numbers = re.fullmatch(r"([1-9]\d*)\.(0|[1-9]\d*)(?:\.(0|[1-9]\d*))?", release, re.ASCII)
    if numbers is None or int(numbers[2]) not in _MINORS.get(int(numbers[1]), ()):
        return None
    version = (int(numbers[1]), int(numbers[2]), _NEWEST if numbers[3] is None else int(numbers[3]))
    return assignor, next(rules for first, (_, rules) in reversed(RELEASE_LINES.items()) if _version(first) <= version)


def is_emulated(assignor: str, library: str) -> bool:
    """Whether it is known here how this library's assignor decides; else a plan follows that of Java's clients."""
    return (
        library == "Java"
        or (assignor, library) in KAFKA_EQUIVALENTS
        or parse_library_assignor(f"{assignor}@{library}") is not None
    )


def assignor_of_leader(assignor: str | None, library: str | None, releases: str | None) -> str | None:
    """What a group is assigned by: by a Java client as of the newest of these releases, by another library as it does.

    Args:
        assignor: that the group runs with.
        library: of its leader; null: not known. Others than Java's clients have no releases here, and what is not
            known of them is as with today's Java clients.
        releases: of the leader: one (`2.8`), from one to another (`2.8-3.3`), `<=2.7`, `<2.4`, or `3.4+`. What is not
            known as a release is as of today.

    Examples:
        >>> assignor_of_leader("sticky", "Java", "2.8-3.3"), assignor_of_leader("sticky", "Java", "3.4+")
        ('sticky@3.3', 'sticky')
        >>> assignor_of_leader("sticky", "franz-go", None), assignor_of_leader("range", "Sarama", None)
        ('sticky@franz-go', 'range@3.4')
    """
    if assignor is None or library is None:
        return assignor
    own = (assignor, library)
    if parse_library_assignor(f"{assignor}@{library}") is not None:
        return assignor if KAFKA_EQUIVALENTS.get(own) == assignor else f"{assignor}@{library}"
    if own in KAFKA_EQUIVALENTS:
        return KAFKA_EQUIVALENTS[own]
    if assignor not in ("range", "sticky", "cooperative-sticky") or library != "Java" or releases is None:
        return assignor
    newest = releases.rpartition("-")[2].lstrip("<=")
    found = parse_release_assignor(f"{assignor}@{newest}")
    if found is None:
        return assignor
    rules = found[1]
    same = rules.uses_racks == LATEST_RULES.uses_racks if assignor == "range" else rules == LATEST_RULES
    return assignor if same else f"{assignor}@{newest}"


def _version(release: str) -> Version:
    major, minor, patch = release.split(".")
    return int(major), int(minor), int(patch)


def format_release_lines() -> str:
    """Which releases answer alike, in words.

    Examples:
        >>> format_release_lines()[:35]
        '2.4 (2.4.0 to 2.5.0), 2.5.1 (2.5.1 '
    """
    lines = []
    for first, (last, rules) in RELEASE_LINES.items():
        span = first if first == last else f"{first} to {last}"
        lines.append(rules.release_line if rules.release_line == span else f"{rules.release_line} ({span})")
    return ", ".join(lines)


def is_release_assignor(name: str) -> bool:
    """Whether the name is that of an assignor as of a release, or as another library has it."""
    return "@" in name and (parse_release_assignor(name) is not None or parse_library_assignor(name) is not None)


def uses_owned_order(name: str) -> bool:
    """Whether it matters in which order members tell what they own."""
    found = parse_release_assignor(name)
    return found is not None and found[0] == "sticky" and found[1].keeps_in_owned_order


def client_assignor(name: str) -> str:
    """The assignor that a profile is of; any other name is itself."""
    found = parse_release_assignor(name) or parse_library_assignor(name)
    return name if found is None else found[0]
