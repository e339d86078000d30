"""Text and HTML of a plan: the summary of a stored plan, and the view that a notebook shows.

The notebook view contains totals and the worst groups, small enough for the output of a cell. The complete report is
`spark_assign.report.html.report`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.assignors.release_rules import count_rules, find_rule_source, format_rule_sources
from spark_assign.report.formatting import (
    MAX_REJECTED,
    Row,
    Rows,
    change,
    count,
    duration,
    listed,
    name_clusters_of,
    note_lines,
    number,
    ratio,
    rejected_line,
    rejected_lines,
    share,
    visible,
    whole,
    with_own_names,
)
from spark_assign.report.listed_groups import (
    SUMS,
    collected,
    num_rows,
    num_unowned,
    over_share,
    total_columns,
    worst_first,
)
from spark_assign.report.views import GROUP, Column, Table, View, figure
from spark_assign.spark.dataframes import union
from spark_assign.stores.run_store import StoredRun
from spark_assign.stores.targets import read_rows
from spark_assign.tables.groups import GROUP_KEY, METRICS, REJECTED

if TYPE_CHECKING:
    from spark_assign.groups.planning import Plan


_SUMMARY_TABLES = {"metrics", "rejected"}
_RULE_COLUMNS = ("assignor", "leader_client")
_MAX_LOCAL_ROWS = 10_000
"""Number of rows that Python processes faster than Spark starts a query."""


def rounds_of(row: Row) -> Sequence[str]:
    """Returns the prefixes of the columns of this round, and of the last round if it differs and is known."""
    return ("", "final_") if row["withheld"] and row.get("final_max_over_mean") is not None else ("",)


def balance_text(row: Row) -> str:
    """Returns `max_over_mean` of this round, and of the last round if that differs: `2.00 → 1.10`."""
    rounds = [ratio(row[f"{prefix}max_over_mean"]) for prefix in rounds_of(row)]
    return change(rounds[0], rounds[-1])


def _per_member(row: Row) -> str:
    """Returns the partitions per member, of this round and of the last."""
    rounds = ["–".join(number(row[f"{of}{end}_per_member"]) for end in ("min", "max")) for of in rounds_of(row)]
    return change(rounds[0], rounds[-1])


_BALANCE = (Column("per member", _per_member, True), Column("max/mean", balance_text, True))
GROUPS = View(
    *("metrics", "groups (least balanced first)"),
    [GROUP, "assignor members partitions", *_BALANCE, "per_topic=topic_max_over_mean moved"],
    "-final_max_over_mean, cluster, group_id",
)
_of_load = partial(figure, needs="load_max_over_mean")
LOADED = View(
    *("metrics", "by load (least balanced first)"),
    [
        *(GROUP, "assignor", _of_load("load/s", "load", whole), _of_load("max/s", "max_load_per_member", whole)),
        *("max/mean=load_max_over_mean? by_count=max_over_mean", _of_load("drained in", "drain_seconds", duration)),
    ],
    "-load_max_over_mean, cluster, group_id",
    "load_max_over_mean IS NOT NULL",
)
AFFECTED = View(
    *("metrics", "groups with most partitions affected"),
    [
        *(
            GROUP,
            "assignor members partitions",
            *_BALANCE,
            Column("over share", lambda row: number(over_share(row)), True),
            "moved",
        ),
        Column("without owner", lambda row: number(num_unowned(row)), True),
    ],
)


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
    listed("metrics", [{name: row[name] for name in METRICS.names} for row in worst])
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
        title = f"groups ({selection if totals['groups'] > limit else 'least balanced first'})"
        lines += replace(GROUPS, title=title).lines(worst, limit)
        lines += note_lines([{**row, "rules_note": _rules_note(row)} for row in worst])
    lines += LOADED.lines(load_rows, limit)
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
    queries = [
        metrics.agg(*total_columns("groups", SUMS)),
        GROUPS.sorted(metrics).limit(limit),
        rejected.orderBy(*GROUP_KEY, "code").limit(MAX_REJECTED),
        metrics.where("members > 0").groupBy(*_RULE_COLUMNS).agg(num_rows("groups")),
        LOADED.sorted(metrics).limit(limit),
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


_STYLE = (
    "<style>.spark-assign table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".spark-assign :is(th,td){padding:3px 10px;border-bottom:1px solid #8886;text-align:left}"
    ".spark-assign td.n,.spark-assign th.n{text-align:right}.spark-assign caption{text-align:left}</style>"
)
"""Sets no colors, because a notebook can be light or dark."""


@with_own_names
def plan_html(plan: Plan, limit: int = 10) -> str:
    """Returns the view as HTML, for `displayHTML`.

    Reads one row of sums, `limit` rows of the plan's metrics, and as many rejected groups.
    """
    totals, worst, rejected = _read_worst(plan, limit)
    lines = [f"<p><strong>{escape(_plan_headline(totals))}</strong></p>"]
    if worst:
        caption = f"The {count(len(worst), 'group')} with most partitions affected, of {number(totals['groups'])}"
        lines.append(_html(replace(AFFECTED, title=caption).table(worst)))
    if rejected:
        items = "".join(f"<li>{escape(rejected_line(row))}</li>" for row in rejected[:limit])
        more = "<li>and more, in the table rejected</li>" if len(rejected) > limit else ""
        lines.append(f"<p>Rejected:</p><ul>{items}{more}</ul>")
    return visible(f'{_STYLE}<div class="spark-assign">{"".join(lines)}</div>')


def _read_worst(plan: Plan, limit: int) -> tuple[Row, Rows, Rows]:
    """Reads the sums over all groups, the worst groups, and one more rejected group than is displayed."""
    with plan.computed_once("metrics", "rejected") as once:
        metrics = once.metrics
        name_clusters_of(metrics, once.rejected, unless_known=True)
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


def _html(table: Table) -> str:
    """Returns a table as HTML; the first cell of a row is its heading."""
    numeric = [' class="n"' * is_number for _, is_number in table.columns]
    names = (escape(title) for title, _ in table.columns)
    header = "".join(f'<th scope="col"{kind}>{name}</th>' for kind, name in zip(numeric, names, strict=True))
    body = ""
    for heading, *cells in table.rows:
        texts = "".join(f"<td{kind}>{escape(str(text))}</td>" for kind, text in zip(numeric[1:], cells, strict=True))
        body += f'<tr><th scope="row">{escape(str(heading))}</th>{texts}</tr>'
    caption = f"<caption>{escape(table.caption)}</caption>"
    return f"<table>{caption}<thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>"
