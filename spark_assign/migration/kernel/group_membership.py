"""Classic groups during a rolling upgrade: client configurations, steps, the coordinator's state, and subscriptions.

The broker doesn't report which member leads. This module assumes the first member in the order of Java's `HashMap`: the
coordinator makes it the leader whenever the leader leaves (`ClassicGroup.remove`).

What a member reports when it rejoins depends on its release:
    generation   sticky: in its user data. Cooperative-sticky: not at all up to 2.8.0, in its user data up to 3.3, and
                 in the subscription since 3.4 (which then has it with every assignor)
    rack         since 3.4; assignors use it since 3.5 (KIP-881)
    owned        sticky remembers its assignment as sticky. Cooperative-sticky reads the subscription, in which an eager
                 member (one with an eager assignor in its list) has nothing, because it has revoked everything
    order        sticky: by topic in the order of a `HashMap`; within a topic, kept partitions first, then new ones
A member that has just restarted reports only its rack.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.release_rules import (
    CLIENT_ASSIGNORS,
    LATEST_RULES,
    ReleaseRules,
    parse_release_assignor,
)
from spark_assign.groups.assignors.sticky.retained_partitions import hash_owned_order, sort_by_owned_order
from spark_assign.groups.kernel.client_libraries import COOPERATIVE
from spark_assign.java.key_index import KeyIndex
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import EMPTY_SLICES, PartitionSlices
from spark_assign.simulation.kernel.classic_group import ClassicGroup
from spark_assign.simulation.kernel.classic_group_member import ClassicGroupMember

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
        leader: id of the current leader; `None` if unknown.
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
        self.group.leader_id = leader or self.group.all_members()[0].member_id
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
