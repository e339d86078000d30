"""What a person sees of advice, and of advice on membership: of the fleet, and details of selected groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.advice.kernel.advice_items import CATEGORIES, Category, Code
from spark_assign.advice.kernel.membership_options import time
from spark_assign.groups.kernel.client_settings import undo_lines
from spark_assign.report import views
from spark_assign.report.formatting import (
    DASH,
    Row,
    Rows,
    aligned,
    by_group,
    change,
    count,
    group_key,
    group_name,
    more_lines,
    note_lines,
)
from spark_assign.report.listed_groups import (
    collected,
    count_by,
    first_groups_with_steps,
    first_of_each,
    num_rows,
    read_rejected_lines,
)
from spark_assign.report.views import Column, View, words
from spark_assign.spark.progress import progress
from spark_assign.tables.errors import in_one_line
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.quoting import shell_word

TITLES = {
    Category.BEHIND: "Groups that fall behind",
    Category.MONEY: "Cost",
    Category.PAUSE: "Pauses",
    Category.BALANCE: "Balance",
    Category.UNKNOWN: "Missing data",
}
"""Title of each category of advice."""


@progress("gathering advice", 1)
def summarize_advice(advice: DataFrame, not_recommended: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns the number of recommendations, and the first of them. Reads a screenful of rows.

    Args:
        advice: `Advice.advice`, computed or read back.
        not_recommended: `Advice.not_recommended`, computed or read back.
        rejected: `Advice.rejected`, computed or read back.
        limit: Maximum number of recommendations listed.
    """
    notes = collected(noted_groups(advice, not_recommended).limit(limit), "notes")
    advice = one_row_per_change(advice)
    counts = count_by(advice, "category")
    rows = collected(advice.orderBy("rank").limit(limit), "advice")  # `limit`
    by_code = count_by(not_recommended.where(F.col("code") != Code.NOTHING), "code")
    codes = ", ".join(f"{num:,} {code}" for code, num in by_code.items())
    total = sum(counts.values())
    categories = ", ".join(f"{counts[category]:,} {category}" for category in CATEGORIES if category in counts)
    lines = [
        f"Advice: {count(total, 'recommendation')} ({categories})" if total else "No change is worth its cost",
        *format_advice(rows),
    ]
    lines += [f"… and {total - len(rows):,} more, in the table advice"] if total > len(rows) else []
    lines += note_lines(notes)
    lines += ["", f"Not recommended: {codes}, in the table not_recommended"] if codes else []
    return "\n".join([*lines, *read_rejected_lines(rejected)])


def one_row_per_change(advice: DataFrame) -> DataFrame:
    """Returns the advice with one row for a change that several clusters need alike, such as to take readings.

    `clusters` is the number of the clusters, of which the row has the first one.
    """
    columns = [F.when(F.col("group_id").isNotNull(), F.col("rank")), *map(F.col, ("action", "description"))]
    same = Window.partitionBy(*columns, *(name for name in ("team",) if name in advice.columns))
    nth = F.row_number().over(same.orderBy("rank"))
    rows = advice.withColumns({"clusters": F.count("rank").over(same), "nth": nth})
    return rows.where("nth = 1").drop("nth")


def noted_groups(advice: DataFrame, not_recommended: DataFrame) -> DataFrame:
    """Returns cluster, group_id, and note of the groups with a note, those with members without partitions first."""
    rows = [table.select(*GROUP_KEY, "note").where("note IS NOT NULL") for table in (advice, not_recommended)]
    return rows[0].union(rows[1]).distinct().orderBy(F.desc(F.col("note").contains("no partitions")), *GROUP_KEY)


def format_advice(rows: Rows) -> list[str]:
    """Returns the lines of each recommendation, below the title of its category.

    Args:
        rows: Rows of `advice`, sorted by rank.
    """
    lines: list[str] = []
    category = None
    for row in rows:
        if row["category"] != category:
            category = row["category"]
            lines += ["", f"{TITLES.get(category, category)}:"]
        lines.append(in_one_line(f"{row['rank']:>4}. {subject_name(row)}: {row['action']}. {row['description']}"))
        if row["gain"] is not None:
            lines.append(f"      gain {amount_with_unit(row, 'gain')}, cost {cost_with_payback(row)}")
        lines.append(in_one_line(f"      risk {row['risk']}"))
        lines += [f"      set  {line}" for line in (row["settings"] or "").splitlines()]
        lines.append(f"      see  {row['command']}")
    return lines


def subject_name(row: Row) -> str:
    """Returns `cluster/group_id`, or the cluster if the advice is about all of it, and how many more it is about."""
    if row["group_id"] is not None:
        return group_name(row)
    more = row.get("clusters", 1) - 1
    return f"{row['cluster']} and {count(more, 'more cluster')}" if more else str(row["cluster"])


def description_with_note(row: Row) -> str:
    """Returns the description, and the note on the current assignment of the group if there is one."""
    texts = (row["description"].rstrip("."), *([f"Now {row['note']}"] if row.get("note") else []))
    return ". ".join(texts) + "."


def amount_with_unit(row: Row, name: str) -> str:
    """Returns a gain or a cost with its unit, or a dash for None."""
    value, unit = row[name], row[f"{name}_unit"] or ""
    if value is None:
        return DASH
    digits = 0 if unit.startswith(("partition-seconds", "task-seconds", "moves", "messages", "%")) else 2
    return f"{value:,.{digits}f} {unit}"


def cost_with_payback(row: Row) -> str:
    """Returns the cost with its unit, and the time after which the gain has paid it, if known."""
    payback = "" if row["payback_months"] is None else f", pays for itself after {months(row['payback_months'])}"
    return amount_with_unit(row, "cost") + payback


def months(value: float) -> str:
    """Returns a number of months such as `2 days` (below two months) or `3.4 months`."""
    return f"{value * 30:,.0f} days" if value < 2 else f"{value:,.1f} months"


ADVICE = View(
    *("advice", "advice"),
    [
        *("rank", Column("where", subject_name), "do=action", Column("what", description_with_note)),
        *(Column("gain", lambda row: amount_with_unit(row, "gain")), Column("cost", cost_with_payback)),
        *("risk command", words("set", "settings", lambda settings: settings or DASH)),
    ],
    "rank",
)


def build_advice_section(rows: Mapping[str, Rows]) -> views.Section:
    """Returns the section on advice: one table per category, most urgent first.

    Args:
        rows: `advice`, the first rows of that table; and `categories`: category, and the number of rows in each.
    """
    numbers = {row["category"]: row["number"] for row in rows["categories"]}
    listed = views.grouped(rows["advice"], itemgetter("category"))
    tables = [
        replace(ADVICE, title=TITLES[category]).table(listed[category], numbers[category])
        for category in CATEGORIES
        if category in listed
    ]
    total = count(sum(numbers.values()), "recommendation")
    text = f"{total}. None contradicts another, and each is worth its cost."
    return views.Section([text if tables else "No change is worth its cost."], tables)


def advice_rows(advice: DataFrame) -> dict[str, Rows]:
    """Returns the rows of `Advice.advice`, computed or read back, that the page displays."""
    advice = one_row_per_change(advice)
    categories = advice.groupBy("category").agg(num_rows("number"))
    return {"advice": ADVICE.read(advice), "categories": collected(categories)}


def format_not_recommended(rows: Rows) -> list[str]:
    """Returns one line per adviser that has no advice for a group, with the reason.

    Args:
        rows: Rows of `not_recommended`.
    """
    if not rows:
        return []
    ordered = sorted(
        rows, key=lambda row: (row["cluster"], row["group_id"] or "", row["adviser"], row["code"], row["detail"])
    )
    lines = (f"  {subject_name(row)}, {row['adviser']}: {row['code']}. {row['detail']}" for row in ordered)
    return ["", "Not recommended:", *map(in_one_line, lines)]


# --- commands -----------------------------------------------------------------------------------------------------

_SERVERS = "--bootstrap-server $BOOTSTRAP_SERVERS"
_CONFIDENCE = {
    Category.BEHIND: "High if the snapshot has readings of a busy hour: computed from its loads.",
    Category.MONEY: "High for the traffic of the snapshot: computed from its loads and the given prices.",
    Category.PAUSE: "Medium: simulated with Kafka's protocols, and an assumed restart time (--restart-time).",
    Category.BALANCE: "High for the loads of the snapshot: computed by the assignor itself.",
    Category.UNKNOWN: "Certain: the snapshot lacks the data.",
}
_REPLICAS = ("replicas-reorder", "replicas-move")
_DATA = ("readings", "capacity", "racks")


@dataclass(frozen=True)
class Commands:
    """Lines to paste, and how certain the recommendation is."""

    apply: Sequence[str]
    verify: Sequence[str]
    undo: Sequence[str]
    confidence: str


def advice_commands(row: Row) -> Commands:
    """Returns the commands of a row of `advice`."""
    settings = (row["settings"] or "").splitlines()
    more = f"spark-assign {row['command']}" if row["command"] else ""
    confidence = _CONFIDENCE.get(row["category"], "Unknown: the category isn't known.")
    group = row["group_id"]
    if row["action"] in _REPLICAS:
        reassign = f"kafka-reassign-partitions.sh {_SERVERS} --reassignment-json-file FILE"
        undo = "# Execute the current assignment, which --execute prints, in the same way."
        return Commands([more, f"{reassign} --execute"], [f"{reassign} --verify"], [undo], confidence)
    if row["action"] == "more-partitions":
        topics = f"kafka-topics.sh {_SERVERS}"
        undo = "# Not possible: Kafka can't remove partitions."
        return Commands(
            [f"{topics} --alter --topic TOPIC --partitions N"],
            [f"{topics} --describe --topic TOPIC"],
            [undo],
            confidence,
        )
    if row["action"] in _DATA or group is None:
        return Commands([*settings, more], ["spark-assign daily"], ["# Nothing to undo."], confidence)
    return settings_commands(group, settings or [more], confidence)


def settings_commands(group: str, settings: Sequence[str], confidence: str) -> Commands:
    """Returns the commands for settings of the members of a group, which contain their steps (`member_settings`)."""
    describe = f"kafka-consumer-groups.sh {_SERVERS} --describe --group {shell_word(group)}"
    verify = [f"{describe} --members --verbose", f"{describe} --state"]
    return Commands(settings, verify, undo_lines(settings), confidence)


# --- membership ---------------------------------------------------------------------------------------------------

_PAUSES = (
    *("restart_paused_partition_seconds", "restart_longest_pause_seconds", "crash_paused_partition_seconds"),
    *("crash_longest_pause_seconds", "expected_paused_partition_seconds"),
)


@progress("simulating restarts and crashes", 1)
def summarize_membership(advice: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns the totals, and the first groups of each recommendation with their savings. Reads a screenful of rows.

    Args:
        advice: `MembershipAdvice.membership_advice`, computed or read back.
        rejected: `MembershipAdvice.rejected`, computed or read back.
        limit: Maximum number of groups listed per recommendation.
    """
    totals = advice.groupBy("recommendation").agg(num_rows("groups"), F.sum("saved_seconds").alias("saved"))
    sums = {row["recommendation"]: row for row in collected(totals)}
    displayed = first_of_each("membership_advice", advice, "recommendation", [F.desc("saved_seconds")], limit)
    changes = sorted((name for name in sums if name != "keep"), key=lambda name: (-sums[name]["saved"], name))
    saved = sum(sums[name]["saved"] for name in changes)
    num_changes = sum(sums[name]["groups"] for name in changes)
    num_kept = sums["keep"]["groups"] if "keep" in sums else 0
    lines = [
        f"Groups: {num_changes:,} to change, which saves {_seconds(saved)} partition-seconds per deploy; "
        f"{num_kept:,} to keep"
    ]
    for recommendation in [*changes, *(["keep"] if "keep" in sums else [])]:
        rows = [row for row in displayed if row["recommendation"] == recommendation]
        if rows:
            table = _membership_table(rows, with_savings=recommendation != "keep")
            more = more_lines(sums[recommendation]["groups"] - len(rows), "membership_advice")
            lines += ["", f"{_change_title(recommendation)}:", *table, *more]
    return "\n".join([*lines, *read_rejected_lines(rejected)])


def _membership_table(rows: Rows, *, with_savings: bool) -> list[str]:
    """Returns one line per group."""
    header = ["group", "membership", "protocol", "session", "restart", "longest", "crash"]
    table = [[*header, "saves", "warnings"] if with_savings else [*header, "warnings"]]
    for row in rows:
        modes = (change(row[name], row[f"recommended_{name}"]) for name in ("membership", "protocol"))
        cells = [group_name(row), *modes]
        cells.append(change(time(row["session_timeout_ms"]), time(row["recommended_session_timeout_ms"])))
        cells += [change(_seconds(row[name]), _seconds(row[f"recommended_{name}"])) for name in _PAUSES[:3]]
        savings = [_seconds(row["saved_seconds"])] if with_savings else []
        table.append([*cells, *savings, row["warning_codes"] or DASH])
    return aligned(table, words=(0, 1, 2, len(table[0]) - 1))


def groups_with_options(
    advice: DataFrame, options: DataFrame, patterns: Sequence[str], limit: int
) -> tuple[list[Row], list[Row]]:
    """Returns the first groups whose id matches a shell pattern, and their options at the group's restart time."""
    restart_times = advice.select(*GROUP_KEY, "restart_time_ms")
    at_restart_time = options.join(restart_times, [*GROUP_KEY, "restart_time_ms"], "left_semi")
    order = ("expected_paused_partition_seconds", "membership", "protocol", "session_timeout_ms")
    tables = {"membership_advice": advice, "options": at_restart_time}
    return first_groups_with_steps(tables, ("membership_advice", "options"), patterns, GROUP_KEY, limit, order)


def format_membership(groups: Rows, options: Rows) -> str:
    """Returns the recommendation, its settings, and its warnings for each group, and one line per option.

    Args:
        groups: Rows of `membership_advice`.
        options: Rows of `options` of these groups, in order.
    """
    lines: list[str] = []
    options_by_group = by_group(options)
    for group in groups:
        lines += [*([""] if lines else []), in_one_line(f"{group_name(group)}: {group['summary']}")]
        lines += [f"    {line}" for line in (group["settings"] or "").splitlines()]
        lines += [in_one_line(f"  Warning: {group['warning_text']}")] if group["warning_text"] else []
        table = [
            ["membership", "protocol", "session", "restart", "longest", "rebalances", "crash", "longest", "expected"]
        ]
        table += map(_option_cells, options_by_group[group_key(group)])
        lines += aligned(table, words=(0, 1, 9))
    return "\n".join(lines)


def _option_cells(row: Row) -> list[str]:
    restart, longest_restart, crash, longest_crash, expected = (_seconds(row[name]) for name in _PAUSES)
    session = f"{'current: ' if row['is_current'] else ''}{time(row['session_timeout_ms'])}"
    restarts = [restart, longest_restart, f"{row['restart_rebalances']:,}"]
    return [row["membership"], row["protocol"], session, *restarts, crash, longest_crash, expected]


def _change_title(recommendation: str) -> str:
    if recommendation == "keep":
        return "Keep"
    return "Change the session timeout" if recommendation == "session" else f"Change to {recommendation}"


def _seconds(value: float | None) -> str:
    return DASH if value is None else f"{value:,.0f}" if value >= 10 else f"{value:,.1f}"
