"""The plan section of the report: its rows, and their texts, numbers, and charts for the templates.

Spark aggregates or limits each table that grows with the fleet (`report_data`).
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate
from operator import itemgetter
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_assign.assignors.release_rules import RULE_SOURCE_TEXTS, RULE_SOURCES, TO_NAME, find_rule_source
from spark_assign.assignors.server import SERVER_ASSIGNORS
from spark_assign.groups.planning import Plan
from spark_assign.report import views as parts
from spark_assign.report.formatting import DASH, Row, Rows, by_group, cell, count, group_key, number, ratio, share
from spark_assign.report.group_members import count_partitions, read_group_members
from spark_assign.report.group_view import view
from spark_assign.report.listed_groups import (
    REASONS,
    SUMS,
    any_of,
    collected,
    num_rows,
    num_unowned,
    only,
    over_share,
    over_share_column,
    sum_of,
    worst_first,
)
from spark_assign.report.plan_summary import LOADED, balance_text
from spark_assign.report.report_data import (
    EDGES,
    LISTED_MEMBERS,
    LISTED_ROWS,
    MATRIX,
    MOST_GROUPS,
    MOST_MEMBERS,
    MOST_ROWS,
    NOTHING_ASSIGNED,
    OTHERS,
    WORST_GROUPS,
    PlanRows,
)
from spark_assign.report.section_charts import Bar, draw_histogram, legend_html
from spark_assign.spark.dataframes import expand
from spark_assign.stores.run_store import StoredRun
from spark_assign.tables.groups import GROUP_KEY, MEMBER_KEY

Tables = Mapping[str, DataFrame]

_PARTITION = [*GROUP_KEY, "topic", "partition"]

UNEVEN = 1.25
"""A group has a note about its load if its imbalance by load exceeds this multiple of its imbalance by count."""


_NUMBERS = (
    ("Members", "members of the group"),
    ("Partitions", "assigned partitions"),
    ("Max/mean", "partitions of the largest member divided by the mean, in this round and in the last"),
    ("Per topic", "as max/mean, of the topic that is divided least evenly"),
    ("Over share", "partitions of the largest member above an even share"),
    ("Moved", "partitions that get another owner; all are revoked from remaining members unless noted"),
    ("Moved %", "moved partitions in percent of all partitions"),
    ("Without owner", "partitions without an owner, in this rebalance and the next"),
)


def build_plan_section(plan: PlanRows, advice: Rows = ()) -> dict[str, Any]:
    """Returns what the template shows, from the rows of a plan, and `advice` of `comparison.compare_rows`."""
    plan, advice = _with_short_names(plan), _short_rows(advice)
    advised = {group_key(row): row for row in advice}
    totals = {name: sum(row[name] for row in plan.classes) for name in ("groups", *SUMS)}
    uneven = sum(row["groups"] for row in plan.classes if not row["even"])
    members, moves = by_group(plan.members), by_group(plan.moves)
    silent = {group_key(row): row["partitions"] for row in plan.silent or ()}
    rows = {group_key(row): row for row in plan.groups}
    shown = {key: f"g{at}" for at, key in enumerate(rows, start=1) if key in members or key in moves}
    views = [
        view(ident, rows[key], members[key], moves[key], advised.get(key), silent.get(key, 0), plan.who)
        for key, ident in shown.items()
    ]
    bars = _bars(plan.classes)
    lines = _lines(plan.groups, shown, advised, silent)
    return {
        "headline": _headline(totals, uneven, plan.rejected_total),
        "tiles": _tiles(totals, uneven, plan, silent),
        "assignors": _assignors(plan.classes),
        "rules": rules_table(plan.ruled),
        "clusters": _clusters(plan),
        "loads": _loads(plan),
        "cluster_names": sorted({row["cluster"] for row in plan.groups}),
        "drawing": draw_histogram(bars, "imbalance", "Groups by imbalance", "groups"),
        "legend": legend_html({"uneven": "could be more even", "even": "as even as possible"}),
        "classes": parts.Table(
            "Groups by imbalance",
            [("Largest / mean", False), ("Groups", True), ("Could be more even", True)],
            [[bar.label, number(bar.total), number(bar.uneven)] for bar in bars],
        ),
        "number_names": _NUMBERS,
        "groups": lines,
        "total": totals["groups"],
        "views": views,
        "reasons": _reasons(plan.reasons),
        "rejected": parts.REJECTED.table(plan.rejected, plan.rejected_total) if plan.rejected_total else None,
        "about": [(name, cell(value)) for name, value in plan.about.items()],
        "notes": plan.notes,
        "advised": bool(advised),
        "planned_otherwise": not advised or any(line["now"] != line["assignor"] for line in lines),
        "leaders_known": any(row["leader_client"] for row in plan.ruled),
    }


def _with_short_names(plan: PlanRows) -> PlanRows:
    """Returns the rows with names that a page has room for, thousands of times: whoever joins a group chooses them."""
    groups, members, moves, rejected = map(_short_rows, (plan.groups, plan.members, plan.moves, plan.rejected))
    silent, who = plan.silent and _short_rows(plan.silent), plan.who
    if who is not None:
        slices, changes = _short_rows(who.slices), _short_rows(who.moves)
        who = replace(who, members=_short_rows(who.members), slices=slices, moves=changes)
    return replace(plan, groups=groups, members=members, moves=moves, rejected=rejected, silent=silent, who=who)


def _short_rows(rows: Rows) -> Rows:
    """Returns rows with IDs, hosts, and topics of about `_MAX_NAME` characters at most: the first and the last ones,
    where names differ, and a hash between them, so that different names stay different."""
    half = _MAX_NAME // 2

    def short(name: str, value: Any) -> Any:
        is_long = isinstance(value, str) and len(value) > _MAX_NAME and name.endswith(("_id", "_host", "topic"))
        if not is_long:
            return value
        hashed = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{value[:half]}…{hashed[:6]}…{value[-half:]}"

    return [{name: short(name, value) for name, value in row.items()} for row in rows]


_MAX_NAME = 300


def _headline(totals: Mapping[str, int], uneven: int, rejected: int) -> list[str]:
    """Returns the summary in sentences."""
    groups, partitions = totals["groups"], totals["partitions"]
    lines = [f"{count(groups, 'group')} with {count(totals['members'], 'member')}: {count(partitions, 'partition')}."]
    if totals["moved"]:
        lines.append(f"{number(totals['moved'])} of them ({share(totals['moved'], partitions)}) get another owner.")
    else:
        lines.append("None of them gets another owner.")
    above = f"In {count(uneven, 'group')} ({share(uneven, groups)}), the largest member has more than an even share."
    lines.append(above if uneven else "Every group is as even as possible.")
    if rejected:
        lines.append(f"{count(rejected, 'group')} couldn't be planned.")
    return lines


def _tiles(
    totals: Mapping[str, int], uneven: int, plan: PlanRows, silent: Mapping[tuple[str, str], int]
) -> list[tuple[str, str, str, bool]]:
    """Returns name, number, explanation, and whether it is a problem, for each tile."""
    lost = totals["unassigned"] - totals["withheld"]
    details = [f"{number(lost)} without owner"] if lost else ["all have an owner"]
    if plan.silent is not None:
        details.append(f"{number(sum(silent.values()))} without traffic")
    moved, revoked = totals["moved"], totals["revoked"]
    waiting = f"; {number(totals['withheld'])} wait for the next rebalance" if totals["withheld"] else ""
    given_up = (
        ("all are revoked from remaining members" if moved else "nothing is revoked")
        if moved == revoked
        else f"{number(revoked)} are revoked from remaining members"
    )
    return [
        ("Groups", number(totals["groups"]), f"{number(plan.rejected_total)} rejected", plan.rejected_total > 0),
        ("Members", number(totals["members"]), "", False),
        ("Partitions", number(totals["partitions"]), "; ".join(details), lost > 0),
        ("Change owner", number(moved), f"{share(moved, totals['partitions'])}; {given_up}{waiting}", False),
        ("Could be more even", number(uneven), f"of {count(totals['groups'], 'group')}", uneven > 0),
    ]


def _assignors(classes: Rows) -> parts.Table:
    rows = sorted(_sums_by("assignor", classes), key=itemgetter("assignor"))
    return parts.table_of("by planned assignor", rows, ["assignor", *_SUMMED])


def _clusters(plan: PlanRows) -> parts.Table | None:
    """Returns a row per cluster, or None if there is only one cluster."""
    rows = _sums_by("cluster", plan.classes, plan.rejected)
    if len(rows) < 2:
        return None
    rows.sort(key=lambda row: (-row["uneven"], -row["moved"], row["cluster"] or ""))
    all_listed = len(plan.rejected) == plan.rejected_total
    rejected = parts.figure("Rejected", "rejected", lambda value: number(value) if all_listed else DASH)
    caption = "By cluster, in descending order of groups that could be more even"
    return parts.table_of(caption, rows, ["cluster", *_SUMMED, rejected])


def _loads(plan: PlanRows) -> parts.Table:
    """Returns the load of the listed groups, and the lag of those with known members and lags of all partitions."""
    lag: dict[tuple[str, str], int] = {}
    unknown = set()
    for row in plan.who.members if plan.who else ():
        if (row["lag_known"] or 0) < row["partitions"]:
            unknown.add(group_key(row))
        lag[group_key(row)] = lag.get(group_key(row), 0) + (row["lag"] or 0)
    rows = [{**row, "lag": None if group_key(row) in unknown else lag.get(group_key(row))} for row in plan.groups]
    rows = [row for row in rows if row.get("load_max_over_mean") is not None or row["lag"] is not None]
    rows.sort(key=lambda row: (-(row.get("load_max_over_mean") or 0), -(row["lag"] or 0), *group_key(row)))
    columns = [*LOADED.columns, parts.figure("lag", needs="lag")]
    note = "The lag of a group is shown if it is known for all its partitions, and its members are on this page."
    cut = f", the first {_LOADED_GROUPS} of {count(len(rows), 'group')}" if len(rows) > _LOADED_GROUPS else ""
    title = f"groups by load and lag, least balanced first{cut}"
    return parts.table_of(title, rows[:_LOADED_GROUPS], columns, note)


_LOADED_GROUPS = 50
_SUMMED = (
    *("groups members", parts.bars("partitions", "partitions", "is"), parts.bars("change owner", "moved", "flow")),
    *(parts.bars("could be more even", "uneven", "bad"), parts.bars("without owner", "lost", "bad")),
)
"""Columns of sums, and their bars."""


def _sums_by(column: str, classes: Rows, rejected: Rows = ()) -> list[Row]:
    """Returns the sums over the classes, and the number of rejected groups: a row per value of a column."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for row in classes:
        uneven = 0 if row["even"] else row["groups"]
        sums[row[column]].update({name: row[name] for name in ("groups", *SUMS)}, uneven=uneven, lost=num_unowned(row))
    for row in rejected:
        sums[row[column]]["rejected"] += 1
    zeros = dict.fromkeys(("rejected", "groups", *SUMS, "uneven", "lost"), 0)
    return [{column: value, **zeros, **each} for value, each in sums.items()]


def _bars(classes: Rows) -> list[Bar]:
    found: Counter[tuple[int, bool]] = Counter()
    for row in classes:
        found[row["imbalance"], row["even"]] += row["groups"]
    labels = ["1.00", *(f"to {edge:.2f}" for edge in EDGES[1:]), f"over {EDGES[-1]:.2f}"]
    numbered = list(enumerate(labels))
    if any(at == NOTHING_ASSIGNED for at, _ in found):
        numbered.append((NOTHING_ASSIGNED, "none"))
    return [Bar(label, found[at, True], found[at, False]) for at, label in numbered]


def _lines(
    rows: Rows,
    shown: Mapping[tuple[str, str], str],
    advised: Mapping[tuple[str, str], Row],
    silent: Mapping[tuple[str, str], int],
) -> list[dict[str, Any]]:
    """Returns the rows of the table of groups.

    Returns:
        A dictionary per row. `numbers`: each number with the width of its bar, relative to the longest one in its
        column, or the intensity of its background, in percent (0: none). `link`: anchor of the details (empty: none).
        `rules`: the leader whose rules the plan follows. `changes`: whether the recommended assignor isn't the current.
    """
    most_partitions, most_over, most_lost = (
        max(map(value, rows), default=0) or 1 for value in (itemgetter("partitions"), over_share, num_unowned)
    )
    lines = []
    for row in rows:
        key, over, lost = group_key(row), over_share(row), num_unowned(row)
        advice = advised.get(key)
        # The intensity is highest from three times the mean, and 0 if the group is as even as possible.
        heat = round(50 * (min(3, row["max_over_mean"]) - 1)) if over and row["max_over_mean"] else 0
        numbers = [
            (number(row["members"]), 0),
            (number(row["partitions"]), _wide(row["partitions"], most_partitions)),
            (balance_text(row), heat),
            (ratio(row.get("topic_max_over_mean")), 0),
            (number(over), _wide(over, most_over)),
            (number(row["moved"]), 0),
            (share(row["moved"], row["partitions"]), _wide(row["moved"], row["partitions"])),
            (number(lost), _wide(lost, most_lost)),
        ]
        notes = [*([f"team {row['team']}"] if row.get("team") else []), *_oddities(row)]
        if key in silent:
            notes.append(f"{count(silent[key], 'partition')} without traffic")
        text = DASH if advice is None else f"{'keep ' * (advice['verdict'] == 'keep')}{advice['assignor']}"
        lines.append(
            {
                "cluster": row["cluster"],
                "group_id": row["group_id"],
                "assignor": row["assignor"],
                "numbers": numbers,
                "notes": "; ".join(notes),
                "link": shown.get(key, ""),
                "rules": find_rule_source(row["assignor"], row.get("leader_client")).text if row["members"] else DASH,
                "now": DASH if advice is None else _now(advice),
                "advice": text,
                "changes": advice is not None and advice["verdict"] in ("change", "unknown"),
            }
        )
    return lines


def _wide(part: int, whole: int) -> int:
    """Returns the percentage as an integer: at least 2 unless the part is 0, so that the bar is visible."""
    return max(2, round(100 * part / whole)) if part and whole else 0


def _now(advice: Row) -> str:
    """Returns the current assignor, or a dash if the comparison doesn't know it."""
    if advice.get("now") is not None:
        return str(advice["now"])
    return str(advice["assignor"]) if advice["verdict"] == "keep" else DASH


def _oddities(row: Row) -> list[str]:
    """Returns notes about a group."""
    by_broker = row["assignor"] in SERVER_ASSIGNORS
    withheld = f"{number(row['withheld'])} wait {'until they are revoked' if by_broker else 'for the next rebalance'}"
    given_up = [f"{number(row['revoked'])} revoked"] if row["revoked"] != row["moved"] else []
    notes = {
        "withheld": withheld,
        "claim_conflicts": count(row["claim_conflicts"], "partition") + " claimed by several members",
        "members_without_subscription": count(row["members_without_subscription"], "member") + " without subscription",
        "unknown_topics": count(row["unknown_topics"], "subscribed topic") + " unknown",
        "owned_unknown_topic": count(row["owned_unknown_topic"], "owned partition") + " of deleted topics",
        "owned_out_of_range": count(row["owned_out_of_range"], "owned partition") + " out of the topic's range",
        "order_dependent": f"{number(row.get('order_dependent') or 0)} might go to another member: an order is unknown",
    }
    found = [*given_up, *_by_load(row), *(note for name, note in notes.items() if row.get(name))]
    return [*found, row["note"]] if row.get("note") else found


def _by_load(row: Row) -> list[str]:
    """Returns notes if the load is more uneven than the number of partitions, or if a member never catches up."""
    uneven, text = row.get("load_max_over_mean"), []
    if uneven is not None and uneven > UNEVEN * max(row["max_over_mean"] or 1, 1):
        text.append(f"one member has {ratio(uneven)} times the mean load")
    if row.get("drain_seconds") == math.inf:
        text.append("falls behind: a member receives more than it can read")
    return text


def _reasons(rows: Rows) -> parts.Table:
    """Returns the table of changes of owner by reason."""
    meaning = parts.words("meaning", "reason", lambda reason: REASONS.get(reason, ""))
    ordered = sorted(rows, key=lambda row: (-row["partitions"], row["reason"]))
    return parts.table_of("changes of owner by reason", ordered, ["reason", meaning, "changes=partitions groups"])


def rules_table(rows: Rows) -> parts.Table:
    """Returns a row for each kind of source of the rules."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    sources: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        source = find_rule_source(row["assignor"], row["leader_client"])
        sums[source.kind].update(groups=row["groups"], partitions=row["partitions"])
        sources[source.kind][source.text] += row["groups"]
    remedy = "If the leader is unknown or a guess, specify it: plan --leader-client 'PATTERN=Java@3.3'. "
    return parts.Table(
        "Rules that the plan follows",
        [("Planned by the rules of", False), ("Groups", True), ("Partitions", True), ("Sources", False)],
        [
            [RULE_SOURCE_TEXTS[kind], *map(number, sums[kind].values()), _most_frequent(sources[kind])]
            for kind in RULE_SOURCES
            if kind in sums
        ],
        f"{remedy if TO_NAME & set(sums) else ''}The leader of a group assigns by the rules of its library and "
        "release. With other rules, the plan might differ from what the group does. If several releases are possible, "
        "the newest is used.",
    )


def _most_frequent(counted: Counter[str]) -> str:
    """Returns the most frequent sources as text."""
    ordered = sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    more = [f"{len(ordered) - _WHICH} more"] if len(ordered) > _WHICH else []
    return "; ".join([*(f"{source}: {number(many)}" for source, many in ordered[:_WHICH]), *more])


_WHICH = 6
"""Number of sources listed per row."""


# --- queries ------------------------------------------------------------------------------------------------------


def plan_rows(plan: Plan | StoredRun, snapshot: Mapping[str, DataFrame | None]) -> PlanRows:
    """Collects the rows of a plan; the snapshot has `offsets`, `members`, and `loads`, as far as they are known."""
    if isinstance(plan, StoredRun):
        manifest = plan.manifest
        inputs = {name: value for name, value in manifest.content["inputs"].items() if name != "unknown"}
        about = {
            "Run": manifest.run_id,
            "Finished": f"{manifest.finished_at:%Y-%m-%d %H:%M} UTC",
            **{name.capitalize(): str(value) for name, value in inputs.items() if value},
            **{name.replace("_", " "): value for name, value in manifest.content["versions"].items()},
        }
        return _rows_of_tables(plan.tables, about, snapshot, manifest.unknown)
    names = ("assignment_slices", "metrics", "moves", "revocations", "rejected")
    with plan.computed_once(*names) as once:
        tables = {name: once.tables[name] for name in names if name in once.tables}
        return _rows_of_tables(tables, {}, snapshot, plan.unknown)


def _rows_of_tables(
    tables: Tables, about: Mapping[str, Any], snapshot: Mapping[str, DataFrame | None], unknown: Sequence[str]
) -> PlanRows:
    """Collects the rows from tables by name (`tables.groups.PLAN_TABLES`); only metrics and rejected are required."""
    metrics, rejected = tables["metrics"], tables["rejected"]
    groups = collected(worst_first(metrics).limit(MOST_GROUPS))
    worst = groups[:WORST_GROUPS]
    of_worst = {name: table.where(any_of(worst)) for name, table in tables.items()} if worst else {}
    known = {"moves", "revocations"} <= set(tables)
    notes = [*unknown]
    if not known:
        notes.append("Previous owners aren't shown: the plan was stored without the tables moves and revocations.")
    elif any(row["claim_conflicts"] for row in worst):
        notes.append("A partition that several members claim counts as previously owned by each of them.")
    if not {"assignment_slices", "assignments"} & set(tables):
        notes.append("Members aren't shown: the plan was stored without the tables assignment_slices and assignments.")
    offsets = snapshot.get("offsets")
    ends = None if offsets is None else offsets.where("end_offset IS NOT NULL")
    silent = None if ends is None or ends.isEmpty() else ends.where("end_offset = 0").select(*_PARTITION)
    shares = count_partitions(of_worst, known=known)
    if shares is not None:
        shares = _with_silent(shares, of_worst, None if silent is None else silent.where(any_of(worst)))
    silent_groups: Rows | None = None if silent is None else ()
    if silent is not None and groups:
        silent_groups = collected(only(silent.groupBy(*GROUP_KEY).agg(num_rows("partitions")), groups))
    who = None
    sizes = accumulate(row["members"] for row in worst)
    detailed = [row for row, size in zip(worst, sizes, strict=True) if size <= LISTED_MEMBERS]
    if shares is not None and detailed:
        of_groups = any_of(detailed)
        members = snapshot.get("members")
        given = {**snapshot, "members": None if members is None else members.where(of_groups)}
        who = read_group_members({name: each.where(of_groups) for name, each in of_worst.items()}, given, LISTED_ROWS)
    refused = collected(rejected.orderBy(*GROUP_KEY, "code").limit(MOST_ROWS))
    return PlanRows(
        classes=collected(_classes(metrics)),
        groups=groups,
        members=() if shares is None else collected(_most_of_each(shares)),
        moves=collected(_pairs(of_worst["moves"])) if "moves" in of_worst else (),
        reasons=collected(_count_reasons(tables["moves"])) if "moves" in tables else (),
        rejected=refused,
        rejected_total=len(refused) if len(refused) < MOST_ROWS else rejected.count(),
        about=about,
        notes=notes,
        ruled=collected(_ruled(metrics)),
        silent=silent_groups,
        who=who,
    )


def _with_silent(shares: DataFrame, of_worst: Tables, silent: DataFrame | None) -> DataFrame:
    """Adds the number of partitions without traffic per member."""
    if silent is None:
        return shares.withColumn("silent", F.lit(0).cast("long"))
    given = expand(of_worst["assignment_slices"]) if "assignment_slices" in of_worst else of_worst["assignments"]
    counted = given.join(F.broadcast(silent), _PARTITION, "left_semi").groupBy(*MEMBER_KEY)
    found = counted.agg(num_rows("silent"))
    return shares.join(found, MEMBER_KEY, "left").withColumn("silent", F.coalesce("silent", F.lit(0).cast("long")))


def _classes(metrics: DataFrame) -> DataFrame:
    """Returns `PlanRows.classes`: at most a few dozen rows per cluster."""
    passed = reduce(Column.__add__, [(F.col("max_over_mean") > edge).cast("int") for edge in EDGES])
    key = {"imbalance": F.coalesce(passed, F.lit(NOTHING_ASSIGNED)), "even": over_share_column() == 0}
    keyed = metrics.withColumns(key)
    return keyed.groupBy("cluster", "assignor", *key).agg(num_rows("groups"), *map(sum_of, SUMS))


def _ruled(metrics: DataFrame) -> DataFrame:
    """Returns `PlanRows.ruled`: a row per assignor and leader, so few rows."""
    sums = (num_rows("groups"), sum_of("partitions"))
    return metrics.where("members > 0").groupBy("assignor", "leader_client").agg(*sums)


def _count_reasons(moves: DataFrame) -> DataFrame:
    """Returns a row per reason."""
    per_group = moves.groupBy(*GROUP_KEY, "reason").agg(num_rows("partitions"))
    return per_group.groupBy("reason").agg(F.sum("partitions").alias("partitions"), num_rows("groups"))


def _most_of_each(shares: DataFrame) -> DataFrame:
    """Returns the members with the most partitions of every group; ties are sorted by member ID."""
    most = F.desc(F.greatest(F.coalesce("before", F.lit(0)), F.col("after") + F.col("waiting")))
    of_group = Window.partitionBy(*GROUP_KEY)
    place = F.row_number().over(of_group.orderBy(most, "member_id"))
    remaining = F.sum((~F.col("gone")).cast("int")).over(of_group)
    return shares.withColumns({"place": place, "listed": remaining}).where(F.col("place") <= MOST_MEMBERS).drop("place")


def _pairs(moves: DataFrame) -> DataFrame:
    """Returns `PlanRows.moves`: in every group, the members with the most changes, and all others as one member."""
    each_end = moves.select(*GROUP_KEY, F.explode(F.array("from_member_id", "to_member_id")).alias("member_id"))
    changes = each_end.where("member_id is not null").groupBy(*MEMBER_KEY).agg(num_rows("changes"))
    place = F.row_number().over(Window.partitionBy(*GROUP_KEY).orderBy(F.desc("changes"), "member_id"))
    most = changes.withColumn("place", place).where(F.col("place") <= MATRIX)
    shown = most.select(*MEMBER_KEY, F.lit(True).alias("shown"))
    for end in ("from_member_id", "to_member_id"):
        named = shown.withColumnRenamed("member_id", end)
        name = F.when(F.col(end).isNull() | F.col("shown"), F.col(end)).otherwise(F.lit(OTHERS))
        moves = moves.join(named, [*GROUP_KEY, end], "left").withColumn(end, name).drop("shown")
    return moves.groupBy(*GROUP_KEY, "from_member_id", "to_member_id", "reason").agg(num_rows("partitions"))
