"""The golden vectors as rows, and as sets to compare with.

One kind of recorded rows is left out, with its count (`LEFT_OUT`): `prefer_rack_aware`, a switch that only Kafka's own
tests have. (All rows in which a member lists a topic twice, which a client cannot, are of that kind.)
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.recorded_lines import read_rows

FOLDER = Path(__file__).parent
Row = dict[str, Any]
"""One case, as `README-client.md` (section 1) describes it."""

CASES = {"range": 1_563, "roundrobin": 1_532, "sticky": 4_456, "cooperative-sticky": 5_708}
"""How many rows of each strategy count."""
LEFT_OUT = {"range": 51, "roundrobin": 0, "sticky": 204, "cooperative-sticky": 202}
"""How many are left out."""


def recorded(strategy: str) -> Iterator[Row]:
    """All recorded rows of one strategy; `case` is made unique over the files."""
    for path in sorted(FOLDER.glob("client-*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            # To look into a line is much cheaper than to parse it; `cases` counts what is found.
            for line in (line for line in lines if f'"strategy":"{strategy}"' in line):
                row = json.loads(line)
                if row["strategy"] == strategy and not row.keys() & {"release", "implementation"}:
                    row["case"] = f"{path.name.removesuffix('.jsonl.gz')}/{row['case']}"
                    yield row


def cases(strategy: str) -> list[Row]:
    """The rows of one strategy that count."""
    every = list(recorded(strategy))
    kept = [row for row in every if not row.get("prefer_rack_aware")]
    assert len(kept) == CASES[strategy]
    assert len(every) - len(kept) == LEFT_OUT[strategy]
    return kept


RELEASES = {"2.4": 150, "2.8": 150, "3.2": 150, "3.4": 150, "3.5": 150}
"""How many rows of each older release of the clients there are."""


def release_cases() -> list[Row]:
    """Every row that was recorded from an older release; `profile` is the assignor as of it, by our name."""
    rows = read_rows(FOLDER / "client-releases.jsonl.gz")
    for row in rows:
        row["profile"] = f"{row['strategy']}@{row['release'].rpartition('.')[0]}"
    assert Counter(row["profile"].partition("@")[2] for row in rows) == RELEASES
    return rows


Sets = dict[str, dict[str, set[tuple[str, int]]]]
"""case -> member id -> partitions; a member that gets nothing has no entry."""


def expected_sets(rows: Iterable[Row]) -> Sets:
    """What Kafka's class answered, as sets (the order inside a member's list is no contract here)."""
    return {
        row["case"]: {member: {(t, p) for t, p in got} for member, got in row["expect"].items() if got}
        for row in rows
        if row["expect"] is not None
    }


def other_errors(rows: Iterable[Row], refused: Mapping[str, str]) -> list[str]:
    """One line for each case that Kafka's class throws in and we do not refuse, or the other way round, or otherwise.

    `refused` is what we say: the exception's class and, where it was recorded, its message.
    """
    lines = []
    for row in rows:
        rejection, thrown = refused.get(row["case"]), None
        if row["expect"] is None:
            thrown = row["error"].rpartition(".")[2]
            message = row.get("error_message") if thrown == "IllegalStateException" else None
            rejection = rejection if message is not None or rejection is None else rejection.partition(":")[0]
            thrown = thrown if message is None else f"{thrown}: {message}"
        if rejection != thrown:
            lines.append(f"{row['case']}: we say {rejection!r}, Kafka {thrown!r}")
    return lines


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
