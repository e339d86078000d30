"""What one group is advised to do, so that nothing contradicts.

Principles:
    1. A change has to pay: what it gains within the months is no less than what it costs once.
    2. Nobody is made to fall behind: an assignor that needs more members than there are is not for a group that keeps
       up today.
    3. Nothing is won below that is lost above: for less pause, or for balance, nobody pays more.
    4. One assignor. All figures are of one; the most pressing advice, then the one with the larger gain, settles which,
       and what was reckoned with another is superseded: ask again when the first is done.
    5. How many members: by the assignor that was settled. No group that falls behind today gives any back.

Example: zones would have range, which saves 50 USD a day; membership cooperative-sticky, which saves 900
partition-seconds a deploy. Money comes first: range. Cooperative is superseded, and the number of members is that of
range.
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
from spark_assign.advice.kernel.group_findings import GroupFindings, Row, same
from spark_assign.advice.kernel.membership_options import KEEP
from spark_assign.advice.kernel.proposals import dearer, proposals, zone_gain
from spark_assign.advice.kernel.size import CANNOT, ENOUGH, TOO_FEW, TOO_MANY, UNKNOWN

SCALE_UP, SCALE_DOWN, PARTITIONS = "scale-up", "scale-down", "more-partitions"


@dataclass
class ResolvedAdvice:
    """What came out: advice, and rows of what is not advised. `assignor`: that it shall run with; `stays`: whether all
    partitions keep their owners."""

    group: GroupFindings
    advice: list[AdviceItem] = field(default_factory=list)
    not_advised: list[dict[str, Any]] = field(default_factory=list)
    assignor: str = ""

    @property
    def stays(self) -> bool:
        """Whether nothing that is advised gives partitions other owners."""
        return all(each.kind in ("static", "dynamic", "session") for each in self.advice)


def settle(group: GroupFindings, params: AdviceParams, fetching: bool) -> ResolvedAdvice:
    """Decide.

    Args:
        group: it.
        params: what things cost, and what a change has to be worth.
        fetching: whether its cluster has, or is advised, follower fetching.
    """
    found = ResolvedAdvice(group, assignor=group.own)
    wanted = sorted(proposals(group, params, fetching), key=AdviceItem.order)
    first: AdviceItem | None = None
    for each in wanted:
        why = _unworthy(each, params) or _against(each, group, params, fetching) or _contradicts(each, first, group)
        if why is not None:
            found.not_advised.append(not_advised(each.of, *why, each))
            continue
        found.advice.append(each)
        if first is None:
            first, found.assignor = each, each.by or group.own
    _number(found, params)
    found.not_advised += _silent(group, {each.of for each in wanted}, params, fetching)
    return found


def _unworthy(each: AdviceItem, params: AdviceParams) -> tuple[str, str] | None:
    """Principle 1."""
    if each.matter in (MONEY, PAUSE) and not params.pays(each.gain or 0.0, each.cost or 0.0):
        return BELOW_COST, below_cost(each, params)
    if each.matter == BALANCE and (each.gain or 0.0) < 100 * params.least_balance:
        detail = f"It takes {max(each.gain or 0.0, 0):.0f} % off the most loaded member, less than "
        return BELOW_COST, f"{detail}{params.least_balance:.0%}. {each.what}"
    return None


def _against(each: AdviceItem, group: GroupFindings, params: AdviceParams, fetching: bool) -> tuple[str, str] | None:
    """Principles 2 and 3."""
    if each.by is None or same(each.by, group.own):
        return None
    row = group.size(each.by)
    if row is not None and group.is_behind(each.by) and not group.needed(each.by) <= group.needed(group.own):
        needs = "no number of members keeps up" if row["needed"] is None else f"it needs {row['needed']:,} members"
        return FALLS_BEHIND, f"With {each.by} {needs}, and it has {row['members']:,}. {each.what}"
    if each.matter in (PAUSE, BALANCE) or each.of == MEMBERSHIP:
        more = dearer(group, each.by, params) - (zone_gain(group, each.by, fetching) or 0.0) * DAYS
        won = (each.gain or 0.0) if each.matter == MONEY else 0.0
        if more > won and more * params.months >= params.change_cost:
            return COSTS_MORE, f"With {each.by} it costs {more:,.2f} {params.currency} a month more. {each.what}"
    return None


def _contradicts(each: AdviceItem, first: AdviceItem | None, group: GroupFindings) -> tuple[str, str] | None:
    """Principle 4."""
    if first is None or each.by is None or first.by is None:
        return None
    if same(each.by, first.by):
        alike = not same(each.by, group.own) and each.kind in ("assignor", "cooperative")
        if alike and first.kind in ("assignor", "cooperative", "rebalance"):
            return INCLUDED, f"{first.by} is advised already ({first.matter}), which brings this as well. {each.what}"
        return None
    why = "it falls behind" if first.matter == BEHIND else f"{first.gain or 0:,.2f} {first.gain_unit}"
    return (
        SUPERSEDED,
        f"Its figures are of {each.by}, and {first.by} is advised ({why}). Ask again when that is done. {each.what}",
    )


def _number(found: ResolvedAdvice, params: AdviceParams) -> None:
    """Principle 5."""
    group, row = found.group, found.group.size(found.assignor)
    if row is None:
        if group.sizes:
            detail = f"No plan tells how many members it needs with {found.assignor}"
            found.not_advised.append(not_advised(SIZE, NOT_KNOWN, detail))
        return
    verdict = row["verdict"]
    if verdict in (TOO_FEW, CANNOT):
        more = _more(group, row, params)
        held = next((each for each in found.advice if each.of == ASSIGNOR and each.matter == BEHIND), None)
        if held is not None and verdict == TOO_FEW:  # both are one piece of advice
            found.advice.remove(held)
            more = _together(held, more, group.sizes[group.own]["max_load"] - row["max_load_needed"])
        found.advice.append(more)
    elif verdict == TOO_MANY:
        _fewer(found, row, params)
    else:
        code = {ENOUGH: NOTHING, UNKNOWN: NOT_KNOWN}[verdict]
        found.not_advised.append(not_advised(SIZE, code, row["reason"]))


def _more(group: GroupFindings, row: Row, params: AdviceParams) -> AdviceItem:
    if row["verdict"] == CANNOT:
        able = row["capacity"] / (1 + params.headroom)
        return AdviceItem(
            BEHIND,
            SIZE,
            PARTITIONS,
            row["assignor"],
            row["reason"],
            max(0.0, row["max_load"] - able),
            "messages/s",
            None,
            None,
            "Keys go to other partitions: what is read in their order, or joined with other topics, has to bear that.",
            f"size --group {quoted(group.group_id)}",
        )
    more = row["needed"] - row["members"]
    return AdviceItem(
        BEHIND,
        SIZE,
        SCALE_UP,
        row["assignor"],
        f"Run {row['needed']:,} members in place of {row['members']:,}. {row['reason']}",
        max(0.0, row["max_load"] - row["max_load_needed"]),
        "messages/s",
        params.consumers(more),
        f"{params.currency} a month",
        f"{row['moved']:,} partitions get another owner once, which pauses "
        f"{row['partition_seconds_paused']:,.0f} partition-seconds.",
        f"size --group {quoted(group.group_id)} --keda",
        f"minReplicaCount: {row['needed']}",
    )


def _together(held: AdviceItem, more: AdviceItem, relief: float) -> AdviceItem:
    """Another assignor, and the number of members that it needs; `relief` of both."""
    settings = "\n".join(each for each in (held.settings, more.settings) if each)
    risk = f"{held.risk} {more.risk}"
    what = f"{held.what} {more.what}"
    return replace(
        more, kind=f"{held.kind}-{more.kind}", what=what, gain=max(0.0, relief), risk=risk, settings=settings
    )


def _fewer(found: ResolvedAdvice, row: Row, params: AdviceParams) -> None:
    group, members, target = found.group, row["members"], max(row["needed"], params.least_members)
    if group.is_behind(group.own):
        detail = f"It falls behind today: first {row['assignor']}, then ask again"
        found.not_advised.append(not_advised(SIZE, SUPERSEDED, detail))
        return
    if target >= members:
        detail = f"No group is advised to have fewer than {params.least_members} members. {row['reason']}"
        found.not_advised.append(not_advised(SIZE, NOTHING, detail))
        return
    at = row if target == row["needed"] else group.fewest.get(row["assignor"])
    if at is None or at["partition_seconds_paused"] is None or at.get("keeps_up") is False:
        detail = (
            f"With {target} members, the fewest that are advised, nobody knows whether it keeps up. {row['reason']}"
        )
        found.not_advised.append(not_advised(SIZE, NOT_KNOWN, detail))
        return
    paused = at["partition_seconds_paused"]
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
            f"{at['moved']:,} partitions get another owner once, which pauses {paused:,.0f} partition-seconds. "
            "The load is that of the readings: make sure that they hold the busiest hours.",
            f"size --group {quoted(group.group_id)} --keda",
            f"minReplicaCount: {target}",
        ),
        params,
        params.consumers(members - target),
        paused,
    )
    if params.pays(advice.gain or 0.0, advice.cost or 0.0):
        found.advice.append(advice)
    else:
        found.not_advised.append(not_advised(SIZE, BELOW_COST, below_cost(advice, params), advice))


def _silent(group: GroupFindings, spoken: set[str], params: AdviceParams, fetching: bool) -> Iterator[dict[str, Any]]:
    """Of every question that has no proposal why not."""
    for of, (code, detail) in sorted(group.refused.items()):
        if of != SIZE or not group.sizes:  # else it is only some assignor that has no plan
            yield not_advised(of, code, detail)
    row = group.membership
    if row is not None and row["recommendation"] == KEEP:
        yield not_advised(MEMBERSHIP, NOTHING, row["sentence"])
    now = group.ways.get(("today", fetching))
    if now is not None and ZONES not in spoken:
        known = now["cost_per_day"] is not None
        detail = "No assignor saves anything of what crosses a zone" if known else now["reason"]
        yield not_advised(ZONES, NOTHING if known else NOT_KNOWN, detail)
    if group.compared and ASSIGNOR not in spoken:
        best = next((each for each in group.compared.values() if each["recommended"]), None)
        row = best or next(iter(group.compared.values()))
        code = NOT_KNOWN if best is None else NOTHING
        if best is not None and not group.may_run(best["assignor"]):
            code = NOT_POSSIBLE
        yield not_advised(ASSIGNOR, code, row["reason"])
