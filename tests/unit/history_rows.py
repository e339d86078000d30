"""Rows of a history, made up: one group that flaps, one that is deployed and pauses by itself, one without members."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.cases import keyed

Row = dict[str, Any]
BEGIN = datetime(2026, 11, 20, 10, tzinfo=UTC)
BEGIN_S = round(BEGIN.timestamp())


def at(seconds: float) -> datetime:
    """So long after the begin."""
    return BEGIN + timedelta(seconds=seconds)


def group(name: str, **more: Any) -> Row:
    """A row of groups."""
    row: Row = {"cluster": "shop", "group_id": name, "group_type": "classic", "protocol_type": "consumer"}
    row |= {"assignor": "range", "state": "Stable", "start_time": at(0), "end_time": at(3600), "records": 100}
    row |= keyed(
        "rebalances=2 idle_epochs=0 missing_generations=0 max_rebalances_per_day=2 members=3 partitions=12 deploys=0"
    )
    return row | {"crashes": 0, "paused_partition_ms": 36_000, "longest_pause_ms": 9_000, "flapping": False} | more


def rebalance(name: str, generation: int, seconds: float, **more: Any) -> Row:
    """A row of rebalances."""
    row: Row = {"cluster": "shop", "group_id": name, "generation_id": generation, "time": at(seconds)}
    row |= {
        "stable_time": at(seconds),
        **keyed("idle=False follow_up=None state=Stable assignor=range"),
        "leader": f"{name}-0",
        "members": 3,
    }
    row |= dict.fromkeys(("joined", "left", "crashed", "restarted", "missing_generations"), 0)
    row |= {
        "partitions": 12,
        "moved": 4,
        "moved_without_state": None,
        "cause": f"{name}-2 left",
        "paused_partition_ms": 18_000,
        "longest_pause_ms": 9_000,
    }
    return row | {"partition": 7, "offset": generation} | more


def deploy(name: str, first: int, last: int, seconds: float, **more: Any) -> Row:
    """A row of deploys."""
    row: Row = {"cluster": "shop", "group_id": name, "deploy_type": "rolling-restart", "start_time": at(seconds)}
    row |= {"end_time": at(seconds + 120), "first_generation_id": first, "last_generation_id": last}
    row |= {"rebalances": last - first + 1, "members_before": 3, "members_after": 3, "joined": 1, "left": 1}
    return row | {"crashed": 0, "restarted": 3, "paused_partition_ms": 36_000, "detail": "3 members, one by one"} | more


def pause(name: str, seconds: float, generation: int | None = None, **more: Any) -> Row:
    """A row of pauses."""
    row: Row = {"cluster": "shop", "group_id": name, "generation_id": generation, "start_time": at(seconds)}
    row |= {"end_time": at(seconds + 60), "partitions": 2, "paused_partition_ms": 120_000}
    return row | {"idle": False, "topics": ["t"]} | more


def tables() -> dict[str, list[Row]]:
    """A history as rows by table."""
    flaps = [rebalance("carts", number, 300 * number, why="carts-0 joined") for number in range(1, 13)]
    return {
        "groups": [
            group(
                "carts", rebalances=12, max_rebalances_per_day=12, crashes=1, flapping=True, paused_partition_ms=216_000
            ),
            group("payments", deploys=1, missing_generations=4),
            group("tool", group_type="simple", protocol_type=None, assignor=None, state=None, rebalances=0)
            | dict.fromkeys(("max_rebalances_per_day", "members", "partitions"), 0)
            | {"paused_partition_ms": None, "longest_pause_ms": None},
        ],
        "rebalances": [*flaps, rebalance("payments", 5, 60), rebalance("payments", 6, 120)],
        "deploys": [deploy("payments", 5, 6, 50)],
        "pauses": [pause("payments", 90, 5), pause("payments", 1800)],
        "unreadable": [
            {"cluster": "shop", "partition": 3, "offset": at_, "timestamp": at(0), "code": code, "detail": "x"}
            | {"group_id": name, "key": b"k", "value": None, "end_time": None}
            for at_, (code, name) in enumerate([("corrupt", "carts"), ("corrupt", None), ("newer-version", None)])
        ],
        "rejected": [],
    }


def everything(name: str) -> dict[str, list[Row]]:
    """What a page shows of it; the first group is called so."""
    made = tables()
    named = {t: [o | {"group_id": name} if o.get("group_id") == "carts" else o for o in r] for t, r in made.items()}
    keys = {"cluster": "shop", "group_id": name, "assignor": name, "protocol": "eager", "static": False}
    figures = {**keyed("rebalances=12 num_replayed=12 moved=9 paused_partition_ms=216_000 saved_ms=None"), "note": name}
    time_buckets = [
        {
            "cluster": "shop",
            "group_id": group_id,
            "time_bucket": BEGIN_S // 300 + at_,
            "rebalances": at_,
            "paused_partition_ms": ms,
        }
        for group_id, at_, ms in [(name, 1, 18_000), (name, 3, 198_000), ("payments", 0, None), ("payments", 1, 36_000)]
    ]
    return {
        "totals": [
            keyed(
                "groups=3 flapping=1 rebalances=14 idle_epochs=0 missing_generations=4 crashes=1 "
                "paused_partition_ms=252_000"
            )
            | {"start_time": at(0), "end_time": at(3600)}
        ],
        **{table: named[table] for table in ("groups", "rebalances", "pauses", "deploys")},
        "time_buckets": time_buckets,
        "deploy_types": [{"deploy_type": "rolling-restart", "count": 1}],
        "unreadable": [{"code": "corrupt", "records": 2}, {"code": "newer-version", "records": 1}],
        "replay_summary": [
            keys | figures | {"recorded": True},
            keys | figures | {"recorded": False, "protocol": "cooperative", "static": True, "saved_ms": 200_000},
        ],
        "rejected": [{"cluster": "shop", "group_id": name, "code": "bad-group", "detail": name}],
    }
