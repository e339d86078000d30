"""What a person sees of the history of groups: a summary, selected groups, replays, heat maps, and timelines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.history.kernel.replay.recorded_history import ASSIGNORS
from spark_assign.report import views
from spark_assign.report.formatting import (
    DASH,
    Row,
    Rows,
    aligned,
    by_group,
    count,
    duration,
    format_time,
    group_key,
    group_name,
    in_cluster,
    listed_order,
    number,
    without_uuids,
)
from spark_assign.report.listed_groups import (
    any_of,
    collected,
    count_by,
    long_sum,
    num_rows,
    possible_variants,
    read_rejected_lines,
    rows_of_first_groups,
    variant_preference,
)
from spark_assign.report.report_data import DRAWN_GROUPS, MAPPED_GROUPS, MAX_INTERVALS
from spark_assign.report.section_charts import Cell, MemberTimeline, draw_heat_map, draw_member_timeline
from spark_assign.report.views import GROUP, Column, View, figure, words
from spark_assign.spark.progress import progress
from spark_assign.tables.errors import in_one_line
from spark_assign.tables.groups import GROUP_KEY
from spark_assign.tables.quoting import in_text

Tables = Mapping[str, DataFrame]

MAX_LINES = 200
"""Maximum number of rebalances listed per group, newest first; the same limit holds for deploys and for pauses."""

_REPLAY_SUMS = ("rebalances", "moved", "paused_partition_ms")
_VARIANT_COLUMNS = ("assignor", "static", "protocol")

_MIN_GROUPS = 3
"""Minimum number of groups with idle epochs that indicate a change of the cluster."""

STOPPED = "coalesce(NOT idle, true)"
"""Condition of the pauses in which something stopped. Runs of earlier releases don't know idle pauses."""

_MAX_CHARACTERS = 110
"""Maximum length of the description of an event."""

_DAY = 86_400
_EPOCH, _MAX_SECONDS = datetime(1970, 1, 1, tzinfo=UTC), 62_135_510_400


def type_of(row: Row) -> str:
    """Returns the group type with the protocol type if that isn't `consumer`: `classic connect`."""
    protocol = row["protocol_type"]
    return str(row["group_type"]) if protocol in (None, "", "consumer") else f"{row['group_type']} {protocol}"


def pause_text(ms: int | None) -> str:
    """Returns milliseconds as a duration, or a dash for None."""
    return DASH if ms is None else duration(ms / 1000)


def partition_time(ms: int | None) -> str:
    """Returns milliseconds summed over partitions as text: `36 partition-seconds`, `3.4 partition-hours`."""
    if ms is None:
        return "an unknown time"
    if ms < 120_000:
        return f"{ms / 1000:,.0f} partition-seconds"
    return f"{ms / 60_000:,.0f} partition-minutes" if ms < 7_200_000 else f"{ms / 3_600_000:,.1f} partition-hours"


_PAUSED = figure("paused", "paused_partition_ms", pause_text)
_LONGEST = figure("longest pause", "longest_pause_ms", pause_text)

GROUPS = View(
    *("groups", "groups: flapping groups, then those with the longest pauses in total"),
    [
        *(GROUP, Column("type", type_of), "assignor rebalances max_per_day=max_rebalances_per_day deploys crashes"),
        *("members partitions", _PAUSED, _LONGEST, "flapping?"),
    ],
    "-flapping, -paused_partition_ms, -rebalances, cluster, group_id",
)
DEPLOYS = View(
    *("deploys", "deploys, crashes, and flapping with the longest pauses"),
    [
        *(GROUP, "type=deploy_type", Column("times", lambda row: number(row.get("times", 1)), True)),
        *("start=start_time end=end_time rebalances members_before members_after", _PAUSED),
        words("detail", text=without_uuids),
    ],
    "-paused_partition_ms, cluster, group_id, start_time",
)
REPLAYED = View(
    *("replay_summary", "recorded rebalances with other assignors and protocols"),
    [
        *(GROUP, "assignor protocol", words("members", "static", lambda static: "static" if static else "dynamic")),
        *("rebalances moved", _PAUSED),
        Column("saved", lambda row: "recorded" if row["recorded"] else pause_text(row["saved_ms"]), True),
        "note",
    ],
    "-saved, cluster, group_id, -recorded",
)
VARIANTS = View(
    *("replay_summary", "all groups by variant"),
    [
        Column("variant", lambda row: format_variant(row)),
        *("protocol groups rebalances moved", figure("paused", "paused_partition_ms", lambda ms: partition_time(ms))),
    ],
)
UNREADABLE = View(
    *("unreadable", "unreadable records by code", ["code records"]),
    "-records, code",
    note="The table unreadable has the records.",
)
VIEWS = (GROUPS, DEPLOYS, REPLAYED, UNREADABLE, views.REJECTED)
"""The tables of the page, in order."""


def totals(groups: DataFrame) -> DataFrame:
    """Returns one row over all groups: groups, flapping, start_time, end_time, and sums of some columns.

    The sums are those of rebalances, idle_epochs, missing_generations, crashes, and paused_partition_ms.
    """
    sums = ("rebalances", "idle_epochs", "missing_generations", "crashes", "paused_partition_ms")
    return groups.agg(
        num_rows("groups"),
        F.count_if("flapping").alias("flapping"),
        *map(long_sum, sums),
        F.min("start_time").alias("start_time"),
        F.max("end_time").alias("end_time"),
    )


def fold_events(deploys: Rows) -> list[Row]:
    """Returns a row for all events of a group that have the same type, those with the longest pauses first.

    It has their number (`times`), their time range, the sums of rebalances and pauses, and the detail of one event.
    """
    folded: list[Row] = []
    for events in views.grouped(deploys, lambda row: (*group_key(row), row["deploy_type"])).values():
        by_time = sorted(events, key=lambda row: row["start_time"])
        paused = [row["paused_partition_ms"] for row in events if row["paused_partition_ms"] is not None]
        sums = {"times": len(events), "rebalances": sum(row["rebalances"] for row in events)}
        sums |= {"start_time": by_time[0]["start_time"], "end_time": max(row["end_time"] for row in events)}
        sums |= {"members_before": by_time[0]["members_before"], "members_after": by_time[-1]["members_after"]}
        folded.append({**events[0], **sums, "paused_partition_ms": sum(paused) if paused else None})
    return sorted(folded, key=lambda row: 1 if row["paused_partition_ms"] is None else -row["paused_partition_ms"])


def newest_rows(rows: DataFrame, columns: Sequence[str], limit: int) -> list[Row]:
    """Returns the newest `limit` rows of each of a few groups, in ascending order of the columns."""
    nth = F.row_number().over(Window.partitionBy(*GROUP_KEY).orderBy(*map(F.desc, columns)))
    newest = rows.withColumn("nth", nth).where(F.col("nth") <= limit).orderBy(*GROUP_KEY, F.desc("nth")).drop("nth")
    return collected(newest)  # of a screenful of groups


# --- summary ------------------------------------------------------------------------------------------------------


@progress("reading the history", 1)
def summarize_history(tables: Tables, limit: int) -> str:
    """Returns the totals, the flapping groups, the groups that paused longest, and unreadable records.

    Reads a screenful of rows.

    Args:
        tables: `tables.history.HISTORY_TABLES` by name; reads groups, rebalances, deploys, unreadable, and rejected.
        limit: Maximum number of groups listed.
    """
    (row,) = collected(totals(tables["groups"]), "totals")
    lines = list(summary_lines(row, count_by(tables["deploys"], "deploy_type")))
    if row["idle_epochs"]:
        lines += _cluster_wide_lines(tables["rebalances"], limit)
    lines += GROUPS.printed(tables["groups"], limit, row["groups"])
    if unreadable := count_by(tables["unreadable"], "code"):
        codes = ", ".join(f"{num_records:,} {code}" for code, num_records in unreadable.items())
        lines += ["", f"Unreadable records (table unreadable): {codes}"]
    return "\n".join([*lines, *read_rejected_lines(tables["rejected"])])


def _cluster_wide_lines(rebalances: DataFrame, limit: int) -> list[str]:
    """Returns a line per period of five minutes in which many groups of a cluster had idle epochs."""
    period = F.window("time", "5 minutes").alias("period")
    idle = rebalances.where("idle").groupBy("cluster", period).agg(F.count_distinct("group_id").alias("groups"))
    rows = idle.where(F.col("groups") >= _MIN_GROUPS).orderBy("cluster", "period").limit(limit)
    return [
        f"Cluster-wide change in {in_text(row['cluster'])} from {format_time(row['period']['start'])} UTC: idle epochs "
        f"of {count(row['groups'], 'group')}, probably because replicas moved to other racks"
        for row in collected(rows)
    ]


def summary_lines(row: Row, deploys: Mapping[str, int]) -> Iterator[str]:
    """Yields the lines that summarize a history.

    Args:
        row: Row of `totals`.
        deploys: Number of deploys by type.
    """
    if not row["groups"]:
        yield "No group is on record"
        return
    paused_ms = row["paused_partition_ms"]
    paused = "" if paused_ms is None else f", {partition_time(paused_ms)} paused"
    yield f"{count(row['groups'], 'group')} from {format_time(row['start_time'])} to {format_time(row['end_time'])} UTC"
    missing = count(row["missing_generations"], "generation") if row["missing_generations"] else ""
    yield f"{count(row['rebalances'], 'rebalance')}{paused}{missing and f'; {missing} no longer on record'}"
    if row["idle_epochs"]:
        yield f"{count(row['idle_epochs'], 'idle epoch')}: every member kept its partitions, and nothing stopped"
    if deploys:
        yield "Deploys: " + ", ".join(f"{num:,} {deploy_type}" for deploy_type, num in deploys.items())
    crashes = "crash" if row["crashes"] == 1 else "crashes"
    yield f"{count(row['flapping'], 'flapping group')}; {row['crashes']:,} {crashes}"


# --- selected groups ----------------------------------------------------------------------------------------------


def format_histories(tables: Tables, patterns: Sequence[str], limit: int) -> str | None:
    """Returns the history of the first groups that match a pattern, or None if no group matches.

    Args:
        tables: groups, rebalances, pauses, and deploys of `tables.history.HISTORY_TABLES`.
        patterns: Shell patterns over group_id.
        limit: Maximum number of groups.
    """
    groups = rows_of_first_groups("groups", tables["groups"], patterns, limit)
    if not groups:
        return None
    events = (
        (tables["rebalances"], ("time", "generation_id")),
        (tables["deploys"], ("start_time", "first_generation_id")),
        (tables["pauses"].where(STOPPED).where("generation_id IS NULL"), ("start_time", "end_time")),
    )
    rows_by_kind = [by_group(newest_rows(table.where(any_of(groups)), columns, MAX_LINES)) for table, columns in events]
    texts = []
    for group in sorted(groups, key=group_name):
        group_rows = [rows[group_key(group)] for rows in rows_by_kind]
        texts.append("\n".join(format_group_history(group, *group_rows)))
    return "\n\n".join(texts)


def format_group_history(group: Row, rebalances: Rows, deploys: Rows, pauses: Rows) -> list[str]:
    """Returns the history of a group: deploys, each followed by its rebalances, and pauses without a rebalance.

    A deploy of one rebalance to which no member returns has no line.

    Args:
        group: Row of `groups`.
        rebalances: Newest rebalances of the group, in order.
        deploys: Newest deploys, in order.
        pauses: Newest pauses without a generation, in order.
    """
    first = rebalances[0]["time"] if rebalances else group["start_time"]
    deploys = [row for row in deploys if row["end_time"] >= first and (row["rebalances"] > 1 or row["restarted"])]
    in_deploys = [range(row["first_generation_id"], row["last_generation_id"] + 1) for row in deploys]
    rows = [(row["start_time"], 0, _deploy_cells(row)) for row in deploys]
    rows += [
        (row["time"], 1, _rebalance_cells(row, any(row["generation_id"] in each for each in in_deploys)))
        for row in rebalances
    ]
    rows += [(row["start_time"], 2, _pause_cells(row)) for row in pauses if row["start_time"] >= first]
    header = ["time (UTC)", "generation", "members", "event", "moved", "paused", "longest pause"]
    events = [cells for _, _, cells in sorted(rows, key=lambda row: row[:2])]
    num_earlier = group["rebalances"] + group["idle_epochs"] - len(rebalances)
    return [
        in_one_line(f"{group_name(group)}: {_describe_group(group)}"),
        *(aligned([header, *events], words=(0, 3)) if events else ()),
        *([f"  … and {num_earlier:,} earlier rebalances, in the table rebalances"] if num_earlier > 0 else ()),
    ]


def _describe_group(group: Row) -> str:
    """Describes a group in a few sentences."""
    assignor, state = (f"{in_text(group['assignor'])}, " if group["assignor"] else ""), group["state"]
    size = f"{count(group['members'], 'member')} and {count(group['partitions'], 'partition')} at the end"
    sentences = [f"{type_of(group)} group, {assignor}{size}{f' ({state})' if state else ''}."]
    if group["rebalances"]:
        times = f"from {format_time(group['start_time'])} to {format_time(group['end_time'])}"
        most = f"at most {group['max_rebalances_per_day']:,} in 24 hours"
        sentences.append(f"{count(group['rebalances'], 'rebalance')} {times}, {most}.")
    if group["paused_partition_ms"]:
        paused, longest = partition_time(group["paused_partition_ms"]), pause_text(group["longest_pause_ms"])
        sentences.append(f"They paused {paused} in total, a single partition at most {longest}.")
    if group["missing_generations"]:
        sentences.append(f"{count(group['missing_generations'], 'generation')} in between no longer on record.")
    return " ".join([*sentences, *(["It is flapping."] if group["flapping"] else [])])


def _deploy_cells(row: Row) -> list[str]:
    start, end = format_time(row["start_time"]), format_time(row["end_time"])
    generations = "–".join(dict.fromkeys(number(row[f"{end}_generation_id"]) for end in ("first", "last")))
    members = f"{row['members_before']:,} → {row['members_after']:,}"
    description = _shorten(f"{row['deploy_type']} until {end.removeprefix(start[:11])}: {row['detail']}")
    return [start, generations, members, description, "", pause_text(row["paused_partition_ms"]), ""]


def _rebalance_cells(row: Row, is_in_deploy: bool) -> list[str]:
    state = "" if row["state"] == "Stable" else f" ({row['state']})"
    description = f"{'  ' if is_in_deploy else ''}{_shorten(row['cause'])}{state}"
    generation, members, moved = (number(row[name]) for name in ("generation_id", "members", "moved"))
    paused, longest = (pause_text(row[name]) for name in ("paused_partition_ms", "longest_pause_ms"))
    return [format_time(row["time"]), generation, members, description, moved, paused, longest]


def _pause_cells(row: Row) -> list[str]:
    description = f"no commits for {count(row['partitions'], 'partition')}, without a rebalance"
    length = duration((row["end_time"] - row["start_time"]).total_seconds())
    return [format_time(row["start_time"]), DASH, DASH, description, "", pause_text(row["paused_partition_ms"]), length]


def _shorten(text: str) -> str:
    """Returns the text without most UUID digits, cut to one line; the table has the complete text."""
    text = " ".join(without_uuids(text).split())
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"


# --- replay -------------------------------------------------------------------------------------------------------


@progress("replaying the rebalances", 1)
def summarize_replay(summary: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns the totals of each variant, and one sentence for each group with the largest savings.

    Reads a screenful of rows.

    Args:
        summary: `Replay.replay_summary`, computed or stored.
        rejected: `Replay.replay_rejected`, computed or stored.
        limit: Maximum number of groups listed.
    """
    sums = [num_rows("groups"), *map(long_sum, _REPLAY_SUMS)]
    variants = collected(summary.groupBy(*_VARIANT_COLUMNS).agg(*sums), "totals")
    (baseline,) = collected(summary.where("recorded").agg(*sums))
    lines = [_total_line(baseline)]
    if variants:
        ordered = sorted(variants, key=lambda row: (listed_order(row["assignor"], ASSIGNORS), row["static"]))
        lines += VARIANTS.lines([{**baseline, "assignor": None, "protocol": ""}, *ordered], len(variants) + 1)
        best_variants = collected(_savings(summary).limit(limit), "savings")
        lines += ["", "Groups with the largest savings:", *(f"  {format_saving(row)}" for row in best_variants)]
        if baseline["groups"] > len(best_variants):
            lines.append(f"  … and {baseline['groups'] - len(best_variants):,} more")
    return "\n".join([*lines, *read_rejected_lines(rejected, name="replay_rejected")])


def _savings(summary: DataFrame) -> DataFrame:
    """Returns one row per group with its baseline and the variant that pauses it least, largest saving first."""
    baseline = F.when(F.col("recorded"), F.struct(*_REPLAY_SUMS, *_VARIANT_COLUMNS))
    best = F.struct("paused_partition_ms", variant_preference(), *_VARIANT_COLUMNS)
    variant = F.min(F.when(~F.col("recorded"), best)).alias("best")
    rows = possible_variants(summary).groupBy(*GROUP_KEY).agg(F.max(baseline).alias("baseline"), variant)
    saved = F.col("baseline.paused_partition_ms") - F.col("best.paused_partition_ms")
    return rows.orderBy(F.desc_nulls_last(saved), F.desc("baseline.rebalances"), *GROUP_KEY)


def format_saving(row: Row) -> str:
    """Returns how long a group's rebalances paused it, and how long they would have with the best variant.

    Args:
        row: cluster, group_id, and the structs `baseline` and `best`.
    """
    baseline, best = row["baseline"], row["best"]
    paused = partition_time(baseline["paused_partition_ms"])
    recorded = f"{count(baseline['rebalances'], 'rebalance')} of {group_name(row)} paused {paused}"
    if best is None or best["paused_partition_ms"] >= baseline["paused_partition_ms"]:
        return f"{recorded}; no other variant pauses less"
    return f"{recorded}; {format_variant(best)}: {partition_time(best['paused_partition_ms'])}"


def format_variant(variant: Row) -> str:
    """Returns the name of a variant, such as `cooperative-sticky with static members`; that of the history is null."""
    if variant["assignor"] is None:
        return "recorded"
    return f"{variant['assignor']} with {'static' if variant['static'] else 'dynamic'} members"


def _total_line(sums: Row) -> str:
    if not sums["groups"]:
        return "No group has two generations on record, so there is nothing to replay"
    paused = partition_time(sums["paused_partition_ms"])
    return f"{count(sums['rebalances'], 'rebalance')} of {count(sums['groups'], 'group')} paused {paused}"


# --- page ---------------------------------------------------------------------------------------------------------


def build_history_section(rows: Mapping[str, Rows]) -> dict[str, Any]:
    """Returns what the template shows, from `history_rows`; `maps` come before the tables."""
    deploy_types = {row["deploy_type"]: row["count"] for row in rows["deploy_types"]}
    (total,) = rows["totals"]
    events = sum(deploy_types.values())
    cut = [f"Of {events:,} events, the {views.MOST_ROWS} with the longest pauses are listed."]
    groups, buckets = rows["groups"], rows.get("time_buckets", ())
    rows = {**rows, DEPLOYS.name: fold_events(rows[DEPLOYS.name])}
    return {
        "sentences": [f"{line}." for line in summary_lines(total, deploy_types)] + cut * (events > views.MOST_ROWS),
        "tables": [view.table(rows.get(view.name, ()), total["groups"] * (view is GROUPS)) for view in VIEWS],
        "drawings": _timelines(groups, rows.get("rebalances", ()), rows.get("pauses", ())),
        "maps": heat_maps(groups, buckets, _width_of(total)) if buckets else [],
    }


def heat_maps(groups: Rows, time_buckets: Rows, width_s: int, ident: str = "heat") -> list[views.Drawing]:
    """Returns the heat maps of rebalances and pauses over time.

    Args:
        groups: cluster, group_id, rebalances; the first ones with rebalances are drawn.
        time_buckets: cluster, group_id, time_bucket (counted from 1970), rebalances, paused_partition_ms.
        width_s: width of the time buckets, in seconds.
        ident: start of the IDs of the drawings, unique in the page.
    """
    if not time_buckets:
        return []
    keys = [group_key(row) for row in groups if row["rebalances"]][:MAPPED_GROUPS]
    index_by_key = {key: index for index, key in enumerate(keys)}
    buckets = [row["time_bucket"] for row in time_buckets]
    first, last = min(buckets), max(buckets)
    wide = -(-(last + 1 - first) // MAX_INTERVALS)  # rebalances can be further apart than what `width_s` is for
    labels = [_bucket_label(bucket * width_s, wide * width_s) for bucket in range(first, last + 1, wide)]
    names = [in_cluster(*key) for key in keys]
    maps = []
    for ordinal, (title, column, unit) in enumerate(
        (("Rebalances", "rebalances", "rebalances"), ("Paused partition-time", "paused_partition_ms", "paused")), 1
    ):
        sums: Counter[tuple[int, int]] = Counter()
        for row in time_buckets:
            if (row[column] or 0) > 0 and group_key(row) in index_by_key:
                sums[index_by_key[group_key(row)], (row["time_bucket"] - first) // wide] += row[column]
        cells = [
            Cell(*at, total, number(total) if column == "rebalances" else _short_duration(total / 1000))
            for at, total in sorted(sums.items())
        ]
        if cells:
            heading = f"{title}: each column is {_bucket_width_text(wide * width_s)}, times in UTC"
            chart = draw_heat_map(names, labels, cells, f"{ident}{ordinal}", f"{title} by group", unit)
            maps.append(views.Drawing(heading, chart))
    return maps


def _bucket_label(start_s: int, width_s: int) -> str:
    start = _EPOCH + timedelta(seconds=min(max(start_s, -_MAX_SECONDS), 4 * _MAX_SECONDS))  # what `datetime` has
    return f"{start:%H:%M:%S}" if width_s < 60 else f"{start:%d %b %H:%M}" if width_s < _DAY else f"{start:%d %b}"


def _bucket_width_text(seconds: int) -> str:
    units = ((_DAY, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
    unit_seconds, noun = next(unit for unit in units if seconds % unit[0] == 0)
    return count(seconds // unit_seconds, noun)


def _short_duration(seconds: float) -> str:
    """Returns a duration that fits in a cell: 45s, 12m, 3h, 41d."""
    for unit_seconds, unit in ((_DAY, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * unit_seconds:
            return f"{seconds / unit_seconds:.0f}{unit}"
    return f"{seconds:.0f}s" if seconds >= 1 else "<1s"


def _timelines(groups: Rows, rebalances: Rows, pauses: Rows) -> list[views.Drawing]:
    rebalances_of, pauses_of = by_group(rebalances), by_group(pauses)
    drawn = [(group_key(row), row) for row in groups if group_key(row) in rebalances_of][:DRAWN_GROUPS]
    return [_timeline(at, row, rebalances_of[key], pauses_of[key]) for at, (key, row) in enumerate(drawn, start=1)]


def _timeline(ordinal: int, group: Row, rebalances: Rows, pauses: Rows) -> views.Drawing:
    """Draws the rebalances and pauses of a group over time."""
    first, last = rebalances[0], rebalances[-1]
    pauses = [row for row in pauses if row["end_time"] >= first["time"]]
    generations = f"generation {first['generation_id']:,}"
    if len(rebalances) > 1:
        generations = f"generations {first['generation_id']:,} to {last['generation_id']:,}"
    summary = f"{count(len(rebalances), 'rebalance')}, {generations}"
    paused = pause_text(group["paused_partition_ms"])
    timeline = MemberTimeline(
        [(_to_ms(row["time"]), row["generation_id"], row["members"]) for row in rebalances],
        [(_to_ms(row["start_time"]), _to_ms(row["end_time"]), row["partitions"]) for row in pauses],
        f"{summary}; {count(len(pauses), 'pause')}; rebalances paused partitions for {paused} in total.",
    )
    name = group_name(group)
    heading = f"{name}{', flapping' if group['flapping'] else ''}: {summary}"
    return views.Drawing(heading, draw_member_timeline(timeline, f"past{ordinal}", f"{name} over time"))


def _to_ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


_HOUR = 3_600
_BUCKET_SECONDS = (10, 60, 300, _HOUR, 6 * _HOUR, _DAY, 7 * _DAY, 28 * _DAY)


def history_rows(tables: Tables) -> dict[str, Rows]:
    """Returns the rows that the page shows of a history.

    Args:
        tables: `tables.history.HISTORY_TABLES` by name, and optionally `replay_summary`.

    Returns:
        rows by the name of their table, and `totals` (one row), `deploy_types` (deploy_type, count), `time_buckets` of
        the groups of the heat maps, and the newest `rebalances` and `pauses` of the drawn groups.
    """
    shown = {**tables, "unreadable": tables["unreadable"].groupBy("code").agg(num_rows("records"))}
    if "replay_summary" in tables:
        shown["replay_summary"] = _best_variants(tables["replay_summary"])
    found = views.read_views(VIEWS, shown)
    found["totals"] = collected(totals(tables["groups"]))
    by_type = tables["deploys"].groupBy("deploy_type").count()
    found["deploy_types"] = collected(by_type.orderBy(F.desc("count"), "deploy_type"))
    rebalanced = [row for row in found["groups"] if row["rebalances"]]
    if not rebalanced:
        return found
    mapped, drawn = any_of(rebalanced[:MAPPED_GROUPS]), any_of(rebalanced[:DRAWN_GROUPS])
    buckets = time_buckets(tables["rebalances"].where(mapped), _width_of(found["totals"][0]))
    pauses = tables["pauses"].where(drawn).where(STOPPED)
    return found | {
        "time_buckets": collected(buckets),
        "rebalances": newest_rows(tables["rebalances"].where(drawn), ("time", "generation_id"), views.MOST_ROWS),
        "pauses": newest_rows(pauses, ("start_time", "end_time"), views.MOST_ROWS),
    }


def _width_of(total: Row) -> int:
    return bucket_seconds(total["start_time"], total["end_time"])


def bucket_seconds(start: datetime, end: datetime) -> int:
    """Returns the width of the columns of a heat map, in seconds: there are at most MAX_INTERVALS columns."""
    length = (end - start).total_seconds()
    days = int(length // (MAX_INTERVALS - 1) // _DAY + 1) * _DAY
    return next((width for width in _BUCKET_SECONDS if length <= width * (MAX_INTERVALS - 1)), days)


def time_buckets(rebalances: DataFrame, width_s: int) -> DataFrame:
    """Returns one row per group and time bucket in which it rebalanced; they are few."""
    time_bucket = F.floor(F.unix_seconds("time") / width_s).alias("time_bucket")
    sums = rebalances.groupBy(*GROUP_KEY, time_bucket).agg(num_rows("rebalances"), long_sum("paused_partition_ms"))
    return sums.orderBy(*GROUP_KEY, "time_bucket").limit(MAPPED_GROUPS * MAX_INTERVALS)


def _best_variants(summary: DataFrame) -> DataFrame:
    """Returns the recorded variant and the one with the largest saving of each group, with the largest saving."""
    largest_saving = (F.desc_nulls_last("saved_ms"), variant_preference(), "static")
    nth = F.row_number().over(Window.partitionBy(*GROUP_KEY, "recorded").orderBy(*largest_saving))
    best = possible_variants(summary).withColumn("nth", nth).where("nth = 1").drop("nth")
    saved = F.max("saved_ms").over(Window.partitionBy(*GROUP_KEY))
    return best.withColumn("saved", saved)


def application_texts(groups: DataFrame | None, limit: int) -> list[str]:
    """Returns why classic Streams applications can't be planned, and what of them is only likely, as a text."""
    assert groups is not None
    notes = F.explode(F.concat(F.array(F.concat(F.lit("not planned: "), "problem")), "caveats"))
    rows = groups.where("caveats is not null").select("cluster", "group_id", notes.alias("note"))
    found = rows.where("note is not null").orderBy("cluster", "group_id", "note").limit(limit + 1).collect()
    lines = [in_one_line(f"  {group_name(row.asDict())}: {row.note}") for row in found[:limit]]
    more = ["  … (more in the table groups: problem, caveats)"] if len(found) > limit else []
    return ["\n".join(["Classic Streams applications:", *lines, *more])] if lines else []
