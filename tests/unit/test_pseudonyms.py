"""Snapshots with keyed hashes instead of hosts and ids."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobs import snapshot as job
from spark_assign.java.hash_map import java_key
from spark_assign.sources.connect.cluster_snapshot import ConnectRows, to_tables
from spark_assign.sources.files.pseudonyms import pseudonym, with_pseudonyms
from spark_assign.sources.files.snapshot import Snapshot, SnapshotRows

KEY = b"0123456789abcdef"
NOW = datetime(2026, 11, 27, tzinfo=UTC)
HOST = "10.1.2.3"
# 𐀀 is two UTF-16 units that sort before ﬀ, though its code point is larger.
MEMBERS = ("app-2-x", "app-10-y", "app-\U00010000", "app-\ufb00")


def kafka_snapshot() -> Snapshot:
    """A group of four members, one of them static, and a group with a member of the same id."""
    rows = SnapshotRows("c")
    for group, members in {"g": MEMBERS, "h": MEMBERS[:1]}.items():
        for member in members:
            host = f"/{HOST}"
            static = "static-1" if member == "app-2-x" else None
            rows.add(
                "members", group_id=group, member_id=member, group_instance_id=static, client_id="app", client_host=host
            )
            rows.add_owned(group, member, [("t", 0)])
        rows.add_subscriptions(group, {member: ["t"] for member in members})
    rows.add("undescribed", group_id="x", error=f"no connection to {HOST}:9092")
    return Snapshot("c", {"kind": "kafka", "bootstrap_servers": f"{HOST}:9092"}, NOW, rows.tables())


def connect_snapshot() -> Snapshot:
    """Two workers, of which one leads."""
    rows = ConnectRows("files")
    leader = f"http://{HOST}:8083-1"
    rows.add("clusters", leader=leader, group_id="connect-files", protocol="sessioned")
    for worker in (leader, f"http://{HOST}:8084-2"):
        rows.add("workers", worker_id=worker, url=f"http://{HOST}:8083", rest_worker_id=f"{HOST}:8083")
    rows.add("reported", worker_id=leader, kind="task", connector="copy", task=0)
    rows.add("state", candidates=[leader], members=[leader])
    return Snapshot("files", {"urls": {"files": [f"http://{HOST}:8083"]}}, NOW, to_tables([rows]))


def text_of(snapshot: Snapshot) -> str:
    """Everything that is stored of a snapshot."""
    tables = {name: table.to_pylist() for name, table in snapshot.tables.items()}
    return json.dumps([tables, snapshot.summary()], default=str, ensure_ascii=False)


@pytest.mark.parametrize("snapshot", [kafka_snapshot(), connect_snapshot()], ids=["Kafka", "Connect"])
def test_nothing_of_it_is_left(snapshot: Snapshot) -> None:
    """No host and no id; schemas, numbers of rows, and other values are as before."""
    hidden = with_pseudonyms(snapshot, KEY)
    assert HOST in text_of(snapshot)
    assert [word for word in (HOST, *MEMBERS, "static-1", '"app"') if word in text_of(hidden)] == []
    assert {n: t.schema for n, t in hidden.tables.items()} == {a: b.schema for a, b in snapshot.tables.items()}
    assert hidden.rows() == snapshot.rows()
    assert hidden.summary()["source"]["pseudonyms"] == pseudonym(KEY, "key")


def test_a_gap_stays_known() -> None:
    """Without it, `advise unused` would take the snapshot as one of all groups."""
    source = {"kind": "kafka", "groups": ["g*"], "unseen": f"no answer of {HOST}:9092", "topics": None}
    hidden = with_pseudonyms(replace(kafka_snapshot(), source=source), KEY).source
    text = "groups are missing; why was removed by --pseudonyms"
    assert hidden == {"kind": "kafka", "groups": ["g*"], "unseen": text, "pseudonyms": pseudonym(KEY, "key")}
    source |= {"groups": None, "unseen": None}
    hidden = with_pseudonyms(replace(kafka_snapshot(), source=source), KEY).source
    assert (hidden.get("groups"), hidden.get("unseen")) == (None, None)


def test_ids_keep_their_order_and_their_rows() -> None:
    """In Java's order of strings; the rank is within the group, and the hash is the same everywhere."""
    hidden = with_pseudonyms(kafka_snapshot(), KEY)
    members = hidden.tables["members"].to_pylist()
    found = {row["member_id"] for row in members if row["group_id"] == "g"}
    expected = [f"{rank:05d}-{pseudonym(KEY, member)}" for rank, member in enumerate(sorted(MEMBERS, key=java_key))]
    assert sorted(found) == expected
    assert expected[-1].endswith(pseudonym(KEY, "app-\ufb00"))
    assert [row["member_id"] for row in members if row["group_id"] == "h"] == [f"00000-{pseudonym(KEY, 'app-2-x')}"]
    lists = {row["group_id"]: row["member_ids"] for row in hidden.tables["subscription_lists"].to_pylist()}
    assert (
        set(lists["g"]) == found == {r["member_id"] for r in hidden.tables["owned_lists"].to_pylist()} - set(lists["h"])
    )
    instances = [row["group_instance_id"] for row in members]
    assert sorted(filter(None, instances)) == [f"00000-{pseudonym(KEY, 'static-1')}"] * 2


def test_a_hundred_thousand_ids_keep_their_order() -> None:
    """Ranks with different numbers of digits would sort otherwise."""
    rows, members = SnapshotRows("c"), [f"m{number:06}" for number in range(100_001)]
    rows.add("subscription_lists", group_id="g", member_ids=members, topics=["t"])
    tables = with_pseudonyms(Snapshot("c", {}, NOW, rows.tables()), KEY).tables
    (hidden,) = tables["subscription_lists"]["member_ids"].to_pylist()
    assert hidden == sorted(hidden)


def test_processes_of_streams_stay_uuids() -> None:
    """The classic protocol has no others; the leader's is the same in all tables."""
    process = "00000000-0000-0000-0000-00000000000a"
    rows = SnapshotRows("c")
    rows.add("members", group_id="g", member_id="m", process_id=process)
    rows.add("groups", group_id="g", leader_process_id=process.upper())
    tables = with_pseudonyms(Snapshot("c", {}, NOW, rows.tables()), KEY).tables
    (hidden,) = tables["members"]["process_id"].to_pylist()
    assert tables["groups"]["leader_process_id"].to_pylist() == [hidden]
    assert str(uuid.UUID(hidden)) == hidden != process


def test_workers_are_the_same_in_all_tables() -> None:
    """Also in lists, and as the leader."""
    tables = with_pseudonyms(connect_snapshot(), KEY).tables
    workers = tables["workers"]["worker_id"].to_pylist()
    (leader,) = tables["clusters"]["leader"].to_pylist()
    assert leader == workers[0] != workers[1]
    assert tables["reported"]["worker_id"].to_pylist() == [leader]
    found = tables["state"].select(["candidates", "members"]).to_pylist()
    assert found == [{"candidates": [leader], "members": [leader]}]


def test_another_key_gives_other_pseudonyms() -> None:
    """And nobody finds a value without the key."""
    one, other = (with_pseudonyms(kafka_snapshot(), key) for key in (KEY, KEY[::-1]))
    column = "client_host"
    assert set(one.tables["members"][column].to_pylist()).isdisjoint(other.tables["members"][column].to_pylist())
    assert text_of(with_pseudonyms(kafka_snapshot(), KEY)) == text_of(one)


def test_the_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The key is checked before anything is read, and isn't stored."""
    (tmp_path / "topics").write_text(
        "Topic: t\tPartitionCount: 1\n\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"
    )
    header = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n"
    (tmp_path / "groups").write_text(f"{header}g t 0 1 1 0 app-1-id /{HOST} app-1\n")
    files = ["--topics-file", str(tmp_path / "topics"), "--groups-file", str(tmp_path / "groups")]
    words = ["--from-text", "--cluster-name", "c", *files, "--fleet-dir", str(tmp_path / "fleet")]
    key = tmp_path / "key"
    words += ["--output-format", "json", "--pseudonyms", str(key)]
    assert job.main(words) == 2
    key.write_bytes(b"short\n")
    assert job.main(words) == 2
    assert [message for message in caplog.messages if "--pseudonyms" in message] == [
        f"snapshot: --pseudonyms {key} can't be read: No such file or directory.",
        f"snapshot: --pseudonyms {key}: the key has 5 bytes; expected at least 16. "
        "To make one: openssl rand -hex 32 > FILE",
    ]
    key.write_bytes(KEY + b"\n")
    assert job.main(words) == 0
    stored = "".join(file.read_text() for file in (tmp_path / "fleet").rglob("*") if file.is_file())
    assert pseudonym(KEY, f"/{HOST}") in stored
    assert [word for word in (HOST, "app-1", KEY.decode()) if word in stored] == []
