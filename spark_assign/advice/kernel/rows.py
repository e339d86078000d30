"""Rows of advice, and of what is not advised; in which order advice goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from spark_assign.advice.kernel.params import AdviceParams

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
