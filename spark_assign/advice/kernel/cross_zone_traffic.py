"""Computes cross-zone traffic from the racks of members and replicas, and recommends how a group should read.

A member reads from the preferred leader, the first replica of a partition. With follower fetching (KIP-392), it reads
from a replica in its own rack if there is one, and otherwise from the leader: `RackAwareReplicaSelector` selects the
leader if it is in that rack, else the most caught-up in-sync replica there.

Example: the leader is in rack a, followers are in b and c. A member in b reads across zones, but not with follower
fetching; a member in d does in both cases. For a member without a rack, it is unknown.

The cheapest option is the reference. Of all options that cost less than `min_daily_savings` per day more, the
one with the fewest changes is recommended, in this order: the current option; follower fetching with the current
owners, which moves nothing; the fewest moved partitions; the assignor that the group runs with; the order of the
options. Assignors that aren't part of Kafka (`RACK_SERVER_ASSIGNORS`) are listed but never recommended.

Example: the current option costs 40.00 a day, follower fetching 0.00, cooperative-sticky with follower fetching 0.00.
The second is recommended, because it moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from spark_assign.groups.assignors.server import RACK_SERVER_ASSIGNORS
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.leader_racks import read_leader_racks
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices

GB = 10**9
"""Bytes of a gigabyte, the unit that clouds charge by."""

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
    rate = specs.loads.in_bytes_per_second
    known = np.isfinite(rate) & (rate >= 0)
    bytes_per_day = np.rint(np.minimum(np.where(known, rate, 0) * SECONDS_PER_DAY, MAX_DAILY_BYTES)).astype(np.int64)
    near = np.zeros((len(specs.rack_sets), len(specs.racks)), bool)
    for index, rack_set in enumerate(specs.rack_sets):
        near[index, list(rack_set)] = True
    return PartitionRacks(start, read_leader_racks(specs, start), near, replicas, np.where(known, bytes_per_day, -1))


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


CURRENT = "current"
"""Stands for the current owners, instead of an assignor."""

Option = Mapping[str, Any]
"""A row of `tables.advice.ZONES`, up to `reason`. `rejected`: why an assignor can't plan the group; missing values are
unknown."""


@dataclass(frozen=True)
class ZoneParams:
    """Parameters of `measure_zone_traffic`.

    Attributes:
        price_per_gb: cost per gigabyte (10^9 bytes) of cross-zone traffic. Default: AWS charges the sender and the
            receiver 0.01 USD each ("Data Transfer within the same AWS Region" of Amazon EC2 On-Demand Pricing).
        currency: currency of the price.
        min_daily_savings: minimum savings of a change per day, in that currency; smaller ones aren't worth the effort.
        follower_fetching: whether brokers have `replica.selector.class` set to `RackAwareReplicaSelector` today.

    Examples:
        >>> ZoneParams(price_per_gb=0.01, currency="EUR").min_daily_savings
        0.01
    """

    price_per_gb: float = 0.02
    currency: str = "USD"
    min_daily_savings: float = 0.01
    follower_fetching: bool = False

    def fault(self) -> str | None:
        """Returns what is invalid; `None` if nothing is."""
        for name in ("price_per_gb", "min_daily_savings"):
            value = getattr(self, name)
            if not isfinite(value) or value < 0:
                return f"{name} is {value}; expected 0 or more"
        return None

    def money(self, amount: float) -> str:
        """Returns an amount per day, as text."""
        return f"{amount:,.2f} {self.currency} a day"

    def is_current(self, option: Option) -> bool:
        """Checks whether an option is what the group does today."""
        return bool(option["assignor"] == CURRENT and option["follower_fetching"] == self.follower_fetching)


def recommend(
    options: Sequence[Option], params: ZoneParams, current_assignor: str | None
) -> tuple[int | None, list[str]]:
    """Returns the index of the recommended option (`None` if unknown), and the reason for every option."""
    current = next(option for option in options if params.is_current(option))
    if current.get("cost_per_day") is None or not current.get("partitions"):
        reason = _unknown_reason(current)
        return None, [option.get("rejected") or reason for option in options]
    costs = {
        index: option["cost_per_day"]
        for index, option in enumerate(options)
        if option.get("cost_per_day") is not None and option["partitions"] >= current["partitions"]
        if option["assignor"] not in RACK_SERVER_ASSIGNORS
    }
    lowest = min(costs.values())

    def changes(index: int) -> tuple[bool, bool, int, bool, int]:
        option = options[index]
        reassigned = option["assignor"] != CURRENT
        switched = reassigned and option["assignor"] != current_assignor
        return not params.is_current(option), reassigned, option["moved"], switched, index

    cheap = [index for index, cost in costs.items() if cost - lowest < params.min_daily_savings or cost == lowest]
    best = min(cheap, key=changes)
    return best, [_reason(option, current, options[best], params) for option in options]


def _unknown_reason(current: Option) -> str:
    members, without_rack = current["members"], current["members_without_rack"]
    if not members:
        return "The group has no members, so it reads nothing"
    if not current["partitions"]:
        return "The owners are unknown. Add the table owned or owned_slices"
    if current["partitions_without_bytes"] >= current["partitions"]:
        return "The traffic is unknown. Add loads.in_bytes_per_second"
    if without_rack:
        return f"{without_rack:,} of {members:,} members have no rack. Set client.rack"
    return "Leaders are on brokers without a rack. Set broker.rack"


def _reason(option: Option, current: Option, best: Option, params: ZoneParams) -> str:
    """Returns why an option is recommended, or why it isn't."""
    if option.get("rejected") is not None:
        return str(option["rejected"])
    if option.get("cost_per_day") is None:
        return "The cost is unknown, because some racks are"
    cost, moved = option["cost_per_day"], option["moved"]
    saved = current["cost_per_day"] - cost
    if option is best and option is current:
        return f"No option saves {params.money(params.min_daily_savings)}" if cost else "No cross-zone traffic"
    if option is best:
        moves = f"moves {moved:,} of {option['partitions']:,} partitions once" if moved else "moves nothing"
        return f"Saves {params.money(saved)}, and {moves}"
    if option["partitions"] < current["partitions"]:
        return "Fewer partitions would have an owner"
    if saved < 0:
        return f"Costs {params.money(-saved)} more than the current option"
    if option["assignor"] in RACK_SERVER_ASSIGNORS:
        return f"Would save {params.money(saved)}, but Kafka has no such assignor"
    extra = cost - best["cost_per_day"]
    if extra >= params.min_daily_savings and extra > 0:
        return f"Costs {params.money(extra)} more than {_option_text(best)}"
    return f"Saves no more than {_option_text(best)}, which changes less"


def _option_text(option: Option) -> str:
    """Returns an option as text."""
    if option["assignor"] == CURRENT:
        return "follower fetching alone" if option["follower_fetching"] else "the current option"
    return f"{option['assignor']} with follower fetching" if option["follower_fetching"] else str(option["assignor"])
