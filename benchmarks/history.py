"""Records of `__consumer_offsets` from Parquet to all that is told of them, and how that grows with their number."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import functions as F

from benchmarks import offsets_topic
from benchmarks.bench import Bench, Result, timed, to_noop
from benchmarks.processor import used_by
from spark_assign.history import read_history
from spark_assign.tables.history import HISTORY_TABLES

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_OF_A_TASK = 2_500_000
"""Records for each task over whole groups, as docs/history.md advises."""


def history(bench: Bench) -> None:
    """20M records: as written, with a rebalance in a thousand or a hundred, and compacted; told, and stored as well."""
    _grown(bench, (bench.size(5_000_000, 50_000), bench.size(20_000_000, 100_000)))


def at_size(bench: Bench) -> None:
    """The same with 100M records, once."""
    _grown(bench.once(), (bench.size(100_000_000, 200_000),))


def _grown(bench: Bench, sizes: tuple[int, ...]) -> None:
    before = str(bench.spark.conf.get(_SHUFFLE_PARTITIONS))
    try:
        _grown_by_form(bench, sizes)
    finally:
        bench.spark.conf.set(_SHUFFLE_PARTITIONS, before)


def _grown_by_form(bench: Bench, sizes: tuple[int, ...]) -> None:
    for name in offsets_topic.EACH:
        processor: dict[int, dict[str, float]] = {}
        for records in sizes:
            bench.spark.conf.set(_SHUFFLE_PARTITIONS, max(records // _OF_A_TASK, 4))
            path = offsets_topic.written(bench.spark, records, bench.folder, name)
            processor[records] = _measured(bench, path, records, name)
            shutil.rmtree(path)
        if len(processor) > 1:
            least, most = min(processor), max(processor)
            for measure, micros in processor[most].items():
                growth, figure = micros / processor[least][measure], f"{least:,} to {most:,}, {name}"
                bench.report(Result(f"{measure}, processor time, growth", figure, growth, "x", bench.goal("<= 1.1")))


def _measured(bench: Bench, path: Path, records: int, name: str) -> dict[str, float]:
    """Records a second by the clock; microseconds of processor time for each record."""
    works = {"records told": partial(_count_records, bench, path)}
    works["records to stored tables"] = partial(_stored_and_counted, bench, path, records)
    used: dict[str, list[float]] = {measure: [] for measure in works}
    seconds = bench.in_turns(**{measure: partial(_timed, work, used[measure]) for measure, work in works.items()})
    processor = {measure: sorted(some)[len(some) // 2] / records * 1e6 for measure, some in used.items()}
    for measure in used:
        detail = f"{processor[measure]:.2f} us of processor time a record"
        goal = None if name == "restless" else bench.goal(">= 1")
        rate = records / seconds[measure] / 1e6
        bench.report(Result(measure, f"{records:,} records, {name}", rate, "M/s", goal, detail))
    return processor


def _timed(work: Callable[[], object], used: list[float]) -> float:
    """The seconds; processor time goes to `used`."""
    return timed(lambda: used.append(used_by(work)))


def _count_records(bench: Bench, path: Path) -> None:
    """Every row of every table, and none is kept."""
    to_noop(read_history(bench.spark.read.parquet(str(path))).tagged_rows())


def _stored_and_counted(bench: Bench, path: Path, records: int) -> None:
    """What a user waits for: read, told, stored once, every table counted."""
    found = read_history(bench.spark.read.parquet(str(path)))
    place = bench.folder / "told"
    found.tagged_rows().write.parquet(str(place))
    stored = found.with_tagged_rows(bench.spark.read.parquet(str(place)))
    counts = {name: getattr(stored, name).count() for name in HISTORY_TABLES if name != "groups"}
    read = stored.groups.agg(F.sum("records")).collect()[0][0]
    shutil.rmtree(place)
    if read + counts["unreadable"] != records or not counts["commits"]:
        raise RuntimeError(f"{read:,} of {records:,} records are told")
