"""Compares assignors for every group, before and after what-if changes, in one pass over complete groups.

Figures are of the final state, when withheld partitions are assigned. The cost of the transition is in moved, revoked,
rounds, and the seconds paused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.comparison.kernel.recommend import judge, read_metrics
from spark_assign.groups.assignors.custom import GroupAssignor
from spark_assign.groups.assignors.release_rules import client_assignor
from spark_assign.groups.assignors.server import SERVER_ASSIGNORS
from spark_assign.groups.kernel import ownership_changes
from spark_assign.groups.kernel.assign import assign
from spark_assign.groups.kernel.client_libraries import Client, count_clients, detect_library, plan_switch
from spark_assign.groups.kernel.convergence import MAX_ROUNDS, count_heartbeats, is_cooperative, simulate_rounds
from spark_assign.groups.kernel.facts import GROUP, MEMBER, IndexedFacts, column, index_facts
from spark_assign.groups.kernel.faults import find_faults
from spark_assign.groups.kernel.group_metrics import (
    balance_metrics,
    count_rack_matched,
    count_subscribed_partitions,
    load_metrics,
    read_ownership,
)
from spark_assign.groups.kernel.group_specs import GroupSpecs
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.groups.kernel.plan_groups import read_configured_assignors
from spark_assign.groups.kernel.read_specs import read_group_specs
from spark_assign.numeric.array_types import BoolArray, FloatArray, IntArray
from spark_assign.numeric.partition_slices import PartitionSlices
from spark_assign.simulation.kernel.pause_estimates import (
    PauseCounts,
    cooperative_seconds,
    eager_seconds,
    server_seconds,
)
from spark_assign.simulation.kernel.settings import TimingConfig


class TransitionParams(Protocol):
    """Times for the estimate of pauses, and custom assignors."""

    @property
    def timing(self) -> TimingConfig:
        """The settings of the groups."""

    @property
    def custom(self) -> Mapping[str, GroupAssignor]:
        """Assignors that plan one group at a time, by name."""


def later_rounds(
    specs: GroupSpecs, assignor: str, is_planned: BoolArray, custom: Mapping[str, GroupAssignor]
) -> dict[str, Any]:
    """Returns the number of rounds of each group, whether it is stable, and the moves and revocations after the first
    round."""
    later: dict[str, Any] = {name: np.zeros(specs.num_groups, np.int64) for name in ("moved", "revoked")}
    later |= {"rounds": np.ones(specs.num_groups, np.int64), "stable": np.ones(specs.num_groups, bool)}
    is_one_round = assignor in custom or not is_cooperative(assignor)
    for step in () if is_one_round else simulate_rounds(assignor, specs, is_planned, MAX_ROUNDS):
        later["rounds"][step.group], later["stable"][step.group] = step.number, step.stable
        if step.number > 1:
            later["moved"][step.group] += step.moved
            later["revoked"][step.group] += step.revoked
    return later


def seconds_paused(
    specs: GroupSpecs,
    counts: ownership_changes.OwnershipCounts,
    target: PartitionSlices,
    later: Mapping[str, IntArray],
    assignor: str,
    params: TransitionParams,
) -> FloatArray:
    """Returns the expected partition-seconds of each group without consumption, until every member has its target."""
    pauses = PauseCounts(
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
    return np.asarray(seconds(pauses, params.timing), np.float64)


AS_GIVEN = ""
"""Name of the change of the facts before any change."""

GroupKey = tuple[str, str]
Figures = dict[str, Any]


@dataclass(frozen=True)
class CompareParams:
    """The parameters of a comparison.

    Attributes:
        assignors: names of assignors, in order.
        changes: names of the changes. The facts of a change have its name in the column `change`; those of `AS_GIVEN`
            are
            included too, unless one of the changes is `as_is`, which then replaces it.
        as_is: name of the change that changes nothing, if it is included.
        timing: times for the estimate of pauses.
        custom: assignors that plan one group at a time, by name.
        racks_known: whether the fleet has replicas.
        loads_known: whether the fleet has loads.
        by_protocol: whether a group is compared only with assignors of its own protocol (client or broker).
    """

    assignors: tuple[str, ...]
    changes: tuple[str, ...]
    as_is: str | None
    timing: TimingConfig
    custom: Mapping[str, GroupAssignor] = field(default_factory=dict)
    racks_known: bool = False
    loads_known: bool = False
    by_protocol: bool = False

    def applies(self, assignor: str, by_broker: bool) -> bool:
        """Checks whether an assignor applies to a group; `by_broker`: whether the broker assigns the group."""
        return not self.by_protocol or (assignor in SERVER_ASSIGNORS) == by_broker


def compare(facts: pa.Table, params: CompareParams, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields one row per group, assignor, and change; columns and units: `tables.groups.COMPARISON`."""
    by_change = split_by_change(facts)
    indexed = {name: index_facts(by_change[name]) for name in (AS_GIVEN, *params.changes) if name in by_change}
    base = indexed.get(AS_GIVEN) or indexed.get(params.as_is or AS_GIVEN)
    faulty = {} if base is None else _by_name(base, find_faults(base))
    listed = set() if base is None else _listed_groups(base)
    configured = {} if base is None else read_configured_assignors(base)
    clients = {} if base is None else _clients_by_group(base, configured)
    by_broker = set() if base is None else _broker_groups(base, configured)
    for change in params.changes:
        rows = _figures_by_group(indexed[change], params, faulty, by_broker) if change in indexed else {}
        groups = sorted(listed | set(rows) | set(faulty))
        judged = [
            row
            for group in groups
            for row in _judged_rows(
                group,
                change,
                [name for name in params.assignors if params.applies(name, group in by_broker)],
                rows.get(group, {}),
                faulty.get(group),
                configured.get(group),
                clients.get(group),
            )
        ]
        yield pa.Table.from_pylist(judged, schema=schema)


def split_by_change(facts: pa.Table) -> dict[str, pa.Table]:
    """Returns the facts of each change."""
    names = pc.unique(facts["change"]).to_pylist()
    return {name: facts.filter(pc.equal(facts["change"], name)).drop_columns(["change"]) for name in names}


def _by_name(indexed: IndexedFacts, faults: dict[int, tuple[str, str]]) -> dict[GroupKey, tuple[str, str]]:
    return {(indexed.cluster[group].as_py(), indexed.group_id[group].as_py()): fault for group, fault in faults.items()}


def _listed_groups(indexed: IndexedFacts) -> set[GroupKey]:
    """Returns the groups that have members, and the listed consumer groups."""
    rows = indexed.rows_by_kind[GROUP]
    kinds = column(indexed.table, "group_type").take(pa.array(rows, pa.int64())).fill_null("classic").to_pylist()
    known = [row for row, kind in zip(rows.tolist(), kinds, strict=True) if kind in ("classic", "consumer")]
    members = indexed.rows_by_kind[MEMBER]
    groups = np.unique(indexed.group_index[np.append(members, np.array(known, np.int64))]).tolist()
    return {(indexed.cluster[group].as_py(), indexed.group_id[group].as_py()) for group in groups}


def _clients_by_group(indexed: IndexedFacts, configured: Mapping[GroupKey, str]) -> dict[GroupKey, str]:
    """Returns the client libraries of each group, in the format of `client_libraries.count_clients`."""
    rows = indexed.rows_by_kind[MEMBER]
    columns = [indexed.column(name, rows).to_pylist() for name in ("cluster", "group_id", "client_id", "member_id")]
    found: dict[GroupKey, list[Client]] = {}
    for cluster, group_id, client_id, member_id in zip(*columns, strict=True):
        client = detect_library(group_id, client_id, member_id, configured.get((cluster, group_id)))
        found.setdefault((cluster, group_id), []).append(client)
    return {group: count_clients(clients) for group, clients in found.items()}


def _broker_groups(indexed: IndexedFacts, configured: Mapping[GroupKey, str]) -> set[GroupKey]:
    """Returns the groups that the broker assigns (KIP-848)."""
    rows = indexed.rows_by_kind[GROUP]
    columns = (indexed.column(name, rows).to_pylist() for name in ("cluster", "group_id", "group_type"))
    found = {(cluster, group_id) for cluster, group_id, kind in zip(*columns, strict=True) if kind == "consumer"}
    return found | {group for group, assignor in configured.items() if assignor in SERVER_ASSIGNORS}


def _figures_by_group(
    indexed: IndexedFacts, params: CompareParams, faulty: Mapping[GroupKey, object], by_broker: set[GroupKey]
) -> dict[GroupKey, dict[str, Figures]]:
    """Returns the figures of each assignor for each group."""
    faults = find_faults(indexed)
    names = list(zip(indexed.cluster.to_pylist(), indexed.group_id.to_pylist(), strict=True))
    excluded = set(faults) | {group for group, name in enumerate(names) if name in faulty}
    specs = read_group_specs(indexed, excluded)
    found: dict[GroupKey, dict[str, Figures]] = {
        names[group]: {name: {"rejected": code, "detail": detail} for name in params.assignors}
        for group, (code, detail) in faults.items()
    }
    keys = [names[group] for group in specs.fact_group_index.tolist()]
    for assignor in params.assignors:
        chosen = np.array([params.applies(assignor, key in by_broker) for key in keys], bool)
        for key, row in zip(keys, _figures(specs, assignor, chosen, params), strict=True) if chosen.any() else ():
            found.setdefault(key, {})[assignor] = row
    return found


def _figures(specs: GroupSpecs, assignor: str, chosen: BoolArray, params: CompareParams) -> list[Figures]:
    """Returns the figures of one assignor for each group of the specs; only those of the chosen groups are valid."""
    assignment = assign(specs, assignor, chosen, params.custom)
    is_planned = chosen.copy()
    is_planned[list(assignment.rejected)] = False
    target = assignment.slices
    counts = count_changes(read_ownership(specs, assignment, is_planned))
    later = later_rounds(specs, assignor, is_planned, params.custom)
    if assignor in SERVER_ASSIGNORS and assignor not in params.custom:
        later["rounds"] = count_heartbeats(specs, assignment).of_groups(specs)
    balance = balance_metrics(specs.members.group, specs.num_groups, target)
    columns: dict[str, list[Any]] = {
        name: balance[name].to_pylist() for name in ("members", "partitions", "max_over_mean", "stddev_per_member")
    }
    columns |= {
        "moved": (counts.moved + later["moved"]).tolist(),
        "revoked": (counts.owned - counts.kept + later["revoked"]).tolist(),
        "unassigned": (count_subscribed_partitions(specs) - np.array(columns["partitions"], np.int64)).tolist(),
        "rounds": later["rounds"].tolist(),
        "stable": later["stable"].tolist(),
        "paused_partition_seconds": seconds_paused(specs, counts, target, later, assignor, params).tolist(),
        "rack_matched": count_rack_matched(specs, target, racks_known=params.racks_known).to_pylist(),
    }
    if params.loads_known:
        loads = load_metrics(specs, target)
        columns |= {name: loads[name].to_pylist() for name in _LOAD}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    for group, row in enumerate(rows):
        matched, partitions = row["rack_matched"], row["partitions"]
        row["cross_rack_share"] = None if matched is None or not partitions else 1 - matched / partitions
        if group in assignment.rejected:
            row.clear()
            row["rejected"], row["detail"] = assignment.rejected[group]
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
    *("paused_partition_seconds", "rack_matched", "cross_rack_share", "rejected", "detail"),
    *_LOAD,
)


def _judged_rows(
    group: GroupKey,
    change: str,
    assignors: Sequence[str],
    found: Mapping[str, Figures],
    fault: tuple[str, str] | None,
    configured: str | None,
    clients: str | None,
) -> list[Figures]:
    """Returns the rows of one group and change, with recommendation and reason."""
    rows = []
    for assignor in assignors:
        row: Figures = dict.fromkeys(_FIGURES) | {"cluster": group[0], "group_id": group[1]}
        row |= {"assignor": assignor, "change": change}
        if fault is not None:
            row |= {"rejected": fault[0], "detail": fault[1]}
        elif assignor in found:
            row |= found[assignor]
        else:
            row |= {"members": 0, "partitions": 0}  # no members, before or after the change
        row["configured"] = None if configured is None else assignor == configured
        rows.append(row)
    verdicts = judge([read_metrics(row) for row in rows], configured)
    for row, verdict in zip(rows, verdicts, strict=True):
        row |= {
            "recommended": verdict.recommended,
            "reason": verdict.reason,
            "clients": clients,
            "runs_with": configured,
        }
        to, runs_with = client_assignor(row["assignor"]), None if configured is None else client_assignor(configured)
        changes = verdict.recommended and to != runs_with
        row["way"] = plan_switch(runs_with, to, clients).text if changes else None
    return rows
