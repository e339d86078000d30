"""Recommends an assignor for a group, with the reason as text.

Principles, in this priority: permanent properties come before one-time costs.
    0. The group's clients have the assignor, as far as their library is known.
    1. The group becomes stable, and as few partitions as possible have no owner.
    2. Balance: max over mean at most 5 % above the best.
    3. Racks: the share of cross-rack partitions at most 5 percentage points above the smallest.
    4. Moves: at most 1 % of the partitions above the fewest.
    5. Pause: at most 10 % above the fewest partition-seconds, or five seconds for each of its partitions.
Of the remaining assignors, the group keeps its own; otherwise, the first in the order of `PREFERRED` is selected.

The five seconds exist because a rebalance is a one-time cost: with Kafka's default times, no protocol pauses a
partition longer, which doesn't justify restarting a group. The principle decides if revoking or restoring partitions
takes time.

Example: range balances 1.53 and moves nothing, roundrobin balances 1.00 and moves 91 %, cooperative-sticky balances
1.00 and moves 3 %. Range is excluded by 2, roundrobin by 4.
    cooperative-sticky: 3 % of partitions move instead of 91 %, same balance (against roundrobin)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from spark_assign.groups.assignors.release_rules import client_assignor

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
        return [f"the group uses {configured}, which isn't compared"]
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
        stability = "is stable" if first.stable else f"isn't stable after {first.rounds} rounds"
        (better if first.stable else worse).append(stability)
    differs = f"{first.unassigned:,} partitions without an owner instead of {second.unassigned:,}"
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
