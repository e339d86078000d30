"""Whether a classic group should go over to the broker's protocol (KIP-848) now, with a warning, or not yet; and why.

Principles, in this priority
    1. What Kafka refuses, or what the members' library cannot do, is a reason to stay.
    2. What is lost for good comes next: racks, and an assignor that the broker does not have.
    3. What somebody has to look at first, or what is paid once, is a warning.

Stay
    client-lacks-protocol  a member runs on a library that does not speak the protocol
                           (`groups.kernel.client_libraries`)
    kafka-streams          the assignor of Kafka Streams: its assignments carry user data, at which the broker refuses
                           to convert the group (`ConsumerGroup.fromClassicGroup`); Streams has a protocol of its own
    own-assignor           an assignor that the broker does not have; its user data is refused, too
    racks-lost             more than 5 % of the partitions more are read across racks: the broker's assignors know none

With a warning
    offline                the broker does not convert the group while it runs (`group.consumer.migration.policy`,
                           `group.consumer.max.size`): stop all members first
    client-unknown         client ids do not tell every member's library
    client-guessed         they do only by a part of a name that somebody chose
    assignor-unknown       what the group runs with now is not known
    co-partitioning        range gives partitions of one number of several topics to one member, uniform does not
    random-order           server-range serves members by id, and new ids are drawn at random at each restart
    racks                  some more partitions are read across racks
    balance                max over mean gets more than 5 % worse
    moves                  more than a tenth of the partitions moves because the assignor changes
    no-way-back            the broker does not convert the group back while it runs

Where nothing else decides, a group may go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from spark_assign.comparison.kernel.recommend import BALANCE, RACKS, percent
from spark_assign.groups.assignors.server import SERVER_RANGE, UNIFORM
from spark_assign.groups.kernel.client_libraries import LIBRARIES, STREAMS, UNKNOWN, read_clients

GO, WARN, STAY, THERE = VERDICTS = ("go", "go-with-warning", "stay", "there")
"""The last: the group runs by the new protocol already."""

CLIENTS_OWN = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""Kafka's assignors of the clients. Their assignments carry no user data, so that the broker converts the group."""

MOVES = 0.1
"""What part of the partitions may move because the assignor changes before it is said."""


class Policy(StrEnum):
    """`group.consumer.migration.policy` of the brokers (`ConsumerGroupMigrationPolicy`); Kafka's default first."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def up(self) -> bool:
        """Whether a classic group with members becomes a consumer group."""
        return self in (Policy.BIDIRECTIONAL, Policy.UPGRADE)

    @property
    def down(self) -> bool:
        """Whether a consumer group with classic members alone becomes a classic group."""
        return self in (Policy.BIDIRECTIONAL, Policy.DOWNGRADE)


def can_online(now: str | None, members: int, policy: Policy, most: int | None) -> bool:
    """Whether the broker converts a group while it runs; arguments as `MigrationCandidate` has them."""
    fits = most is None or members <= most
    return policy.up and fits and (now is None or now in CLIENTS_OWN)


@dataclass(frozen=True)
class MigrationCandidate:
    """What is known of a group that has members.

    Attributes:
        now, to: its assignor, null where that is not known, and the broker's.
        clients: its members' libraries, as `count_clients` writes them.
        members, static: how many, and how many of them are static.
        partitions, moved: what it has, and what has another owner by the broker's assignor.
        uneven_before, uneven_after: max over mean; null where nothing is assigned.
        across_before, across_after: partitions read across racks; null where racks are not known.
        alike: topics that have as many partitions and the same subscribers as another one.
        policy, most: of the brokers; `most` is group.consumer.max.size, null: as many as there are.
    """

    now: str | None
    to: str
    clients: str
    members: int
    static: int
    partitions: int
    moved: int
    uneven_before: float | None
    uneven_after: float | None
    across_before: int | None
    across_after: int | None
    alike: int
    policy: Policy = Policy.BIDIRECTIONAL
    most: int | None = None

    @property
    def online(self) -> bool:
        """Whether the broker converts the group while it runs (`GroupMetadataManager.validateOnlineUpgrade`)."""
        return can_online(self.now, self.members, self.policy, self.most)


@dataclass(frozen=True)
class MigrationVerdict:
    """What to do, the codes of all reasons against it, and why in words."""

    verdict: str
    codes: tuple[str, ...]
    reasons: str


Said = tuple[str, str]


def judge(case: MigrationCandidate) -> MigrationVerdict:
    """Whether to go, and all that is to be said about it."""
    stay = [*_refused(case), *_lost(case)]
    warned = list(_warned(case))
    verdict = STAY if stay else WARN if warned else GO
    said = [*stay, *warned]
    words = [words for _, words in said] or ["Nothing speaks against it."]
    if verdict != STAY and (needs := _needs(case)):
        words.append(needs)
    return MigrationVerdict(verdict, tuple(code for code, _ in said), " ".join(words))


def _refused(case: MigrationCandidate) -> Iterator[Said]:
    known = [name for name in read_clients(case.clients) if name != UNKNOWN]
    if lacking := [name for name in known if LIBRARIES[name].consumer_protocol is None]:
        guess = " (a guess from part of the client ids)" if any(_guessed(case, name) for name in lacking) else ""
        yield "client-lacks-protocol", f"{' and '.join(lacking)} cannot speak the protocol{guess}."
    if case.now == STREAMS:
        yield (
            "kafka-streams",
            "Kafka Streams: the broker refuses to convert its groups; they have group.protocol=streams (KIP-1071).",
        )
    elif case.now is not None and case.now not in CLIENTS_OWN:
        yield (
            "own-assignor",
            f"The broker has no {case.now}, and refuses to convert a group whose assignments carry user data. Write "
            "one for the broker (group.consumer.assignors), or change to an assignor of Kafka first.",
        )


def _lost(case: MigrationCandidate) -> Iterator[Said]:
    more = _more_across(case)
    if more > RACKS * case.partitions:
        yield "racks-lost", _racks(case)


def _warned(case: MigrationCandidate) -> Iterator[Said]:
    if not case.policy.up:
        yield "offline", f"group.consumer.migration.policy={case.policy}: stop all members before the first one starts."
    elif case.most is not None and case.members > case.most:
        yield "offline", f"{case.members:,} members, and group.consumer.max.size is {case.most:,}: raise it first."
    counted = read_clients(case.clients)
    if not counted or UNKNOWN in counted:
        yield (
            "client-unknown",
            "Client ids do not tell every member's library: make sure that each speaks the protocol.",
        )
    elif guessed := [name for name in counted if LIBRARIES[name].consumer_protocol and _guessed(case, name)]:
        yield "client-guessed", f"That members run on {' and '.join(guessed)} is a guess from part of their client ids."
    if case.now is None:
        yield "assignor-unknown", "What the group runs with now is not known."
    yield from _changed(case)
    if not case.policy.down:
        yield "no-way-back", f"group.consumer.migration.policy={case.policy}: no way back while the group runs."


def _changed(case: MigrationCandidate) -> Iterator[Said]:
    """What the other assignor does differently."""
    if case.now == "range" and case.to == UNIFORM and case.alike:
        yield (
            "co-partitioning",
            f"range gives one member the same partitions of {case.alike} topics, uniform does not: if the members join "
            "these topics, take server-range.",
        )
    if case.to == SERVER_RANGE and case.static < case.members > 1:
        yield (
            "random-order",
            "server-range serves members by id, and ids are random now: each restart of a member that is not static "
            "deals the ranges anew.",
        )
    more = _more_across(case)
    if 0 < more <= RACKS * case.partitions:
        yield "racks", _racks(case)
    before, after = case.uneven_before, case.uneven_after
    if before is not None and after is not None and after > before * (1 + BALANCE):
        yield "balance", f"Max over mean becomes {after:.2f} instead of {before:.2f}."
    if case.moved > MOVES * case.partitions:
        share = percent(case.moved / case.partitions)
        yield "moves", f"{share} of the partitions move because the assignor changes."


def _more_across(case: MigrationCandidate) -> int:
    if case.across_before is None or case.across_after is None:
        return 0
    return case.across_after - case.across_before


def _racks(case: MigrationCandidate) -> str:
    across = f"{case.across_after:,} of {case.partitions:,} partitions are read across racks"
    return f"{case.to} knows no racks: {across} instead of {case.across_before:,}."


def _needs(case: MigrationCandidate) -> str:
    """From which release on the members' libraries speak the protocol."""
    known = [LIBRARIES[name] for name in read_clients(case.clients) if name != UNKNOWN]
    needs = [f"{each.name} {each.consumer_protocol}" for each in known if each.consumer_protocol]
    return f"Needs {' and '.join(needs)}." if needs else ""


def _guessed(case: MigrationCandidate, name: str) -> bool:
    parts = case.clients.split(", ")
    return any(part.endswith("?") and part.rpartition(" ")[0] == name for part in parts)
