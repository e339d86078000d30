"""Records of `__consumer_offsets` from Parquet to all tables of the history, and how that grows with their number."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from pyspark.sql import functions as F

from spark_assign import History
from spark_assign.history.schemas import HISTORY_TABLES
from tests.benchmarks import offsets_topic
from tests.benchmarks.bench import Bench, Result, timed
from tests.benchmarks.processor import used_by
from tests.benchmarks.session import CORES

_OF_A_TASK = 2_500_000
"""Records for each task over whole groups, as docs/history.md advises."""


def history(bench: Bench) -> None:
    """20M records: as written, with a rebalance in a thousand or a hundred, and compacted; told, stored and counted."""
    _grown(bench, (bench.size(5_000_000, 50_000), bench.size(20_000_000, 100_000)))


def at_size(bench: Bench) -> None:
    """The same with 100M records, once."""
    _grown(bench.once(), (bench.size(100_000_000, 200_000),))


def _grown(bench: Bench, sizes: tuple[int, ...]) -> None:
    for name in offsets_topic.EACH:
        rates: dict[int, float] = {}
        for records in sizes:
            bench.spark.conf.set("spark.sql.shuffle.partitions", max(records // _OF_A_TASK, 4))
            path = offsets_topic.written(bench.spark, records, bench.folder, name)
            used: list[float] = []
            seconds = bench.in_turns(told=partial(_told, bench, path, records, used))["told"]
            processor = sorted(used)[len(used) // 2]
            rates[records] = records / processor * CORES
            detail = f"{processor:.1f} s of processor time: {rates[records] / 1e6:.2f} M/s on {CORES} idle cores"
            fleet = f"{records:,} records, {name}"
            goal = None if name == "restless" else bench.goal(">= 1")
            bench.report(Result("records to all tables", fleet, records / seconds / 1e6, "M/s", goal, detail))
            shutil.rmtree(path)
        if len(rates) > 1:
            growth = rates[min(rates)] / rates[max(rates)]
            figure = f"{min(rates):,} to {max(rates):,}, {name}"
            bench.report(Result("processor time a record, growth", figure, growth, "x", bench.goal("<= 1.1")))


def _told(bench: Bench, path: Path, records: int, used: list[float]) -> float:
    """What a user waits for: read, told, stored once, every table counted. The seconds; processor time in `used`."""
    return timed(lambda: used.append(used_by(partial(_store_and_count, bench, path, records))))


def _store_and_count(bench: Bench, path: Path, records: int) -> None:
    found = History.read(bench.spark.read.parquet(str(path)))
    place = bench.folder / "told"
    found.decided().write.parquet(str(place))
    stored = found.with_decided(bench.spark.read.parquet(str(place)))
    counts = {name: getattr(stored, name).count() for name in HISTORY_TABLES if name != "groups"}
    read = stored.groups.agg(F.sum("records")).collect()[0][0]
    shutil.rmtree(place)
    if read + counts["unread"] != records or not counts["commits"]:
        raise RuntimeError(f"{read:,} of {records:,} records are told")
