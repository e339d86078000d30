"""Computes cross-zone traffic from the racks of members and replicas, and recommends how a group should read.

A member reads from the preferred leader, the first replica of a partition. With follower fetching (KIP-392), it reads
from a replica in its own rack if there is one, and otherwise from the leader: `RackAwareReplicaSelector` selects the
leader if it is in that rack, else the most caught-up in-sync replica there.

Example: the leader is in rack a, followers are in b and c. A member in b reads across zones, but not with follower
fetching; a member in d does in both cases. For a member without a rack, it is unknown.

The cheapest option sets the measure. Of all options that cost less than `min_savings` per day more, the one with the
fewest changes is recommended, in this order: the current option; follower fetching with the current owners, which moves
nothing; the fewest moved partitions; the assignor that the group runs with; the order of the options. Assignors that
aren't part of Kafka (`RACK_SERVER_ASSIGNORS`) are listed but never recommended.

Example: today costs 40.00 a day, follower fetching 0.00, cooperative-sticky with follower fetching 0.00. The second is
recommended, because it moves nothing.
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

SECONDS_PER_DAY = 86_400
MAX_DAILY_BYTES = 10**18
"""Maximum number of bytes per day that a group can read (an exabyte); sums up to here are exact integers."""


@dataclass(frozen=True)
class PartitionRacks:
    """Racks and traffic of all partitions, topic by topic; racks are indexes into `GroupSpecs.racks`.

    Attributes:
        start: index of partition 0 of each topic, and the total at the end.
        leader: rack of the preferred leader of each partition; -1 if unknown.
        near: `near[set, rack]`, whether a rack is in a set of racks.
        replicas: index of the set of racks with a replica of each partition; 0: unknown.
        read: bytes per day that a group which owns the partition reads; -1 if unknown.
    """

    start: IntArray
    leader: IntArray
    near: BoolArray
    replicas: IntArray
    read: IntArray

    def partition_indexes(self, slices: PartitionSlices) -> tuple[IntArray, IntArray]:
        """Returns the member and the partition index of every existing partition in these slices."""
        rows = slices.expand()
        index = self.start[rows.topic] + rows.first
        exists = (rows.first >= 0) & (index < self.start[rows.topic + 1])
        return rows.member[exists], index[exists]


def read_partition_racks(specs: GroupSpecs) -> PartitionRacks:
    """Returns the racks and the traffic of all partitions, from the facts and the loads."""
    partitions = np.maximum(specs.topics.partitions, 0)
    start = np.append(0, np.cumsum(partitions))
    replicas = np.zeros(int(start[-1]), np.int64)
    for topic, sets in specs.rack_set.items():
        replicas[start[topic] : start[topic] + len(sets)] = sets
    near = np.array([[rack in rack_set for rack in range(len(specs.racks))] for rack_set in specs.rack_sets], bool)
    rate = specs.loads.in_bytes_per_second
    known = np.isfinite(rate) & (rate >= 0)
    bytes_per_day = np.rint(np.minimum(np.where(known, rate, 0) * SECONDS_PER_DAY, MAX_DAILY_BYTES)).astype(np.int64)
    near = near.reshape(len(specs.rack_sets), len(specs.racks))
    return PartitionRacks(start, _leader_racks(specs, start), near, replicas, np.where(known, bytes_per_day, -1))


def _leader_racks(specs: GroupSpecs, start: IntArray) -> IntArray:
    """Returns the rack of the preferred leader of each partition; -1 if unknown."""
    facts, topics = specs.facts, specs.topics
    leader = np.full(int(start[-1]), -1, np.int64)
    group = np.full(facts.num_groups, -1, np.int64)
    group[specs.fact_group_index] = np.arange(specs.num_groups)
    size = max(len(facts.topic_names), 1)
    rows = facts.rows_by_kind[REPLICA_RACKS]
    rows = rows[group[facts.group_index[rows]] >= 0]
    topic = KeyIndex(topics.group * size + topics.name).lookup(
        group[facts.group_index[rows]] * size + facts.topic_index[rows]
    )
    rows, topic = rows[topic >= 0], topic[topic >= 0]
    partitions_at, racks = facts.column("at", rows), facts.column("leader_racks", rows)
    if not len(racks.flatten()):
        return leader
    topic = np.repeat(topic, to_int_array(partitions_at.value_lengths(), 0))
    partition = to_int_array(partitions_at.flatten(), -1)
    coded = racks.flatten().dictionary_encode()
    known = {name: rack for rack, name in enumerate(specs.racks)}
    rack = np.array([known.get(name, -1) for name in coded.dictionary.to_pylist()] + [-1], np.int64)
    rack = rack[to_int_array(coded.indices, -1)]
    exists = (partition >= 0) & (partition < topics.partitions[topic])
    leader[start[topic[exists]] + partition[exists]] = rack[exists]
    return leader


@dataclass(frozen=True)
class CrossZoneTraffic:
    """Traffic of each group, for the partitions that its members own; bytes are per day. Shape of all: (num_groups,).

    Attributes:
        partitions: number of owned partitions.
        without_bytes: number of partitions without known traffic; all other figures exclude them.
        without_rack: number of partitions for which an unknown rack decides whether they are read across zones.
        read: bytes read.
        crosses: bytes that certainly cross a zone.
        unknown: bytes that might cross a zone.
    """

    partitions: IntArray
    without_bytes: IntArray
    without_rack: IntArray
    read: IntArray
    crosses: IntArray
    unknown: IntArray


def cross_zone_traffic(
    specs: GroupSpecs, racks: PartitionRacks, slices: PartitionSlices
) -> tuple[CrossZoneTraffic, CrossZoneTraffic]:
    """Returns the cross-zone traffic if members own these slices, without and with follower fetching."""
    member, index = racks.partition_indexes(slices)
    group, rack, leader = specs.members.group[member], specs.members.rack[member], racks.leader[index]
    size = racks.read[index]
    known = size >= 0
    same_rack, unknown_rack = rack == leader, (rack < 0) | (leader < 0)
    has_replica = np.zeros(len(index), bool)
    if racks.near.shape[1]:
        has_replica = racks.near[racks.replicas[index], np.maximum(rack, 0)] & (rack >= 0)

    def total(mask: BoolArray) -> IntArray:
        return np.bincount(group[mask], minlength=specs.num_groups)

    def added(mask: BoolArray) -> IntArray:
        sums = np.zeros(specs.num_groups, np.int64)
        np.add.at(sums, group[mask], size[mask])  # integer sums don't depend on the order
        return sums

    def traffic(unknown_rack: BoolArray, far: BoolArray) -> CrossZoneTraffic:
        return CrossZoneTraffic(
            partitions=total(np.ones(len(index), bool)),
            without_bytes=total(~known),
            without_rack=total(unknown_rack),
            read=added(known),
            crosses=added(known & far),
            unknown=added(known & unknown_rack),
        )

    far = ~same_rack & ~unknown_rack
    return traffic(unknown_rack, far), traffic(unknown_rack & ~has_replica, far & ~has_replica)


CURRENT = "today"
"""Stands for the current owners, instead of an assignor."""


@dataclass(frozen=True)
class ReadOption:
    """One option of a group to read its partitions.

    Attributes:
        assignor: name of an assignor, or `CURRENT`.
        fetching: whether follower fetching is on.
        partitions: number of partitions with an owner.
        moved: number of partitions with another owner than today.
        cost: cost per day; `None` if unknown.
        rejected: why the option doesn't exist; `None` if it does.
    """

    assignor: str
    fetching: bool
    partitions: int
    moved: int
    cost: float | None
    rejected: str | None = None


@dataclass(frozen=True)
class GroupContext:
    """Further facts about a group.

    Attributes:
        fetching: whether follower fetching is on today.
        runs_with: the assignor that the group runs with; `None` if unknown.
        members, without_rack: number of members, and of members without a rack.
        without_bytes: number of partitions without known traffic.
        currency: currency of the costs.
        min_savings: minimum savings of a change per day.
    """

    fetching: bool
    runs_with: str | None
    members: int
    without_rack: int
    without_bytes: int
    currency: str
    min_savings: float


def recommend(options: Sequence[ReadOption], context: GroupContext) -> tuple[int | None, list[str]]:
    """Returns the index of the recommended option (`None` if unknown), and the reason for every option."""
    current = next(option for option in options if _is_current(option, context))
    if current.cost is None or not current.partitions:
        reason = _unknown_reason(current, context)
        return None, [option.rejected or reason for option in options]
    valid = [index for index, option in enumerate(options) if option.cost is not None and option.rejected is None]
    valid = [index for index in valid if options[index].partitions >= current.partitions]
    valid = [index for index in valid if options[index].assignor not in RACK_SERVER_ASSIGNORS]
    least = min(options[index].cost or 0.0 for index in valid)
    limit = context.min_savings
    cheap = [index for index in valid if (options[index].cost or 0.0) - least < limit or options[index].cost == least]
    best = min(cheap, key=lambda index: (_change(options[index], context), index))
    reasons = [_reason(option, index == best, current, options[best], context) for index, option in enumerate(options)]
    return best, reasons


def _is_current(option: ReadOption, context: GroupContext) -> bool:
    return option.assignor == CURRENT and option.fetching == context.fetching


def _change(option: ReadOption, context: GroupContext) -> tuple[bool, bool, int, bool]:
    reassigned = option.assignor != CURRENT
    switched = reassigned and option.assignor != context.runs_with
    return not _is_current(option, context), reassigned, option.moved, switched


def _unknown_reason(current: ReadOption, context: GroupContext) -> str:
    if not context.members:
        return "It has no members: it reads nothing"
    if not current.partitions:
        return "Who has what is not known: give owned or owned_slices"
    if context.without_bytes >= current.partitions:
        return "How many bytes are read is not known: give loads.in_bytes_per_second"
    if context.without_rack:
        return f"{context.without_rack:,} of {context.members:,} members have no rack: set client.rack"
    return "Leaders are on brokers without a rack: set broker.rack"


def _reason(option: ReadOption, chosen: bool, current: ReadOption, best: ReadOption, context: GroupContext) -> str:
    if option.rejected is not None:
        return option.rejected
    if option.cost is None or current.cost is None:
        return "What it costs is not known, as some racks are not"
    saved = current.cost - option.cost
    money = f"{abs(saved):,.2f} {context.currency} a day"
    if chosen and _is_current(option, context):
        savings = f"{context.min_savings:,.2f} {context.currency} a day"
        return f"No way saves {savings}" if current.cost else "Nothing crosses a zone"
    if chosen:
        return f"Saves {money}, {_moves_text(option)}"
    if option.partitions < current.partitions:
        return "Fewer partitions would have an owner"
    if saved < 0:
        return f"Costs {money} more than today"
    if option.assignor in RACK_SERVER_ASSIGNORS:
        return f"Would save {money}, and Kafka has no such assignor"
    extra = option.cost - (best.cost or 0.0)
    if extra >= context.min_savings and extra > 0:
        return f"Costs {extra:,.2f} {context.currency} a day more than {option_text(best)}"
    return f"Saves no more than {option_text(best)}, which changes less"


def _moves_text(option: ReadOption) -> str:
    if not option.moved:
        return "and moves nothing"
    return f"and moves {option.moved:,} of {option.partitions:,} partitions once"


def option_text(option: ReadOption) -> str:
    """Returns an option as text."""
    if option.assignor == CURRENT:
        return "follower fetching alone" if option.fetching else "today"
    return f"{option.assignor} with follower fetching" if option.fetching else option.assignor
