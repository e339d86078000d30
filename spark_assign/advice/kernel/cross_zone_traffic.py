"""Where partitions lie, and what is read of them a day: those of all groups, one after the other.

Who reads from where, and what of it crosses a zone.

A member reads from the preferred leader, the first of a partition's replicas. With follower fetching (KIP-392) it reads
from a replica in its own rack where there is one, else from the leader: `RackAwareReplicaSelector` takes the leader if
that is in the rack, else the most caught up of the replicas in sync there.

Example: leader in rack a, followers in b and c. A member in b reads across zones, and with follower fetching it does
not; a member in d does so either way. Of a member whose rack nobody knows it is not known.

Which way of reading a group should have, and why, in words.

The cheapest way is the measure. Of all ways that cost less than `worth` a day more than it, that one is taken which
changes least: the way of today; the owners of today with follower fetching, which moves nothing; then the fewest
partitions that move, the assignor that the group runs with, and the order in which the ways are told. Assignors that
Kafka does not have (`groups.assignors.server.OURS`) are told, and never taken.

Example: today 40.00 a day, follower fetching 0.00, cooperative-sticky with follower fetching 0.00. The second, as it
moves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_assign.groups.assignors.server import RACK_SERVER_ASSIGNORS
from spark_assign.groups.kernel.facts import REPLICA_RACKS
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.java.key_index import KeyIndex, to_int_array
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices

SECONDS_A_DAY = 86_400
MOST = 10**18
"""More bytes a day than this (an exabyte) no group reads; up to here sums are exact whole numbers."""


@dataclass(frozen=True)
class PartitionRacks:
    """Partitions of topics, numbered topic by topic; racks by their names' places in `GroupSpecs.racks`.

    Attributes:
        begin: of each topic the number of its partition 0, and the end.
        leader: of each partition the rack of its preferred leader; -1 where that is not known.
        near: `near[set, rack]`, whether a rack is in a set of racks.
        replicas: of each partition the set of racks in which it has a replica; 0: none is known.
        read: of each partition the bytes that a group which has it reads a day; -1 where that is not known.
    """

    begin: IntArray
    leader: IntArray
    near: BoolArray
    replicas: IntArray
    read: IntArray

    def numbered(self, runs: PartitionSlices) -> tuple[IntArray, IntArray]:
        """Of each partition in these runs that there is: the member, and its number."""
        rows = runs.expand()
        place = self.begin[rows.topic] + rows.first
        there = (rows.first >= 0) & (place < self.begin[rows.topic + 1])
        return rows.member[there], place[there]


def survey(specs: GroupSpecs) -> PartitionRacks:
    """Where the partitions of all groups lie; the facts have the racks of preferred leaders, and loads."""
    partitions = np.maximum(specs.topics.partitions, 0)
    begin = np.append(0, np.cumsum(partitions))
    replicas = np.zeros(int(begin[-1]), np.int64)
    for topic, sets in specs.rack_set.items():
        replicas[begin[topic] : begin[topic] + len(sets)] = sets
    near = np.array([[rack in each for rack in range(len(specs.racks))] for each in specs.rack_sets], bool)
    rate = specs.loads.bytes
    known = np.isfinite(rate) & (rate >= 0)
    a_day = np.rint(np.minimum(np.where(known, rate, 0) * SECONDS_A_DAY, MOST)).astype(np.int64)
    near = near.reshape(len(specs.rack_sets), len(specs.racks))
    return PartitionRacks(begin, _leaders(specs, begin), near, replicas, np.where(known, a_day, -1))


def _leaders(specs: GroupSpecs, begin: IntArray) -> IntArray:
    """Of each partition the rack of its preferred leader."""
    told, topics = specs.facts, specs.topics
    leader = np.full(int(begin[-1]), -1, np.int64)
    number = np.full(told.num_groups, -1, np.int64)
    number[specs.fact_group_index] = np.arange(specs.num_groups)
    size = max(len(told.topic_names), 1)
    rows = told.rows_by_kind[REPLICA_RACKS]
    rows = rows[number[told.group_index[rows]] >= 0]
    topic = KeyIndex(topics.group * size + topics.name).lookup(
        number[told.group_index[rows]] * size + told.topic_index[rows]
    )
    rows, topic = rows[topic >= 0], topic[topic >= 0]
    at, racks = told.column("at", rows), told.column("leader_racks", rows)
    if not len(racks.flatten()):
        return leader
    of = np.repeat(topic, to_int_array(at.value_lengths(), 0))
    partition = to_int_array(at.flatten(), -1)
    coded = racks.flatten().dictionary_encode()
    known = {name: rack for rack, name in enumerate(specs.racks)}
    rack = np.array([known.get(name, -1) for name in coded.dictionary.to_pylist()] + [-1], np.int64)
    rack = rack[to_int_array(coded.indices, -1)]
    there = (partition >= 0) & (partition < topics.partitions[of])
    leader[begin[of[there]] + partition[there]] = rack[there]
    return leader


@dataclass(frozen=True)
class CrossZoneTraffic:
    """Of each group, in bytes a day and in partitions that a member has.

    Attributes:
        partitions: all of them.
        without_bytes: those of which nobody knows how many bytes are read; all figures are of the others.
        without_rack: those where it hangs on a rack that nobody knows whether they are read across zones.
        read: bytes that are read.
        crosses: of these, what crosses a zone for sure.
        unknown: of these, what may or may not.
    """

    partitions: IntArray
    without_bytes: IntArray
    without_rack: IntArray
    read: IntArray
    crosses: IntArray
    unknown: IntArray


def crossing(
    specs: GroupSpecs, ground: PartitionRacks, runs: PartitionSlices
) -> tuple[CrossZoneTraffic, CrossZoneTraffic]:
    """What crosses a zone where members have these partitions: without follower fetching, and with it."""
    member, place = ground.numbered(runs)
    group, rack, leader = specs.members.group[member], specs.members.rack[member], ground.leader[place]
    size = ground.read[place]
    known = size >= 0
    same, hidden = rack == leader, (rack < 0) | (leader < 0)
    has_near = np.zeros(len(place), bool)
    if ground.near.shape[1]:
        has_near = ground.near[ground.replicas[place], np.maximum(rack, 0)] & (rack >= 0)

    def total(some: BoolArray) -> IntArray:
        return np.bincount(group[some], minlength=specs.num_groups)

    def added(some: BoolArray) -> IntArray:
        sums = np.zeros(specs.num_groups, np.int64)
        np.add.at(sums, group[some], size[some])  # whole numbers: in any order the same
        return sums

    def judged(hidden: BoolArray, far: BoolArray) -> CrossZoneTraffic:
        return CrossZoneTraffic(
            partitions=total(np.ones(len(place), bool)),
            without_bytes=total(~known),
            without_rack=total(hidden),
            read=added(known),
            crosses=added(known & far),
            unknown=added(known & hidden),
        )

    far = ~same & ~hidden
    return judged(hidden, far), judged(hidden & ~has_near, far & ~has_near)


CURRENT = "today"
"""In place of an assignor: who has what now."""


@dataclass(frozen=True)
class ReadOption:
    """One way in which a group may read.

    Attributes:
        assignor: or `CURRENT`.
        fetching: whether with follower fetching.
        partitions: that have an owner.
        moved: that have another one than today.
        cost: a day; null where it is not known.
        refused: why there is no such way; null if there is.
    """

    assignor: str
    fetching: bool
    partitions: int
    moved: int
    cost: float | None
    refused: str | None = None


@dataclass(frozen=True)
class GroupContext:
    """What is known of a group besides.

    Attributes:
        fetching: whether it has follower fetching today.
        runs_with: the assignor that it runs with; null: not known.
        members, without_rack: how many, and how many of these have no rack.
        without_bytes: partitions of which no bytes are known.
        currency, worth: what it is paid in, and what a change has to save a day.
    """

    fetching: bool
    runs_with: str | None
    members: int
    without_rack: int
    without_bytes: int
    currency: str
    worth: float


def recommend(ways: Sequence[ReadOption], told: GroupContext) -> tuple[int | None, list[str]]:
    """The place of the way to take, null where nothing can be said, and of every way why (not)."""
    now = next(way for way in ways if _is_now(way, told))
    if now.cost is None or not now.partitions:
        why = _unknown(now, told)
        return None, [way.refused or why for way in ways]
    able = [at for at, way in enumerate(ways) if way.cost is not None and way.refused is None]
    able = [
        at for at in able if ways[at].partitions >= now.partitions and ways[at].assignor not in RACK_SERVER_ASSIGNORS
    ]
    least = min(ways[at].cost or 0.0 for at in able)
    enough = [at for at in able if (ways[at].cost or 0.0) - least < told.worth or ways[at].cost == least]
    best = min(enough, key=lambda at: (_change(ways[at], told), at))
    return best, [_reason(way, at == best, now, ways[best], told) for at, way in enumerate(ways)]


def _is_now(way: ReadOption, told: GroupContext) -> bool:
    return way.assignor == CURRENT and way.fetching == told.fetching


def _change(way: ReadOption, told: GroupContext) -> tuple[bool, bool, int, bool]:
    other = way.assignor != CURRENT
    return not _is_now(way, told), other, way.moved, other and way.assignor != told.runs_with


def _unknown(now: ReadOption, told: GroupContext) -> str:
    if not told.members:
        return "It has no members: it reads nothing"
    if not now.partitions:
        return "Who has what is not known: give owned or owned_runs"
    if told.without_bytes >= now.partitions:
        return "How many bytes are read is not known: give loads.bytes"
    if told.without_rack:
        return f"{told.without_rack:,} of {told.members:,} members have no rack: set client.rack"
    return "Leaders are on brokers without a rack: set broker.rack"


def _reason(way: ReadOption, chosen: bool, now: ReadOption, best: ReadOption, told: GroupContext) -> str:
    if way.refused is not None:
        return way.refused
    if way.cost is None or now.cost is None:
        return "What it costs is not known, as some racks are not"
    saved = now.cost - way.cost
    money = f"{abs(saved):,.2f} {told.currency} a day"
    if chosen and _is_now(way, told):
        return "Nothing crosses a zone" if not now.cost else f"No way saves {told.worth:,.2f} {told.currency} a day"
    if chosen:
        return f"Saves {money}, {_moves(way)}"
    if way.partitions < now.partitions:
        return "Fewer partitions would have an owner"
    if saved < 0:
        return f"Costs {money} more than today"
    if way.assignor in RACK_SERVER_ASSIGNORS:
        return f"Would save {money}, and Kafka has no such assignor"
    beyond = way.cost - (best.cost or 0.0)
    if beyond >= told.worth and beyond > 0:
        return f"Costs {beyond:,.2f} {told.currency} a day more than {name(best)}"
    return f"Saves no more than {name(best)}, which changes less"


def _moves(way: ReadOption) -> str:
    if not way.moved:
        return "and moves nothing"
    return f"and moves {way.moved:,} of {way.partitions:,} partitions once"


def name(way: ReadOption) -> str:
    """A way in words."""
    if way.assignor == CURRENT:
        return "follower fetching alone" if way.fetching else "today"
    return f"{way.assignor} with follower fetching" if way.fetching else way.assignor
