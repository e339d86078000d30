"""Rows of a report, made up: a fleet of any size, and one of everything that a report can show."""

from __future__ import annotations

import random
from typing import Any

from spark_assign.report.html import CompareRows, ConnectRows, DriftRows, PlanRows, ReplicaRows, SimulationRows
from spark_assign.report.html.rows import MOST_MEMBERS, WORST_GROUPS, classes_of
from spark_assign.report.ranking import affected

Row = dict[str, Any]


def group(number: int, members: int, partitions: int, moved: int, most: int, **more: Any) -> Row:
    """A row of metrics."""
    name = f"team-{number % 37:02d}.service-{number:05d}-consumer"
    mean = partitions / members if members else 0.0
    row: Row = {"cluster": f"cluster-{number % 5}", "group_id": name, "assignor": ("range", "sticky")[number % 2]}
    row |= {"members": members, "partitions": partitions, "min_per_member": int(mean / 2), "max_per_member": most}
    row |= {"mean_per_member": mean, "stddev_per_member": 1.0, "max_over_mean": most / mean if partitions else None}
    row |= {"moved": moved, "revoked": moved, "rack_matched": None}
    zero = ("unassigned", "withheld", "members_without_subscription", "unknown_topics", "owned_topic_gone")
    row |= dict.fromkeys((*zero, "owned_beyond_count", "claim_conflicts"), 0)
    return row | more


def plan(groups: int, seed: int = 1) -> PlanRows:
    """A plan of so many groups, the worst with members and moves as many as the bounds allow."""
    draw = random.Random(seed)
    metrics = []
    for number in range(groups):
        members = draw.randint(1, 60)
        partitions = members * draw.randint(0, 12) + draw.randint(0, members)
        fair = -(-partitions // members)
        most = min(partitions, fair + int(draw.expovariate(0.5)))
        metrics.append(group(number, members, partitions, draw.randint(0, partitions), most))
    metrics.sort(key=affected, reverse=True)
    worst = metrics[:WORST_GROUPS]
    return PlanRows(
        classes=classes_of(metrics),
        groups=metrics,
        members=[row for each in worst for row in members_of(each)],
        moves=[row for each in worst for row in moves_of(each)],
        reasons=[{"reason": "rebalanced", "partitions": sum(row["moved"] for row in metrics), "groups": groups}],
        about={"Run": "nightly"},
    )


def _ids(row: Row) -> list[str]:
    return [f"consumer-{at}-{at:08x}-9289-4bb2-b7a7-d7dc7636cd19" for at in range(min(row["members"], MOST_MEMBERS))]


def members_of(row: Row) -> list[Row]:
    """A bar for every member, up to the bound."""
    key = {name: row[name] for name in ("cluster", "group_id")}
    counts: Row = {"waiting": 0, "gone": False, "listed": row["members"]}
    return [
        key | counts | {"member_id": member, "before": at % 7, "after": row["max_per_member"] - at % 3}
        for at, member in enumerate(_ids(row))
    ]


def moves_of(row: Row) -> list[Row]:
    """A full matrix."""
    key = {name: row[name] for name in ("cluster", "group_id")}
    ends: list[str | None] = [*_ids(row)[:12], None]
    return [
        key | {"from_member_id": giver, "to_member_id": taker, "reason": "rebalanced", "partitions": at + 1}
        for giver in ends
        for at, taker in enumerate(ends)
        if giver != taker
    ]


def everything(name: str = "orders-service") -> dict[str, Any]:
    """Arguments of `render_report` that fill every section; the group, its members and topics are called so."""
    key = {"cluster": "c", "group_id": name}
    metrics = group(1, 3, 9, 4, 5, **key, unassigned=3, withheld=2, claim_conflicts=1, rack_matched=6)
    members = [
        key | {"member_id": f"{name}-{at}", "listed": 3, "gone": at == 2, "before": before, "after": 3, "waiting": at}
        for at, before in enumerate((6, 3, 1))
    ]
    moves = [
        key | {"from_member_id": f"{name}-0", "to_member_id": f"{name}-1", "reason": "over-quota", "partitions": 4}
    ]
    simulated = [
        key
        | {"protocol": protocol, "begin_ms": 0, "end_ms": 60_000, "partitions": 9, "partition_ms": 540_000}
        | {"partition_ms_not_consumed": 9_000, "longest_pause_ms": 4_500, "longest_pause_topic": name}
        | {"longest_pause_partition": 1, "rebalances": 2, "members_restarted": 1, "groups": 1}
        for protocol in ("cooperative", "eager")
    ]
    spans = [
        key
        | {"protocol": protocol, "begin_ms": 10_000, "end_ms": 12_000, "from_ms": 10_000, "to_ms": 13_000}
        | {"not_consumed": 2.5}
        for protocol in ("cooperative", "eager")
    ]
    costs = {f"{each}_partition_ms_not_consumed": 9_000 for each in ("eager", "cooperative", "static")}
    about_cluster = {"brokers": 3, "partitions": 9, "replicas": 27}
    return {
        "title": f"Report of {name}",
        "plan": PlanRows(
            classes=classes_of([metrics]),
            groups=[metrics],
            members=members,
            moves=moves,
            reasons=[{"reason": "over-quota", "partitions": 4, "groups": 1}],
            rejected=[key | {"code": "duplicate-member", "detail": f"members: {name} twice. Keep one"}],
            rejected_total=1,
            about={"Run": name},
            notes=[f"A note on {name}."],
        ),
        "comparison": CompareRows(
            totals=[
                {"change": "as-is", "assignor": name, "groups": 1, "rejected": 0, "moved": 4, "revoked": 4}
                | {"partition_seconds_paused": 1.5, "recommended": 1}
            ],
            recommended=[
                key
                | {"change": "as-is", "assignor": "sticky", "moved": 4, "rounds": 1, "max_over_mean": 1.0}
                | {"partition_seconds_paused": None, "spared": 5, "reason": f"{name}: 3 % move"}
            ],
        ),
        "simulation": SimulationRows(
            totals=simulated,
            groups=simulated,
            rounds=spans,
            pauses=spans,
            comparison=[key | costs | {"cooperative_ratio": 1.0, "static_ratio": None}],
            rejected=[key | {"code": "unknown-assignor", "detail": name}],
        ),
        "connect": ConnectRows(
            metrics=[
                {"connect_cluster": name, "protocol": "sessioned", "workers": 2, "connectors": 1, "tasks": 4}
                | dict.fromkeys(("assigned", "revoked", "lost", "waiting"), 1)
                | {f"{end}_tasks_{when}": 2 for end in ("min", "max") for when in ("before", "after")}
            ],
            rejected=[{"connect_cluster": None, "code": "no-cluster", "detail": name}],
            total=1,
        ),
        "replicas": ReplicaRows(
            metrics=[
                about_cluster
                | {"cluster": name, "moved": 3, "lower_bound": 3, "moved_bytes": None}
                | dict.fromkeys(("leaders_changed", "brokers_outside", "leaders_outside"), 0)
                | {f"{end}_{what}": 9 for end in ("min", "max") for what in ("replicas", "leaders")}
            ],
            reasons=[{"cluster": name, "reason": "removed-broker", "replicas": 3}],
            clusters=[about_cluster | {"cluster": name, "shared_rack": 0}],
            problems=[{"cluster": "c", "topic": name, "partition": 0, "code": "shared-rack", "detail": "two in one"}],
        ),
        "drift": DriftRows(
            changes=[{"change": "changed", "groups": 1}],
            groups=[key | {"change": "changed", "moved": 3, "max_over_mean_before": 1.0, "rejected_before": None}],
            members=[key | {"member_id": name, "change": "came"}],
            topics=[{"cluster": "c", "topic": name, "change": "grown", "partitions_before": 3, "partitions_after": 6}],
        ),
    }
