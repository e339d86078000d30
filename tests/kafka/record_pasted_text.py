"""Record tests/unit/pasted_text.jsonl.gz again: `python -m tests.kafka.record_pasted_text` (ten minutes, Maven).

Kafka's tools of each release since 0.11 describe two clusters: with brokers of 4.4, and of 3.9 for tools that 4.4 no
longer knows. A broker is down, a partition moves to it, and a group rebalances. A row has what a command prints, and
the releases that print it; releases that differ only in the order of lines share a row. The rows `snapshot` have the
tables of the clusters, as the snapshot reads them. tests/unit/records_text.jsonl.gz has what `dumped` returns.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition

from spark_assign.sources.kafka.cluster_snapshot import snapshot
from tests.kafka import group_members, java_programs, maven, streams_members
from tests.kafka.broker import Cluster, cluster
from tests.kafka.group_members import Consumer
from tests.kafka.live_groups import create_topics, wait_until
from tests.kafka.maven import JarSet
from tests.kafka.streams_members import Instance

Row = dict[str, Any]
TARGET = Path(__file__).parents[1] / "unit" / "pasted_text.jsonl.gz"
NEWER = [
    *("4.3.1", "4.2.0", "4.1.1", "4.0.0", "3.9.1", "3.8.1", "3.7.2"),
    *("3.6.2", "3.5.2", "3.4.1", "3.3.2", "3.2.3", "3.1.2", "3.0.2"),
    *("2.8.2", "2.7.2", "2.6.3", "2.5.1", "2.4.1"),
]
OLDER = ["2.3.1", "2.2.2", "2.1.1", "2.0.1", "1.1.1", "1.0.2", "0.11.0.3"]
TOPICS = {"orders": {p: [1 + p % 2, 2 - p % 2] for p in range(6)}, "payments": {0: [1], 1: [1], 2: [1]}}
TOPICS |= {"moving": {0: [1], 1: [1]}}
CONSUMERS = [
    Consumer("shop", "shop-a", ("orders", "payments"), "range", instance_id="shop-a"),
    Consumer("shop", "shop-b", ("orders", "payments"), "range"),
    Consumer("mixed", "mixed-a", ("orders",), "roundrobin"),
    Consumer("mixed", "mixed-b", ("payments", "moving"), "roundrobin"),
    Consumer("wide", "wide-0123456789-0123456789-0123456789", ("moving",), "cooperative-sticky"),
    Consumer("wide", "wide-1", ("moving",), "cooperative-sticky"),
    Consumer("wide", "wide-2", ("moving",), "cooperative-sticky"),
    Consumer("team one", "my app 1", ("payments",), "range"),
    Consumer("team one", "my app 2", ("payments",), "range", instance_id="worker-2"),
    Consumer("busy", "busy-0", ("orders",), "range", max_poll_interval_ms=100_000_000),
]
NEW = [
    Consumer("new-one", "new-a", ("orders",), "uniform", protocol="consumer"),
    Consumer("new-one", "new-b", ("orders", "payments"), "uniform", protocol="consumer", instance_id="new-b"),
    Consumer("share-one", "share-a", ("payments",), protocol="share"),
    Consumer("share-one", "share-b", ("payments",), protocol="share"),
]
GROUPS = ("shop", "mixed", "wide", "team one", "busy", "idle", "gone", "new-one")
COMMANDS = {
    "topics": "--describe",
    "groups": "--describe {groups}",
    "groups offsets verbose": "--describe {groups} --offsets --verbose",
    "groups state": "--describe {groups} --state",
    "groups state verbose": "--describe {groups} --state --verbose",
    "groups members": "--describe {groups} --members",
    "groups members verbose": "--describe {groups} --members --verbose",
    "groups list": "--list --state",
    "groups list types": "--list --type",
    "share": "--describe --all-groups",
    "share verbose": "--describe --all-groups --offsets --verbose",
    "share members": "--describe --all-groups --members",
    "share members verbose": "--describe --all-groups --members --verbose",
    "share state": "--describe --all-groups --state",
    "share state verbose": "--describe --all-groups --state --verbose",
    "streams": "--describe --all-groups",
    "streams verbose": "--describe --all-groups --offsets --verbose",
    "streams members": "--describe --all-groups --members",
    "streams members verbose": "--describe --all-groups --members --verbose",
    "streams state": "--describe --all-groups --state",
    "streams state verbose": "--describe --all-groups --state --verbose",
    "all groups": "--list",
    "log-dirs": "--describe",
    "versions": "",
}
CLASSES = {
    "topics": ("org.apache.kafka.tools.TopicCommand", "kafka.admin.TopicCommand"),
    "groups": ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "kafka.admin.ConsumerGroupCommand"),
    "share": ("org.apache.kafka.tools.consumer.group.ShareGroupCommand",),
    "streams": ("org.apache.kafka.tools.streams.StreamsGroupCommand",),
    "all": ("org.apache.kafka.tools.GroupsCommand",),
    "log-dirs": ("org.apache.kafka.tools.LogDirsCommand", "kafka.admin.LogDirsCommand"),
    "versions": ("org.apache.kafka.tools.BrokerApiVersionsCommand", "kafka.admin.BrokerApiVersionsCommand"),
}


def classpath(version: str) -> str:
    """Returns a Java class path with the tools of a release."""
    number = tuple(map(int, version.split(".")))
    scala = "2.13" if number >= (2, 4) else "2.11"
    names = [f"kafka_{scala}", *["kafka-tools"] * (number >= (3, 7))]
    artifacts = [f"org.apache.kafka:{name}:{version}" for name in names]
    # Tools.java needs it, and the oldest release has none.
    artifacts += ["com.fasterxml.jackson.core:jackson-databind:2.21.2"] * (number < (1, 0))
    return maven._classpath(JarSet(f"tools-{version}", tuple(artifacts)))


def printed(started: Cluster, version: str) -> Iterator[tuple[str, str]]:
    """Yields the names of commands and what the tools of a release print."""
    number = tuple(map(int, version.split(".")))
    calls = []
    for name, words in COMMANDS.items():
        if name.startswith("groups") and "{groups}" in words and number < (2, 4):
            calls += [(f"{name}@{group}", [*words.format(groups="").split(), "--group", group]) for group in GROUPS]
        else:
            calls.append((name, words.format(groups="--all-groups").split()))
    texts: defaultdict[str, str] = defaultdict(str)
    questions = [
        [CLASSES[name.split("@")[0].split()[0]], ["--bootstrap-server", started.bootstrap_servers, *words]]
        for name, words in calls
    ]
    for (name, words), answer in zip(calls, answers(version, questions), strict=True):
        if answer is None:
            continue
        if any(text in answer["text"] for text in UNKNOWN):
            print("refused", version, name, words, file=sys.stderr)
        else:
            # `GroupsCommand` says that it may not exit.
            texts[name] += answer["text"].partition("null\nTools$Exited")[0]
    yield from texts.items()


UNKNOWN = (
    "is not a recognized option",
    "Missing required argument",
    "Option ",
    "not a recognized",
    "are unavailable given",
)


def answers(version: str, questions: list[Any]) -> list[Any]:
    """Returns what the tools of a release answer to calls."""
    options = (*java_programs.SHORT_LIVED, "-Djava.security.manager=allow", "-Xmx256m")
    return java_programs.answers("Tools", questions, classpath(version), options)


@contextlib.contextmanager
def described(version: str, more: Sequence[Consumer] = ()) -> Iterator[Cluster]:
    """Yields a cluster with groups, of which one rebalances, and a partition that moves to a broker that is down."""
    path = maven._classpath(JarSet(f"broker-{version}", (f"org.apache.kafka:kafka_2.13:{version}",)))
    members = maven._classpath(JarSet("broker-4.4.0", ("org.apache.kafka:kafka_2.13:4.4.0",)))
    with cluster(path, ("zone-1", "zone-2")) as started, contextlib.ExitStack() as stack:
        print("up", version, file=sys.stderr)
        create_topics(started, TOPICS)
        producer = KafkaProducer(bootstrap_servers=started.bootstrap_servers)
        for topic, of in TOPICS.items():
            for partition in of:
                for _ in range(10 + partition):
                    producer.send(topic, b"x" * 10, partition=partition)
        producer.flush()
        producer.close()
        offsets = {TopicPartition("orders", p): OffsetAndMetadata(3 + p, "", -1) for p in range(6)}
        with started.admin() as admin:
            for group in ("idle", "shop", "new-one"):
                admin.alter_group_offsets(group, offsets)
            admin.alter_group_offsets("team one", {TopicPartition("payments", 0): OffsetAndMetadata(2, "", -1)})
        client = replace(started, class_path=members)
        consumers = [*CONSUMERS, *more]
        process = stack.enter_context(group_members.running(client, consumers))
        if more:
            state = stack.enter_context(tempfile.TemporaryDirectory())
            streams = [
                Instance("streams-one", f"streams-{n}", f"{state}/{n}", ("payments",), ("orders",), protocol="streams")
                for n in (0, 1)
            ]
            stack.enter_context(streams_members.running(started, streams))
        time.sleep(15)
        wait_until(
            lambda: len(snapshot(started.bootstrap_servers).tables["members"]) >= len(consumers) + 2 * bool(more),
            "members",
        )
        with started.admin() as admin:
            internal = [topic for topic in admin.describe_topics() if topic["name"] not in TOPICS]
            admin.alter_partition_reassignments(
                {
                    TopicPartition(topic["name"], partition["partition_index"]): [1]
                    for topic in internal
                    for partition in topic["partitions"]
                }
            )
        time.sleep(10)
        started.processes[1].stop()
        time.sleep(15)
        with started.admin() as admin:
            admin.alter_partition_reassignments({TopicPartition("moving", 0): [2]})
        group_members.order(process, "pause", [CONSUMERS[-1]])
        time.sleep(2)
        group_members.start(process, [replace(CONSUMERS[-1], client_id="busy-1")])
        time.sleep(10)
        yield started


def dumped(folder: Path) -> list[Row]:
    """Returns what tools print of copied segments of `__consumer_offsets`, and the segments."""
    files = sorted(folder.glob("__consumer_offsets-*/*.log"))
    names = [f"{file.parent.name}/{file.name}" for file in files]
    segments = {name: base64.b64encode(file.read_bytes()).decode() for name, file in zip(names, files, strict=True)}
    tools = ["org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments"]
    calls = [[tools, ["--offsets-decoder", "--files", str(file)]] for file in files]
    rows = []
    for version in ("4.3.1", "3.9.1"):
        text = "".join(answer["text"].partition("null\nTools$Exited")[0] for answer in answers(version, calls))
        rows.append({"release": version, "text": text.replace(f"{folder}/", "/"), "segments": segments})
    return rows


def record(target: Path) -> None:
    """Writes the rows of both clusters."""
    rows = []
    for cluster_name, broker, versions, more in (("4.4", "4.4.0", NEWER, NEW), ("3.9", "3.9.1", OLDER, ())):
        texts: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
        kept = {}
        with described(broker, more) as started:
            for version in versions:
                begin = time.monotonic()
                for name, text in printed(started, version):
                    if name == "versions":  # the lines of 80 requests say nothing about racks
                        text = "".join(
                            line for line in text.splitlines(keepends=True) if not re.match(r"\t(?!ApiVersions)", line)
                        )
                    key = name, tuple(sorted(text.splitlines()))
                    kept.setdefault(key, text)
                    texts[key].append(version)
                print(version, round(time.monotonic() - begin), "s", file=sys.stderr)
            taken = snapshot(started.bootstrap_servers, cluster="c")
        for key, releases in texts.items():
            rows.append({"cluster": cluster_name, "command": key[0], "releases": releases, "text": kept[key]})
        tables = {name: table.to_pylist() for name, table in taken.tables.items() if table.num_rows}
        rows.append({"cluster": cluster_name, "command": "snapshot", "tables": tables})
        Path(f"{target}.{cluster_name}").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with gzip.GzipFile(target, "wb", mtime=0) as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows).encode())


if __name__ == "__main__":
    record(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
