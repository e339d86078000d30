"""What a person sees of drift, the changes between two snapshots or plans, and of alerts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.report import views
from spark_assign.report.formatting import (
    Row,
    Rows,
    by_group,
    count,
    group_name,
    in_cluster,
    number,
    ratio,
    short_names,
)
from spark_assign.report.group_view import Matrix, matrix
from spark_assign.report.listed_groups import any_of, collected, count_by, num_rows, sum_of, total_columns
from spark_assign.report.report_data import DRAWN_GROUPS
from spark_assign.report.share_and_streams import DRIFTED
from spark_assign.report.views import GROUP, Column, View, before_and_after
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.stored_plan import STREAMS

_KINDS = ("added", "removed", "changed", "unchanged")
_PARTITION_CHANGES = ("moved", "newly_owned", "no_longer_owned")
_MEMBER_CHANGES = ("joined", "left", "restarted")
CHANGES = (*_MEMBER_CHANGES, *_PARTITION_CHANGES)
SIDES = ("before", "after")

MAX_MATRIX_MEMBERS = 12
"""Maximum number of members on each side of a matrix. The page omits larger ones."""

WORSE = 0.005
"""Minimum increase of max_over_mean that counts as less even. A smaller one isn't visible in two decimals."""


def _change_text(row: Row) -> str:
    """Returns the change of a group, with assignors if they differ, and with the codes of rejections."""
    codes = [f"{when} rejected: {row[f'rejected_{when}']}" for when in SIDES if row[f"rejected_{when}"]]
    before, after = row["assignor_before"], row["assignor_after"]
    other = [] if None in (before, after) or before == after else [f"{before} → {after}"]
    return "; ".join([row["change"], *other, *codes])


_GROUP_COLUMNS = (
    *(GROUP, Column("change", _change_text), before_and_after("members"), "joined? left? restarted?"),
    *(before_and_after("partitions"), "moved? newly_owned? no_longer_owned?"),
    before_and_after("max_over_mean", "max/mean", ratio),
)
GROUPS = View(
    *("groups", "groups in which most has changed", _GROUP_COLUMNS),
    f"-{' + '.join(_PARTITION_CHANGES)}, -{' + '.join(_MEMBER_CHANGES)}, cluster, group_id",
    "change <> 'unchanged'",
)
WORSE_GROUPS = View(
    *("groups", "groups that are less even than before", _GROUP_COLUMNS),
    "-max_over_mean_after - max_over_mean_before, cluster, group_id",
    f"max_over_mean_after - max_over_mean_before > {WORSE}",
)
MEMBERS = View(
    *("members", "members that joined, left, or restarted"),
    [GROUP, "member=member_id change? previous_member_id? group_instance_id? client_id? client_host?"],
    "cluster, group_id, change, member_id",
)
TOPICS = View(
    *("topics", "topics that changed"),
    [Column("topic", lambda row: in_cluster(row["cluster"], row["topic"])), "change", before_and_after("partitions")],
    "cluster, topic",
)
ALERTS = View(
    *("alerts", "alerts"),
    [
        *(GROUP, "alert", replace(before_and_after("max_over_mean", "max/mean", ratio), needs="max_over_mean_after")),
        "why=detail contact?",
    ],
    "-max_over_mean_after, cluster, group_id, alert, detail",
)
VIEWS = {"worse": WORSE_GROUPS, "groups": GROUPS, "members": MEMBERS, "topics": TOPICS, "streams": DRIFTED}
"""The tables of the page, in order."""


@progress("looking for drift", 1)
def summarize_drift(groups: DataFrame, topics: DataFrame, limit: int) -> str:
    """Returns the totals, the groups with most partitions that changed owners, and the topics that changed.

    Reads a screenful of rows.

    Args:
        groups: `Drift.groups`, computed or read back.
        topics: `Drift.topics`, computed or read back.
        limit: Maximum number of groups, and of topics, listed.
    """
    by_change = [F.count_if(F.col("change") == name).alias(name) for name in _KINDS]
    (totals,) = collected(groups.agg(*by_change, *total_columns("groups", CHANGES)), "totals")
    lines = []
    for what, names in (("Groups", _KINDS), ("Members", _MEMBER_CHANGES), ("Partitions", _PARTITION_CHANGES)):
        counts = ", ".join(f"{totals[name]:,} {name.replace('_', ' ')}" for name in names)
        lines.append(f"{what}: {counts}")
    return "\n".join([*lines, *GROUPS.printed(groups, limit), *TOPICS.printed(topics, limit)])


def summarize_alerts(alerts: DataFrame, limit: int) -> tuple[str, dict[str, int]]:
    """Returns the summary, and the number of alerts of each kind. Reads a screenful of rows.

    Args:
        alerts: Result of `spark_assign.groups.alerts.alerts`.
        limit: Maximum number of groups listed: groups with the worst balance first, rejected ones last.
    """
    counts = dict(sorted(count_by(alerts, "alert").items()))
    if not counts:
        return "No group is beyond a threshold", {}
    by_kind = ", ".join(f"{kind} {number_of:,}" for kind, number_of in counts.items())
    return "\n".join(
        [f"Groups beyond a threshold: {by_kind}", *ALERTS.printed(alerts, limit, sum(counts.values()))[2:]]
    ), counts


# --- page ---------------------------------------------------------------------------------------------------------


def build_drift_section(rows: Mapping[str, Rows]) -> dict[str, Any]:
    """Returns what the template shows; `movement`: heading and matrix of the groups in which most has moved."""
    tables = [view.table(rows.get(name, ())) for name, view in VIEWS.items()]
    return {"sentences": _drift_sentences(rows), "tables": tables, "movement": _movements(rows.get("pairs", ()))}


def _drift_sentences(rows: Mapping[str, Rows]) -> list[str]:
    """Returns the summary of the drift in sentences."""
    if not rows.get("changes"):
        return []
    about = {name: text for row in rows.get("about", ()) for name, text in row.items()}
    groups = Counter({row["change"]: row["groups"] for row in rows["changes"]})
    sums = {name: sum(row[name] or 0 for row in rows["changes"]) for name in CHANGES}
    sides = f"From {about['before']} to {about['after']}: " if {"before", "after"} <= set(about) else ""
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
    if worse := rows.get("worse"):
        worst, more = worse[0], " or more" if len(worse) == views.MOST_ROWS else ""
        before, after = (ratio(worst[f"max_over_mean_{when}"]) for when in SIDES)
        sentences.append(
            f"Less even than before: {count(len(worse), 'group')}{more}, most of all {group_name(worst)} "
            f"(largest over mean {before} → {after})."
        )
    else:
        sentences.append("No group is less even than before.")
    return sentences


def _has(many: int) -> str:
    return "has" if many == 1 else "have"


def _is(many: int) -> str:
    return "is" if many == 1 else "are"


def _movements(pairs: Rows) -> list[tuple[str, Matrix]]:
    found = []
    for key, rows in by_group(pairs).items():
        members = {row[end] for row in rows for end in ("from_member_id", "to_member_id") if row[end] is not None}
        one = matrix(rows, short_names(members))
        if one is not None and max(len(one.rows), len(one.columns)) <= MAX_MATRIX_MEMBERS:
            found.append(("/".join(key), one))
    return found


def drift_rows(tables: Mapping[str, DataFrame], about: Mapping[str, str] | None = None) -> dict[str, Rows]:
    """Returns the rows of the changes between two runs that the page displays.

    Args:
        tables: `tables.stored_plan.STORED_DRIFT_TABLES`, those that are there.
        about: `before` and `after`, the names of the two runs, if they are known.

    Returns:
        rows by the names of `VIEWS`; `changes`, sums of `CHANGES` by kind of change; `pairs`, previous and next owners
        in the groups in which most has moved; and one row `about`.
    """
    shown = dict(tables)
    if "groups" in tables:
        shown["worse"] = tables["groups"]
    if f"{STREAMS}groups" in tables:
        shown["streams"] = tables[f"{STREAMS}groups"]
    found: dict[str, Rows] = {name: view.read(shown[name]) for name, view in VIEWS.items() if name in shown}
    if "groups" in tables:
        by_change = tables["groups"].groupBy("change").agg(num_rows("groups"), *map(sum_of, CHANGES))
        found["changes"] = collected(by_change.orderBy("change"))  # four rows
        most = [row for row in found["groups"] if row["moved"]][:DRAWN_GROUPS]
        if most and "ownership" in tables:
            found["pairs"] = collected(_count_owner_pairs(tables["ownership"].where(any_of(most))))
    return {**found, "about": [dict(about or {})]}


def _count_owner_pairs(ownership: DataFrame) -> DataFrame:
    """Returns the pairs of previous and next owner with the most partitions, of a few groups."""
    pairs = ownership.groupBy(*GROUP_KEY, "from_member_id", "to_member_id")
    counted = pairs.agg(num_rows("partitions"))
    return counted.orderBy(F.desc("partitions"), *GROUP_KEY, "from_member_id", "to_member_id").limit(views.MOST_ROWS)
