"""Lists the changes that a group could make, each on its own: assignor and membership, with gain, cost, and risk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import escape
from math import inf, isfinite, nan
from typing import Any

from spark_assign.advice.kernel.advice_items import (
    DAYS,
    PARTITION_SECONDS_ONCE,
    AdviceItem,
    AdviceParams,
    Adviser,
    Category,
    Code,
    below_cost,
    declined,
)
from spark_assign.advice.kernel.membership_options import KEEP
from spark_assign.advice.kernel.size import (
    CANNOT_KEEP_UP,
    FALLBACK,
    OVER_PROVISIONED,
    RIGHT_SIZED,
    UNDER_PROVISIONED,
    UNKNOWN,
)
from spark_assign.advice.kernel.streams_settings import RECOVERY_LAG, STANDBYS
from spark_assign.advice.kernel.zones import CLIENT_SIDE, CURRENT, GB
from spark_assign.assignors.release_rules import CLIENT_ASSIGNORS, client_assignor
from spark_assign.assignors.server import KAFKA_SERVER_ASSIGNORS
from spark_assign.groups.kernel.client_libraries import COOPERATIVE, read_clients
from spark_assign.groups.kernel.client_settings import (
    NOT_THERE,
    UNSEEN,
    UNSEEN_BY_LEADER,
    AssignorSwitch,
    MemberChange,
    member_settings,
    plan_switch,
)
from spark_assign.tables.errors import count
from spark_assign.tables.quoting import shell_pattern_word, shell_word

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
    with_own = "no number of members" if current["needed"] is None else f"{count(current['needed'], 'member')}"
    steps, setting = group.switch_steps(best)
    return AdviceItem(
        Category.BEHIND,
        Adviser.ASSIGNOR,
        "assignor",
        f"Use {best}: {count(proposed['needed'], 'member', 'keeps', 'keep')} up with it, and {with_own} with "
        f"{own}. The group has "
        f"{current['members']:,}.",
        f"{_SWITCH_RISK}. {steps}",
        f"compare --group {shell_pattern_word(group.group_id)}",
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
        f"advise zones --details {shell_pattern_word(group.group_id)}",
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
        f"advise membership --details {shell_pattern_word(group.group_id)}",
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
        f"compare --group {shell_pattern_word(group.group_id)}",
        setting,
        best["assignor"],
        100 * (1 - best[name] / current[name]),
        "%",
        best["paused_partition_seconds"],
        PARTITION_SECONDS_ONCE,
    )


# --- proposes settings of a classic Streams application, from what `streams_settings` measured ----------------


FEWER_STANDBYS = "fewer-standbys"
TASK_SECONDS = "task-seconds"
_RESTART = "Instances restart once, one after the other."


def propose_streams(rows: Sequence[Row], params: AdviceParams) -> list[AdviceItem]:
    """Returns the proposals for an application, whether or not they save enough.

    Args:
        rows: rows of the application (`streams_settings.STREAMS_ROWS`).
        params: the rate at which an instance restores.
    """
    pairs = _pairs(rows)
    items = []
    if (pair := pairs.get(STANDBYS)) is not None and not _saves_already(*pair):
        items.append(_propose_standbys(*pair, params))
    if (pair := pairs.get(RECOVERY_LAG)) is not None:
        items.append(_propose_lag(*pair, params))
    return items


def list_kept_settings(rows: Sequence[Row], params: AdviceParams) -> Iterator[dict[str, Any]]:
    """Yields a row for each setting for which nothing is proposed, with the reason."""
    for row in sorted(rows, key=lambda row: str(row["setting"])):
        if row["code"] is not None:
            yield declined(Adviser.STREAMS, row["code"], row["detail"])
    if (pair := _pairs(rows).get(STANDBYS)) is not None and _saves_already(*pair):
        with_standbys, without = pair
        detail = f"Keep {STANDBYS}={with_standbys['value']}. {_loss(without, 'without standbys', params)} "
        yield declined(Adviser.STREAMS, Code.NOTHING, f"{detail}With them, {_loss_figures(with_standbys)}")


def _pairs(rows: Sequence[Row]) -> dict[str, tuple[Row, Row]]:
    """Returns the row of the current value and that of the other value, by setting, if both are measured."""
    measured = {(row["setting"], row["is_current"]): row for row in rows if row["code"] is None}
    return {
        setting: (measured[setting, True], measured[setting, False])
        for setting in (STANDBYS, RECOVERY_LAG)
        if (setting, True) in measured and (setting, False) in measured
    }


def _saves_already(current: Row, other: Row) -> bool:
    """Checks whether the other number of standbys is only there to compare the current one with it."""
    return current["value"] > other["value"] and current["unassigned_standby"] is None


def _propose_standbys(current: Row, other: Row, params: AdviceParams) -> AdviceItem:
    command = (
        f"plan --standby-replicas {other['value']} --restore-bytes-per-second {params.restore_bytes_per_second:.0f}"
    )
    setting = f"{STANDBYS}={other['value']}"
    if current["value"] > other["value"]:
        if current["stateful_tasks"]:
            instances = count(current["instances"], "instance")
            reason = f"The application has {instances}, and a task has at most one copy in each"
        else:
            reason = "No task has state"
        return AdviceItem(
            Category.PAUSE,
            Adviser.STREAMS,
            FEWER_STANDBYS,
            f"Set {setting}: with {current['value']:,}, no instance gets {current['unassigned_standby']:,} of the "
            f"standbys. {reason}.",
            f"{_RESTART} If the application gets more instances or state, it has no more standbys than before.",
            command,
            setting,
        )
    size, per_day = other["standby_bytes"] / GB, other["standby_bytes_per_day"]
    writes = "all that is written to the changelogs" if per_day is None else f"{per_day / GB:,.2f} GB a day"
    return AdviceItem(
        Category.PAUSE,
        Adviser.STREAMS,
        "standbys",
        f"Keep a standby of each task with state. {_loss(current, 'without standbys', params)} With "
        f"standbys, {_loss_figures(other)}.",
        f"Standbys need {size:,.2f} GB of disk. They read this from brokers once, and then {writes}. {_RESTART}",
        command,
        setting,
        gain=current["stopped_task_seconds"] - other["stopped_task_seconds"],
        gain_unit=f"{TASK_SECONDS} per lost instance",
        cost=size,
        cost_unit="GB of disk",
    )


def _loss(row: Row, condition: str, params: AdviceParams) -> str:
    """Returns a sentence with the figures of the loss of an instance."""
    return (
        f"If the instance with the most state fails or is removed {condition}, {_loss_figures(row)}, at "
        f"{params.restore_bytes_per_second / 1e6:,.0f} MB/s per instance."
    )


def _loss_figures(row: Row) -> str:
    return (
        f"{count(row['moved_without_state'], 'task', 'moves', 'move')} without their state, "
        f"{row['restored_bytes'] / GB:,.2f} GB are "
        f"restored, and tasks stop for {row['stopped_task_seconds']:,.0f} task-seconds"
    )


def _propose_lag(current: Row, other: Row, params: AdviceParams) -> AdviceItem:
    now, proposed = current["value"], other["value"]
    setting = f"{RECOVERY_LAG}={proposed}"
    command = f"plan --restore-bytes-per-second {params.restore_bytes_per_second:.0f}"
    takes = f"up to {current['restore_seconds']:,.0f} s to restore it per task, and {other['restore_seconds']:,.0f} s"
    if proposed < now:
        stopped, less = current["stopped_task_seconds"], other["stopped_task_seconds"]
        return AdviceItem(
            Category.PAUSE,
            Adviser.STREAMS,
            "recovery-lag",
            f"Lower {RECOVERY_LAG} from {now:,} to {proposed:,}: an instance takes {takes} with {proposed:,}, at "
            f"{params.restore_bytes_per_second / 1e6:,.0f} MB/s per instance. If an instance joins, tasks stop for "
            f"{stopped:,.0f} task-seconds now, and for {less:,.0f} with {proposed:,}.",
            f"More tasks wait for warmups, and so for probing rebalances, before they move. {_RESTART}",
            f"{command} --what-if {shell_word('join:' + escape(current['group_id']) + ':1')}",
            setting,
            gain=stopped - less,
            gain_unit=f"{TASK_SECONDS} per new instance",
        )
    waiting = current["pending_moves"] - other["pending_moves"]
    return AdviceItem(
        Category.PAUSE,
        Adviser.STREAMS,
        "recovery-lag",
        f"Raise {RECOVERY_LAG} from {now:,} to {proposed:,}: "
        f"{count(current['pending_moves'], 'move', 'waits', 'wait')} for a probing "
        f"rebalance, and {other['pending_moves']:,} with {proposed:,}, because instances with a higher lag than "
        f"{now:,} don't count as caught up. An instance takes {takes} with {proposed:,}.",
        "The lags are those that members reported at the last rebalance, against the end offsets of the snapshot. "
        f"{_RESTART}",
        command,
        setting,
        gain=float(waiting),
        gain_unit="moves without waiting",
        cost=max(0.0, other["stopped_task_seconds"] - current["stopped_task_seconds"]),
        cost_unit=f"{TASK_SECONDS} once",
    )


# --- selects the advice for one group so that no two recommendations contradict each other --------------------
#
# Principles:
#     1. A change must pay: its gain within the payback period is at least its one-time cost.
#     2. No change makes a group fall behind: an assignor that needs more members than the group has isn't recommended
#        for a group that keeps up today.
#     3. A lower category never worsens a higher one: a shorter pause or a better balance must not cost more money.
#     4. One assignor: each figure is valid for one assignor. The most pressing advice selects the assignor, and the
#        larger gain decides within a category. Advice for another assignor is superseded until that change is done.
#     5. The number of members is computed for the selected assignor. A group that falls behind today keeps all members.
#
# Example: zones recommends range, which saves 50 USD a day; membership recommends cooperative-sticky, which saves 900
# partition-seconds per deploy. Money comes first, so range is selected, cooperative-sticky is superseded, and the
# number of members is that of range.


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
        needs = (
            "no number of members keeps up"
            if row["needed"] is None
            else f"{count(row['needed'], 'member', 'is', 'are')} needed"
        )
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
    command = f"advise size --details {shell_pattern_word(group.group_id)}"
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
        f"Run {count(row['needed'], 'member')} instead of {row['members']:,}. {row['reason']}",
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
        f"{count(row['moved'], 'partition', 'moves', 'move')} once, with a pause of "
        f"{row['paused_partition_seconds']:,.0f} "
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
        detail = f"No group is advised to have fewer than {count(params.min_members, 'member')}. {row['reason']}"
        resolved.decline_size(Code.NOTHING, detail)
    elif curve is None or curve["paused_partition_seconds"] is None or curve.get("keeps_up") is False:
        detail = f"Whether {count(target, 'member')}, the least to be advised, can keep up is unknown. {row['reason']}"
        resolved.decline_size(Code.NOT_KNOWN, detail)
    else:
        spare = "" if target == needed else f" {needed:,} keep up; the rest are a reserve for failures."
        item = AdviceItem(
            Category.MONEY,
            Adviser.SIZE,
            SCALE_DOWN,
            f"Run {count(target, 'member')} instead of {members:,}.{spare} {row['reason']}",
            f"{_move_risk(curve)} The load comes from the readings, which must include the busiest hours.",
            f"advise size --details {shell_pattern_word(group.group_id)} --keda",
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
