"""What a person sees of compared assignors: what to change, what that costs, and what speaks for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.comparison.kernel.compare import KAFKA_DEFAULT
from spark_assign.comparison.what_if import AS_IS
from spark_assign.report import views
from spark_assign.report.formatting import (
    DASH,
    Row,
    Rows,
    count,
    group_name,
    in_cluster,
    note_lines,
    number,
    one_line,
    ratio,
)
from spark_assign.report.listed_groups import collected, num_rows, only, sum_of
from spark_assign.report.report_data import MOST_GROUPS
from spark_assign.report.views import GROUP, Column, View, figure
from spark_assign.spark.engine import cached, uncached
from spark_assign.spark.progress import progress
from spark_assign.tables.errors import in_one_line
from spark_assign.tables.groups import GROUP_KEY

_MAX_REJECTED = 10
_FIGURES = ("max_over_mean", "moved", "revoked", "paused_partition_seconds")
_OPTION = ("assignor", "rounds", *_FIGURES, "reason", "client_libraries", "switch_steps", "settings")
_ADDED = dict.fromkeys(("current_assignor", "client_libraries", "switch_steps", "settings", "note"), "string")
_ADDED |= {"members_without_partitions": "long", "topic_max_over_mean": "double", "load_max_over_mean": "double"}
"""Columns that a comparison stored by an earlier release lacks."""

NOT_COMPARED = "another one"
"""Text for the current assignor of a group if it isn't one of the compared assignors."""

_ABLE = "rejected IS NULL AND members > 0"
_CHANGE = "+change=what_if"


def _paused(value: float | None) -> str:
    return DASH if value is None else f"{value:,.1f}"


def _reason(row: Row) -> str:
    return str(row["reason"].removeprefix(f"{row['assignor']}: "))


def _current_assignor(row: Row) -> str:
    """Returns the current assignor of a group, if it is known."""
    if row["now"] is not None:
        return str(row["now"])
    return NOT_COMPARED if row["verdict"] in ("elsewhere", "change") else DASH


def _first_words(row: Row) -> str:
    """Returns the first words of a way to switch."""
    way = row["switch_steps"]
    return DASH if not way else re.split(r"[:,.(]", way, maxsplit=1)[0].strip()


def _now_and_then(title: str, name: str, text: Any = number) -> list[Column]:
    now, then = f"now_{name}", name
    return [figure(f"{title} now", now, text, on_page=True), figure("then", then, text, on_page=True)]


SWITCHES = View(
    *("ways", "how to switch, by what is known of the clients"),
    [_CHANGE, "way=switch_steps groups", Column("for example", lambda row: in_cluster(*row["example"]))],
    note="A client library is known by the client id, which anybody may set: check it before you restart anything.",
)
IMPROVED = View(
    *("comparison", "groups that gain most"),
    [
        *(GROUP, _CHANGE, Column("now", _current_assignor, on_page=True), "recommended=assignor"),
        *(*_now_and_then("max/mean", "max_over_mean", ratio), *_now_and_then("moved", "moved")),
        *_now_and_then("paused s", "paused_partition_seconds", _paused),
        *("+clients=client_libraries", Column("switching", _first_words, on_page=True), Column("why", _reason)),
    ],
    note="Moved: partitions that get another owner. Paused s: partition-seconds without consumption while the group "
    "rebalances. What a group runs with is held against it; range, Kafka's default, where that is not known. Clients: "
    "libraries by the members' client ids; ? is a guess.",
)
TOTALS = View(
    *("comparison", "each assignor for all groups"),
    [
        *(_CHANGE, "assignor groups recommended rejected", figure("max/mean", "max_over_mean", ratio)),
        *("of_load=load_max_over_mean? moved revoked", figure("paused s", "paused", _paused)),
    ],
    "what_if, -recommended, assignor",
    note="Max/mean: the largest over the mean number of partitions of a member, the mean over all groups. Paused s: "
    "partition-seconds without consumption.",
    listed="totals",
)
NOTED = View(
    *("comparison", "members without partitions, and uneven assignments"),
    [GROUP, _CHANGE, "assignor max/mean_per_topic=topic_max_over_mean note"],
    "-members_without_partitions, -topic_max_over_mean, cluster, group_id, what_if, assignor",
    listed="notes",
)
VIEWS = {"ways": SWITCHES, "gains": IMPROVED, "totals": TOTALS, "notes": NOTED}
"""The tables of the page, in order."""


@progress("comparing assignors", 1)
def summarize_comparison(comparison: DataFrame, limit: int) -> str:
    """Returns one line per change and assignor, the groups that improve most, and rejected groups.

    Improvement is that of the recommended assignor over the group's current assignor, or over `range` if the current
    one is unknown or not compared: first in balance (max over mean, by tenths), then in partitions that don't move.
    Reads a screenful of rows.

    Args:
        comparison: Result of `compare`, computed or read back.
        limit: Maximum number of groups listed for each change.
    """
    comparison = _complete(comparison)
    totals = TOTALS.first(_totals(comparison), views.MOST_ROWS)  # one row per change and assignor
    lines: list[str] = []
    for name, rows in views.grouped(totals, itemgetter("what_if")).items():
        lines += replace(TOTALS, title=f"what if {name}{_without_members(rows)}").lines(rows, len(rows))
        if limit and any(row["recommended"] for row in rows):
            of_change = comparison.where(F.col("what_if") == name)
            columns = (*GROUP_KEY, "what_if", "assignor", "reason", "switch_steps", "settings")
            improved = IMPROVED.first(_improvements(_groups_with_verdict(of_change)).select(*columns), limit)
            lines += [*IMPROVED.lines(improved, limit), *_switch_lines(improved[:limit])]
            notes = NOTED.first(_noted(of_change), limit)[:limit]
            lines += note_lines(notes, lambda row: f"{group_name(row)}, {row['assignor']}")
    return "\n".join([*lines, *_rejected_lines(comparison)]).lstrip("\n")


def _without_members(rows: Rows) -> str:
    memberless = max(row["memberless"] for row in rows)
    return f" ({count(memberless, 'group')} without members)" if memberless else ""


def _switch_lines(rows: Rows) -> list[str]:
    """Returns how to switch, and the groups that switch so."""
    ways = views.grouped([row for row in rows if row["switch_steps"]], itemgetter("switch_steps", "settings"))
    lines = ["", "How to switch:"] if ways else []
    for (switch, settings), groups in ways.items():
        lines.append(f"    {', '.join(map(group_name, groups))}: {in_one_line(switch)}")
        lines += [f"      {line}" for line in (settings or "").splitlines()]
    return lines


def _rejected_lines(comparison: DataFrame) -> list[str]:
    rejected = comparison.where(F.col("rejected").isNotNull())
    rows = collected(
        rejected.orderBy(*GROUP_KEY, "what_if", "assignor").limit(_MAX_REJECTED + 1), "comparison", _MAX_REJECTED
    )
    if not rows:
        return []
    lines = [f"  {group_name(row)}, {row['what_if']}: {one_line(row['reason'])}" for row in rows[:_MAX_REJECTED]]
    more = ["  … and more, in the table rejected"] if len(rows) > _MAX_REJECTED else []
    return ["", "Rejected:", *lines, *more]


# --- page ---------------------------------------------------------------------------------------------------------


def build_comparison_section(rows: Mapping[str, Rows]) -> dict[str, Any]:
    """Returns what the template shows: what is recommended, what that changes in sum, and the groups that gain most."""
    verdicts = views.grouped(rows["verdicts"], itemgetter("what_if"))
    sums = {row["what_if"]: row for row in rows["sums"]}
    advised_for = _advised_for(verdicts)
    names = sorted(verdicts, key=lambda name: (name != advised_for, name != AS_IS.name, name))
    changes = [(_change_title(name), [*_verdict(verdicts[name]), *_difference(sums.get(name))]) for name in names]
    return {
        "headline": _headline(verdicts[advised_for]) if verdicts else "",
        "changes": changes,
        "to_change": any(row["verdict"] in ("change", "unknown") for row in rows["verdicts"]),
        "tables": [_table(view, rows[name]) for name, view in VIEWS.items()],
    }


def _advised_for(names: Iterable[str]) -> str:
    """Returns the change under which groups are advised: none, or else the first one."""
    return AS_IS.name if AS_IS.name in names else min(names, default="")


def _table(view: View, rows: Rows) -> views.Table:
    """Returns the table of a view, without the column of the change if all rows have the same."""
    several = len({row["what_if"] for row in rows}) > 1
    return replace(view, columns=[each for each in view.columns if several or each is not _CHANGE]).table(rows)


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
    by = views.grouped(verdicts, itemgetter("verdict"))
    total = {name: sum(row["groups"] for row in each) for name, each in by.items()}

    def to(name: str) -> str:
        return ", ".join(f"{number(row['groups'])} to {row['assignor']}" for row in by[name])

    sentences = []
    if "keep" in total:
        keep = ("keeps the assignor it runs with.", "keep the assignor they run with.")
        sentences.append(count(total["keep"], "group", *keep))
    if "change" in total:
        sentences.append(f"{count(total['change'], 'group')} should change: {to('change')}.")
    if "unknown" in total:
        which = ", ".join(f"{row['assignor']} for {number(row['groups'])}" for row in by["unknown"])
        sentences.append(
            f"Of {count(total['unknown'], 'group')} it is not known what they run with: recommended is {which}."
        )
    if "elsewhere" in total:
        sentences.append(f"{count(total['elsewhere'], 'group', 'runs', 'run')} with what is not compared here.")
    if "none" in total:
        sentences.append(
            f"For {count(total['none'], 'group')} nothing is recommended: no members, or no assignor can plan it."
        )
    return sentences


def _difference(sums: Row | None) -> list[str]:
    """Returns a sentence that compares the recommended assignors with the current ones."""
    if sums is None:
        return []
    moved, balance, paused = ("moved", "max_over_mean", "paused_partition_seconds")
    return [
        f"With what is recommended {count(sums[moved], 'partition', 'moves', 'move')} instead of "
        f"{number(sums[f'now_{moved}'])}; the largest over the mean is {ratio(sums[balance])} instead of "
        f"{ratio(sums[f'now_{balance}'])} on average; the rebalance costs {_paused(sums[paused])} partition-seconds "
        f"without consumption instead of {_paused(sums[f'now_{paused}'])}."
    ]


def compare_rows(comparison: DataFrame, listed: Rows = ()) -> dict[str, Rows]:
    """Returns the rows of a comparison of assignors that the page displays.

    Args:
        comparison: result of `compare` (`tables.comparison.COMPARISON`), computed or read back.
        listed: groups (cluster, group_id) of the plan that the page lists, with the recommendation for each.

    Returns:
        rows by the names of `VIEWS`. `verdicts`: what_if, verdict, assignor (the recommended one), groups. The verdict
        is `keep`, `change`, `unknown` (it is not known what the group runs with), `elsewhere` (it runs with what is not
        compared) or `none` (nothing is recommended). `sums`: what_if, groups, and the figures of what is recommended
        and of what is now (`now_…`). `advice`: recommendations for the listed groups, under one change.
    """
    comparison = _complete(comparison)
    groups = cached(_groups_with_verdict(comparison))
    verdicts = collected(_count_verdicts(groups).limit(views.MOST_ROWS))
    advised_for = _advised_for({row["what_if"] for row in verdicts})
    advice = groups.where((F.col("what_if") == advised_for) & F.col("best").isNotNull())
    rows: dict[str, Rows] = {
        "totals": TOTALS.read(_totals(comparison)),
        "verdicts": verdicts,
        "sums": collected(_sum_differences(groups).limit(views.MOST_ROWS)),
        "gains": IMPROVED.read(_improvements(groups)),
        "ways": SWITCHES.read(_count_switches(groups)),
        "advice": collected(_collect_advice(only(advice, listed)).limit(MOST_GROUPS)) if listed else [],
        "notes": NOTED.read(_noted(comparison)),
    }
    uncached(groups)
    return rows


def _complete(comparison: DataFrame) -> DataFrame:
    """Returns the comparison with the columns that earlier releases don't have, as nulls."""
    added = {name: kind for name, kind in _ADDED.items() if name not in comparison.columns}
    # Not withColumns, which Spark Connect refuses where there is nothing to add.
    return comparison.select("*", *(F.lit(None).cast(kind).alias(name) for name, kind in added.items()))


def _totals(comparison: DataFrame) -> DataFrame:
    """Returns a row per change and assignor, over all groups."""
    return comparison.groupBy("what_if", "assignor").agg(
        F.count_if(F.expr(_ABLE)).alias("groups"),
        F.count_if("recommended").alias("recommended"),
        F.count("rejected").alias("rejected"),
        F.count_if(F.col("rejected").isNull() & (F.col("members") == 0)).alias("memberless"),
        *(F.avg(name).alias(name) for name in ("max_over_mean", "load_max_over_mean")),
        *(F.coalesce(sum_of(name), F.lit(0)).alias(name) for name in ("moved", "revoked")),
        F.coalesce(F.sum("paused_partition_seconds"), F.lit(0.0)).alias("paused"),
    )


def _noted(comparison: DataFrame) -> DataFrame:
    """Returns the rows with a note of each group's current and recommended assignor."""
    columns = (*GROUP_KEY, "what_if", "assignor", "members_without_partitions", "topic_max_over_mean", "note")
    rows = comparison.where("(recommended OR coalesce(is_current, false)) AND note IS NOT NULL")
    return rows.select(*columns)


def _groups_with_verdict(comparison: DataFrame) -> DataFrame:
    """Returns a row per group and change: the verdict, and the options `best`, `now`, and `against`.

    `now`: the current one. `against`: the one that `best` is compared with, which is Kafka's default if `now` is null.
    """
    option, able = F.struct(*_OPTION), F.expr(_ABLE)
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
        (F.avg(f"{end}.{name}") if name == "max_over_mean" else sum_of(f"{end}.{name}")).alias(f"{prefix}{name}")
        for end, prefix in (("best", ""), ("against", "now_"))
        for name in _FIGURES
    ]
    return both.groupBy("what_if").agg(num_rows("groups"), *figures).orderBy("what_if")


def _improvements(groups: DataFrame) -> DataFrame:
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
    return going.agg(num_rows("groups"), F.min(F.struct(*GROUP_KEY)).alias("example")).orderBy(
        "what_if", F.desc("groups"), "switch_steps"
    )
