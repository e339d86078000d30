"""The table of the report that says by whose rules groups are planned, and how surely their leaders are known."""

from __future__ import annotations

from collections import Counter, defaultdict

from spark_assign.groups.kernel.leader_rules import RULE_SOURCE_TEXTS, RULE_SOURCES, TO_NAME, find_rule_source
from spark_assign.report.formatting import number
from spark_assign.report.html.report_data import Rows
from spark_assign.report.html.table import Table


def rules_table(rows: Rows) -> Table | None:
    """A line for each way in which a plan knows the leaders."""
    if not rows:
        return None
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    which: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        whose = find_rule_source(row["assignor"], row["led_by"])
        sums[whose.kind].update(groups=row["groups"], partitions=row["partitions"])
        which[whose.kind][whose.text] += row["groups"]
    remedy = "Where the leader is not known or a guess, name it: plan --clients 'PATTERN=Java@3.3'. "
    return Table(
        "By whose rules",
        [("Planned by the rules of", False), ("Groups", True), ("Partitions", True), ("Which", False)],
        [
            [
                RULE_SOURCE_TEXTS[kind],
                number(sums[kind]["groups"]),
                number(sums[kind]["partitions"]),
                _which(which[kind]),
            ]
            for kind in RULE_SOURCES
            if kind in sums
        ],
        f"{remedy if TO_NAME & set(sums) else ''}The leader of a group decides, by the rules of its library and its "
        "release: with others, the plan may not be what the group will do. Of releases that cannot be told apart the "
        "newest is taken.",
    )


def _which(counted: Counter[str]) -> str:
    """The most frequent ones."""
    ordered = sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    more = [f"{len(ordered) - _WHICH} more"] if len(ordered) > _WHICH else []
    return "; ".join([*(f"{words}: {number(many)}" for words, many in ordered[:_WHICH]), *more])


_WHICH = 6
"""Leaders that are told of a line."""
