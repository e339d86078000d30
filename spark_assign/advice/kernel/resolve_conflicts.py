"""Selects the advice for one group so that no two recommendations contradict each other.

Principles:
    1. A change must pay: its gain within the payback period is at least its one-time cost.
    2. No change makes a group fall behind: an assignor that needs more members than the group has isn't recommended for
       a group that keeps up today.
    3. A lower category never worsens a higher one: a shorter pause or a better balance must not cost more money.
    4. One assignor: each figure is valid for one assignor. The most pressing advice selects the assignor, and the
        larger
       gain decides within a category. Advice for another assignor is superseded until that change is done.
    5. The number of members is computed for the selected assignor. A group that falls behind today keeps all members.

Example: zones recommends range, which saves 50 USD a day; membership recommends cooperative-sticky, which saves 900
partition-seconds per deploy. Money comes first, so range is selected, cooperative-sticky is superseded, and the number
of members is that of range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from spark_assign.advice.kernel.advice_items import (
    ASSIGNOR,
    BALANCE,
    BEHIND,
    BELOW_COST,
    COSTS_MORE,
    DAYS,
    FALLS_BEHIND,
    INCLUDED,
    MEMBERSHIP,
    MONEY,
    NOT_KNOWN,
    NOT_POSSIBLE,
    NOTHING,
    PAUSE,
    SIZE,
    SUPERSEDED,
    ZONES,
    AdviceItem,
    AdviceParams,
    below_cost,
    in_money,
    not_advised,
    quoted,
)
from spark_assign.advice.kernel.group_findings import GroupFindings, Row, is_same
from spark_assign.advice.kernel.membership_options import KEEP
from spark_assign.advice.kernel.proposals import member_cost, proposals, zone_gain
from spark_assign.advice.kernel.size import CANNOT, ENOUGH, TOO_FEW, TOO_MANY, UNKNOWN

SCALE_UP, SCALE_DOWN, PARTITIONS = "scale-up", "scale-down", "more-partitions"


@dataclass
class ResolvedAdvice:
    """The resolved advice of a group.

    Attributes:
        group: the findings.
        advice: the recommended items.
        not_advised: rows for items that aren't recommended.
        assignor: the assignor that the group should run with.
    """

    group: GroupFindings
    advice: list[AdviceItem] = field(default_factory=list)
    not_advised: list[dict[str, Any]] = field(default_factory=list)
    assignor: str = ""

    @property
    def keeps_owners(self) -> bool:
        """Whether all partitions keep their owners if the group follows the advice."""
        return all(item.kind in ("static", "dynamic", "session") for item in self.advice)


def resolve_conflicts(group: GroupFindings, params: AdviceParams, fetching: bool) -> ResolvedAdvice:
    """Returns the resolved advice of a group.

    Args:
        group: the findings of all advisers about the group.
        params: prices and thresholds.
        fetching: whether the cluster has, or is advised to have, follower fetching.
    """
    resolved = ResolvedAdvice(group, assignor=group.own)
    candidates = sorted(proposals(group, params, fetching), key=AdviceItem.order)
    first: AdviceItem | None = None
    for item in candidates:
        reason = (
            _below_threshold(item, params)
            or _worsens(item, group, params, fetching)
            or _is_superseded(item, first, group)
        )
        if reason is not None:
            resolved.not_advised.append(not_advised(item.adviser, *reason, item))
            continue
        resolved.advice.append(item)
        if first is None:
            first, resolved.assignor = item, item.by or group.own
    _add_size_advice(resolved, params)
    resolved.not_advised += _list_unproposed(group, {item.adviser for item in candidates}, fetching)
    return resolved


def _below_threshold(item: AdviceItem, params: AdviceParams) -> tuple[str, str] | None:
    """Returns code and detail if an item violates principle 1."""
    if item.category in (MONEY, PAUSE) and not params.pays(item.gain or 0.0, item.cost or 0.0):
        return BELOW_COST, below_cost(item, params)
    if item.category == BALANCE and (item.gain or 0.0) < 100 * params.least_balance:
        detail = f"It takes {max(item.gain or 0.0, 0):.0f} % off the most loaded member, less than "
        return BELOW_COST, f"{detail}{params.least_balance:.0%}. {item.text}"
    return None


def _worsens(item: AdviceItem, group: GroupFindings, params: AdviceParams, fetching: bool) -> tuple[str, str] | None:
    """Returns code and detail if an item violates principle 2 or 3."""
    if item.by is None or is_same(item.by, group.own):
        return None
    row = group.size(item.by)
    if row is not None and group.is_behind(item.by) and not group.needed(item.by) <= group.needed(group.own):
        needs = "no number of members keeps up" if row["needed"] is None else f"it needs {row['needed']:,} members"
        return FALLS_BEHIND, f"With {item.by} {needs}, and it has {row['members']:,}. {item.text}"
    if item.category in (PAUSE, BALANCE) or item.adviser == MEMBERSHIP:
        extra = member_cost(group, item.by, params) - (zone_gain(group, item.by, fetching) or 0.0) * DAYS
        gain = (item.gain or 0.0) if item.category == MONEY else 0.0
        if extra > gain and extra * params.months >= params.change_cost:
            detail = f"With {item.by} it costs {extra:,.2f} {params.currency} a month more. {item.text}"
            return COSTS_MORE, detail
    return None


def _is_superseded(item: AdviceItem, first: AdviceItem | None, group: GroupFindings) -> tuple[str, str] | None:
    """Returns code and detail if an item violates principle 4, given the first accepted item."""
    if first is None or item.by is None or first.by is None:
        return None
    if is_same(item.by, first.by):
        is_switch = not is_same(item.by, group.own) and item.kind in ("assignor", "cooperative")
        if is_switch and first.kind in ("assignor", "cooperative", "rebalance"):
            return INCLUDED, f"{first.by} is advised already ({first.category}), which brings this as well. {item.text}"
        return None
    reason = "it falls behind" if first.category == BEHIND else f"{first.gain or 0:,.2f} {first.gain_unit}"
    return (
        SUPERSEDED,
        f"Its figures are of {item.by}, and {first.by} is advised ({reason}). Ask again when that is done. {item.text}",
    )


def _add_size_advice(resolved: ResolvedAdvice, params: AdviceParams) -> None:
    """Adds the advice about the number of members (principle 5)."""
    group, row = resolved.group, resolved.group.size(resolved.assignor)
    if row is None:
        if group.sizes:
            detail = f"No plan tells how many members it needs with {resolved.assignor}"
            resolved.not_advised.append(not_advised(SIZE, NOT_KNOWN, detail))
        return
    verdict = row["verdict"]
    if verdict in (TOO_FEW, CANNOT):
        change = _scale_up_item(group, row, params)
        switch = next((item for item in resolved.advice if item.adviser == ASSIGNOR and item.category == BEHIND), None)
        if switch is not None and verdict == TOO_FEW:  # the new assignor and the new size are one change
            resolved.advice.remove(switch)
            change = _merge_items(switch, change, group.sizes[group.own]["max_load"] - row["max_load_needed"])
        resolved.advice.append(change)
    elif verdict == TOO_MANY:
        _add_scale_down(resolved, row, params)
    else:
        code = {ENOUGH: NOTHING, UNKNOWN: NOT_KNOWN}[verdict]
        resolved.not_advised.append(not_advised(SIZE, code, row["reason"]))


def _scale_up_item(group: GroupFindings, row: Row, params: AdviceParams) -> AdviceItem:
    """Returns the advice to add members, or partitions if no number of members keeps up."""
    if row["verdict"] == CANNOT:
        capacity = row["capacity"] / (1 + params.headroom)
        return AdviceItem(
            BEHIND,
            SIZE,
            PARTITIONS,
            row["assignor"],
            row["reason"],
            max(0.0, row["max_load"] - capacity),
            "messages/s",
            None,
            None,
            "Keys go to other partitions: what is read in their order, or joined with other topics, has to bear that.",
            f"size --details {quoted(group.group_id)}",
        )
    return AdviceItem(
        BEHIND,
        SIZE,
        SCALE_UP,
        row["assignor"],
        f"Run {row['needed']:,} members in place of {row['members']:,}. {row['reason']}",
        max(0.0, row["max_load"] - row["max_load_needed"]),
        "messages/s",
        params.consumers(row["needed"] - row["members"]),
        f"{params.currency} a month",
        f"{row['moved']:,} partitions get another owner once, which pauses "
        f"{row['paused_partition_seconds']:,.0f} partition-seconds.",
        f"size --details {quoted(group.group_id)} --keda",
        f"minReplicaCount: {row['needed']}",
    )


def _merge_items(switch: AdviceItem, size: AdviceItem, relief: float) -> AdviceItem:
    """Returns one item for another assignor and the number of members that it needs; `relief` is the gain of both."""
    return replace(
        size,
        kind=f"{switch.kind}-{size.kind}",
        text=f"{switch.text} {size.text}",
        gain=max(0.0, relief),
        risk=f"{switch.risk} {size.risk}",
        settings="\n".join(lines for lines in (switch.settings, size.settings) if lines),
    )


def _add_scale_down(resolved: ResolvedAdvice, row: Row, params: AdviceParams) -> None:
    """Adds the advice to run fewer members, or the reason why that isn't recommended."""
    group, members, target = resolved.group, row["members"], max(row["needed"], params.least_members)
    if group.is_behind(group.own):
        detail = f"It falls behind today: first {row['assignor']}, then ask again"
        resolved.not_advised.append(not_advised(SIZE, SUPERSEDED, detail))
        return
    if target >= members:
        detail = f"No group is advised to have fewer than {params.least_members} members. {row['reason']}"
        resolved.not_advised.append(not_advised(SIZE, NOTHING, detail))
        return
    curve = row if target == row["needed"] else group.minimum_curves.get(row["assignor"])
    if curve is None or curve["paused_partition_seconds"] is None or curve.get("keeps_up") is False:
        detail = (
            f"With {target} members, the fewest that are advised, nobody knows whether it keeps up. {row['reason']}"
        )
        resolved.not_advised.append(not_advised(SIZE, NOT_KNOWN, detail))
        return
    paused = curve["paused_partition_seconds"]
    spare = "" if target == row["needed"] else f" {row['needed']:,} would do; the others are for when one fails."
    advice = in_money(
        AdviceItem(
            MONEY,
            SIZE,
            SCALE_DOWN,
            row["assignor"],
            f"Run {target:,} members in place of {members:,}.{spare} {row['reason']}",
            None,
            None,
            None,
            None,
            f"{curve['moved']:,} partitions get another owner once, which pauses {paused:,.0f} partition-seconds. "
            "The load is that of the readings: make sure that they hold the busiest hours.",
            f"size --details {quoted(group.group_id)} --keda",
            f"minReplicaCount: {target}",
        ),
        params,
        params.consumers(members - target),
        paused,
    )
    if params.pays(advice.gain or 0.0, advice.cost or 0.0):
        resolved.advice.append(advice)
    else:
        resolved.not_advised.append(not_advised(SIZE, BELOW_COST, below_cost(advice, params), advice))


def _list_unproposed(group: GroupFindings, proposed: set[str], fetching: bool) -> Iterator[dict[str, Any]]:
    """Yields a row for each adviser without a proposal, with the reason."""
    for adviser, (code, detail) in sorted(group.rejections.items()):
        if adviser != SIZE or not group.sizes:  # with sizes, only single assignors have no plan
            yield not_advised(adviser, code, detail)
    row = group.membership
    if row is not None and row["recommendation"] == KEEP:
        yield not_advised(MEMBERSHIP, NOTHING, row["sentence"])
    current = group.options.get(("today", fetching))
    if current is not None and ZONES not in proposed:
        is_known = current["cost_per_day"] is not None
        detail = "No assignor saves anything of what crosses a zone" if is_known else current["reason"]
        yield not_advised(ZONES, NOTHING if is_known else NOT_KNOWN, detail)
    if group.compared and ASSIGNOR not in proposed:
        best = next((compared for compared in group.compared.values() if compared["recommended"]), None)
        row = best or next(iter(group.compared.values()))
        code = NOT_KNOWN if best is None else NOTHING
        if best is not None and not group.can_run(best["assignor"]):
            code = NOT_POSSIBLE
        yield not_advised(ASSIGNOR, code, row["reason"])
