"""The sticky assignors' choice between their two algorithms, for many groups at once.

Where all members subscribe to the same topics the constrained one plans (`constrained`, with racks
`racks`), elsewhere the general one (`general`). Whether subscriptions are the same is asked in the walk
of the hash map, against the first that is not empty: members without subscription that come before it are overlooked,
and are given partitions as if they had asked for them (`AbstractStickyAssignor.allSubscriptionsEqual`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spark_assign.kernels.arrays import Flags, Ints
from spark_assign.kernels.runs import Runs
from spark_assign.kernels.sticky.balance import Subscribers
from spark_assign.kernels.sticky.claims import Claims, settle
from spark_assign.kernels.sticky.constrained import plan_constrained
from spark_assign.kernels.sticky.general import earlier_claims, plan_general
from spark_assign.kernels.sticky.groups import Decided, Groups
from spark_assign.kernels.sticky.racks import Racks, plan_with_racks

EVERYONE = -1
"""The class of subscribers that are all members of their group."""


@dataclass(frozen=True)
class Batch:
    """Groups 0, 1, … with all that the sticky assignors look at.

    Attributes:
        groups: members and topics with metadata.
        claimed_in: of each member the generation that its claims are of; -1 for none.
        generation: of each member its subscription's generation; -1 for none.
        claims: what members own of topics with metadata.
        topic_class: of each topic the class of its subscribers.
        topic_hash: of each topic its `String.hashCode`.
        other_classes: group and class of subscribed topics without metadata.
        classes: of each class but `EVERYONE` the members.
        rack: of each member its rack; -1 for none.
        rack_sets: the sets of racks that partitions have replicas in; the first is empty.
        rack_set: of topics with known racks, of each partition the number of its set.
    """

    groups: Groups
    claimed_in: Ints
    generation: Ints
    claims: Runs
    topic_class: Ints
    topic_hash: Ints
    other_classes: Sequence[tuple[int, int]]
    classes: Mapping[int, Ints]
    rack: Ints
    rack_sets: Sequence[frozenset[int]]
    rack_set: Mapping[int, Ints]


def plan_batch(batch: Batch) -> Decided:
    """Plan every group of a batch."""
    groups = batch.groups
    claims = settle(batch.claims, groups.walk, batch.claimed_in, batch.generation)
    alone = _groups_on_their_own(batch)
    if not alone.any():
        return plan_constrained(groups, claims)
    parts = [_together(groups, claims, alone)]
    parts += [_alone(one) for one in _each(batch, claims, alone)]
    refused: dict[int, str] = {}
    for part in parts:
        refused |= part.refused
    runs = Runs(*(np.concatenate(columns) for columns in zip(*(part.runs.columns for part in parts), strict=True)))
    reason = np.concatenate([part.reason for part in parts])
    return Decided(runs, reason, np.concatenate([part.withheld for part in parts]), refused)


def take_groups(batch: Batch, chosen: Flags) -> Batch:
    """Some groups of a batch, as a batch of its own."""
    groups = batch.groups
    members = np.flatnonzero(chosen[groups.member_group])
    topics = np.flatnonzero(chosen[groups.topic_group])
    number = np.cumsum(chosen) - 1
    mine = batch.claims.where(chosen[groups.topic_group[batch.claims.topic]])
    return Batch(
        groups=_part(groups, members, topics, number),
        claimed_in=batch.claimed_in[members],
        generation=batch.generation[members],
        claims=_in_part(mine, members, topics),
        topic_class=batch.topic_class[topics],
        topic_hash=batch.topic_hash[topics],
        other_classes=[(int(number[group]), each) for group, each in batch.other_classes if chosen[group]],
        classes={
            each: np.searchsorted(members, asked)
            for each, asked in batch.classes.items()
            if chosen[groups.member_group[asked[0]]]
        },
        rack=batch.rack[members],
        rack_sets=batch.rack_sets,
        rack_set={at: batch.rack_set[topic] for at, topic in enumerate(topics.tolist()) if topic in batch.rack_set},
    )


def _groups_on_their_own(batch: Batch) -> Flags:
    """Groups that may need another algorithm than the constrained one without racks."""
    groups = batch.groups
    alone = np.zeros(groups.number, bool)
    alone[groups.member_group[batch.rack >= 0]] = True
    alone[groups.topic_group[batch.topic_class != EVERYONE]] = True
    alone[[group for group, subscribers in batch.other_classes if subscribers != EVERYONE]] = True
    return alone


def _together(groups: Groups, claims: Claims, alone: Flags) -> Decided:
    """All groups but some, by the constrained algorithm."""
    members = np.flatnonzero(~alone[groups.member_group])
    topics = np.flatnonzero(~alone[groups.topic_group])
    part = _part(groups, members, topics, np.cumsum(~alone) - 1)
    mine = ~alone[groups.member_group[claims.runs.member]]
    decided = plan_constrained(part, _renumbered(claims, claims.runs.where(mine), members, topics))
    return _named(decided, members, topics, np.flatnonzero(~alone))


@dataclass(frozen=True)
class _One:
    """One group of a batch, with numbers of its own."""

    batch: Batch
    number: int
    members: Ints
    topics: Ints
    groups: Groups
    raw: Runs
    claims: Claims


def _each(batch: Batch, claims: Claims, alone: Flags) -> Iterator[_One]:
    groups = batch.groups
    raw_group = groups.member_group[batch.claims.member]
    settled_group = groups.member_group[claims.runs.member]
    raw_order, order = np.argsort(raw_group, kind="stable"), np.argsort(settled_group, kind="stable")
    raw_group, settled_group = raw_group[raw_order], settled_group[order]
    zero = np.zeros(groups.number, np.int64)

    def rows_of(sorted_groups: Ints, number: int) -> slice:
        return slice(*np.searchsorted(sorted_groups, [number, number + 1]).tolist())

    for number in np.flatnonzero(alone).tolist():
        members = np.arange(len(groups.member_group))[rows_of(groups.member_group, number)]
        topics = np.arange(len(groups.topic_group))[rows_of(groups.topic_group, number)]
        raw = batch.claims.where(raw_order[rows_of(raw_group, number)])
        mine = claims.runs.where(order[rows_of(settled_group, number)])
        yield _One(
            batch,
            number,
            members,
            topics,
            _part(groups, members, topics, zero),
            _in_part(raw, members, topics),
            _renumbered(claims, mine, members, topics),
        )


def _part(groups: Groups, members: Ints, topics: Ints, number: Ints) -> Groups:
    return Groups(
        member_group=number[groups.member_group[members]],
        walk=groups.walk[members],
        topic_group=number[groups.topic_group[topics]],
        partitions=groups.partitions[topics],
        cooperative=groups.cooperative,
        crowded=groups.crowded and groups.crowded.part(members),
    )


def _in_part(runs: Runs, members: Ints, topics: Ints) -> Runs:
    return Runs(np.searchsorted(members, runs.member), np.searchsorted(topics, runs.topic), *runs.columns[2:])


def _renumbered(claims: Claims, mine: Runs, members: Ints, topics: Ints) -> Claims:
    contested_topic = claims.contested >> 32
    here = np.isin(contested_topic, topics)
    contested = (np.searchsorted(topics, contested_topic[here]) << 32) | (claims.contested[here] & 0xFFFFFFFF)
    return Claims(_in_part(mine, members, topics), contested)


def _named(decided: Decided, members: Ints, topics: Ints, groups: Ints) -> Decided:
    """A decision in the numbers of the batch."""
    runs = Runs(members[decided.runs.member], topics[decided.runs.topic], *decided.runs.columns[2:])
    refused = {int(groups[group]): why for group, why in decided.refused.items()}
    return Decided(runs, decided.reason, decided.withheld, refused)


def _alone(one: _One) -> Decided:
    """One group, by the algorithm that fits it."""
    batch, members, topics = one.batch, one.members, one.topics
    of_class = _classes(one)
    known = [of_class[int(each)] for each in batch.topic_class[topics]]
    racks = _racks(one)
    if _all_equal(one, of_class):
        decided = plan_with_racks(one.groups, one.claims, racks) if racks else plan_constrained(one.groups, one.claims)
    else:
        earlier = earlier_claims(one.raw, one.groups.walk, batch.claimed_in[members])
        of_topic = np.array(known, bool).reshape(len(topics), len(members))
        subscribers = Subscribers(of_topic, batch.topic_hash[topics], earlier)
        decided = plan_general(one.groups, one.raw, one.claims, subscribers, racks)
    return _named(decided, members, topics, np.array([one.number]))


def _classes(one: _One) -> dict[int, Flags]:
    """Of every class of subscribers in the group, whether each member is in it."""
    batch = one.batch
    used = set(batch.topic_class[one.topics].tolist())
    used |= {subscribers for group, subscribers in batch.other_classes if group == one.number}
    found = {}
    for each in used:
        found[each] = np.full(len(one.members), each == EVERYONE)
        if each != EVERYONE:
            found[each][np.searchsorted(one.members, batch.classes[each])] = True
    return found


def _all_equal(one: _One, of_class: Mapping[int, Flags]) -> bool:
    signature = np.array(list(of_class.values()), bool).reshape(-1, len(one.members)).T[np.argsort(one.groups.walk)]
    subscribed = np.flatnonzero(signature.any(axis=1))
    if not len(subscribed):
        return True
    first = subscribed[0]
    return bool((signature[first:] == signature[first]).all())


def _racks(one: _One) -> Racks | None:
    """Racks, if they matter to the group."""
    batch = one.batch
    of_member = batch.rack[one.members]
    if not (of_member >= 0).any() or not len(one.topics):
        return None
    nowhere = {number: np.zeros(int(partitions), np.int64) for number, partitions in enumerate(one.groups.partitions)}
    known = {
        number: batch.rack_set[topic] for number, topic in enumerate(one.topics.tolist()) if topic in batch.rack_set
    }
    racks = Racks(of_member, batch.rack_sets, nowhere | known)
    return racks if racks.matter else None
