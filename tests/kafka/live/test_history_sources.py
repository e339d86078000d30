"""`__consumer_offsets` of a real cluster: read by the client, by Spark's Kafka source, from its log segments, followed
into locations, and by the job `history`.

The cluster is this module's own: its `__consumer_offsets` gets short segments, and nothing else writes to it.
"""

from __future__ import annotations

import json
import random
import re
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
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.protocol.admin import ListGroupsRequest

from spark_assign.sources.auth import properties as auth_properties
from spark_assign.sources.kafka import record_fetcher, records_folder
from spark_assign.sources.kafka.cluster_snapshot import snapshot
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.sources.kafka.offsets_topic import CHECKPOINT
from spark_assign.sources.kafka.records_folder import RecordsFolder, copy_records
from spark_assign.tables.groups import is_own_group
from spark_assign.wire.group_records import read_key, read_value
from spark_assign.wire.log_segment import Batch
from spark_assign.wire.segment_records import NAMES, read_batch
from tests.kafka import broker as kafka_broker
from tests.kafka import group_members, history_session, java_programs, maven, secure_listener
from tests.kafka.broker import Cluster
from tests.kafka.group_members import Consumer
from tests.kafka.history_session import Session
from tests.kafka.live_groups import PATIENCE_S, create_topics, wait_until
from tests.unit.test_log_segment import batches_in

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC, GROUP = "hs.orders", "hs-classic"
PRODUCERS, ROUNDS, OPEN_MS = 3, 8, 500
# Segments are as short as transactions, and the cleaner does not compact while copies are compared.
CONFIGS = {"segment.ms": "1500", "min.compaction.lag.ms": "3600000"}
ONE = Consumer(GROUP, "hs-1", (TOPIC,), "range", commit_every_ms=200)
MEMBERS = [ONE, replace(ONE, client_id="hs-2"), Consumer("hs-consumer", "hs-3", (TOPIC,), None, "consumer")]

Rows = dict[tuple[int, int], tuple[Any, ...]]
"""Timestamp, key and value of records by partition and offset."""


@pytest.fixture(scope="module", autouse=True)
def _jars() -> None:
    """The jars are those for one release of Spark."""
    release = ".".join(pyspark.__version__.split(".")[:2])
    if release != maven.FORMATS_FOR_SPARK:
        pytest.skip(f"the jars are for Spark {maven.FORMATS_FOR_SPARK}, this is {release}")


@pytest.fixture(scope="module")
def cluster(kafka_jars: str, keys: Path) -> Iterator[Cluster]:
    """A cluster of one broker, also behind TLS and SASL."""
    with kafka_broker.cluster(kafka_jars, secure=secure_listener.properties(keys)) as started:
        yield started


@pytest.fixture(scope="module")
def written(cluster: Cluster) -> Cluster:
    """The cluster after groups have committed, also in transactions."""
    create_topics(cluster, {TOPIC: 6})
    with cluster.admin() as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "__consumer_offsets", CONFIGS)])
    transactional = (cluster.bootstrap_servers, TOPIC, "hs-tx", PRODUCERS, ROUNDS, OPEN_MS)
    command = java_programs.command("OffsetTransactions", cluster.class_path, *transactional)
    transactions = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    with group_members.running(cluster, MEMBERS):
        assert transactions.wait(PATIENCE_S) == 0
        group_members.wait_until_settled(cluster, {GROUP: 2, "hs-consumer": 1})
    return cluster


@pytest.fixture(scope="module")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session of Spark that all tests without Spark Connect share."""
    with history_session.running("classic", tmp_path_factory.mktemp("spark") / "classic") as session:
        yield session


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session of Spark Connect, with a server of its own."""
    with history_session.running("connect", tmp_path_factory.mktemp("connect") / "connect") as session:
        yield session


def copied(broker: Cluster, to: Path) -> list[Path]:
    """Copies the log segments of all brokers as they stand, and returns the copies."""
    for log in broker.folder.glob("log-*"):
        for folder in log.glob("__consumer_offsets-*"):
            (to / log.name / folder.name).mkdir(parents=True)
            for file in folder.glob("*.log"):
                shutil.copyfile(file, to / log.name / folder.name / file.name)
    return sorted(to.rglob("*.log"))


def rows(folder: Path) -> Rows:
    """Returns the records in Parquet files, each of which must be there once."""
    table = pa.concat_tables(pq.read_table(file) for file in folder.glob("*.parquet"))
    # Spark writes timestamps without a time zone, in UTC.
    table = table.set_column(0, "at", table["timestamp"].cast(pa.timestamp("us")))
    columns = [table[name].to_pylist() for name in ("partition", "offset", "at", "key", "value")]
    found = {(partition, offset): tuple(rest) for partition, offset, *rest in zip(*columns, strict=True)}
    assert len(found) == table.num_rows, "a record twice"
    return found


def ends(files: Iterable[Path]) -> dict[int, int]:
    """Returns the last copied offset of each partition: groups, also those of Spark's readers, write after the copy."""
    found: dict[int, int] = {}
    for file in files:
        partition = int(file.parent.name.rpartition("-")[2])
        for each in batches_in(file.read_bytes()):
            assert isinstance(each, Batch), f"{file}: {each}"
            found[partition] = max(found.get(partition, -1), each.last_offset)
    return found


def ends_of_stream(checkpoint: Path) -> dict[int, int]:
    """Returns the last offset of each partition that a stream has read."""
    newest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    until = json.loads(newest.read_text().splitlines()[-1])["__consumer_offsets"]
    return {int(partition): end - 1 for partition, end in until.items()}


def assert_same(found: Rows, by_kafka: Rows, copied_to: dict[int, int]) -> None:
    """Checks that both have the same records up to where the copy ends."""
    copied = {place: row for place, row in by_kafka.items() if place[1] <= copied_to.get(place[0], -1)}
    assert found == copied


def damage(folder: Path) -> tuple[Path, Path]:
    """Cuts one file off and changes a byte of another one, both in batches that belong to no transaction."""
    plain = []
    for file in sorted(folder.rglob("*.log")):
        batches = [each for each in batches_in(file.read_bytes()) if isinstance(each, Batch)]
        if len(batches) > 1 and not any(each.transactional for each in batches):
            plain.append((file, batches))
    (cut, its), (turned, _) = plain[0], plain[-1]
    assert cut != turned
    cut.write_bytes(cut.read_bytes()[: its[-1].end - 3])
    data = bytearray(turned.read_bytes())
    data[70] ^= 4
    turned.write_bytes(data)
    return cut, turned


def metadata(key: bytes, value: bytes | None) -> str | None:
    """Returns the metadata of a commit of the group that commits in transactions, and None for other records."""
    read = read_key(key)
    if read.name != "OffsetCommit" or read.fields["group"] != "hs-tx" or value is None:
        return None
    return str(read_value(read.type, value).fields["metadata"])


def group_ids(broker: Cluster) -> set[str]:
    """All groups of the cluster, also those that a snapshot leaves out."""
    with ClusterConnection(broker.bootstrap_servers, {}) as connection:
        responses = connection.send_all([(each, ListGroupsRequest()) for each in connection.brokers()])
    return {group.group_id for response in responses for group in response.groups}


def test_the_client_reads_what_the_kafka_source_reads(
    written: Cluster, classic: Session, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in small pieces, in which batches are cut and transactions are split, and in two runs. It leaves no group,
    and those that Spark leaves are in no snapshot.
    """
    groups = group_ids(written)
    properties = auth_properties.parse(secure_listener.client_file(keys, "PLAIN"))
    copy_records(written.secure_servers, "live", tmp_path / "at-once", properties=properties)
    with monkeypatch.context() as small:
        for name in ("_PARTITION_BYTES", "_RESPONSE_BYTES"):
            small.setattr(record_fetcher, name, 900)
        small.setattr(records_folder, "_FILE_BYTES", 2000)
        first = copy_records(written.bootstrap_servers, "live", tmp_path / "pieces")
    with group_members.running(written, [ONE]):
        group_members.wait_until_settled(written, {GROUP: 1})
    second = copy_records(written.bootstrap_servers, "live", tmp_path / "pieces")
    assert group_ids(written) == groups
    classic.run("read", servers=written.bootstrap_servers, to=str(tmp_path / "kafka"))
    by_kafka, at_once, pieces = (rows(tmp_path / name) for name in ("kafka", "at-once", "pieces"))
    end = RecordsFolder(tmp_path / "pieces", "live").positions
    assert_same(pieces, by_kafka, {partition: offset - 1 for partition, offset in end.items()})
    assert second > 0
    assert first > 100
    assert len(pieces) == first + second
    assert len(list((tmp_path / "pieces").iterdir())) > 5
    end = RecordsFolder(tmp_path / "at-once", "live").positions
    assert_same(at_once, by_kafka, {partition: offset - 1 for partition, offset in end.items()})
    assert len(at_once) == first
    left_by_spark = group_ids(written) - groups
    assert left_by_spark
    assert all(map(is_own_group, left_by_spark))
    assert not set(snapshot(written.bootstrap_servers).tables["groups"]["group_id"].to_pylist()) & left_by_spark


def test_segments_are_what_the_kafka_source_reads(
    written: Cluster, classic: Session, keys: Path, tmp_path: Path
) -> None:
    """Transactions are committed and aborted across segments; one copy is cut off, and has a changed byte."""
    files = copied(written, tmp_path / "copied")
    assert len(files) > len({file.parent for file in files}), "several segments a partition"
    broken = tmp_path / "broken"
    shutil.copytree(tmp_path / "copied", broken)
    cut, changed = damage(broken)
    secret = secure_listener.client_file(keys, "PLAIN")
    plans = classic.run("read", servers=written.secure_servers, to=str(tmp_path / "kafka"), properties=secret)
    whole = classic.run("segments", location=str(tmp_path / "copied"), to=str(tmp_path / "segments"))
    part = classic.run("segments", location=str(broken), to=str(tmp_path / "rest"))
    by_kafka, by_segments, rest = (rows(tmp_path / name) for name in ("kafka", "segments", "rest"))
    assert_same(by_segments, by_kafka, ends(files))
    found = [each for row in by_segments.values() if (each := metadata(*row[1:])) is not None]
    assert found.count("committed") == PRODUCERS * ROUNDS // 2
    assert "aborted" not in found
    assert whole["damaged"] == []
    code = "cut-off" if cut == max(cut.parent.glob("*.log")) else "corrupt"  # only the last one was being written
    assert sorted(each["code"] for each in part["damaged"]) == ["corrupt", code]
    assert {each["path"].removeprefix("file:") for each in part["damaged"]} == {str(cut), str(changed)}
    assert rest.items() < by_segments.items()
    for text in (plans["plans"], classic.log.read_text()):
        assert secure_listener.PASSWORD not in text
        assert "LoginModule required" not in text


def test_what_a_broker_compresses_is_read(cluster: Cluster) -> None:
    """The broker compresses again what comes to a topic with another codec; each codec is read."""
    topics = {f"hs.{codec}": codec for codec in NAMES[1:]}
    sent = [(f"k{number}".encode(), b"v" * number) for number in range(40)]
    for topic, codec in topics.items():
        create_topics(cluster, {topic: 1}, {"compression.type": codec})
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)) as producer:
        for topic in topics:
            for key, value in sent:
                producer.send(topic, value, key)
    for topic, codec in topics.items():
        (file,) = cluster.folder.glob(f"log-*/{topic}-0/*.log")
        data = file.read_bytes()
        batches = [each for each in batches_in(data) if isinstance(each, Batch)]
        assert {each.attributes & 7 for each in batches} == {NAMES.index(codec)}
        records = [record for each in batches for record in read_batch(data, each)]
        assert [(record.key, record.value) for record in records] == sent
        assert [record.offset for record in records] == list(range(len(sent)))


def test_tables_and_what_is_left_out(written: Cluster, connect: Session, tmp_path: Path) -> None:
    """By Spark Connect into a Delta table, twice; and into a folder whose files have no byte of hosts and metadata."""
    servers, checkpoint = written.bootstrap_servers, tmp_path / "checkpoint"
    table = {"servers": servers, "location": "history", "table_format": "delta", "checkpoint": str(checkpoint)}
    bare = {"location": str(tmp_path / "bare"), "without_hosts": True, "without_metadata": True}
    first, second = (connect.run("stream", **table)["rows"] for _ in range(2))
    connect.run("copy", location="history", to=str(tmp_path / "stored"))
    connect.run("read", servers=servers, to=str(tmp_path / "kafka"))
    connect.run("stream", servers=servers, **bare)
    by_kafka = rows(tmp_path / "kafka")
    stored = rows(tmp_path / "stored")
    assert_same(stored, by_kafka, ends_of_stream(checkpoint))
    assert 100 < first <= second == len(stored)
    secrets = (b"127.0.0.1", b"committed")
    assert all(any(secret in value for *_, value in by_kafka.values() if value) for secret in secrets)
    files = [file for file in (tmp_path / "bare").rglob("*") if file.is_file()]
    assert files
    for file in files:
        data = file.read_bytes()
        assert not any(secret in data for secret in secrets), file
    without = rows(tmp_path / "bare")
    assert without.keys() >= by_kafka.keys()
    for place, (_, key_before, value_before) in by_kafka.items():
        _, key, value = without[place]
        assert key == key_before
        assert (value is None) == (value_before is None)
        assert value != b"", "all of them can be read"


def wait_for_batches(location: Path, count: int) -> None:
    """Waits until a stream has begun and has written `count` batches."""
    checkpoint = location / CHECKPOINT
    wait_until(
        lambda: (checkpoint / "metadata").exists() and len(list((checkpoint / "commits").glob("[0-9]*"))) >= count,
        f"{count} batches",
        every_s=0.02,
    )


def test_a_killed_stream_stores_each_record_once(
    written: Cluster, classic: Session, connect: Session, tmp_path: Path, seed: int
) -> None:
    """The process is killed at a random moment of a random batch, from the first one on, while groups commit. So this
    is the last test of its session.
    """
    chance = random.Random(seed)
    location = tmp_path / "history"
    follow = {"servers": written.bootstrap_servers, "location": str(location)}
    with group_members.running(written, MEMBERS):
        connect.begin("stream", **follow, interval="500 milliseconds", max_records=60)
        wait_for_batches(location, chance.randrange(4))
        time.sleep(chance.uniform(0, 1))  # A moment, not a fact: any point of the batch will do.
        connect.kill()
    count = classic.run("stream", **follow)["rows"]
    classic.run("copy", location=str(location), to=str(tmp_path / "stored"))
    classic.run("read", servers=written.bootstrap_servers, to=str(tmp_path / "kafka"))
    stored = rows(tmp_path / "stored")
    assert len(stored) == count
    assert len(stored) > 100
    assert_same(stored, rows(tmp_path / "kafka"), ends_of_stream(location / CHECKPOINT))


# --- the job ------------------------------------------------------------------------------------------------


def printed_in(session: Session, *arguments: str) -> str:
    """Returns what the job prints in a session that has the jars."""
    done = session.run("job", arguments=arguments)
    assert done["code"] == 0, session.log.read_text(errors="replace")[-3000:]
    return str(done["printed"])


def test_the_job_reads_a_cluster(written: Cluster, classic: Session) -> None:
    """The name of the cluster is its own id; the job prints the group's generations."""
    words = ("--bootstrap-server", written.bootstrap_servers, "--details", GROUP, "-o", "json")
    document = json.loads(printed_in(classic, *words))
    (name,) = {row["cluster"] for rows in document["tables"].values() for row in rows}
    assert re.fullmatch(r"[\w-]{22}", name)
    assert document["summary"].startswith(f"{GROUP}: classic group, range")
    assert "rebalance" in document["summary"]
    assert "first on record" in document["summary"]


@pytest.fixture(scope="module")
def followed(written: Cluster, classic: Session, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the job has followed the cluster once."""
    folder = tmp_path_factory.mktemp("followed") / "records"
    into = ("--cluster-name", "live", "--follow", "--archive", str(folder))
    output = printed_in(classic, "--bootstrap-server", written.bootstrap_servers, *into)
    printed = re.fullmatch(r"history: ([\d,]+) records written to .*\n", output)
    assert printed is not None
    assert int(printed[1].replace(",", "")) == len(rows(folder))
    return folder


def test_the_job_follows_a_cluster(followed: Path) -> None:
    """The folder has the generations of the group, under the cluster's name."""
    keys = [read_key(key) for _, key, _ in rows(followed).values()]
    assert any((key.name, key.fields.get("group")) == ("GroupMetadata", GROUP) for key in keys)
    assert pq.read_table(followed)["cluster"].unique().to_pylist() == ["live"]


def test_the_job_reads_what_it_followed(followed: Path, classic: Session) -> None:
    """The folder is read as a history."""
    printed = printed_in(classic, "--records", str(followed), "--details", GROUP)
    assert printed.startswith(f"{GROUP}: classic group, range")
