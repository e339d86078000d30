"""The rules of client releases and libraries, and which of them plan a group.

An assignor name with a release (`sticky@2.8`) stands for its behavior in that release. A release with two numbers is
its latest patch: 3.4 is 3.4.1. Releases with the same behavior form a line:

    2.4      2.4.0 to 2.5.0    all groups are balanced partition by partition
    2.5.1    2.5.1 to 2.8.0    first algorithm for equal subscriptions (KAFKA-9987)
    2.8      2.8.1, 2.8.2      a partition with two owners is revoked from both, and cooperative-sticky has generations
                               (KAFKA-12984, here as KAFKA-13081)
    3.2      3.0.0 to 3.3.2    both algorithms rewritten (KAFKA-12464, KAFKA-12675)
    3.4.0    3.4.0             the generation is part of the subscription (KAFKA-13715)
    3.4      3.4.1             partitions of an older generation are kept unless owned in a newer one (KAFKA-14639)
    3.5.1    3.5.0, 3.5.1      racks (KIP-881)
    3.5      3.5.2 to 3.7.0    a member that loses a conflict doesn't count as the owner (KAFKA-15106)
    3.9      3.7.1 to 4.4      members above their quota keep their first partitions, not their first topics
                               (KAFKA-16277); racks never exceed the quota (KAFKA-15170)

Range has two lines, without racks before 3.5.0 and with them; round robin has one. The lines were read from Kafka's
classes of every release, and are compared with recorded results of these classes.

A name with a library (`cooperative-sticky@librdkafka`) stands for the assignor of that library. For the kernels, see
`groups.kernel.plan_groups`.

A plan matches the group's behavior only if it follows the rules of the leader (`find_rule_source`):

    sure, given, likely, guess   planned by the rules of the leader, with that confidence
    other                        the leader follows other rules: another release was requested, its library has an
                                 unsupported assignor, or it orders static members differently
    unknown                      planned by the rules of Java clients, because the leader is unknown
    broker                       the broker assigns, by its own rules; there is no leader
    own                          an assignor that no client includes
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from spark_assign.assignors.server import KAFKA_SERVER_ASSIGNORS, UNIFORM_4_0_0
from spark_assign.assignors.sticky import COOPERATIVE_STICKY

LIBRARY_ASSIGNORS: dict[str, tuple[str, ...]] = {
    "franz-go": ("range", "roundrobin", "sticky", "cooperative-sticky"),
    "franz-go-1.21": ("range", "sticky", "cooperative-sticky"),
    "franz-go-1.20": ("sticky", "cooperative-sticky"),
    "librdkafka": ("range", "roundrobin", "cooperative-sticky"),
}
"""Library to its assignors. `franz-go-1.21` stands for 1.21.4 to 1.21.7, `franz-go-1.20` for all releases before."""

KAFKA_EQUIVALENTS = {
    ("range", "franz-go"): "range@3.4",
    ("roundrobin", "franz-go"): "roundrobin",
    ("range", "aiokafka"): "range@3.4",
    ("range", "kafka-python"): "range@3.4",
    ("range", "Sarama"): "range@3.4",
    ("roundrobin", "aiokafka"): "roundrobin",
}
"""(assignor, library) to the assignor of Kafka's clients with the same behavior. Range in these libraries ignores
racks. For the measurements, see docs/libraries.md."""

FRANZ_GO_RELEASE = "1.22"
"""Release of franz-go that `sticky@franz-go` and `cooperative-sticky@franz-go` follow."""

LIBRDKAFKA_RELEASE = (2, 6, 1)
"""First release of librdkafka with the rules of `range@librdkafka` and so on."""

NEWEST_OF_LIBRARY = {"librdkafka": (2, 16), "franz-go": (1, 22)}
"""The newest release of these libraries with the rules of their assignors."""

LIBRARIES_WITHOUT_STATIC_ORDER = frozenset({"aiokafka", "kafka-python", "Sarama"})
"""Libraries that don't sort static members first, by instance id, as Java does. The results are equal only if no member
is static."""


def parse_library_assignor(name: str) -> tuple[str, str] | None:
    """Returns (assignor, library) for a name with a library after the `@`; None for any other name.

    Examples:
        >>> parse_library_assignor("range@librdkafka"), parse_library_assignor("range@2.8")
        (('range', 'librdkafka'), None)
    """
    assignor, _, library = name.partition("@")
    return (assignor, library) if assignor in LIBRARY_ASSIGNORS.get(library, ()) else None


CLIENT_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""The assignors of Kafka's clients, whose behavior depends on the client release."""

_NEWEST = 1_000_000
"""A patch number above all existing ones."""
_MINORS = {2: range(4, 9), 3: range(10), 4: range(5)}
"""Known releases: major version to minor versions."""


@dataclass(frozen=True)
class ReleaseRules:
    """Behavior of an assignor in one line of releases. The defaults are the latest behavior.

    Attributes:
        release_line: name of the line.
        uses_racks: members prefer partitions with a replica in their rack (KIP-881).
        keeps_in_owned_order: a member above its quota keeps the first partitions in the order in which it reports them,
            by default by (topic, partition); otherwise by (partition, topic) (before KAFKA-16277).
        racks_exceed_quota: while partitions are matched by rack, members that exceed the quota aren't counted, so
            others can end up below the quota (before KAFKA-15170).
        withholds_over_quota: cooperative-sticky withholds all partitions above a member's quota, even if they go back
            to that member, and none that was given up for its rack (before KAFKA-15170).
        rejected_owner_counts: a member that loses a conflict counts as the owner in later comparisons (before
        KAFKA-15106).
        balances_to_one: a group is balanced only if no member could take a partition from one with one more; otherwise,
            two more.
        only_newest_generation: only ownership in the newest generation counts (before KAFKA-14639).
        generation_in_user_data: cooperative-sticky reports its generation only in the user data (before KAFKA-13715).
        uses_constrained_2_8: equal subscriptions use the first constrained algorithm (`sticky_2_8`), others the
            generations of each partition (before KAFKA-12464 and KAFKA-12675).
        conflicts_keep_both: with equal subscriptions, both owners keep a partition (before KAFKA-12984).
        ignores_generations: cooperative-sticky has no generations (before KAFKA-12984).
        reports_in_hash_order: cooperative-sticky reports owned topics in the order of a `HashMap` (before 2.8.1).
        only_general: there is no algorithm for equal subscriptions (before KAFKA-9987).
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

    @property
    def reports_rack(self) -> bool:
        """Whether members report `client.rack`: since 3.4.0, in version 3 of the subscription, as the generation."""
        return not self.generation_in_user_data


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
"""First release of each line to its last release and its rules."""

LINE_ISSUES = {
    "2.5.1": "KAFKA-9987",
    "2.8.1": "KAFKA-12984",
    "3.0.0": "KAFKA-12464, KAFKA-12675",
    "3.4.0": "KAFKA-13715",
    "3.4.1": "KAFKA-14639",
    "3.5.0": "KIP-881",
    "3.5.2": "KAFKA-15106",
    "3.7.1": "KAFKA-15170, KAFKA-16277",
}
"""First release of each line but the first to the issues that changed the sticky assignors."""


def parse_release_assignor(name: str) -> tuple[str, ReleaseRules] | None:
    """Returns the assignor and the rules of a name like `sticky@2.8`; None for other assignors and unknown releases.

    Examples:
        >>> parse_release_assignor("sticky@3.3")[1].release_line
        '3.2'
        >>> parse_release_assignor("sticky")[1].release_line
        '3.9'
        >>> parse_release_assignor("sticky@0.9") is None
        True
    """
    assignor, separator, release = name.partition("@")
    if assignor not in CLIENT_ASSIGNORS:
        return None
    if not separator:
        return assignor, LATEST_RULES
    numbers = re.fullmatch(r"([1-9]\d{0,8})\.(0|[1-9]\d{0,8})(?:\.(0|[1-9]\d{0,8}))?", release, re.ASCII)
    if numbers is None or int(numbers[2]) not in _MINORS.get(int(numbers[1]), ()):
        return None
    version = (int(numbers[1]), int(numbers[2]), _NEWEST if numbers[3] is None else int(numbers[3]))
    lines = reversed(RELEASE_LINES.items())
    return assignor, next(rules for first, (_, rules) in lines if tuple(map(int, first.split("."))) <= version)


def is_emulated(assignor: str, library: str) -> bool:
    """Checks whether this library's assignor is implemented.

    Examples:
        >>> is_emulated("range", "franz-go"), is_emulated("sticky", "Sarama")
        (True, False)
    """
    return (
        library == "Java"
        or (assignor, library) in KAFKA_EQUIVALENTS
        or parse_library_assignor(f"{assignor}@{library}") is not None
    )


def uses_leader_racks(library: str | None, releases: str | None) -> bool:
    """Checks whether all assignors of this release but `roundrobin` use the racks of members and partition leaders.

    franz-go 1.21 does so as soon as a member has a rack; 1.22 only if it is configured to.

    Examples:
        >>> [uses_leader_racks("franz-go", release) for release in ("1.20.5", "1.21.7", "1.22.2", None)]
        [False, True, False, False]
    """
    return library == "franz-go" and _parse_numbers(releases)[:2] == (1, 21)


def _parse_numbers(releases: str | None) -> tuple[int, ...]:
    """Returns the numbers of a release; a missing third one counts as the latest; () if unknown."""
    found = re.match(r"(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?", releases or "")
    return () if found is None else (int(found[1]), int(found[2]), _NEWEST if found[3] is None else int(found[3]))


NEWEST_RELEASE = (4, 4, _NEWEST)
"""The newest known release of Kafka."""


def release_bounds(releases: str | None) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Returns the oldest and newest possible release, given `groups.leader_version`; without a patch, any patch.

    Examples:
        >>> release_bounds("3.6.1"), release_bounds("2.8-3.3")[0], release_bounds("3.4+")[1]
        (((3, 6, 1), (3, 6, 1)), (2, 8, 0), (99, 0, 0))
        >>> release_bounds("<2.4"), release_bounds(None)
        (((0, 0, 0), (2, 4, 1000000)), ((0, 0, 0), (99, 0, 0)))
    """
    found = re.findall(r"(?<!\d)(\d{1,9})\.(\d{1,9})(?!\d)(?:\.(\d{1,9})(?!\d))?", releases or "")
    numbers = [(int(major), int(minor), patch) for major, minor, patch in found]
    if not numbers or releases is None:
        return (0, 0, 0), (99, 0, 0)
    oldest, newest = ((*each[:2], int(each[2] or patch)) for each, patch in ((numbers[0], 0), (numbers[-1], _NEWEST)))
    return (0, 0, 0) if releases.startswith("<") else oldest, (99, 0, 0) if releases.endswith("+") else newest


_BROKER_PATCHES = {"4.0": 3, "4.1": 3, "4.2": 3, "4.3": 2, "4.4": 1}


def broker_releases(first: str = "4.0") -> tuple[str, ...]:
    """Returns the known releases of brokers, with and without a patch; without one, it is the latest patch.

    Examples:
        >>> broker_releases("4.3")
        ('4.3', '4.3.0', '4.3.1', '4.4', '4.4.0')
    """
    names = ((minor, *(f"{minor}.{patch}" for patch in range(count))) for minor, count in _BROKER_PATCHES.items())
    return tuple(name for of_minor in names if of_minor[0] >= first for name in of_minor)


def assignor_of_leader(assignor: str | None, library: str | None, releases: str | None) -> str | None:
    """Returns the name of the assignor that plans a group, given its leader's library and releases.

    Args:
        assignor: assignor of the group.
        library: library of the leader; None if unknown. Unknown behavior of libraries is replaced by that of the latest
            Java clients.
        releases: possible releases of the leader, of which the latest counts: `2.8`, `2.8-3.3`, `<=2.7`, `<2.4`, or
            `3.4+`. An unknown release stands for the latest behavior. Only Java and franz-go have releases.

    Examples:
        >>> assignor_of_leader("sticky", "Java", "2.8-3.3"), assignor_of_leader("sticky", "Java", "3.4+")
        ('sticky@3.3', 'sticky')
        >>> assignor_of_leader("sticky", "franz-go", None), assignor_of_leader("range", "Sarama", None)
        ('sticky@franz-go', 'range@3.4')
        >>> [assignor_of_leader("sticky", "franz-go", release) for release in ("1.22.2", "1.21.7", "1.21.3")]
        ['sticky@franz-go', 'sticky@franz-go-1.21', 'sticky@franz-go-1.20']
    """
    if assignor is None or library is None:
        return assignor
    numbers = _parse_numbers(releases) if library == "franz-go" else ()
    if numbers and numbers < (1, 22):
        older = f"franz-go-1.{21 if numbers >= (1, 21, 4) else 20}"
        if assignor in LIBRARY_ASSIGNORS[older]:
            return f"{assignor}@{older}"
    key = (assignor, library)
    if parse_library_assignor(f"{assignor}@{library}") is not None:
        return assignor if KAFKA_EQUIVALENTS.get(key) == assignor else f"{assignor}@{library}"
    if key in KAFKA_EQUIVALENTS:
        return KAFKA_EQUIVALENTS[key]
    if assignor not in ("range", "sticky", "cooperative-sticky") or library != "Java" or releases is None:
        return assignor
    newest = releases.rpartition("-")[2].lstrip("<=")
    parsed = parse_release_assignor(f"{assignor}@{newest}")
    if parsed is None:
        return assignor
    rules = parsed[1]
    is_latest = rules.uses_racks == LATEST_RULES.uses_racks if assignor == "range" else rules == LATEST_RULES
    return assignor if is_latest else f"{assignor}@{newest}"


def format_release_lines() -> str:
    """Formats the lines of releases as text.

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
    """Checks whether a name stands for the assignor of a release or of another library."""
    return "@" in name and (parse_release_assignor(name) is not None or parse_library_assignor(name) is not None)


def uses_owned_order(name: str) -> bool:
    """Checks whether an assignor depends on the order in which members report owned partitions."""
    parsed = parse_release_assignor(name)
    return parsed is not None and parsed[0] == "sticky" and parsed[1].keeps_in_owned_order


def client_assignor(name: str) -> str:
    """Returns the assignor without release or library; any other name unchanged."""
    parsed = parse_release_assignor(name) or parse_library_assignor(name)
    return name if parsed is None else parsed[0]


# --- rules of a plan -----------------------------------------------------------------------------------------------


SURE, LIKELY, GUESS, UNKNOWN = ("sure", "likely", "guess", "unknown")


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
    rules = "today's Java" if not separator else release if release in LIBRARY_ASSIGNORS else f"Java {release}"
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
    if assignor == COOPERATIVE_STICKY:
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
