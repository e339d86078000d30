"""By whose rules a group is planned, and how sure it is that its leader decides by them, in words.

A row of metrics has the assignor with its release, and the leader as far as it is known. The plan is what the group
will do only where the two fit:

    sure, given, likely, guess   planned by the rules of its leader, who is known so surely
    other                        its leader decides by other rules: another release was asked for, or its library has
                                 an assignor that is not known here, or lines up static members otherwise
    unknown                      planned by the rules of Java's clients, as nothing is known of its leader
    broker                       the broker assigns, by rules of its own: there is no leader
    own                          an assignor that comes with no client
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_assign.groups.assignors.library_assignors import STATIC_OTHERWISE
from spark_assign.groups.assignors.release_rules import CLIENT_SIDE, follows, led_by
from spark_assign.groups.assignors.server import OURS, SERVER_SIDE
from spark_assign.groups.kernel.client_libraries import LIBRARIES
from spark_assign.groups.kernel.leader_fingerprint import GUESS, LIKELY, SURE, UNKNOWN

GIVEN, OTHER, BROKER, OWN = "given", "other", "broker", "own"
KINDS = (SURE, GIVEN, LIKELY, GUESS, OTHER, UNKNOWN, BROKER, OWN)
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
    """By whose rules: one of KINDS, and the same of one group in a few words."""

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
    return words + _STATIC if static and library in STATIC_OTHERWISE else words


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
    if assignor in OURS:
        return RuleSource(OWN, "no client")
    if assignor in SERVER_SIDE:
        return RuleSource(BROKER, "the broker")
    name, at, release = assignor.partition("@")
    if name not in CLIENT_SIDE:
        return RuleSource(OWN, "no client")
    library, releases, certainty = read_leader(leader)
    rules = "today's Java" if not at else release if release in LIBRARIES else f"Java {release}"
    if library is None:
        return RuleSource(UNKNOWN, f"{rules}, leader not known")
    known = release == library or follows(name, library)
    if not known or str(leader).endswith(_STATIC) or led_by(name, library, releases) != assignor:
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
    for kind in KINDS:
        if many := counted.get(kind, 0):
            remedy = " (--clients names it)" if kind in TO_NAME else ""
            said.append(f"{RULE_SOURCE_TEXTS[kind]}: {many:,} group{'' if many == 1 else 's'}{remedy}")
    return f"By the rules of {'; '.join(said)}" if said else ""
