"""Predicted = actual in a rolling restart: two groups of three Java consumers, alike but for their instance ids, are
restarted member by member, once with members away for a moment and once for longer. How many rebalances follow is
exactly as `advice.kernel.membership` says from the first snapshot; which of the two pauses more, and about how much,
too."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

from spark_assign.advice.kernel.membership import OPTION_ROW, advise_membership
from spark_assign.advice.kernel.membership_modes import MembershipParams
from spark_assign.advice.membership import MEMBERSHIP_ROWS
from spark_assign.groups.kernel.tagged_rows import rows_of_tables
from spark_assign.simulation.facts import facts_of_rows
from spark_assign.simulation.kernel.settings import TimingConfig
from spark_assign.simulation.kernel.simulation_input import TABLES
from spark_assign.sources.kafka.cluster_snapshot import snapshot
from spark_assign.spark.dataframes import to_arrow_schema
from spark_assign.tables.groups import GROUP_KEY
from tests.kafka import group_members
from tests.kafka.broker import Cluster
from tests.kafka.coordinator_log import generations
from tests.kafka.group_members import Consumer
from tests.kafka.live_groups import CALLS, Row, consumer_keys, create_topics, events, listener_partitions, wait_until
from tests.snapshots import owned_slices, subscriptions

pytestmark = [pytest.mark.kafka]

TOPIC, PARTITIONS = "membership.t", 6
HEARTBEAT_MS, SESSION_MS = 1_000, 30_000
AWAY_MS = (200, 5_000)
SETTLES_S = 3.0
"""A dynamic group rests by then: its members hear of a rebalance with their next heartbeats."""

SLACK_SECONDS = 1.5
"""A partition may wait so much longer, in each of its pauses, on a busy machine."""


def consumers(kind: str) -> list[Consumer]:
    """Three of a group; `kind`: dynamic or static."""
    one = Consumer(
        f"membership-{kind}",
        "",
        topics=(TOPIC,),
        assignor="range",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    names = [f"{kind}-{number}" for number in range(3)]
    return [replace(one, client_id=name, instance_id=name if kind == "static" else None) for name in names]


@dataclass(frozen=True)
class Restarted:
    """What a rolling restart of a group did: rebalances, and partition-seconds that nobody consumed, in `pauses`."""

    rebalances: int
    seconds: float
    pauses: int


@pytest.fixture(scope="module")
def restarted(broker: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Restarted]:
    """Both groups, restarted at once; and what was predicted is beside it, as `predicted`."""
    create_topics(broker, {TOPIC: PARTITIONS})
    groups = {kind: consumers(kind) for kind in ("dynamic", "static")}
    event_file = tmp_path_factory.mktemp("membership") / "told"
    found: dict[tuple[str, int], Restarted] = {}
    with group_members.running(broker, [each for of in groups.values() for each in of], event_file) as process:
        group_members.wait_until_settled(broker, {of[0].group: 3 for of in groups.values()})
        _PREDICTED.update(_predict(broker))
        for away_ms in AWAY_MS:
            seen, logged = len(events([event_file])), broker.log_position()
            for number in range(3):
                pair = [of[number] for of in groups.values()]
                before = len(events([event_file]))
                group_members.leave(process, pair)
                time.sleep(away_ms / 1000)
                group_members.start(process, pair)
                _wait_until_assigned(event_file, before, pair)
                time.sleep(SETTLES_S)
            rows, log = events([event_file])[seen:], broker.group_log(logged)
            for kind, of in groups.items():
                found[kind, away_ms] = _measure(of[0].group, rows, log)
    return found


_PREDICTED: dict[tuple[str, int], Row] = {}


def _predict(broker: Cluster) -> dict[tuple[str, int], Row]:
    """The options of the dynamic group, of what it is now and of what it would be."""
    tables = snapshot(broker.bootstrap_servers, groups="membership-dynamic", topics="membership.*").tables
    rows = {name: table.to_pylist() for name, table in tables.items()}
    rows |= {"subscriptions": subscriptions(rows), "owned_slices": owned_slices(rows)}
    clients = rows_of_tables({"clients": rows["members"]}, GROUP_KEY, TABLES)
    facts = pa.concat_tables([facts_of_rows(rows, []), clients], promote_options="permissive")
    timing = TimingConfig(heartbeat_interval_ms=HEARTBEAT_MS, session_timeout_ms=SESSION_MS, poll_interval_ms=100)
    params = MembershipParams(restart_times_ms=AWAY_MS, restart_time_ms=AWAY_MS[0], session_timeouts_ms=(SESSION_MS,))
    advice = pa.concat_tables(
        list(advise_membership(facts, params, timing, to_arrow_schema(MEMBERSHIP_ROWS)))
    ).to_pylist()
    options = [row for row in advice if row["kind"] == OPTION_ROW and row["protocol"] == "eager"]
    return {(row["membership"], row["restart_time_ms"]): row for row in options}


def _wait_until_assigned(event_file: Path, before: int, those: Iterable[Consumer]) -> None:
    wanted = {(each.group, each.client_id) for each in those}
    wait_until(
        lambda: wanted <= consumer_keys(events([event_file])[before:], "assigned"), wanted, within_s=30, every_s=0.05
    )


def _measure(group: str, rows: Iterable[Row], log: Iterable[tuple[int, str]]) -> Restarted:
    since: dict[tuple[str, int], int] = {}
    waited, pauses = 0, 0
    mine = [row for row in rows if row["group"] == group and row["event"] in CALLS]
    for row in sorted(mine, key=lambda row: (row["at_ms"], row["event"] == "assigned")):
        for each in listener_partitions(row):
            if row["event"] != "assigned":
                since[each] = row["at_ms"]
            elif each in since:
                waited += row["at_ms"] - since.pop(each)
                pauses += 1
    assert not since, f"{group}: nobody has {since}"
    return Restarted(len(generations(group, log)), waited / 1000, pauses)


def test_as_many_rebalances(restarted: dict[tuple[str, int], Restarted]) -> None:
    """None for static members that are back in time; two for each dynamic one that is away for longer."""
    for away_ms in AWAY_MS:
        assert restarted["static", away_ms].rebalances == 0 == _PREDICTED["static", away_ms]["restart_rebalances"]
    assert restarted["dynamic", 5_000].rebalances == 6 == _PREDICTED["dynamic", 5_000]["restart_rebalances"]


def test_the_same_one_pauses_less(restarted: dict[tuple[str, int], Restarted]) -> None:
    """Static where members are away for a moment, dynamic where they are away for longer than the others need."""
    for away_ms, less, more in ((200, "static", "dynamic"), (5_000, "dynamic", "static")):
        predicted = [_PREDICTED[kind, away_ms]["restart_paused_partition_seconds"] for kind in (less, more)]
        measured = [restarted[kind, away_ms].seconds for kind in (less, more)]
        print(away_ms, less, more, predicted, measured)
        assert predicted[0] < predicted[1]
        assert measured[0] < measured[1]


def test_about_as_long(restarted: dict[tuple[str, int], Restarted]) -> None:
    """A static partition waits for the restart time, or a little longer; a dynamic one for a heartbeat or two."""
    for (kind, away_ms), found in restarted.items():
        predicted = _PREDICTED[kind, away_ms]["restart_paused_partition_seconds"]
        print(kind, away_ms, found, predicted)
        assert found.seconds < predicted + SLACK_SECONDS * found.pauses
        if kind == "static":
            assert found.pauses == PARTITIONS
            assert found.seconds > predicted * 0.9
