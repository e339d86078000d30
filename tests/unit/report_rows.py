"""Rows of a report, made up: a fleet of any size, and one of everything that a report can show."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from spark_assign.groups.kernel.client_settings import plan_switch
from spark_assign.report.group_members import GroupMembers
from spark_assign.report.html import (
    PlanRows,
)
from spark_assign.report.listed_groups import SUMS, num_unowned, over_share
from spark_assign.report.report_data import EDGES, MOST_MEMBERS, NOTHING_ASSIGNED, WORST_GROUPS
from tests.unit import history_rows

Row = dict[str, Any]
WAY = plan_switch("range", "cooperative-sticky", "Java 3")


def group(number: int, members: int, partitions: int, moved: int, most: int, **more: Any) -> Row:
    """A row of metrics."""
    name = f"team-{number % 37:02d}.service-{number:05d}-consumer"
    mean = partitions / members if members else 0.0
    row: Row = {"cluster": f"cluster-{number % 5}", "group_id": name, "assignor": ("range", "sticky")[number % 2]}
    row |= {"members": members, "partitions": partitions, "min_per_member": int(mean / 2), "max_per_member": most}
    row |= {"mean_per_member": mean, "stddev_per_member": 1.0, "max_over_mean": most / mean if partitions else None}
    row |= {"moved": moved, "revoked": moved, "rack_matched": None}
    zero = ("unassigned", "withheld", "members_without_subscription", "unknown_topics", "owned_unknown_topic")
    row |= dict.fromkeys((*zero, "owned_out_of_range", "claim_conflicts"), 0)
    return row | more


def classes_of(groups: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The classes of imbalance of groups: what `collect` has Spark do."""
    found: dict[tuple[str, str, int, bool], Row] = {}
    names = ("cluster", "assignor", "imbalance", "even")
    for row in groups:
        key = (row["cluster"], row["assignor"], _class_of(row["max_over_mean"]), over_share(row) == 0)
        empty = dict(zip(names, key, strict=True)) | dict.fromkeys(("groups", *SUMS), 0)
        sums = found.setdefault(key, empty)
        sums["groups"] += 1
        for name in SUMS:
            sums[name] += row[name]
    return list(found.values())


def ruled_of(groups: Sequence[Mapping[str, Any]]) -> list[Row]:
    """By whose rules groups are planned: what `collect` has Spark do."""
    found: dict[tuple[str, str | None], Row] = {}
    for row in groups:
        key = (row["assignor"], row.get("leader_client"))
        sums = found.setdefault(key, {"assignor": key[0], "leader_client": key[1], "groups": 0, "partitions": 0})
        sums["groups"] += 1
        sums["partitions"] += row["partitions"]
    return list(found.values())


def _class_of(max_over_mean: float | None) -> int:
    """A number from 0 on; upper bounds belong to their class."""
    return NOTHING_ASSIGNED if max_over_mean is None else sum(max_over_mean > edge for edge in EDGES)


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
    metrics.sort(key=lambda row: max(row["moved"], row["revoked"]) + num_unowned(row) + over_share(row), reverse=True)
    worst = metrics[:WORST_GROUPS]
    return PlanRows(
        classes=classes_of(metrics),
        groups=metrics,
        members=[row for each in worst for row in members_of(each)],
        moves=[row for each in worst for row in moves_of(each)],
        reasons=[{"reason": "rebalanced", "partitions": sum(row["moved"] for row in metrics), "groups": groups}],
        about={"Run": "nightly"},
        ruled=ruled_of(metrics),
    )


def _ids(row: Row) -> list[str]:
    return [f"consumer-{at}-{at:08x}-9289-4bb2-b7a7-d7dc7636cd19" for at in range(min(row["members"], MOST_MEMBERS))]


def members_of(row: Row) -> list[Row]:
    """A bar for every member, up to the bound."""
    key = {name: row[name] for name in ("cluster", "group_id")}
    counts: Row = {"waiting": 0, "gone": False, "listed": row["members"], "silent": 0}
    return [
        key | counts | {"member_id": member, "before": at % 7, "after": row["max_per_member"] - at % 3}
        for at, member in enumerate(_ids(row))
    ]


def moves_of(row: Row) -> list[Row]:
    """A full matrix."""
    key = {name: row[name] for name in ("cluster", "group_id")}
    ends: list[str | None] = [*_ids(row)[:12], None]
    return [
        key | {"from_member_id": from_member, "to_member_id": to_member, "reason": "rebalanced", "partitions": at + 1}
        for from_member in ends
        for at, to_member in enumerate(ends)
        if from_member != to_member
    ]


def everything(name: str = "orders-service") -> dict[str, Any]:
    """Arguments of `render_report` that fill every section; the group, its members and topics are called so."""
    key = {"cluster": "c", "group_id": name}
    metrics = group(1, 3, 9, 4, 5, **key, unassigned=3, withheld=2, claim_conflicts=1, rack_matched=6)
    metrics["leader_client"] = "Java 3.4+ (likely)"
    metrics |= {"final_max_over_mean": 1.0, "topic_max_over_mean": 2.5, "note": f"one member has 5 of 6 of {name}"}
    members = [
        key
        | {"member_id": f"{name}-{at}", "listed": 3, "gone": at == 2, "before": before, "after": 3, "waiting": at}
        | {"silent": at}
        for at, before in enumerate((6, 3, 1))
    ]
    moves = [
        key | {"from_member_id": f"{name}-0", "to_member_id": f"{name}-1", "reason": "over-quota", "partitions": 4}
    ]
    simulated = [
        key
        | {"variant": variant, "start_ms": 0, "end_ms": 60_000, "partitions": 9, "partition_ms": 540_000}
        | {"paused_partition_ms": 9_000, "longest_pause_ms": 4_500, "longest_pause_topic": name}
        | {"longest_pause_partition": 1, "rebalances": 2, "members_restarted": 1, "groups": 1}
        for variant in ("cooperative", "eager")
    ]
    spans = [key | {"variant": variant, "start_ms": 10_000, "end_ms": 12_000} for variant in ("cooperative", "eager")]
    names = ("paused_partition_ms", "longest_pause_ms", "rebalances")
    costs = {f"{each}_{cost}": 9_000 for each in ("eager", "cooperative", "static", "consumer") for cost in names}
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
            ruled=ruled_of([metrics]),
            silent=[key | {"partitions": 3}],
            who=who(name, key),
        ),
        "comparison": comparison(name, key),
        "simulation": {
            "totals": simulated,
            "availability": simulated,
            "rebalances": spans,
            "pauses": [each | {"end_ms": 13_000, "paused_partitions": 2.5} for each in spans],
            "comparison": [key | costs | {"cooperative_ratio": 1.0, "static_ratio": None, "consumer_ratio": 0.5}],
            "rejected": [key | {"code": "unknown-assignor", "detail": name}],
        },
        "connect": connect(name),
        "streams": streams(key),
        "replicas": replicas(name),
        "drift": drift(name, key),
        "advice": advice(name),
        "history": history_rows.everything(name),
        "sources": [("Drift", name)],
    }


def who(name: str, key: Row) -> GroupMembers:
    """A member with everything, and what it gains and loses."""
    texts = dict.fromkeys(("member_id", "client_id", "client_host", "group_instance_id", "rack_id"), name)
    counts = dict.fromkeys(("before", "partitions", "waiting", "gained", "lost", "lag_known", "rate_known"), 2)
    member = key | texts | counts | {"gone": False, "lag": 7, "in_messages_per_second": 0.5}
    piece = key | {"member_id": name, "topic": name, "first": 0, "step": 1, "count": 2}
    move = key | {"topic": name, "partition": 1, "reason": "over-quota", "withheld": True}
    moves = [move | {"from_member_id": name, "to_member_id": f"{name}-1"}]
    return GroupMembers([member], [piece], [*moves, move | {"from_member_id": None, "to_member_id": name}], [name])


def advice(name: str) -> dict[str, list[Row]]:
    """A recommendation of each category but one; of money there are more."""
    row = {"cluster": name, "group_id": name, "action": "scale-up", "description": name, "risk": name, "command": name}
    row |= {"note": f"idle because of {name}"}
    row |= {"gain": 900.0, "gain_unit": "messages/s", "cost": 36.0, "cost_unit": "USD a month", "payback_months": None}
    rows = [
        row | {"rank": 1, "category": "behind", "settings": f"{name}\nminReplicaCount: 9"},
        row | {"rank": 2, "category": "money", "settings": None, "payback_months": 0.5, "group_id": None},
        row | {"rank": 3, "category": "unknown", "settings": None, "gain": None, "cost": None},
    ]
    numbers = {"behind": 1, "money": 7, "unknown": 1}
    categories = [{"category": category, "number": number} for category, number in numbers.items()]
    return {"advice": rows, "categories": categories}


def comparison(name: str, key: Row) -> dict[str, list[Row]]:
    """Two groups: one should change, of the other it is not known what it runs with."""
    figures = {"max_over_mean": 1.0, "moved": 4, "revoked": 4, "paused_partition_seconds": 1.5}
    now = {f"now_{each}": value for each, value in figures.items()}
    option = {"what_if": "as-is", "assignor": "sticky", "groups": 1}
    gain = key | option | figures | now | {"verdict": "change", "rounds": 1, "now": "range", "now_assignor": "range"}
    return {
        "totals": [option | figures | {"assignor": name, "rejected": 0, "recommended": 1, "paused": 1.5}],
        "verdicts": [option | {"verdict": verdict} for verdict in ("change", "unknown", "keep", "elsewhere", "none")],
        "sums": [option | figures | now],
        "gains": [
            gain | {"reason": f"sticky: 3 % move ({name})", "client_libraries": "Java 3", "switch_steps": WAY.text},
            gain | {"now": None, "verdict": "unknown", "reason": "x", "client_libraries": None, "switch_steps": None},
        ],
        "ways": [{"what_if": "as-is", "switch_steps": WAY.text, "groups": 1, "example": ("c", name)}],
        "advice": [
            key
            | {"verdict": "change", "assignor": "sticky", "reason": f"sticky: 3 % move ({name})", "now": "range"}
            | {"client_libraries": "Java 3", "switch_steps": WAY.text}
        ],
        "notes": [key | option | {"topic_max_over_mean": 2.5, "note": f"one member has 5 of 6 of {name}"}],
    }


def connect(name: str) -> dict[str, list[Row]]:
    """A cluster in one rebalance, and another under two protocols."""
    sizes = {f"{end}_tasks_{when}": 2 + (end == "max") for end in ("min", "max") for when in ("before", "after")}
    cost = {
        "clusters": 1,
        "rebalances": 3,
        **{f"{what}_{kind}": 20 for what in ("connector", "task") for kind in ("stops", "starts")},
        "lost_with_worker": 0,
        "task_ms_not_running": 7_200_000,
        "not_running": 0,
    }
    costs = [cost | {"connect_cluster": f"{name}-2", "protocol": each} for each in ("sessioned", "eager")]
    return {
        "metrics": [
            {"connect_cluster": name, "protocol": "sessioned", "workers": 2, "connectors": 1, "tasks": 4}
            | dict.fromkeys(("assigned", "revoked", "lost", "waiting"), 1)
            | {"delay_ms": 300_000, "note": f"{name} waits"}
            | sizes
        ],
        "rejected": [{"connect_cluster": None, "code": "no-cluster", "detail": name}],
        "totals": costs,
        "costs": costs,
        "rebalances": [
            {"connect_cluster": f"{name}-2", "protocol": each, "at_ms": at, "so_far": at / 40 * grows}
            for each, grows in (("sessioned", 1), ("eager", 2))
            for at in (0, 600, 1_200)
        ],
    }


def streams(key: Row) -> dict[str, list[Row]]:
    """A classic application that is followed, in its next rebalance and after a change."""
    numbers = ("members", "processes", "tasks", "standby_replicas", "min_active", "max_active", "min_standby")
    numbers += ("max_standby", "moved_active", "moved_without_state", "moved_standby", "probing_rebalances")
    row = key | dict.fromkeys(numbers, 2) | {"assignor": "high-availability", "caught_up_seconds": 90.0}
    row |= {"restored_bytes": 4_000_000_000, "stopped_task_seconds": 51.6, "never_caught_up": 0}
    bare = {"moved_without_standbys": 3, "restored_bytes_without_standbys": 8_000_000_000}
    return {
        "totals": [{"groups": 1, "tasks": 2, "moved_active": 2, "moved_without_state": 1, "moved_standby": 0}],
        "metrics": [row],
        "comparison": [row | bare | {"what_if": "join:*:1", "stopped_task_seconds_without_standbys": None}],
        "steps": [row | {"variant": key["group_id"], "steps": 2, "rebalances": 3}],
        "rejected": [key | {"code": "bad-task", "detail": key["group_id"]}],
    }


def replicas(name: str) -> dict[str, list[Row]]:
    """A cluster that is reassigned, and one that was checked."""
    about_cluster = {"brokers": 3, "partitions": 9, "replicas": 27}
    spans = {f"{end}_{what}_over_mean": 1.0 for end in ("min", "max") for what in ("replicas", "leaders")}
    problems = (
        *("shared_rack", "fenced_broker", "unknown_broker", "duplicate_replica", "too_few_replicas"),
        *("being_reassigned", "plan_outdated"),
    )
    return {
        "metrics": [
            about_cluster
            | {"cluster": name, "moved": 3, "lower_bound": 3, "moved_bytes": None}
            | dict.fromkeys(("leaders_changed", "brokers_out_of_tolerance", "leaders_out_of_tolerance"), 0)
            | {f"{end}_{what}": 9 for end in ("min", "max") for what in ("replicas", "leaders")}
        ],
        "reasons": [{"cluster": name, "reason": "removed-broker", "replicas": 3}],
        "loads": [
            {"cluster": name, "broker_id": broker, "replicas_before": 9, "leaders_before": 3}
            | {"replicas_after": 9, "leaders_after": broker}
            for broker in range(3)
        ],
        "clusters": [
            about_cluster
            | spans
            | dict.fromkeys((*problems, "uneven_replication_factor", "cordoned_brokers", "offline_log_dirs"), 0)
            | {"cluster": name}
        ],
        "brokers": [
            {"cluster": name, "broker_id": 1, "rack_id": name, "fenced": None, "cordoned": True, "replicas": 9}
            | {"leaders": 3, "offline_log_dirs": 1, "replicas_over_mean": 1.0, "leaders_over_mean": None}
        ],
        "racks": [
            {"cluster": name, "rack_id": rack, "brokers": 1, "replicas": 9, "leaders": 3} for rack in (name, None)
        ],
        "problems": [{"cluster": "c", "topic": name, "partition": 0, "code": "shared-rack", "detail": "two in one"}],
        "problem_counts": [{"code": "shared-rack", "partitions": 1}],
    }


def drift(name: str, key: Row) -> dict[str, list[Row]]:
    """A group that changed, and one that went."""
    counts = dict.fromkeys(("moved", "newly_owned", "no_longer_owned", "joined", "left", "restarted"), 3)
    sides = {f"{what}_{when}": 3 for what in ("members", "partitions") for when in ("before", "after")}
    texts: Row = {f"{what}_{when}": None for what in ("assignor", "rejected") for when in ("before", "after")}
    group_row = key | counts | sides | texts | {"max_over_mean_before": 1.0, "max_over_mean_after": 1.5}
    return {
        "changes": [counts | {"change": "changed", "groups": 1}],
        "groups": [group_row | {"change": "changed", "assignor_before": "range", "assignor_after": name}],
        "members": [
            key
            | {"member_id": name, "change": "joined", "previous_member_id": None}
            | dict.fromkeys(("group_instance_id", "client_id", "client_host"))
        ],
        "topics": [{"cluster": "c", "topic": name, "change": "grown", "partitions_before": 3, "partitions_after": 6}],
        "worse": [group_row | {"change": "changed", "rejected_after": "duplicate-member"}],
        "pairs": [
            key | {"from_member_id": f"{name}-0", "to_member_id": to_member, "partitions": 2}
            for to_member in (f"{name}-1", None)
        ],
        "streams": [
            key
            | {f"{what}_{when}": 3 for what in ("members", "tasks") for when in ("before", "after")}
            | dict.fromkeys(("joined", "left", "moved_active", "moved_standby"), 2)
            | {"change": "changed"}
        ],
        "about": [{"before": name, "after": "tuesday"}],
    }
