"""Verdicts and descriptions of client upgrades, and how each library switches from eager to cooperative (KIP-429).

Verdicts:
    ready                the change of rules moves no partition, or the rules are the same
    ready-with-warnings  the new rules move partitions that the old rules would keep, or all members must stop
    blocked              the library has no such assignor
    done                 the leader has the requested release already, or a newer one
    unknown              the leader isn't a Java client, or its release is unknown

For how libraries switch from eager to cooperative, see `groups.kernel.client_settings`. In the first restart of two,
all members get both assignors; the vote elects the old one, because it comes first. In the second restart, the old one
is removed; as soon as one member has removed it, the new one is the only assignor that all members have.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from spark_assign.assignors.release_rules import (
    CLIENT_ASSIGNORS,
    LATEST_RULES,
    ReleaseRules,
    parse_release_assignor,
)
from spark_assign.assignors.sticky.sticky_groups import hash_owned_order, sort_by_owned_order
from spark_assign.groups.kernel.client_libraries import COOPERATIVE, LIBRARIES, UNKNOWN, candidates, read_clients
from spark_assign.groups.kernel.client_settings import NOT_THERE, ROLLING, AssignorSwitch, assignor_lines, plan_switch
from spark_assign.migration.kernel.migration_verdict import BLOCKED, DONE, READY, READY_WITH_WARNINGS
from spark_assign.numeric.arrays import EMPTY_SLICES, BoolArray, IntArray, KeyIndex, PartitionSlices
from spark_assign.simulation.kernel.classic_group import ClassicGroup
from spark_assign.simulation.kernel.classic_group_member import ClassicGroupMember
from spark_assign.tables.quoting import in_text

FIXES = {
    "2.5.1": "KAFKA-9987",
    "2.8.1": "KAFKA-12984",
    "3.0.0": "KAFKA-12464",
    "3.4.0": "KAFKA-13715",
    "3.4.1": "KAFKA-14639",
    "3.5.0": "KIP-881",
    "3.5.2": "KAFKA-15106",
    "3.7.1": "KAFKA-15170",
}
"""The first release of each line of equal rules (`release_rules`), and the change that made it."""

UNKNOWN_VERDICT = "unknown"
"""Verdict of groups that can't be analyzed, in addition to those of migrations."""

_NEWEST_RELEASE = re.compile(r"(?:<=|.*-)?(\d+\.\d+(?:\.\d+)?)", re.ASCII)


@dataclass(frozen=True)
class UpgradeCandidate:
    """One classic group.

    Attributes:
        assignor: its assignor; `None` if unknown.
        library, releases: library and releases of its leader (`groups.leader_library` and `leader_version`).
        client_libraries: the libraries of its members, in the format of `count_clients`.
        to_release: the release of its members afterward.
        to_assignor: the assignor of its members afterward; `None` if it stays the same.
        has_racks: whether members have racks.
    """

    assignor: str | None
    library: str | None
    releases: str | None
    client_libraries: str
    to_release: str
    to_assignor: str | None
    has_racks: bool = False

    @property
    def release(self) -> str | None:
        """The release of its members now: the newest one of a range; `None` if unknown."""
        match = _NEWEST_RELEASE.fullmatch(self.releases or "")
        if match is None or parse_release_assignor(f"{CLIENT_ASSIGNORS[0]}@{match[1]}") is None:
            return None
        return match[1]

    @property
    def switch(self) -> AssignorSwitch | None:
        """How its members switch to another assignor; `None` if they don't."""
        if self.to_assignor is None or self.to_assignor == self.assignor:
            return None
        return plan_switch(self.assignor, self.to_assignor, self.client_libraries)

    @property
    def is_rolling(self) -> bool:
        """Whether its members restart one at a time."""
        return self.switch is None or self.switch.kind == ROLLING

    @property
    def has_same_rules(self) -> bool:
        """Whether its assignor decides the same in both releases."""
        current, new = (deciding_rules(f"{self.assignor}@{release}") for release in (self.release, self.to_release))
        return current == new

    @property
    def assignor_lists(self) -> tuple[Assignors, ...]:
        """The list of assignors of the members after each rolling restart."""
        current = str(self.assignor)
        if self.to_assignor is None or self.to_assignor == current:
            return ((current,),)
        return (current, self.to_assignor), (self.to_assignor,)

    @property
    def ends_bounces(self) -> bool:
        """Whether the rebalances end that a rack-aware leader causes whenever a broker restarts (KAFKA-20778)."""
        releases = [_parse_version(str(release)) for release in (self.release, self.to_release)]
        return self.has_racks and (3, 5) <= releases[0] < (4, 4) <= releases[1]

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do: the release is the same or newer, and the assignor stays."""
        assert self.release is not None
        return self.switch is None and _parse_version(self.release) >= _parse_version(self.to_release)


def explain_unknown(candidate: UpgradeCandidate) -> str | None:
    """Returns the reason why a group can't be analyzed; `None` if it can."""
    remedy = "Set it with --leader-client 'GROUP=Java@2.8'."
    if candidate.assignor not in CLIENT_ASSIGNORS:
        known = f"Only {', '.join(CLIENT_ASSIGNORS)} can be simulated by release."
        current = "is unknown" if candidate.assignor is None else f"is {in_text(candidate.assignor)}"
        return f"The current assignor {current}. {known}"
    if candidate.library is None:
        return f"The client library of the leader is unknown. {remedy}"
    if candidate.library != "Java":
        text = f"The leader uses {in_text(candidate.library)}, whose releases differ from Kafka's Java clients."
        reason = " ".join(library.switching for library in candidates(candidate.library))
        if candidate.to_assignor != COOPERATIVE or candidate.assignor == COOPERATIVE or not reason:
            return text
        method = plan_switch(candidate.assignor, COOPERATIVE, f"{candidate.library} 1").kind
        return f"{text} To switch to {COOPERATIVE}: {method}. {reason}"
    if candidate.release is None:
        return f"The release of the leader is unknown (Java {in_text(candidate.releases or '?')}). {remedy}"
    return None


def judge_upgrade(
    candidate: UpgradeCandidate, moved_by_rule_change: int | None, is_complete: bool, fault: str | None = None
) -> tuple[str, str]:
    """Returns the verdict and the note of a group that can be analyzed.

    Args:
        candidate: the group.
        moved_by_rule_change: partitions that move because of the change of rules; `None` if not simulated.
        is_complete: whether all restarts were simulated.
        fault: the exception of the current release's assignor that the new release doesn't throw, and what fixed it;
            `None` if there is none.
    """
    notes = []
    if candidate.releases != candidate.release:
        releases = in_text(candidate.releases or "?")
        notes.append(f"The release of the leader is one of {releases}; {candidate.release} is assumed.")
    if candidate.switch is not None:
        notes.append(candidate.switch.text)
    other_libraries = [name for name in read_clients(candidate.client_libraries) if name not in (UNKNOWN, "Java")]
    if other_libraries:
        notes.append(f"Members with {' and '.join(other_libraries)} are simulated as Java clients.")
    if candidate.switch is not None and candidate.switch.kind == NOT_THERE:
        return BLOCKED, " ".join(notes)
    if fault is not None:
        notes.append(
            f"{fault}. The upgrade removes this fault. Until a member of the new release leads, "
            "the group can't rebalance, so the costs of the restarts are unknown."
        )
        return READY_WITH_WARNINGS, " ".join(notes)
    verdict = READY_WITH_WARNINGS if other_libraries or not candidate.is_rolling else READY
    if candidate.is_done:
        return DONE, " ".join([*notes, f"The leader has release {candidate.release} already."])
    if candidate.has_same_rules:
        notes.append(f"{candidate.assignor} assigns the same in {candidate.to_release} and {candidate.release}.")
    elif moved_by_rule_change:
        verdict = READY_WITH_WARNINGS
        notes.append(f"The rules of {candidate.release} would avoid {moved_by_rule_change:,} of the moves.")
    elif moved_by_rule_change == 0 and is_complete:
        notes.append(f"The rules of {candidate.to_release} differ, but move no partition of this group.")
    if candidate.ends_bounces:
        notes.append("A restart of a broker no longer causes two rebalances (KAFKA-20778).")
    if not is_complete and candidate.is_rolling:
        notes.append("Not all restarts were simulated.")
    return verdict, " ".join(notes)


def _parse_version(release: str) -> tuple[int, ...]:
    """Returns the version as three numbers; a missing third one counts as the latest."""
    numbers = [int(number) for number in release.split(".")]
    return tuple([*numbers, 1_000_000][:3])


# --- descriptions -------------------------------------------------------------------------------------------------


def describe_step(candidate: UpgradeCandidate, step: UpgradeStep) -> str:
    """Describes one restart, or the rebalance after all restarts."""
    if step.step_type == NEXT_REBALANCE:
        return "At the next rebalance, for whatever reason, the leader assigns by its new rules."
    setting = f" and {_assignor_setting(candidate, step.bounce - 1)}" if candidate.switch is not None else ""
    return f"Restart the member with {candidate.to_release}{setting}."


def describe_stop_all() -> str:
    """Describes how the group becomes empty."""
    return (
        "Stop all members. The group must be empty. (Or start the new members with another group id and its offsets.)"
    )


def describe_start_all(candidate: UpgradeCandidate) -> str:
    """Describes how the members start again."""
    return f"Start all members with {candidate.to_release} and {_assignor_setting(candidate, -1)}."


def _assignor_setting(candidate: UpgradeCandidate, restart: int) -> str:
    """Returns the list of assignors of the Java clients after a rolling restart, as a setting."""
    return "".join(assignor_lines(LIBRARIES["Java"], candidate.assignor_lists[restart]))


# --- classic groups during a rolling upgrade: configurations, steps, and state --------------------------------
#
# The broker doesn't report which member leads. This module assumes the first member in the order of Java's `HashMap`:
# the coordinator makes it the leader whenever the leader leaves (`ClassicGroup.remove`).
#
# What a member reports when it rejoins depends on its release:
#     generation   sticky: in its user data. Cooperative-sticky: not at all up to 2.8.0, in its user data up to 3.3, and
#                  in the subscription since 3.4 (which then has it with every assignor)
#     rack         since 3.4; assignors use it since 3.5 (KIP-881)
#     owned        sticky remembers its assignment as sticky. Cooperative-sticky reads the subscription, in which an
#     eager
#                  member (one with an eager assignor in its list) has nothing, because it has revoked everything
#     order        sticky: by topic in the order of a `HashMap`; within a topic, kept partitions first, then new ones
# A member that has just restarted reports only its rack.


RESTART, NEXT_REBALANCE = "restart", "next-rebalance"

LAST_GENERATION = 1
"""The number of the last generation. Members remember no earlier one."""

Assignors = tuple[str, ...]
"""A member's partition.assignment.strategy: Kafka's names, in order of preference."""

_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)


@dataclass(frozen=True)
class ClientConfig:
    """The configuration of a member: the release of its library, and its list of assignors."""

    release: str
    assignors: Assignors


@dataclass(frozen=True)
class UpgradePath:
    """The rolling restarts of one group.

    Attributes:
        current: the configuration of its members now.
        bounces: the configuration after each bounce. A bounce restarts all members once.
        leader: id of the current leader; `None` if unknown, as is one that names no member.
    """

    current: ClientConfig
    bounces: tuple[ClientConfig, ...]
    leader: str | None = None


@dataclass(frozen=True)
class UpgradeStep:
    """One step of one group: a member has restarted, or (`next-rebalance`) all members have rejoined once more.

    Attributes, except `member`, are columns of `tables.comparison.UPGRADE_TABLES`.

    Attributes:
        step_type: `restart` or `next-rebalance`.
        bounce: ordinal of the bounce, from 1.
        member: index in the specs of the member that has restarted; -1 for none.
        new_member_id: the id of that member afterward.
        leader, leader_release: id and release of the leader afterward.
        leader_changed: whether another member led before.
        assignor: the elected assignor.
        moved, revoked, paused_partitions, moved_by_rules: numbers of partitions, once per change.
    """

    step_type: str
    bounce: int
    member: int
    new_member_id: str | None
    leader: str
    leader_release: str
    leader_changed: bool
    assignor: str
    moved: int
    revoked: int
    paused_partitions: int
    moved_by_rules: int


@dataclass(frozen=True)
class RollingUpgrade:
    """A simulated rolling upgrade of many groups.

    Attributes:
        steps: the steps of each group, in order.
        is_complete: whether all restarts of each group were simulated. Shape: (num_groups,).
        failed: groups for which Kafka's assignor throws an exception on the way: code and detail.
        owned_after: the partitions that each member owns afterward, in all groups.
    """

    steps: list[list[UpgradeStep]]
    is_complete: BoolArray
    failed: dict[int, tuple[str, str]]
    owned_after: PartitionSlices


# --- the coordinator's state --------------------------------------------------------------------------------------


def next_member_id(member_id: str) -> str:
    """Returns the id that the coordinator gives to a restarted member: the client or instance id, and a UUID.

    Kafka generates the UUID at random. This function derives it from the previous id, so that the same fleet gives the
    same result.

    Examples:
        >>> next_member_id("app-1-9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d")[:6], len(next_member_id("app-1"))
        ('app-1-', 42)
    """
    digest = hashlib.md5(member_id.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return f"{_UUID.sub('', member_id)}-{uuid.UUID(bytes=digest, version=4)}"


class GroupMembership:
    """The members, leader, and elected assignor of one classic group, as its coordinator has them.

    Args:
        members: id and instance id of each member.
        assignors: the list of assignors of all members.
        leader: id of the leader; `None` if unknown.
    """

    def __init__(
        self, members: Iterable[tuple[str, str | None]], assignors: Assignors, leader: str | None = None
    ) -> None:
        self.group = ClassicGroup("")
        for member_id, instance_id in members:
            self.join(member_id, instance_id, assignors)
        self.group.leader_id = leader if leader in self.group.members else self.group.all_members()[0].member_id
        self.group.protocol_name = assignors[0]

    def join(self, member_id: str, instance_id: str | None, assignors: Assignors) -> None:
        """Adds a member with a new id. The first member of an empty group leads."""
        self.group.add(ClassicGroupMember(member_id, protocols=assignors, group_instance_id=instance_id))

    def rejoin_static(self, instance_id: str, previous_id: str, new_member_id: str, assignors: Assignors) -> bool:
        """Replaces a static member that rejoins before its session expires; it stays the leader if it led.

        Returns:
            whether the group rebalances: only if the vote now elects another assignor (KIP-345, KIP-814).
        """
        member = self.group.replace_static_member(instance_id, previous_id, new_member_id)
        self.group.update(member, protocols=assignors, topics=(), rebalance_timeout_ms=0)
        return self.group.select_protocol() != self.group.protocol_name

    def elect(self) -> tuple[str, str]:
        """Completes a rebalance; returns the id of the leader and the elected assignor."""
        self.group.protocol_name = self.group.select_protocol()
        assert self.group.leader_id is not None
        return self.group.leader_id, self.group.protocol_name


# --- what members report ------------------------------------------------------------------------------------------


def rules_of_release(release: str) -> ReleaseRules:
    """Returns the rules that the assignors of a release follow."""
    profile = parse_release_assignor(f"{CLIENT_ASSIGNORS[-1]}@{release}")
    return LATEST_RULES if profile is None else profile[1]


def deciding_rules(release_assignor: str) -> tuple[str, object]:
    """Returns what distinguishes two `assignor@release` names: the assignor, and the rules that affect its result."""
    assignor, _, release = release_assignor.partition("@")
    rules = rules_of_release(release)
    return assignor, {"roundrobin": None, "range": rules.uses_racks}.get(assignor, rules)


def is_eager(assignors: Assignors) -> bool:
    """Checks whether a member revokes everything before it rejoins, because its list has an eager assignor."""
    return any(name != COOPERATIVE for name in assignors)


def reported_generation(release: str, elected: str) -> tuple[int, int]:
    """Returns the generations that a member of the last generation reports; -1 for none.

    Args:
        release: the release of the member.
        elected: the assignor of the last generation.

    Returns:
        the generation in the subscription, and the generation in the user data.
    """
    rules = rules_of_release(release)
    in_subscription = -1 if rules.generation_in_user_data else LAST_GENERATION
    if elected == COOPERATIVE:
        return in_subscription, -1 if rules.ignores_generations else LAST_GENERATION
    return in_subscription, LAST_GENERATION if elected == "sticky" else -1


def reports_owned(elected: str, last_assignor: str, assignors: Assignors) -> bool:
    """Checks whether the leader knows what a member owns.

    Args:
        elected: the assignor of the leader.
        last_assignor: the assignor that gave the member its partitions.
        assignors: the list of assignors of the member.
    """
    if elected == COOPERATIVE:
        return not is_eager(assignors)
    return elected != "sticky" or last_assignor == "sticky"


def next_owned_order(
    previous: PartitionSlices, assigned: PartitionSlices, topic_hash: IntArray, num_members: int
) -> PartitionSlices:
    """Returns single partitions in the order in which the members of sticky report them in the next generation.

    Args:
        previous: the order of the previous generation.
        assigned: what each member owns now.
        topic_hash: `String.hashCode` of each topic.
        num_members: the number of members.
    """
    rows = sort_by_owned_order(assigned.expand(), hash_owned_order(assigned, EMPTY_SLICES, topic_hash, num_members))
    if not len(rows):
        return rows
    member_topic = np.append(0, np.cumsum((np.diff(rows.member) != 0) | (np.diff(rows.topic) != 0)))
    partitions = KeyIndex(previous.partition_keys)
    partition = partitions.lookup(rows.partition_keys)
    current_key = np.where(partition < 0, -1, partition * num_members + rows.member)
    previous_key = partitions.lookup(previous.partition_keys) * num_members + previous.member
    distinct, first = np.unique(previous_key, return_index=True)
    match = KeyIndex(distinct).lookup(current_key)
    position = np.where(match < 0, len(previous_key) + np.arange(len(rows)), np.append(first, 0)[match])
    return rows.take(np.lexsort((position, member_topic)))
