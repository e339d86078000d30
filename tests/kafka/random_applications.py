"""Random classic Streams applications, in the format of tests/golden/README-streams-classic.md."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

Row = dict[str, Any]
RACKS = ("a", "b", "c")


def applications(seed: int, count: int) -> Iterator[Row]:
    """Each with a previous assignment in whatever state, and with racks only if it has no standbys."""
    draw = Random(f"applications {seed}")
    for number in range(count):
        yield _application(draw, f"application {number}")


def _application(draw: Random, case: str) -> Row:
    sizes = [draw.randint(1, 12) for _ in range(draw.randint(1, 5))]
    standbys = draw.choice((0, 0, 1, 1, 2))
    topics = {
        f"t{at}": {"partitions": size, "racks": [draw.sample(RACKS, draw.randint(1, 2)) for _ in range(size)]}
        for at, size in enumerate(sizes)
    }
    logged = [at for at in range(len(sizes)) if draw.random() < 0.7]
    changelogs = {f"app-l{a}": {"end_offsets": [draw.choice((0, 50, 10**6)) for _ in range(sizes[a])]} for a in logged}
    processes = [str(uuid.UUID(int=draw.getrandbits(128))) for _ in range(draw.randint(1, 8))]
    tags = {process: {name: draw.choice("xyz") for name in ("zone", "cluster")} for process in processes}
    rack = {process: draw.choice(RACKS) for process in processes}
    members: list[Row] = [
        {"id": f"m{number:03d}", "process": process, "rack": rack[process], "endpoint": None, "tags": tags[process]}
        | {"owned": [], "task_offset_sums": {}}
        for number, process in enumerate(processes * draw.randint(1, 3))
        if number < len(processes) or draw.random() < 0.7
    ]
    for at, size in enumerate(sizes):
        for partition in range(size):
            end = changelogs[f"app-l{at}"]["end_offsets"][partition] if at in logged else 0
            owner = draw.choice(members) if draw.random() < 0.8 else None
            if owner is not None:
                owner["owned"].append([f"t{at}", partition])
            for member in members:
                if at in logged and member is owner:
                    member["task_offset_sums"][f"{at}_{partition}"] = draw.choice((-2, -2, -2, 0))
                elif at in logged and draw.random() < 0.2:
                    member["task_offset_sums"][f"{at}_{partition}"] = draw.choice((-3, 0, end // 2, end, end + 7))
    return {
        "case": case,
        "assignor": "high-availability",
        "leader": members[0]["process"],
        "now_ms": 0,
        "config": {
            "acceptable_recovery_lag": draw.choice((0, 100, 10_000, 2**63 - 1)),
            "max_warmup_replicas": draw.choice((1, 2, 5)),
            "num_standby_replicas": standbys,
            "probing_rebalance_interval_ms": 600_000,
            "rack_aware_strategy": "none" if standbys else draw.choice(("none", "min_traffic", "balance_subtopology")),
            "traffic_cost": draw.choice((None, 1, 10)),
            "non_overlap_cost": draw.choice((None, 1, 10)),
            "rack_aware_tags": draw.choice(([], ["zone"], ["zone", "cluster"])),
        },
        "subtopologies": [
            {"id": at, "sources": [f"t{at}"]}
            | {"stores": [{"name": f"s{at}", "changelog": f"app-l{at}"}] if at in logged else []}
            for at in range(len(sizes))
        ],
        "topics": topics,
        "changelogs": changelogs,
        "members": members,
    }
