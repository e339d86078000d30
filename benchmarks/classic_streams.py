"""Streams applications on the classic protocol: a large one against Kafka's default class, and a fleet of them."""

from __future__ import annotations

import json
import statistics
import time
import uuid
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from benchmarks.bench import Bench, Result, to_noop
from benchmarks.kafka_process import KafkaProcess
from benchmarks.processor import used_by
from spark_assign import Fleet
from spark_assign.assignors.streams.classic_application import RUNNING, read_clients
from spark_assign.assignors.streams.high_availability_task_assignor import assign_tasks
from spark_assign.streams import plan_streams
from tests.golden import streams_classic_rows as recorded
from tests.kafka import maven

Row = dict[str, Any]
END, SUBTOPOLOGIES, CALLS = 1_000_000, 10, 2


def application(instances: int, tasks: int) -> Row:
    """Returns an application in the format of tests/golden/README-streams-classic.md: all tasks have state and run on
    all instances but one, which has joined."""
    draw = Random(instances)
    processes = sorted((uuid.UUID(int=draw.getrandbits(126)) for _ in range(instances)), key=lambda each: each.int)
    members: list[Row] = [
        {"id": f"m-{process}", "process": str(process), "rack": None, "endpoint": None, "tags": {}}
        | {"owned": [], "task_offset_sums": {}}
        for process in processes
    ]
    partitions = tasks // SUBTOPOLOGIES
    for number in range(tasks):
        owner, (subtopology, partition) = members[number % (instances - 1)], divmod(number, partitions)
        owner["owned"].append([f"t{subtopology}", partition])
        owner["task_offset_sums"][f"{subtopology}_{partition}"] = RUNNING
    numbers = range(SUBTOPOLOGIES)
    config: Row = {"acceptable_recovery_lag": 10_000, "max_warmup_replicas": 2, "num_standby_replicas": 0}
    config |= {"probing_rebalance_interval_ms": 600_000, "rack_aware_strategy": "none", "traffic_cost": None}
    return {
        "case": f"{instances} instances",
        "assignor": "high-availability",
        "leader": members[0]["process"],
        "config": config | {"non_overlap_cost": None, "rack_aware_tags": []},
        "subtopologies": [
            {"id": at, "sources": [f"t{at}"], "stores": [{"name": "s", "changelog": f"l{at}"}]} for at in numbers
        ],
        "topics": {f"t{at}": {"partitions": partitions, "racks": [["a"]] * partitions} for at in numbers},
        "changelogs": {f"l{at}": {"end_offsets": [END] * partitions} for at in numbers},
        "members": members,
    }


def giant(bench: Bench) -> None:
    """One application: speed as a multiple of Kafka's `HighAvailabilityTaskAssignor` in a warm JVM."""
    row = application(bench.size(1_000, 20), bench.size(50_000, 200))
    request = json.dumps(row | {"calls": 1 if bench.quick else CALLS})
    given = recorded.application_of(row)
    clients = read_clients(given)  # also computes what the application caches
    trace = assign_tasks(given, clients)
    ours = [_seconds(partial(assign_tasks, given, read_clients(given))) for _ in range(bench.repeats)]
    class_path = maven.applications_classpath()
    with KafkaProcess("1g" if bench.quick else "9g", "StreamsTaskAssignor", class_path=class_path) as kafka:
        answer = kafka.ask(request)
    expected = {process: tasks["active"] for process, tasks in answer["expect"]["clients"].items()}
    found = {each.process_id: [recorded.task_text(task) for task in sorted(each.active)] for each in clients}
    if found != expected or (trace.movements > 0) != answer["expect"]["probing"]:
        raise AssertionError("we and Kafka assign different tasks")
    theirs, mine = answer["seconds"][-1], statistics.median(ours)
    fleet = f"1 x {len(clients):,} x {len(given.tasks):,}"
    detail = f"{theirs:.2f} s by Kafka's class, {mine:.2f} s by ours, of processor time"
    goal = bench.goal(">= 1")
    bench.report(Result("a classic Streams application, speed to Kafka's", fleet, theirs / mine, "x", goal, detail))


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def fleet(bench: Bench) -> None:
    """Many applications in one job, from Parquet to the tasks and moves of all threads; processor time."""
    applications, instances, tasks = bench.size(2_000, 3), bench.size(50, 4), bench.size(1_000, 40)
    path = bench.folder / f"applications-{applications}"
    if not path.exists():
        for name, table in _tables(bench, applications, instances, 4, tasks).items():
            table.write.parquet(str(path / name))
    read = {each.name: bench.spark.read.parquet(str(each)) for each in sorted(path.iterdir())}

    def work() -> None:
        bench.forget()
        planned = plan_streams(Fleet(**read))
        to_noop(planned.tagged_rows())

    size = f"{applications:,} x {instances} x 4 x {tasks:,}"
    goal = bench.goal("<= 600")
    bench.report(Result("classic Streams applications, processor time", size, used_by(work), "s", goal))


def _tables(bench: Bench, applications: int, instances: int, threads: int, tasks: int) -> dict[str, Any]:
    """Returns the tables of a fleet: all instances but one run all tasks, with one standby of each elsewhere."""
    partitions, members = tasks // SUBTOPOLOGIES, instances * threads
    running = members - threads

    def rows(count: int, *columns: str) -> Any:
        table = bench.spark.range(applications * count).selectExpr(f"id div {count} as g", f"id % {count} as n")
        key = ("'c' as cluster", "concat('app-', g) as group_id")
        return table.selectExpr(*key, *columns)

    digest = f"md5(concat(g, '-', n div {threads}))"
    process = "regexp_replace(" + digest + ", '(.{8})(.{4})(.{4})(.{4})(.{12})', '$1-$2-$3-$4-$5') as process_id"
    own, other = (f"format_string('m-%04d', (n + {shift}) % {running}) as member_id" for shift in (0, threads))
    task = [f"cast(n div {partitions} as string) as subtopology", f"cast(n % {partitions} as int) as task"]
    topic, partition = f"n div {partitions}", f"cast(n % {partitions} as int) as partition"
    offset = "cast(null as long) as changelog_offset"
    return {
        "topics": bench.spark.range(applications * SUBTOPOLOGIES * 2).selectExpr(
            "'c' as cluster",
            f"concat(if(id % 2 = 0, 't-', 'l-'), id div {2 * SUBTOPOLOGIES}, '-', id div 2 % {SUBTOPOLOGIES}) as topic",
            f"{partitions} as partitions",
        ),
        "groups": rows(1, "'classic' as group_type", "1 as standby_replicas"),
        "members": rows(members, "format_string('m-%04d', n) as member_id", process, "cast(n as int) as position"),
        "subscriptions": rows(members, "format_string('m-%04d', n) as member_id", "'t' as topic").limit(0),
        "subtopologies": rows(
            SUBTOPOLOGIES,
            *("cast(n as string) as subtopology", f"{partitions} as partitions", "true as stateful"),
            *("array(concat('t-', g, '-', n)) as source_topics", "array(concat('l-', g, '-', n)) as changelog_topics"),
        ),
        "tasks": rows(tasks, own, *task, "'active' as role", offset).union(
            rows(tasks, other, *task, "'standby' as role", offset)
        ),
        "changelogs": rows(
            tasks, f"concat('l-', g, '-', {topic}) as topic", partition, f"{END}L as end_offset", "1048576L as bytes"
        ),
    }
