"""The recorded rows of Streams applications on the classic protocol (`README-streams-classic.md`, and `-4.4.md`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_assign import Fleet
from spark_assign.assignors.streams import classic_application
from spark_assign.assignors.streams.leader_releases import find_rules
from spark_assign.assignors.streams.member_tasks import AT_ONCE
from spark_assign.assignors.streams.streams_partition_assignor import ClassicAssignment
from spark_assign.assignors.streams.task_assignor_api import TaskId
from spark_assign.tables.groups import INPUT_TABLES
from tests.frames import frame_of, merged
from tests.recorded_lines import read_rows

Row = dict[str, Any]
RECORDED = {"4.3.1": ("streams-classic.jsonl.gz", 1_548), "4.4.0": ("streams-classic-4.4.jsonl.gz", 364)}
"""File and number of rows of each recorded release; the rows of the second that differ in the first say so."""


def rows() -> list[Row]:
    """All recorded rows, with their release as a part of the case."""
    every = []
    for release, (name, count) in RECORDED.items():
        recorded = read_rows(Path(__file__).parent / name)
        assert len(recorded) == count
        every += [row | {"release": release, "case": f"{row['case']} ({release})"} for row in recorded]
    return every


def task_id(text: str) -> TaskId:
    """A task from its text, such as 1_0."""
    subtopology, number = text.split("_")
    return int(subtopology), int(number)


def task_text(task: TaskId) -> str:
    """The text of a task."""
    return f"{task[0]}_{task[1]}"


def application_of(row: Row) -> classic_application.ClassicApplication:
    """The input of a row."""
    subtopologies = [
        classic_application.ClassicSubtopology(
            of["sources"], [store["changelog"] for store in of["stores"] if store["changelog"]], bool(of["stores"])
        )
        for of in sorted(row["subtopologies"], key=lambda of: of["id"])
    ]
    changelogs = row["changelogs"]
    known = {name: of["end_offsets"] for name, of in changelogs.items() if not of.get("new")}
    fails = row.get("end_offsets_fail") and any(name not in row["topics"] for name in known)
    racks = {name: of.get("racks") for name, of in (changelogs | row["topics"]).items()}
    # Topics without racks are on one broker that has none.
    racks |= {name: [[None]] * of["partitions"] for name, of in row["topics"].items() if of["racks"] is None}
    order = row.get("standby_task_order")
    return classic_application.ClassicApplication(
        [
            classic_application.ClassicMember(
                member["id"],
                member["process"],
                member["rack"],
                member["tags"],
                [(topic, partition) for topic, partition in member["owned"]],
                {task_id(task): offset for task, offset in member["task_offset_sums"].items()},
                member.get("error_code", 0),
            )
            for member in row["members"]
        ],
        subtopologies,
        {name: of["partitions"] for name, of in row["topics"].items()},
        None if fails else known,
        racks,
        classic_application.ClassicConfig(**row["config"]),
        row["assignor"],
        row["leader"],
        None if order is None else [task_id(task) for task in order],
        find_rules(row.get("release"), is_public_sticky=row["assignor"] == "sticky"),
    )


def expected(row: Row) -> Row:
    """What is compared: all of `expect` that the row has."""
    return {name: value for name, value in row["expect"].items() if name != "clients" or value}


def planned(row: Row, application: classic_application.ClassicApplication, plan: ClassicAssignment) -> Row:
    """A plan in the form of the row's `expect`."""
    if plan.error_code:
        members = {member.member_id: {"error_code": plan.error_code} for member in application.members}
        return {"stable": None, "consumers": members}
    now, interval = row["now_ms"], application.config.probing_rebalance_interval_ms
    result: Row = {
        "stable": plan.is_stable,
        "clients": {process: _roles(*tasks) for process, tasks in plan.clients.items()},
        "consumers": {
            member: {
                "active": sorted(
                    ([task_text(task), *p] for task in tasks.active for p in application.source_partitions(task)),
                    key=lambda line: (line[1].encode("utf-16-be"), line[2]),
                ),
                "standby": [task_text(task) for task in sorted(tasks.standby)],
                "next_rebalance_ms": tasks.rejoin and (0 if tasks.rejoin == AT_ONCE else now + interval),
            }
            for member, tasks in plan.members.items()
        },
    }
    if application.assignor != "sticky":
        result["probing"] = plan.must_probe
    if plan.trace is not None:
        result["before_movements"] = {process: _roles(*tasks) for process, tasks in plan.trace.target.items()}
        result["warmups"] = {p: [task_text(task) for task in sorted(t)] for p, t in plan.trace.warmups.items() if t}
    elif application.assignor == "high-availability":
        del result["clients"], result["probing"]
    if "partitions_by_host" in row["expect"]:
        result["partitions_by_host"] = _partitions_by_host(row, application, plan)
    return result


def _roles(active: set[TaskId], standby: set[TaskId]) -> Row:
    return {name: [task_text(task) for task in sorted(t)] for name, t in (("active", active), ("standby", standby))}


def _partitions_by_host(row: Row, application: classic_application.ClassicApplication, plan: ClassicAssignment) -> Row:
    """What the members learn for interactive queries: source partitions of the tasks of each host."""
    first: dict[str, Row] = {}
    for member in row["members"]:
        first.setdefault(member["process"], member)
    hosts = {process: member["endpoint"] for process, member in first.items() if member["endpoint"]}
    return {
        role: {
            host: sorted([list(p) for task in plan.clients[process][at] for p in application.source_partitions(task)])
            for process, host in ((process, hosts[process]) for process in plan.clients if process in hosts)
        }
        for at, role in enumerate(("active", "standby"))
    }


# --- rows as tables of a fleet ----------------------------------------------------------------------------------------

GROUP_ID = "application"
_CLASSES = {
    "high-availability": "org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor",
    "sticky": "org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor",
}
_CONFIGS = {
    "acceptable_recovery_lag": "acceptable.recovery.lag",
    "max_warmup_replicas": "max.warmup.replicas",
    "probing_rebalance_interval_ms": "probing.rebalance.interval.ms",
    "rack_aware_strategy": "rack.aware.assignment.strategy",
    "traffic_cost": "rack.aware.assignment.traffic_cost",
    "non_overlap_cost": "rack.aware.assignment.non_overlap_cost",
}
REJECTED = {1: "unknown-topic", 4: "shutdown-requested"}
"""The code of a group that the leader gives no tasks, by the error code of its members."""


def table_rows(row: Row) -> dict[str, list[Row]]:
    """A row as rows of a Fleet's tables by column name, its case being the cluster."""
    cluster = {"cluster": row["case"]}
    group = cluster | {"group_id": GROUP_ID}
    config, changelogs, topics = row["config"], row["changelogs"], row["topics"]
    settings = [f"{_CONFIGS[name]}={value}" for name, value in config.items() if name in _CONFIGS and value is not None]
    settings += ["rack.aware.assignment.tags=" + ",".join(config["rack_aware_tags"])]
    if row["assignor"] == "legacy-sticky":
        settings.append("internal.task.assignor.class=legacy-sticky")
    else:
        settings.append(f"task.assignor.class={_CLASSES[row['assignor']]}")
    fails = bool(row.get("end_offsets_fail"))
    racks = {name: of["racks"] for name, of in changelogs.items() if name not in topics and of.get("racks") is not None}
    racks |= {name: of["racks"] or [[None]] * of["partitions"] for name, of in topics.items()}
    every = sorted({rack for of in racks.values() for each in of for rack in each}, key=lambda rack: rack or "")
    return {
        "topics": [cluster | {"topic": name, "partitions": of["partitions"]} for name, of in topics.items()],
        "brokers": [cluster | {"broker_id": at, "rack_id": rack} for at, rack in enumerate(every)],
        "replicas": [
            cluster | {"topic": name, "partition": partition, "replicas": [every.index(rack) for rack in each]}
            for name, of in racks.items()
            for partition, each in enumerate(of)
        ],
        "groups": [
            group
            | {"group_type": "classic", "standby_replicas": config["num_standby_replicas"], "streams_config": settings}
            | {"leader_process_id": row["leader"], "standby_task_order": row.get("standby_task_order")}
            | {"leader_version": row["release"]}
        ],
        "subtopologies": [
            group
            | {"subtopology": str(of["id"]), "source_topics": of["sources"], "stateful": bool(of["stores"])}
            | {"changelog_topics": [store["changelog"] for store in of["stores"] if store["changelog"]]}
            for of in row["subtopologies"]
        ],
        "changelogs": [
            group | {"topic": name, "partition": p} | {"end_offset": None if fails and name not in topics else offset}
            for name, of in changelogs.items()
            if not of.get("new")
            for p, offset in enumerate(of["end_offsets"])
        ],
        "members": [
            group
            | {"member_id": member["id"], "process_id": member["process"], "rack_id": member["rack"], "position": at}
            | {"client_tags": [f"{key}={value}" for key, value in member["tags"].items()]}
            | {"error_code": member.get("error_code")}
            for at, member in enumerate(row["members"])
        ],
        "owned": [
            group | {"member_id": member["id"], "topic": topic, "partition": partition}
            for member in row["members"]
            for topic, partition in member["owned"]
        ],
        "tasks": [
            group
            | {"member_id": member["id"], "subtopology": task.split("_")[0], "task": int(task.split("_")[1])}
            | {"changelog_offset": offset}
            for member in row["members"]
            for task, offset in member["task_offset_sums"].items()
        ],
        "subscriptions": [],
    }


def fleet_of(spark: SparkSession, rows: Iterable[Row]) -> Fleet:
    """One Fleet in which every row is a cluster with one application."""
    tables = merged(map(table_rows, rows)).items()
    return Fleet(**{name: frame_of(spark, INPUT_TABLES[name], lines) for name, lines in tables})


def expected_in_tables(row: Row) -> Row:
    """What `planned_in_tables` has to be: tasks of each member, warmups of each process, and what follows."""
    consumers = row["expect"]["consumers"].items()
    rejoins = [member["next_rebalance_ms"] for _, member in consumers]
    follow_up = "at-once" if 0 in rejoins else "probing" if any(rejoins) else None
    return {
        "members": {
            m: (sorted({t for t, *_ in o["active"]}), o["standby"]) for m, o in consumers if o["active"] or o["standby"]
        },
        "clients": {
            p: (f["active"], f["standby"])
            for p, f in row["expect"].get("clients", {}).items()
            if f["active"] or f["standby"]
        },
        "warmups": row["expect"].get("warmups", {}),
        "follow_up": follow_up,
    }


def planned_in_tables(row: Row, tasks: Iterable[Row], metrics: Row) -> Row:
    """The rows of one application in the tables of a plan, in the form of `expected_in_tables`."""
    process = {member["id"]: member["process"] for member in row["members"]}
    members: dict[str, tuple[set[TaskId], set[TaskId]]] = {}
    clients: dict[str, tuple[set[TaskId], set[TaskId]]] = {}
    warmups: dict[str, set[TaskId]] = {}
    withheld = {(each["member_id"], each["subtopology"], each["task"]) for each in tasks if each["role"] == "withheld"}
    for each in tasks:
        task, member = (int(each["subtopology"]), each["task"]), each["member_id"]
        is_standby = each["role"] in ("standby", "warmup")
        if each["role"] != "withheld":
            members.setdefault(member, (set(), set()))[is_standby].add(task)
        if not is_standby or (member, each["subtopology"], each["task"]) not in withheld:
            clients.setdefault(process[member], (set(), set()))[is_standby].add(task)
        if each["role"] == "warmup":
            warmups.setdefault(process[member], set()).add(task)

    def texts(found: Iterable[TaskId]) -> list[str]:
        return [task_text(task) for task in sorted(found)]

    if "clients" not in row["expect"]:
        clients = {}
    return {
        "members": {name: (sorted(map(task_text, of[0])), texts(of[1])) for name, of in members.items()},
        "clients": {name: (texts(of[0]), texts(of[1])) for name, of in clients.items()},
        "warmups": {name: texts(of) for name, of in warmups.items()},
        "follow_up": metrics["follow_up"],
    }
