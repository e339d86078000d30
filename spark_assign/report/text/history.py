"""Text of the history of groups: a summary, the history of selected groups, and replays with other assignors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from operator import and_, or_
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.history.kernel.replay.recorded_history import ASSIGNORS
from spark_assign.report.formatting import (
    DASH,
    MAX_REJECTED,
    aligned,
    count,
    duration,
    group_name,
    number,
    rejected_lines,
    without_uuids,
)
from spark_assign.report.listed_groups import rows_of_first_groups
from spark_assign.spark.progress import progress
from spark_assign.tables.groups import GROUP_KEY

Row = Mapping[str, Any]
Tables = Mapping[str, DataFrame]

MAX_LINES = 200
"""Maximum number of rebalances listed per group, newest first; the same limit holds for deploys and for pauses."""


_MAX_CHARACTERS = 110
"""Maximum length of the description of an event."""


def worst_first() -> list[Column]:
    """Returns the sort order of groups: flapping groups, then the longest stopped, then those with most rebalances."""
    return [
        F.desc("flapping"),
        F.desc_nulls_last("stopped_ms"),
        F.desc("rebalances"),
        *(F.col(name) for name in GROUP_KEY),
    ]


def totals(groups: DataFrame) -> DataFrame:
    """Returns one row of sums over all groups: groups, flapping, rebalances, missing, crashes, stopped_ms, since,
    until."""
    sums = ("rebalances", "missing", "crashes", "stopped_ms")
    return groups.agg(
        F.count(F.lit(1)).alias("groups"),
        F.coalesce(F.sum(F.col("flapping").cast("long")), F.lit(0)).alias("flapping"),
        *(F.sum(name).alias(name) for name in sums),
        F.min("since").alias("since"),
        F.max("until").alias("until"),
    )


@progress("telling the history", 1)
def summarize_history(tables: Tables, limit: int) -> str:
    """Returns the totals, the flapping groups, the groups that stopped longest, and unreadable records.

    Reads a screenful of rows.

    Args:
        tables: `tables.history.HISTORY_TABLES` by name; reads groups, deploys, unreadable, and rejected.
        limit: Maximum number of groups listed.
    """
    groups = tables["groups"]
    (row,) = totals(groups).collect()
    deploys = _count_by(tables["deploys"], "what")
    unreadable = _count_by(tables["unreadable"], "code")
    lines = [*summary_lines(row.asDict(), deploys)]
    displayed = [group.asDict() for group in groups.orderBy(*worst_first()).limit(limit).collect()]
    for title, flapping in (("Flapping groups", True), ("Groups that stopped longest", False)):
        listed = [group for group in displayed if group["flapping"] == flapping]
        if listed:
            lines += ["", f"{title}:", *group_lines(listed)]
    if row["groups"] > len(displayed):
        lines.append(f"  … and {row['groups'] - len(displayed):,} more, in the table groups")
    if unreadable:
        codes = ", ".join(f"{num_records:,} {code}" for code, num_records in unreadable.items())
        lines += ["", f"Records that could not be read: {codes}; they are in the table unreadable, as they are"]
    rejected_rows = [row.asDict() for row in tables["rejected"].orderBy(*GROUP_KEY).limit(MAX_REJECTED).collect()]
    if rejected_rows:
        lines += rejected_lines(rejected_rows, tables["rejected"].count())
    return "\n".join(lines)


def _count_by(table: DataFrame, name: str) -> dict[str, int]:
    """Returns the number of rows by the values of a column with few values, most frequent first."""
    rows = table.groupBy(name).count().orderBy(F.desc("count"), name).collect()
    return {row[name]: row["count"] for row in rows}


def summary_lines(row: Row, deploys: Mapping[str, int]) -> Iterator[str]:
    """Yields the lines that summarize a history.

    Args:
        row: Row of `totals`.
        deploys: Number of deploys by type.
    """
    if not row["groups"]:
        yield "No group is on record"
        return
    stopped = "" if row["stopped_ms"] is None else f", which stopped {partition_time(row['stopped_ms'])}"
    yield f"{count(row['groups'], 'group')} from {format_time(row['since'])} to {format_time(row['until'])} UTC"
    missing = f"; {count(row['missing'], 'generation')} more are no longer on record" if row["missing"] else ""
    yield f"{count(row['rebalances'], 'rebalance')}{stopped}{missing}"
    if deploys:
        yield "Deploys and the like: " + ", ".join(f"{num:,} {deploy_type}" for deploy_type, num in deploys.items())
    flap, crash = ("flaps" if row["flapping"] == 1 else "flap"), ("crash" if row["crashes"] == 1 else "crashes")
    yield f"{count(row['flapping'], 'group')} {flap}; {row['crashes']:,} {crash}"


def group_lines(rows: Sequence[Row]) -> list[str]:
    """Returns one line per group."""
    titles = ["rebalances", "worst day", "deploys", "crashes", "members", "partitions", "stopped", "longest"]
    table = [["group", "type", "assignor", *titles]]
    for row in rows:
        cells = [group_name(row), type_of(row), row["assignor"] or DASH]
        counts = ("rebalances", "most_in_a_day", "deploys", "crashes", "members", "partitions")
        table.append(
            [*cells, *(number(row[name]) for name in counts), *(_duration_of(row, name) for name in _STOPPED_COLUMNS)]
        )
    return aligned(table, words=(0, 1, 2))


_STOPPED_COLUMNS = ("stopped_ms", "longest_ms")


def type_of(row: Row) -> str:
    """Returns the group type with the protocol type if that isn't `consumer`: `classic connect`."""
    protocol = row["protocol_type"]
    return str(row["group_type"]) if protocol in (None, "", "consumer") else f"{row['group_type']} {protocol}"


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
    is_selected = reduce(or_, [reduce(and_, [F.col(name) == row[name] for name in GROUP_KEY]) for row in groups])
    rebalances = _newest_rows(tables["rebalances"].where(is_selected), "at", "generation")
    deploys = _newest_rows(tables["deploys"].where(is_selected), "since", "first_generation")
    pauses = _newest_rows(tables["pauses"].where(is_selected).where("generation is null"), "since", "until")
    texts = []
    for group in sorted(groups, key=group_name):
        group_rows = [
            [row for row in rows if group_name(row) == group_name(group)] for rows in (rebalances, deploys, pauses)
        ]
        texts.append("\n".join(format_group_history(group, *group_rows)))
    return "\n\n".join(texts)


def _newest_rows(rows: DataFrame, *columns: str) -> list[dict[str, Any]]:
    """Returns the newest `MAX_LINES` rows of each group, in ascending order of the columns."""
    order = [F.desc(name) for name in columns]
    nth = F.row_number().over(Window.partitionBy(*GROUP_KEY).orderBy(*order))
    newest = rows.withColumn("nth", nth).where(F.col("nth") <= MAX_LINES).orderBy(*GROUP_KEY, F.desc("nth")).collect()
    return [row.asDict() for row in newest]


def format_group_history(
    group: Row, rebalances: Sequence[Row], deploys: Sequence[Row], pauses: Sequence[Row]
) -> list[str]:
    """Returns the history of a group: deploys, each followed by its rebalances, and pauses without a rebalance.

    A deploy of one rebalance to which no member returns has no line.

    Args:
        group: Row of `groups`.
        rebalances: Newest rebalances of the group, in order.
        deploys: Newest deploys, in order.
        pauses: Newest pauses without a generation, in order.
    """
    lines = [f"{group_name(group)}: {_describe_group(group)}"]
    rows: list[tuple[datetime, int, list[str]]] = []
    first = rebalances[0]["at"] if rebalances else group["since"]
    deploys = [row for row in deploys if row["until"] >= first and (row["rebalances"] > 1 or row["restarted"])]
    rows += [(row["since"], 0, _deploy_cells(row)) for row in deploys]
    in_deploys = {
        generation for row in deploys for generation in range(row["first_generation"], row["last_generation"] + 1)
    }
    for row in rebalances:
        rows.append((row["at"], 1, _rebalance_cells(row, "  " if row["generation"] in in_deploys else "")))
    for row in pauses:
        if row["since"] >= first:
            rows.append((row["since"], 2, _pause_cells(row)))
    rows.sort(key=lambda row: row[:2])
    header = ["at (UTC)", "generation", "members", "what", "moved", "stopped", "longest"]
    if rows:
        lines += aligned([header, *(cells for _, _, cells in rows)], words=(0, 3))
    num_earlier = group["rebalances"] - len(rebalances)
    more = [f"  … and {num_earlier:,} earlier rebalances, in the table rebalances"] if num_earlier > 0 else []
    return lines + more


def _describe_group(group: Row) -> str:
    """Describes a group in a few sentences."""
    group_type = f"{type_of(group)} group" + (f", {group['assignor']}" if group["assignor"] else "")
    size = f"{count(group['members'], 'member')} with {count(group['partitions'], 'partition')} at the end"
    state = f" ({group['state']})" if group["state"] else ""
    sentences = [f"{group_type}, {size}{state}."]
    if group["rebalances"]:
        sentences.append(
            f"{count(group['rebalances'], 'rebalance')} "
            f"from {format_time(group['since'])} to {format_time(group['until'])}, "
            f"{group['most_in_a_day']:,} in the worst 24 hours."
        )
    if group["stopped_ms"]:
        sentences.append(
            f"They stopped {partition_time(group['stopped_ms'])}, one for {_duration_of(group, 'longest_ms')}."
        )
    if group["missing"]:
        sentences.append(f"{count(group['missing'], 'generation')} between them are no longer on record.")
    return " ".join([*sentences, *(["It is flapping."] if group["flapping"] else [])])


def _deploy_cells(row: Row) -> list[str]:
    before, after = row["members_before"], row["members_after"]
    generations = "–".join(dict.fromkeys(number(row[f"{end}_generation"]) for end in ("first", "last")))
    until = format_time(row["until"]).removeprefix(format_time(row["since"])[:11])
    description = _shorten(f"{row['what']} until {until}: {row['detail']}")
    return [
        format_time(row["since"]),
        generations,
        f"{before:,} → {after:,}",
        description,
        "",
        _duration_of(row, "stopped_ms"),
        "",
    ]


def _rebalance_cells(row: Row, indent: str) -> list[str]:
    state = "" if row["state"] == "Stable" else f" ({row['state']})"
    cells = [
        format_time(row["at"]),
        number(row["generation"]),
        number(row["members"]),
        f"{indent}{_shorten(row['why'])}{state}",
    ]
    return [*cells, number(row["moved"]), *(_duration_of(row, name) for name in _STOPPED_COLUMNS)]


def _shorten(text: str) -> str:
    """Returns the text without most UUID digits, cut to one line; the table has the complete text."""
    text = " ".join(without_uuids(text).split())
    return text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"


def _pause_cells(row: Row) -> list[str]:
    description = f"nothing committed of {count(row['partitions'], 'partition')}, without a rebalance"
    length = duration((row["until"] - row["since"]).total_seconds())
    return [format_time(row["since"]), DASH, DASH, description, "", _duration_of(row, "stopped_ms"), length]


def partition_time(ms: int) -> str:
    """Returns milliseconds summed over partitions as text: `36 partition-seconds`, `3.4 partition-hours`."""
    if ms < 120_000:
        return f"{ms / 1000:,.0f} partition-seconds"
    return f"{ms / 60_000:,.0f} partition-minutes" if ms < 7_200_000 else f"{ms / 3_600_000:,.1f} partition-hours"


def _duration_of(row: Row, name: str) -> str:
    return DASH if row[name] is None else duration(row[name] / 1000)


def format_time(at: datetime) -> str:
    """Returns a time in UTC, to the second."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


_SUMMED_COLUMNS = ("rebalances", "moved", "stopped_ms")
_VARIANT_COLUMNS = ("assignor", "static", "protocol")


@progress("replaying the past", 1)
def summarize_replay(replayed: DataFrame, rejected: DataFrame, limit: int) -> str:
    """Returns the totals of each variant, and one sentence for each group that would have saved most.

    Reads a screenful of rows.

    Args:
        replayed: `Replay.replayed`, computed or read back.
        rejected: `Replay.rejected`, computed or read back.
        limit: Maximum number of groups listed.
    """
    sums_of_columns = [F.sum(name).alias(name) for name in _SUMMED_COLUMNS]
    variants = [
        row.asDict()
        for row in replayed.groupBy(*_VARIANT_COLUMNS)
        .agg(F.count(F.lit(1)).alias("groups"), *sums_of_columns)
        .collect()
    ]
    baseline = replayed.where("recorded").agg(F.count(F.lit(1)).alias("groups"), *sums_of_columns).collect()[0].asDict()
    best_variants = [row.asDict(recursive=True) for row in _best_variants(replayed).limit(limit).collect()]
    rejected_rows = [row.asDict() for row in rejected.orderBy(*GROUP_KEY).limit(MAX_REJECTED).collect()]
    lines = [_total_line(baseline)]
    if variants:
        lines += ["", "All groups in one way:", *_variants_table(variants, baseline)]
    if best_variants:
        lines += ["", "Groups that would have saved most:", *(f"  {format_saving(row)}" for row in best_variants)]
        lines += (
            [f"  … and {baseline['groups'] - len(best_variants):,} more"]
            if baseline["groups"] > len(best_variants)
            else []
        )
    return "\n".join(lines + rejected_lines(rejected_rows, rejected.count()))


def _best_variants(replayed: DataFrame) -> DataFrame:
    """Returns one row per group with its baseline and the variant that stops it least, largest saving first."""
    is_baseline, is_variant = F.col("recorded"), ~F.col("recorded")
    rows = replayed.groupBy(*GROUP_KEY).agg(
        F.max(F.when(is_baseline, F.struct(*_SUMMED_COLUMNS, *_VARIANT_COLUMNS))).alias("was"),
        F.min(F.when(is_variant, F.struct("stopped_ms", "rebalances", *_VARIANT_COLUMNS))).alias("best"),
    )
    saved = F.col("was.stopped_ms") - F.col("best.stopped_ms")
    return rows.orderBy(F.desc_nulls_last(saved), F.desc("was.rebalances"), *GROUP_KEY)


def format_saving(row: Row) -> str:
    """Returns how long a group's rebalances stopped it, and how long they would have with the best variant.

    Args:
        row: cluster, group_id, and the structs `was` (baseline) and `best` (variant).
    """
    baseline, best = row["was"], row["best"]
    rebalances = f"{count(baseline['rebalances'], 'rebalance')} of {group_name(row)}"
    actual = f"{rebalances} stopped {partition_time(baseline['stopped_ms'])}"
    if best is None or best["stopped_ms"] >= baseline["stopped_ms"]:
        return f"{actual}; no other way would have stopped less"
    return f"{actual}; {format_variant(best)}: {partition_time(best['stopped_ms'])}"


def format_variant(variant: Row) -> str:
    """Returns the name of a variant, such as `cooperative-sticky with static members`."""
    return f"{variant['assignor']} with {'static' if variant['static'] else 'dynamic'} members"


def _total_line(sums: Row) -> str:
    if not sums["groups"]:
        return "No group has two generations on record: there is nothing to replay"
    stopped = partition_time(sums["stopped_ms"])
    return f"{count(sums['rebalances'], 'rebalance')} of {count(sums['groups'], 'group')} stopped {stopped}"


def _variants_table(variants: Sequence[Row], baseline: Row) -> list[str]:
    """Returns one line per variant, in the order of Kafka's assignors."""
    table = [["way", "protocol", "groups", "rebalances", "moved", "stopped"]]
    table.append(
        [
            "as it was",
            "",
            *(number(baseline[name]) for name in ("groups", "rebalances", "moved")),
            _stopped_time(baseline),
        ]
    )
    position = {name: index for index, name in enumerate(ASSIGNORS)}
    for row in sorted(
        variants, key=lambda row: (position.get(row["assignor"], len(position)), str(row["assignor"]), row["static"])
    ):
        cells = [
            format_variant(row),
            row["protocol"],
            *(number(row[name]) for name in ("groups", "rebalances", "moved")),
        ]
        table.append([*cells, _stopped_time(row)])
    return aligned(table, words=(0, 1))


def _stopped_time(row: Row) -> str:
    return partition_time(row["stopped_ms"])
