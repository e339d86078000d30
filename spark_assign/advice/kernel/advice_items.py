"""Parameters of advice, and the items that it consists of: changes that are recommended, and changes that aren't."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any

from spark_assign.advice.kernel.membership_modes import MembershipParams
from spark_assign.advice.kernel.size_sweep import SizingCriteria
from spark_assign.advice.kernel.zones import GB, ZoneParams
from spark_assign.tables.parameters import Param

DAYS, HOURS = 30, 720
"""Days and hours of a month."""


@dataclass(frozen=True)
class AdviceParams:
    """Prices and thresholds of `advise`. All prices are in `currency`.

    Attributes:
        price_per_gb: cost per gigabyte (10^9 bytes) of cross-zone traffic.
        currency: currency of all prices.
        price_per_consumer_hour: cost per consumer and hour.
        price_per_paused_hour: cost of one partition-hour without consumption (default: pauses are counted, but have no
            price).
        change_cost: one-time cost of any change: to review, decide, and roll out.
        max_payback_months: months within which a change must pay its cost. Other changes aren't advised.
        deploys_per_month: rolling restarts of each group per month.
        min_members: minimum number of members that a group is advised to have.
        min_balance_gain: minimum reduction of the most loaded member's load for a better balance, from 0 to 1.
        retention_days: retention of topics in days, which determines how much data a moved replica copies.
        restore_bytes_per_second: what an instance of a Streams application restores from changelogs per second.
        min_stopped_task_seconds: minimum savings of a setting of a Streams application each time that an instance is
            lost or joins, in task-seconds for which tasks restore before they run.
        headroom: reserve of a member, as a share of its load, with which it catches up after a pause.
        quantile: quantile of the message rate that members must be able to handle, between 0 and 1.
        restart_time_ms: time that a restarted member is away.
        follower_fetching: whether brokers have replica.selector.class set to RackAwareReplicaSelector today.

    Examples:
        >>> AdviceParams(price_per_paused_hour=5.0, min_members=3).currency
        'USD'
    """

    price_per_gb: Annotated[float, Param(least=0)] = ZoneParams.price_per_gb
    currency: Annotated[str, Param()] = ZoneParams.currency
    price_per_consumer_hour: Annotated[float, Param(least=0)] = 0.05
    price_per_paused_hour: Annotated[float | None, Param(least=0)] = None
    change_cost: Annotated[float, Param(least=0)] = 60.0
    max_payback_months: Annotated[float, Param(above=0)] = 12.0
    deploys_per_month: Annotated[float, Param(least=0)] = 4.0
    min_members: Annotated[int, Param(least=1)] = 2
    min_balance_gain: Annotated[float, Param(above=0, most=1)] = 0.25
    retention_days: Annotated[float, Param(least=0)] = 7.0
    restore_bytes_per_second: Annotated[float, Param(least=1)] = 50_000_000.0
    min_stopped_task_seconds: Annotated[float, Param(least=0)] = 60.0
    headroom: Annotated[float, Param(least=0)] = SizingCriteria.headroom
    quantile: Annotated[float, Param(above=0, below=1)] = SizingCriteria.quantile
    restart_time_ms: Annotated[int, Param(least=1)] = MembershipParams.restart_time_ms
    follower_fetching: Annotated[bool, Param()] = False

    def change(self, paused_seconds: float | None) -> float:
        """Returns the one-time cost of a change, including its pause in partition-seconds."""
        return self.change_cost + self.pause(paused_seconds or 0.0)

    def pause(self, partition_seconds: float) -> float:
        """Returns the cost of a pause; 0 if pauses have no price."""
        return partition_seconds / 3600 * (self.price_per_paused_hour or 0.0)

    def consumers(self, number: int) -> float:
        """Returns the cost of this number of consumers per month."""
        return round(number * self.price_per_consumer_hour * HOURS, 6)

    def copied(self, bytes_per_day: float) -> float:
        """Returns the cost to copy the log of a partition to another zone."""
        return bytes_per_day * self.retention_days / GB * self.price_per_gb

    def pays(self, gain: float | None, cost: float | None) -> bool:
        """Checks whether a monthly gain pays a one-time cost within the payback period; `None` counts as 0."""
        return (gain or 0.0) > 0 and (gain or 0.0) * self.max_payback_months >= (cost or 0.0)


class Category(StrEnum):
    """Categories of advice, the most pressing first."""

    BEHIND = "behind"
    MONEY = "money"
    PAUSE = "pause"
    BALANCE = "balance"
    UNKNOWN = "unknown"


class Adviser(StrEnum):
    """The advisers. If several reject a group, the first one counts."""

    STREAMS = "streams"
    SIZE = "size"
    ASSIGNOR = "assignor"
    MEMBERSHIP = "membership"
    ZONES = "zones"
    REPLICAS = "replicas"


class Code(StrEnum):
    """Why a change isn't recommended."""

    BELOW_COST = "below-cost"
    SUPERSEDED = "superseded"
    INCLUDED = "included"
    FALLS_BEHIND = "falls-behind"
    COSTS_MORE = "costs-more"
    NOTHING = "nothing-to-do"
    NOT_KNOWN = "not-known"
    NOT_POSSIBLE = "not-possible"


CATEGORIES, ADVISERS = list(Category), list(Adviser)

PARTITION_SECONDS_ONCE = "partition-seconds once"


@dataclass(frozen=True)
class AdviceItem:
    """One possible change.

    Attributes:
        category: what the change is about.
        adviser: the adviser that proposes it.
        action: the type of change.
        description: the change with its figures, in a sentence.
        risk: the risk, in a sentence.
        command: the job, with flags, that shows details or writes files.
        settings: lines to paste; `None`: none.
        assignor: the assignor that the figures are valid for; `None`: any.
        gain, gain_unit: `None` if unknown.
        cost, cost_unit: `None` if unknown.
        payback_months: months until the gain has paid the cost; `None` if their units differ.
    """

    category: Category
    adviser: Adviser
    action: str
    description: str
    risk: str
    command: str
    settings: str | None = None
    assignor: str | None = None
    gain: float | None = None
    gain_unit: str | None = None
    cost: float | None = None
    cost_unit: str | None = None
    payback_months: float | None = None

    def order(self) -> tuple[int, float, str]:
        """Returns the sort key: the most pressing category first, then the largest gain."""
        return CATEGORIES.index(self.category), -(self.gain or 0.0), self.action

    def row(self) -> dict[str, Any]:
        """Returns the item as a result row without its group."""
        return {**vars(self), "category_index": CATEGORIES.index(self.category)}

    def declined(self, code: str, detail: str) -> dict[str, Any]:
        """Returns the result row of this item if it isn't recommended, with the reason and its description."""
        row = {name: getattr(self, name) for name in ("action", "gain", "gain_unit", "cost", "cost_unit")}
        return declined(self.adviser, code, f"{detail}. {self.description}") | row

    def in_money(self, params: AdviceParams, gain: float, paused: float | None, extra_cost: float = 0.0) -> AdviceItem:
        """Returns the item with a monthly gain in money and its one-time cost."""
        cost = params.change(paused) + extra_cost
        return replace(
            self,
            category=Category.MONEY,
            gain=gain,
            gain_unit=f"{params.currency} a month",
            cost=cost,
            cost_unit=f"{params.currency} once",
            payback_months=cost / gain if gain > 0 else None,
        )


def declined(adviser: str, code: str, detail: str) -> dict[str, Any]:
    """Returns a result row for an adviser that recommends nothing, with the reason."""
    return {"adviser": adviser, "code": code, "detail": detail}


def below_cost(item: AdviceItem, params: AdviceParams) -> str:
    """Returns the explanation why an item isn't worth its cost."""
    gain = item.gain or 0.0
    if gain <= 0:
        return f"Saves nothing in total ({gain:,.2f} {item.gain_unit})"
    cost = f"{item.cost or 0:,.2f} {item.cost_unit}"
    return f"{gain:,.2f} {item.gain_unit} doesn't pay {cost} within {params.max_payback_months:,.0f} months"
