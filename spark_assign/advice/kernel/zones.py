"""Computes the cross-zone traffic of every group, as owned today and with other assignors, in one pass over complete
groups.

A result row is tagged by its `kind`:

    option     a read option of a group: its current owners or a rack-aware assignor, with or without follower fetching
    read       what the groups of this task read today of one partition from one rack (null: members without a rack)
    rejected   code, detail: a group that can't be analyzed
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.advice.kernel.cross_zone_traffic import (
    CURRENT,
    GB,
    MAX_DAILY_BYTES,
    SECONDS_PER_DAY,
    CrossZoneTraffic,
    PartitionRacks,
    ZoneParams,
    cross_zone_traffic,
    read_partition_racks,
    recommend,
)
from spark_assign.groups.assignors.server import KAFKA_SERVER_ASSIGNORS, RACK_SERVER_ASSIGNORS, SERVER_ASSIGNORS
from spark_assign.groups.kernel.assign import assign
from spark_assign.groups.kernel.facts import column
from spark_assign.groups.kernel.faults import rejected_table
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.plan_groups import group_key_columns, read_assignors
from spark_assign.groups.kernel.read_specs import PassInput, open_pass
from spark_assign.groups.kernel.tagged_rows import row_schema, tagged, tagged_rows, tagged_table
from spark_assign.java.key_index import take_names
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, mask_from_indexes

OPTION_ROW, READ_ROW, REJECTED = ROW_KINDS = ("option", "read", "rejected")

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


def zone_options(groups: ZoneInput, params: ZoneParams) -> Iterator[pa.Table]:
    """Yields the rejected groups, and the read options of all others."""
    index, opened = groups.specs.fact_group_index, groups.opened
    rejected = opened.rejected | {int(index[group]): fault for group, fault in groups.invalid.items()}
    yield tagged_table(REJECTED, rejected_table(opened.facts, rejected), ZONE_ROWS)
    options = [*_option_rows(groups, params), *_empty_group_rows(groups.opened, params)]
    yield tagged_rows(OPTION_ROW, options, ZONE_ROWS)


TOO_MANY_BYTES = (
    "bad-load",
    f"loads: its partitions have more than {MAX_DAILY_BYTES // SECONDS_PER_DAY:,} bytes a second together. "
    "Give bytes a second",
)


def _exceeds_maximum(specs: GroupSpecs, racks: PartitionRacks) -> BoolArray:
    """Returns which groups would read more than `MAX_DAILY_BYTES`."""
    topic = np.repeat(np.arange(len(specs.topics)), np.diff(racks.start))
    bytes_per_day = np.maximum(racks.read, 0).astype(np.float64)
    total: BoolArray = np.bincount(specs.topics.group[topic], bytes_per_day, specs.num_groups) >= MAX_DAILY_BYTES
    return total


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
    reads = pa.table({**key, "bytes": racks.read[index]}).group_by(list(key), use_threads=False)
    sums = reads.aggregate([("bytes", "sum"), ("bytes", "count")])
    sums = sums.sort_by([(name, "ascending") for name in key])
    names = {
        "cluster": cluster.dictionary,
        "topic": specs.facts.topic_names,
        "rack_id": pa.array(specs.racks, pa.string()),
    }
    columns = {name: take_names(values, sums[name].to_numpy().astype(np.int64)) for name, values in names.items()}
    columns |= {"partition": sums["partition"], "bytes_per_day": sums["bytes_sum"], "groups": sums["bytes_count"]}
    return tagged(READ_ROW, columns, len(sums), ZONE_ROWS)
