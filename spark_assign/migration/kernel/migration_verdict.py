"""Decides whether a classic group should migrate to the consumer protocol (KIP-848), and explains why.

Principles, in order of priority:
    1. A group is blocked if Kafka refuses to convert it, or if the members' library lacks the protocol.
    2. A group is blocked if it permanently loses rack awareness, or an assignor that the broker doesn't have.
    3. What needs a check first, or costs something once, is a warning.

Blockers:
    client-lacks-protocol  a member uses a library without the consumer protocol (`groups.kernel.client_libraries`)
    KAFKA-19862            brokers before 4.0.2, 4.1.2, or 4.2.0: if `__consumer_offsets` is compacted while a broker
                           loads a consumer group, the group and all others of its partition have no coordinator
    custom-assignor        an assignor that the broker doesn't have; the broker refuses its user data, too
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
    no-online-rollback     the broker doesn't convert the group back online

Without any of these, the group is ready. The assignments of a Kafka Streams application carry user data, so the broker
refuses to convert its group (`ConsumerGroup.fromClassicGroup`); it has its own protocol (`migration_verdict`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from spark_assign.assignors.release_rules import CLIENT_ASSIGNORS, release_bounds
from spark_assign.assignors.server import SERVER_RANGE, UNIFORM
from spark_assign.comparison.kernel.compare import BALANCE, RACKS, percent
from spark_assign.groups.kernel.client_libraries import OR, STREAMS, UNKNOWN, candidates, read_clients
from spark_assign.groups.kernel.client_settings import without_consumer_protocol
from spark_assign.tables.errors import count
from spark_assign.tables.quoting import in_text

READY, READY_WITH_WARNINGS, BLOCKED, DONE = "ready", "ready-with-warnings", "blocked", "done"
"""Verdicts of migrations and upgrades; the last one is for groups with nothing to change."""

_UNLOADABLE = (((0, 0, 0), (4, 0, 2)), ((4, 1, 0), (4, 1, 2)))
"""Releases of brokers with KAFKA-19862: the first one, and the one that fixes it."""

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
    """Checks whether the broker converts a group online; for the arguments, see `MigrationCandidate`.

    The assignments of Kafka's client-side assignors carry no user data, which the broker would refuse.
    """
    fits = max_size is None or members <= max_size
    return policy.up and fits and (assignor is None or assignor in CLIENT_ASSIGNORS)


@dataclass(frozen=True)
class MigrationCandidate:
    """A classic group with members.

    Attributes:
        assignor, server_assignor: its current assignor (`None` if unknown), and the broker's.
        client_libraries: the libraries of its members, in the format of `count_clients`.
        members, static_members: the number of members, and of static ones.
        partitions, moved: the number of partitions, and of those with another owner by the broker's assignor.
        max_over_mean_before, max_over_mean_after: `None` if nothing is assigned.
        cross_rack_before, cross_rack_after: partitions read across racks; `None` if racks are unknown.
        copartitioned_topics: the number of topics that share partition count and subscribers with another topic.
        policy: the migration policy of the brokers.
        max_size: `group.consumer.max.size` of the brokers; `None` for no limit.
        broker_release: release of the brokers; `None` if unknown.
    """

    assignor: str | None
    server_assignor: str
    client_libraries: str
    members: int
    static_members: int
    partitions: int
    moved: int
    max_over_mean_before: float | None
    max_over_mean_after: float | None
    cross_rack_before: int | None
    cross_rack_after: int | None
    copartitioned_topics: int
    policy: Policy = Policy.BIDIRECTIONAL
    max_size: int | None = None
    broker_release: str | None = None

    @property
    def is_static(self) -> bool:
        """Whether all members are static."""
        return self.static_members == self.members

    @property
    def added_cross_rack(self) -> int:
        """Partitions that become cross-rack, less those that no longer are; 0 if racks are unknown."""
        if self.cross_rack_before is None or self.cross_rack_after is None:
            return 0
        return self.cross_rack_after - self.cross_rack_before

    @property
    def online(self) -> bool:
        """Whether the broker converts the group online (`GroupMetadataManager.validateOnlineUpgrade`)."""
        return can_convert_online(self.assignor, self.members, self.policy, self.max_size)


_Finding = tuple[str, str]


def judge_migration(candidate: MigrationCandidate) -> tuple[str, tuple[str, ...], str]:
    """Returns the verdict on a group, the codes of all findings, and the findings in sentences."""
    if candidate.assignor == STREAMS:
        found = list(find_streams_findings(candidate.broker_release, candidate.static_members))
        blockers, warnings = ([each for each in found if (each[0] in BLOCKERS) == is_blocker] for is_blocker in (1, 0))
    else:
        blockers, warnings = list(_find_blockers(candidate)), list(_find_warnings(candidate))
    verdict = BLOCKED if blockers else READY_WITH_WARNINGS if warnings else READY
    findings = [*blockers, *warnings]
    sentences = [text for _, text in findings] or ["No issues found."]
    if verdict != BLOCKED and candidate.assignor != STREAMS and (requirements := _describe_requirements(candidate)):
        sentences.append(requirements)
    return verdict, tuple(code for code, _ in findings), " ".join(sentences)


def _find_blockers(candidate: MigrationCandidate) -> Iterator[_Finding]:
    """Yields what prevents the migration of a group."""
    if unsupported := without_consumer_protocol(candidate.client_libraries):
        is_guess = any(_is_guessed(candidate, name) for name in unsupported)
        guess_note = " The library is a guess from part of the client ids." if is_guess else ""
        yield "client-lacks-protocol", f"{' and '.join(unsupported)} can't use the consumer protocol.{guess_note}"
    newest = release_bounds(candidate.broker_release)[1]
    if any(first <= newest < fixed for first, fixed in _UNLOADABLE):
        yield (
            "KAFKA-19862",
            f"If __consumer_offsets is compacted while a broker of {candidate.broker_release} loads a consumer group, "
            "all groups of that partition have no coordinator (KAFKA-19862). Upgrade the brokers to 4.0.2, 4.1.2, or "
            "4.2 first.",
        )
    if candidate.assignor is not None and candidate.assignor not in CLIENT_ASSIGNORS:
        yield (
            "custom-assignor",
            f"The broker doesn't have the assignor {in_text(candidate.assignor)}, and refuses to convert a group whose "
            "assignments carry user data. Write an assignor for the broker (group.consumer.assignors), or switch to "
            "one of Kafka's assignors first.",
        )
    if candidate.added_cross_rack > RACKS * candidate.partitions:
        yield "racks-lost", _describe_racks(candidate)


def _find_warnings(candidate: MigrationCandidate) -> Iterator[_Finding]:
    """Yields what a group loses or risks by the migration."""
    policy = f"group.consumer.migration.policy={candidate.policy}"
    if not candidate.policy.up:
        yield "offline", f"With {policy}, stop all members before you start the first one with the new settings."
    elif candidate.max_size is not None and candidate.members > candidate.max_size:
        yield (
            "offline",
            f"The group has {count(candidate.members, 'member')}, and group.consumer.max.size is "
            f"{candidate.max_size:,}. "
            "Raise it first.",
        )
    libraries = read_clients(candidate.client_libraries)
    lacking = without_consumer_protocol(candidate.client_libraries)
    if not libraries or UNKNOWN in libraries or any(OR in name and name not in lacking for name in libraries):
        yield (
            "client-unknown",
            "The client ids don't show the library of every member. Check that each member supports the consumer "
            "protocol.",
        )
    elif guessed := [name for name in libraries if _has_protocol(name) and _is_guessed(candidate, name)]:
        yield "client-guessed", f"The library {' and '.join(guessed)} is a guess from part of the client ids."
    if candidate.assignor is None:
        yield "assignor-unknown", "The current assignor is unknown."
    yield from _find_assignor_changes(candidate)
    if not candidate.policy.down:
        yield "no-online-rollback", f"With {policy}, the broker doesn't convert a running group back."


def _find_assignor_changes(candidate: MigrationCandidate) -> Iterator[_Finding]:
    """Yields what the broker's assignor does differently."""
    if candidate.assignor == "range" and candidate.server_assignor == UNIFORM and candidate.copartitioned_topics:
        yield (
            "co-partitioning",
            f"range assigns the same partitions of {count(candidate.copartitioned_topics, 'topic')} to one "
            "member, uniform "
            "doesn't. If the members join these topics, use server-range.",
        )
    if candidate.server_assignor == SERVER_RANGE and candidate.static_members < candidate.members > 1:
        yield (
            "random-order",
            "server-range orders members by id, and the ids are random now. Each restart of a dynamic member changes "
            "the ranges.",
        )
    if 0 < candidate.added_cross_rack <= RACKS * candidate.partitions:
        yield "racks", _describe_racks(candidate)
    before, after = candidate.max_over_mean_before, candidate.max_over_mean_after
    if before is not None and after is not None and after > before * (1 + BALANCE):
        yield "balance", f"Max over mean becomes {after:.2f} instead of {before:.2f}."
    if candidate.moved > MOVES * candidate.partitions:
        share = percent(candidate.moved / candidate.partitions)
        yield "moves", f"{share} of the partitions move because the assignor changes."


def _describe_racks(candidate: MigrationCandidate) -> str:
    cross_rack = f"{candidate.cross_rack_after:,} of {candidate.partitions:,} partitions are read across racks"
    return f"{candidate.server_assignor} ignores racks: {cross_rack} instead of {candidate.cross_rack_before:,}."


def _describe_requirements(candidate: MigrationCandidate) -> str:
    """Returns the releases that the members' libraries need for the protocol."""
    libraries = [library for name in read_clients(candidate.client_libraries) for library in candidates(name)]
    requirements = [f"{library.name} {library.consumer_protocol}" for library in libraries if library.consumer_protocol]
    return f"Requires {' and '.join(requirements)}." if requirements else ""


def _has_protocol(name: str) -> bool:
    return any(library.consumer_protocol for library in candidates(name))


def _is_guessed(candidate: MigrationCandidate, name: str) -> bool:
    entries = candidate.client_libraries.split(", ")
    return any(entry.endswith("?") and entry.rpartition(" ")[0] == name for entry in entries)


# --- whether a classic Streams application can move to KIP-1071, and what it loses ----------------------------
#
# The broker converts only an empty group, so all instances stop first. Committed offsets, changelogs, and state on
# disks stay.
#
# Blockers:
#     kafka-streams          the release of the brokers is unknown, and no release converts a Streams application to the
#                            consumer protocol
#     no-streams-protocol    brokers before 4.2 don't convert a classic group to a streams group (KAFKA-19570)
#     KAFKA-20254            after a compaction, brokers of 4.2.0 can't load the partition of `__consumer_offsets` of a
#                            converted group
#     static-members         `group.instance.id` needs brokers and clients of 4.4 (KAFKA-20169); older brokers refuse it
#
# Warnings:
#     warmups                up to 4.4, no target assignment has warmup tasks, so that tasks move before their state
#     does standbys               the number of standbys becomes a setting of the group
#     KAFKA-20999            the broker's assignor ignores client tags and racks
#     static-clients         `group.instance.id` needs clients of 4.4
#     state-ignored          brokers before 4.4 assign tasks without regard to the state that is on disks


BLOCKERS = ("kafka-streams", "no-streams-protocol", "KAFKA-20254", "static-members")
SERVER_ASSIGNOR = "streams-sticky"
_FIRST, _FIXED, _STATIC = (4, 2), (4, 2, 1), (4, 4)


PREPARE = (
    "Set streams.num.standby.replicas of the group (kafka-configs.sh --entity-type groups) to num.standby.replicas of "
    "the application. In the settings of every instance, set group.protocol=streams."
)
STOP = "Stop all instances, and wait until the group is Empty. The broker doesn't convert a group that has members."
START = "Start all instances with the new settings. Committed offsets stay; the broker assigns all tasks from scratch."
ROLLBACK = (
    "Stop all instances, wait until the group is Empty, and start them with group.protocol=classic. Committed offsets "
    "stay, and the leader assigns all tasks from scratch."
)


def find_streams_findings(broker_release: str | None, static_members: int) -> Iterator[_Finding]:
    """Yields the code and the text of each finding, blockers first.

    Args:
        broker_release: release of the brokers, such as 4.3 or 4.2.1; None if unknown. Without a third number, it is the
            latest patch.
        static_members: number of members with `group.instance.id`.
    """
    release = None if broker_release is None else release_bounds(broker_release)[1]
    if release is None:
        yield (
            "kafka-streams",
            "This is a Kafka Streams application. The broker refuses to convert its group to the consumer protocol; "
            "use group.protocol=streams (KIP-1071). Give the release of the brokers (--broker-release) to find out "
            "whether they can convert it.",
        )
    elif release < _FIRST:
        yield (
            "no-streams-protocol",
            f"Brokers of {broker_release} don't convert a classic group to a streams group. Upgrade them to 4.2.1 or "
            "later.",
        )
    elif release < _FIXED:
        yield (
            "KAFKA-20254",
            "Brokers of 4.2.0 can't load the partition of __consumer_offsets of a converted group after a compaction, "
            "so all groups in it have no coordinator (KAFKA-20254). Upgrade them to 4.2.1 or later.",
        )
    if static_members and release is not None and release < _STATIC:
        yield (
            "static-members",
            "Brokers before 4.4 refuse group.instance.id with group.protocol=streams (KAFKA-20169). Upgrade brokers "
            "and clients to 4.4, or remove it.",
        )
    elif static_members:
        yield "static-clients", "group.instance.id with group.protocol=streams needs clients of 4.4 or later."
    yield (
        "warmups",
        "Brokers up to 4.4 assign no warmup tasks: acceptable.recovery.lag, max.warmup.replicas, and probing "
        "rebalances have no effect. A task that moves to an instance without its state stops until the state is "
        "restored.",
    )
    yield (
        "standbys",
        "num.standby.replicas of the application has no effect. The broker uses streams.num.standby.replicas of the "
        "group: 0 by default, and at most 2 unless group.streams.max.standby.replicas of the brokers is changed.",
    )
    yield (
        "KAFKA-20999",
        "The broker's assignor ignores client tags and racks (KAFKA-20999): rack.aware.assignment settings have no "
        "effect, and a task and its standby can be in one rack.",
    )
    if release is not None and release < _STATIC:
        yield (
            "state-ignored",
            "Brokers before 4.4 ignore the state on disks. After the start, tasks can go to instances without their "
            "state.",
        )
