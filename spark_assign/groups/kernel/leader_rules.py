"""By whose rules a classic group is assigned: the client library of its leader, and its release, as its bytes tell.

The leader of a group runs the assignor, and writes what everybody gets; each member writes what it subscribes to. Both
are versioned, and libraries differ in what they write where there is nothing to say: Java null, aiokafka no bytes,
librdkafka no bytes for itself, and for others again what they have written. So the bytes that the coordinator hands out
tell more than `client.id`, which anybody may set.

Principles, in this priority
    1. The leader is one of the members: what it wrote for all has to fit what one of them wrote for itself.
    2. Where several libraries fit, a default `client.id` (`groups.kernel.client_libraries`) decides.
    3. Sure is only what bytes and default client ids say alike. One of the two makes it likely; a part of a name is a
       guess.

Example: every assignment has version 0 and empty user data, which is librdkafka's way, and kafka-python's. The members'
subscriptions have version 3, which kafka-python never writes; their client id is `billing`. So the leader runs on
librdkafka 2.2 or newer: likely, as the name says nothing.

What each writes was seen on a broker, release by release (`tests/unit/fingerprints.json`):

    library        release    subscription            assignment       cooperative-sticky's user data
    Java           before 2.4 version 0, null         version 0, null  –
                   2.4-2.7    version 1, null         version 1, null  null
                   2.8-3.3    version 1, null         version 1, null  the generation
                   3.4+       version 3, null         version 3, null  the generation
    librdkafka     before 2.2 version 1, empty        version 0, again  what is owned, and the generation
                   2.2+       version 3, empty        version 0, again  what is owned, and the generation
    franz-go       1.22       version 3, null         version 0, null  what is owned, and the generation
    Sarama         1.61       version 1, null         version 0, null  the generation
    kafka-go       0.4        version 1, cut short    version 1, null  –
    kafka-python, aiokafka, kafkajs
                              version 0, empty        version 0, empty –
    kafka-python's cooperative-sticky
                   3.0        version 1, empty        version 1, empty empty
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_assign.groups.assignors.release_rules import (
    CLIENT_ASSIGNORS,
    LIBRARIES_WITHOUT_STATIC_ORDER,
    assignor_of_leader,
    is_emulated,
)
from spark_assign.groups.assignors.server import RACK_SERVER_ASSIGNORS, SERVER_ASSIGNORS
from spark_assign.groups.kernel.client_libraries import COOPERATIVE, LIBRARIES, Client, detect_library

SURE, LIKELY, GUESS, UNKNOWN = ("sure", "likely", "guess", "unknown")


@dataclass(frozen=True)
class SubscriptionFormat:
    """How a member's subscription is written.

    Attributes:
        version: of the bytes.
        user_data: null and empty are told apart.
        cut_short: version 1 without the list of owned partitions that belongs to it.
    """

    version: int
    user_data: bytes | None
    cut_short: bool = False


@dataclass(frozen=True)
class AssignmentFormat:
    """How a member's assignment is written, by the leader."""

    version: int
    user_data: bytes | None


@dataclass(frozen=True)
class MemberBytes:
    """What is seen of a member; `assigned` is null where it was given nothing."""

    member_id: str
    client_id: str | None
    subscribed: SubscriptionFormat
    assigned: AssignmentFormat | None


@dataclass(frozen=True)
class Leader:
    """The library of a group's leader and its releases, both null where they are not known; and how surely."""

    library: str | None
    releases: str | None
    confidence: str


@dataclass(frozen=True)
class _LibraryFingerprint:
    """A library as it writes, a row of the table above. `empty`: it writes no bytes where others write null."""

    library: str
    releases: str | None
    subscribed: int
    assigned: int
    empty: bool = False
    cut_short: bool = False
    cooperative: int | None = None
    """Bytes of cooperative-sticky's user data, at least; null: it has no such assignor, or says nothing."""
    echoes: str | None = None
    """The assignor with which it tells everybody in an assignment what it was told in the subscription."""
    again: bool = False
    """Its assignments are null for whom subscribes with null, whatever others are."""
    only: str | None = None
    """The one assignor with which it writes so."""

    def has(self, assignor: str) -> bool:
        """Whether it brings this assignor; one that nobody brings may be anybody's own."""
        if self.only is not None:
            return assignor == self.only
        return assignor in LIBRARIES[self.library].assignors or assignor not in _BROUGHT

    def subscribes(self, seen: SubscriptionFormat, assignor: str) -> bool:
        """Whether it may have written this subscription."""
        if (seen.version, seen.cut_short) != (self.subscribed, self.cut_short):
            return False
        said = seen.user_data
        if assignor == COOPERATIVE and said:
            kind = _GENERATION if len(said) == _GENERATION and any(said) else _OWNED
            return self.cooperative == kind
        if assignor == COOPERATIVE and self.cooperative == _GENERATION:
            return False
        return bool(said) or (said is not None) == self.empty

    def assigns(self, seen: MemberBytes, assignor: str) -> bool:
        """Whether it may have written this member's assignment."""
        if seen.assigned is None:
            return True
        if seen.assigned.version != self.assigned:
            return False
        said = seen.assigned.user_data
        if said and assignor in _BROUGHT:
            return self.echoes == assignor
        empty = seen.subscribed.user_data is not None if self.again else self.empty
        return bool(said) or (said is not None) == empty


_GENERATION, _OWNED = 4, 8
_BROUGHT = frozenset().union(*(each.assignors for each in LIBRARIES.values()))

_WRITERS = (
    _LibraryFingerprint("Java", "<2.4", 0, 0),
    _LibraryFingerprint("Java", "2.4-2.7", 1, 1),
    _LibraryFingerprint("Java", "2.8-3.3", 1, 1, cooperative=_GENERATION),
    _LibraryFingerprint("Java", "3.4+", 3, 3, cooperative=_GENERATION),
    _LibraryFingerprint("librdkafka", "<2.2", 1, 0, empty=True, cooperative=_OWNED, echoes=COOPERATIVE, again=True),
    _LibraryFingerprint("librdkafka", "2.2+", 3, 0, empty=True, cooperative=_OWNED, echoes=COOPERATIVE, again=True),
    _LibraryFingerprint("franz-go", None, 3, 0, cooperative=_OWNED),
    _LibraryFingerprint("Sarama", None, 1, 0, cooperative=_GENERATION, echoes="sticky"),
    _LibraryFingerprint("kafka-go", None, 1, 1, cut_short=True),
    _LibraryFingerprint("kafka-python", None, 0, 0, empty=True),
    _LibraryFingerprint("kafka-python", None, 1, 1, empty=True, only=COOPERATIVE),
    _LibraryFingerprint("aiokafka", None, 0, 0, empty=True),
    _LibraryFingerprint("kafkajs", None, 0, 0, empty=True),
)
_ORDER = [(each.library, each.releases) for each in _WRITERS]


def find_leader(group_id: str, assignor: str, members: Sequence[MemberBytes]) -> Leader:
    """The library of the leader of a classic group.

    Args:
        group_id: the group.
        assignor: what it runs with.
        members: all of them, as the coordinator shows them.
    """
    if all(each.assigned is None for each in members):
        return Leader(None, None, UNKNOWN)
    leaders = [
        each for each in _WRITERS if each.has(assignor) and all(each.assigns(seen, assignor) for seen in members)
    ]
    candidates: list[tuple[list[_LibraryFingerprint], Client]] = []
    for member in members:
        fits = [each for each in leaders if each.subscribes(member.subscribed, assignor)]
        if fits:
            candidates.append((fits, detect_library(group_id, member.client_id, member.member_id, assignor)))
    by_bytes = {each.library for fits, _ in candidates for each in fits}
    if len(by_bytes) != 1:  # the names have to tell
        candidates = [
            ([each for each in fits if each.library == name.library] or fits, name) for fits, name in candidates
        ]
    libraries = {each.library for fits, _ in candidates for each in fits}
    if len(libraries) != 1:
        return Leader(None, None, UNKNOWN)
    (library,) = libraries
    named = all(name.library == library and name.is_certain for _, name in candidates)
    certainty = (SURE if named else LIKELY) if len(by_bytes) == 1 else LIKELY if named else GUESS
    return Leader(library, _joined(each.releases for fits, _ in candidates for each in fits), certainty)


def _joined(releases: Iterable[str | None]) -> str | None:
    """Several stretches of releases as one, from the oldest to the newest."""
    told = sorted({each for each in releases if each}, key=[each for _, each in _ORDER].index)
    if len(told) < 2:
        return told[0] if told else None
    oldest, newest = told[0], told[-1]
    begin = "" if oldest.startswith("<") else oldest.partition("-")[0].rstrip("+")
    if newest.endswith("+"):
        return f"{begin}+" if begin else None
    end = newest.partition("-")[2]
    return f"{begin}-{end}" if begin else f"<={end}"


# DOC: By whose rules a group is planned, and how sure it is that its leader decides by them, in words.
#
# A row of metrics has the assignor with its release, and the leader as far as it is known. The plan is what the group
# will do only where the two fit:
#
#     sure, given, likely, guess   planned by the rules of its leader, who is known so surely
#     other                        its leader decides by other rules: another release was asked for, or its library has
#                                  an assignor that is not known here, or lines up static members otherwise
#     unknown                      planned by the rules of Java's clients, as nothing is known of its leader
#     broker                       the broker assigns, by rules of its own: there is no leader
#     own                          an assignor that comes with no client
#

GIVEN, OTHER, BROKER, OWN = "given", "other", "broker", "own"
RULE_SOURCES = (SURE, GIVEN, LIKELY, GUESS, OTHER, UNKNOWN, BROKER, OWN)
"""In the order in which they are told."""

_LEADERS = {SURE: "sure", GIVEN: "as you say", LIKELY: "likely", GUESS: "a guess"}
RULE_SOURCE_TEXTS = {
    **{kind: f"their leader, {words}" for kind, words in _LEADERS.items()},
    OTHER: "others than their leader",
    UNKNOWN: "Java clients, leader not known",
    BROKER: "the broker",
    OWN: "no client",
}
"""Each kind, behind `by the rules of`."""

_STATIC = ", with static members"
TO_NAME = frozenset({GUESS, UNKNOWN})
"""Where it helps to name the leader."""


@dataclass(frozen=True)
class RuleSource:
    """By whose rules: one of RULE_SOURCES, and the same of one group in a few words."""

    kind: str
    text: str


def format_leader(
    library: str | None, releases: str | None, certainty: str | None, *, static: bool = False
) -> str | None:
    """What `metrics.led_by` says; null where the library is not known.

    Args:
        library, releases, certainty: of the leader, as far as they are known.
        static: whether some members of the group are static. That is told where the library lines those up otherwise
            than Java's clients do, so that the plan may not be what it decides.

    Examples:
        >>> leader_in_words("Java", "2.8-3.3", "likely")
        'Java 2.8-3.3 (likely)'
    """
    if library is None:
        return None
    words = " ".join(each for each in (library, releases, f"({certainty})" if certainty else None) if each)
    return words + _STATIC if static and library in LIBRARIES_WITHOUT_STATIC_ORDER else words


def read_leader(words: str | None) -> tuple[str | None, str | None, str | None]:
    """Library, releases and certainty, from what `format_leader` wrote.

    Examples:
        >>> read_leader("Java 2.8-3.3 (likely)"), read_leader("kafkajs"), read_leader(None)
        (('Java', '2.8-3.3', 'likely'), ('kafkajs', None, None), (None, None, None))
    """
    if words is None:
        return None, None, None
    named, _, certainty = words.removesuffix(_STATIC).partition(" (")
    library, _, releases = named.partition(" ")
    return library, releases or None, certainty.rstrip(")") or None


def find_rule_source(assignor: str, leader: str | None) -> RuleSource:
    """By whose rules a group is planned.

    Args:
        assignor: that it is planned with, and its release (`metrics.assignor`).
        leader: of the group (`metrics.led_by`).

    Examples:
        >>> whose_rules("sticky@3.3", "Java 2.8-3.3 (likely)").words
        'Java 2.8-3.3 (likely), as 3.3'
        >>> whose_rules("sticky", "kafka-python (likely)").words
        "today's Java, but led by kafka-python (likely)"
        >>> whose_rules("sticky", None)
        Whose(kind='unknown', words="today's Java, leader not known")
    """
    if assignor in RACK_SERVER_ASSIGNORS:
        return RuleSource(OWN, "no client")
    if assignor in SERVER_ASSIGNORS:
        return RuleSource(BROKER, "the broker")
    name, at, release = assignor.partition("@")
    if name not in CLIENT_ASSIGNORS:
        return RuleSource(OWN, "no client")
    library, releases, certainty = read_leader(leader)
    rules = "today's Java" if not at else release if release in LIBRARIES else f"Java {release}"
    if library is None:
        return RuleSource(UNKNOWN, f"{rules}, leader not known")
    known = release == library or is_emulated(name, library)
    if not known or str(leader).endswith(_STATIC) or assignor_of_leader(name, library, releases) != assignor:
        return RuleSource(OTHER, f"{rules}, but led by {leader}")
    as_of = f", as {rules.removeprefix(f'{library} ')}" if at and release != releases and release != library else ""
    return RuleSource(certainty if certainty in _LEADERS else GUESS, f"{leader}{as_of}")


def count_rules(rows: Iterable[tuple[str, str | None, int]]) -> Counter[str]:
    """How many groups are planned by whose rules; rows of assignor, leader, and how many groups have both."""
    counted: Counter[str] = Counter()
    for assignor, leader, groups in rows:
        counted[find_rule_source(assignor, leader).kind] += groups
    return counted


def format_rule_sources(counted: Mapping[str, int]) -> str:
    """The same in a line; empty where there is no group.

    Examples:
        >>> rules_in_words({"sure": 3, "unknown": 1})
        'By the rules of their leader, sure: 3 groups; Java clients, leader not known: 1 group (--clients names it)'
    """
    said = []
    for kind in RULE_SOURCES:
        if many := counted.get(kind, 0):
            remedy = " (--clients names it)" if kind in TO_NAME else ""
            said.append(f"{RULE_SOURCE_TEXTS[kind]}: {many:,} group{'' if many == 1 else 's'}{remedy}")
    return f"By the rules of {'; '.join(said)}" if said else ""
