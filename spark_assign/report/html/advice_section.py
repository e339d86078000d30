"""The report's first section: what to do, ranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_assign.advice.kernel.advice_items import MATTERS
from spark_assign.report.formatting import NONE, count
from spark_assign.report.html.report_data import AdviceRows, Row
from spark_assign.report.html.table import Table
from spark_assign.report.text.advise import TITLES, figure, months, where


@dataclass(frozen=True)
class AdviceSection:
    """What to do: a table for each matter, the most pressing first."""

    said: str
    tables: Sequence[Table]


def of_advice(rows: AdviceRows) -> AdviceSection:
    """What to do; see `AdviceRows`."""
    numbers = {row["matter"]: row["number"] for row in rows.matters}
    listed = {matter: [row for row in rows.advice if row["matter"] == matter] for matter in MATTERS}
    tables = [
        Table(
            TITLES[matter],
            [
                ("Rank", True),
                *((name, False) for name in ("Where", "Do", "What", "Gain", "Cost", "Risk", "Command", "Set")),
            ],
            [_line(row) for row in of_it],
            _cut(len(of_it), numbers[matter]),
        )
        for matter, of_it in listed.items()
        if of_it
    ]
    said = (
        f"{count(sum(numbers.values()), 'piece')} of advice, none contradicting another; each is worth what it costs."
    )
    return AdviceSection(said if tables else "Nothing is worth a change.", tables)


def _line(row: Row) -> list[str]:
    paid = "" if row["pays_after"] is None else f", has paid after {months(row['pays_after'])}"
    cells = [str(row["rank"]), where(row), row["kind"], row["what"], figure(row, "gain")]
    return [*cells, figure(row, "cost") + paid, row["risk"], row["command"], row["settings"] or NONE]


def _cut(shown: int, number: int) -> str:
    return f"Shown are {shown:,} of {number:,}; the table advice has all." if shown < number else ""
