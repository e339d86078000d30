"""The daily page: what stopped, why, what it cost, what would have prevented it, what changed, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from spark_assign.report import drift as drifts
from spark_assign.report import views as parts
from spark_assign.report.advice import (
    amount_with_unit,
    cost_with_payback,
    description_with_note,
    subject_name,
)
from spark_assign.report.advice_commands import Commands, advice_commands, settings_commands
from spark_assign.report.formatting import DASH, Row, Rows, count, format_time, group_key, group_name, share, visible
from spark_assign.report.history import DEPLOYS, heat_maps, partition_time

OUTAGE, HANG = "outage", "hang"
"""Types of pauses without a rebalance: of several groups of a cluster at the same time, and of one group."""

CAUSES = {
    "rolling-restart": "deployment",
    "restart": "deployment",
    "scale-out": "deployment",
    "scale-in": "deployment",
    "crash": "crash",
    "flapping": "rebalance storm",
    "mixed": "mixed",
    OUTAGE: "broker or network",
    HANG: "no commits",
}
"""Cause of each `deploy_type` of a history, and of the pauses without a rebalance."""

MAX_CARDS = 20
"""Maximum number of recommendations on a page."""

STATIC_MEMBERS = "static members"

MIN_SAVED_SHARE = 0.25
"""A setting is recommended if a replay with it saves more than this share of the pauses of a group. Where replays
were measured, their error was almost as large (docs/daily.md)."""


@dataclass(frozen=True)
class DailyRows:
    """Rows of the daily page. All have cluster and group_id, and `team` if owners are known.

    Attributes:
        since, until: time range of `deploys`, `buckets`, and `savings`; None without a history.
        deploys: `tables.history.DEPLOYS` that ended in the time range, and pauses without a rebalance as rows of this
            table; longest pauses first.
        idle: cluster, group_id, times: number of idle pauses, which aren't events; most first.
        buckets: cluster, group_id, time_bucket, rebalances, paused_partition_ms.
        width_s: width of the time buckets, in seconds.
        savings: cluster, group_id, setting (an assignor, or `STATIC_MEMBERS`), settings (lines to paste), paused_ms (as
            recorded), replayed_ms, rebalances; largest saving first.
        changed: rows of the drift's groups that changed; None if there is no earlier plan.
        advice: `tables.advice.ADVICE`, by rank.
        alerts: `tables.groups.ALERTS`.
        clusters: cluster, labels, taken_at (None: never), age_hours, stale, problem.
        missing: sentences about steps without a result.
    """

    since: datetime | None = None
    until: datetime | None = None
    deploys: Rows = ()
    idle: Rows = ()
    buckets: Rows = ()
    width_s: int = 3_600
    savings: Rows = ()
    changed: Rows | None = None
    advice: Rows = ()
    alerts: Rows = ()
    clusters: Rows = ()
    missing: Sequence[str] = ()

    def tables(self) -> dict[str, Rows]:
        """Returns the rows by name, as `daily -o json` prints them."""
        names = ("deploys", "savings", "groups", "advice", "alerts", "clusters")
        return {name: getattr(self, "changed" if name == "groups" else name) or () for name in names}

    @cached_property
    def parts(self) -> list[Part]:
        """The sections in the order in which the page answers, drawn once."""
        return [_stopped(self), _cost(self), _prevention(self), _changes(self), _next(self), _clusters(self)]

    def teams(self) -> list[str]:
        """Returns the teams of all rows, sorted."""
        listed = (self.deploys, self.savings, self.changed, self.advice, self.alerts)
        return sorted({row["team"] for rows in listed for row in rows or () if row.get("team")})

    def of_team(self, team: str) -> DailyRows:
        """Returns the rows of one team."""
        names = ("deploys", "idle", "buckets", "savings", "changed", "advice", "alerts")
        own: dict[str, Any] = {
            name: [row for row in getattr(self, name) or () if row.get("team") == team] for name in names
        }
        return replace(self, **own)


@dataclass(frozen=True)
class Card:
    """A recommendation: heading, note, sentences, and commands."""

    heading: str
    note: str
    sentences: Sequence[str]
    commands: Commands


@dataclass(frozen=True)
class Part:
    """A section of the page."""

    heading: str
    sentences: Sequence[str]
    tables: Sequence[parts.Table] = ()
    drawings: Sequence[parts.Drawing] = ()
    cards: Sequence[Card] = ()

    @property
    def ident(self) -> str:
        """Returns the anchor of the section."""
        return self.heading.lower().replace(" ", "-")


def _stopped(rows: DailyRows) -> Part:
    columns: parts.Columns = [parts.Column("Cause", _cause), *DEPLOYS.columns]
    table = parts.table_of("What stopped, longest pauses first", rows.deploys, columns)
    if rows.since is None or rows.until is None:
        return Part("What stopped", ["No history was read, so pauses aren't known."])
    window = f"From {format_time(rows.since)} to {format_time(rows.until)} UTC"
    totals = ", ".join(f"{cause} {len(found):,}" for cause, found in _by_cause(rows).items())
    groups = count(len({group_key(row) for row in rows.deploys}), "group")
    sentence = (
        f"{window}: {count(len(rows.deploys), 'event')} in {groups} ({totals})."
        if rows.deploys
        else f"{window}, no group stopped."
    )
    times = count(sum(row["times"] for row in rows.idle), "idle time")
    idle = f"Not listed: {times} of {count(len(rows.idle), 'group')}, without commits, in which no records waited."
    sentences = [sentence, idle] if rows.idle else [sentence]
    return Part("What stopped", sentences, [table, drifts.ALERTS.table(rows.alerts)], _map(rows))


def _by_cause(rows: DailyRows) -> Mapping[str, list[Row]]:
    return parts.grouped(rows.deploys, _cause)


def _cause(row: Row) -> str:
    return CAUSES.get(row["deploy_type"], str(row["deploy_type"]))


def _map(rows: DailyRows) -> list[parts.Drawing]:
    """Returns the heat maps of rebalances and pauses by group."""
    keys = dict.fromkeys(group_key(row) for row in [*rows.deploys, *rows.buckets])
    groups = [{"cluster": cluster, "group_id": group_id, "rebalances": 1} for cluster, group_id in keys]
    return heat_maps(groups, rows.buckets, rows.width_s)


def _cost(rows: DailyRows) -> Part:
    sums: list[dict[str, Any]] = [
        {
            "cause": cause,
            "events": len(found),
            "groups": len({group_key(row) for row in found}),
            "partition_seconds": round(_paused(found) / 1000),
        }
        for cause, found in _by_cause(rows).items()
    ]
    sums.sort(key=lambda row: (-row["partition_seconds"], row["cause"]))
    total = f"{_paused(rows.deploys) / 1000:,.0f} partition-seconds without consumption."
    columns = [parts.words("Cause", "cause"), *parts.figures("events", "groups")]
    columns.append(parts.bars("Partition-seconds", "partition_seconds", "bad", ["partition_seconds"]))
    unknown = sum(row["paused_partition_ms"] is None for row in rows.deploys)
    notes = (
        [f"The pause of {count(unknown, 'event')} is unknown: its group doesn't commit to Kafka."] if unknown else []
    )
    return Part("What it cost", [total, *notes], [parts.table_of("Cost by cause", sums, columns)])


def _paused(rows: Rows) -> int:
    return sum(row["paused_partition_ms"] or 0 for row in rows)


def _prevention(rows: DailyRows) -> Part:
    heading = "What would have prevented it"
    best: dict[tuple[str, str], Row] = {}
    for row in rows.savings:
        best.setdefault(group_key(row), row)
    listed = list(filter(_is_recommended, best.values()))
    if not listed:
        share_of = f"more than {100 * MIN_SAVED_SHARE:.0f} % of the pauses of a group"
        return Part(heading, [f"No single setting would have saved {share_of}, as the replay of the rebalances shows."])
    by_setting = parts.grouped(listed, lambda row: row["setting"])
    setting, saving = max(by_setting.items(), key=lambda item: (sum(map(_saved, item[1])), item[0]))
    total = sum(row["paused_ms"] for row in best.values())
    saved = sum(map(_saved, saving))
    sentence = (
        f"{setting} in {count(len(saving), 'group')} would have saved {partition_time(saved)}, {share(saved, total)} "
        f"of the {partition_time(total)} of all replayed groups."
    )
    scale = [{**row, "before": row["paused_ms"] // 1000, "after": row["replayed_ms"] // 1000} for row in listed]
    columns = [
        *(parts.GROUP, parts.words("Setting", "setting"), *parts.figures("rebalances")),
        parts.bars("Partition-seconds as recorded", "before", "was", ["before"]),
        parts.bars("Replayed with the setting", "after", "is", ["before"]),
    ]
    table = parts.table_of("The best single setting of each group", scale, columns, "Replayed, not measured.")
    cards = [
        Card(
            f"{group_name(row)}: {row['setting']}",
            f"saves {partition_time(_saved(row))}",
            [f"{count(row['rebalances'], 'recorded rebalance')} paused {partition_time(row['paused_ms'])}."],
            settings_commands(row["group_id"], row["settings"].splitlines(), _confidence(row["setting"])),
        )
        for row in listed[:MAX_CARDS]
    ]
    return Part(heading, [sentence], [table], cards=cards)


def _confidence(setting: str) -> str:
    """Returns how certain the replayed saving of a setting is."""
    replayed = "replayed from the recorded rebalances of the time range"
    if setting == STATIC_MEMBERS:
        return f"Medium: {replayed}; other nights can differ."
    return f"Low: {replayed}; it depends on how long members block while they give up partitions."


def _is_recommended(row: Row) -> bool:
    return bool(_saved(row) > MIN_SAVED_SHARE * row["paused_ms"])


def _saved(row: Row) -> int:
    return int(row["paused_ms"] - row["replayed_ms"])


def _changes(rows: DailyRows) -> Part:
    if rows.changed is None:
        return Part("What changed", ["There is no earlier plan to compare with."])
    sentence = f"{count(len(rows.changed), 'group')} changed since the previous plan."
    return Part("What changed", [sentence], [drifts.GROUPS.table(rows.changed)])


def _next(rows: DailyRows) -> Part:
    cards = [
        Card(
            f"{row['rank']}. {subject_name(row)}: {row['action']}",
            f"gain {amount_with_unit(row, 'gain')}, cost {cost_with_payback(row)}",
            [description_with_note(row), f"Risk: {row['risk']}"],
            advice_commands(row),
        )
        for row in rows.advice[:MAX_CARDS]
    ]
    more = f" The page shows the first {len(cards)}." if len(cards) < len(rows.advice) else ""
    return Part(
        "What to do next", [f"{count(len(rows.advice), 'recommendation')}, most urgent first.{more}"], cards=cards
    )


def _clusters(rows: DailyRows) -> Part:
    stale = [row["cluster"] for row in rows.clusters if row["stale"]]
    names = visible(", ".join(stale), also="\n")
    sentence = f"Stale: {names}." if names else "The snapshots of all clusters are fresh."
    age = parts.figure("Age in hours", "age_hours", lambda hours: DASH if hours is None else f"{hours:,.1f}")
    columns: parts.Columns = ["cluster labels stale last_snapshot=taken_at", age, "problem"]
    table = parts.table_of("Clusters", rows.clusters, columns)
    return Part("Stale clusters", [sentence, *(visible(each, also="\n") for each in rows.missing)], [table])
