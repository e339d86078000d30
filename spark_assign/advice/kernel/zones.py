"""What crosses a zone in every group, today and otherwise, in one pass over whole groups.

A row of the answer is tagged by its `kind`:

    way        a way in which a group may read: as owned today, or by an assignor that knows racks; with follower
               fetching, or without
    read       what groups of this task read today of one partition from one rack (null: members without one)
    rejected   code, detail: a group that nothing can be said of
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_assign.advice.kernel.cross_zone_traffic import (
    CURRENT,
    MOST,
    SECONDS_A_DAY,
    CrossZoneTraffic,
    GroupContext,
    PartitionRacks,
    ReadOption,
    crossing,
    recommend,
    survey,
)
from spark_assign.groups.assignors.server import SERVER_ASSIGNORS
from spark_assign.groups.kernel.assign import assign
from spark_assign.groups.kernel.facts import IndexedFacts, column, index_facts
from spark_assign.groups.kernel.faults import find_faults, rejected_table
from spark_assign.groups.kernel.group_properties import find_unsupported_groups, read_assignors, read_group_types
from spark_assign.groups.kernel.group_specs import GroupSpecs, find_empty_groups, read_group_specs
from spark_assign.groups.kernel.tagged_rows import tagged, tagged_rows, tagged_table
from spark_assign.java.key_index import take_names
from spark_assign.numeric.array_types import BoolArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices, mask_from_indexes

OF_WAY, OF_READ, REJECTED = KINDS = ("way", "read", "rejected")

GB = 10**9
"""Clouds charge by gigabytes of so many bytes."""

CLIENT_SIDE = ("range", "sticky", "cooperative-sticky")
"""Kafka's assignors of clients that know racks, from 3.5 on (KIP-881). Round robin does not."""

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
"""Everything that is said of zones, a row per way, read or refusal (`tables.advice`)."""


@dataclass(frozen=True)
class ZoneParams:
    """What is asked.

    Attributes:
        price: of a gigabyte that crosses a zone.
        currency: of the price.
        worth: what a change has to save a day.
        follower_fetching: whether the groups have that today.
    """

    price: float
    currency: str
    worth: float
    follower_fetching: bool = False


def zones(facts: pa.Table, params: ZoneParams) -> Iterator[pa.Table]:
    """Answer for all groups of these facts, in tables with the columns of `ZONED`."""
    told = index_facts(facts)
    faults = find_faults(told, also=("share", "streams"))
    others = find_unsupported_groups(told, "compare")
    yield tagged_table(REJECTED, rejected_table(told, others | faults), ZONED)
    specs = read_group_specs(told, {*faults, *others})
    ground = survey(specs)
    wrong = dict.fromkeys(np.flatnonzero(_beyond(specs, ground)).tolist(), BEYOND) | dict(specs.loads.faults)
    names = [specs.cluster.to_pylist(), specs.group_id.to_pylist()]
    refused = [
        {"cluster": names[0][group], "group_id": names[1][group], "code": code, "detail": detail}
        for group, (code, detail) in sorted(wrong.items())
    ]
    yield tagged_rows(REJECTED, refused, ZONED)
    fine = ~mask_from_indexes(np.array(list(wrong), np.int64), specs.num_groups)
    rows = [row for group in _ways(specs, ground, params, fine) for row in group]
    yield tagged_rows(OF_WAY, [*rows, *_idle(told, {*faults, *others}, params)], ZONED)
    yield _reads(specs, ground, fine)


BEYOND = (
    "bad-load",
    f"loads: its partitions have more than {MOST // SECONDS_A_DAY:,} bytes a second together. Give bytes a second",
)


def _beyond(specs: GroupSpecs, ground: PartitionRacks) -> BoolArray:
    """Groups that would read more than anybody writes."""
    topic = np.repeat(np.arange(len(specs.topics)), np.diff(ground.begin))
    a_day = np.maximum(ground.read, 0).astype(np.float64)
    total: BoolArray = np.bincount(specs.topics.group[topic], a_day, specs.num_groups) >= MOST
    return total


def _ways(specs: GroupSpecs, ground: PartitionRacks, params: ZoneParams, fine: BoolArray) -> list[list[dict[str, Any]]]:
    """Of each group the ways in which it may read, as rows."""
    now = read_assignors(specs)
    by_broker = np.array(
        [
            kind == "consumer" or name in SERVER_ASSIGNORS
            for kind, name in zip(read_group_types(specs), now, strict=True)
        ],
        bool,
    )
    members = np.bincount(specs.members.group, minlength=specs.num_groups).tolist()
    lost = np.bincount(specs.members.group[specs.members.rack < 0], minlength=specs.num_groups).tolist()
    found: list[list[dict[str, Any]]] = [[] for _ in range(specs.num_groups)]
    owner = _owners(ground, specs.owned)
    for name in (CURRENT, *CLIENT_SIDE, *SERVER_ASSIGNORS):
        chosen = fine if name == CURRENT else fine & (by_broker == (name in SERVER_ASSIGNORS))
        if not chosen.any():
            continue
        planned = None if name == CURRENT else assign(specs, name, chosen, {})
        runs = specs.owned if planned is None else planned.slices
        moved = _moved(specs, ground, owner, runs).tolist()
        for fetching, crosses in enumerate(crossing(specs, ground, runs)):
            for group in np.flatnonzero(chosen).tolist():
                row = {"assignor": name, "follower_fetching": bool(fetching)}
                if planned is not None and group in planned.rejected:
                    row["refused"] = planned.rejected[group][1]
                else:
                    row |= _figures(crosses, group, params) | {"moved": moved[group]}
                found[group].append(row)
    names = [specs.cluster.to_pylist(), specs.group_id.to_pylist()]
    for group, rows in enumerate(found):
        for row in rows:
            row |= {"cluster": names[0][group], "group_id": names[1][group], "currency": params.currency}
            row |= {"members": members[group], "members_without_rack": lost[group]}
        if rows:
            _judge(rows, params, now[group])
    return found


def _figures(crosses: CrossZoneTraffic, group: int, params: ZoneParams) -> dict[str, Any]:
    """What crosses in one group, in bytes and in money; null is what nobody knows."""
    partitions, unknown = int(crosses.partitions[group]), int(crosses.without_bytes[group])
    row: dict[str, Any] = {
        "partitions": partitions,
        "partitions_without_bytes": unknown,
        "partitions_without_rack": int(crosses.without_rack[group]),
    }
    if unknown == partitions:
        return row
    total, least = int(crosses.read[group]), int(crosses.crosses[group])
    most = least + int(crosses.unknown[group])
    row |= {"bytes_per_day": total, "cross_zone_bytes_at_least": least, "cross_zone_bytes_at_most": most}
    row |= {"cost_at_least": least / GB * params.price, "cost_at_most": most / GB * params.price}
    if least == most:
        share = least / total if total else None
        row |= {"cross_zone_bytes_per_day": least, "cross_zone_share": share, "cost_per_day": row["cost_at_least"]}
    return row


def _judge(rows: list[dict[str, Any]], params: ZoneParams, runs_with: str | None) -> None:
    """Add to the rows of a group what each saves, which is recommended, and why."""
    now = next(
        row for row in rows if row["assignor"] == CURRENT and row["follower_fetching"] == params.follower_fetching
    )
    about = GroupContext(
        fetching=params.follower_fetching,
        runs_with=runs_with,
        members=now["members"],
        without_rack=now["members_without_rack"],
        without_bytes=now.get("partitions_without_bytes", 0),
        currency=params.currency,
        worth=params.worth,
    )
    ways = [
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
    best, reasons = recommend(ways, about)
    for at, (row, reason) in enumerate(zip(rows, reasons, strict=True)):
        before, after = now.get("cost_per_day"), row.get("cost_per_day")
        row["saved_per_day"] = None if before is None or after is None else before - after
        row |= {"recommended": at == best, "reason": reason}


def _idle(told: IndexedFacts, excluded: set[int], params: ZoneParams) -> Iterator[dict[str, Any]]:
    """Groups without members: nothing is read."""
    for row in find_empty_groups(told, excluded).tolist():
        here = {name: column(told.table, name)[row].as_py() for name in ("cluster", "group_id")}
        here |= {"assignor": CURRENT, "follower_fetching": params.follower_fetching, "currency": params.currency}
        rows = [here | {"members": 0, "members_without_rack": 0, "partitions": 0}]
        _judge(rows, params, None)
        yield from rows


def _owners(ground: PartitionRacks, runs: PartitionSlices) -> IntArray:
    """Of each partition who has it; -1 for nobody."""
    member, place = ground.numbered(runs)
    owner = np.full(len(ground.leader), -1, np.int64)
    np.maximum.at(owner, place, member)
    return owner


def _moved(specs: GroupSpecs, ground: PartitionRacks, owner: IntArray, runs: PartitionSlices) -> IntArray:
    """Of each group the partitions that somebody has who is not the owner."""
    member, place = ground.numbered(runs)
    other = (owner[place] >= 0) & (owner[place] != member)
    return np.bincount(specs.members.group[member[other]], minlength=specs.num_groups)


def _reads(specs: GroupSpecs, ground: PartitionRacks, fine: BoolArray) -> pa.Table:
    """What is read today, by partition and rack: the groups of a cluster together."""
    member, place = ground.numbered(specs.owned)
    chosen = (ground.read[place] >= 0) & fine[specs.members.group[member]]
    member, place = member[chosen], place[chosen]
    topic = np.searchsorted(ground.begin, place, "right") - 1
    partition = place - ground.begin[topic]
    cluster = specs.cluster.dictionary_encode()
    of_group = cluster.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    key = (of_group[specs.members.group[member]], specs.topics.name[topic], partition, specs.members.rack[member])
    order = np.lexsort(key[::-1])
    columns = [each[order] for each in key]
    new = np.ones(len(order), bool)
    if len(order):
        new[1:] = np.logical_or.reduce([each[1:] != each[:-1] for each in columns])
    begins = np.flatnonzero(new)
    size = ground.read[place][order]
    clusters, topics, partitions, racks = (each[begins] for each in columns)
    found = {
        "cluster": take_names(cluster.dictionary, clusters),
        "topic": take_names(specs.facts.topic_names, topics),
        "partition": pa.array(partitions),
        "rack_id": take_names(pa.array(specs.racks, _TEXT), racks),
        "bytes_per_day": pa.array(np.add.reduceat(size, begins) if len(begins) else size),
        "groups": pa.array(np.diff(np.append(begins, len(order)))),
    }
    return tagged(OF_READ, found, len(begins), ZONED)
