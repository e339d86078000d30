"""The daily page: what stopped, why, what it cost, what would have prevented it, what changed, and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from spark_assign.comparison.kernel.compare import PREFERRED
from spark_assign.groups.kernel.client_settings import MemberChange, member_settings, plan_switch
from spark_assign.history.kernel.build_history import NO_CAUSE
from spark_assign.history.kernel.pauses import find_nearby
from spark_assign.report import drift as drifts
from spark_assign.report import views as parts
from spark_assign.report.advice import (
    Commands,
    advice_commands,
    amount_with_unit,
    cost_with_payback,
    description_with_note,
    one_row_per_change,
    settings_commands,
    subject_name,
)
from spark_assign.report.formatting import (
    DASH,
    Row,
    Rows,
    count,
    format_time,
    group_key,
    group_name,
    listed_order,
    share,
    visible,
)
from spark_assign.report.history import DEPLOYS, bucket_seconds, fold_events, heat_maps, partition_time, time_buckets
from spark_assign.report.listed_groups import any_of, collected, long_sum, num_rows, possible_variants
from spark_assign.report.report_data import MAPPED_GROUPS, MOST_ROWS
from spark_assign.spark.dataframes import map_arrow_batches, union
from spark_assign.tables.groups import GROUP_KEY

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
        """The sections in the order in which the page answers, drawn once. Problems of clusters come first."""
        found = [_stopped(self), _cost(self), _prevention(self), _changes(self), _next(self)]
        return [_clusters(self), *found] if any(row["problem"] for row in self.clusters) else [*found, _clusters(self)]

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


def _at_least(rows: Rows) -> str:
    """Returns `at least ` if rows can be missing, because `_first` reads a limited number, otherwise an empty text."""
    teams = Counter(row["team"] for row in rows if "team" in row)
    is_cut = max(teams.values()) >= _LISTED_PER_TEAM if teams else len(rows) >= MOST_ROWS
    return "at least " if is_cut else ""


def _stopped(rows: DailyRows) -> Part:
    columns: parts.Columns = [parts.Column("Cause", _cause), *DEPLOYS.columns]
    table = parts.table_of("What stopped, longest pauses first", fold_events(rows.deploys), columns)
    if rows.since is None or rows.until is None:
        return Part("What stopped", ["No history was read, so pauses aren't known."])
    window = f"From {format_time(rows.since)} to {format_time(rows.until)} UTC"
    totals = ", ".join(f"{cause} {len(found):,}" for cause, found in _by_cause(rows).items())
    groups = count(len({group_key(row) for row in rows.deploys}), "group")
    sentence = (
        f"{window}: {_at_least(rows.deploys)}{count(len(rows.deploys), 'event')} in {groups} ({totals})."
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
    return heat_maps(groups, rows.buckets, rows.width_s, "stopped")


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
    least = _at_least(rows.deploys).capitalize()
    total = f"{least}{_paused(rows.deploys) / 1000:,.0f} partition-seconds without consumption."
    columns: parts.Columns = ["cause events groups", parts.bars("partition-seconds", "partition_seconds", "bad")]
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
    listed = [row for row in best.values() if _saved(row) > MIN_SAVED_SHARE * row["paused_ms"]]
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
    columns: parts.Columns = [
        *(parts.GROUP, "setting rebalances", parts.bars("Partition-seconds as recorded", "before", "was")),
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


def _saved(row: Row) -> int:
    return int(row["paused_ms"] - row["replayed_ms"])


def _changes(rows: DailyRows) -> Part:
    if rows.changed is None:
        return Part("What changed", ["There is no earlier plan to compare with."])
    least = _at_least(rows.changed).capitalize()
    sentence = f"{least}{count(len(rows.changed), 'group')} changed since the previous plan."
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
    total = f"{_at_least(rows.advice).capitalize()}{count(len(rows.advice), 'recommendation')}"
    return Part("What to do next", [f"{total}, most urgent first.{more}"], cards=cards)


def _clusters(rows: DailyRows) -> Part:
    stale = [row["cluster"] for row in rows.clusters if row["stale"]]
    names = visible(", ".join(stale), escaped="\n")
    sentence = f"Stale: {names}." if names else "The snapshots of all clusters are fresh."
    age = parts.figure("Age in hours", "age_hours", lambda hours: DASH if hours is None else f"{hours:,.1f}")
    columns: parts.Columns = ["cluster problem labels stale last_snapshot=taken_at", age]
    ordered = sorted(rows.clusters, key=lambda row: (not row["problem"], not row["stale"]))
    table = parts.table_of("Clusters", ordered, columns)
    return Part("Stale clusters", [sentence, *(visible(each, escaped="\n") for each in rows.missing)], [table])


# --- queries ------------------------------------------------------------------------------------------------------

_LISTED_PER_TEAM, _MOST_TEAMS = 50, 500


def daily_rows(
    *,
    history: Mapping[str, DataFrame] | None,
    times: Mapping[str, tuple[datetime, datetime]],
    drift: DataFrame | None,
    advice: DataFrame | None,
    alerts: DataFrame | None,
    clusters: Rows,
    missing: Sequence[str] = (),
) -> DailyRows:
    """Returns the rows of the page. At most `MOST_ROWS` rows of each table, or 50 per team if owners are known.

    Args:
        history: tables of a history with its replay, `with_owners`.
        times: start and end of each cluster's time range; empty without a history.
        drift, advice, alerts: tables of these names, `with_owners`; None if a step has no result.
        clusters, missing: see `DailyRows`.
    """
    rows = DailyRows(clusters=clusters, missing=missing)
    if drift is not None:
        changes = sum((F.col(name) for name in drifts.CHANGES), F.lit(0))
        rows = replace(rows, changed=_first(drift.where("change <> 'unchanged'"), F.desc(changes)))
    if advice is not None:
        rows = replace(rows, advice=_first(one_row_per_change(advice), F.col("rank")))
    if alerts is not None:
        rows = replace(rows, alerts=_first(alerts, F.col("alert"), "detail"))
    if history is None or not times:
        return rows
    recent = {name: _between(history[name], time, times) for name, time in TIMES.items() if name in history}
    alone = _without_rebalance(recent["pauses"], recent["rebalances"], history["groups"])
    events = union([recent["deploys"], alone.where("NOT idle").drop("idle")])
    idle = alone.where("idle").groupBy(*(name for name in (*GROUP_KEY, "team") if name in alone.columns))
    until = max(end for _, end in times.values())
    since = min((start for start, end in times.values() if start < end), default=until)
    rows = replace(rows, since=since, until=until, idle=_first(idle.agg(num_rows("times")), F.desc("times")))
    rows = replace(rows, deploys=_first(events, F.desc_nulls_last("paused_partition_ms"), *_OF_DEPLOYS))
    if rows.deploys:
        starts, ends = ([row[name].astimezone(UTC) for row in rows.deploys] for name in ("start_time", "end_time"))
        width_s = bucket_seconds(max(min(starts), since), max(ends))  # a pause can begin years before
        mapped = list({group_key(row): row for row in rows.deploys}.values())[:MAPPED_GROUPS]
        buckets = collected(time_buckets(recent["rebalances"].where(any_of(mapped)), width_s))
        teams = {group_key(row): row.get("team") for row in mapped}
        rows = replace(rows, width_s=width_s, buckets=[{**row, "team": teams[group_key(row)]} for row in buckets])
    if "replay_summary" in history:
        savings = _savings(history["replay_summary"], recent["replay_rebalances"])
        largest = _first(savings, F.desc(F.col("paused_ms") - F.col("replayed_ms")), "assignor", "static")
        rows = replace(rows, savings=_with_settings(largest))
    return rows


_OF_DEPLOYS = ("start_time", "end_time", "deploy_type")
"""Columns to sort the events of a group by, of which several can have stopped nothing."""
TIMES = {"deploys": "end_time", "pauses": "end_time", "rebalances": "time", "replay_rebalances": "time"}
"""Column of each table that must be in the time range."""


def _between(table: DataFrame, time: str, times: Mapping[str, tuple[datetime, datetime]]) -> DataFrame:
    """Returns the rows in the time range of their cluster: after its start, and up to its end."""
    pairs = (
        F.create_map(*(F.lit(word) for cluster, bounds in sorted(times.items()) for word in (cluster, bounds[index])))
        for index in (0, 1)
    )
    start, end = (pair[F.col("cluster")] for pair in pairs)
    return table.where((F.col(time) > start) & (F.col(time) <= end))


def _without_rebalance(pauses: DataFrame, rebalances: DataFrame, groups: DataFrame) -> DataFrame:
    """Returns the pauses without a rebalance as rows of `tables.history.DEPLOYS`, and `idle`.

    It is an outage if several groups of the cluster stopped within 30 seconds: groups that read different topics, or
    most groups. Idle pauses are an outage, too, if most groups have one at that time, in most of their partitions. So
    are pauses around a rebalance that changes nothing: members can rejoin when a broker is back.
    """
    changing_nothing = rebalances.where(F.col("cause") == NO_CAUSE).select(*GROUP_KEY, "generation_id").distinct()
    rejoined = pauses.join(changing_nothing, [*GROUP_KEY, "generation_id"], "left_semi")
    committing = groups.where("paused_partition_ms IS NOT NULL")
    totals = committing.groupBy("cluster").agg(num_rows("all_groups"))
    alone = pauses.where("generation_id IS NULL").unionByName(rejoined)
    alone = alone.withColumn("idle", F.coalesce("idle", F.lit(False)))
    alone = alone.join(committing.select(*GROUP_KEY, F.col("partitions").alias("owned")), GROUP_KEY, "left")
    alone = alone.withColumn("counts", ~F.col("idle") | (2 * F.col("partitions") > F.col("owned")))
    alone = alone.withColumns({name: F.unix_seconds(f"{name}_time") for name in ("start", "end")})
    found = [StructField("groups", LongType()), StructField("several", BooleanType())]
    fields = (StructField(field.name, field.dataType) for field in alone.schema if field.name != "topics")
    schema = StructType([*fields, *found])
    alone = alone.repartition("cluster").mapInArrow(map_arrow_batches(find_nearby), schema)
    alone = alone.join(totals, "cluster", "left")
    several, most = F.col("several"), 2 * F.col("groups") > F.col("all_groups")
    is_outage = (
        F.col("counts") & (F.col("groups") > 1) & F.when(F.col("idle"), several & most).otherwise(several | most)
    )
    is_outage = F.coalesce(is_outage, F.lit(False))
    is_alone = F.isnull("generation_id")
    alone = alone.where(is_alone | is_outage)
    ended = F.when(is_alone, ", no rebalance; ").otherwise(", until its members rejoined; ")
    detail = F.concat(
        *(F.col("partitions"), F.lit(" partitions without commits"), ended),
        F.when(is_outage, F.concat("groups", F.lit(" groups of the cluster stopped at that time")))
        .when(F.col("groups") > 1, F.concat("groups", F.lit(" groups that read the same topics stopped at that time")))
        .otherwise(F.lit("no other group of the cluster stopped: its consumers hang")),
    )
    added = {
        "deploy_type": F.when(is_outage, OUTAGE).otherwise(HANG),
        "rebalances": F.when(is_alone, 0).otherwise(1).cast("long"),
        "detail": detail,
        "idle": F.col("idle") & ~is_outage,
    }
    helpers = ("generation_id", "groups", "partitions", "owned", "counts", "several", "start", "end", "all_groups")
    return alone.withColumns(added).drop(*helpers)


def _first(table: DataFrame, order: Column, *of_group: str) -> Rows:
    """Returns the first rows of a table: of each team if owners are known. Rows without an owner are a team too.

    Args:
        table: a table of groups.
        order: the first column to sort by. Rows that are equal in it are sorted by group.
        of_group: columns to sort the rows of a group by.
    """
    columns: list[Any] = [order, *GROUP_KEY, *of_group]
    if "team" not in table.columns:
        return collected(table.orderBy(*columns).limit(MOST_ROWS))
    nth = F.row_number().over(Window.partitionBy("team").orderBy(*columns))
    listed = table.withColumn("nth", nth).where(F.col("nth") <= _LISTED_PER_TEAM).drop("nth")
    return collected(listed.orderBy(*columns).limit(_MOST_TEAMS * _LISTED_PER_TEAM))


def _savings(summary: DataFrame, recent: DataFrame) -> DataFrame:
    """Returns the pauses of each group in recent rebalances, as recorded and with one setting changed.

    A variant that changes both the assignor and the membership isn't a single setting, and isn't in the table.
    """
    summary = possible_variants(summary)
    if "client_libraries" not in summary.columns:
        summary = summary.withColumn("client_libraries", F.lit(None).cast("string"))
    variants = summary.select(*GROUP_KEY, "assignor", "static", "protocol", "recorded", "client_libraries")
    sums = recent.groupBy(*GROUP_KEY, "assignor", "static").agg(
        long_sum("paused_partition_ms").alias("replayed_ms"), num_rows("rebalances")
    )
    costs = variants.join(sums, [*GROUP_KEY, "assignor", "static"])
    recorded = costs.where("recorded").select(
        *GROUP_KEY,
        "rebalances",
        F.col("replayed_ms").alias("paused_ms"),
        *(F.col(name).alias(f"current_{name}") for name in ("assignor", "static", "protocol")),
    )
    pairs = costs.where(~F.col("recorded")).drop("rebalances").join(recorded, GROUP_KEY)
    same_static = F.col("static") == F.col("current_static")
    same_assignor = F.col("assignor") == F.col("current_assignor")
    is_single = F.when(same_assignor, F.col("static") & ~same_static).otherwise(same_static)
    team = [name for name in ("team", "contact") if name in summary.columns]
    owners = summary.where("recorded").select(*GROUP_KEY, *team)
    columns = ["assignor", "static", "current_assignor", "client_libraries", "paused_ms", "replayed_ms", "rebalances"]
    return pairs.where(is_single).select(*GROUP_KEY, *columns).join(owners, GROUP_KEY)


def _with_settings(rows: Rows) -> Rows:
    """Returns the rows whose change the group's clients can make, with its name and the lines to paste.

    Of changes of a group that save the same, the one that is preferred everywhere comes first (`PREFERRED`).
    """
    found = []
    for row in rows:
        assignor, current, clients = row["assignor"], row["current_assignor"], row["client_libraries"]
        switch = None if assignor == current else plan_switch(current, assignor, clients)
        change = MemberChange(row["group_id"], clients, switch, None if switch else True)
        if settings := member_settings(change):
            name = assignor if switch else STATIC_MEMBERS
            found.append({**row, "setting": name, "settings": "\n".join(settings)})
    order = [*PREFERRED, STATIC_MEMBERS]
    return sorted(
        found,
        key=lambda row: (row["replayed_ms"] - row["paused_ms"], *group_key(row), listed_order(row["setting"], order)),
    )
