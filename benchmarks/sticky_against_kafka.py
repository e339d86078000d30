"""One large group whose partitions have owners, against Kafka's own classes in a warm JVM, all objects in memory.

Ours is measured three times: the kernel alone, on numbers that are in memory; the same from names to names; and the
whole Spark job, which reads Parquet tables, checks them and computes every row. The job is compared with a pass-through
job too, which reads and gathers the same tables, and computes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from benchmarks import fleets
from benchmarks.bench import Bench, Result, to_noop
from benchmarks.fleets import Shape
from benchmarks.kafka_process import KafkaProcess, write_group
from benchmarks.plans import plan_and_write
from benchmarks.sticky import assignors
from spark_assign import plan
from spark_assign.assignors.group_facts import OWNED_BITMAP, OWNED_LIST, OWNED_PARTITION, SLICE_LISTS, index_facts
from spark_assign.groups import facts as gathering
from spark_assign.groups.kernel.plan_groups import ASSIGNED, WITHHELD, PlanParams, assign, plan_groups
from spark_assign.groups.kernel.read_specs import read_group_specs
from spark_assign.spark.dataframes import expand

HEAP = "9g"
WARM_UP = 15.0  # seconds


def giant(bench: Bench) -> None:
    """One member of 2,000 has left, all others keep what they own: speed as a multiple of theirs."""
    shape = Shape(1, bench.size(2_000, 50), bench.size(1_000, 50), bench.size(1_000, 50))
    larger = replace(shape, partitions=10 * shape.partitions)
    with KafkaProcess("1g" if bench.quick else HEAP) as kafka:
        for name in assignors(bench):
            path = fleets.written_with_owners(bench.spark, shape, bench.folder, form="owned_lists")
            _compare(bench, kafka, path, name, f"{shape}", kernel=">= 10", job=">= 1")
        if not bench.quick:
            path = fleets.written_with_owners(bench.spark, larger, bench.folder, form="owned_lists")
            _compare(bench.once(), kafka, path, "sticky", f"{larger}", kernel=">= 10", job=">= 3")


def differing(bench: Bench) -> None:
    """Differing subscriptions, half of the members new, for growing groups: speed as a multiple of theirs.

    Theirs grows with the cube of the size. The largest group, which takes it minutes, is counted once, for sticky
    only, in the JVM that the smaller ones have warmed up.
    """
    with KafkaProcess("1g" if bench.quick else HEAP) as kafka:
        for size in (20,) if bench.quick else (100, 400):
            for name in assignors(bench):
                _compare_differing(bench, kafka, size, name)
        if not bench.quick:
            _compare_differing(bench.once(), kafka, 1_000, "sticky", job=">= 10")


def _compare_differing(bench: Bench, kafka: KafkaProcess, size: int, name: str, job: str | None = None) -> None:
    path = fleets.written_differing(bench.spark, size, size, 20, bench.folder)
    _compare(bench, kafka, path, name, f"1 x {size:,} x {size:,} x 20, differing", kernel=">= 1", job=job)


def _compare(
    bench: Bench, kafka: KafkaProcess, path: Path, name: str, fleet: str, *, kernel: str, job: str | None
) -> None:
    """Measure one group and one assignor, in turns; and make sure that both assign the same."""
    group = write_group(fleets.read(bench.spark, path), path / "json")
    facts = _facts(bench, path)
    specs = read_group_specs(index_facts(facts), set())
    if not (bench.quick or bench.cold):
        kafka.warm_up(name, group, WARM_UP)
    seconds = bench.in_turns(
        kernel=partial(assign, specs, name, np.ones(1, bool), {}),
        names=partial(_from_names_to_names, facts, name),
        job=partial(plan_and_write, bench, path, name, to_noop),
        kafka=partial(kafka.seconds, name, group, path / f"{name}.tsv"),
        passed=partial(_pass_through, bench, path),
    )
    _check_same(bench, path, name)
    measures = {
        "kernel": ("kernel alone", kernel),
        "names": ("kernel, names to names", None),
        "job": ("Spark job", job),
    }
    for work, (what, bound) in measures.items():
        detail = f"ours {seconds[work]:.3f} s, theirs {seconds['kafka']:.3f} s"
        ratio = seconds["kafka"] / seconds[work]
        goal = bench.goal(bound) if bound else None
        bench.report(Result(f"{name}, {what}, against Kafka's", fleet, ratio, "x their speed", goal, detail))
    ratio, detail = seconds["job"] / seconds["passed"], f"pass-through {seconds['passed']:.3f} s"
    bench.report(Result(f"{name}, Spark job, against a pass-through job", fleet, ratio, "x", None, detail))


def _pass_through(bench: Bench, path: Path) -> None:
    """Reads and gathers the tables, hands them through Python unchanged, and writes a row per owned partition."""
    facts = gathering.facts_by_group(fleets.read(bench.spark, path))
    passed = facts.mapInArrow(lambda batches: batches, facts.schema)
    if "topics" in facts.columns:
        passed = passed.where(F.col("kind") == OWNED_LIST)
        rows = F.inline(F.arrays_zip(*SLICE_LISTS)).alias("topic", "first", "step", "count")
        passed = expand(passed.select("cluster", "group_id", "member_id", rows))
    elif "partition" in facts.columns:
        passed = passed.where(F.col("kind") == OWNED_PARTITION)
    else:  # gathered as bitmaps
        passed = passed.where(F.col("kind") == OWNED_BITMAP)
        passed = passed.withColumn("partition", F.explode(F.sequence(F.lit(1), "count")))
    to_noop(passed.select("cluster", "group_id", "member_id", "topic", "partition"))


def _facts(bench: Bench, path: Path) -> pa.Table:
    """What a worker is handed of the group."""
    fleet = fleets.read(bench.spark, path)
    # By a file: the facts of a large group are more than a driver takes from its tasks at once.
    written = str(bench.folder / f"facts-{path.name}")
    gathering.facts_by_group(fleet).write.mode("overwrite").parquet(written)
    facts: pa.Table = pq.read_table(written)
    bench.forget()
    return facts


def _from_names_to_names(facts: pa.Table, name: str) -> None:
    for _ in plan_groups(facts, PlanParams((("*", name),), (name,), required_kinds=frozenset({ASSIGNED, WITHHELD}))):
        pass


def _check_same(bench: Bench, path: Path, name: str) -> None:
    """Both have to give the same partitions to the same members."""
    columns = "member_id string, topic string, partition int"
    theirs = bench.spark.read.schema(columns).csv(str(path / f"{name}.tsv"), sep="\t")
    ours = plan(fleets.read(bench.spark, path), name).assignments.select("member_id", "topic", "partition")
    extra, lacking = ours.exceptAll(theirs).count(), theirs.exceptAll(ours).count()
    bench.forget()
    if extra or lacking or theirs.isEmpty():
        raise AssertionError(f"{name}: {extra} rows are not Kafka's, {lacking} of Kafka's are missing ({path.name})")
