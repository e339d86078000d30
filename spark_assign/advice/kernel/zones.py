"""Computes the cross-zone traffic of every group, as owned today and with other assignors, in one pass over complete
groups.

A result row is tagged by its `kind`:

    way        an option of a group to read: as owned today, or by a rack-aware assignor; with or without follower
               fetching
    read       what the groups of this task read today of one partition from one rack (null: members without a rack)
    rejected   code, detail: a group that can't be analyzed
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.advice.kernel.cross_zone_traffic import (
    CURRENT,
    MAX_DAILY_BYTES,
    SECONDS_PER_DAY,
    CrossZoneTraffic,
    GroupContext,
    PartitionRacks,
    ReadOption,
    cross_zone_traffic,
    read_partition_racks,
    recommend,
)
from spark_assign.groups.assignors.server import SERVER_ASSIGNORS
from spark_assign.groups.kernel.assign import assign
from spark_assign.groups.kernel.facts import column
from spark_assign.groups.kernel.group_properties import read_assignors, read_group_types
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.read_specs import PassInput, open_pass
from spark_assign.groups.kernel.tagged_rows import tagged, tagged_rows, tagged_table
from spark_assign.java.key_index import take_names
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, mask_from_indexes

OPTION_ROW, READ_ROW, REJECTED = ROW_KINDS = ("way", "read", "rejected")

GB = 10**9
"""Bytes of a gigabyte, the unit that clouds charge by."""

CLIENT_SIDE = ("range", "sticky", "cooperative-sticky")
"""Kafka's rack-aware client assignors, since 3.5 (KIP-881). Round robin isn't rack-aware."""

_TEXT, _LONG, _DOUBLE, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
ZONED = pa.schema(
    {
        **dict.fromkeys(("cluster", "group_id", "kind", "assignor"), _TEXT),
        "follower_fetching": _FLAG,
        **dict.fromkeys(("members", "members_without_rack", "partitions"), _LONG),
        **dict.fromkeys(("partitions_without_bytes", "partitions_without_rack", "moved"), _LONG),
        **dict.fromkeys(("bytes_per_day", "cross_zone_bytes_per_day"), _LONG),
        **dict.fromkeys(("cross_zone_bytes_at_least", "cross_zone_bytes_at_most"), _LONG),
        **dict.fromkeys(("cross_zone_share", "cost_per_day", "cost_at_least", "cost_at_most"), _DOUBLE),
        "saved_per_day": _DOUBLE,
        "currency": _TEXT,
        "recommended": _FLAG,
        **dict.fromkeys(("reason", "topic", "rack_id"), _TEXT),
        "partition": pa.int32(),
        "groups": _LONG,
        **dict.fromkeys(("code", "detail"), _TEXT),
    }
)
"""Schema of the result: a row per option, read, or rejection (`tables.advice`)."""


@dataclass(frozen=True)
class ZoneParams:
    """Parameters of a zone analysis.

    Attributes:
        price: cost per gigabyte of cross-zone traffic.
        currency: currency of the price.
        min_savings: minimum savings of a change per day.
        follower_fetching: whether follower fetching is on today.
    """

    price: float
    currency: str
    min_savings: float
    follower_fetching: bool = False


def zones(facts: pa.Table, params: ZoneParams) -> Iterator[pa.Table]:
    """Yields the read options and the reads of all groups in the facts, as tables with the columns of `ZONED`."""
    groups = open_pass(facts, action="compare")
    specs = groups.specs
    yield tagged_table(REJECTED, groups.rejected_groups, ZONED)
    racks = read_partition_racks(specs)
    excessive = np.flatnonzero(_exceeds_maximum(specs, racks)).tolist()
    invalid = dict.fromkeys(excessive, TOO_MANY_BYTES) | dict(specs.loads.faults)
    names = [specs.cluster.to_pylist(), specs.group_id.to_pylist()]
    rejections = [
        {"cluster": names[0][group], "group_id": names[1][group], "code": code, "detail": detail}
        for group, (code, detail) in sorted(invalid.items())
    ]
    yield tagged_rows(REJECTED, rejections, ZONED)
    valid = ~mask_from_indexes(np.array(list(invalid), np.int64), specs.num_groups)
    rows = [row for group in _option_rows(specs, racks, params, valid) for row in group]
    yield tagged_rows(OPTION_ROW, [*rows, *_empty_group_rows(groups, params)], ZONED)
    yield _reads(specs, racks, valid)


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


def _option_rows(
    specs: GroupSpecs, racks: PartitionRacks, params: ZoneParams, valid: BoolArray
) -> list[list[dict[str, Any]]]:
    """Returns the read options of each group, as rows."""
    current = read_assignors(specs)
    by_broker = np.array(
        [
            kind == "consumer" or name in SERVER_ASSIGNORS
            for kind, name in zip(read_group_types(specs), current, strict=True)
        ],
        bool,
    )
    members = np.bincount(specs.members.group, minlength=specs.num_groups).tolist()
    without_rack = np.bincount(specs.members.group[specs.members.rack < 0], minlength=specs.num_groups).tolist()
    rows_by_group: list[list[dict[str, Any]]] = [[] for _ in range(specs.num_groups)]
    owner = _owners(racks, specs.owned)
    for name in (CURRENT, *CLIENT_SIDE, *SERVER_ASSIGNORS):
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
                    row["refused"] = assignment.rejected[group][1]
                else:
                    row |= _traffic_figures(traffic, group, params) | {"moved": moved[group]}
                rows_by_group[group].append(row)
    names = [specs.cluster.to_pylist(), specs.group_id.to_pylist()]
    for group, rows in enumerate(rows_by_group):
        for row in rows:
            row |= {"cluster": names[0][group], "group_id": names[1][group], "currency": params.currency}
            row |= {"members": members[group], "members_without_rack": without_rack[group]}
        if rows:
            _add_recommendation(rows, params, current[group])
    return rows_by_group


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
    row |= {"cost_at_least": certain / GB * params.price, "cost_at_most": upper / GB * params.price}
    if certain == upper:
        share = certain / total if total else None
        row |= {"cross_zone_bytes_per_day": certain, "cross_zone_share": share, "cost_per_day": row["cost_at_least"]}
    return row


def _add_recommendation(rows: list[dict[str, Any]], params: ZoneParams, runs_with: str | None) -> None:
    """Adds to the rows of a group the savings, which option is recommended, and the reason."""
    current = next(
        row for row in rows if row["assignor"] == CURRENT and row["follower_fetching"] == params.follower_fetching
    )
    context = GroupContext(
        fetching=params.follower_fetching,
        runs_with=runs_with,
        members=current["members"],
        without_rack=current["members_without_rack"],
        without_bytes=current.get("partitions_without_bytes", 0),
        currency=params.currency,
        min_savings=params.min_savings,
    )
    options = [
        ReadOption(
            row["assignor"],
            row["follower_fetching"],
            row.get("partitions") or 0,
            row.get("moved") or 0,
            row.get("cost_per_day"),
            row.get("refused"),
        )
        for row in rows
    ]
    best, reasons = recommend(options, context)
    for index, (row, reason) in enumerate(zip(rows, reasons, strict=True)):
        before, after = current.get("cost_per_day"), row.get("cost_per_day")
        row["saved_per_day"] = None if before is None or after is None else before - after
        row |= {"recommended": index == best, "reason": reason}


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


def _reads(specs: GroupSpecs, racks: PartitionRacks, valid: BoolArray) -> pa.Table:
    """Returns what is read today, by partition and rack, summed over the groups of a cluster."""
    member, index = racks.partition_indexes(specs.owned)
    chosen = (racks.read[index] >= 0) & valid[specs.members.group[member]]
    member, index = member[chosen], index[chosen]
    topic = np.searchsorted(racks.start, index, "right") - 1
    partition = index - racks.start[topic]
    cluster = specs.cluster.dictionary_encode()
    cluster_index = cluster.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    key = (cluster_index[specs.members.group[member]], specs.topics.name[topic], partition, specs.members.rack[member])
    order = np.lexsort(key[::-1])
    columns = [column[order] for column in key]
    new = np.ones(len(order), bool)
    if len(order):
        new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    starts = np.flatnonzero(new)
    size = racks.read[index][order]
    clusters, topics, partitions, rack = (column[starts] for column in columns)
    values = {
        "cluster": take_names(cluster.dictionary, clusters),
        "topic": take_names(specs.facts.topic_names, topics),
        "partition": pa.array(partitions),
        "rack_id": take_names(pa.array(specs.racks, _TEXT), rack),
        "bytes_per_day": pa.array(np.add.reduceat(size, starts) if len(starts) else size),
        "groups": pa.array(np.diff(np.append(starts, len(order)))),
    }
    return tagged(READ_ROW, values, len(starts), ZONED)
