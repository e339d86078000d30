"""Text and HTML of a plan: the summary of a stored plan, and the view that a notebook shows.

The notebook view contains totals and the worst groups, small enough for the output of a cell. The complete report is
`spark_assign.report.html.report`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.groups.kernel.leader_rules import count_rules, find_rule_source, format_rule_sources
from spark_assign.report.formatting import (
    MAX_REJECTED,
    Row,
    Rows,
    aligned,
    change,
    count,
    duration,
    group_name,
    listed,
    number,
    ratio,
    rejected_line,
    rejected_lines,
    share,
)
from spark_assign.report.listed_groups import (
    SUMS,
    balance_text,
    collected,
    note_lines,
    num_rows,
    num_unowned,
    over_share,
    rounds_of,
    total_columns,
    worst_first,
)
from spark_assign.spark.tagged_pass import union
from spark_assign.stores.local_parquet import read_rows
from spark_assign.stores.run_store import StoredRun
from spark_assign.tables.groups import GROUP_KEY, METRICS, REJECTED

if TYPE_CHECKING:
    from spark_assign.groups.planning import Plan

_SUMMARY_TABLES = {"metrics", "rejected"}
_RULE_COLUMNS = ("assignor", "leader_client")
_MAX_LOCAL_ROWS = 10_000
"""Number of rows that Python processes faster than Spark starts a query."""


def summarize(
    stored: StoredRun,
    location: str,
    limit: int = 10,
    other_kinds: Sequence[str] = (),
    unknown: Sequence[str] = (),
) -> str:
    """Returns the summary of a stored plan. Reads at most a screenful of rows of metrics and rejected.

    Args:
        stored: Plan read back with `read_run`.
        location: Location it was written to, for the last line.
        limit: Maximum number of groups listed, highest max_over_mean first.
        other_kinds: Summaries of share groups, Streams groups, and Connect clusters.
        unknown: Sentences about what the fleet lacks (`Fleet.unknown`).
    """
    num_rejected = stored.manifest.rows["rejected"]
    local_rows = _read_locally(stored, limit)
    if local_rows is None:
        local_rows = _read(stored.tables["metrics"], stored.tables["rejected"], limit)
    tables = ", ".join(f"{name} {num_rows:,}" for name, num_rows in sorted(stored.manifest.rows.items()))
    has_consumer_groups = stored.manifest.rows["metrics"] or num_rejected or not other_kinds
    written = f"Rows: {tables}\nWritten to {location} in {stored.manifest.duration_s:.1f} s"
    summaries = [
        *([_format(local_rows, num_rejected, limit, unknown)] if has_consumer_groups else []),
        *other_kinds,
        written,
    ]
    return f"Plan {stored.manifest.run_id}: " + "\n\n".join(summaries)


def plan_text(metrics: DataFrame, rejected: DataFrame, limit: int = 10, unknown: Sequence[str] = ()) -> str:
    """Returns the summary of a plan without its run, from its tables `metrics` and `rejected`."""
    return _format(_read(metrics, rejected, limit), rejected.count(), limit, unknown)


def _format(found: Sequence[Rows], num_rejected: int, limit: int, unknown: Sequence[str]) -> str:
    """Returns the summary, from the rows that `_read` returns, and what the fleet lacks."""
    [totals], worst, rejected_rows, rule_rows, load_rows = found
    listed("totals", [{name: totals[name] for name in ("groups", *SUMS)}])
    listed("groups", [{name: row[name] for name in METRICS.names} for row in worst])
    listed("rejected", [{name: row[name] for name in REJECTED.names} for row in rejected_rows])
    withheld = f" ({totals['withheld']:,} until the next round)" if totals["withheld"] else ""
    lines = [
        f"{count(totals['groups'], 'group')} planned, {num_rejected:,} rejected, "
        f"{count(totals['members'], 'member')}, {count(totals['partitions'], 'partition')} assigned, "
        f"{totals['moved']:,} moved, {totals['revoked']:,} revoked, {totals['unassigned']:,} unassigned{withheld}",
    ]
    if rules := format_rule_sources(
        count_rules((row["assignor"], row["leader_client"], row["groups"]) for row in rule_rows)
    ):
        lines.append(rules)
    lines += unknown
    if limit and totals["groups"]:
        selection = f"the {len(worst)} least balanced of {totals['groups']:,}"
        lines += ["", f"Groups ({selection if totals['groups'] > limit else 'least balanced first'}):"]
        header = ["group", "assignor", "members", "partitions", "per member", "max/mean", "per topic", "moved"]
        rows = [
            [
                group_name(row),
                row["assignor"],
                *_size_cells(row),
                ratio(row["topic_max_over_mean"]),
                number(row["moved"]),
            ]
            for row in worst
        ]
        lines += aligned([header, *rows], words=(0, 1))
        lines += note_lines([{**row, "rules_note": _rules_note(row)} for row in worst])
    if load_rows:
        lines += ["", *_format_loads(load_rows)]
    return "\n".join([*lines, *rejected_lines(rejected_rows, num_rejected, "Rejected groups:")])


def _rules_note(row: Row) -> str | None:
    """Returns whose rules plan a group if its leader can assign otherwise."""
    source = find_rule_source(row["assignor"], row["leader_client"]) if row["members"] else None
    return f"by the rules of {source.text}" if source and source.differs else None


def _read_locally(stored: StoredRun, limit: int) -> tuple[Rows, ...] | None:
    """Returns what `_read` reads, from small local Parquet files; None if the tables are large or elsewhere."""
    if (
        _SUMMARY_TABLES - set(stored.folders)
        or sum(stored.manifest.rows[name] for name in _SUMMARY_TABLES) > _MAX_LOCAL_ROWS
    ):
        return None
    metrics = read_rows(stored.folders["metrics"], METRICS.names)
    rejected = read_rows(stored.folders["rejected"], REJECTED.names)
    if metrics is None or rejected is None:
        return None
    totals = {"groups": len(metrics)} | {name: sum(row[name] or 0 for row in metrics) for name in SUMS}
    rule_rows = [{name: row[name] for name in _RULE_COLUMNS} | {"groups": 1} for row in metrics if row["members"]]
    load_rows = sorted((row for row in metrics if row["load_max_over_mean"] is not None), key=_by_load)[:limit]
    worst, rejected_rows = sorted(metrics, key=_by_balance)[:limit], sorted(rejected, key=_by_name)[:MAX_REJECTED]
    return [totals], worst, rejected_rows, rule_rows, load_rows


def _read(metrics: DataFrame, rejected: DataFrame, limit: int) -> tuple[Rows, ...]:
    """Reads in one query: sums, least balanced groups, rejected groups, number of groups by rule source, and groups by
    load."""
    metric_order = [F.desc_nulls_last("final_max_over_mean"), *map(F.col, GROUP_KEY)]
    load_order = [F.desc("load_max_over_mean"), *map(F.col, GROUP_KEY)]
    queries = [
        metrics.agg(*total_columns("groups", SUMS)),
        metrics.orderBy(*metric_order).limit(limit),
        rejected.orderBy(*GROUP_KEY, "code").limit(MAX_REJECTED),
        metrics.where("members > 0").groupBy(*_RULE_COLUMNS).agg(num_rows("groups")),
        metrics.where("load_max_over_mean IS NOT NULL").orderBy(*load_order).limit(limit),
    ]
    tagged = [query.withColumn("part", F.lit(index)) for index, query in enumerate(queries)]
    rows = collected(union(tagged))  # a screenful
    keys: tuple[Callable[[Any], Any], ...] = (lambda row: 0, _by_balance, _by_name, lambda row: 0, _by_load)
    return tuple(sorted((row for row in rows if row["part"] == index), key=key) for index, key in enumerate(keys))


def _by_name(row: Row) -> tuple[str, str, str]:
    return row["cluster"], row["group_id"], row["code"]


def _by_balance(row: Row) -> tuple[float, str, str]:
    return -(row["final_max_over_mean"] or 0.0), row["cluster"], row["group_id"]


def _by_load(row: Row) -> tuple[float, str, str]:
    return -row["load_max_over_mean"], row["cluster"], row["group_id"]


def _format_loads(rows: Rows) -> list[str]:
    """Returns one line per group with a known load: messages per second, and their balance over members."""
    table = [["group", "assignor", "load/s", "max/s", "max/mean", "by count", "drained in"]]
    table += [
        [
            *(group_name(row), row["assignor"]),
            *(f"{row[name]:,.0f}" for name in ("load", "max_load_per_member")),
            *(ratio(row[name]) for name in ("load_max_over_mean", "max_over_mean")),
            duration(row["drain_seconds"]),
        ]
        for row in rows
    ]
    return ["By load (least balanced first):", *aligned(table, words=(0, 1))]


_STYLE = (
    "<style>.spark-assign table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".spark-assign :is(th,td){padding:3px 10px;border-bottom:1px solid #8886;text-align:left}"
    ".spark-assign td.n,.spark-assign th.n{text-align:right}.spark-assign caption{text-align:left}</style>"
)
"""Sets no colors, because a notebook can be light or dark."""

_NOTEBOOK_COLUMNS = ("Members", "Partitions", "Per member", "Max/mean", "Over share", "Moved", "Without owner")


def plan_html(plan: Plan, limit: int = 10) -> str:
    """Returns the view as HTML, for `displayHTML`.

    Reads one row of sums, `limit` rows of the plan's metrics, and as many rejected groups.
    """
    totals, worst, rejected = _read_worst(plan, limit)
    lines = [f"<p><strong>{escape(_plan_headline(totals))}</strong></p>"]
    if worst:
        header = "".join(f'<th scope="col" class="n">{name}</th>' for name in _NOTEBOOK_COLUMNS)
        body = "".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(assignor)}</td>'
            + "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells)
            + "</tr>"
            for name, assignor, cells in map(_group_cells, worst)
        )
        caption = f"The {count(len(worst), 'group')} with most partitions affected, of {number(totals['groups'])}"
        lines.append(
            f'<table><caption>{caption}</caption><thead><tr><th scope="col">Group</th><th scope="col">Assignor</th>'
            f"{header}</tr></thead><tbody>{body}</tbody></table>"
        )
    if rejected:
        items = "".join(f"<li>{escape(rejected_line(row))}</li>" for row in rejected[:limit])
        more = "<li>and more, in the table rejected</li>" if len(rejected) > limit else ""
        lines.append(f"<p>Rejected:</p><ul>{items}{more}</ul>")
    return f'{_STYLE}<div class="spark-assign">{"".join(lines)}</div>'


def _read_worst(plan: Plan, limit: int) -> tuple[Row, Rows, Rows]:
    """Reads the sums over all groups, the worst groups, and one more rejected group than is displayed."""
    with plan.computed_once("metrics", "rejected") as once:
        metrics = once.metrics
        (totals,) = collected(metrics.agg(*total_columns("groups", SUMS)))
        worst = collected(worst_first(metrics).limit(limit))
        rejected = collected(once.rejected.orderBy(*GROUP_KEY, "code").limit(limit + 1))
    return totals, worst, rejected


def _plan_headline(totals: Row) -> str:
    moved = f"{number(totals['moved'])} moved ({share(totals['moved'], totals['partitions'])})"
    return (
        f"Plan of {count(totals['groups'], 'group')}: {count(totals['members'], 'member')}, "
        f"{count(totals['partitions'], 'partition')}, {moved}, {number(totals['revoked'])} revoked, "
        f"{number(num_unowned(totals))} without owner"
    )


def _group_cells(row: Row) -> tuple[str, str, list[str]]:
    counts = (over_share(row), row["moved"], num_unowned(row))
    return group_name(row), row["assignor"], [*_size_cells(row), *map(number, counts)]


def _size_cells(row: Row) -> list[str]:
    """Returns members, partitions, partitions per member, and balance of a group."""
    rounds = [
        "–".join(number(row[f"{prefix}{bound}_per_member"]) for bound in ("min", "max")) for prefix in rounds_of(row)
    ]
    per_member = change(rounds[0], rounds[-1])
    return [number(row["members"]), number(row["partitions"]), per_member, balance_text(row)]
