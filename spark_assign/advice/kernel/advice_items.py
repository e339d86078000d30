"""What advice has to be worth, and what things cost. Why each is what it is: docs/advise.md.

Rows of advice, and of what is not advised; in which order advice goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from spark_assign.advice.kernel.zones import GB

DAYS, HOURS = 30, 720
"""Of a month."""


@dataclass(frozen=True)
class AdviceParams:
    """What is asked. Prices are in `currency`.

    Attributes:
        price: of a gigabyte that crosses a zone.
        consumer_price: of a consumer, an hour.
        change_cost: of a change, whatever it is: somebody has to look, decide, and roll it out.
        months: within so many a change has to pay what it costs.
        deploys: rolling restarts of a group a month.
        pause_price: of an hour in which nobody reads a partition; null: pauses are no money.
        least_members: no group is advised to have fewer.
        least_balance: the part of what the most loaded member has that another assignor must take from it.
        retention_days: for so long topics keep what is written, which a replica that moves has to copy.
        follower_fetching: whether brokers have a rack-aware `replica.selector.class` today.
        missing: of advisers that could not be asked why, with the remedy.
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
        """What is wrong with it, if anything."""
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
        """What a change costs once, with the partition-seconds that it pauses, if these are money."""
        return self.change_cost + self.pause(paused_seconds or 0.0)

    def pause(self, partition_seconds: float) -> float:
        """What a pause costs; nothing where pauses are no money."""
        return partition_seconds / 3600 * (self.pause_price or 0.0)

    def consumers(self, number: int) -> float:
        """What so many cost a month."""
        return round(number * self.consumer_price * HOURS, 6)

    def copied(self, bytes_per_day: float) -> float:
        """What it costs to copy the log of a partition with so many bytes written a day to another zone."""
        return bytes_per_day * self.retention_days / GB * self.price

    def pays(self, gain: float, cost: float) -> bool:
        """Whether a gain a month is above what is paid once, within the months."""
        return gain > 0 and gain * self.months >= cost


BEHIND, MONEY, PAUSE, BALANCE, UNKNOWN = MATTERS = ("behind", "money", "pause", "balance", "unknown")
"""What advice is about, the most pressing first: a group falls behind, money a month, pauses, balance, and what has to
be known before anything can be said."""

BELOW_COST, SUPERSEDED, INCLUDED = "below-cost", "superseded", "included"
FALLS_BEHIND, COSTS_MORE, NOTHING, NOT_KNOWN = "falls-behind", "costs-more", "nothing-to-do", "not-known"
NOT_POSSIBLE = "not-possible"
"""Why something is not advised."""

SIZE, ASSIGNOR, MEMBERSHIP, ZONES, REPLICAS = QUESTIONS = ("size", "assignor", "membership", "zones", "replicas")
"""What is looked at."""


@dataclass(frozen=True)
class AdviceItem:
    """One thing to do, or that could be done.

    Attributes:
        matter: of `MATTERS`.
        of: of `QUESTIONS`, whose answer it is.
        kind: what it is.
        by: the assignor that its figures are of; null: they hold for any.
        what: in a sentence, with figures.
        gain, gain_unit: null where nobody knows it.
        cost, cost_unit: likewise.
        pays_after: months until the gain has paid the cost; null where they are not of one kind.
        risk: in a sentence.
        command: the job, and its flags, that shows more or writes files.
        settings: lines to paste; null: none.
    """

    matter: str
    of: str
    kind: str
    by: str | None
    what: str
    gain: float | None
    gain_unit: str | None
    cost: float | None
    cost_unit: str | None
    risk: str
    command: str
    settings: str | None = None
    pays_after: float | None = None

    def row(self, cluster: str, group_id: str | None) -> dict[str, Any]:
        """As a row of the answer."""
        names = ("matter", "kind", "what", "gain", "gain_unit", "cost", "cost_unit", "pays_after", "risk", "command")
        told = {name: getattr(self, name) for name in (*names, "settings")}
        return {"cluster": cluster, "group_id": group_id, "of": self.of} | told

    def order(self) -> tuple[int, float, str]:
        """The most pressing matter first, then the largest gain."""
        return MATTERS.index(self.matter), -(self.gain or 0.0), self.kind


def not_advised(of: str, code: str, detail: str, advice: AdviceItem | None = None) -> dict[str, Any]:
    """A row of what is not advised, and why; with the figures of the advice that would have been given."""
    row: dict[str, Any] = {"of": of, "code": code, "detail": detail}
    if advice is not None:
        row |= {name: getattr(advice, name) for name in ("kind", "gain", "gain_unit", "cost", "cost_unit")}
    return row


def in_money(advice: AdviceItem, asked: AdviceParams, gain: float, paused: float | None) -> AdviceItem:
    """The advice with a gain in money a month, and what it costs once."""
    cost = asked.change(paused)
    return replace(
        advice,
        matter=MONEY,
        gain=gain,
        gain_unit=f"{asked.currency} a month",
        cost=cost,
        cost_unit=f"{asked.currency} once",
        pays_after=cost / gain if gain > 0 else None,
    )


def below_cost(advice: AdviceItem, asked: AdviceParams) -> str:
    """Why it is not worth it, in words."""
    if (advice.gain or 0) <= 0:
        return f"All in all it gains nothing ({advice.gain or 0:,.2f} {advice.gain_unit}). {advice.what}"
    return (
        f"{advice.gain or 0:,.2f} {advice.gain_unit} do not pay {advice.cost or 0:,.2f} {advice.cost_unit} "
        f"within {asked.months:,.0f} months. {advice.what}"
    )


def quoted(row: Mapping[str, Any] | str) -> str:
    """A group as a word of a command line."""
    text = row if isinstance(row, str) else str(row["group_id"])
    return "'" + text.replace("'", "'\\''") + "'"
