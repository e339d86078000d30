"""Computes the cross-zone traffic of every group, as owned today and with other assignors, in one pass over complete
groups.

A result row is tagged by its `kind`:

    option     a read option of a group: its current owners or a rack-aware assignor, with or without follower fetching
    read       what the groups of this task read today of one partition from one rack (null: members without a rack)
    rejected   code, detail: a group that can't be analyzed
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.assignors.group_facts import column, rejected_table
from spark_assign.assignors.group_specs import GroupSpecs, read_leader_racks
from spark_assign.assignors.server import KAFKA_SERVER_ASSIGNORS, RACK_SERVER_ASSIGNORS, SERVER_ASSIGNORS
from spark_assign.groups.kernel.plan_groups import assign, group_key_columns, read_assignors
from spark_assign.groups.kernel.read_specs import PassInput, open_pass
from spark_assign.groups.kernel.tagged_rows import row_schema, tagged, tagged_rows, tagged_table
from spark_assign.numeric.arrays import BoolArray, IntArray, PartitionSlices, mask_from_indexes, take_names
from spark_assign.tables.parameters import Param

# --- computes cross-zone traffic from the racks of members and replicas, and recommends how a group should read ---
#
# A member reads from the leader: the current one, or the preferred one (the first replica) if that is unknown. With
# follower fetching (KIP-392), it reads from a replica in its own rack if there is one, and otherwise from the leader:
# `RackAwareReplicaSelector` selects the leader if it is in that rack, else the most caught-up in-sync replica there.
#
# Example: the leader is in rack a, followers are in b and c. A member in b reads across zones, but not with follower
# fetching; a member in d does in both cases. For a member without a rack, it is unknown.
#
# The cheapest option is the reference. Of all options that cost less than `min_daily_savings` per day more, the
# one with the fewest changes is recommended, in this order: the current option; follower fetching with the current
# owners, which moves nothing; the fewest moved partitions; the assignor that the group runs with; the order of the
# options. Assignors that aren't part of Kafka (`RACK_SERVER_ASSIGNORS`) are listed but never recommended.
#
# Example: the current option costs 40.00 a day, follower fetching 0.00, cooperative-sticky with follower fetching 0.00.
# The second is recommended, because it moves nothing.


GB = 10**9
"""Bytes of a gigabyte, the unit that clouds charge by."""

SECONDS_PER_DAY = 86_400
MAX_DAILY_BYTES = 10**18
"""A group that reads this number of bytes per day (an exabyte) is rejected. What 9 groups read is below 2^63; sums over
more groups end at the largest long."""


@dataclass(frozen=True)
class PartitionRacks:
    """Racks and traffic of all partitions, topic by topic; racks are indexes into `GroupSpecs.racks`.

    Attributes:
        start: index of partition 0 of each topic, and the total at the end.
        leader: rack of the leader of each partition; -1 if unknown.
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
        price_per_gb: cost per gigabyte (10^9 bytes) of cross-zone traffic. AWS charges the sender and the receiver 0.01
            USD each ("Data Transfer within the same AWS Region" of Amazon EC2 On-Demand Pricing).
        currency: currency of all prices.
        min_daily_savings: minimum savings of a change per day, in `currency`; smaller ones aren't worth the effort.
        follower_fetching: whether brokers have replica.selector.class set to RackAwareReplicaSelector today.

    Examples:
        >>> ZoneParams(price_per_gb=0.01, currency="EUR").min_daily_savings
        0.01
    """

    price_per_gb: Annotated[float, Param(least=0)] = 0.02
    currency: Annotated[str, Param()] = "USD"
    min_daily_savings: Annotated[float, Param(least=0)] = 0.01
    follower_fetching: Annotated[bool, Param()] = False

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


# --- the cross-zone traffic of every group, today and with other assignors ------------------------------------


OPTION_ROW, READ_ROW, REJECTED = ("option", "read", "rejected")

CLIENT_SIDE = ("range", "sticky", "cooperative-sticky")
"""Kafka's rack-aware client assignors, since 3.5 (KIP-881). Round robin isn't rack-aware."""

ZONE_ROWS = row_schema(
    "cluster string, group_id string, assignor string, follower_fetching bool, members int64",
    "members_without_rack int64, partitions int64, partitions_without_bytes int64, partitions_without_rack int64",
    "moved int64, bytes_per_day int64, cross_zone_bytes_per_day int64, cross_zone_bytes_at_least int64",
    "cross_zone_bytes_at_most int64, cross_zone_share double, cost_per_day double, cost_at_least double",
    "cost_at_most double, saved_per_day double, currency string, recommended bool, reason string, topic string",
    "partition int32, rack_id string, groups int64, code string, detail string",
)
"""Schema of the result: a row per option, read, or rejection (`tables.advice`)."""


@dataclass(frozen=True)
class ZoneInput:
    """The groups of a task.

    Attributes:
        opened: the facts, the rejected groups, and the specs of all others.
        racks: racks and traffic of the partitions of the specs.
        invalid: code and detail by index of a group of the specs that can't be analyzed.
    """

    opened: PassInput
    racks: PartitionRacks
    invalid: Mapping[int, tuple[str, str]]

    @property
    def specs(self) -> GroupSpecs:
        """The specs of the groups that aren't rejected."""
        return self.opened.specs

    @property
    def is_valid(self) -> BoolArray:
        """Which groups of the specs can be analyzed. Shape: (num_groups,)."""
        return ~mask_from_indexes(list(self.invalid), self.specs.num_groups)


def read_zone_input(opened: PassInput) -> ZoneInput:
    """Returns the groups of a pass with their racks and traffic."""
    racks = read_partition_racks(opened.specs)
    excessive = np.flatnonzero(_exceeds_maximum(opened.specs, racks)).tolist()
    return ZoneInput(opened, racks, dict.fromkeys(excessive, TOO_MANY_BYTES) | dict(opened.specs.loads.faults))


def measure_traffic(facts: pa.Table, params: ZoneParams) -> Iterator[pa.Table]:
    """Yields the read options and the reads of all groups in the facts, as tables with the columns of `ZONE_ROWS`."""
    groups = read_zone_input(open_pass(facts, action="compare"))
    yield from zone_options(groups, params)
    yield zone_reads(groups)


def measure_reads(facts: pa.Table) -> Iterator[pa.Table]:
    """Yields the reads of all groups in the facts, as tables with the columns of `ZONE_ROWS`."""
    yield zone_reads(read_zone_input(open_pass(facts, action="compare")))


def zone_options(groups: ZoneInput, params: ZoneParams, schema: pa.Schema = ZONE_ROWS) -> Iterator[pa.Table]:
    """Yields the rejected groups, and the read options of all others, with the columns of the schema."""
    index, opened = groups.specs.fact_group_index, groups.opened
    rejected = opened.rejected | {int(index[group]): fault for group, fault in groups.invalid.items()}
    yield tagged_table(REJECTED, rejected_table(opened.facts, rejected), schema)
    options = [*_option_rows(groups, params), *_empty_group_rows(groups.opened, params)]
    yield tagged_rows(OPTION_ROW, options, schema)


TOO_MANY_BYTES = (
    "bad-load",
    f"loads: its partitions have more than {MAX_DAILY_BYTES // SECONDS_PER_DAY:,} bytes a second together, or "
    "members claim the same ones. Give bytes a second",
)


def _exceeds_maximum(specs: GroupSpecs, racks: PartitionRacks) -> BoolArray:
    """Returns which groups would read `MAX_DAILY_BYTES` or more, or do so now, because many members claim the same
    partitions."""
    topic = np.repeat(np.arange(len(specs.topics)), np.diff(racks.start))
    member, claimed = racks.partition_indexes(specs.owned)
    bytes_per_day = np.maximum(racks.read, 0).astype(np.float64)
    once = np.bincount(specs.topics.group[topic], bytes_per_day, specs.num_groups)
    now = np.bincount(specs.members.group[member], bytes_per_day[claimed], specs.num_groups)
    exceeds: BoolArray = np.maximum(once, now) >= MAX_DAILY_BYTES
    return exceeds


def _option_rows(groups: ZoneInput, params: ZoneParams) -> Iterator[dict[str, Any]]:
    """Yields the read options of each group, as rows."""
    specs, racks, valid = groups.specs, groups.racks, groups.is_valid
    current, types = read_assignors(specs), specs.group_values("group_type")
    by_broker = np.array(
        [t == "consumer" or name in SERVER_ASSIGNORS for t, name in zip(types, current, strict=True)], bool
    )
    members = np.bincount(specs.members.group, minlength=specs.num_groups).tolist()
    without_rack = np.bincount(specs.members.group[specs.members.rack < 0], minlength=specs.num_groups).tolist()
    rows_by_group: dict[int, list[dict[str, Any]]] = {group: [] for group in range(specs.num_groups)}
    owner = _owners(racks, specs.owned)
    for name in (CURRENT, *CLIENT_SIDE, *KAFKA_SERVER_ASSIGNORS, *RACK_SERVER_ASSIGNORS):
        chosen = valid if name == CURRENT else valid & (by_broker == (name in SERVER_ASSIGNORS))
        if not chosen.any():
            continue
        assignment = None if name == CURRENT else assign(specs, name, chosen, {})
        slices = specs.owned if assignment is None else assignment.slices
        moved = _moved(specs, racks, owner, slices).tolist()
        for fetching, traffic in enumerate(cross_zone_traffic(specs, racks, slices)):
            for group in np.flatnonzero(chosen).tolist():
                row = {"assignor": name, "follower_fetching": bool(fetching)}
                if assignment is not None and group in assignment.rejected:
                    row["rejected"] = assignment.rejected[group][1]
                else:
                    row |= _traffic_figures(traffic, group, params) | {"moved": moved[group]}
                rows_by_group[group].append(row)
    keys = pa.table(group_key_columns(specs, np.arange(specs.num_groups))).to_pylist()
    for group, rows in rows_by_group.items():
        group_columns = keys[group] | {"currency": params.currency, "members": members[group]}
        rows = [row | group_columns | {"members_without_rack": without_rack[group]} for row in rows]
        if rows:
            _add_recommendation(rows, params, current[group])
        yield from rows


def _traffic_figures(traffic: CrossZoneTraffic, group: int, params: ZoneParams) -> dict[str, Any]:
    """Returns the traffic of one group in bytes and money; unknown values are `None`."""
    partitions, unknown = int(traffic.partitions[group]), int(traffic.without_bytes[group])
    row: dict[str, Any] = {
        "partitions": partitions,
        "partitions_without_bytes": unknown,
        "partitions_without_rack": int(traffic.without_rack[group]),
    }
    if unknown == partitions:
        return row
    total, certain = int(traffic.read[group]), int(traffic.crosses[group])
    upper = certain + int(traffic.unknown[group])
    row |= {"bytes_per_day": total, "cross_zone_bytes_at_least": certain, "cross_zone_bytes_at_most": upper}
    row |= {"cost_at_least": certain / GB * params.price_per_gb, "cost_at_most": upper / GB * params.price_per_gb}
    if certain == upper:
        share = certain / total if total else None
        row |= {"cross_zone_bytes_per_day": certain, "cross_zone_share": share, "cost_per_day": row["cost_at_least"]}
    return row


def _add_recommendation(rows: list[dict[str, Any]], params: ZoneParams, current_assignor: str | None) -> None:
    """Adds to the rows of a group the savings, which option is recommended, and the reason."""
    best, reasons = recommend(rows, params, current_assignor)
    before = next(row.get("cost_per_day") for row in rows if params.is_current(row))
    for index, (row, reason) in enumerate(zip(rows, reasons, strict=True)):
        after = row.get("cost_per_day")
        saved = None if before is None or after is None else before - after
        row |= {"saved_per_day": saved, "recommended": index == best, "reason": reason}


def _empty_group_rows(groups: PassInput, params: ZoneParams) -> Iterator[dict[str, Any]]:
    """Yields a row for each group without members, which reads nothing."""
    for row in groups.empty_groups.tolist():
        option = {name: column(groups.facts.table, name)[row].as_py() for name in ("cluster", "group_id")}
        option |= {"assignor": CURRENT, "follower_fetching": params.follower_fetching, "currency": params.currency}
        rows = [option | {"members": 0, "members_without_rack": 0, "partitions": 0}]
        _add_recommendation(rows, params, None)
        yield from rows


def _owners(racks: PartitionRacks, slices: PartitionSlices) -> IntArray:
    """Returns the owner of each partition; -1 for none."""
    member, index = racks.partition_indexes(slices)
    owner = np.full(len(racks.leader), -1, np.int64)
    np.maximum.at(owner, index, member)
    return owner


def _moved(specs: GroupSpecs, racks: PartitionRacks, owner: IntArray, slices: PartitionSlices) -> IntArray:
    """Returns the number of partitions of each group whose member isn't the current owner."""
    member, index = racks.partition_indexes(slices)
    moved = (owner[index] >= 0) & (owner[index] != member)
    return np.bincount(specs.members.group[member[moved]], minlength=specs.num_groups)


def zone_reads(groups: ZoneInput) -> pa.Table:
    """Returns what is read today, by partition and rack, summed over the groups of a cluster."""
    specs, racks = groups.specs, groups.racks
    member, index = racks.partition_indexes(specs.owned)
    is_known = (racks.read[index] >= 0) & groups.is_valid[specs.members.group[member]]
    member, index = member[is_known], index[is_known]
    topic = np.searchsorted(racks.start, index, "right") - 1
    cluster = specs.cluster.dictionary_encode()
    key = {
        "cluster": cluster.indices.to_numpy(zero_copy_only=False)[specs.members.group[member]],
        "topic": specs.topics.name[topic],
        "partition": index - racks.start[topic],
        "rack_id": specs.members.rack[member],
    }
    size = pa.array(racks.read[index]).cast(pa.decimal128(38))  # a sum of longs over groups would wrap
    reads = pa.table({**key, "bytes": size}).group_by(list(key), use_threads=False)
    sums = reads.aggregate([("bytes", "sum"), ("bytes", "count")])
    sums = sums.sort_by([(name, "ascending") for name in key])
    size = pc.min_element_wise(sums["bytes_sum"], pa.scalar(2**63 - 1, pa.decimal128(38)))
    names = {
        "cluster": cluster.dictionary,
        "topic": specs.facts.topic_names,
        "rack_id": pa.array(specs.racks, pa.string()),
    }
    columns = {name: take_names(values, sums[name].to_numpy().astype(np.int64)) for name, values in names.items()}
    columns |= {"partition": sums["partition"], "bytes_per_day": size.cast(pa.int64()), "groups": sums["bytes_count"]}
    return tagged(READ_ROW, columns, len(sums), ZONE_ROWS)
