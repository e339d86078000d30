"""Decides whether a classic group should migrate to the consumer protocol (KIP-848), and explains why.

Principles, in order of priority:
    1. A group stays if Kafka refuses to convert it, or if the members' library lacks the protocol.
    2. A group stays if it permanently loses rack awareness, or an assignor that the broker doesn't have.
    3. What needs a check first, or costs something once, is a warning.

Reasons to stay:
    client-lacks-protocol  a member uses a library without the consumer protocol (`groups.kernel.client_libraries`)
    kafka-streams          the assignor of Kafka Streams: its assignments carry user data, so the broker refuses to
                           convert the group (`ConsumerGroup.fromClassicGroup`); Streams has its own protocol
    own-assignor           an assignor that the broker doesn't have; the broker refuses its user data, too
    racks-lost             more than 5 % of the partitions become cross-rack, because the broker's assignors ignore
                           racks

Warnings:
    offline                the broker doesn't convert the group online (`group.consumer.migration.policy`,
                           `group.consumer.max.size`): stop all members first
    client-unknown         the client ids don't reveal the library of every member
    client-guessed         the library is a guess from a part of the client id
    assignor-unknown       the current assignor is unknown
    co-partitioning        range assigns the same partition of several topics to one member; uniform doesn't
    random-order           server-range orders members by id, and each restart generates a random id
    racks                  a few more partitions are read across racks
    balance                max over mean gets more than 5 % worse
    moves                  more than a tenth of the partitions move because the assignor changes
    no-way-back            the broker doesn't convert the group back online

Without any of these, the group should migrate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from spark_assign.comparison.kernel.recommend import BALANCE, RACKS, percent
from spark_assign.groups.assignors.server import SERVER_RANGE, UNIFORM
from spark_assign.groups.kernel.client_libraries import LIBRARIES, STREAMS, UNKNOWN, read_clients

GO, WARN, STAY, DONE = VERDICTS = ("go", "go-with-warning", "stay", "there")
"""Verdicts; the last one is for groups that use the consumer protocol already."""

CLIENTS_OWN = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""Kafka's client-side assignors. Their assignments carry no user data, so the broker converts the groups."""

MOVES = 0.1
"""Share of the partitions that can move because of the new assignor without a warning."""


class Policy(StrEnum):
    """`group.consumer.migration.policy` of the brokers (`ConsumerGroupMigrationPolicy`); Kafka's default comes
    first.
    """

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def up(self) -> bool:
        """Whether a classic group with members can become a consumer group."""
        return self in (Policy.BIDIRECTIONAL, Policy.UPGRADE)

    @property
    def down(self) -> bool:
        """Whether a consumer group whose members are all classic can become a classic group."""
        return self in (Policy.BIDIRECTIONAL, Policy.DOWNGRADE)


def can_convert_online(assignor: str | None, members: int, policy: Policy, max_size: int | None) -> bool:
    """Checks whether the broker converts a group online; for the arguments, see `MigrationCandidate`."""
    fits = max_size is None or members <= max_size
    return policy.up and fits and (assignor is None or assignor in CLIENTS_OWN)


@dataclass(frozen=True)
class MigrationCandidate:
    """A classic group with members.

    Attributes:
        assignor, server_assignor: its current assignor (`None` if unknown), and the broker's.
        clients: the libraries of its members, in the format of `count_clients`.
        members, static: the number of members, and of static ones.
        partitions, moved: the number of partitions, and of those with another owner by the broker's assignor.
        max_over_mean_before, max_over_mean_after: `None` if nothing is assigned.
        cross_rack_before, cross_rack_after: partitions read across racks; `None` if racks are unknown.
        copartitioned_topics: the number of topics that share partition count and subscribers with another topic.
        policy: the migration policy of the brokers.
        max_size: `group.consumer.max.size` of the brokers; `None` for no limit.
    """

    assignor: str | None
    server_assignor: str
    clients: str
    members: int
    static: int
    partitions: int
    moved: int
    max_over_mean_before: float | None
    max_over_mean_after: float | None
    cross_rack_before: int | None
    cross_rack_after: int | None
    copartitioned_topics: int
    policy: Policy = Policy.BIDIRECTIONAL
    max_size: int | None = None

    @property
    def online(self) -> bool:
        """Whether the broker converts the group online (`GroupMetadataManager.validateOnlineUpgrade`)."""
        return can_convert_online(self.assignor, self.members, self.policy, self.max_size)


@dataclass(frozen=True)
class MigrationVerdict:
    """The verdict, the codes of all findings, and the findings in sentences."""

    verdict: str
    codes: tuple[str, ...]
    reasons: str


_Finding = tuple[str, str]


def judge(candidate: MigrationCandidate) -> MigrationVerdict:
    """Returns the verdict on a group, with all findings."""
    blockers = [*_find_refusals(candidate), *_find_losses(candidate)]
    warnings = list(_find_warnings(candidate))
    verdict = STAY if blockers else WARN if warnings else GO
    findings = [*blockers, *warnings]
    sentences = [sentences for _, sentences in findings] or ["Nothing speaks against it."]
    if verdict != STAY and (requirements := _describe_requirements(candidate)):
        sentences.append(requirements)
    return MigrationVerdict(verdict, tuple(code for code, _ in findings), " ".join(sentences))


def _find_refusals(candidate: MigrationCandidate) -> Iterator[_Finding]:
    libraries = [name for name in read_clients(candidate.clients) if name != UNKNOWN]
    if unsupported := [name for name in libraries if LIBRARIES[name].consumer_protocol is None]:
        guess_note = (
            " (a guess from part of the client ids)"
            if any(_is_guessed(candidate, name) for name in unsupported)
            else ""
        )
        yield "client-lacks-protocol", f"{' and '.join(unsupported)} cannot speak the protocol{guess_note}."
    if candidate.assignor == STREAMS:
        yield (
            "kafka-streams",
            "Kafka Streams: the broker refuses to convert its groups; they have group.protocol=streams (KIP-1071).",
        )
    elif candidate.assignor is not None and candidate.assignor not in CLIENTS_OWN:
        yield (
            "own-assignor",
            f"The broker has no {candidate.assignor}, and refuses to convert a group whose assignments carry user "
            "data. Write "
            "one for the broker (group.consumer.assignors), or change to an assignor of Kafka first.",
        )


def _find_losses(candidate: MigrationCandidate) -> Iterator[_Finding]:
    added = _added_cross_rack(candidate)
    if added > RACKS * candidate.partitions:
        yield "racks-lost", _describe_racks(candidate)


def _find_warnings(candidate: MigrationCandidate) -> Iterator[_Finding]:
    if not candidate.policy.up:
        yield (
            "offline",
            f"group.consumer.migration.policy={candidate.policy}: stop all members before the first one starts.",
        )
    elif candidate.max_size is not None and candidate.members > candidate.max_size:
        yield (
            "offline",
            f"{candidate.members:,} members, and group.consumer.max.size is {candidate.max_size:,}: raise it first.",
        )
    counted = read_clients(candidate.clients)
    if not counted or UNKNOWN in counted:
        yield (
            "client-unknown",
            "Client ids do not tell every member's library: make sure that each speaks the protocol.",
        )
    elif guessed := [name for name in counted if LIBRARIES[name].consumer_protocol and _is_guessed(candidate, name)]:
        yield "client-guessed", f"That members run on {' and '.join(guessed)} is a guess from part of their client ids."
    if candidate.assignor is None:
        yield "assignor-unknown", "What the group runs with now is not known."
    yield from _find_assignor_changes(candidate)
    if not candidate.policy.down:
        yield "no-way-back", f"group.consumer.migration.policy={candidate.policy}: no way back while the group runs."


def _find_assignor_changes(candidate: MigrationCandidate) -> Iterator[_Finding]:
    """Yields what the broker's assignor does differently."""
    if candidate.assignor == "range" and candidate.server_assignor == UNIFORM and candidate.copartitioned_topics:
        yield (
            "co-partitioning",
            f"range gives one member the same partitions of {candidate.copartitioned_topics} topics, uniform does "
            "not: if the members join "
            "these topics, take server-range.",
        )
    if candidate.server_assignor == SERVER_RANGE and candidate.static < candidate.members > 1:
        yield (
            "random-order",
            "server-range serves members by id, and ids are random now: each restart of a member that is not static "
            "deals the ranges anew.",
        )
    added = _added_cross_rack(candidate)
    if 0 < added <= RACKS * candidate.partitions:
        yield "racks", _describe_racks(candidate)
    before, after = candidate.max_over_mean_before, candidate.max_over_mean_after
    if before is not None and after is not None and after > before * (1 + BALANCE):
        yield "balance", f"Max over mean becomes {after:.2f} instead of {before:.2f}."
    if candidate.moved > MOVES * candidate.partitions:
        share = percent(candidate.moved / candidate.partitions)
        yield "moves", f"{share} of the partitions move because the assignor changes."


def _added_cross_rack(candidate: MigrationCandidate) -> int:
    if candidate.cross_rack_before is None or candidate.cross_rack_after is None:
        return 0
    return candidate.cross_rack_after - candidate.cross_rack_before


def _describe_racks(candidate: MigrationCandidate) -> str:
    cross_rack = f"{candidate.cross_rack_after:,} of {candidate.partitions:,} partitions are read across racks"
    return f"{candidate.server_assignor} knows no racks: {cross_rack} instead of {candidate.cross_rack_before:,}."


def _describe_requirements(candidate: MigrationCandidate) -> str:
    """Returns the releases that the members' libraries need for the protocol."""
    libraries = [LIBRARIES[name] for name in read_clients(candidate.clients) if name != UNKNOWN]
    requirements = [f"{library.name} {library.consumer_protocol}" for library in libraries if library.consumer_protocol]
    return f"Needs {' and '.join(requirements)}." if requirements else ""


def _is_guessed(candidate: MigrationCandidate, name: str) -> bool:
    counted = candidate.clients.split(", ")
    return any(entry.endswith("?") and entry.rpartition(" ")[0] == name for entry in counted)
