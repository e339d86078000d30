"""The report's section of assignors compared: what to change, what that costs, and what speaks for it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from spark_assign.comparison.what_if import AS_IS
from spark_assign.report.formatting import NONE, count, number, ratio
from spark_assign.report.html.report_data import CompareRows, Row, Rows
from spark_assign.report.html.table import Table

NOT_COMPARED = "another one"
"""What a group runs with that is not among the assignors compared."""


@dataclass(frozen=True)
class ComparisonSection:
    """What to do. `headline`: of the change that the page begins with; `changes`: sentences by the name of a change."""

    headline: str
    changes: Sequence[tuple[str, Sequence[str]]]
    to_change: bool
    tables: Sequence[Table]


def of_comparison(rows: CompareRows) -> ComparisonSection:
    """What is recommended, what that changes in sum, and the groups that gain most; see `CompareRows`."""
    verdicts: dict[str, list[Row]] = defaultdict(list)
    for row in rows.verdicts:
        verdicts[row["change"]].append(row)
    sums = {row["change"]: row for row in rows.sums}
    names = sorted(verdicts, key=lambda name: (name != rows.advised_for, name != AS_IS.name, name))
    told = [(_named(name), [*_verdict(verdicts[name]), *_difference(sums.get(name))]) for name in names]
    tables = [_ways(rows.ways), _gains(rows.gains), _totals(rows.totals)]
    return ComparisonSection(
        headline=_headline(verdicts[rows.advised_for]) if rows.advised_for in verdicts else "",
        changes=told,
        to_change=any(row["verdict"] in ("change", "unknown") for row in rows.verdicts),
        tables=[table for table in tables if table.rows],
    )


def _named(change: str) -> str:
    return "As it is" if change == AS_IS.name else f"After {change}"


def _headline(verdicts: Rows) -> str:
    """One sentence for the top of the page."""
    able = sum(row["groups"] for row in verdicts if row["verdict"] != "none")
    other = sum(row["groups"] for row in verdicts if row["verdict"] == "change")
    if not any(row["verdict"] in ("keep", "change") for row in verdicts):
        return ""
    if not other:
        return f"None of {count(able, 'group')} should change its assignor."
    return f"{number(other)} of {count(able, 'group')} should change {'its' if other == 1 else 'their'} assignor."


def _verdict(verdicts: Rows) -> list[str]:
    """How many groups keep theirs, how many should change, and to what."""
    by: dict[str, list[Row]] = defaultdict(list)
    for row in verdicts:
        by[row["verdict"]].append(row)
    total = {name: sum(row["groups"] for row in each) for name, each in by.items()}

    def to(name: str) -> str:
        return ", ".join(f"{number(row['groups'])} to {row['assignor']}" for row in by[name])

    said = []
    if "keep" in total:
        they = "it runs" if total["keep"] == 1 else "they run"
        said.append(f"{count(total['keep'], 'group')} {_verb(total['keep'], 'keep')} the assignor {they} with.")
    if "change" in total:
        said.append(f"{count(total['change'], 'group')} should change: {to('change')}.")
    if "unknown" in total:
        which = ", ".join(f"{row['assignor']} for {number(row['groups'])}" for row in by["unknown"])
        said.append(
            f"Of {count(total['unknown'], 'group')} it is not known what they run with: recommended is {which}."
        )
    if "elsewhere" in total:
        runs = f"{count(total['elsewhere'], 'group')} {_verb(total['elsewhere'], 'run')} with what is not compared here"
        said.append(f"{runs}.")
    if "none" in total:
        said.append(
            f"For {count(total['none'], 'group')} nothing is recommended: no members, or no assignor can plan it."
        )
    return said


def _verb(many: int, verb: str) -> str:
    return f"{verb}s" if many == 1 else verb


def _difference(sums: Row | None) -> list[str]:
    """What following all advice costs, held against the assignors of today."""
    if sums is None:
        return []
    moved, balance, paused = ("moved", "max_over_mean", "partition_seconds_paused")
    return [
        f"With what is recommended {count(sums[moved], 'partition')} {_verb(sums[moved], 'move')} instead of "
        f"{number(sums[f'now_{moved}'])}; the largest over the mean is {ratio(sums[balance])} instead of "
        f"{ratio(sums[f'now_{balance}'])} on average; the rebalance costs {_paused(sums[paused])} partition-seconds "
        f"without consumption instead of {_paused(sums[f'now_{paused}'])}."
    ]


def _paused(value: float | None) -> str:
    return NONE if value is None else f"{value:,.1f}"


def _ways(rows: Rows) -> Table:
    """How groups switch; the words are those of `groups.kernel.client_libraries`."""
    several = len({row["change"] for row in rows}) > 1
    return Table(
        "How to switch, by what is known of the clients",
        [
            *([("Change", False)] if several else []),
            *(("Way", False), ("Groups", True), ("For example", False)),
        ],
        [[*([row["change"]] if several else []), row["way"], number(row["groups"]), row["example"]] for row in rows],
        "A client library is known by the client id, which anybody may set: check it before you restart anything.",
    )


def _short(way: str | None) -> str:
    """The first words of a way."""
    return NONE if not way else re.split(r"[:,.(]", way, maxsplit=1)[0].strip()


def _gains(rows: Rows) -> Table:
    pairs = (("Max/mean now", "then"), ("Moved now", "then"), ("Paused s now", "then"))
    several = len({row["change"] for row in rows}) > 1
    return Table(
        "Groups that gain most by another assignor",
        [
            *(("Group", False), *([("Change", False)] if several else []), ("Now", False), ("Recommended", False)),
            *((title, True) for pair in pairs for title in pair),
            *(("Clients", False), ("Switching", False), ("Reason", False)),
        ],
        [
            [
                f"{row['cluster']}/{row['group_id']}",
                *([row["change"]] if several else []),
                _now(row),
                row["assignor"],
                *(ratio(row[name]) for name in ("now_max_over_mean", "max_over_mean")),
                *(number(row[name]) for name in ("now_moved", "moved")),
                *(_paused(row[name]) for name in ("now_partition_seconds_paused", "partition_seconds_paused")),
                *(row.get("clients") or NONE, _short(row.get("way"))),
                row["reason"].removeprefix(f"{row['assignor']}: "),
            ]
            for row in rows
        ],
        "Moved: partitions that get another owner. Paused s: partition-seconds without consumption while the group "
        "rebalances. What a group runs with is held against it; range, Kafka's default, where that is not known. "
        "Clients: libraries by the members' client ids; ? is a guess.",
    )


def _now(row: Row) -> str:
    """What a group runs with, as far as it is known."""
    if row["now"] is not None:
        return str(row["now"])
    return NOT_COMPARED if row["verdict"] in ("elsewhere", "change") else NONE


def _totals(rows: Rows) -> Table:
    titles = ("Groups", "Recommended for", "Rejected", "Max/mean", "Moved", "Revoked", "Partition-seconds paused")
    return Table(
        "Each assignor for all groups",
        [("Change", False), ("Assignor", False), *((title, True) for title in titles)],
        [
            [
                *(row["change"], row["assignor"]),
                *(number(row[name]) for name in ("groups", "recommended", "rejected")),
                ratio(row["max_over_mean"]),
                *(number(row[name]) for name in ("moved", "revoked")),
                _paused(row["partition_seconds_paused"]),
            ]
            for row in rows
        ],
        "Max/mean: the largest over the mean number of partitions of a member, the mean over all groups.",
    )
