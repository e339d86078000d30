"""Text of the history of groups: a summary, the history of selected groups, and replays with other assignors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.history.kernel.replay.recorded_history import ASSIGNORS
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
    listed_order,
    more_lines,
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
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

Tables = Mapping[str, DataFrame]

MAX_LINES = 200
"""Maximum number of rebalances listed per group, newest first; the same limit holds for deploys and for pauses."""

GROUP_COUNTS = ("rebalances", "max_rebalances_per_day", "deploys", "crashes", "members", "partitions")
_REPLAY_SUMS = ("rebalances", "moved", "paused_partition_ms")
_VARIANT_COLUMNS = ("assignor", "static", "protocol")

_MIN_GROUPS = 3
"""Minimum number of groups with idle epochs that indicate a change of the cluster."""

STOPPED = "coalesce(NOT idle, true)"
"""Condition of the pauses in which something stopped. Runs of earlier releases don't know idle pauses."""

_MAX_CHARACTERS = 110
"""Maximum length of the description of an event."""


# --- queries ------------------------------------------------------------------------------------------------------


def worst_first() -> list[Column]:
    """Returns the sort order of groups: flapping groups, then those that paused longest, then most rebalances."""
    key = (F.col(name) for name in GROUP_KEY)
    return [F.desc("flapping"), F.desc_nulls_last("paused_partition_ms"), F.desc("rebalances"), *key]


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
    groups = tables["groups"]
    (row,) = collected(totals(groups), "totals")
    lines = list(summary_lines(row, count_by(tables["deploys"], "deploy_type")))
    if row["idle_epochs"]:
        lines += _cluster_wide_lines(tables["rebalances"], limit)
    displayed = collected(groups.orderBy(*worst_first()).limit(limit), "groups")
    for title, flapping in (("Flapping groups", True), ("Groups with the longest pauses in total", False)):
        listed = [group for group in displayed if group["flapping"] == flapping]
        if listed:
            lines += ["", f"{title}:", *group_lines(listed)]
    lines += more_lines(row["groups"] - len(displayed), "groups")
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
        f"Cluster-wide change in {row['cluster']} from {format_time(row['period']['start'])} UTC: idle epochs of "
        f"{count(row['groups'], 'group')}, probably because replicas moved to other racks"
        for row in collected(rows, "rebalances")
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


def group_lines(rows: Rows) -> list[str]:
    """Returns one line per group."""
    titles = ["rebalances", "max per day", "deploys", "crashes", "members", "partitions", "paused", "longest pause"]
    table = [["group", "type", "assignor", *titles]]
    for row in rows:
        numbers = (number(row[name]) for name in GROUP_COUNTS)
        table.append([group_name(row), type_of(row), row["assignor"] or DASH, *numbers, *pause_cells(row)])
    return aligned(table, words=(0, 1, 2))


def type_of(row: Row) -> str:
    """Returns the group type with the protocol type if that isn't `consumer`: `classic connect`."""
    protocol = row["protocol_type"]
    return str(row["group_type"]) if protocol in (None, "", "consumer") else f"{row['group_type']} {protocol}"


# --- selected groups ----------------------------------------------------------------------------------------------


def format_histories(tables: Tables, patterns: Sequence[str], limit: int) -> str | None:
    """Returns the history of the first groups that match a pattern, or None if no group matches.

    Args:
        tables: groups, rebalances, pauses, and deploys of `tables.history.HISTORY_TABLES`.
        patterns: Shell patterns over group_id.
        limit: Maximum number of groups.
    """
    groups = rows_of_first_groups(tables["groups"], patterns, limit)
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
    in_deploys = {
        generation for row in deploys for generation in range(row["first_generation_id"], row["last_generation_id"] + 1)
    }
    rows = [(row["start_time"], 0, _deploy_cells(row)) for row in deploys]
    rows += [(row["time"], 1, _rebalance_cells(row, row["generation_id"] in in_deploys)) for row in rebalances]
    rows += [(row["start_time"], 2, _pause_cells(row)) for row in pauses if row["start_time"] >= first]
    header = ["time (UTC)", "generation", "members", "event", "moved", "paused", "longest pause"]
    events = [cells for _, _, cells in sorted(rows, key=lambda row: row[:2])]
    num_earlier = group["rebalances"] + group["idle_epochs"] - len(rebalances)
    return [
        f"{group_name(group)}: {_describe_group(group)}",
        *(aligned([header, *events], words=(0, 3)) if events else ()),
        *([f"  … and {num_earlier:,} earlier rebalances, in the table rebalances"] if num_earlier > 0 else ()),
    ]


def _describe_group(group: Row) -> str:
    """Describes a group in a few sentences."""
    assignor, state = (f"{group['assignor']}, " if group["assignor"] else ""), group["state"]
    size = f"{count(group['members'], 'member')} and {count(group['partitions'], 'partition')} at the end"
    sentences = [f"{type_of(group)} group, {assignor}{size}{f' ({state})' if state else ''}."]
    if group["rebalances"]:
        times = f"from {format_time(group['start_time'])} to {format_time(group['end_time'])}"
        most = f"at most {group['max_rebalances_per_day']:,} in 24 hours"
        sentences.append(f"{count(group['rebalances'], 'rebalance')} {times}, {most}.")
    if group["paused_partition_ms"]:
        paused, longest = partition_time(group["paused_partition_ms"]), duration(group["longest_pause_ms"] / 1000)
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
    return [format_time(row["time"]), generation, members, description, moved, *pause_cells(row)]


def _pause_cells(row: Row) -> list[str]:
    description = f"no commits for {count(row['partitions'], 'partition')}, without a rebalance"
    length = duration((row["end_time"] - row["start_time"]).total_seconds())
    return [format_time(row["start_time"]), DASH, DASH, description, "", pause_text(row["paused_partition_ms"]), length]


def _shorten(text: str) -> str:
    """Returns the text without most UUID digits, cut to one line; the table has the complete text."""
    text = " ".join(without_uuids(text).split())
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"


def pause_cells(row: Row) -> list[str]:
    """Returns the total and the longest pause of a group or a rebalance."""
    return [pause_text(row[name]) for name in ("paused_partition_ms", "longest_pause_ms")]


def pause_text(ms: int | None) -> str:
    """Returns milliseconds as a duration, or a dash for None."""
    return DASH if ms is None else duration(ms / 1000)


def partition_time(ms: int) -> str:
    """Returns milliseconds summed over partitions as text: `36 partition-seconds`, `3.4 partition-hours`."""
    if ms < 120_000:
        return f"{ms / 1000:,.0f} partition-seconds"
    return f"{ms / 60_000:,.0f} partition-minutes" if ms < 7_200_000 else f"{ms / 3_600_000:,.1f} partition-hours"


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
    variants = collected(summary.groupBy(*_VARIANT_COLUMNS).agg(*sums), "variants")
    (baseline,) = collected(summary.where("recorded").agg(*sums))
    lines = [_total_line(baseline)]
    if variants:
        lines += ["", "All groups by variant:", *_variants_table(variants, baseline)]
        best_variants = collected(_best_variants(summary).limit(limit), "groups")
        lines += ["", "Groups with the largest savings:", *(f"  {format_saving(row)}" for row in best_variants)]
        if baseline["groups"] > len(best_variants):
            lines.append(f"  … and {baseline['groups'] - len(best_variants):,} more")
    return "\n".join([*lines, *read_rejected_lines(rejected)])


def _best_variants(summary: DataFrame) -> DataFrame:
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
    """Returns the name of a variant, such as `cooperative-sticky with static members`."""
    return f"{variant['assignor']} with {'static' if variant['static'] else 'dynamic'} members"


def _total_line(sums: Row) -> str:
    if not sums["groups"]:
        return "No group has two generations on record, so there is nothing to replay"
    paused = partition_time(sums["paused_partition_ms"])
    return f"{count(sums['rebalances'], 'rebalance')} of {count(sums['groups'], 'group')} paused {paused}"


def _variants_table(variants: Rows, baseline: Row) -> list[str]:
    """Returns one line per variant, in the order of Kafka's assignors."""
    ordered = sorted(variants, key=lambda row: (listed_order(row["assignor"], ASSIGNORS), row["static"]))
    rows = [(format_variant(row), row["protocol"], row) for row in ordered]
    table = [["variant", "protocol", "groups", "rebalances", "moved", "paused"]]
    for name, protocol, row in [("recorded", "", baseline), *rows]:
        numbers = (number(row[column]) for column in ("groups", "rebalances", "moved"))
        table.append([name, protocol, *numbers, partition_time(row["paused_partition_ms"])])
    return aligned(table, words=(0, 1))
