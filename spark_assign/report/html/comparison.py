"""The report's section of assignors compared: what to change, what that costs, and what speaks for it."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.advice.kernel.advice_items import CATEGORIES
from spark_assign.comparison.kernel.compare import KAFKA_DEFAULT
from spark_assign.comparison.what_if import AS_IS
from spark_assign.report import views as parts
from spark_assign.report.formatting import DASH, Row, Rows, count, number, ratio
from spark_assign.report.listed_groups import collected, num_rows, only
from spark_assign.report.report_data import MOST_GROUPS, MOST_ROWS, AdviceRows, CompareRows
from spark_assign.report.text.advice import (
    TITLES,
    amount_with_unit,
    cost_with_payback,
    description_with_note,
    one_row_per_change,
    subject_name,
)
from spark_assign.report.text.comparison import noted_rows
from spark_assign.spark.engine import cached, uncached
from spark_assign.tables.groups import GROUP_KEY

NOT_COMPARED = "another one"
"""Text for the current assignor of a group if it isn't one of the compared assignors."""


def build_comparison_section(rows: CompareRows) -> dict[str, Any]:
    """Returns what the template shows: what is recommended, what that changes in sum, and the groups that gain most."""
    verdicts = parts.grouped(rows.verdicts, itemgetter("what_if"))
    sums = {row["what_if"]: row for row in rows.sums}
    names = sorted(verdicts, key=lambda name: (name != rows.advised_for, name != AS_IS.name, name))
    changes = [(_change_title(name), [*_verdict(verdicts[name]), *_difference(sums.get(name))]) for name in names]
    return {
        "headline": _headline(verdicts[rows.advised_for]) if rows.advised_for in verdicts else "",
        "changes": changes,
        "to_change": any(row["verdict"] in ("change", "unknown") for row in rows.verdicts),
        "tables": [
            _switches_table(rows.ways),
            _improvements_table(rows.gains),
            _totals_table(rows.totals),
            _notes_table(rows.notes),
        ],
    }


def _change_title(change: str) -> str:
    return "As it is" if change == AS_IS.name else f"After {change}"


def _headline(verdicts: Rows) -> str:
    """Returns one sentence for the top of the page."""
    able = sum(row["groups"] for row in verdicts if row["verdict"] != "none")
    other = sum(row["groups"] for row in verdicts if row["verdict"] == "change")
    if not any(row["verdict"] in ("keep", "change") for row in verdicts):
        return ""
    if not other:
        return f"None of {count(able, 'group')} should change its assignor."
    return f"{number(other)} of {count(able, 'group')} should change {'its' if other == 1 else 'their'} assignor."


def _verdict(verdicts: Rows) -> list[str]:
    """Returns sentences: how many groups keep their assignor, and how many should change it, and to which one."""
    by = parts.grouped(verdicts, itemgetter("verdict"))
    total = {name: sum(row["groups"] for row in each) for name, each in by.items()}

    def to(name: str) -> str:
        return ", ".join(f"{number(row['groups'])} to {row['assignor']}" for row in by[name])

    sentences = []
    if "keep" in total:
        they = "it runs" if total["keep"] == 1 else "they run"
        sentences.append(f"{count(total['keep'], 'group')} {_verb(total['keep'], 'keep')} the assignor {they} with.")
    if "change" in total:
        sentences.append(f"{count(total['change'], 'group')} should change: {to('change')}.")
    if "unknown" in total:
        which = ", ".join(f"{row['assignor']} for {number(row['groups'])}" for row in by["unknown"])
        sentences.append(
            f"Of {count(total['unknown'], 'group')} it is not known what they run with: recommended is {which}."
        )
    if "elsewhere" in total:
        runs = f"{count(total['elsewhere'], 'group')} {_verb(total['elsewhere'], 'run')}"
        sentences.append(f"{runs} with what is not compared here.")
    if "none" in total:
        sentences.append(
            f"For {count(total['none'], 'group')} nothing is recommended: no members, or no assignor can plan it."
        )
    return sentences


def _verb(many: int, verb: str) -> str:
    return f"{verb}s" if many == 1 else verb


def _difference(sums: Row | None) -> list[str]:
    """Returns a sentence that compares the recommended assignors with the current ones."""
    if sums is None:
        return []
    moved, balance, paused = ("moved", "max_over_mean", "paused_partition_seconds")
    return [
        f"With what is recommended {count(sums[moved], 'partition')} {_verb(sums[moved], 'move')} instead of "
        f"{number(sums[f'now_{moved}'])}; the largest over the mean is {ratio(sums[balance])} instead of "
        f"{ratio(sums[f'now_{balance}'])} on average; the rebalance costs {_paused(sums[paused])} partition-seconds "
        f"without consumption instead of {_paused(sums[f'now_{paused}'])}."
    ]


def _paused(value: float | None) -> str:
    return DASH if value is None else f"{value:,.1f}"


def _switches_table(rows: Rows) -> parts.Table:
    """Returns the table of ways to switch; `groups.kernel.client_libraries` has their texts."""
    example = parts.words("For example", "example")
    return parts.table_of(
        "How to switch, by what is known of the clients",
        rows,
        [*_change_column(rows), parts.words("Way", "switch_steps"), parts.figure("Groups", "groups"), example],
        "A client library is known by the client id, which anybody may set: check it before you restart anything.",
    )


def _change_column(rows: Rows) -> list[parts.Column]:
    """Returns the column of the change, unless all rows have the same."""
    return [parts.words("Change", "what_if")] if len({row["what_if"] for row in rows}) > 1 else []


def _first_words(way: str | None) -> str:
    """Returns the first words of a way to switch."""
    return DASH if not way else re.split(r"[:,.(]", way, maxsplit=1)[0].strip()


def _improvements_table(rows: Rows) -> parts.Table:
    """Returns the groups that another assignor improves most, with both results side by side."""
    return parts.table_of(
        "Groups that gain most by another assignor",
        rows,
        [
            *(parts.GROUP, *_change_column(rows), parts.Column("Now", _current_assignor)),
            parts.words("Recommended", "assignor"),
            *(parts.figure("Max/mean now", "now_max_over_mean", ratio), parts.figure("then", "max_over_mean", ratio)),
            *(parts.figure("Moved now", "now_moved"), parts.figure("then", "moved")),
            parts.figure("Paused s now", "now_paused_partition_seconds", _paused),
            parts.figure("then", "paused_partition_seconds", _paused),
            parts.Column("Clients", lambda row: row.get("client_libraries") or DASH),
            parts.Column("Switching", lambda row: _first_words(row.get("switch_steps"))),
            parts.Column("Reason", lambda row: row["reason"].removeprefix(f"{row['assignor']}: ")),
        ],
        "Moved: partitions that get another owner. Paused s: partition-seconds without consumption while the group "
        "rebalances. What a group runs with is held against it; range, Kafka's default, where that is not known. "
        "Clients: libraries by the members' client ids; ? is a guess.",
    )


def _current_assignor(row: Row) -> str:
    """Returns the current assignor of a group, if it is known."""
    if row["now"] is not None:
        return str(row["now"])
    return NOT_COMPARED if row["verdict"] in ("elsewhere", "change") else DASH


def _totals_table(rows: Rows) -> parts.Table:
    """Returns the table of each assignor's results for all groups."""
    return parts.table_of(
        "Each assignor for all groups",
        rows,
        [
            *(parts.words("Change", "what_if"), parts.words("Assignor", "assignor"), parts.figure("Groups", "groups")),
            *(parts.figure("Recommended for", "recommended"), parts.figure("Rejected", "rejected")),
            *(parts.figure("Max/mean", "max_over_mean", ratio), *parts.figures("moved", "revoked")),
            parts.figure("Partition-seconds paused", "paused_partition_seconds", _paused),
        ],
        "Max/mean: the largest over the mean number of partitions of a member, the mean over all groups.",
    )


def _notes_table(rows: Rows) -> parts.Table:
    """Returns the table of what is conspicuous about the current and the recommended assignor of groups."""
    columns = [parts.GROUP, *_change_column(rows), parts.words("Assignor", "assignor")]
    columns += [parts.figure("Max/mean per topic", "topic_max_over_mean", ratio), parts.words("Note", "note")]
    return parts.table_of("Members without partitions, and uneven assignments", rows, columns)


def build_advice_section(rows: AdviceRows) -> parts.Section:
    """Returns the section on advice: one table per category, most urgent first (`AdviceRows`)."""
    numbers = {row["category"]: row["number"] for row in rows.categories}
    listed = parts.grouped(rows.advice, itemgetter("category"))
    columns = [
        *(parts.figure("Rank", "rank", str), parts.Column("Where", subject_name), parts.words("Do", "action")),
        *(parts.Column("What", description_with_note), parts.Column("Gain", lambda row: amount_with_unit(row, "gain"))),
        *(parts.Column("Cost", cost_with_payback), parts.words("Risk", "risk"), parts.words("Command", "command")),
        parts.words("Set", "settings", lambda settings: settings or DASH),
    ]
    tables = [
        parts.table_of(
            TITLES[category], listed[category], columns, _advice_note(len(listed[category]), numbers[category])
        )
        for category in CATEGORIES
        if category in listed
    ]
    total = count(sum(numbers.values()), "recommendation")
    text = f"{total}. None contradicts another, and each is worth its cost."
    return parts.Section([text if tables else "No change is worth its cost."], tables)


def _advice_note(shown: int, number: int) -> str:
    return f"Shown are {shown:,} of {number:,}; the table advice has all." if shown < number else ""


_FIGURES = ("max_over_mean", "moved", "revoked", "paused_partition_seconds")
_OPTION = ("assignor", "rounds", *_FIGURES, "reason", "client_libraries", "switch_steps")
_ADDED = dict.fromkeys(("current_assignor", "client_libraries", "switch_steps", "note"), "string")
_ADDED |= {"members_without_partitions": "long", "topic_max_over_mean": "double"}
"""Columns that a comparison stored by an earlier release lacks."""


def compare_rows(comparison: DataFrame, listed: Rows = ()) -> CompareRows:
    """Returns the rows of a comparison of assignors that the page displays.

    Args:
        comparison: result of `compare` (`tables.comparison.COMPARISON`), computed or read back.
        listed: groups (cluster, group_id) of the plan that the page lists, with the recommendation for each.
    """
    added = {name: kind for name, kind in _ADDED.items() if name not in comparison.columns}
    # Not withColumns, which Spark Connect refuses where there is nothing to add.
    comparison = comparison.select("*", *(F.lit(None).cast(kind).alias(name) for name, kind in added.items()))
    able = F.col("rejected").isNull() & (F.col("members") > 0)
    totals = comparison.groupBy("what_if", "assignor").agg(
        F.count(F.when(able, 1)).alias("groups"),
        F.count("rejected").alias("rejected"),
        F.count(F.when(F.col("recommended"), 1)).alias("recommended"),
        F.avg("max_over_mean").alias("max_over_mean"),
        *(F.sum(name).alias(name) for name in _FIGURES[1:]),
    )
    groups = cached(_groups_with_verdict(comparison, able))
    changes = collected(groups.select("what_if").distinct().orderBy("what_if").limit(MOST_ROWS))
    names = [row["what_if"] for row in changes]
    first = AS_IS.name if AS_IS.name in names else names[0] if names else None
    advice = groups.where((F.col("what_if") == F.lit(first)) & F.col("best").isNotNull())
    rows = CompareRows(
        totals=collected(totals.orderBy("what_if", "assignor").limit(MOST_ROWS)),
        verdicts=collected(_count_verdicts(groups).limit(MOST_ROWS)),
        sums=collected(_sum_differences(groups).limit(MOST_ROWS)),
        gains=collected(_collect_improvements(groups).limit(MOST_ROWS)),
        ways=collected(_count_switches(groups).limit(MOST_ROWS)),
        advice=collected(_collect_advice(only(advice, listed)).limit(MOST_GROUPS)) if listed else (),
        advised_for=first or "",
        notes=collected(noted_rows(comparison).limit(MOST_ROWS)),
    )
    uncached(groups)
    return rows


def _groups_with_verdict(comparison: DataFrame, able: Column) -> DataFrame:
    """Returns a row per group and change: the verdict, and the options `best`, `now`, and `against`.

    `now`: the current one. `against`: the one that `best` is compared with, which is Kafka's default if `now` is null.
    """
    option = F.struct(*_OPTION)
    rows = comparison.groupBy(*GROUP_KEY, "what_if").agg(
        F.max_by(option, F.when(F.col("recommended"), 1)).alias("best"),
        F.max_by(option, F.when(able & F.col("is_current"), 1)).alias("now"),
        F.max_by(option, F.when(able & (F.col("assignor") == KAFKA_DEFAULT), 1)).alias("default"),
        F.bool_or("is_current").alias("compared"),
        F.max("current_assignor").alias("current_assignor"),
    )
    verdict = (
        F.when(F.col("best").isNull(), "none")
        .when(F.col("compared").isNull(), "unknown")
        .when(~F.col("compared"), "elsewhere")
        .when(F.col("best.assignor") == F.col("now.assignor"), "keep")
        .otherwise("change")
    )
    return rows.withColumns({"verdict": verdict, "against": F.coalesce("now", "default")})


def _count_verdicts(groups: DataFrame) -> DataFrame:
    rows = groups.groupBy("what_if", "verdict", F.col("best.assignor").alias("assignor"))
    return rows.agg(num_rows("groups")).orderBy("what_if", F.desc("groups"), "verdict", "assignor")


def _sum_differences(groups: DataFrame) -> DataFrame:
    """Returns a row per change: the sums of `best` and of `against`, over the groups that have both."""
    both = groups.where(F.col("best").isNotNull() & F.col("against").isNotNull())
    figures = [
        (F.avg if name == "max_over_mean" else F.sum)(f"{end}.{name}").alias(f"{prefix}{name}")
        for end, prefix in (("best", ""), ("against", "now_"))
        for name in _FIGURES
    ]
    return both.groupBy("what_if").agg(num_rows("groups"), *figures).orderBy("what_if")


def _collect_improvements(groups: DataFrame) -> DataFrame:
    """Returns the groups that should change their assignor, largest gain first: in balance, then in moves."""
    others = groups.where("verdict <> 'none' and verdict <> 'keep'").where(
        ~F.col("best.assignor").eqNullSafe(F.col("against.assignor"))
    )
    balance = F.coalesce(F.round(F.col("against.max_over_mean") - F.col("best.max_over_mean"), 1), F.lit(0))
    spared = F.coalesce(F.col("against.moved") - F.col("best.moved"), F.lit(0))
    return others.orderBy(F.desc(balance), F.desc(spared), "cluster", "group_id", "what_if").select(
        *GROUP_KEY,
        "what_if",
        "verdict",
        *(F.col(f"best.{name}") for name in _OPTION),
        F.coalesce("now.assignor", "current_assignor").alias("now"),
        *(F.col(f"against.{name}").alias(f"now_{name}") for name in ("assignor", *_FIGURES)),
    )


def _collect_advice(groups: DataFrame) -> DataFrame:
    now = F.coalesce("current_assignor", "now.assignor").alias("now")
    return groups.select(
        *GROUP_KEY, "verdict", "best.assignor", "best.reason", "best.client_libraries", "best.switch_steps", now
    )


def _count_switches(groups: DataFrame) -> DataFrame:
    """Returns the ways to switch with the number of groups, most frequent first."""
    going = groups.where(F.col("best.switch_steps").isNotNull()).groupBy(
        "what_if", F.col("best.switch_steps").alias("switch_steps")
    )
    name = F.concat_ws("/", *GROUP_KEY)
    return going.agg(num_rows("groups"), F.min(name).alias("example")).orderBy(
        "what_if", F.desc("groups"), "switch_steps"
    )


def advice_rows(advice: DataFrame) -> AdviceRows:
    """Returns the rows of `Advice.advice`, computed or read back, that the page displays."""
    advice = one_row_per_change(advice)
    categories = advice.groupBy("category").agg(num_rows("number"))
    return AdviceRows(collected(advice.orderBy("rank").limit(MOST_ROWS)), collected(categories))
