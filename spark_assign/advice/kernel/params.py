"""What advice has to be worth, and what things cost. Why each is what it is: docs/advise.md."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from spark_assign.advice.kernel.zones.zones import GB

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
