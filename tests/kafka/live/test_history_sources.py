"""`__consumer_offsets` of a real cluster by Spark's Kafka source, from its log segments, and followed into places."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic

from spark_assign.history.following import CHECKPOINT
from spark_assign.wire import log_segment
from spark_assign.wire.compression import NAMES
from spark_assign.wire.group_records import read_key, read_value
from spark_assign.wire.log_segment import Batch
from tests.kafka import group_members, history_session, java_programs, maven, secure_listener
from tests.kafka.broker import Cluster
from tests.kafka.group_members import Consumer
from tests.kafka.history_session import told
from tests.kafka.random_groups import seed as fresh_seed

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC = "hs.orders"
KILLS = 2
PRODUCERS, ROUNDS, OPEN_MS = 3, 8, 500
# Segments as short as transactions; and nobody compacts while copies are compared.
CONFIGS = {"segment.ms": "1500", "min.compaction.lag.ms": "3600000"}
ONE = Consumer("hs-classic", "hs-1", (TOPIC,), "range", commit_every_ms=200)
MEMBERS = [ONE, replace(ONE, client_id="hs-2"), Consumer("hs-consumer", "hs-3", (TOPIC,), None, "consumer")]

Rows = dict[tuple[int, int], tuple[Any, ...]]


@pytest.fixture(scope="module")
def written(broker: Cluster) -> Iterator[Cluster]:
    """A cluster whose groups commit, also in transactions."""
    with closing(broker.admin()) as admin:
        admin.create_topics([NewTopic(TOPIC, 6, 1)])
        admin.wait_for_topics([TOPIC])
    configure(broker, CONFIGS)
    transactional = (broker.bootstrap_servers, TOPIC, "hs-tx", PRODUCERS, ROUNDS, OPEN_MS)
    command = java_programs.command("OffsetTransactions", broker.class_path, *transactional)
    transactions = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    with group_members.running(broker, MEMBERS):
        assert transactions.wait(60) == 0
    yield broker
    with closing(broker.admin()) as admin:
        admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, "__consumer_offsets", dict.fromkeys(CONFIGS))])


@pytest.fixture(scope="module", autouse=True)
def _jars() -> None:
    """For one release of Spark only."""
    release = ".".join(pyspark.__version__.split(".")[:2])
    if release != maven.DELTA_FOR_SPARK:
        pytest.skip(f"the jars are for Spark {maven.DELTA_FOR_SPARK}, this is {release}")


def configure(broker: Cluster, configs: dict[str, str]) -> None:
    """Set configs of the offsets topic."""
    with closing(broker.admin()) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "__consumer_offsets", configs)])


def copied(broker: Cluster, to: Path) -> list[Path]:
    """The log directories of all brokers as they stand, without what is not a segment."""
    for log in broker.folder.glob("log-*"):
        for folder in log.glob("__consumer_offsets-*"):
            (to / log.name / folder.name).mkdir(parents=True)
            for file in folder.glob("*.log"):
                shutil.copyfile(file, to / log.name / folder.name / file.name)
    return sorted(to.rglob("*.log"))


def rows(folder: Path) -> Rows:
    """RECORDS in Parquet files; each place once."""
    table = pa.concat_tables(pq.read_table(file) for file in folder.glob("*.parquet"))
    columns = [table[name].to_pylist() for name in ("partition", "offset", "timestamp", "key", "value")]
    found = {(partition, offset): tuple(rest) for partition, offset, *rest in zip(*columns, strict=True)}
    assert len(found) == table.num_rows, "a record twice"
    return found


def ends(files: Iterable[Path]) -> dict[int, int]:
    """Of each partition the last offset that is copied; other tests' groups, and Spark's, go on writing."""
    found: dict[int, int] = {}
    for file in files:
        partition = int(file.parent.name.rpartition("-")[2])
        for each in log_segment.batches(file.read_bytes()):
            assert isinstance(each, Batch), f"{file}: {each}"
            found[partition] = max(found.get(partition, -1), each.last_offset)
    return found


def ends_of_stream(checkpoint: Path) -> dict[int, int]:
    """The same of what a stream has read."""
    newest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    until = json.loads(newest.read_text().splitlines()[-1])["__consumer_offsets"]
    return {int(partition): end - 1 for partition, end in until.items()}


def assert_same(found: Rows, by_kafka: Rows, copied_to: dict[int, int]) -> None:
    """Nothing else, and nothing less, up to where the copy ends."""
    copied = {place: row for place, row in by_kafka.items() if place[1] <= copied_to.get(place[0], -1)}
    assert found == copied


def damage(folder: Path) -> tuple[Path, Path]:
    """One file is cut off, in another one a byte is turned; both in batches that no transaction hangs on."""
    plain = []
    for file in sorted(folder.rglob("*.log")):
        batches = [each for each in log_segment.batches(file.read_bytes()) if isinstance(each, Batch)]
        if len(batches) > 1 and not any(each.transactional for each in batches):
            plain.append((file, batches))
    (cut, its), (turned, _) = plain[0], plain[-1]
    assert cut != turned
    cut.write_bytes(cut.read_bytes()[: its[-1].end - 3])
    data = bytearray(turned.read_bytes())
    data[70] ^= 4
    turned.write_bytes(data)
    return cut, turned


def test_segments_are_what_the_kafka_source_reads(written: Cluster, keys: Path, tmp_path: Path) -> None:
    """Transactions committed and aborted across segments; a copy cut off and with a byte turned."""
    files = copied(written, tmp_path / "copied")
    assert len(files) > len({file.parent for file in files}), "several segments a partition"
    broken = tmp_path / "broken"
    shutil.copytree(tmp_path / "copied", broken)
    cut, turned = damage(broken)
    steps = [
        {"do": "read", "servers": written.secure_servers, "to": str(tmp_path / "kafka")},
        {"do": "segments", "place": str(tmp_path / "copied"), "to": str(tmp_path / "segments")},
        {"do": "segments", "place": str(broken), "to": str(tmp_path / "rest")},
    ]
    secret = secure_listener.client_file(keys, "PLAIN")
    asked = {"warehouse": str(tmp_path / "warehouse"), "properties": secret, "steps": steps}
    with history_session.running("classic", asked, tmp_path) as process:
        plans, whole, part = (told(process) for _ in steps)
    by_kafka, by_segments, rest = (rows(tmp_path / name) for name in ("kafka", "segments", "rest"))
    assert_same(by_segments, by_kafka, ends(files))
    said = [each for row in by_segments.values() if (each := metadata(*row[1:])) is not None]
    assert said.count("committed") == PRODUCERS * ROUNDS // 2
    assert "aborted" not in said
    assert whole["damaged"] == []
    assert sorted(each["code"] for each in part["damaged"]) == ["corrupt", "cut-off"]
    assert {each["path"].removeprefix("file:") for each in part["damaged"]} == {str(cut), str(turned)}
    assert rest.items() < by_segments.items()
    log = (tmp_path / "session.log").read_text()
    for text in (plans["plans"], log):
        assert secure_listener.PASSWORD not in text
        assert "LoginModule required" not in text


def metadata(key: bytes, value: bytes | None) -> str | None:
    """Of a commit of the group that commits in transactions."""
    read = read_key(key)
    if read.name != "OffsetCommit" or read.fields["group"] != "hs-tx" or value is None:
        return None
    return str(read_value(read.type, value).fields["metadata"])


def test_what_a_broker_compresses_is_read(broker: Cluster) -> None:
    """In every codec: the broker makes new batches of what comes to a topic that has one."""
    topics = {f"hs.{codec}": codec for codec in NAMES[1:]}
    sent = [(f"k{number}".encode(), b"v" * number) for number in range(40)]
    with closing(broker.admin()) as admin:
        admin.create_topics(
            [NewTopic(topic, 1, 1, topic_configs={"compression.type": topics[topic]}) for topic in topics]
        )
        admin.wait_for_topics(list(topics))
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers)) as producer:
        for topic in topics:
            for key, value in sent:
                producer.send(topic, value, key)
    for topic, codec in topics.items():
        (file,) = broker.folder.glob(f"log-*/{topic}-0/*.log")
        data = file.read_bytes()
        batches = [each for each in log_segment.batches(data) if isinstance(each, Batch)]
        assert {each.attributes & 7 for each in batches} == {NAMES.index(codec)}
        records = [record for each in batches for record in log_segment.records(data, each)]
        assert [(record.key, record.value) for record in records] == sent
        assert [record.offset for record in records] == list(range(len(sent)))


def wait_for_batches(place: Path, number: int) -> None:
    """Until a stream has written so many more."""
    commits = place / CHECKPOINT / "commits"
    already = len(list(commits.glob("[0-9]*")))
    deadline = time.monotonic() + 120
    while len(list(commits.glob("[0-9]*"))) < already + number:
        assert time.monotonic() < deadline, f"{number} batches after {already}"
        time.sleep(0.02)


@pytest.mark.parametrize("kind", ["classic"])
def test_killed_again_and_again_each_record_is_there_once(written: Cluster, tmp_path: Path, kind: str) -> None:
    """Killed at random moments, from the first one on, while groups commit."""
    chance = random.Random(seed := fresh_seed())
    place = tmp_path / "history"
    follow = {"do": "stream", "servers": written.bootstrap_servers, "place": str(place)}
    asked: dict[str, Any] = {"warehouse": str(tmp_path / "warehouse")}
    with group_members.running(written, MEMBERS):
        for _ in range(KILLS):
            over_and_over = asked | {"steps": [follow | {"every": "500 milliseconds", "most_records": 60}]}
            with history_session.running(kind, over_and_over, tmp_path) as process:
                assert told(process) == {"started": str(place)}, seed
                wait_for_batches(place, chance.randrange(3))
                time.sleep(chance.uniform(0, 2))
    steps = [
        follow,
        {"do": "copy", "place": str(place), "to": str(tmp_path / "stored")},
        {"do": "read", "servers": written.bootstrap_servers, "to": str(tmp_path / "kafka")},
    ]
    with history_session.running(kind, asked | {"steps": steps}, tmp_path) as process:
        told(process)
        count = told(process)["rows"]
        told(process)
        told(process)
    stored = rows(tmp_path / "stored")
    assert len(stored) == count, seed
    assert len(stored) > 100
    assert_same(stored, rows(tmp_path / "kafka"), ends_of_stream(place / CHECKPOINT))


@pytest.mark.parametrize("kind", ["connect"])
def test_tables_and_what_is_left_out(written: Cluster, tmp_path: Path, kind: str) -> None:
    """Into a table of Delta, twice; into a folder without hosts and metadata: no byte of them is stored."""
    servers = written.bootstrap_servers
    table = {"do": "stream", "servers": servers, "place": "history", "table_format": "delta"}
    table["checkpoint"] = str(tmp_path / "checkpoint")
    empty = {"do": "stream", "servers": servers, "place": str(tmp_path / "empty")}
    steps = [
        table,
        table,
        {"do": "copy", "place": "history", "to": str(tmp_path / "stored")},
        {"do": "read", "servers": servers, "to": str(tmp_path / "kafka")},
        empty | {"without_hosts": True, "without_metadata": True},
    ]
    asked = {"warehouse": str(tmp_path / "warehouse"), "steps": steps}
    with history_session.running(kind, asked, tmp_path) as process:
        said = [told(process) for _ in range(8)]
    by_kafka = rows(tmp_path / "kafka")
    stored = rows(tmp_path / "stored")
    assert_same(stored, by_kafka, ends_of_stream(tmp_path / "checkpoint"))
    first, second, _ = [each["rows"] for each in said if "rows" in each]
    assert 100 < first <= second == len(stored)
    secrets = (b"127.0.0.1", b"committed")
    assert all(any(secret in value for *_, value in by_kafka.values() if value) for secret in secrets)
    files = [file for file in (tmp_path / "empty").rglob("*") if file.is_file()]
    assert files
    for file in files:
        data = file.read_bytes()
        assert not any(secret in data for secret in secrets), file
    emptied = rows(tmp_path / "empty")
    assert emptied.keys() >= by_kafka.keys()
    for place, (_, key_before, value_before) in by_kafka.items():
        _, key, value = emptied[place]
        assert key == key_before
        assert (value is None) == (value_before is None)
        assert value != b"", "all of them can be read"
