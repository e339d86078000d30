"""Groups of the new protocol (KIP-848) that grow, shrink, crash and change their minds, one step at a time.

After every step, when each member is where the broker wants it, a snapshot is taken, and the broker tells its target.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import NewPartitions, NewTopic

from spark_assign.groups.assignors.server.coordinator_hash_order import read_topic_ids
from spark_assign.java.hash_map import spread_hashes
from spark_assign.sources.kafka import groups as kafka_groups
from spark_assign.sources.kafka.cluster_snapshot import snapshot
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.sources.kafka.groups import DESCRIBE_BATCH
from spark_assign.wire.describe_groups import ConsumerGroupDescribeRequest
from tests.kafka import group_members
from tests.kafka.broker import Cluster
from tests.kafka.group_members import Consumer
from tests.kafka.live_groups import Partition, Tables

ASSIGNORS = ("uniform", "range")
# No two names share a bucket of a hash set of so many, nor do their ids, see `create_topics`: which of two came first
# into one, no snapshot knows.
TOPICS = {"k.a": 7, "k.c": 1, "k.orders": 5, "k.carts": 12, "l.users": 4, "l.e": 9, "l.grows": 3}
MISSING = "k.missing"
GROWN = 8
FRESH = ("k.fresh", 5)
"""A topic that comes later; patterns find it."""
RACKS = ("rack-a", "rack-b", "rack-c", None)
PATTERNS = (r"k\..*", r"l\..*", r"[kl]\.[ae]", r"(k|l)\.(carts|grows)")
SETTLE_TIMEOUT_S = 120
PATTERNS_WAIT_S = 11
"""A group that has looked for topics looks for those of another pattern 10 seconds later (`GroupMetadataManager`)."""
_TIMES = {"consumer.heartbeat.interval.ms": "500", "consumer.session.timeout.ms": "15000"}

AWAY = -2
"""The epoch of a static member that has left for a while."""

Owners = dict[tuple[str, str], frozenset[Partition]]
"""Group and member id to partitions, of everybody who has some."""


@dataclass(frozen=True)
class State:
    """All groups, settled: the tables of a snapshot, and the target that the broker describes."""

    tables: Tables
    targets: Owners

    @property
    def members(self) -> dict[tuple[str, str], str]:
        """Group and client id to member id."""
        return {(row["group_id"], row["client_id"]): row["member_id"] for row in self.tables["members"]}


@dataclass
class Group:
    """One group: who is in it, and who is going to be."""

    name: str
    kind: str
    waiting: list[Consumer]
    inside: list[Consumer] = field(default_factory=list)

    def next(self) -> Consumer:
        """The one that joins now."""
        joiner = self.waiting.pop(0)
        self.inside.append(joiner)
        return joiner


def groups(rng: random.Random) -> list[Group]:
    """For each assignor: members that are alike, differ, are static with racks, find topics by a pattern, or both."""
    made = []
    for assignor in ASSIGNORS:
        for kind in ("alike", "differing", "static", "pattern", "patterns"):
            name = f"k-{assignor}-{kind}"
            alike, patterns = _some(rng), rng.sample(PATTERNS, 3)
            one = Consumer(name, "", alike, assignor, "consumer")
            waiting = []
            for number in range(6):
                member = replace(one, client_id=f"c{number}")
                if kind == "differing":
                    member = replace(member, topics=_some(rng))
                elif kind == "static":
                    member = replace(member, instance_id=f"{rng.randrange(100)}-{number}", rack=rng.choice(RACKS))
                elif kind == "pattern":
                    member = replace(member, topics=(), regex=PATTERNS[0])
                elif kind == "patterns" and number % 3:
                    member = replace(member, topics=(), regex=patterns[number % 3])
                waiting.append(member)
            made.append(Group(name, kind, waiting))
    return made


def _reads(member: Consumer, topic: str) -> bool:
    return topic in member.topics if member.regex is None else re.fullmatch(member.regex, topic) is not None


def _waits(group: Group) -> bool:
    """Whether the last one has brought a new pattern to others."""
    *others, last = (member.regex for member in group.inside)
    return last not in (None, *others) and any(others)


def _some(rng: random.Random) -> tuple[str, ...]:
    return tuple(rng.sample([*TOPICS, MISSING], rng.randint(2, 5)))


def describe(cluster: Cluster, names: Iterable[str]) -> dict[str, Any]:
    """ConsumerGroupDescribe of groups, as it comes; those that fail are not in it."""

    def read(ids: Any, answer: Any) -> list[tuple[str, Any]]:
        return [(group.group_id, group) for group in answer.groups if not group.error_code]

    def request(ids: Any) -> ConsumerGroupDescribeRequest:
        return ConsumerGroupDescribeRequest(group_ids=list(ids), include_authorized_operations=False)

    with ClusterConnection(cluster.bootstrap_servers, {}) as connection:
        listed = kafka_groups.listed(connection, None)
        wanted = {name: listed[name] for name in names if name in listed}
        found, _ = kafka_groups.request_per_group(
            connection, wanted, request, read, DESCRIBE_BATCH, "described", lambda _: None
        )
    return found


def settled(
    cluster: Cluster, wanted: Iterable[Group], assigned: Partition | None = None, gone: Collection[str] = ()
) -> State:
    """Wait until every group has these members, all of them at their target, and stays so; then look.

    Args:
        wanted: with those that are inside, and what they subscribe to.
        assigned: what somebody has by then in every group that reads its topic.
        gone: ids that no member has any more.
    """
    groups = {group.name: group for group in wanted}
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    before: object = None
    while time.monotonic() < deadline:
        time.sleep(1.5)
        found = describe(cluster, groups)
        waits_for = {
            name: why for name, group in groups.items() if (why := _unsettled(group, found.get(name), assigned, gone))
        }
        now = {name: described.group_epoch for name, described in found.items()}
        if not waits_for and now == before:
            tables = snapshot(cluster.bootstrap_servers, groups="k-*", topics="[kl].*").tables
            again = describe(cluster, groups)
            if {name: described.group_epoch for name, described in again.items()} == now:
                return State({name: table.to_pylist() for name, table in tables.items()}, _targets(again))
        before = now
    raise AssertionError(f"groups did not settle in {SETTLE_TIMEOUT_S} s: {waits_for}")


def _unsettled(group: Group, described: Any, assigned: Partition | None, gone: Collection[str]) -> str | None:
    """What is waited for; null: nothing."""
    if described is None:
        return "is not there"
    expected = {member.client_id: (set(member.topics), member.regex) for member in group.inside}
    asking = {
        member.client_id: (set(member.subscribed_topic_names), member.subscribed_topic_regex or None)
        for member in described.members
    }
    if described.group_state != "Stable" or asking != expected:
        return f"{described.group_state}, {asking} in place of {expected}"
    if described.assignment_epoch != described.group_epoch:
        return "waits for a new target"
    owned: set[Partition] = set()
    for member in described.members:
        mine = _partitions(member.assignment)
        if member.member_epoch != described.group_epoch or mine != _partitions(member.target_assignment):
            return f"{member.client_id} is not at its target"
        if member.member_id in gone:
            return f"{member.client_id} is not back"
        owned |= mine
    reads = assigned is not None and any(_reads(member, assigned[0]) for member in group.inside)
    return f"has no {assigned}" if reads and assigned not in owned else None


def _wait_until_away(cluster: Cluster, members: Collection[Consumer]) -> None:
    """Until these static members have left for a while: before that, nobody else may have their instance ids."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    there = {(each.group, each.instance_id) for each in members}
    while there:
        assert time.monotonic() < deadline, there
        time.sleep(0.5)
        for name, group in describe(cluster, {each.group for each in members}).items():
            there -= {(name, member.instance_id) for member in group.members if member.member_epoch == AWAY}


def _partitions(assignment: Any) -> frozenset[Partition]:
    return frozenset(
        (topic.topic_name, partition) for topic in assignment.topic_partitions for partition in topic.partitions
    )


def _targets(described: Mapping[str, Any]) -> Owners:
    return {
        (name, member.member_id): partitions
        for name, group in described.items()
        for member in group.members
        if (partitions := _partitions(member.target_assignment))
    }


def create_topics(cluster: Cluster, admin: KafkaAdminClient, topics: Mapping[str, int], like: str) -> None:
    """Once more, those whose ids share a bucket with others, until none does."""
    missing = dict(topics)
    while missing:
        admin.create_topics([NewTopic(name, count, 1) for name, count in missing.items()])
        admin.wait_for_topics(list(missing))
        rows = snapshot(cluster.bootstrap_servers, groups="none", topics=like).tables["topics"].to_pylist()
        hashes = spread_hashes(read_topic_ids([row["topic_id"] for row in rows]).hash)
        of_bucket = {code % 16: row["topic"] for code, row in zip(hashes.tolist(), rows, strict=True)}
        missing = {name: count for name, count in topics.items() if name not in of_bucket.values()}
        if missing:
            admin.delete_topics(list(missing))


def tell(cluster: Cluster, rng: random.Random) -> dict[str, State]:
    """What happens, and the state of all groups after each step."""
    admin = cluster.admin()
    create_topics(cluster, admin, TOPICS, "[kl].*")
    every = groups(rng)
    doomed = {(group.name, rng.choice(group.waiting[:3]).client_id) for group in every}
    for group in every:
        cluster.configure_group(group.name, _TIMES)
    states: dict[str, State] = {}
    with group_members.running(cluster, []) as main, group_members.running(cluster, []) as ending:

        def join(step: str) -> None:
            joiners = [group.next() for group in every]
            dies = [(each.group, each.client_id) in doomed for each in joiners]
            group_members.start(ending, [each for each, dying in zip(joiners, dies, strict=True) if dying])
            group_members.start(main, [each for each, dying in zip(joiners, dies, strict=True) if not dying])
            states[step] = settled(cluster, every)
            if any(map(_waits, every)):
                time.sleep(PATTERNS_WAIT_S)
                states[step] = settled(cluster, every)

        def remove(group: Group, member: Consumer) -> Consumer:
            group.inside.remove(member)
            return member

        for number in range(4):
            join(f"joined {number}")
        ending.kill()
        ending.wait()
        for group in every:
            group.inside = [each for each in group.inside if (group.name, each.client_id) not in doomed]
        states["crashed"] = settled(cluster, every)
        join("joined 4")
        leaving = [remove(group, rng.choice(group.inside)) for group in every]
        group_members.order(main, "leave_for_good", leaving)
        states["left"] = settled(cluster, every)
        admin.create_partitions({"l.grows": NewPartitions(GROWN)})
        states["grown"] = settled(cluster, every, ("l.grows", GROWN - 1))
        returning = [group.inside[0] for group in every if group.kind == "static"]
        ids = {states["grown"].members[each.group, each.client_id] for each in returning}
        group_members.leave(main, returning)
        _wait_until_away(cluster, returning)
        group_members.start(main, returning)
        states["returned"] = settled(cluster, every, gone=ids)
        for group in every:
            if not group.inside[-1].regex:
                group.inside[-1] = replace(group.inside[-1], topics=_some(rng))
                group_members.order(main, "subscribe", [group.inside[-1]])
        states["subscribed"] = settled(cluster, every)
        join("joined 5")
        admin.create_topics([NewTopic(FRESH[0], FRESH[1], 1)])
        states["created"] = settled(cluster, every, (FRESH[0], FRESH[1] - 1))
    admin.close()
    return states
