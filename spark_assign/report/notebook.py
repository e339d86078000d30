"""A plan in a notebook: totals and the groups that hurt most, small enough for the output of a cell.

Only the standard library is needed. The whole report is `spark_assign.report.html.report`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from spark_assign.report.formatting import count, number, ratio, share
from spark_assign.report.text.worst_groups import SUMS, nobody_gets, over_share, worst_first
from spark_assign.spark.caching import cached, uncached

if TYPE_CHECKING:
    from spark_assign.groups.planning import Plan

Rows = Sequence[Mapping[str, Any]]

_STYLE = (
    "<style>.spark-assign table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".spark-assign :is(th,td){padding:3px 10px;border-bottom:1px solid #8886;text-align:left}"
    ".spark-assign td.n,.spark-assign th.n{text-align:right}.spark-assign caption{text-align:left}</style>"
)
"""No colours of its own: a notebook may be light or dark."""

_COLUMNS = ("Members", "Partitions", "Per member", "Max/mean", "Over share", "Moved", "Without owner")


def plan_html(plan: Plan, top: int = 10) -> str:
    """The view as HTML, for `displayHTML`.

    Reads a row of sums, `top` rows of the plan's metrics and as many of its rejected groups.
    """
    totals, worst, rejected = _read(plan, top)
    lines = [f"<p><strong>{escape(_headline(totals))}</strong></p>"]
    if worst:
        head = "".join(f'<th scope="col" class="n">{name}</th>' for name in _COLUMNS)
        body = "".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(assignor)}</td>'
            + "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells)
            + "</tr>"
            for name, assignor, cells in map(_line, worst)
        )
        shown = f"The {count(len(worst), 'group')} with most partitions affected, of {number(totals['groups'])}"
        lines.append(
            f'<table><caption>{shown}</caption><thead><tr><th scope="col">Group</th><th scope="col">Assignor</th>'
            f"{head}</tr></thead><tbody>{body}</tbody></table>"
        )
    if rejected:
        items = "".join(f"<li>{escape(_refusal(row))}</li>" for row in rejected[:top])
        more = "<li>and more, in the table rejected</li>" if len(rejected) > top else ""
        lines.append(f"<p>Rejected:</p><ul>{items}{more}</ul>")
    return f'{_STYLE}<div class="spark-assign">{"".join(lines)}</div>'


def plan_text(plan: Plan, top: int = 10) -> str:
    """The same as plain text."""
    totals, worst, rejected = _read(plan, top)
    rows = [["group", "assignor", *(name.lower() for name in _COLUMNS)]]
    rows += [[name, assignor, *cells] for name, assignor, cells in map(_line, worst)]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [_headline(totals)]
    for row in rows if worst else ():
        cells = [cell.rjust(w) if at > 1 else cell.ljust(w) for at, (cell, w) in enumerate(zip(row, wide, strict=True))]
        lines.append("  " + "  ".join(cells).rstrip())
    lines += [f"  rejected {_refusal(row)}" for row in rejected[:top]]
    lines += ["  and more, in the table rejected"] if len(rejected) > top else []
    return "\n".join(lines)


def _read(plan: Plan, top: int) -> tuple[Mapping[str, Any], Rows, Rows]:
    """Sums of all groups, the worst of them, and of what was rejected one row more than is shown."""
    decided = cached(plan.tagged_rows(("metrics", "rejected")))
    plan = plan.with_tagged_rows(decided)
    metrics = plan.metrics
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in SUMS]
    totals = metrics.agg(F.count(F.lit(1)).alias("groups"), *sums).collect()[0].asDict()  # one row
    worst = [row.asDict() for row in worst_first(metrics).limit(top).collect()]
    refused = plan.rejected.orderBy("cluster", "group_id", "code").limit(top + 1).collect()
    uncached(decided)
    return totals, worst, [row.asDict() for row in refused]


def _headline(totals: Mapping[str, Any]) -> str:
    moved = f"{number(totals['moved'])} moved ({share(totals['moved'], totals['partitions'])})"
    return (
        f"Plan of {count(totals['groups'], 'group')}: {count(totals['members'], 'member')}, "
        f"{count(totals['partitions'], 'partition')}, {moved}, {number(totals['revoked'])} revoked, "
        f"{number(nobody_gets(totals))} without owner"
    )


def _line(row: Mapping[str, Any]) -> tuple[str, str, list[str]]:
    counts = [number(row["members"]), number(row["partitions"])]
    counts += [f"{number(row['min_per_member'])}–{number(row['max_per_member'])}", ratio(row["max_over_mean"])]
    counts += [number(over_share(row)), number(row["moved"]), number(nobody_gets(row))]
    return f"{row['cluster']}/{row['group_id']}", row["assignor"], counts


def _refusal(row: Mapping[str, Any]) -> str:
    return f"{row['cluster']}/{row['group_id']}: {row['code']}: {' '.join(str(row['detail']).split())[:300]}"
