"""Members of the groups that Kafka 4 has brought, as their heartbeats show them: consumer, share and streams groups."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kafka import group_members, heartbeats, streams_members
from tests.kafka.broker import Cluster
from tests.kafka.group_members import Consumer
from tests.kafka.heartbeats import Heartbeat
from tests.kafka.live_groups import create_topics, events, wait_until
from tests.kafka.streams_members import Instance

pytestmark = pytest.mark.kafka

TOPICS = {"n.a": 4, "n.b": 3}
JOINS, LEAVES = 0, -1


@pytest.fixture(scope="module")
def cluster(broker: Cluster) -> Cluster:
    """The three brokers, with two topics and groups that are quick."""
    create_topics(broker, TOPICS)
    for kind, more in (("consumer", {}), ("share", {}), ("streams", {"streams.num.standby.replicas": "1"})):
        times = {f"{kind}.heartbeat.interval.ms": "500", f"{kind}.session.timeout.ms": "6000"}
        broker.configure_group(f"n-{kind}", times | more)
    return broker


def _of(cluster: Cluster, group: str, client_id: str) -> list[Heartbeat]:
    return [each for each in heartbeats.heartbeats(cluster, group) if each.client_id.startswith(client_id)]


def _epochs(cluster: Cluster, group: str, client_id: str) -> list[int]:
    return [each.request["memberEpoch"] for each in _of(cluster, group, client_id)]


def _given(heartbeat: Heartbeat) -> int:
    """How many partitions the answer assigns; -1 if it says nothing of them."""
    assigned = heartbeat.answer["assignment"]
    return -1 if assigned is None else sum(len(topic["partitions"]) for topic in assigned["topicPartitions"])


def _calls(event_file: Path) -> list[tuple[str, str]]:
    """The calls of rebalance listeners with at least one partition: the client and the event."""
    return [(call["client_id"], call["event"]) for call in events([event_file]) if call["partitions"]]


def test_a_consumer_that_does_not_poll_leaves(cluster: Cluster, tmp_path: Path) -> None:
    """It says so itself, loses what it had, and joins again when it polls; one that is killed says nothing."""
    event_file = tmp_path / "events"
    first = Consumer("n-consumer", "c0", tuple(TOPICS), "uniform", "consumer", max_poll_interval_ms=8000)
    second = Consumer("n-consumer", "c1", tuple(TOPICS), "uniform", "consumer")
    with heartbeats.logged(cluster), group_members.running(cluster, [first], event_file) as process:
        wait_until(lambda: _calls(event_file), "the first call")
        group_members.order(process, "pause", [first])
        wait_until(lambda: LEAVES in _epochs(cluster, "n-consumer", "c0"), "c0 leaves")
        with group_members.running(cluster, [second]) as killed:
            wait_until(lambda: 7 in map(_given, _of(cluster, "n-consumer", "c1")), "c1 gets all")
            killed.kill()
            group_members.order(process, "resume", [first])
            wait_until(lambda: [*map(_given, _of(cluster, "n-consumer", "c0"))].count(7) == 2, "c0 gets all again")
            # The answer is logged before the listener is called, which may also be called with no partitions.
            wait_until(lambda: _calls(event_file).count(("c0", "assigned")) == 2, "the second call")
    assert _epochs(cluster, "n-consumer", "c0").count(JOINS) == 2
    assert LEAVES not in _epochs(cluster, "n-consumer", "c1")
    assert _calls(event_file)[:3] == [("c0", "assigned"), ("c0", "lost"), ("c0", "assigned")], event_file.read_text()
    assert _calls(event_file)[-1] == ("c0", "revoked"), "closes in the end"


def test_share_consumers(cluster: Cluster) -> None:
    """Each of two members gets half of four partitions, and all of them when the other one has left."""
    members = [Consumer("n-share", f"s{number}", ("n.a",), protocol="share") for number in range(2)]
    with heartbeats.logged(cluster), group_members.running(cluster, members) as process:
        for each in ("s0", "s1"):
            wait_until(lambda each=each: 2 in map(_given, _of(cluster, "n-share", each)), f"{each} gets two")
        group_members.leave(process, members[:1])
        wait_until(lambda: _given_last(_of(cluster, "n-share", "s1")) == 4, "s1 gets all")
    assert _epochs(cluster, "n-share", "s0")[-1] == LEAVES


def _given_last(beats: list[Heartbeat]) -> int:
    given = [_given(each) for each in beats]
    return next((count for count in reversed(given) if count >= 0), -1)


def test_streams_applications(cluster: Cluster, tmp_path: Path) -> None:
    """A subtopology without state, one with; a standby is never where its task is active."""
    event_file = tmp_path / "events"
    instances = [
        Instance("n-streams", f"i{number}", str(tmp_path / f"state-{number}"), ("n.a",), ("n.b",))
        for number in range(2)
    ]

    def tasks(role: str) -> dict[str, set[str]]:
        return {row["client_id"]: set(row[role]) for row in events([event_file]) if row["event"] == "tasks"}

    every = {f"0_{number}" for number in range(4)} | {f"1_{number}" for number in range(3)}
    with heartbeats.logged(cluster), streams_members.running(cluster, instances[:1], event_file) as process:
        wait_until(lambda: tasks("active").get("i0") == every, "i0 has all tasks")
        streams_members.start(process, instances[1:])
        stateful = {"1_0", "1_1", "1_2"}
        wait_until(
            lambda: set.union(*tasks("standby").values()) == stateful and _apart(tasks("active"), every), "both share"
        )
        active, standby = tasks("active"), tasks("standby")
    assert all(len(mine) in (3, 4) for mine in active.values())
    assert not any(active[client] & standby[client] for client in active)
    [topology] = {json.dumps(each.request["topology"]) for each in _of(cluster, "n-streams", "i1")} - {"null"}
    assert [each["subtopologyId"] for each in json.loads(topology)["subtopologies"]] == ["0", "1"]


def _apart(active: dict[str, set[str]], every: set[str]) -> bool:
    """Whether two share all tasks among them, and none twice."""
    return len(active) == 2 and set.union(*active.values()) == every and not set.intersection(*active.values())
