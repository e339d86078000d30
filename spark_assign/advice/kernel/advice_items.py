"""Parameters of advice, items of advice, and recommendations that aren't given; for the reasons, see docs/advise.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from spark_assign.advice.kernel.zones import GB

DAYS, HOURS = 30, 720
"""Days and hours of a month."""


@dataclass(frozen=True)
class AdviceParams:
    """The parameters of advice. Prices are in `currency`.

    Attributes:
        price: cost per gigabyte of cross-zone traffic.
        currency: currency of all prices.
        consumer_price: cost per consumer and hour.
        change_cost: cost of any change: to review, decide, and roll out.
        months: payback period in months.
        deploys: rolling restarts of a group per month.
        pause_price: cost of one partition-hour without consumption; `None`: not counted.
        least_members: minimum number of members that a group is advised to have.
        least_balance: minimum reduction of the largest member's load for a new assignor, from 0 to 1.
        retention_days: retention of topics, which a moved replica must copy.
        follower_fetching: whether brokers have a rack-aware `replica.selector.class` today.
        headroom: share of its load that a member must have in reserve.
        missing: advisers that couldn't run, with the reason and the remedy.
    """

    price: float = 0.02
    currency: str = "USD"
    consumer_price: float = 0.05
    change_cost: float = 60.0
    months: float = 12.0
    deploys: float = 4.0
    pause_price: float | None = None
    least_members: int = 2
    least_balance: float = 0.25
    retention_days: float = 7.0
    follower_fetching: bool = False
    headroom: float = 0.2
    missing: tuple[tuple[str, str], ...] = ()

    def fault(self) -> str | None:
        """Returns what is invalid; `None` if nothing is."""
        for name in ("price", "consumer_price", "change_cost", "deploys", "pause_price", "retention_days"):
            value = getattr(self, name)
            if value is not None and not (isfinite(value) and value >= 0):
                return f"{name} is {value}, expected a number from 0"
        if not (isfinite(self.months) and self.months > 0):
            return f"months is {self.months}, expected a number above 0"
        if self.least_members < 1:
            return f"least_members is {self.least_members}, expected 1 or more"
        if not 0 < self.least_balance <= 1:
            return f"least_balance is {self.least_balance}, expected a share above 0, such as 0.25"
        return None

    def change(self, paused_seconds: float | None) -> float:
        """Returns the one-time cost of a change, including its pause in partition-seconds."""
        return self.change_cost + self.pause(paused_seconds or 0.0)

    def pause(self, partition_seconds: float) -> float:
        """Returns the cost of a pause; 0 if pauses have no price."""
        return partition_seconds / 3600 * (self.pause_price or 0.0)

    def consumers(self, number: int) -> float:
        """Returns the cost of this number of consumers per month."""
        return round(number * self.consumer_price * HOURS, 6)

    def copied(self, bytes_per_day: float) -> float:
        """Returns the cost to copy the log of a partition to another zone."""
        return bytes_per_day * self.retention_days / GB * self.price

    def pays(self, gain: float, cost: float) -> bool:
        """Checks whether a monthly gain pays a one-time cost within the payback period."""
        return gain > 0 and gain * self.months >= cost


BEHIND, MONEY, PAUSE, BALANCE, UNKNOWN = MATTERS = ("behind", "money", "pause", "balance", "unknown")
"""Categories of advice, the most pressing first: a group falls behind, monthly cost, pauses, balance, and unknown
facts.
"""

BELOW_COST, SUPERSEDED, INCLUDED = "below-cost", "superseded", "included"
"""Reasons why something isn't advised."""
FALLS_BEHIND, COSTS_MORE, NOTHING, NOT_KNOWN = "falls-behind", "costs-more", "nothing-to-do", "not-known"
NOT_POSSIBLE = "not-possible"
"""Reasons why something isn't advised."""

SIZE, ASSIGNOR, MEMBERSHIP, ZONES, REPLICAS = ADVISERS = ("size", "assignor", "membership", "zones", "replicas")
"""The advisers."""


@dataclass(frozen=True)
class AdviceItem:
    """One possible change.

    Attributes:
        category: one of `MATTERS`.
        adviser: one of `ADVISERS`.
        kind: the type of change.
        by: the assignor that the figures are valid for; `None`: any.
        text: the change with its figures, in a sentence.
        gain, gain_unit: `None` if unknown.
        cost, cost_unit: `None` if unknown.
        pays_after: months until the gain has paid the cost; `None` if their units differ.
        risk: the risk, in a sentence.
        command: the job, with flags, that shows details or writes files.
        settings: lines to paste; `None`: none.
    """

    category: str
    adviser: str
    kind: str
    by: str | None
    text: str
    gain: float | None
    gain_unit: str | None
    cost: float | None
    cost_unit: str | None
    risk: str
    command: str
    settings: str | None = None
    pays_after: float | None = None

    def row(self, cluster: str, group_id: str | None) -> dict[str, Any]:
        """Returns the item as a result row."""
        names = ("kind", "gain", "gain_unit", "cost", "cost_unit", "pays_after", "risk", "command", "settings")
        row = {"cluster": cluster, "group_id": group_id, "of": self.adviser, "matter": self.category, "what": self.text}
        return row | {name: getattr(self, name) for name in names}

    def order(self) -> tuple[int, float, str]:
        """Returns the sort key: the most pressing category first, then the largest gain."""
        return MATTERS.index(self.category), -(self.gain or 0.0), self.kind


def not_advised(adviser: str, code: str, detail: str, advice: AdviceItem | None = None) -> dict[str, Any]:
    """Returns a row for something that isn't advised, with the reason, and the figures of the item if given."""
    row: dict[str, Any] = {"of": adviser, "code": code, "detail": detail}
    if advice is not None:
        row |= {name: getattr(advice, name) for name in ("kind", "gain", "gain_unit", "cost", "cost_unit")}
    return row


def in_money(advice: AdviceItem, params: AdviceParams, gain: float, paused: float | None) -> AdviceItem:
    """Returns the item with a monthly gain in money and its one-time cost."""
    cost = params.change(paused)
    return replace(
        advice,
        category=MONEY,
        gain=gain,
        gain_unit=f"{params.currency} a month",
        cost=cost,
        cost_unit=f"{params.currency} once",
        pays_after=cost / gain if gain > 0 else None,
    )


def below_cost(advice: AdviceItem, params: AdviceParams) -> str:
    """Returns the explanation why an item isn't worth its cost."""
    if (advice.gain or 0) <= 0:
        return f"All in all it gains nothing ({advice.gain or 0:,.2f} {advice.gain_unit}). {advice.text}"
    return (
        f"{advice.gain or 0:,.2f} {advice.gain_unit} do not pay {advice.cost or 0:,.2f} {advice.cost_unit} "
        f"within {params.months:,.0f} months. {advice.text}"
    )


def quoted(row: Mapping[str, Any] | str) -> str:
    """Returns a group id, quoted for a shell."""
    text = row if isinstance(row, str) else str(row["group_id"])
    return "'" + text.replace("'", "'\\''") + "'"
