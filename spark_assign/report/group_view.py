"""Builds the details of a group in the report: a bar per member, before and after, and a matrix of moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_assign.assignors.release_rules import find_rule_source
from spark_assign.groups.kernel.client_libraries import format_known_clients
from spark_assign.report.formatting import DASH, Row, Rows, by_group, count, group_key, number, ratio, short_names
from spark_assign.report.group_members import GroupMembers, MemberLines, member_numbers
from spark_assign.report.listed_groups import even_share, group_facts, over_share
from spark_assign.report.report_data import OTHERS
from spark_assign.report.views import Table


@dataclass(frozen=True)
class MemberBar:
    """The bar of a member.

    Attributes:
        place: ordinal of the bar.
        name: displayed name of the member.
        row: row of the member in `PlanRows.members`.
        silent: number of partitions without traffic.
        over: number of partitions above an even share.
        wide: width of each part of the bar (before, after, waiting, silent, over) in percent of the longest bar.
    """

    place: int
    name: str
    row: Row
    silent: int
    over: int
    wide: Mapping[str, float]

    @property
    def change(self) -> str:
        """Returns the signed difference; empty if the previous number is unknown."""
        before, after, waiting = (self.row[name] for name in ("before", "after", "waiting"))
        return "" if before is None else f"{after + waiting - before:+,}".replace("+0", "0")


@dataclass(frozen=True)
class Matrix:
    """Numbers of moves between members. `columns`: label and full name; `rows`: label, name, numbers, sum."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[tuple[str, str, Sequence[int], int]]
    most: int


def view(
    ident: str,
    row: Row,
    members: Rows,
    moves: Rows,
    advice: Row | None = None,
    silent: int = 0,
    who: GroupMembers | None = None,
) -> dict[str, Any]:
    """Returns the details of a group, as the template shows them.

    Args:
        ident: anchor on the page.
        row: row of `tables.groups.METRICS`.
        members, moves: rows of the group in `PlanRows`.
        advice: row of the group in `advice` of `comparison.compare_rows`, if any.
        silent: number of partitions without traffic.
        who: members of several groups with their partitions.
    """
    ordered = sorted(members, key=lambda each: (-(each["after"] + each["waiting"]), each["member_id"]))
    names = short_names(
        {row["member_id"] for row in ordered}
        | {each[end] for each in moves for end in ("from_member_id", "to_member_id") if each[end] not in (None, OTHERS)}
    )
    longest = max((max(each["before"] or 0, each["after"] + each["waiting"]) for each in ordered), default=0) or 1
    fair = even_share(row)
    bars = [_bar(place, each, names, longest, fair) for place, each in enumerate(ordered, start=1)]
    reasons: Counter[str] = Counter()
    for each in moves:
        reasons[each["reason"]] += each["partitions"]
    counted_reasons = ", ".join(f"{number(partitions)} {reason}" for reason, partitions in reasons.most_common())
    return {
        "ident": ident,
        "row": row,
        "brief": f"{number(row['moved'])} moved, {number(over_share(row))} over an even share",
        "facts": group_facts(row, silent),
        "rules": find_rule_source(row["assignor"], row.get("leader_client")).text,
        "bars": bars,
        "hidden": _hidden(row, ordered),
        "mean_wide": min(100.0, 100 * row["mean_per_member"] / longest),
        "mean": ratio(row["mean_per_member"]),
        "waits": any(each["waiting"] for each in members),
        "knows_before": any(each["before"] is not None for each in members),
        "matrix": matrix(moves, names, [each["member_id"] for each in ordered]),
        "reasons": counted_reasons,
        "advice": "" if advice is None else advice["reason"],
        "way": _way(advice),
        "silent": any(bar.silent for bar in bars),
        "who": _who(row, who or GroupMembers()),
    }


def _who(row: Row, found: GroupMembers) -> Table:
    """Returns a row per member of a group: client, host, numbers, partitions by topic, and changes.

    A column in which nothing is known is left out.
    """
    members = by_group(found.members)[group_key(row)]
    lines = MemberLines(found, row, short_names({each["member_id"] for each in members}))
    cells = [
        [
            f"{each['member_id']}{' (left)' if each['gone'] else ''}",
            *(each[name] or DASH for name in ("client_id", "client_host")),
            *member_numbers(each),
            "; ".join(lines.topics(each["member_id"], _LINES)) or DASH,
            "; ".join(lines.changes(each["member_id"], _LINES)) or DASH,
        ]
        for each in members
    ]
    names = ("Member", "Client", "Host", "Partitions", "Gained", "Lost", "Lag", "Messages/s", "Partitions by topic")
    columns = [(name, 2 < at < 8) for at, name in enumerate((*names, "What changes, and why"))]
    shown = [at for at, column in enumerate(zip(*cells, strict=True)) if at in (0, 3) or set(column) != {DASH}]
    rows = [[line[at] for at in shown] for line in cells]
    return Table(f"All members of {row['group_id']}", [columns[at] for at in shown], rows, " ".join(found.notes))


_LINES = 10
"""Maximum number of topics, and of changes, of a member on the page."""


def _way(advice: Row | None) -> str:
    """Returns how the group switches to the recommended assignor, and the known clients."""
    if advice is None or not advice.get("switch_steps"):
        return ""
    return f"{advice['switch_steps']} {format_known_clients(advice.get('client_libraries'))}"


def _bar(place: int, row: Row, names: dict[str, str], longest: int, fair: int) -> MemberBar:
    """Returns the bar, with separate widths for partitions above an even share and partitions without traffic."""
    over, silent = max(0, row["after"] - fair), min(row.get("silent", 0), row["after"])
    parts = {**row, "over": over, "silent": silent}
    wide = {name: 100 * (parts[name] or 0) / longest for name in ("before", "after", "waiting", "over", "silent")}
    wide["silent"] = min(wide["silent"], wide["after"] - wide["over"])
    return MemberBar(place, names[row["member_id"]], row, silent, over, wide)


def _hidden(row: Row, shown: Rows) -> str:
    """Returns the note about members without a bar."""
    listed = max((each["listed"] for each in shown), default=0)
    idle = max(0, row["members"] - listed)
    notes = []
    if listed > len(shown):
        notes.append(f"Shows the {len(shown)} members with the most partitions, of {number(listed)} that have any.")
    if idle and listed == len([each for each in shown if not each["gone"]]):
        notes.append(f"{count(idle, 'more member', 'has', 'have')} none, before and after.")
    return " ".join(notes)


def matrix(moves: Rows, names: dict[str, str], order: Sequence[str] = ()) -> Matrix | None:
    """Returns the matrix of moves, or None if nothing moves.

    Members are in the order of the bars, followed by members without a bar, "all others", and "nobody".

    Args:
        moves: rows with from_member_id, to_member_id, partitions.
        names: displayed name by member ID.
        order: members in the order of the bars; these are labeled with the number of their bar.
    """
    pairs: Counter[tuple[Any, Any]] = Counter()
    for each in moves:
        pairs[each["from_member_id"], each["to_member_id"]] += each["partitions"]
    if not pairs:
        return None
    place = {member: at for at, member in enumerate(order, start=1)}

    def key(end: str | None) -> tuple[int, int, str]:
        return ((end == OTHERS) + 2 * (end is None), place.get(end or "", len(place) + 1), end or "")

    from_members, to_members = (sorted(set(ends), key=key) for ends in zip(*pairs, strict=True))

    def name(end: str | None) -> str:
        return "nobody" if end is None else "all others" if end == OTHERS else names[end]

    rows = []
    for from_member in from_members:
        numbers = [pairs[from_member, to_member] for to_member in to_members]
        rows.append((str(place.get(from_member, "")), name(from_member), numbers, sum(numbers)))
    columns = [(str(place.get(to_member, name(to_member))), name(to_member)) for to_member in to_members]
    return Matrix(columns, rows, max(pairs.values()))
