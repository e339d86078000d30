"""Compares assignors for every group, before and after what-if changes, in one pass over complete groups.

The metrics describe the final state, when withheld partitions are assigned. The cost of the transition is in `moved`,
`revoked`, `rounds`, and `paused_partition_seconds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.assignors.custom import GroupAssignor
from spark_assign.assignors.group_facts import GROUP, MEMBER, IndexedFacts, find_faults, index_facts
from spark_assign.assignors.group_specs import GroupAssignments, GroupSpecs
from spark_assign.assignors.release_rules import client_assignor
from spark_assign.assignors.server import SERVER_ASSIGNORS
from spark_assign.groups.kernel.client_libraries import Client, count_clients, detect_libraries, leader_client
from spark_assign.groups.kernel.client_settings import MemberChange, find_refusals, member_settings, plan_switch
from spark_assign.groups.kernel.convergence import MAX_ROUNDS, count_heartbeats, is_cooperative, simulate_rounds
from spark_assign.groups.kernel.member_loads import load_metrics
from spark_assign.groups.kernel.ownership_changes import count_changes
from spark_assign.groups.kernel.plan_groups import (
    assign,
    balance_metrics,
    count_rack_matched,
    count_unassigned,
    distribution_metrics,
    read_configured_assignors,
    read_ownership,
)
from spark_assign.groups.kernel.read_specs import read_group_specs
from spark_assign.numeric.arrays import BoolArray, mask_from_indexes, values_by_key
from spark_assign.simulation.kernel.pause_estimates import (
    PauseCounts,
    cooperative_seconds,
    eager_seconds,
    server_seconds,
)
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.tables.errors import count
from spark_assign.tables.quoting import in_text


def _later_rounds(
    specs: GroupSpecs,
    assignor: str,
    first: GroupAssignments,
    is_planned: BoolArray,
    custom: Mapping[str, GroupAssignor],
) -> dict[str, Any]:
    """Returns the number of rounds of each group, whether it is stable, and the moves and revocations after the first
    round."""
    later: dict[str, Any] = {name: np.zeros(specs.num_groups, np.int64) for name in ("moved", "revoked")}
    later |= {"rounds": np.ones(specs.num_groups, np.int64), "stable": np.ones(specs.num_groups, bool)}
    is_one_round = assignor in custom or not is_cooperative(assignor)
    for step in () if is_one_round else simulate_rounds(assignor, specs, is_planned, MAX_ROUNDS, first):
        later["rounds"][step.group], later["stable"][step.group] = step.number, step.stable
        if step.number > 1:
            later["moved"][step.group] += step.moved
            later["revoked"][step.group] += step.revoked
    return later


def transition_costs(
    specs: GroupSpecs,
    assignor: str,
    assignments: GroupAssignments,
    is_planned: BoolArray,
    timing: TimingConfig,
    custom: Mapping[str, GroupAssignor],
) -> dict[str, Any]:
    """Returns the cost of the transition of each group to its target, in all rounds.

    The columns are those of `tables.comparison.COMPARISON`: moved, revoked, rounds, stable, and
    paused_partition_seconds, the expected partition-seconds without consumption until every member has its target.
    """
    counts, target = count_changes(read_ownership(specs, assignments, is_planned)), assignments.slices
    later = _later_rounds(specs, assignor, assignments, is_planned, custom)
    pauses = PauseCounts(
        members=np.maximum(np.bincount(specs.members.group, minlength=specs.num_groups), 1),
        partitions=np.bincount(specs.topics.group[target.topic], target.count, specs.num_groups).astype(np.int64),
        living=counts.live_owned_and_assigned,
        kept=counts.kept,
        back=counts.returned,
        later=later["revoked"],
    )
    estimate = eager_seconds
    if assignor not in custom and assignor in SERVER_ASSIGNORS:
        estimate = server_seconds
    elif assignor not in custom and is_cooperative(assignor):
        estimate = cooperative_seconds
    return later | {
        "moved": counts.moved + later["moved"],
        "revoked": counts.owned - counts.kept + later["revoked"],
        "paused_partition_seconds": np.asarray(estimate(pauses, timing), np.float64),
    }


_DISTRIBUTION = ("topic_max_over_mean", "members_without_partitions", "note")
"""Columns of `distribution_metrics` in a comparison, whose other metrics describe the final state anyway."""

AS_GIVEN = ""
"""Value of the column `what_if` of the facts before any change."""

GroupKey = tuple[str, str]
Row = dict[str, Any]


@dataclass(frozen=True)
class CompareParams:
    """The parameters of a comparison.

    Attributes:
        assignors: names of assignors, in order.
        what_ifs: names of the changes, the values of the column `what_if` of the facts. The facts of `AS_GIVEN` are
            included, too, unless one of the changes is `as_is`, which replaces it.
        as_is: name of the change that changes nothing, if it is included.
        timing: times for the estimate of pauses.
        custom: assignors that plan one group at a time, by name.
        racks_known: whether the fleet has replicas.
        loads_known: whether the fleet has loads.
        by_protocol: whether a group is compared only with assignors of its own protocol (client or broker).
    """

    assignors: tuple[str, ...]
    what_ifs: tuple[str, ...]
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
    """Yields one row per group, assignor, and change; columns and units: `tables.comparison.COMPARISON`."""
    names = pc.unique(facts["what_if"]).to_pylist()
    indexed = {
        name: index_facts(facts.filter(pc.equal(facts["what_if"], name)).drop_columns(["what_if"])) for name in names
    }
    base = indexed.get(AS_GIVEN) or indexed.get(params.as_is or AS_GIVEN)
    known = _KnownGroups() if base is None else _read_known_groups(base)
    for what_if in params.what_ifs:
        metrics = _metrics_by_group(indexed[what_if], params, known) if what_if in indexed else {}
        rows = [
            row
            for key in sorted({*known.groups, *metrics, *known.faults})
            for row in _compare_group(key, what_if, metrics.get(key, {}), params, known)
        ]
        yield pa.Table.from_pylist(rows, schema=schema)


@dataclass(frozen=True)
class _KnownGroups:
    """What is known about the groups before any change, by group.

    Attributes:
        groups: groups that have members, and listed consumer groups.
        faults: code and detail of the faulty groups.
        assignors: current assignors.
        client_libraries: libraries of the members (`client_libraries.count_clients`).
        server_side: groups that the broker assigns (KIP-848).
    """

    groups: frozenset[GroupKey] = frozenset()
    faults: Mapping[GroupKey, tuple[str, str]] = field(default_factory=dict)
    assignors: Mapping[GroupKey, str] = field(default_factory=dict)
    client_libraries: Mapping[GroupKey, str] = field(default_factory=dict)
    server_side: frozenset[GroupKey] = frozenset()


def _read_known_groups(indexed: IndexedFacts) -> _KnownGroups:
    """Returns what is known of the groups in these facts before any of them is planned."""
    names = list(zip(indexed.cluster.to_pylist(), indexed.group_id.to_pylist(), strict=True))
    assignors = read_configured_assignors(indexed)
    rows = indexed.rows_by_kind[GROUP]
    types = list(zip(indexed.group_index[rows].tolist(), indexed.column("group_type", rows).to_pylist(), strict=True))
    listed = {names[group] for group in np.unique(indexed.group_index[indexed.rows_by_kind[MEMBER]]).tolist()}
    server_side = {names[group] for group, kind in types if kind == "consumer"}
    return _KnownGroups(
        frozenset(listed | {names[group] for group, kind in types if kind in (None, "classic", "consumer")}),
        {names[group]: fault for group, fault in find_faults(indexed).items()},
        assignors,
        _client_libraries(indexed, assignors),
        frozenset(server_side | {key for key, assignor in assignors.items() if assignor in SERVER_ASSIGNORS}),
    )


def _client_libraries(indexed: IndexedFacts, assignors: Mapping[GroupKey, str]) -> dict[GroupKey, str]:
    rows, group_rows = indexed.rows_by_kind[MEMBER], indexed.rows_by_kind[GROUP]
    names = ("cluster", "group_id", "leader_library", "leader_confidence")
    groups = zip(*(indexed.column(name, group_rows).to_pylist() for name in names), strict=True)
    leaders = {(cluster, group_id): leader_client(*leader) for cluster, group_id, *leader in groups}
    columns = [indexed.column(name, rows).to_pylist() for name in ("cluster", "group_id", "client_id", "member_id")]
    members = values_by_key(((cluster, group_id), tuple(ids)) for cluster, group_id, *ids in zip(*columns, strict=True))
    return {
        key: count_clients(detect_libraries(key[1], ids, assignors.get(key), leaders.get(key, Client(None))))
        for key, ids in members.items()
    }


def _metrics_by_group(
    indexed: IndexedFacts, params: CompareParams, known: _KnownGroups
) -> dict[GroupKey, dict[str, Row]]:
    """Returns the metrics of each group by assignor."""
    faults = find_faults(indexed)
    names = list(zip(indexed.cluster.to_pylist(), indexed.group_id.to_pylist(), strict=True))
    specs = read_group_specs(indexed, {*faults, *(group for group, key in enumerate(names) if key in known.faults)})
    found: dict[GroupKey, dict[str, Row]] = {
        names[group]: {name: {"rejected": code, "detail": detail} for name in params.assignors}
        for group, (code, detail) in faults.items()
    }
    keys = [names[group] for group in specs.fact_group_index.tolist()]
    for assignor in params.assignors:
        selected = np.array([params.applies(assignor, key in known.server_side) for key in keys], bool)
        for key, row in zip(keys, _metrics(specs, assignor, selected, params), strict=True) if selected.any() else ():
            found.setdefault(key, {})[assignor] = row
    return found


def _metrics(specs: GroupSpecs, assignor: str, selected: BoolArray, params: CompareParams) -> list[Row]:
    """Returns the metrics of one assignor for each group of the specs; only those of selected groups are valid."""
    assignment = assign(specs, assignor, selected, params.custom)
    is_planned = selected & ~mask_from_indexes(list(assignment.rejected), specs.num_groups)
    costs = transition_costs(specs, assignor, assignment, is_planned, params.timing, params.custom)
    if assignor in SERVER_ASSIGNORS and assignor not in params.custom:
        costs["rounds"] = count_heartbeats(specs, assignment).of_groups(specs)
    target = assignment.slices
    balance = balance_metrics(specs.members.group, specs.num_groups, target)
    columns: dict[str, list[Any]] = {
        name: balance[name].to_pylist() for name in ("members", "partitions", "max_over_mean", "stddev_per_member")
    }
    columns |= {name: values.tolist() for name, values in costs.items()}
    distribution = distribution_metrics(specs, target, [assignor] * specs.num_groups)
    columns |= {name: distribution[name].to_pylist() for name in _DISTRIBUTION}
    columns["unassigned"] = count_unassigned(specs, target).tolist()
    columns["rack_matched"] = count_rack_matched(specs, target, racks_known=params.racks_known).to_pylist()
    columns["cross_rack_share"] = [
        None if matched is None or not partitions else 1 - matched / partitions
        for matched, partitions in zip(columns["rack_matched"], columns["partitions"], strict=True)
    ]
    if params.loads_known:
        loads = load_metrics(specs, target)
        columns |= {name: loads[name].to_pylist() for name in ("load_max_over_mean", "drain_seconds")}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    for group, (code, detail) in assignment.rejected.items():
        rows[group] = {"rejected": code, "detail": detail}
    return rows


def _compare_group(
    key: GroupKey, what_if: str, metrics: Mapping[str, Row], params: CompareParams, known: _KnownGroups
) -> list[Row]:
    """Returns the rows of one group under one change, with the recommendation and the reasons."""
    fault, current, libraries = known.faults.get(key), known.assignors.get(key), known.client_libraries.get(key)
    no_members: Row = {"members": 0, "partitions": 0}
    if fault is not None:
        metrics = {name: {"rejected": fault[0], "detail": fault[1]} for name in params.assignors}
    rows: list[Row] = [
        {"cluster": key[0], "group_id": key[1], "assignor": assignor, "what_if": what_if}
        | metrics.get(assignor, no_members)
        for assignor in params.assignors
        if params.applies(assignor, key in known.server_side)
    ]
    refusals = [
        None if row["assignor"] == current else find_refusals(libraries, client_assignor(row["assignor"]))
        for row in rows
    ]
    compared = [replace(read_metrics(row), refusal=refusal) for row, refusal in zip(rows, refusals, strict=True)]
    verdicts = judge_assignors(compared, current)
    for row, (recommended, reason) in zip(rows, verdicts, strict=True):
        to_assignor, from_assignor = client_assignor(row["assignor"]), current and client_assignor(current)
        switches = recommended and to_assignor != from_assignor
        switch = plan_switch(from_assignor, to_assignor, libraries) if switches else None
        settings = member_settings(MemberChange(key[1], libraries, switch)) if switch else []
        row |= {
            "recommended": recommended,
            "reason": reason,
            "is_current": None if current is None else row["assignor"] == current,
            "current_assignor": current,
            "client_libraries": libraries,
            "switch_steps": switch.text if switch else None,
            "settings": "\n".join(settings) or None,
        }
    return rows


# --- recommends an assignor for a group, with the reason as text ----------------------------------------------
#
# Principles, in this priority: permanent properties come before one-time costs.
#     0. The group's clients have the assignor, as far as their library is known.
#     1. The group becomes stable, and as few partitions as possible have no owner.
#     2. Balance: max over mean at most 5 % above the best.
#     3. Racks: the share of cross-rack partitions at most 5 percentage points above the smallest.
#     4. Moves: at most 1 % of the partitions above the fewest.
#     5. Pause: at most 10 % above the fewest partition-seconds, or five seconds for each of its partitions.
# Of the remaining assignors, the group keeps its own; otherwise, the first in the order of `PREFERRED` is selected.
#
# The five seconds exist because a rebalance is a one-time cost: with Kafka's default times, no protocol pauses a
# partition longer, which doesn't justify restarting a group. The principle decides if revoking or restoring partitions
# takes time.
#
# Example: range balances 1.53 and moves nothing, roundrobin balances 1.00 and moves 91 %, cooperative-sticky balances
# 1.00 and moves 3 %. Range is excluded by 2, roundrobin by 4.
#     cooperative-sticky: 3 % of partitions move instead of 91 %, same balance (against roundrobin)


BALANCE, RACKS, MOVES, PAUSE, PAUSE_S = 0.05, 0.05, 0.01, 0.1, 5.0
"""Tolerances of the principles above. The last is in seconds per partition; the others are shares."""

PREFERRED = ("cooperative-sticky", "sticky", "uniform", "range", "roundrobin", "server-range")
"""Order of preference between equivalent assignors: those that move least in the long run come first."""

KAFKA_DEFAULT = "range"
"""The assignor of consumers without configuration."""


@dataclass(frozen=True)
class AssignorMetrics:
    """The figures of one assignor for a group; names and units as in `tables.comparison.COMPARISON`.

    `refusal`: why the group's clients can't use the assignor; None if they can. Then it isn't recommended.
    """

    assignor: str
    members: int = 0
    partitions: int = 0
    max_over_mean: float | None = None
    moved: int = 0
    unassigned: int = 0
    stable: bool = False
    rounds: int = 0
    cross_rack_share: float | None = None
    paused_partition_seconds: float = 0.0
    rejected: str | None = None
    detail: str | None = None
    refusal: str | None = None

    @property
    def has_plan(self) -> bool:
        """Whether there is a plan to judge."""
        return self.rejected is None and self.refusal is None and self.members > 0


def read_metrics(row: Mapping[str, Any]) -> AssignorMetrics:
    """Returns the metrics of a row; missing counts of a group without a plan become 0."""
    names = (field.name for field in fields(AssignorMetrics))
    metrics = AssignorMetrics(**{name: row[name] for name in names if row.get(name) is not None})
    return replace(metrics, unassigned=max(0, metrics.unassigned))  # sticky ones can keep partitions that don't exist


def judge_assignors(compared: Sequence[AssignorMetrics], configured: str | None = None) -> list[tuple[bool, str]]:
    """Returns for each assignor of one group and change, in the same order, whether it is recommended, and the reason.

    Args:
        compared: the metrics of all compared assignors, each once.
        configured: the current assignor of the group, if it is known.

    Returns:
        One pair each. Exactly one assignor is recommended, unless no assignor has a plan for the group.
    """
    planned = [metrics for metrics in compared if metrics.has_plan]
    best = _best(planned, configured) if planned else None
    verdicts = []
    for metrics in compared:
        if best is None or not metrics.has_plan:
            reason = _no_plan_reason(metrics)
        elif metrics is best:
            reason = _reason(best, compared, configured)
        else:
            reason = _rejection_reason(metrics, best, configured)
        verdicts.append((metrics is best, reason))
    return verdicts


def _best(planned: list[AssignorMetrics], configured: str | None) -> AssignorMetrics:
    remaining = [metrics for metrics in planned if metrics.stable] or planned
    for cost, slack in _COSTS:
        least = min(cost(metrics) for metrics in remaining)
        remaining = [metrics for metrics in remaining if cost(metrics) <= least + slack(metrics, least)]

    def preference(name: str) -> tuple[bool, int, str]:
        return name != configured, (*PREFERRED, client_assignor(name)).index(client_assignor(name)), name

    return min(remaining, key=lambda metrics: preference(metrics.assignor))


_Cost = Callable[[AssignorMetrics], float]
_Slack = Callable[[AssignorMetrics, float], float]


def _balance(metrics: AssignorMetrics) -> float:
    return metrics.max_over_mean or 0.0


def _cross(metrics: AssignorMetrics) -> float:
    return metrics.cross_rack_share or 0.0


def _same_moves(metrics: AssignorMetrics) -> float:
    return MOVES * metrics.partitions


def _same_pause(metrics: AssignorMetrics, least: float) -> float:
    return max(PAUSE * least, PAUSE_S * metrics.partitions)


_COSTS: tuple[tuple[_Cost, _Slack], ...] = (
    (lambda metrics: metrics.unassigned, lambda metrics, least: 0),
    (_balance, lambda metrics, least: BALANCE * least),
    (_cross, lambda metrics, least: RACKS),
    (lambda metrics: metrics.moved, lambda metrics, least: _same_moves(metrics)),
    (lambda metrics: metrics.paused_partition_seconds, _same_pause),
)


# --- texts -------------------------------------------------------------------------------------------------------


def _no_plan_reason(metrics: AssignorMetrics) -> str:
    if metrics.refusal is not None:
        return f"{metrics.assignor}: {metrics.refusal}"
    if metrics.rejected is None:
        return f"{metrics.assignor}: the group has no members"
    return f"{metrics.assignor}: can't be planned ({metrics.rejected}): {metrics.detail}"


def _reason(best: AssignorMetrics, compared: Sequence[AssignorMetrics], configured: str | None) -> str:
    """Returns why an assignor is recommended, compared with the next best one."""
    alternatives = [metrics for metrics in compared if metrics is not best and metrics.has_plan]
    remarks = _current_remarks(best, compared, configured)
    if not alternatives:
        only = "the only assignor compared" if len(compared) == 1 else "the only assignor that can plan the group"
        return f"{best.assignor}: {', '.join([only, *remarks])}"
    reference = _reference(alternatives, configured)
    better, same, worse = _compare_metrics(best, reference)
    if not better and not worse and (best.members == 1 or not best.partitions):
        all_same = "the only member gets all partitions" if best.partitions else "there are no partitions to assign"
        return f"{best.assignor}: {', '.join([f'{all_same}, with every assignor', *remarks])}"
    merits = [*better, *same] if better else ["not worse in any metric", *same]
    return (
        f"{best.assignor}: {', '.join([', '.join(merits) + _though(worse), *remarks])} (against {reference.assignor})"
    )


def _current_remarks(best: AssignorMetrics, compared: Sequence[AssignorMetrics], configured: str | None) -> list[str]:
    """Returns remarks about the assignor that the group runs with."""
    if best.assignor == configured:
        return ["the group uses it already"]
    if configured and configured not in {metrics.assignor for metrics in compared}:
        return [f"the group uses {in_text(configured)}, which isn't compared"]
    return []


def _rejection_reason(metrics: AssignorMetrics, best: AssignorMetrics, configured: str | None) -> str:
    better, same, worse = _compare_metrics(metrics, best)
    if worse:
        text = ", ".join([*worse, *same])
    else:
        already = ", which the group uses already" if best.assignor == configured else ""
        text = ", ".join(["not sufficiently better", *same]) + already if better else f"not better{already}"
    return f"{metrics.assignor}: {text}{_though(better)} (against {best.assignor})"


def _though(pieces: list[str]) -> str:
    return f", though {', '.join(pieces)}" if pieces else ""


def _reference(alternatives: Sequence[AssignorMetrics], configured: str | None) -> AssignorMetrics:
    """Returns the assignor to compare the best one with: the group's own, else Kafka's default, else the most
    expensive."""
    by_name = {metrics.assignor: metrics for metrics in alternatives}
    for name in (configured, KAFKA_DEFAULT):
        if name in by_name:
            return by_name[name]
    return max(alternatives, key=lambda metrics: (*(cost(metrics) for cost, _ in _COSTS), metrics.assignor))


def _compare_metrics(first: AssignorMetrics, second: AssignorMetrics) -> tuple[list[str], list[str], list[str]]:
    """Returns in what respects the first is better than, equal to, and worse than the second, most important first."""
    better: list[str] = []
    same: list[str] = []
    worse: list[str] = []

    def compare(value: float, reference: float, slack: float, differs: str, equal: str | None) -> None:
        if max(value, reference) <= min(value, reference) + slack:  # bit for bit the comparison of `_best`
            same.extend([equal] if equal else [])
        else:
            (better if value < reference else worse).append(differs)

    if first.stable != second.stable:
        stability = "is stable" if first.stable else f"isn't stable after {count(first.rounds, 'round')}"
        (better if first.stable else worse).append(stability)
    differs = f"{count(first.unassigned, 'partition')} without an owner instead of {second.unassigned:,}"
    compare(first.unassigned, second.unassigned, 0, differs, None)
    value, reference = _balance(first), _balance(second)
    differs = f"max/mean {value:.2f} instead of {reference:.2f}"
    compare(value, reference, BALANCE * min(value, reference), differs, "same balance")
    if first.cross_rack_share is not None and second.cross_rack_share is not None:
        differs = f"{percent(_cross(first))} cross-rack instead of {percent(_cross(second))}"
        compare(_cross(first), _cross(second), RACKS, differs, None)
    value, reference = _share(first), _share(second)
    differs = f"{percent(value)} of partitions move instead of {percent(reference)}"
    compare(first.moved, second.moved, _same_moves(first), differs, f"{percent(value)} of partitions move with both")
    value, reference = first.paused_partition_seconds, second.paused_partition_seconds
    differs = f"{value:,.1f} instead of {reference:,.1f} partition-seconds paused"
    compare(value, reference, _same_pause(first, min(value, reference)), differs, None)
    return better, same, worse


def _share(metrics: AssignorMetrics) -> float:
    return metrics.moved / metrics.partitions if metrics.partitions else 0.0


def percent(share: float) -> str:
    """Formats a share in whole percent, but never as 0 % if it is above 0, or as 100 % if it is below 1."""
    if 0 < share <= 0.005:  # half a percent would be rounded to the even number, 0
        return "under 1 %"
    if 0.995 <= share < 1:
        return "over 99 %"
    return f"{100 * share:.0f} %"
