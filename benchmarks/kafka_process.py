"""Kafka's assignors in a JVM that stays warm and plans a group whenever it is asked to."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from pyspark.sql import functions as F

from benchmarks.bench import first_of
from spark_assign import Fleet
from spark_assign.spark.dataframes import expand
from spark_assign.tables.groups import MEMBER_KEY
from tests.kafka import java_programs, maven


def write_group(fleet: Fleet, path: Path) -> Path:
    """The one group of a fleet as the JSON that the program reads: its topics, and its members with all they own."""
    slices = fleet.ownership_slices()
    assert slices is not None
    topics = fleet.subscription_rows.groupBy(*MEMBER_KEY).agg(F.array_sort(F.collect_list("topic")).alias("topics"))
    owned = expand(slices).groupBy(*MEMBER_KEY).agg(F.array_sort(F.collect_list(F.struct("topic", "partition"))))
    members = fleet.members.select(*MEMBER_KEY, "generation_id").join(topics, MEMBER_KEY, "left")
    members = members.join(owned.toDF(*MEMBER_KEY, "owned"), MEMBER_KEY, "left")
    if not path.exists():
        fleet.topics.write.json(str(path / "topics"))
        members.write.json(str(path / "members"))
    return path


def rate_of(program: str, class_path: str, heap: str, *arguments: object) -> float:
    """Returns the median of the rates (partitions a second) that a benchmark program of Java prints."""
    command = java_programs.command(program, class_path, *arguments, options=[f"-Xmx{heap}"])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    rates = [line["partitions"] / line["seconds"] for line in first_of(done.stdout)]
    if done.returncode != 0 or not rates:
        raise RuntimeError(f"{program} failed:\n{done.stderr[-2000:]}")
    return statistics.median(rates)


class KafkaProcess:
    """`StickyBenchmark.java`, or another program that answers lines with JSON, running; a context manager."""

    def __init__(
        self, heap: str, program: str = "StickyBenchmark", *arguments: object, class_path: str | None = None
    ) -> None:
        jars = class_path or maven.kafka_classpath()
        command = java_programs.command(program, jars, *arguments, options=[f"-Xmx{heap}"])
        self._name = program
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> KafkaProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def seconds(self, assignor: str, group: Path, output: Path | None = None) -> float:
        """How long Kafka's class took to assign a group, whose objects are made anew before the clock starts.

        The assignment is written to `output`: member, topic and partition, a tab between them.
        """
        return float(self.ask("\t".join([assignor, str(group), str(output or "")]))["seconds"])

    def ask(self, line: str) -> dict[str, Any]:
        """What the program answers to a line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._name} failed at {line!r}; it says why on stderr")
        response: dict[str, Any] = json.loads(answer)
        return response

    def warm_up(self, assignor: str, group: Path, seconds: float) -> None:
        """Assign a group again and again for so long: the JVM compiles what it runs often."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self.seconds(assignor, group)
