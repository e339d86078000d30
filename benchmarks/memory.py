"""(f) Peak memory of the driver's JVM and of Python, for fleets that grow from 1M to 50M partitions (sticky: 10M).

Each size runs in a session of its own with a small heap: that it ends at all is the first half of the answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.bench import Bench, Result, first_of
from benchmarks.fleets import Shape, read, written, written_with_owners
from benchmarks.processes import Usage, watched

HEAP = "1g"


def memory(bench: Bench) -> None:
    """MiB at the peak, for range to Parquet; the growth from the smallest to the largest fleet."""
    peaks: dict[int, float] = {}
    for groups in (20,) if bench.quick else (200, 2_000, 10_000):
        shape = Shape(groups, 10, 10, 500)
        found = _probed(bench, written(bench.spark, shape, bench.folder), "range")
        detail = f"driver JVM {found['jvm']:.0f}, Python {found['python']:.0f}; {found['seconds']:.1f} s"
        peaks[shape.total] = found["jvm"] + found["python"]
        measure = f"range to Parquet, peak memory (heap {HEAP})"
        bench.report(Result(measure, f"{shape}", peaks[shape.total], "MiB", None, detail))
    if not bench.quick:
        _report_growth(bench, peaks, "growth of the peak", None)


def sticky_memory(bench: Bench) -> None:
    """MiB at the peak of one Python worker, which holds the groups of one task; a member of each group has left.

    What bounds it is the largest task, so that it must hardly grow with the fleet.
    """
    peaks: dict[int, float] = {}
    for groups in (20,) if bench.quick else (200, 2_000):
        shape = Shape(groups, 10, 10, 500)
        found = _probed(bench, written_with_owners(bench.spark, shape, bench.folder), "sticky")
        peaks[shape.total] = found["worker"]
        detail = f"driver JVM {found['jvm']:.0f}, all of Python {found['python']:.0f}; {found['seconds']:.1f} s"
        measure = f"sticky to Parquet, peak of a Python worker (heap {HEAP})"
        bench.report(Result(measure, f"{shape}", found["worker"], "MiB", None, detail))
    if not bench.quick:
        _report_growth(bench, peaks, "growth of a Python worker's peak", "<= 1.5")


def _report_growth(bench: Bench, peaks: dict[int, float], measure: str, bound: str | None) -> None:
    growth = peaks[max(peaks)] / peaks[min(peaks)]
    sizes = f"{min(peaks):,} to {max(peaks):,}"
    bench.report(Result(measure, sizes, growth, f"x for {max(peaks) // min(peaks)} x", bound))


def _probed(bench: Bench, path: Path, assignor: str) -> dict[str, float]:
    """Plan a fleet in a session of its own: peaks in MiB, and seconds."""
    command = [sys.executable, "-m", "benchmarks.memory", str(path), str(bench.folder / "memory"), assignor]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"planning {path.name} with a heap of {HEAP} failed:\n{done.stderr[-2000:]}")
    return next(first_of(done.stdout))


def _probe(path: Path, output: Path, assignor: str) -> None:
    """Plan one fleet in a session of its own and print the peaks as JSON."""
    from benchmarks.bench import timed
    from benchmarks.session import start
    from spark_assign import plan

    usage = Usage(os.getpid())

    def work() -> None:
        plan(read(spark, path), assignor).assignments.write.mode("overwrite").parquet(str(output))

    with watched(usage.look):
        spark = start(HEAP)
        seconds = timed(work)
    spark.stop()
    print(json.dumps(usage.peaks | {"seconds": seconds}))


if __name__ == "__main__":
    _probe(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
