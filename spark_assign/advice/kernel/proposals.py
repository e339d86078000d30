"""What could be done in a group, each by itself: which assignor, which membership; what it gains, costs and risks."""

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
from spark_assign.advice.kernel.group_findings import GroupFindings, same
from spark_assign.advice.kernel.membership_options import KEEP
from spark_assign.groups.kernel.client_libraries import COOPERATIVE

_SWITCH = "Members restart, and partitions get other owners once"
_STATIC = (
    "What a static member owns waits for it: one that an autoscaler takes away, or that crashes for good, is missed "
    "until its session is over."
)


def proposals(group: GroupFindings, params: AdviceParams, fetching: bool) -> Iterator[AdviceItem]:
    """All of them, whether they are worth it or not.

    Args:
        group: it.
        params: what things cost.
        fetching: whether its cluster has, or is advised, follower fetching.
    """
    for found in (
        keeps_up(group, params, fetching),
        near(group, params, fetching),
        membership(group, params),
        even(group, params),
    ):
        if found is not None:
            yield found


def keeps_up(group: GroupFindings, params: AdviceParams, fetching: bool) -> AdviceItem | None:
    """The assignor with which a group that falls behind keeps up for the least money: members, and what they read."""
    if not group.is_behind(group.own):
        return None
    able = [name for name in group.sizes if group.may_run(name) and not same(name, group.own)]
    needed = group.needed(group.own)
    fewer = [
        name
        for name in able
        if group.needed(name) < needed
        and (not isfinite(needed) or params.pays(-dearer(group, name, params), params.change(group.paused(name))))
    ]
    if not fewer:
        return None

    def bill(name: str) -> tuple[float, float, str]:
        saved = (zone_gain(group, name, fetching) or 0.0) * DAYS
        return round(params.consumers(int(group.needed(name))) - saved, 6), group.paused(name) or 0.0, name

    best = min(fewer, key=bill)
    now, then = group.sizes[group.own], group.sizes[best]
    needs = "no number of members" if now["needed"] is None else f"{now['needed']:,} members"
    how, setting = group.how(best)
    return AdviceItem(
        BEHIND,
        ASSIGNOR,
        "assignor",
        best,
        f"Run it with {best}: {then['needed']:,} members keep up then, with {group.own} {needs}. It has "
        f"{now['members']:,}.",
        max(0.0, now["max_load"] - then["max_load"]),
        "messages/s",
        group.paused(best),
        "partition-seconds once",
        f"{_SWITCH}. {how}",
        f"compare --group {quoted(group.group_id)}",
        setting,
    )


def near(group: GroupFindings, params: AdviceParams, fetching: bool) -> AdviceItem | None:
    """The assignor that saves most of what crosses a zone, after what it costs."""
    now = group.crossing_today(fetching)
    if now is None:
        return None
    found = [
        (saved * DAYS, name)
        for (name, with_it), row in group.ways.items()
        if name != CURRENT and with_it == fetching and (saved := zone_gain(group, name, fetching)) is not None
        if saved > 0 and group.may_run(name) and row["partitions"] >= group.ways[CURRENT, fetching]["partitions"]
    ]
    if not found:
        return None
    net = [(gain - max(0.0, dearer(group, name, params)), name) for gain, name in found]

    def worth(each: tuple[float, str]) -> tuple[float, bool, int, str]:
        gain, name = each
        moved = group.ways[name, fetching]["moved"] or 0
        once = params.pause(group.paused(name) or 0.0)
        return -round(gain * params.months - once, 6), not same(name, group.own), moved, name

    gain, best = min(net, key=worth)
    row = group.ways[best, fetching]
    more = dearer(group, best, params)
    beside = f" It needs more members, at {more:,.2f} a month." if more > 0 else ""
    known = same(best, group.own)
    how, setting = ("", None) if known else group.how(best)
    act = f"Let it rebalance by {best}" if known else f"Run it with {best}"
    return in_money(
        AdviceItem(
            MONEY,
            ZONES,
            "rebalance" if known else "assignor",
            best,
            f"{act}, which knows racks (Java clients from 3.5 on, the broker from 4.0 on): what it reads across zones "
            f"costs {row['cost_per_day']:,.2f} {params.currency} a day in place of {now:,.2f}.{beside}",
            None,
            None,
            None,
            None,
            f"{row['moved'] or 0:,} of {row['partitions']:,} partitions get another owner once. {how}".strip(),
            f"zones --group {quoted(group.group_id)}",
            setting,
        ),
        params,
        gain,
        group.paused(best),
    )


def membership(group: GroupFindings, params: AdviceParams) -> AdviceItem | None:
    """What `membership` recommends, if it is to change anything."""
    row = group.membership
    if row is None or row["recommendation"] == KEEP:
        return None
    a_month = row["saved_seconds"] * params.deploys
    once = row["restart_pause_seconds"]
    by = COOPERATIVE if "cooperative" in row["recommendation"] else group.own
    risks = [row["warning"] or "", _STATIC if row["to_membership"] == "static" else ""]
    told = AdviceItem(
        PAUSE,
        MEMBERSHIP,
        row["recommendation"],
        by,
        row["sentence"],
        a_month,
        "partition-seconds a month",
        once,
        "partition-seconds once",
        " ".join(each for each in risks if each) or "Members restart once, one after the other.",
        f"membership --group {quoted(group.group_id)}",
        row["settings"],
        once / a_month if a_month > 0 else None,
    )
    return in_money(told, params, params.pause(a_month), once) if params.pause_price else told


def even(group: GroupFindings, params: AdviceParams) -> AdviceItem | None:
    """What `compare` recommends, if it takes enough from the most loaded member."""
    best = next((row for row in group.compared.values() if row["recommended"]), None)
    now = next((row for name, row in group.compared.items() if same(name, group.own)), None)
    if best is None or now is None or same(best["assignor"], group.own) or not group.may_run(best["assignor"]):
        return None
    by_load = now["load_max_over_mean"] is not None and best["load_max_over_mean"] is not None
    name = "load_max_over_mean" if by_load else "max_over_mean"
    if now["rejected"] is not None or not now[name] or best[name] is None:
        return None
    gain = 1 - best[name] / now[name]
    how, setting = group.how(best["assignor"])
    what = "messages" if by_load else "partitions"
    return AdviceItem(
        BALANCE,
        ASSIGNOR,
        "assignor",
        best["assignor"],
        f"Run it with {best['assignor']}: its most loaded member has {best[name]:,.2f} times the mean in {what}, with "
        f"{group.own} {now[name]:,.2f} times.",
        100 * gain,
        "%",
        best["partition_seconds_paused"],
        "partition-seconds once",
        f"{_SWITCH}. {how}",
        f"compare --group {quoted(group.group_id)}",
        setting,
    )


def zone_gain(group: GroupFindings, assignor: str, fetching: bool) -> float | None:
    """What an assignor saves a day of what crosses zones, negative where it costs more; null: not known."""
    now, then = group.crossing_today(fetching), group.crossing(assignor, fetching)
    return None if now is None or then is None else now - then


def dearer(group: GroupFindings, assignor: str, params: AdviceParams) -> float:
    """What more members an assignor needs cost a month, against the one that the group runs with; 0: not known."""
    needed = [group.needed(name) for name in (assignor, group.own)]
    if not all(isfinite(each) for each in needed):
        return 0.0
    then, now = (max(int(each), params.least_members) for each in needed)
    return params.consumers(then - now)
