"""The snapshot holds exactly what was set up: classic, static, racks, patterns, KIP-848, no members, lag."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from kafka import KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition

from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.sources.kafka import groups as kafka_groups
from spark_assign.sources.kafka.cluster_snapshot import snapshot
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.tables.errors import SourceError
from spark_assign.tables.groups import SNAPSHOT_TABLES
from tests.docs import pages
from tests.docs.terminal import Line
from tests.kafka import documented, group_members
from tests.kafka.broker import Cluster
from tests.kafka.group_members import Consumer
from tests.kafka.live_groups import create_topics
from tests.slices import by_owner
from tests.snapshots import owned_slices, subscriptions

pytestmark = pytest.mark.kafka

CONSUMERS = [
    Consumer("s-range", "r0", ("s.one", "s.two"), "range", rack="rack-a"),
    Consumer("s-range", "r1", ("s.two",), "range"),
    Consumer("s-static", "w0", ("s.two",), "roundrobin", instance_id="worker-0"),
    Consumer("s-static", "w1", ("s.two",), "roundrobin", instance_id="worker-1"),
    Consumer("s-kip848", "k0", ("s.one",), protocol="consumer", rack="rack-b"),
    Consumer("s-kip848", "k1", regex=r"s\.t.*", protocol="consumer", instance_id="k-1"),
]
SIZES = {"s-range": 2, "s-static": 2, "s-kip848": 2, "s-sticky": 2, "s-coop": 2}
FIRST_STICKY, LATER_STICKY = (
    [Consumer("s-sticky", f"y{n}", ("s.two",), "sticky"), Consumer("s-coop", f"c{n}", ("s.two",), "cooperative-sticky")]
    for n in range(2)
)


@pytest.fixture(scope="module")
def taken(broker: Cluster) -> Iterator[Snapshot]:
    create_topics(broker, {"s.one": (3, 3), "s.two": (8, 2), "s.other": 1})
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for _ in range(7):
        producer.send("s.one", b"x", partition=1)
    producer.close()
    with broker.admin() as admin:
        admin.alter_group_offsets("s-empty", {TopicPartition("s.one", 1): OffsetAndMetadata(3, "", -1)})
    with group_members.running(broker, CONSUMERS + FIRST_STICKY):
        group_members.wait_until_settled(broker, SIZES | {"s-sticky": 1, "s-coop": 1})
        with group_members.running(broker, LATER_STICKY):
            group_members.wait_until_settled(broker, SIZES)
            yield snapshot(broker.bootstrap_servers, groups="s-*", topics="s.*")


def _rows(taken: Snapshot, table: str, group: str | None = None) -> list[dict[str, Any]]:
    rows = taken.tables[table].to_pylist()
    return [row for row in rows if group in (None, row.get("group_id"))]


def _slices(taken: Snapshot, group: str) -> list[dict[str, Any]]:
    return owned_slices({"owned_lists": _rows(taken, "owned_lists", group)})


def _owned(taken: Snapshot, group: str) -> dict[str, list[tuple[str, int]]]:
    owned = by_owner(_slices(taken, group), "member_id")
    members = _rows(taken, "members", group)
    return {member["client_id"]: sorted(owned.get(member["member_id"], ())) for member in members}


def test_brokers_and_topics(broker: Cluster, taken: Snapshot) -> None:
    """Racks, partition counts, replicas with the preferred leader first."""
    assert [(row["broker_id"], row["rack_id"]) for row in _rows(taken, "brokers")] == [
        (1, "rack-a"),
        (2, "rack-b"),
        (3, "rack-c"),
    ]
    topics = {row["topic"]: row["partitions"] for row in _rows(taken, "topics")}
    assert topics == {"s.one": 3, "s.two": 8, "s.other": 1}
    with broker.admin() as admin:
        described = admin.describe_topics(list(topics))
    replicas = {(row["topic"], row["partition"]): row["replicas"] for row in _rows(taken, "replicas")}
    assert replicas == {
        (topic["name"], partition["partition_index"]): partition["replica_nodes"]
        for topic in described
        for partition in topic["partitions"]
    }


def test_groups(taken: Snapshot) -> None:
    """Every group with its type, state and the assignor that it runs with."""
    groups = {r["group_id"]: (r["group_type"], r["state"], r["assignor"]) for r in _rows(taken, "groups")}
    assert groups == {
        "s-range": ("classic", "Stable", "range"),
        "s-static": ("classic", "Stable", "roundrobin"),
        "s-sticky": ("classic", "Stable", "sticky"),
        "s-coop": ("classic", "Stable", "cooperative-sticky"),
        "s-kip848": ("consumer", "Stable", "uniform"),
        "s-empty": ("classic", "Empty", None),
    }
    assert _rows(taken, "undescribed") == []


def test_members(taken: Snapshot) -> None:
    """Instance ids, client ids, hosts, racks; each row of the other tables has its member."""
    members = {r["client_id"]: (r["group_id"], r["group_instance_id"], r["rack_id"]) for r in _rows(taken, "members")}
    assert members == {
        "r0": ("s-range", None, "rack-a"),
        "r1": ("s-range", None, None),
        "w0": ("s-static", "worker-0", None),
        "w1": ("s-static", "worker-1", None),
        "k0": ("s-kip848", None, "rack-b"),
        "k1": ("s-kip848", "k-1", None),
        "y0": ("s-sticky", None, None),
        "y1": ("s-sticky", None, None),
        "c0": ("s-coop", None, None),
        "c1": ("s-coop", None, None),
    }
    assert {row["client_host"] for row in _rows(taken, "members")} == {"/127.0.0.1"}
    keys = {(row["group_id"], row["member_id"]) for row in _rows(taken, "members")}
    for rows in (
        _rows(taken, "owned_lists"),
        subscriptions({"subscription_lists": _rows(taken, "subscription_lists")}),
    ):
        assert {(row["group_id"], row["member_id"]) for row in rows} <= keys
    for group in SIZES:
        assert sorted(row["position"] for row in _rows(taken, "members", group)) == [0, 1]


def test_subscriptions(taken: Snapshot) -> None:
    """By name and, in a KIP-848 group, by a pattern that the broker resolves."""
    clients = {row["member_id"]: row["client_id"] for row in _rows(taken, "members")}
    subscribed: dict[str, set[str]] = {}
    for row in subscriptions({"subscription_lists": _rows(taken, "subscription_lists")}):
        subscribed.setdefault(clients[row["member_id"]], set()).add(row["topic"])
    assert subscribed["r0"] == {"s.one", "s.two"}
    assert subscribed["r1"] == {"s.two"}
    assert subscribed["k0"] == {"s.one"}
    assert subscribed["k1"] == {"s.two"}
    assert subscribed["y1"] == {"s.two"}


def test_ownership(taken: Snapshot) -> None:
    """What each member has now; a round robin is a run with a step."""
    assert _owned(taken, "s-kip848") == {
        "k0": [("s.one", partition) for partition in range(3)],
        "k1": [("s.two", partition) for partition in range(8)],
    }
    runs = {(run["first"], run["step"], run["count"]) for run in _slices(taken, "s-static")}
    assert runs == {(0, 2, 4), (1, 2, 4)}
    for group in ("s-range", "s-sticky", "s-coop"):
        owned = [partition for partitions in _owned(taken, group).values() for partition in partitions]
        assert sorted(p for topic, p in owned if topic == "s.two") == list(range(8))


def test_generations(taken: Snapshot) -> None:
    """Who was there before the newcomer carries a generation, the newcomer of an eager group none."""
    of_client = {row["client_id"]: row for row in _rows(taken, "members")}
    assert of_client["y0"]["generation_id"] >= 1
    assert of_client["y1"]["generation_id"] is None
    # The old member's user data carries the same generation.
    assert of_client["y0"]["user_data_generation_id"] is None
    # A cooperative newcomer has its partitions from a second rebalance, in which it carries one too.
    assert of_client["c0"]["generation_id"] >= 1
    assert of_client["k0"]["generation_id"] >= 1


def test_offsets(taken: Snapshot) -> None:
    """Committed, end and lag; a partition that is owned but never committed has an end only."""
    assert [(r["topic"], r["partition"], r["committed_offset"], r["end_offset"], r["lag"])
            for r in _rows(taken, "offsets", "s-empty")] == [("s.one", 1, 3, 7, 4)]  # fmt: skip
    owned = {(r["topic"], r["partition"]): r for r in _rows(taken, "offsets", "s-kip848")}
    assert len(owned) == 11
    never = owned["s.one", 1]
    assert (never["committed_offset"], never["end_offset"], never["lag"]) == (None, 7, None)


def test_brokers_before_3_0(broker: Cluster, taken: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    """OffsetFetch below version 8 knows one group a request: the same offsets."""
    monkeypatch.setattr(ClusterConnection, "newest", lambda *_: 7)
    old = snapshot(broker.bootstrap_servers, groups="s-*", topics="s.*")
    assert old.tables["offsets"].equals(taken.tables["offsets"])


def test_a_used_topic_stays_whatever_the_pattern(broker: Cluster, taken: Snapshot) -> None:
    """A plan of the groups that were read needs all their topics."""
    some = snapshot(broker.bootstrap_servers, cluster="named", groups="s-kip*", topics="nothing.*")
    assert {row["topic"] for row in _rows(some, "topics")} == {"s.one", "s.two"}
    assert {row["cluster"] for table in some.tables for row in _rows(some, table)} == {"named"}
    assert set(some.tables) == set(SNAPSHOT_TABLES)


def test_the_tools_text_says_the_same(
    broker: Cluster, taken: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The documented commands: Kafka's own tools describe the same cluster, their text is read, likewise the cluster.

    Same topics, assignors, owners, offsets.
    """
    monkeypatch.chdir(tmp_path)
    for step in documented.steps("test_snapshot_of_cluster", "kafka-*"):
        documented.run_tool(step, broker, {})
    found = {}
    for step in documented.steps("test_snapshot_of_cluster", "./spark-* snapshot *"):
        seen = documented.run_job(step, broker, {"./fleet": f"./{len(found)}"})
        source = "text" if "--from-text" in step.words else "cluster"
        if source == "cluster":
            assert _without_figures(seen.lines) == _without_figures(
                map(Line, pages.block("docs/snapshot.md", "02:31:53"))
            )
        files = (tmp_path / str(len(found))).glob("cluster=*/taken=*/*.parquet")
        found[source] = {file.stem: pq.read_table(file, partitioning=None).to_pylist() for file in files}
    assert set(found) == {"cluster", "text"}
    for name, tables in found.items():
        for table in ("topics", "replicas", "owned_lists", "offsets"):
            mine = "group_id" if table in ("owned_lists", "offsets") else "topic"
            rows = [_row(each) for each in tables[table] if each[mine].startswith(("s-", "s."))]
            wanted = [_row(each) for each in _rows(taken, table)]
            if name == "text" and table in ("topics", "replicas"):  # the tools don't print policies and end offsets
                wanted = [each | dict.fromkeys({"cleanup_policy", "end_offset"} & {*each}) for each in wanted]
            assert sorted(rows, key=str) == sorted(wanted, key=str), (name, table)
        assignors = {row["group_id"]: row["assignor"] for row in tables["groups"] if row["group_id"].startswith("s-")}
        assert assignors == {row["group_id"]: row["assignor"] for row in _rows(taken, "groups")}, name


def _without_figures(lines: Iterable[Line]) -> list[str]:
    """What is said, of a cluster of any name and size, in any batches; docs/snapshot.md has the sample fleet.

    Share and streams groups are there or not, as other tests have left some.
    """
    texts = [
        re.sub(r"\d+", "0", line.text) for line in lines if not re.match(r"\S+ .*(share|streams) groups", line.text)
    ]
    plain = [re.sub(r"^\S+: (?=0 topics)|(?<=written to )\S+", "", text) for text in texts]
    return [text for text, _ in groupby(plain)]


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """Without the name of the cluster."""
    return {name: value for name, value in row.items() if name != "cluster"}


def test_a_group_that_fails_is_listed_and_stops_nothing(
    broker: Cluster, taken: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member with bytes that are no subscription: its group is undescribed, the others are all there."""
    decode = kafka_groups.consumer_protocol.subscription

    def damaged(data: bytes, *, accept_cut_short: bool) -> Any:
        subscription = decode(data, accept_cut_short=accept_cut_short)
        return subscription if subscription.topics != ("s.one", "s.two") else decode(data[:-20])

    monkeypatch.setattr(kafka_groups.consumer_protocol, "subscription", damaged)
    some = snapshot(broker.bootstrap_servers, groups="s-*")
    (row,) = _rows(some, "undescribed")
    assert row["group_id"] == "s-range"
    assert row["error"].startswith("WireError: member r0-")
    assert _rows(some, "members", "s-range") == []
    assert len(_rows(some, "groups")) == 6
    assert len(_rows(some, "members", "s-static")) == 2


def test_nobody_there() -> None:
    """The error names the address and the remedy."""
    with pytest.raises(SourceError, match=r"127\.0\.0\.1:1\b.*--bootstrap-server"):
        snapshot("127.0.0.1:1", connect_timeout_s=1)
