"""Writes docs/play.html: what each assignor assigns in small groups, and what an event changes, to play with.

    .venv/bin/python -m tests.play_page

The page has the results of the simulation for every combination of `ASSIGNORS`, members, partitions, topics, and
`EVENTS`, so that it needs no server and no library. `conf/site/play.html` is its template. Pyodide (Python in the
browser) isn't used: its integers for sizes have 32 bits, for which NumPy refuses the kernels' counts, and after a cast
sticky assignments overflow; numpy and pyarrow would also be a download of 33 MB.

A state is a text: the owners before the event, and for each event the owners after it, the rebalances, the partitions
that moved (each time), the partition-seconds not consumed, and the longest pause, both in tenths of a second. The owner
of a partition is a digit, that of member C0 is 0. An event that can't happen is `-`: `0011;00112:2:1:40:20;…`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from spark_assign.groups.kernel.tagged_rows import rows_of_tables
from spark_assign.simulation.kernel.simulate_groups import OWNERSHIP, RESULTS, simulate_in_memory
from spark_assign.simulation.kernel.simulation_input import TABLES
from spark_assign.simulation.settings import Settings
from spark_assign.tables.groups import GROUP_KEY
from tests.docs.pages import ROOT

PAGE, TEMPLATE = ROOT / "docs" / "play.html", ROOT / "conf" / "site" / "play.html"

CLASSIC = ("range", "roundrobin", "sticky", "cooperative-sticky")
ASSIGNORS = (*((name, "classic") for name in CLASSIC), ("uniform", "consumer"), ("range", "consumer"))
"""Assignors, and the type of their groups."""

MEMBERS, PARTITIONS, TOPICS = range(1, 7), range(1, 13), range(1, 3)
EVENTS = ("member-starts", "member-leaves", "rolling-restart")
AT_MS = 120_000
"""Time of the event. All members start at 0, and have what the assignor gives them long before."""

SETTINGS = Settings(revoke_ms=100, restore_ms=2_000)
"""Times of the scenarios of `simulate`."""

State = tuple[int, int, int, int]
"""Index of the assignor, and numbers of topics, members, and partitions."""


def states() -> Iterator[State]:
    """Yields the states in the order in which the page has them."""
    return product(range(len(ASSIGNORS)), TOPICS, MEMBERS, PARTITIONS)


def simulate(selected: Sequence[State]) -> dict[State, str]:
    """Returns the text of each state."""
    rows: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for state in selected:
        assignor, topics, members, partitions = state
        names = [f"t{topic}" for topic in range(topics)]
        of_event = {
            "member-starts": {"member_id": f"C{members}"},
            "member-leaves": {"member_id": "C0"},
            "rolling-restart": {"down_ms": 5_000, "parallelism": 1, "pause_ms": 10_000},
        }
        for event in EVENTS:
            if event == "member-leaves" and members == 1:
                continue
            key = {"cluster": event, "group_id": " ".join(map(str, state))}
            name, kind = ASSIGNORS[assignor]
            rows["groups"].append(key | {"assignors": [name], "group_type": kind})
            rows["topics"] += [key | {"topic": topic, "partitions": partitions} for topic in names]
            rows["members"] += [key | {"member_id": f"C{member}", "topics": names} for member in range(members)]
            rows["events"].append(key | {"at_ms": AT_MS, "event": event} | of_event[event])
    facts = rows_of_tables(rows, GROUP_KEY, TABLES)
    found = simulate_in_memory(facts, ("configured",), SETTINGS.timing, (RESULTS, OWNERSHIP))
    intervals: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in found[OWNERSHIP]:
        intervals[row["cluster"], row["group_id"]].append(row)
    texts: dict[State, dict[str, str]] = defaultdict(dict)
    for row in found[RESULTS]:
        state = tuple(map(int, row["group_id"].split()))
        before, after = _owners_and_outcome(row, intervals[row["cluster"], row["group_id"]])
        texts[state][row["cluster"]] = after
        assert texts[state].setdefault("", before) == before, row
    return {state: ";".join(texts[state].get(each, "-") for each in ("", *EVENTS)) for state in selected}


def _owners_and_outcome(result: Mapping[str, Any], intervals: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Returns the owners before the event, and the owners after it with its costs."""
    parts = sorted(set(map(_part, intervals)))
    owners = [
        {_part(row): row["member_id"][1] for row in intervals if row["start_ms"] <= at < row["end_ms"]}
        for at in (AT_MS - 1, result["availability"]["end_ms"] - 1)
    ]
    before, after = ("".join(of[part] for part in parts) for of in owners)
    rebalances = [each for each in result["rebalances"] if each["start_ms"] >= AT_MS]
    total = longest = current = 0
    for row in sorted(intervals, key=lambda row: (*_part(row), row["start_ms"])):
        paused = max(0, row["end_ms"] - max(row["start_ms"], AT_MS)) if row["state"] != "consumed" else 0
        total += paused
        current = current + paused if paused else 0
        longest = max(longest, current)
    costs = (len(rebalances), sum(each["moved"] for each in rebalances))
    return before, ":".join([after, *map(str, costs), *(f"{ms / 100:.0f}" for ms in (total, longest))])


def _part(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["topic"], row["partition"]


def page() -> str:
    """Returns the page."""
    data = {
        "assignors": [f"{name} (KIP-848)" if kind == "consumer" else name for name, kind in ASSIGNORS],
        "states": list(simulate(list(states())).values()),
    }
    return TEMPLATE.read_text(encoding="utf-8").replace("DATA", json.dumps(data, separators=(",", ":")))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
