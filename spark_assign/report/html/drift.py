"""The report's section of drift: what changed between two snapshots or plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.report import views as parts
from spark_assign.report.formatting import Row, Rows, cell, change, count, group_name, number, ratio, short_names
from spark_assign.report.html.group_view import Matrix, matrix
from spark_assign.report.html.report_data import DRAWN_GROUPS, MOST_ROWS, DriftRows
from spark_assign.report.listed_groups import any_of, collected, num_rows
from spark_assign.report.share_and_streams import DRIFTED
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.stored_plan import STREAMS

MAX_MATRIX_MEMBERS = 12
"""Maximum number of members on each side of a matrix. The page omits larger ones."""


CHANGES = ("moved", "newly_owned", "no_longer_owned", "joined", "left", "restarted")
SIDES = ("before", "after")


def build_drift_section(rows: DriftRows) -> dict[str, Any]:
    """Returns what the template shows; `movement`: heading and matrix of the groups in which most has moved."""
    tables = [
        groups_table("Groups that are less even than before", rows.worse, CHANGES[:1]),
        groups_table("Groups in which most has changed", rows.groups, CHANGES),
        _members_table(rows.members),
        _topics_table(rows.topics),
        DRIFTED.table(rows.streams),
    ]
    return {"sentences": _drift_sentences(rows), "tables": tables, "movement": _movements(rows.pairs)}


def _drift_sentences(rows: DriftRows) -> list[str]:
    """Returns the summary of the drift in sentences."""
    if not rows.changes:
        return []
    groups = Counter({row["change"]: row["groups"] for row in rows.changes})
    sums = {name: sum(row[name] or 0 for row in rows.changes) for name in CHANGES}
    sides = f"From {rows.about['before']} to {rows.about['after']}: " if {"before", "after"} <= set(rows.about) else ""
    if set(groups) <= {"unchanged"}:
        return [f"{sides}nothing has changed in {count(groups['unchanged'], 'group')}."]
    owned = {name: f"{number(sums[name])} {_has(sums[name])}" for name in ("newly_owned", "no_longer_owned")}
    sentences = [
        f"{sides}{number(groups['changed'])} of {count(sum(groups.values()), 'group')} {_has(groups['changed'])} "
        f"changed, {number(groups['added'])} {_is(groups['added'])} new, {number(groups['removed'])} "
        f"{_is(groups['removed'])} gone, {number(groups['unchanged'])} {_is(groups['unchanged'])} unchanged.",
        f"{count(sums['joined'], 'member')} joined, {number(sums['left'])} left, {number(sums['restarted'])} restarted."
        f" {count(sums['moved'], 'partition')} {_has(sums['moved'])} another owner, {owned['newly_owned']} one for the "
        f"first time, {owned['no_longer_owned']} none any more.",
    ]
    if rows.worse:
        worst, more = rows.worse[0], " or more" if len(rows.worse) == MOST_ROWS else ""
        before, after = (ratio(worst[f"max_over_mean_{when}"]) for when in SIDES)
        sentences.append(
            f"Less even than before: {count(len(rows.worse), 'group')}{more}, most of all {group_name(worst)} "
            f"(largest over mean {before} → {after})."
        )
    else:
        sentences.append("No group is less even than before.")
    return sentences


def _has(many: int) -> str:
    return "has" if many == 1 else "have"


def _is(many: int) -> str:
    return "is" if many == 1 else "are"


def groups_table(caption: str, rows: Rows, counts: Sequence[str]) -> parts.Table:
    """Returns the table with one line per group, without counts that are 0 for all groups."""
    return parts.table_of(
        caption,
        rows,
        [
            *(parts.GROUP, parts.figure("Max/mean before", "max_over_mean_before", ratio)),
            parts.figure("after", "max_over_mean_after", ratio),
            *parts.figures(*(name for name in counts if any(row[name] for row in rows))),
            *(_sizes("members"), _sizes("partitions"), parts.Column("Change", _change_text)),
        ],
        _limit_note(rows, "groups"),
    )


def _sizes(name: str) -> parts.Column:
    """Returns the column of a number before and after."""
    return parts.Column(name, lambda row: change(*(cell(row[f"{name}_{when}"]) for when in SIDES)), True)


def _change_text(row: Row) -> str:
    """Returns the change of a group, with assignors if they differ, and with the codes of rejections."""
    codes = [f"{when} rejected: {row[f'rejected_{when}']}" for when in SIDES if row[f"rejected_{when}"]]
    before, after = row["assignor_before"], row["assignor_after"]
    other = [] if None in (before, after) or before == after else [f"{before} → {after}"]
    return "; ".join([row["change"], *other, *codes])


def _members_table(rows: Rows) -> parts.Table:
    names = ("change", "previous_member_id", "group_instance_id", "client_id", "client_host")
    known = [parts.words(name.replace("_", " "), name, needs=name) for name in names]
    columns = [parts.GROUP, parts.words("Member", "member_id"), *known]
    return parts.table_of("Members that joined, left, or restarted", rows, columns, _limit_note(rows, "members"))


def _topics_table(rows: Rows) -> parts.Table:
    return parts.table_of(
        "Topics that changed",
        rows,
        [
            *(parts.Column("Topic", lambda row: f"{row['cluster']}/{row['topic']}"), parts.words("Change", "change")),
            *(parts.figure("Partitions before", "partitions_before"), parts.figure("after", "partitions_after")),
        ],
        _limit_note(rows, "topics"),
    )


def _limit_note(rows: Rows, table: str) -> str:
    return f"Shown are {MOST_ROWS}; the table {table} has all." if len(rows) == MOST_ROWS else ""


def _movements(pairs: Rows) -> list[tuple[str, Matrix]]:
    found = []
    for key, rows in parts.by_group(pairs).items():
        members = {row[end] for row in rows for end in ("from_member_id", "to_member_id") if row[end] is not None}
        one = matrix(rows, short_names(members))
        if one is not None and max(len(one.rows), len(one.columns)) <= MAX_MATRIX_MEMBERS:
            found.append(("/".join(key), one))
    return found


WORSE = 0.005
"""Minimum increase of max_over_mean that counts as less even. A smaller one isn't visible in two decimals."""


def drift_rows(tables: Mapping[str, DataFrame], about: Mapping[str, str] | None = None) -> DriftRows:
    """Returns the rows of the changes between two runs that the page displays.

    Args:
        tables: `tables.stored_plan.STORED_DRIFT_TABLES`, those that are there.
        about: `before` and `after`, the names of the two runs, if they are known.
    """
    found: dict[str, Rows] = {}
    if "groups" in tables:
        groups = tables["groups"]
        sums = (F.sum(name).alias(name) for name in CHANGES)
        by_change = groups.groupBy("change").agg(num_rows("groups"), *sums)
        found["changes"] = collected(by_change.orderBy("change").limit(MOST_ROWS))
        many = reduce(Column.__add__, map(F.col, CHANGES))
        changed = groups.where("change <> 'unchanged'").orderBy(F.desc(many), *GROUP_KEY)
        found["groups"] = collected(changed.limit(MOST_ROWS))
        grown = F.col("max_over_mean_after") - F.col("max_over_mean_before")
        worse = groups.where(grown > WORSE).orderBy(F.desc(grown), *GROUP_KEY)
        found["worse"] = collected(worse.limit(MOST_ROWS))
        if "ownership" in tables:
            most = [row for row in found["groups"] if row["moved"]][:DRAWN_GROUPS]
            found["pairs"] = collected(_count_owner_pairs(tables["ownership"].where(any_of(most)))) if most else ()
    if "members" in tables:
        found["members"] = collected(tables["members"].orderBy(*GROUP_KEY, "change", "member_id").limit(MOST_ROWS))
    if "topics" in tables:
        found["topics"] = collected(tables["topics"].orderBy("cluster", "topic").limit(MOST_ROWS))
    if f"{STREAMS}groups" in tables:
        found["streams"] = DRIFTED.read(tables[f"{STREAMS}groups"])
    return DriftRows(**found, about=dict(about or {}))


def _count_owner_pairs(ownership: DataFrame) -> DataFrame:
    """Returns the pairs of previous and next owner with the most partitions, of a few groups."""
    pairs = ownership.groupBy(*GROUP_KEY, "from_member_id", "to_member_id")
    counted = pairs.agg(num_rows("partitions"))
    return counted.orderBy(F.desc("partitions"), *GROUP_KEY, "from_member_id", "to_member_id").limit(MOST_ROWS)
