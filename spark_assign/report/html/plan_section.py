"""Builds the plan section of the report: converts rows to text, numbers, and charts for the templates."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from spark_assign.groups.assignors.server import SERVER_ASSIGNORS
from spark_assign.groups.kernel.leader_rules import RULE_SOURCE_TEXTS, RULE_SOURCES, TO_NAME, find_rule_source
from spark_assign.report import views as parts
from spark_assign.report.formatting import DASH, Row, Rows, cell, count, group_key, number, ratio, share
from spark_assign.report.group_view import view
from spark_assign.report.listed_groups import REASONS, SUMS, balance_text, num_unowned, over_share
from spark_assign.report.report_data import EDGES, NOTHING_ASSIGNED, PlanRows
from spark_assign.report.section_charts import Bar, draw_histogram, legend_html

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
    advised = {group_key(row): row for row in advice}
    totals = {name: sum(row[name] for row in plan.classes) for name in ("groups", *SUMS)}
    uneven = sum(row["groups"] for row in plan.classes if not row["even"])
    members, moves = parts.by_group(plan.members), parts.by_group(plan.moves)
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
    quiet = sum(silent.values())
    details = [f"{number(lost)} without owner"] if lost else ["all have an owner"]
    if plan.silent is not None:
        details.append(f"{number(quiet)} without traffic")
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
    return parts.table_of("By planned assignor", rows, [parts.words("Assignor", "assignor"), *_summed(rows)])


def _clusters(plan: PlanRows) -> parts.Table | None:
    """Returns a row per cluster, or None if there is only one cluster."""
    rows = _sums_by("cluster", plan.classes, plan.rejected)
    if len(rows) < 2:
        return None
    rows.sort(key=lambda row: (-row["uneven"], -row["moved"], row["cluster"] or ""))
    all_listed = len(plan.rejected) == plan.rejected_total
    rejected = parts.figure("Rejected", "rejected", lambda value: number(value) if all_listed else DASH)
    caption = "By cluster, in descending order of groups that could be more even"
    return parts.table_of(caption, rows, [parts.words("Cluster", "cluster"), *_summed(rows), rejected])


_SUMMED = (
    ("Groups", "groups", None),
    ("Members", "members", None),
    ("Partitions", "partitions", "is"),
    ("Change owner", "moved", "flow"),
    ("Could be more even", "uneven", "bad"),
    ("Without owner", "lost", "bad"),
)
"""Title, sum, and kind of the bar (None: no bar) of the columns of sums."""


def _sums_by(column: str, classes: Rows, rejected: Rows = ()) -> list[Row]:
    """Returns the sums over the classes, and the number of rejected groups: a row per value of a column."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for row in classes:
        uneven = 0 if row["even"] else row["groups"]
        sums[row[column]].update({name: row[name] for name in ("groups", *SUMS)}, uneven=uneven, lost=num_unowned(row))
    for row in rejected:
        sums[row[column]]["rejected"] += 1
    zeros = dict.fromkeys(("rejected", *(name for _, name, _ in _SUMMED)), 0)
    return [{column: value, **zeros, **each} for value, each in sums.items()]


def _summed(rows: Rows) -> list[parts.Column]:
    return [
        parts.figure(title, name) if kind is None else parts.bars(title, name, kind, [name])
        for title, name, kind in _SUMMED
    ]


def _bars(classes: Rows) -> list[Bar]:
    found: Counter[tuple[int, bool]] = Counter()
    for row in classes:
        found[row["imbalance"], row["even"]] += row["groups"]
    labels = ["1.00", *(f"to {edge:.2f}" for edge in EDGES[1:]), f"over {EDGES[-1]:.2f}"]
    numbered = list(enumerate(labels))
    if any(at == NOTHING_ASSIGNED for at, _ in found):
        numbered.append((NOTHING_ASSIGNED, "no partitions"))
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
        heat = min(100, round(50 * (row["max_over_mean"] - 1))) if over and row["max_over_mean"] else 0
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
    return parts.table_of(
        "Changes of owner by reason",
        sorted(rows, key=lambda row: (-row["partitions"], row["reason"])),
        [
            parts.words("Reason", "reason"),
            parts.words("Meaning", "reason", lambda reason: REASONS.get(reason, "")),
            *(parts.figure("Changes", "partitions"), parts.figure("Groups", "groups")),
        ],
    )


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
            [
                RULE_SOURCE_TEXTS[kind],
                *(number(sums[kind][name]) for name in ("groups", "partitions")),
                _most_frequent(sources[kind]),
            ]
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
