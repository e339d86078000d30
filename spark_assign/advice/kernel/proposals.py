"""Lists the changes that a group could make, each on its own: assignor and membership, with gain, cost, and risk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isfinite, nan
from typing import Any

from spark_assign.advice.kernel.advice_items import (
    DAYS,
    PARTITION_SECONDS_ONCE,
    AdviceItem,
    AdviceParams,
    Adviser,
    Category,
)
from spark_assign.advice.kernel.cross_zone_traffic import CURRENT
from spark_assign.advice.kernel.membership_options import KEEP
from spark_assign.advice.kernel.propose_streams import propose_streams
from spark_assign.advice.kernel.size import CANNOT_KEEP_UP, FALLBACK, UNDER_PROVISIONED
from spark_assign.advice.kernel.zones import CLIENT_SIDE
from spark_assign.groups.assignors.release_rules import CLIENT_ASSIGNORS, client_assignor
from spark_assign.groups.assignors.server import KAFKA_SERVER_ASSIGNORS
from spark_assign.groups.kernel.client_libraries import COOPERATIVE
from spark_assign.groups.kernel.client_settings import (
    NOT_THERE,
    AssignorSwitch,
    MemberChange,
    member_settings,
    plan_switch,
)
from spark_assign.tables.quoting import shell_pattern_word

Row = Mapping[str, Any]

_SWITCH_RISK = "Members restart, and partitions move once"
_STATIC_RISK = (
    "The partitions of a static member wait for it: if an autoscaler removes it, or if it crashes for good, no "
    "other member reads them until its session expires."
)


@dataclass
class GroupFindings:
    """The findings of all advisers about one group.

    Attributes:
        group_id: id of the group.
        sizes: rows of `sizes`, by assignor.
        minimum_curves: rows of `curves` at the minimum number of members, by assignor.
        membership: row of `membership_advice`; `None`: no result.
        options: rows of `zones`, by assignor (or `CURRENT`) and whether follower fetching is on.
        compared: rows of `comparison`, by assignor.
        rejections: code and detail by adviser that rejects the group.
        streams: rows of `streams_settings`; empty if the group isn't a classic Streams application.
    """

    group_id: str
    sizes: dict[str, Row] = field(default_factory=dict)
    minimum_curves: dict[str, Row] = field(default_factory=dict)
    membership: Row | None = None
    options: dict[tuple[str, bool], Row] = field(default_factory=dict)
    compared: dict[str, Row] = field(default_factory=dict)
    rejections: dict[str, tuple[str, str]] = field(default_factory=dict)
    streams: list[Row] = field(default_factory=list)

    @property
    def known_assignor(self) -> str | None:
        """The assignor that the group runs with; `None`: unknown."""
        compared = next((row["current_assignor"] for row in self.compared.values() if row["current_assignor"]), None)
        return compared or (self.membership or {}).get("assignor")

    @property
    def assignor(self) -> str:
        """The assignor that the group runs with, or is assumed to run with."""
        return self.known_assignor or FALLBACK

    @property
    def client_libraries(self) -> str | None:
        """The client libraries of the members; `None`: unknown."""
        return next((row["client_libraries"] for row in self.compared.values() if row["client_libraries"]), None)

    @property
    def recommended(self) -> Row | None:
        """The row of the assignor that `compare` recommends; `None`: it recommends none."""
        return next((row for row in self.compared.values() if row["recommended"]), None)

    @property
    def note(self) -> str | None:
        """What is conspicuous about the assignment by the current assignor (`tables.groups.METRICS`)."""
        return next((row["note"] for name, row in self.compared.items() if self.runs(name)), None)

    @property
    def has_findings(self) -> bool:
        """Whether any adviser has a result for the group."""
        has_members = any(row["members"] for row in (*self.options.values(), *self.compared.values()))
        return bool(self.sizes or self.streams) or self.membership is not None or has_members

    def runs(self, assignor: str) -> bool:
        """Checks whether the group runs with this assignor, ignoring release rules."""
        return is_same(assignor, self.assignor)

    def can_run(self, assignor: str) -> bool:
        """Checks whether the group can run a Kafka assignor that its client library supports. A custom assignor is
        never replaced."""
        current = client_assignor(self.assignor)
        if self.runs(assignor):
            return True
        if current not in (*CLIENT_ASSIGNORS, *KAFKA_SERVER_ASSIGNORS) or assignor not in self.compared:
            return False
        row = self.compared[assignor]
        if row["rejected"] is not None or not row["members"]:
            return False
        return self.plan_switch(assignor).kind != NOT_THERE

    def plan_switch(self, assignor: str) -> AssignorSwitch:
        """Returns how the group can switch to another assignor."""
        current = self.known_assignor and client_assignor(self.known_assignor)
        return plan_switch(current, assignor, self.client_libraries)

    def switch_steps(self, assignor: str) -> tuple[str, str | None]:
        """Returns the steps to switch to another assignor, as text, and the lines to paste."""
        switch = self.plan_switch(assignor)
        settings = member_settings(MemberChange(self.group_id, self.client_libraries, switch))
        return switch.text, "\n".join(settings) or None

    def is_behind(self, assignor: str) -> bool:
        """Checks whether the group has too few members with this assignor, or can't keep up with any number."""
        row = self.sizes.get(assignor)
        return row is not None and row["verdict"] in (UNDER_PROVISIONED, CANNOT_KEEP_UP)

    def needed(self, assignor: str) -> float:
        """Returns the minimum number of members that keep up; infinity if none do, NaN if unknown."""
        row = self.sizes.get(assignor)
        if row is None or row["capacity"] is None:
            return nan
        return inf if row["needed"] is None else float(row["needed"])

    def cost_per_day(self, assignor: str, fetching: bool) -> float | None:
        """Returns the cross-zone cost per day with an assignor, or with the current owners (`CURRENT`); `None` if
        unknown."""
        row = self.options.get((assignor, fetching))
        return None if row is None else row["cost_per_day"]

    def zone_gain(self, assignor: str, fetching: bool) -> float | None:
        """Returns what an assignor saves per day in cross-zone cost, negative if it costs more; `None` if unknown."""
        current, proposed = self.cost_per_day(CURRENT, fetching), self.cost_per_day(assignor, fetching)
        return None if current is None or proposed is None else current - proposed

    def member_cost(self, assignor: str, params: AdviceParams) -> float:
        """Returns the monthly cost of the additional members that an assignor needs, compared with the current
        assignor; 0 if unknown."""
        needed = [self.needed(name) for name in (assignor, self.assignor)]
        if not all(isfinite(members) for members in needed):
            return 0.0
        proposed, current = (max(int(members), params.min_members) for members in needed)
        return params.consumers(proposed - current)

    def pause_seconds(self, assignor: str) -> float | None:
        """Returns the pause of the switch to an assignor, in partition-seconds; `None` if unknown."""
        row = self.compared.get(client_assignor(assignor)) or self.compared.get(assignor)
        return None if row is None else row["paused_partition_seconds"]


def is_same(first: str, second: str) -> bool:
    """Checks whether two names are the same assignor, ignoring release rules."""
    return client_assignor(first) == client_assignor(second)


def proposals(group: GroupFindings, params: AdviceParams, fetching: bool) -> list[AdviceItem]:
    """Returns all proposals, whether or not they are worth their cost.

    Args:
        group: the findings of all advisers about the group.
        params: prices and thresholds.
        fetching: whether the cluster has, or is advised to have, follower fetching.
    """
    items = (
        propose_to_keep_up(group, params, fetching),
        propose_for_zones(group, params, fetching),
        propose_membership(group, params),
        propose_balance(group),
    )
    return [*(item for item in items if item is not None), *propose_streams(group.streams, params)]


def propose_to_keep_up(group: GroupFindings, params: AdviceParams, fetching: bool) -> AdviceItem | None:
    """Returns the assignor with which a group that falls behind keeps up at the lowest cost of members and cross-zone
    traffic."""
    own = group.assignor
    if not group.is_behind(own):
        return None
    needed = group.needed(own)

    def needs_fewer(name: str) -> bool:
        if group.runs(name) or not group.can_run(name) or not group.needed(name) < needed:
            return False
        cost = params.change(group.pause_seconds(name))
        return not isfinite(needed) or params.pays(-group.member_cost(name, params), cost)

    def bill(name: str) -> tuple[float, float, str]:
        saved = (group.zone_gain(name, fetching) or 0.0) * DAYS
        return round(params.consumers(int(group.needed(name))) - saved, 6), group.pause_seconds(name) or 0.0, name

    best = min(filter(needs_fewer, group.sizes), key=bill, default=None)
    if best is None:
        return None
    current, proposed = group.sizes[own], group.sizes[best]
    with_own = "no number of members" if current["needed"] is None else f"{current['needed']:,} members"
    steps, setting = group.switch_steps(best)
    return AdviceItem(
        Category.BEHIND,
        Adviser.ASSIGNOR,
        "assignor",
        f"Use {best}: {proposed['needed']:,} members keep up with it, and {with_own} with {own}. The group has "
        f"{current['members']:,}.",
        f"{_SWITCH_RISK}. {steps}",
        f"compare --details {shell_pattern_word(group.group_id)}",
        setting,
        best,
        max(0.0, current["max_load"] - proposed["max_load"]),
        "messages/s",
        group.pause_seconds(best),
        PARTITION_SECONDS_ONCE,
    )


def propose_for_zones(group: GroupFindings, params: AdviceParams, fetching: bool) -> AdviceItem | None:
    """Returns the assignor that saves the most cross-zone cost, net of its own cost."""
    current = group.cost_per_day(CURRENT, fetching)
    if current is None:
        return None
    partitions = group.options[CURRENT, fetching]["partitions"]
    gains = {
        name: saved * DAYS - max(0.0, group.member_cost(name, params))
        for (name, row_fetching), row in group.options.items()
        if name != CURRENT and row_fetching == fetching and (saved := group.zone_gain(name, fetching)) is not None
        if saved > 0 and group.can_run(name) and row["partitions"] >= partitions
    }

    def preference(name: str) -> tuple[float, bool, int, str]:
        once = params.pause(group.pause_seconds(name) or 0.0)
        moved = group.options[name, fetching]["moved"] or 0
        return -round(gains[name] * params.max_payback_months - once, 6), not group.runs(name), moved, name

    best = min(gains, key=preference, default=None)
    if best is None:
        return None
    row, more, is_own = group.options[best, fetching], group.member_cost(best, params), group.runs(best)
    extra_cost = f" It needs more members, which cost {more:,.2f} {params.currency} a month." if more > 0 else ""
    steps, setting = ("", None) if is_own else group.switch_steps(best)
    rack_aware = ", which is rack-aware in Java clients since 3.5" if client_assignor(best) in CLIENT_SIDE else ""
    item = AdviceItem(
        Category.MONEY,
        Adviser.ZONES,
        "rebalance" if is_own else "assignor",
        f"{'Rebalance with' if is_own else 'Use'} {best}{rack_aware}: its cross-zone reads cost "
        f"{row['cost_per_day']:,.2f} {params.currency} a day instead of {current:,.2f}.{extra_cost}",
        f"{row['moved'] or 0:,} of {row['partitions']:,} partitions move once. {steps}".strip(),
        f"advise --only zones --details {shell_pattern_word(group.group_id)}",
        setting,
        best,
    )
    return item.in_money(params, gains[best], group.pause_seconds(best))


def propose_membership(group: GroupFindings, params: AdviceParams) -> AdviceItem | None:
    """Returns the recommendation of the membership adviser; `None` if it recommends no change."""
    row = group.membership
    if row is None or row["recommendation"] == KEEP:
        return None
    gain, once = row["saved_seconds"] * params.deploys_per_month, row["restart_paused_partition_seconds"]
    is_static = row["recommended_membership"] == "static"
    if "cooperative" in row["recommendation"]:
        steps = plan_switch(row["assignor"], COOPERATIVE, row["client_libraries"]).text
    elif row["protocol"] == "consumer" and row["membership"] == row["recommended_membership"]:
        steps = "No member restarts: the broker has the session timeout."
    else:
        steps = "Members restart once, one after the other."
    risks = [row["warning_text"] or "", _STATIC_RISK if is_static else "", steps]
    item = AdviceItem(
        Category.PAUSE,
        Adviser.MEMBERSHIP,
        row["recommendation"],
        row["summary"],
        " ".join(filter(None, risks)),
        f"advise --only membership --details {shell_pattern_word(group.group_id)}",
        row["settings"],
        COOPERATIVE if "cooperative" in row["recommendation"] else group.assignor,
        gain,
        "partition-seconds a month",
        once,
        PARTITION_SECONDS_ONCE,
        once / gain if gain > 0 else None,
    )
    return item.in_money(params, params.pause(gain), once) if params.price_per_paused_hour else item


def propose_balance(group: GroupFindings) -> AdviceItem | None:
    """Returns the assignor that `compare` recommends, if it is better balanced than the group's own."""
    best = group.recommended
    current = next((row for name, row in group.compared.items() if group.runs(name)), None)
    if best is None or current is None or group.runs(best["assignor"]) or not group.can_run(best["assignor"]):
        return None
    by_load = current["load_max_over_mean"] is not None and best["load_max_over_mean"] is not None
    name, unit = ("load_max_over_mean", "messages") if by_load else ("max_over_mean", "partitions")
    if current["rejected"] is not None or not current[name] or best[name] is None:
        return None
    steps, setting = group.switch_steps(best["assignor"])
    return AdviceItem(
        Category.BALANCE,
        Adviser.ASSIGNOR,
        "assignor",
        f"Use {best['assignor']}: its most loaded member has {best[name]:,.2f} times the mean in {unit}, and "
        f"{current[name]:,.2f} times with {group.assignor}.",
        f"{_SWITCH_RISK}. {steps}",
        f"compare --details {shell_pattern_word(group.group_id)}",
        setting,
        best["assignor"],
        100 * (1 - best[name] / current[name]),
        "%",
        best["paused_partition_seconds"],
        PARTITION_SECONDS_ONCE,
    )
