"""The golden vectors as rows, and as sets to compare with.

Three kinds of recorded rows are left out, with their count: `prefer_rack_aware` (a switch that only Kafka's
own tests have), rows in which a member lists a topic twice (a client cannot), and `hash-treeified` ones.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
Row = dict[str, Any]
"""One case, as `README-client.md` (section 1) describes it."""


def left_out_because(row: Row) -> str | None:
    """Why a row is no claim about Kafka, or None where it is one."""
    if row.get("prefer_rack_aware"):
        return "prefer_rack_aware"
    if any(len(set(member["topics"])) < len(member["topics"]) for member in row["members"]):
        return "topic listed twice"
    if "hash-treeified" in row.get("tags", ()):
        return "hash-treeified"
    return None


def recorded(strategy: str) -> Iterator[Row]:
    """All recorded rows of one strategy; `case` is made unique over the files."""
    for path in sorted(FOLDER.glob("client-*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                if row["strategy"] == strategy:
                    row["case"] = f"{path.name.removesuffix('.jsonl.gz')}/{row['case']}"
                    yield row


def cases(strategy: str) -> tuple[list[Row], Counter[str]]:
    """The rows of one strategy that count, and how many were left out for which reason."""
    kept: list[Row] = []
    left_out: Counter[str] = Counter()
    for row in recorded(strategy):
        reason = left_out_because(row)
        if reason is None:
            kept.append(row)
        else:
            left_out[reason] += 1
    return kept, left_out


Sets = dict[str, dict[str, set[tuple[str, int]]]]
"""case -> member id -> partitions; a member that gets nothing has no entry."""


def expected_sets(rows: Iterable[Row]) -> Sets:
    """What Kafka's class answered, as sets (the order inside a member's list is no contract here)."""
    return {
        row["case"]: {member: {(t, p) for t, p in got} for member, got in row["expect"].items() if got}
        for row in rows
        if row["expect"] is not None
    }


def differences(expected: Sets, actual: Sets) -> list[str]:
    """One line for each case that differs, with the first members that do."""
    lines = []
    for case in sorted(expected.keys() | actual.keys()):
        want, got = expected.get(case, {}), actual.get(case, {})
        wrong = [member for member in sorted(want.keys() | got.keys()) if want.get(member) != got.get(member)]
        if wrong:
            lines.append(f"{case}: {len(wrong)} members differ, {_show(wrong[0], want, got)}")
    return lines


def _show(member: str, want: Mapping[str, set[tuple[str, int]]], got: Mapping[str, set[tuple[str, int]]]) -> str:
    wanted, gotten = want.get(member, set()), got.get(member, set())
    missing, extra = sorted(wanted - gotten)[:5], sorted(gotten - wanted)[:5]
    return f"e.g. {member!r}: missing {missing}, extra {extra}"
