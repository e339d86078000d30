"""Selects the advice for one group so that no two recommendations contradict each other.

Principles:
    1. A change must pay: its gain within the payback period is at least its one-time cost.
    2. No change makes a group fall behind: an assignor that needs more members than the group has isn't recommended for
       a group that keeps up today.
    3. A lower category never worsens a higher one: a shorter pause or a better balance must not cost more money.
    4. One assignor: each figure is valid for one assignor. The most pressing advice selects the assignor, and the
       larger gain decides within a category. Advice for another assignor is superseded until that change is done.
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
    DAYS,
    AdviceItem,
    AdviceParams,
    Adviser,
    Category,
    Code,
    below_cost,
    declined,
)
from spark_assign.advice.kernel.cross_zone_traffic import CURRENT
from spark_assign.advice.kernel.membership_options import KEEP
from spark_assign.advice.kernel.proposals import GroupFindings, Row, is_same, proposals
from spark_assign.advice.kernel.propose_streams import TASK_SECONDS, list_kept_settings
from spark_assign.advice.kernel.size import CANNOT_KEEP_UP, OVER_PROVISIONED, RIGHT_SIZED, UNDER_PROVISIONED, UNKNOWN
from spark_assign.groups.kernel.client_libraries import read_clients
from spark_assign.groups.kernel.client_settings import UNSEEN, UNSEEN_BY_LEADER
from spark_assign.tables.quoting import shell_pattern_word

SCALE_UP, SCALE_DOWN, PARTITIONS = "scale-up", "scale-down", "more-partitions"
_SWITCHES = ("assignor", "cooperative")


@dataclass
class ResolvedAdvice:
    """The resolved advice of a group.

    Attributes:
        group: the findings.
        advice: the recommended items.
        not_recommended: rows for items that aren't recommended.
        assignor: the assignor that the group should run with.
    """

    group: GroupFindings
    advice: list[AdviceItem] = field(default_factory=list)
    not_recommended: list[dict[str, Any]] = field(default_factory=list)
    assignor: str = ""

    @property
    def keeps_owners(self) -> bool:
        """Whether all partitions keep their owners if the group follows the advice."""
        return all(
            item.adviser == Adviser.STREAMS or item.action in ("static", "dynamic", "session") for item in self.advice
        )

    def decline_size(self, code: Code, detail: str) -> None:
        """Adds a row that no other number of members is recommended."""
        self.not_recommended.append(declined(Adviser.SIZE, code, detail))


def resolve_conflicts(group: GroupFindings, params: AdviceParams, fetching: bool) -> ResolvedAdvice:
    """Returns the resolved advice of a group.

    Args:
        group: the findings of all advisers about the group.
        params: prices and thresholds.
        fetching: whether the cluster has, or is advised to have, follower fetching.
    """
    resolved = ResolvedAdvice(group, assignor=group.assignor)
    candidates = sorted(proposals(group, params, fetching), key=AdviceItem.order)
    first: AdviceItem | None = None
    for item in candidates:
        reason = (
            _below_threshold(item, params)
            or _worsens(item, group, params, fetching)
            or _is_superseded(item, first, group)
        )
        if reason is not None:
            resolved.not_recommended.append(item.declined(*reason))
            if first is not None and reason[0] == Code.INCLUDED and item.gain:
                gain = f"It also gains {item.gain:,.0f} {item.gain_unit} ({item.category})."
                including = replace(first, description=f"{first.description} {gain}")
                resolved.advice[resolved.advice.index(first)] = first = including
            continue
        resolved.advice.append(item)
        if first is None:
            first, resolved.assignor = item, item.assignor or group.assignor
    _add_size_advice(resolved, params)
    if group.streams:  # the other advisers reject it
        resolved.not_recommended += list_kept_settings(group.streams, params)
    else:
        resolved.not_recommended += _list_unproposed(group, {item.adviser for item in candidates}, fetching)
    return resolved


def _below_threshold(item: AdviceItem, params: AdviceParams) -> tuple[str, str] | None:
    """Returns code and detail if an item violates principle 1."""
    if item.adviser == Adviser.STREAMS:
        return _below_streams_threshold(item, params)
    if item.category in (Category.MONEY, Category.PAUSE) and not params.pays(item.gain, item.cost):
        return Code.BELOW_COST, below_cost(item, params)
    gain = item.gain or 0.0
    if item.category == Category.BALANCE and gain < 100 * params.min_balance_gain:
        detail = f"Reduces the load of the most loaded member by {max(gain, 0):.0f}%, less than"
        return Code.BELOW_COST, f"{detail} {params.min_balance_gain:.0%}"
    return None


def _below_streams_threshold(item: AdviceItem, params: AdviceParams) -> tuple[str, str] | None:
    if item.gain is None:
        return None
    least = params.min_stopped_task_seconds if (item.gain_unit or "").startswith(TASK_SECONDS) else 1
    if 0 < item.gain >= least:
        return None
    return Code.BELOW_COST, f"Saves {item.gain:,.0f} {item.gain_unit}, and the minimum is {least:,.0f}"


def _worsens(item: AdviceItem, group: GroupFindings, params: AdviceParams, fetching: bool) -> tuple[str, str] | None:
    """Returns code and detail if an item violates principle 2 or 3."""
    name = item.assignor
    if name is None or group.runs(name):
        return None
    row = group.sizes.get(name)
    if row is not None and group.is_behind(name) and not group.needed(name) <= group.needed(group.assignor):
        needs = "no number of members keeps up" if row["needed"] is None else f"{row['needed']:,} members are needed"
        return Code.FALLS_BEHIND, f"With {name}, {needs}, and the group has {row['members']:,}"
    if item.category in (Category.PAUSE, Category.BALANCE) or item.adviser == Adviser.MEMBERSHIP:
        extra = group.member_cost(name, params) - (group.zone_gain(name, fetching) or 0.0) * DAYS
        gain = (item.gain or 0.0) if item.category == Category.MONEY else 0.0
        if extra > gain and extra * params.max_payback_months >= params.change_cost:
            return Code.COSTS_MORE, f"With {name}, the group costs {extra:,.2f} {params.currency} a month more"
    return None


def _is_superseded(item: AdviceItem, first: AdviceItem | None, group: GroupFindings) -> tuple[str, str] | None:
    """Returns code and detail if an item violates principle 4, given the first accepted item."""
    if first is None or item.assignor is None or first.assignor is None:
        return None
    if is_same(item.assignor, first.assignor):
        is_switch = not group.runs(item.assignor) and item.action in _SWITCHES
        if is_switch and first.action in (*_SWITCHES, "rebalance"):
            return (
                Code.INCLUDED,
                f"{first.assignor} is already recommended ({first.category}), which includes this change",
            )
        return None
    reason = (
        "the group falls behind" if first.category == Category.BEHIND else f"{first.gain or 0:,.2f} {first.gain_unit}"
    )
    detail = f"The figures are valid for {item.assignor}, but {first.assignor} is recommended ({reason})"
    return Code.SUPERSEDED, f"{detail}. Run advise again after that change"


def _add_size_advice(resolved: ResolvedAdvice, params: AdviceParams) -> None:
    """Adds the advice about the number of members (principle 5)."""
    group, row = resolved.group, resolved.group.sizes.get(resolved.assignor)
    if row is None:
        if group.sizes:
            detail = f"The number of members that it needs with {resolved.assignor} is unknown"
            resolved.decline_size(Code.NOT_KNOWN, detail)
        return
    verdict = row["verdict"]
    if verdict in (UNDER_PROVISIONED, CANNOT_KEEP_UP):
        change = _scale_up_item(group, row, params)
        switch = next((item for item in resolved.advice if item.category == Category.BEHIND), None)
        if switch is not None and verdict == UNDER_PROVISIONED:  # the new assignor and the new size are one change
            resolved.advice.remove(switch)
            change = _merge_items(switch, change, group.sizes[group.assignor]["max_load"] - row["max_load_needed"])
        resolved.advice.append(change)
    elif verdict == OVER_PROVISIONED:
        _add_scale_down(resolved, row, params)
    else:
        resolved.decline_size({RIGHT_SIZED: Code.NOTHING, UNKNOWN: Code.NOT_KNOWN}[verdict], row["reason"])


def _scale_up_item(group: GroupFindings, row: Row, params: AdviceParams) -> AdviceItem:
    """Returns the advice to add members, or partitions if no number of members keeps up."""
    command = f"advise --only size --details {shell_pattern_word(group.group_id)}"
    if row["verdict"] == CANNOT_KEEP_UP:
        capacity = row["capacity"] / (1 + params.headroom)
        is_unseen = "librdkafka" in read_clients(group.client_libraries) and group.assignor in UNSEEN_BY_LEADER
        unseen = f" {UNSEEN}" if is_unseen else ""
        return AdviceItem(
            Category.BEHIND,
            Adviser.SIZE,
            PARTITIONS,
            row["reason"],
            "Keys move to other partitions, which affects consumers that rely on the order of keys, and joins with "
            f"other topics.{unseen}",
            command,
            assignor=row["assignor"],
            gain=max(0.0, row["max_load"] - capacity),
            gain_unit="messages/s",
        )
    return AdviceItem(
        Category.BEHIND,
        Adviser.SIZE,
        SCALE_UP,
        f"Run {row['needed']:,} members instead of {row['members']:,}. {row['reason']}",
        _move_risk(row),
        f"{command} --keda",
        f"minReplicaCount: {row['needed']}",
        row["assignor"],
        max(0.0, row["max_load"] - row["max_load_needed"]),
        "messages/s",
        params.consumers(row["needed"] - row["members"]),
        f"{params.currency} a month",
    )


def _move_risk(row: Row) -> str:
    """Returns the cost of a change of the number of members, as a sentence."""
    return (
        f"{row['moved']:,} partitions move once, with a pause of {row['paused_partition_seconds']:,.0f} "
        "partition-seconds."
    )


def _merge_items(switch: AdviceItem, size: AdviceItem, relief: float) -> AdviceItem:
    """Returns one item for another assignor and the number of members that it needs; `relief` is the gain of both."""
    alone = f" Assignor alone: {switch.gain:,.0f} {switch.gain_unit}." if switch.gain else ""
    return replace(
        size,
        action=f"{switch.action}-{size.action}",
        description=f"{switch.description} {size.description}{alone}",
        gain=max(0.0, relief),
        risk=f"{switch.risk} {size.risk}",
        settings="\n".join(filter(None, (switch.settings, size.settings))),
    )


def _add_scale_down(resolved: ResolvedAdvice, row: Row, params: AdviceParams) -> None:
    """Adds the advice to run fewer members, or the reason why that isn't recommended."""
    group, members, needed = resolved.group, row["members"], row["needed"]
    target = max(needed, params.min_members)
    curve = row if target == needed else group.minimum_curves.get(row["assignor"])
    if group.is_behind(group.assignor):
        detail = f"The group falls behind today. Switch to {row['assignor']} first, and run advise again"
        resolved.decline_size(Code.SUPERSEDED, detail)
    elif target >= members:
        detail = f"No group is advised to have fewer than {params.min_members} members. {row['reason']}"
        resolved.decline_size(Code.NOTHING, detail)
    elif curve is None or curve["paused_partition_seconds"] is None or curve.get("keeps_up") is False:
        detail = f"Whether {target} members, the minimum to be advised, keep up is unknown. {row['reason']}"
        resolved.decline_size(Code.NOT_KNOWN, detail)
    else:
        spare = "" if target == needed else f" {needed:,} keep up; the rest are a reserve for failures."
        item = AdviceItem(
            Category.MONEY,
            Adviser.SIZE,
            SCALE_DOWN,
            f"Run {target:,} members instead of {members:,}.{spare} {row['reason']}",
            f"{_move_risk(curve)} The load is that of the readings, which must include the busiest hours.",
            f"advise --only size --details {shell_pattern_word(group.group_id)} --keda",
            f"minReplicaCount: {target}",
            row["assignor"],
        ).in_money(params, params.consumers(members - target), curve["paused_partition_seconds"])
        if reason := _below_threshold(item, params):
            resolved.not_recommended.append(item.declined(*reason))
        else:
            resolved.advice.append(item)


def _list_unproposed(group: GroupFindings, proposed: set[str], fetching: bool) -> Iterator[dict[str, Any]]:
    """Yields a row for each adviser without a proposal, with the reason."""
    for adviser, (code, detail) in sorted(group.rejections.items()):
        if adviser != Adviser.SIZE or not group.sizes:  # with sizes, only single assignors have no plan
            yield declined(adviser, code, detail)
    row = group.membership
    if row is not None and row["recommendation"] == KEEP:
        yield declined(Adviser.MEMBERSHIP, Code.NOTHING, row["summary"])
    current = group.options.get((CURRENT, fetching))
    if current is not None and Adviser.ZONES not in proposed:
        if current["cost_per_day"] is not None:
            yield declined(Adviser.ZONES, Code.NOTHING, "No assignor reduces the cross-zone traffic")
        else:
            yield declined(Adviser.ZONES, Code.NOT_KNOWN, current["reason"])
    if group.compared and Adviser.ASSIGNOR not in proposed:
        best = group.recommended
        if best is None:
            yield declined(Adviser.ASSIGNOR, Code.NOT_KNOWN, next(iter(group.compared.values()))["reason"])
        else:
            code = Code.NOTHING if group.can_run(best["assignor"]) else Code.NOT_POSSIBLE
            yield declined(Adviser.ASSIGNOR, code, best["reason"])
