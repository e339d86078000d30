"""Groups of the new protocol (KIP-848) that grow, shrink, crash and change their minds, one step at a time.

After every step, when each member is where the broker wants it, a snapshot is taken, and the broker tells its target.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from kafka.admin import NewPartitions

from tests.kafka import consumer_groups, group_members
from tests.kafka.broker import Cluster
from tests.kafka.consumer_groups import AWAY, State, create_topics_apart
from tests.kafka.group_members import Consumer
from tests.kafka.live_groups import create_topics, wait_until
from tests.slices import Partition

ASSIGNORS = ("uniform", "range")
# No two names share a bucket of a hash set of so many, nor do their ids (`create_topics_apart`): which of two came
# first into one, no snapshot knows.
TOPICS = {"k.a": 7, "k.c": 1, "k.orders": 5, "k.carts": 12, "l.users": 4, "l.e": 9, "l.grows": 3}
MISSING = "k.missing"
GROWN = 8
FRESH = ("k.fresh", 5)
"""A topic that comes later; patterns find it."""
RACKS = ("rack-a", "rack-b", "rack-c", None)
PATTERNS = (r"k\..*", r"l\..*", r"[kl]\.[ae]", r"(k|l)\.(carts|grows)")
PATTERNS_WAIT_S = 11
"""A group that has looked for topics looks for those of another pattern 10 seconds later (`GroupMetadataManager`)."""
_TIMES = {"consumer.heartbeat.interval.ms": "500", "consumer.session.timeout.ms": "15000"}


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
    return consumer_groups.settle(cluster, groups, "[kl].*", lambda n, d: _unsettled(groups[n], d, assigned, gone))


def _unsettled(group: Group, described: Any, assigned: Partition | None, gone: Collection[str]) -> str | None:
    """What is waited for; null: nothing."""
    if described is None:
        return "is not there"
    expected = {member.client_id: (set(member.topics), member.regex) for member in group.inside}
    asking = {m.client_id: (set(m.subscribed_topic_names), m.subscribed_topic_regex or None) for m in described.members}
    if described.group_state != "Stable" or asking != expected:
        return f"{described.group_state}, {asking} in place of {expected}"
    if described.assignment_epoch != described.group_epoch:
        return "waits for a new target"
    owned: set[Partition] = set()
    for member in described.members:
        mine = consumer_groups.assigned(member.assignment)
        if member.member_epoch != described.group_epoch or mine != consumer_groups.assigned(member.target_assignment):
            return f"{member.client_id} is not at its target"
        if member.member_id in gone:
            return f"{member.client_id} is not back"
        owned |= mine
    reads = assigned is not None and any(_reads(member, assigned[0]) for member in group.inside)
    return f"has no {assigned}" if reads and assigned not in owned else None


def _wait_until_away(cluster: Cluster, members: Collection[Consumer]) -> None:
    """Until these static members have left for a while: before that, nobody else may have their instance ids."""
    leaving = {(each.group, each.instance_id) for each in members}

    def away() -> bool:
        described = consumer_groups.describe(cluster, {group for group, _ in leaving})
        members = [(name, each) for name, group in described.items() for each in group.members]
        return leaving <= {(name, each.instance_id) for name, each in members if each.member_epoch == AWAY}

    wait_until(away, leaving, every_s=0.5)


def tell(cluster: Cluster, rng: random.Random) -> dict[str, State]:
    """What happens, and the state of all groups after each step."""
    create_topics_apart(cluster, TOPICS, "[kl].*")
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
        group_members.order(main, "leave_for_good", [remove(group, rng.choice(group.inside)) for group in every])
        states["left"] = settled(cluster, every)
        with cluster.admin() as admin:
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
        create_topics(cluster, dict([FRESH]))
        states["created"] = settled(cluster, every, (FRESH[0], FRESH[1] - 1))
    return states
