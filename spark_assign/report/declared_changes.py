"""What a reviewer of a pull request needs to know, as Markdown of at most `MAX_LINES` lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_assign.assignors.release_rules import client_assignor
from spark_assign.comparison.declared_changes import NAME, FleetChange
from spark_assign.comparison.kernel.compare import KAFKA_DEFAULT
from spark_assign.comparison.what_if import AS_IS
from spark_assign.groups.kernel.client_settings import plan_switch
from spark_assign.report.formatting import DASH, Row, change, count, duration, listed, number, ratio
from spark_assign.report.listed_groups import collected, num_rows
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.quoting import MAX_CODE, in_text, markdown_block
from spark_assign.tables.quoting import markdown_code as code

MAX_LINES = 60
"""Maximum number of lines, folded ones included."""

_CHANGES, _GROUPS, _BROKERS, _RISKS, _REMEDIES, _NOTES, _STEPS = 5, 6, 6, 5, 3, 3, 6
"""Maximum number of entries of each list."""

_SLOW = 3600
"""Seconds from which the time to read a lag is a risk."""

_HEADS = ["group", "assignor", "members", "partitions", "move", "partition-seconds paused", "rounds", "max/mean"]


@dataclass(frozen=True)
class Review:
    """The effect of declared changes on a fleet.

    Attributes:
        change: the changes.
        unread: what wasn't read, as Markdown.
        groups: the groups that rebalance, most moves first: cluster, group_id, and their metrics `before` and `after`
            the change, and with the `best` assignor.
        totals: sums over all groups that rebalance.
        brokers: replicas and leaders of the brokers that get new ones.
        taken_at: time of the oldest snapshot; None: unknown.
    """

    change: FleetChange
    unread: Sequence[str] = ()
    groups: Sequence[Row] = ()
    totals: Mapping[str, Any] = field(default_factory=dict)
    brokers: Sequence[Row] = ()
    taken_at: datetime | None = None

    @property
    def planned(self) -> list[Row]:
        """The groups that aren't rejected."""
        return [row for row in self.groups if row["after"]["rejected"] is None]

    def name(self, cluster: str | None, name: str) -> str:
        """Returns a name as a code span, with its cluster if the fleet has several."""
        return code(f"{cluster}/{name}" if len(self.change.clusters) > 1 else name)

    def group(self, row: Row) -> str:
        """Returns the name of the group of a row as a code span."""
        return self.name(row["cluster"], row["group_id"])

    @property
    def risks(self) -> list[str]:
        """What a reviewer must know: the risks of the changes, and those of the groups."""
        risks = list(self.change.risks)
        for row in self.planned:
            before, after = row["before"], row["after"]
            idle, lag = after["members_without_partitions"] or 0, after["drain_seconds"]
            texts = {
                f"{idle:,} of {count(after['members'], 'member')} get no partitions": before
                and idle > (before["members_without_partitions"] or 0),
                f"{count(after['unassigned'] or 0, 'partition')} without an owner": after["unassigned"],
                f"the slowest member reads its lag in {duration(lag)}": lag is not None and lag > _SLOW,
            }
            risks += [f"group {self.group(row)}: {text}." for text, is_true in texts.items() if is_true]
        return risks


@progress("comparing the groups that rebalance", 1)
def read_groups(comparison: DataFrame, change: FleetChange) -> tuple[list[Row], Row]:
    """Returns the first groups of a comparison with `AS_IS` and `NAME`, and the totals (`Review`)."""
    chosen = [
        F.when((F.col("cluster") == key[0]) & (F.col("group_id") == key[1]), F.lit(assignor))
        for key, assignor in change.assignors.items()
    ]
    used, metrics = F.coalesce("current_assignor", F.lit(KAFKA_DEFAULT)), F.struct(*comparison.columns)

    def with_assignor(name: str, assignor: Column) -> Column:
        rank = F.when(F.col("assignor") == assignor, 2).when(F.col("recommended"), 1).otherwise(0)
        return F.max_by(metrics, F.when(F.col("what_if") == name, F.struct(rank, "assignor")))

    groups = comparison.groupBy(*GROUP_KEY).agg(
        with_assignor(AS_IS.name, used).alias("before"),
        with_assignor(NAME, F.coalesce(*chosen, used)).alias("after"),
        F.max_by(metrics, F.when((F.col("what_if") == NAME) & F.col("recommended"), 1)).alias("best"),
    )
    order = [F.desc_nulls_last(f"after.{name}") for name in ("moved", "paused_partition_seconds")]
    totals = groups.agg(
        num_rows("groups"),
        F.count_if(F.col("after.rejected").isNull()).alias("planned"),
        *(F.sum(f"after.{name}").alias(name) for name in ("moved", "partitions")),
        F.sum("after.paused_partition_seconds").alias("paused"),
        F.max("after.rounds").alias("rounds"),
    )
    first = groups.orderBy(*order, *map(F.col, GROUP_KEY)).limit(_GROUPS)
    return collected(first, "groups"), collected(totals, "totals")[0]


def read_brokers(loads: DataFrame) -> list[Row]:
    """Returns the brokers with the most new replicas."""
    order = [F.desc(F.col("new_replicas") - F.col("replicas")), *map(F.col, ("cluster", "broker_id"))]
    return collected(loads.where("new_replicas > replicas").orderBy(*order).limit(_BROKERS), "brokers")


def review_markdown(review: Review) -> str:
    """Returns the text of a comment: what changes, who rebalances, the load of brokers, risks, and remedies."""
    changes, totals = review.change.changes, review.totals
    changed = [
        [f"{each.kind} {review.name(each.cluster, each.name)}: {each.setting}", *values, code(each.where)]
        for each in changes
        for values in [[_value(each.before), _value(each.after)]]
    ]
    listed("changes", [vars(each) for each in changes])
    listed("risks", [{"text": text} for text in review.risks])
    lines = [f"### {_title(review)}", "", _intro(review)]
    lines += _table(["change", "before", "after", "file"], changed, _CHANGES, len(changed))
    lines += _table(_HEADS, [_cells(review, row) for row in review.planned], _GROUPS, totals.get("planned", 0))
    if review.brokers:
        loads = "; ".join(
            f"{review.name(row['cluster'], str(row['broker_id']))} {row['replicas']:,} → {row['new_replicas']:,} "
            f"replicas, {row['leaders']:,} → {row['new_leaders']:,} leaders"
            for row in review.brokers
        )
        lines += ["", f"**Brokers**, if new partitions are placed as `replicas reassign` places them: {loads}."]
    remedies, steps = _remedies(review)
    for title, texts, limit in (("Risks", review.risks, _RISKS), ("Remedy", remedies, _REMEDIES)):
        lines += ["", f"**{title}**", *_items(texts, limit)] if texts else []
    if steps:
        shown = markdown_block("\n".join([*steps[:_STEPS], *["…"] * (len(steps) > _STEPS)]))
        lines += ["", "<details><summary>How to switch</summary>", "", *shown, "</details>"]
    rejected = [row for row in review.groups if row["after"]["rejected"] is not None]
    notes = [f"group {review.group(row)}: {code(row['after']['reason'])}." for row in rejected]
    if notes := [*review.change.notes, *notes, *review.unread]:
        title = f"<details><summary>Not in this plan ({len(notes):,})</summary>"
        lines += ["", title, "", *_items(notes, _NOTES), "", "</details>"]
    return "\n".join(lines)


def _title(review: Review) -> str:
    totals = review.totals
    if not totals.get("groups"):
        unplanned = "no change is planned" if review.change.notes or review.unread else "nothing changes"
        return f"Kafka: {'no group rebalances' if review.change.changes else unplanned}"
    groups = count(totals["groups"], "group", "rebalances", "rebalance")
    return f"Kafka: {groups}, {number(totals['moved'] or 0)} of {count(totals['partitions'] or 0, 'partition')} move"


def _intro(review: Review) -> str:
    taken, totals = f" of {review.taken_at:%Y-%m-%d %H:%M %Z}" if review.taken_at else "", review.totals
    parts = [f"{count(len(review.change.changes), 'change')}, planned on the snapshot{taken}"]
    if totals.get("planned"):
        paused, rounds = f"{totals['paused'] or 0:,.0f} partition-seconds", count(totals["rounds"] or 1, "round")
        parts.append(f"Expected: {paused} without consumption, and at most {rounds} per group")
    if rejected := totals.get("groups", 0) - totals.get("planned", 0):
        parts.append(f"{count(rejected, 'group')} can't be planned")
    return ". ".join(parts) + "."


def _value(value: Any) -> str:
    return DASH if value is None else number(value) if isinstance(value, int) else code(str(value))


def _cells(review: Review, row: Row) -> list[str]:
    before, after = row["before"], row["after"]
    members, partitions, balance = (
        change(DASH if before is None else form(before[name]), form(after[name]))
        for name, form in (("members", number), ("partitions", number), ("max_over_mean", ratio))
    )
    cost = [number(after["moved"] or 0), f"{after['paused_partition_seconds'] or 0:,.1f}", number(after["rounds"] or 1)]
    return [review.group(row), code(after["assignor"]), members, partitions, *cost, balance]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], limit: int, total: int) -> list[str]:
    if not rows:
        return []
    shown = [f"| {' | '.join(row)} |" for row in (heads, ["---"] * len(heads), *rows[:limit])]
    return ["", *shown, *[f"| … and {total - limit:,} more |{' |' * (len(heads) - 1)}"] * (total > limit)]


def _items(texts: Sequence[str], limit: int) -> list[str]:
    more = [f"- … and {len(texts) - limit:,} more"] if len(texts) > limit else []
    return [*(f"- {text}" for text in texts[:limit]), *more]


def _remedies(review: Review) -> tuple[list[str], list[str]]:
    """Returns a line of Markdown per group for which another assignor is recommended, and the steps as plain text.

    The kernel's reasons repeat names of assignors that strangers choose, so only numbers are repeated.
    """
    texts, groups = [], dict[tuple[str, str], list[str]]()
    for row in review.planned:
        key, after, best = (row["cluster"], row["group_id"]), row["after"], row["best"]
        new, now = review.change.assignors.get(key), after["current_assignor"]
        switch = "", ""
        if new is not None:
            switch = plan_switch(now and client_assignor(now), new, after["client_libraries"]).text, ""
        elif best is not None and best["assignor"] != after["assignor"]:
            switch = best["switch_steps"] or "", best["settings"] or ""
            figures = [(number(each["moved"] or 0), ratio(each["max_over_mean"])) for each in (best, after)]
            named = zip(("{} partitions move", "max/mean is {}"), *figures, strict=True)
            gains = [f"{text.format(has)} instead of {had}" for text, has, had in named if has != had]
            texts.append(
                f"group {review.group(row)}: with {code(best['assignor'])}, {' and '.join(gains) or 'the same'}."
            )
        if switch[0]:
            groups.setdefault(switch, []).append(in_text(key[1], MAX_CODE))
    steps = [f"{', '.join(names)}: {text}\n{settings}" for (text, settings), names in groups.items()]
    return texts, [line for step in steps for line in step.splitlines()]
