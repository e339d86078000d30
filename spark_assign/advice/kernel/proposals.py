"""Lists the changes that a group could make, each on its own: assignor and membership, with gain, cost, and risk."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from spark_assign.advice.kernel.advice_items import (
    ASSIGNOR,
    BALANCE,
    BEHIND,
    DAYS,
    MEMBERSHIP,
    MONEY,
    PAUSE,
    ZONES,
    AdviceItem,
    AdviceParams,
    in_money,
    quoted,
)
from spark_assign.advice.kernel.cross_zone_traffic import CURRENT
from spark_assign.advice.kernel.group_findings import GroupFindings, is_same
from spark_assign.advice.kernel.membership_options import KEEP
from spark_assign.groups.kernel.client_libraries import COOPERATIVE

_SWITCH = "Members restart, and partitions get other owners once"
_STATIC = (
    "What a static member owns waits for it: one that an autoscaler takes away, or that crashes for good, is missed "
    "until its session is over."
)


def proposals(group: GroupFindings, params: AdviceParams, fetching: bool) -> Iterator[AdviceItem]:
    """Yields all proposals, whether or not they are worth their cost.

    Args:
        group: the findings of all advisers about the group.
        params: prices and thresholds.
        fetching: whether the cluster has, or is advised to have, follower fetching.
    """
    for item in (
        propose_to_keep_up(group, params, fetching),
        propose_for_zones(group, params, fetching),
        propose_membership(group, params),
        propose_balance(group, params),
    ):
        if item is not None:
            yield item


def propose_to_keep_up(group: GroupFindings, params: AdviceParams, fetching: bool) -> AdviceItem | None:
    """Returns the assignor with which a group that falls behind keeps up at the lowest cost of members and cross-zone
    traffic."""
    if not group.is_behind(group.own):
        return None
    candidates = [name for name in group.sizes if group.can_run(name) and not is_same(name, group.own)]
    needed = group.needed(group.own)
    fewer = [
        name
        for name in candidates
        if group.needed(name) < needed
        and (
            not isfinite(needed)
            or params.pays(-member_cost(group, name, params), params.change(group.pause_seconds(name)))
        )
    ]
    if not fewer:
        return None

    def bill(name: str) -> tuple[float, float, str]:
        saved = (zone_gain(group, name, fetching) or 0.0) * DAYS
        return round(params.consumers(int(group.needed(name))) - saved, 6), group.pause_seconds(name) or 0.0, name

    best = min(fewer, key=bill)
    current, proposed = group.sizes[group.own], group.sizes[best]
    needs = "no number of members" if current["needed"] is None else f"{current['needed']:,} members"
    switch_steps, setting = group.switch_steps(best)
    return AdviceItem(
        BEHIND,
        ASSIGNOR,
        "assignor",
        best,
        f"Run it with {best}: {proposed['needed']:,} members keep up then, with {group.own} {needs}. It has "
        f"{current['members']:,}.",
        max(0.0, current["max_load"] - proposed["max_load"]),
        "messages/s",
        group.pause_seconds(best),
        "partition-seconds once",
        f"{_SWITCH}. {switch_steps}",
        f"compare --group {quoted(group.group_id)}",
        setting,
    )


def propose_for_zones(group: GroupFindings, params: AdviceParams, fetching: bool) -> AdviceItem | None:
    """Returns the assignor that saves the most cross-zone cost, net of its own cost."""
    current = group.current_cost(fetching)
    if current is None:
        return None
    found = [
        (saved * DAYS, name)
        for (name, row_fetching), row in group.options.items()
        if name != CURRENT and row_fetching == fetching and (saved := zone_gain(group, name, fetching)) is not None
        if saved > 0 and group.can_run(name) and row["partitions"] >= group.options[CURRENT, fetching]["partitions"]
    ]
    if not found:
        return None
    net = [(gain - max(0.0, member_cost(group, name, params)), name) for gain, name in found]

    def preference(candidate: tuple[float, str]) -> tuple[float, bool, int, str]:
        gain, name = candidate
        moved = group.options[name, fetching]["moved"] or 0
        once = params.pause(group.pause_seconds(name) or 0.0)
        return -round(gain * params.months - once, 6), not is_same(name, group.own), moved, name

    gain, best = min(net, key=preference)
    row = group.options[best, fetching]
    more = member_cost(group, best, params)
    extra_cost = f" It needs more members, at {more:,.2f} a month." if more > 0 else ""
    is_own = is_same(best, group.own)
    switch_steps, setting = ("", None) if is_own else group.switch_steps(best)
    act = f"Let it rebalance by {best}" if is_own else f"Run it with {best}"
    return in_money(
        AdviceItem(
            MONEY,
            ZONES,
            "rebalance" if is_own else "assignor",
            best,
            f"{act}, which knows racks (Java clients from 3.5 on, the broker from 4.0 on): what it reads across zones "
            f"costs {row['cost_per_day']:,.2f} {params.currency} a day in place of {current:,.2f}.{extra_cost}",
            None,
            None,
            None,
            None,
            f"{row['moved'] or 0:,} of {row['partitions']:,} partitions get another owner once. {switch_steps}".strip(),
            f"zones --details {quoted(group.group_id)}",
            setting,
        ),
        params,
        gain,
        group.pause_seconds(best),
    )


def propose_membership(group: GroupFindings, params: AdviceParams) -> AdviceItem | None:
    """Returns the recommendation of the membership adviser; `None` if it recommends no change."""
    row = group.membership
    if row is None or row["recommendation"] == KEEP:
        return None
    monthly_gain = row["saved_seconds"] * params.deploys
    once = row["restart_pause_seconds"]
    by = COOPERATIVE if "cooperative" in row["recommendation"] else group.own
    risks = [row["warning"] or "", _STATIC if row["to_membership"] == "static" else ""]
    item = AdviceItem(
        PAUSE,
        MEMBERSHIP,
        row["recommendation"],
        by,
        row["sentence"],
        monthly_gain,
        "partition-seconds a month",
        once,
        "partition-seconds once",
        " ".join(risk for risk in risks if risk) or "Members restart once, one after the other.",
        f"membership --details {quoted(group.group_id)}",
        row["settings"],
        once / monthly_gain if monthly_gain > 0 else None,
    )
    return in_money(item, params, params.pause(monthly_gain), once) if params.pause_price else item


def propose_balance(group: GroupFindings, params: AdviceParams) -> AdviceItem | None:
    """Returns the assignor that `compare` recommends, if it is better balanced than the group's own."""
    best = next((row for row in group.compared.values() if row["recommended"]), None)
    current = next((row for name, row in group.compared.items() if is_same(name, group.own)), None)
    if best is None or current is None or is_same(best["assignor"], group.own) or not group.can_run(best["assignor"]):
        return None
    by_load = current["load_max_over_mean"] is not None and best["load_max_over_mean"] is not None
    name = "load_max_over_mean" if by_load else "max_over_mean"
    if current["rejected"] is not None or not current[name] or best[name] is None:
        return None
    gain = 1 - best[name] / current[name]
    switch_steps, setting = group.switch_steps(best["assignor"])
    unit = "messages" if by_load else "partitions"
    return AdviceItem(
        BALANCE,
        ASSIGNOR,
        "assignor",
        best["assignor"],
        f"Run it with {best['assignor']}: its most loaded member has {best[name]:,.2f} times the mean in {unit}, with "
        f"{group.own} {current[name]:,.2f} times.",
        100 * gain,
        "%",
        best["paused_partition_seconds"],
        "partition-seconds once",
        f"{_SWITCH}. {switch_steps}",
        f"compare --group {quoted(group.group_id)}",
        setting,
    )


def zone_gain(group: GroupFindings, assignor: str, fetching: bool) -> float | None:
    """Returns what an assignor saves per day in cross-zone cost, negative if it costs more; `None` if unknown."""
    current, proposed = group.current_cost(fetching), group.cost_per_day(assignor, fetching)
    return None if current is None or proposed is None else current - proposed


def member_cost(group: GroupFindings, assignor: str, params: AdviceParams) -> float:
    """Returns the monthly cost of the additional members that an assignor needs, compared with the group's own
    assignor; 0 if unknown."""
    needed = [group.needed(name) for name in (assignor, group.own)]
    if not all(isfinite(members) for members in needed):
        return 0.0
    proposed, current = (max(int(members), params.least_members) for members in needed)
    return params.consumers(proposed - current)
