"""Finds the client library, and release, whose rules assign a classic group: those of its leader.

The leader runs the assignor and writes the assignments of all members; each member writes its own subscription. Both
are
versioned, and libraries differ in how they encode missing values: Java writes null, aiokafka an empty string,
librdkafka an empty string for itself and a copy of the subscription's value for other members. So the stored bytes are
better evidence than `client.id`, which users can set.

Principles, in order of priority
    1. The leader is a member: what it wrote for all members must match what one member wrote for itself.
    2. If several libraries match, a default `client.id` (`groups.kernel.client_libraries`) decides.
    3. The result is sure only if bytes and default client ids agree. One of the two makes it likely; a part of a name
       is a guess.

Example: all assignments have version 0 and empty user data, as librdkafka and kafka-python write them. The
subscriptions have version 3, which kafka-python never writes; the client id is `billing`. So the leader is librdkafka
2.2 or later: likely, because the name is no evidence.

A plan matches the group's behavior only if it follows the rules of the leader (`find_rule_source`):

    sure, given, likely, guess   planned by the rules of the leader, with that confidence
    other                        the leader follows other rules: another release was requested, its library has an
                                 unsupported assignor, or it orders static members differently
    unknown                      planned by the rules of Java clients, because the leader is unknown
    broker                       the broker assigns, by its own rules; there is no leader
    own                          an assignor that no client includes

Formats, as observed on a broker, release by release (`tests/unit/fingerprints.json`):

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
    FRANZ_GO_RELEASE,
    LIBRARIES_WITHOUT_STATIC_ORDER,
    LIBRDKAFKA_RELEASE,
    NEWEST_OF_LIBRARY,
    assignor_of_leader,
    is_emulated,
    release_bounds,
    uses_leader_racks,
)
from spark_assign.groups.assignors.server import KAFKA_SERVER_ASSIGNORS, UNIFORM_4_0_0
from spark_assign.groups.kernel.client_libraries import COOPERATIVE, LIBRARIES, OR, Client, detect_library

SURE, LIKELY, GUESS, UNKNOWN = ("sure", "likely", "guess", "unknown")


@dataclass(frozen=True)
class SubscriptionFormat:
    """Format of a member's subscription.

    Attributes:
        version: version of the bytes.
        user_data: the user data; None and empty are distinct.
        cut_short: version 1 without the list of owned partitions that the version requires.
    """

    version: int
    user_data: bytes | None
    cut_short: bool = False


@dataclass(frozen=True)
class AssignmentFormat:
    """Format of a member's assignment, written by the leader."""

    version: int
    user_data: bytes | None


@dataclass(frozen=True)
class MemberBytes:
    """What the coordinator stores of a member; `assigned` is None if it has no assignment."""

    member_id: str
    client_id: str | None
    subscribed: SubscriptionFormat
    assigned: AssignmentFormat | None


@dataclass(frozen=True)
class Leader:
    """Library and releases of a group's leader, both None if unknown, and the confidence.

    If several libraries write the same bytes, `library` names all of them (`client_libraries.candidates`), and the
    confidence is `unknown`.
    """

    library: str | None
    releases: str | None
    confidence: str


@dataclass(frozen=True)
class _LibraryFingerprint:
    """Byte formats of one library, a row of the table above.

    Attributes:
        library, releases: the library and its releases; None: all releases.
        subscribed, assigned: version of subscriptions and of assignments.
        empty: whether the library writes empty user data where other libraries write null.
        cut_short: see `SubscriptionFormat`.
        cooperative: minimum size of cooperative-sticky's user data, in bytes; None: no such assignor, or no user data.
        echoes: the assignor with which the leader copies user data from subscriptions to assignments.
        again: whether an assignment has null user data exactly if the subscription has.
        only: the only assignor with this format.
    """

    library: str
    releases: str | None
    subscribed: int
    assigned: int
    empty: bool = False
    cut_short: bool = False
    cooperative: int | None = None
    echoes: str | None = None
    again: bool = False
    only: str | None = None

    def has(self, assignor: str) -> bool:
        """Checks whether the library has this assignor. An assignor that no library has can be custom in all of
        them."""
        if self.only is not None:
            return assignor == self.only
        return assignor in LIBRARIES[self.library].assignors or assignor not in _BROUGHT

    def subscribes(self, subscription: SubscriptionFormat, assignor: str) -> bool:
        """Checks whether the library can have written this subscription."""
        if (subscription.version, subscription.cut_short) != (self.subscribed, self.cut_short):
            return False
        user_data = subscription.user_data
        if assignor == COOPERATIVE and user_data:
            size = _GENERATION if len(user_data) == _GENERATION and any(user_data) else _OWNED
            return self.cooperative == size
        if assignor == COOPERATIVE and self.cooperative == _GENERATION:
            return False
        return bool(user_data) or (user_data is not None) == self.empty

    def assigns(self, member: MemberBytes, assignor: str) -> bool:
        """Checks whether the library can have written this member's assignment."""
        if member.assigned is None:
            return True
        if member.assigned.version != self.assigned:
            return False
        user_data = member.assigned.user_data
        if user_data and assignor in _BROUGHT:
            return self.echoes == assignor
        empty = member.subscribed.user_data is not None if self.again else self.empty
        return bool(user_data) or (user_data is not None) == empty


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
    """Finds the library of the leader of a classic group.

    Args:
        group_id: id of the group.
        assignor: the assignor in use.
        members: all members, as the coordinator describes them.
    """
    if all(each.assigned is None for each in members):
        return Leader(None, None, UNKNOWN)
    writers = [
        each for each in _WRITERS if each.has(assignor) and all(each.assigns(seen, assignor) for seen in members)
    ]
    candidates: list[tuple[list[_LibraryFingerprint], Client]] = []
    for member in members:
        matches = [each for each in writers if each.subscribes(member.subscribed, assignor)]
        if matches:
            candidates.append((matches, detect_library(group_id, member.client_id, member.member_id, assignor)))
    by_bytes = {each.library for matches, _ in candidates for each in matches}
    if len(by_bytes) != 1:  # the names have to tell
        candidates = [
            ([each for each in matches if each.library == name.library] or matches, name)
            for matches, name in candidates
        ]
    libraries = {each.library for matches, _ in candidates for each in matches}
    if len(libraries) != 1:
        return Leader(OR.join(sorted(libraries)) or None, None, UNKNOWN)
    (library,) = libraries
    is_default_id = all(name.library == library and name.is_certain for _, name in candidates)
    confidence = (SURE if is_default_id else LIKELY) if len(by_bytes) == 1 else LIKELY if is_default_id else GUESS
    return Leader(library, _joined(each.releases for matches, _ in candidates for each in matches), confidence)


def _joined(releases: Iterable[str | None]) -> str | None:
    """Merges ranges of releases, from the oldest to the newest."""
    distinct = sorted({each for each in releases if each}, key=[each for _, each in _ORDER].index)
    if len(distinct) < 2:
        return distinct[0] if distinct else None
    oldest, newest = distinct[0], distinct[-1]
    start = "" if oldest.startswith("<") else oldest.partition("-")[0].rstrip("+")
    if newest.endswith("+"):
        return f"{start}+" if start else None
    end = newest.partition("-")[2]
    return f"{start}-{end}" if start else f"<={end}"


GIVEN, OTHER, BROKER, OWN = "given", "other", "broker", "own"
RULE_SOURCES = (SURE, GIVEN, LIKELY, GUESS, OTHER, UNKNOWN, BROKER, OWN)
"""Kinds of rule sources, in the order of reports."""

_LEADERS = {SURE: "sure", GIVEN: "as you say", LIKELY: "likely", GUESS: "a guess"}
RULE_SOURCE_TEXTS = {
    **{kind: f"their leader, {words}" for kind, words in _LEADERS.items()},
    OTHER: "others than their leader",
    UNKNOWN: "Java clients, leader not known",
    BROKER: "the broker",
    OWN: "no client",
}
"""Text of each kind, after `by the rules of`."""

_STATIC, _RACKS, _UNKNOWN_RACKS = ", with static members", ", with racks", ", with racks, but not of leaders"
TO_NAME = frozenset({GUESS, UNKNOWN})
"""Kinds for which naming the leader improves the plan."""


@dataclass(frozen=True)
class RuleSource:
    """Source of the rules that plan a group: one of `RULE_SOURCES`, a short text, and whether the leader is known to
    assign otherwise in some cases."""

    kind: str
    text: str
    differs: bool = False


def format_leader(
    library: str | None,
    releases: str | None,
    certainty: str | None,
    *,
    static: bool = False,
    racks: bool = False,
    leader_racks: bool = False,
) -> str | None:
    """Returns the text of `metrics.leader_client`; None if the library is unknown.

    Args:
        library, releases, certainty: library, releases, and confidence of the leader, as far as known.
        static: whether the group has static members. The text says so if the library orders static members differently
            from Java clients, so that its assignment can differ from the plan.
        racks: whether members have racks. The text says so if the release uses the racks of the brokers that lead
            (`uses_leader_racks`).
        leader_racks: whether the plan knows these racks.

    Examples:
        >>> format_leader("Java", "2.8-3.3", "likely")
        'Java 2.8-3.3 (likely)'
    """
    if library is None:
        return None
    text = " ".join(each for each in (library, releases, f"({certainty})" if certainty else None) if each)
    if racks and uses_leader_racks(library, releases):
        return text + (_RACKS if leader_racks else _UNKNOWN_RACKS)
    return text + _STATIC if static and library in LIBRARIES_WITHOUT_STATIC_ORDER else text


def read_leader(text: str | None) -> tuple[str | None, str | None, str | None]:
    """Parses a text of `format_leader` into library, releases, and confidence.

    Examples:
        >>> read_leader("Java 2.8-3.3 (likely)"), read_leader("kafkajs"), read_leader(None)
        (('Java', '2.8-3.3', 'likely'), ('kafkajs', None, None), (None, None, None))
    """
    if text is None:
        return None, None, None
    name, _, certainty = text.removesuffix(_STATIC).removesuffix(_UNKNOWN_RACKS).removesuffix(_RACKS).partition(" (")
    library, _, releases = name.partition(" ")
    return library, releases or None, certainty.rstrip(")") or None


def find_rule_source(assignor: str, leader: str | None) -> RuleSource:
    """Returns the source of the rules by which a group is planned.

    Args:
        assignor: assignor of the plan, with its release (`metrics.assignor`).
        leader: leader of the group (`metrics.leader_client`).

    Examples:
        >>> find_rule_source("sticky@3.3", "Java 2.8-3.3 (likely)").text
        'Java 2.8-3.3 (likely), as 3.3'
        >>> find_rule_source("sticky", "kafka-python (likely)").text
        "today's Java, but led by kafka-python (likely)"
        >>> find_rule_source("sticky", None)
        RuleSource(kind='unknown', text="today's Java, leader not known")
        >>> find_rule_source("range@librdkafka", "librdkafka 2.2+ (sure)")
        RuleSource(kind='likely', text='librdkafka 2.2+ (sure), as 2.6.1')
    """
    if assignor in (*KAFKA_SERVER_ASSIGNORS, UNIFORM_4_0_0):
        return RuleSource(BROKER, "the broker")
    name, separator, release = assignor.partition("@")
    if name not in CLIENT_ASSIGNORS:
        return RuleSource(OWN, "no client")
    library, releases, certainty = read_leader(leader)
    rules = "today's Java" if not separator else release if release in LIBRARIES else f"Java {release}"
    if release.startswith("franz-go"):
        rules = f"franz-go {release.removeprefix('franz-go').lstrip('-') or FRANZ_GO_RELEASE}"
    if library is None:
        return RuleSource(UNKNOWN, f"{rules}, leader not known")
    if (
        not is_emulated(name, library)
        or str(leader).endswith(_STATIC)
        or (str(leader).endswith((_RACKS, _UNKNOWN_RACKS)) and not _follows_racks(assignor, str(leader)))
        or assignor_of_leader(name, library, releases) != assignor
    ):
        return RuleSource(OTHER, f"{rules}, but led by {leader}", differs=True)
    is_exact = release in ("", releases) or (release == library and (releases or library != "franz-go"))
    as_of = "" if is_exact else f", as {rules.removeprefix(f'{library} ')}"
    is_older = library == release == "librdkafka" and release_bounds(releases)[0] < LIBRDKAFKA_RELEASE
    newest = NEWEST_OF_LIBRARY.get(library, (99, 0))
    is_newer = release_bounds(releases)[0][:2] > newest
    if is_older:
        as_of = f", as 2.6.1{_librdkafka_defects(name, releases)}"
    elif is_newer:
        as_of = f", as {newest[0]}.{newest[1]}"
    if is_older or is_newer:
        certainty = LIKELY if certainty in (SURE, GIVEN) else certainty
    return RuleSource(certainty if certainty in _LEADERS else GUESS, f"{leader}{as_of}", differs=is_older or is_newer)


def _librdkafka_defects(assignor: str, releases: str | None) -> str:
    """Returns what librdkafka before 2.6.1 does otherwise, if the leader's release might be one of these."""
    defects = []
    if assignor == COOPERATIVE:
        defects.append(
            "before, different subscriptions can count as balanced, or the leader never finishes, "
            "confluentinc/librdkafka#4783"
        )
    if release_bounds(releases)[0] < (2, 2, 0):
        defects.append("before 2.2, racks are ignored")
    return f" ({'; '.join(defects)})" if defects else ""


def _follows_racks(assignor: str, leader: str) -> bool:
    """Checks whether an assignor does what a leader that uses racks of leaders does."""
    return assignor == "roundrobin" or (assignor.endswith("@franz-go-1.21") and leader.endswith(_RACKS))


def count_rules(rows: Iterable[tuple[str, str | None, int]]) -> Counter[str]:
    """Counts groups by rule source; each row has assignor, leader, and number of groups."""
    counts: Counter[str] = Counter()
    for assignor, leader, groups in rows:
        counts[find_rule_source(assignor, leader).kind] += groups
    return counts


def format_rule_sources(counts: Mapping[str, int]) -> str:
    """Formats counts by rule source in one line; empty if there is no group.

    Examples:
        >>> format_rule_sources({"sure": 3, "unknown": 1}).partition("; ")[2]
        'Java clients, leader not known: 1 group (--leader-client names it)'
    """
    texts = []
    for kind in RULE_SOURCES:
        if num_groups := counts.get(kind, 0):
            remedy = " (--leader-client names it)" if kind in TO_NAME else ""
            texts.append(f"{RULE_SOURCE_TEXTS[kind]}: {num_groups:,} group{'' if num_groups == 1 else 's'}{remedy}")
    return f"By the rules of {'; '.join(texts)}" if texts else ""
