"""What it costs to go over to a plan: the rounds after the first, and partition-seconds without consumption.

Every group by several assignors, before and after changes, judged in one pass over whole groups.

The figures are of the end, when everybody has what was withheld from it at first; what the way there costs is in moved,
revoked, rounds and the seconds paused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.comparison.kernel.recommend import figures, judge
from spark_assign.groups.assignors.custom import GroupAssignor
from spark_assign.groups.assignors.release_rules import client_assignor
from spark_assign.groups.assignors.server import SERVER_ASSIGNORS
from spark_assign.groups.kernel import ownership_changes
from spark_assign.groups.kernel.assign import assign
from spark_assign.groups.kernel.client_libraries import Client, count_clients, detect_library, plan_switch
from spark_assign.groups.kernel.convergence import MAX_ROUNDS, is_cooperative, simulate_assignor_rounds
from spark_assign.groups.kernel.facts import GROUP, MEMBER, IndexedFacts, column, index_facts
from spark_assign.groups.kernel.faults import find_faults
from spark_assign.groups.kernel.group_metrics import (
    balance_metrics,
    count_rack_matched,
    count_subscribed_partitions,
    load_metrics,
    read_ownership,
)
from spark_assign.groups.kernel.group_specs import GroupSpecs, read_group_specs
from spark_assign.groups.kernel.heartbeats import count_heartbeats
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.groups.kernel.plan_groups import read_configured_assignors
from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.simulation.kernel.pause_estimates import (
    PauseCounts,
    cooperative_seconds,
    eager_seconds,
    server_seconds,
)
from spark_assign.simulation.kernel.settings import Timing


class TransitionParams(Protocol):
    """By which times pauses are counted, and which assignors plan one group at a time."""

    @property
    def timing(self) -> Timing:
        """What groups are set to."""

    @property
    def custom(self) -> Mapping[str, GroupAssignor]:
        """By name."""


def later_rounds(
    specs: GroupSpecs, assignor: str, fine: BoolArray, custom: Mapping[str, GroupAssignor]
) -> dict[str, Any]:
    """Of each group the rounds, and what the rounds after the first do."""
    later: dict[str, Any] = {name: np.zeros(specs.num_groups, np.int64) for name in ("moved", "revoked")}
    later |= {"rounds": np.ones(specs.num_groups, np.int64), "stable": np.ones(specs.num_groups, bool)}
    rounds = None if assignor in custom else simulate_assignor_rounds(assignor, specs, fine, MAX_ROUNDS)
    for each in rounds or ():
        later["rounds"][each.group], later["stable"][each.group] = each.number, each.stable
        if each.number > 1:
            later["moved"][each.group] += each.moved
            later["revoked"][each.group] += each.revoked
    return later


def seconds_paused(
    specs: GroupSpecs,
    counts: ownership_changes.OwnershipCounts,
    target: PartitionSlices,
    later: Mapping[str, IntArray],
    assignor: str,
    params: TransitionParams,
) -> FloatArray:
    """Of each group the partition-seconds without consumption, expected, until everybody has its part of the target."""
    told = PauseCounts(
        members=np.maximum(np.bincount(specs.members.group, minlength=specs.num_groups), 1),
        partitions=np.bincount(specs.topics.group[target.topic], target.count, specs.num_groups).astype(np.int64),
        living=counts.live_owned_and_assigned,
        kept=counts.kept,
        back=counts.returned,
        later=later["revoked"],
    )
    seconds: Any = cooperative_seconds if is_cooperative(assignor) else eager_seconds
    if assignor in params.custom:
        seconds = eager_seconds
    elif assignor in SERVER_ASSIGNORS:
        seconds = server_seconds
    return np.asarray(seconds(told, params.timing), np.float64)


AS_GIVEN = ""
"""The change of facts that say what was before any change."""

Key = tuple[str, str]
Figures = dict[str, Any]


@dataclass(frozen=True)
class CompareParams:
    """What is compared.

    Attributes:
        assignors: their names, in order.
        changes: the names of the changes. The facts of each have its name in a column `change`; those of `AS_GIVEN`
            are there as well, unless the first change is `as_is`, which then stands for it.
        as_is: the name of the change in which nothing changes, if it is one of them.
        timing: by which pauses are counted.
        custom: assignors that plan one group at a time.
        racks_known: whether the fleet says where replicas are.
        loads_known: whether it says what goes through partitions.
        by_protocol: whether a group is compared only by those that its own protocol has: the broker's, or the clients'.
    """

    assignors: tuple[str, ...]
    changes: tuple[str, ...]
    as_is: str | None
    timing: Timing
    custom: Mapping[str, GroupAssignor] = field(default_factory=dict)
    racks_known: bool = False
    loads_known: bool = False
    by_protocol: bool = False

    def concerns(self, assignor: str, by_broker: bool) -> bool:
        """Whether an assignor is compared in a group, which the broker assigns or not."""
        return not self.by_protocol or (assignor in SERVER_ASSIGNORS) == by_broker


def compare(facts: pa.Table, params: CompareParams, schema: pa.Schema) -> Iterator[pa.Table]:
    """A row per group, assignor and change; columns and units: `tables.groups.COMPARISON`."""
    of_change = split_by_change(facts)
    told = {name: index_facts(of_change[name]) for name in (AS_GIVEN, *params.changes) if name in of_change}
    base = told.get(AS_GIVEN) or told.get(params.as_is or AS_GIVEN)
    faulty = {} if base is None else _by_name(base, find_faults(base))
    listed = set() if base is None else _listed(base)
    configured = {} if base is None else read_configured_assignors(base)
    clients = {} if base is None else _clients(base, configured)
    by_broker = set() if base is None else _by_broker(base, configured)
    for change in params.changes:
        rows = _compared(told[change], params, faulty, by_broker) if change in told else {}
        groups = sorted(listed | set(rows) | set(faulty))
        judged = [
            row
            for group in groups
            for row in _judged(
                group,
                change,
                [name for name in params.assignors if params.concerns(name, group in by_broker)],
                rows.get(group, {}),
                faulty.get(group),
                configured.get(group),
                clients.get(group),
            )
        ]
        yield pa.Table.from_pylist(judged, schema=schema)


def split_by_change(facts: pa.Table) -> dict[str, pa.Table]:
    """The facts of each change."""
    names = pc.unique(facts["change"]).to_pylist()
    return {name: facts.filter(pc.equal(facts["change"], name)).drop_columns(["change"]) for name in names}


def _by_name(told: IndexedFacts, faults: dict[int, tuple[str, str]]) -> dict[Key, tuple[str, str]]:
    return {(told.cluster[group].as_py(), told.group_id[group].as_py()): fault for group, fault in faults.items()}


def _listed(told: IndexedFacts) -> set[Key]:
    """Groups that have members, and consumer groups that are known of."""
    rows = told.rows_by_kind[GROUP]
    kinds = column(told.table, "group_type").take(pa.array(rows, pa.int64())).fill_null("classic").to_pylist()
    known = [row for row, kind in zip(rows.tolist(), kinds, strict=True) if kind in ("classic", "consumer")]
    members = told.rows_by_kind[MEMBER]
    groups = np.unique(told.group_index[np.append(members, np.array(known, np.int64))]).tolist()
    return {(told.cluster[group].as_py(), told.group_id[group].as_py()) for group in groups}


def _clients(told: IndexedFacts, configured: Mapping[Key, str]) -> dict[Key, str]:
    """Of each group the libraries of its members, as `groups.kernel.client_libraries` counts them."""
    rows = told.rows_by_kind[MEMBER]
    columns = [told.column(name, rows).to_pylist() for name in ("cluster", "group_id", "client_id", "member_id")]
    found: dict[Key, list[Client]] = {}
    for cluster, group_id, client_id, member_id in zip(*columns, strict=True):
        client = detect_library(group_id, client_id, member_id, configured.get((cluster, group_id)))
        found.setdefault((cluster, group_id), []).append(client)
    return {group: count_clients(each) for group, each in found.items()}


def _by_broker(told: IndexedFacts, configured: Mapping[Key, str]) -> set[Key]:
    """Groups that the broker assigns (KIP-848)."""
    rows = told.rows_by_kind[GROUP]
    columns = (told.column(name, rows).to_pylist() for name in ("cluster", "group_id", "group_type"))
    found = {(cluster, group_id) for cluster, group_id, kind in zip(*columns, strict=True) if kind == "consumer"}
    return found | {group for group, assignor in configured.items() if assignor in SERVER_ASSIGNORS}


def _compared(
    told: IndexedFacts, params: CompareParams, faulty: Mapping[Key, object], by_broker: set[Key]
) -> dict[Key, dict[str, Figures]]:
    """Of each group what every assignor makes of it."""
    faults = find_faults(told)
    names = list(zip(told.cluster.to_pylist(), told.group_id.to_pylist(), strict=True))
    excluded = set(faults) | {number for number, name in enumerate(names) if name in faulty}
    specs = read_group_specs(told, excluded)
    found: dict[Key, dict[str, Figures]] = {
        names[group]: {name: {"rejected": code, "detail": detail} for name in params.assignors}
        for group, (code, detail) in faults.items()
    }
    keys = [names[group] for group in specs.fact_group_index.tolist()]
    for assignor in params.assignors:
        chosen = np.array([params.concerns(assignor, key in by_broker) for key in keys], bool)
        for key, row in zip(keys, _figures(specs, assignor, chosen, params), strict=True) if chosen.any() else ():
            found.setdefault(key, {})[assignor] = row
    return found


def _figures(specs: GroupSpecs, assignor: str, chosen: BoolArray, params: CompareParams) -> list[Figures]:
    """Of each group of the specs the figures of one assignor, which mean something for those that are chosen."""
    planned = assign(specs, assignor, chosen, params.custom)
    fine = chosen.copy()
    fine[list(planned.rejected)] = False
    target = planned.slices
    counts = count_changes(read_ownership(specs, planned.assigned_now, target.take(planned.withheld), fine))
    later = later_rounds(specs, assignor, fine, params.custom)
    if assignor in SERVER_ASSIGNORS and assignor not in params.custom:
        later["rounds"] = count_heartbeats(specs, planned).of_groups(specs)
    owned = balance_metrics(specs.members.group, specs.num_groups, target)
    columns: dict[str, list[Any]] = {
        name: owned[name].to_pylist() for name in ("members", "partitions", "max_over_mean", "stddev_per_member")
    }
    columns |= {
        "moved": (counts.owned_and_assigned - counts.kept - counts.returned + later["moved"]).tolist(),
        "revoked": (counts.owned - counts.kept + later["revoked"]).tolist(),
        "unassigned": (count_subscribed_partitions(specs) - np.array(columns["partitions"], np.int64)).tolist(),
        "rounds": later["rounds"].tolist(),
        "stable": later["stable"].tolist(),
        "partition_seconds_paused": seconds_paused(specs, counts, target, later, assignor, params).tolist(),
        "rack_matched": count_rack_matched(specs, target, racks_known=params.racks_known).to_pylist(),
    }
    if params.loads_known:
        carried = load_metrics(specs, target)
        columns |= {name: carried[name].to_pylist() for name in _LOAD}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    for group, row in enumerate(rows):
        near, all_of_them = row["rack_matched"], row["partitions"]
        row["cross_rack_share"] = None if near is None or not all_of_them else 1 - near / all_of_them
        if group in planned.rejected:
            row.clear()
            row["rejected"], row["detail"] = planned.rejected[group]
    return rows


_LOAD = ("load_max_over_mean", "drain_seconds")
_FIGURES = (
    *(
        "members",
        "partitions",
        "max_over_mean",
        "stddev_per_member",
        "moved",
        "revoked",
        "unassigned",
        "rounds",
        "stable",
    ),
    *("partition_seconds_paused", "rack_matched", "cross_rack_share", "rejected", "detail"),
    *_LOAD,
)


def _judged(
    group: Key,
    change: str,
    assignors: Sequence[str],
    found: Mapping[str, Figures],
    fault: tuple[str, str] | None,
    now: str | None,
    clients: str | None,
) -> list[Figures]:
    """The rows of one group and change."""
    rows = []
    for assignor in assignors:
        row: Figures = dict.fromkeys(_FIGURES) | {"cluster": group[0], "group_id": group[1]}
        row |= {"assignor": assignor, "change": change}
        if fault is not None:
            row |= {"rejected": fault[0], "detail": fault[1]}
        elif assignor in found:
            row |= found[assignor]
        else:
            row |= {"members": 0, "partitions": 0}  # nobody is left, or nobody was there
        row["configured"] = None if now is None else assignor == now
        rows.append(row)
    verdicts = judge([figures(row) for row in rows], now)
    for row, verdict in zip(rows, verdicts, strict=True):
        row |= {"recommended": verdict.recommended, "reason": verdict.reason, "clients": clients, "runs_with": now}
        to, runs_with = client_assignor(row["assignor"]), None if now is None else client_assignor(now)
        changes = verdict.recommended and to != runs_with
        row["way"] = plan_switch(runs_with, to, clients).text if changes else None
    return rows
