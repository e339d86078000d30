"""The decoded history of real groups of every kind is what their members experienced: each generation, member, owner,
and pause; and the assignor in use reproduces it."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from itertools import pairwise

import pytest
from pyspark.sql import SparkSession

from spark_assign.history.kernel.replay.reproduce_recorded import ORDER_NOT_ON_RECORD
from tests import seeds
from tests.kafka import history_truth
from tests.kafka.coordinator_log import epochs, generations, targets
from tests.kafka.group_members import Consumer
from tests.kafka.history_live import CLASSIC, CONSUMER, CONSUMERS, FLEETS, Live, client, items, lasts, played
from tests.kafka.history_story import (
    BROKERS_SESSION_MS,
    CLASSIC_STREAMS,
    COMMIT_EVERY_MS,
    CONNECT,
    CRASHED,
    DYNAMIC,
    FIRST,
    IS_THERE,
    SENT,
    SESSION_TIMEOUT_MS,
    STATIC,
    STATICS,
    STOPPED,
    STOPPING,
    STREAMS,
    TOPICS,
    WITHOUT_COMMITS,
    Item,
    Row,
    Stay,
)

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

MOMENTS = 10
LATE_MS = 5_000
"""Maximum time by which an event is recorded later than it happens, on a busy machine."""
KINDS = {
    **dict.fromkeys([*CLASSIC, STATIC, STOPPED, CONNECT, CLASSIC_STREAMS], "classic"),
    **dict.fromkeys(CONSUMER, "consumer"),
    STREAMS: "streams",
}


@pytest.fixture(scope="module")
def live(spark: SparkSession, kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Live:
    """The story, and its history from the cluster."""
    return played(spark, kafka_jars, tmp_path_factory.mktemp("history-live"), seeds.seed_for("history-live"))


def test_nothing_is_left_out(live: Live) -> None:
    """Every group is there, as what it is; no record is unreadable, no group rejected."""
    assert {row["group_id"]: row["group_type"] for row in live.tables["groups"]} == KINDS
    assert live.tables["unreadable"] == []
    assert live.tables["rejected"] == []
    for row in live.tables["groups"]:
        there = [stay for stay in live.story.stays if stay.group == row["group_id"] and stay.end_ms is None]
        assert row["members"] == len(there), row


@pytest.mark.parametrize("group", [*CLASSIC, STATIC, STOPPED, CONNECT, CLASSIC_STREAMS])
def test_every_generation_of_a_classic_group(live: Live, group: str) -> None:
    """The history has each generation that the topic has, with the members that the coordinator logged.

    A generation that the next one replaced before the coordinator wrote it counts as missing in that next one.
    """
    logged = dict(generations(group, live.story.log))
    rows = sorted((row for row in live.of("rebalances", group) if row["state"] != "Dead"), key=number)
    written = live.written[group]
    assert [number(row) for row in rows] == written
    found = {number(row): row["members"] for row in rows if row["members"]}
    assert {each: logged.get(each) for each in found} == found
    skipped = [after - before - 1 for before, after in pairwise(written)]
    assert [row["missing_generations"] for row in rows] == [0, *skipped]
    assert set(range(written[0], written[-1])) - set(written) <= logged.keys()
    assert max(logged) == written[-1]


def number(row: Row) -> int:
    """Returns the generation of a row."""
    return int(row["generation_id"])


@pytest.mark.parametrize("group", [*CLASSIC, STATIC, STOPPED])
def test_what_every_member_was_given_in_every_generation(live: Live, group: str) -> None:
    """As its listener was told; and nobody is told of who was not."""
    at = {row["generation_id"]: row["time"] for row in live.of("rebalances", group)}
    ids = {row["member_id"]: row for row in live.of("memberships", group)}
    seen = set()
    for each in history_truth.given(live.story, group):
        row = ids[each.member_id]
        assert row["client_id"] == each.client
        if each.generation not in at:
            continue  # The topic has no record of it, either: see above.
        assert row["first_generation_id"] <= each.generation <= row["last_generation_id"], each
        # A static member that came back in a generation has its part from then on.
        then = max(at[each.generation], row["start_time"])
        mine = [run for run in live.of("ownership", group) if run["member_id"] == each.member_id and lasts(run, then)]
        assert {item for run in mine for item in items(run)} == each.owned, each
        assert at[each.generation] <= each.at_ms, each
        seen.add(each.member_id)
    assert seen == set(ids)


@pytest.mark.parametrize("group", [*CONSUMER, STREAMS])
def test_every_epoch_of_a_group_of_the_broker(live: Live, group: str) -> None:
    """Each that the coordinator logged, when it did."""
    found = {row["generation_id"]: row["time"] for row in live.of("rebalances", group)}
    logged = epochs(group, live.story.log)
    assert found.keys() == logged.keys()
    assert all(abs(found[epoch] - at) < LATE_MS for epoch, at in logged.items()), (found, logged)


@pytest.mark.parametrize("group", CONSUMER)
def test_members_belong_to_the_epochs_that_they_received(live: Live, group: str) -> None:
    """Or came while there was no target for its own yet: then it is told the one before, and has nothing."""
    known_targets = targets(group, live.story.log)
    ids = {row["member_id"]: row for row in live.of("memberships", group)}
    seen = set()
    for row in live.story.listener_rows:
        if row["group"] == group and row["event"] == "generation" and row["generation_id"] > 0:
            seen.add(row["member_id"])
            known, epoch = ids[row["member_id"]], row["generation_id"]
            assert known["client_id"] == row["client_id"]
            assert epoch <= known["last_generation_id"], (row, known)
            if epoch < known["first_generation_id"]:
                [*_, last] = [target for at, target in known_targets if at <= known["start_time"]]
                assert (epoch, row["partitions"]) == (last, []), (row, known)
    assert seen == set(ids)


@pytest.mark.parametrize("group", sorted(KINDS))
def test_how_every_member_came_and_went(live: Live, group: str) -> None:
    """Stay by stay; where nothing is committed history may say that it does not know."""
    rows: defaultdict[str, list[Row]] = defaultdict(list)
    for row in live.of("memberships", group):
        rows[client(group, row)].append(row)
    stays: defaultdict[str, list[Stay]] = defaultdict(list)
    for stay in live.story.stays:
        if stay.group == group:
            stays[stay.client].append(stay)
    assert {name: len(found) for name, found in rows.items()} == {name: len(found) for name, found in stays.items()}
    for name, found in rows.items():
        for row, stay in zip(sorted(found, key=lambda row: int(row["start_time"])), stays[name], strict=True):
            came = {FIRST: {"first-on-record", "joined"}}.get(stay.came, {stay.came})
            went = {stay.went}
            if group in WITHOUT_COMMITS and stay.went != IS_THERE:
                went |= {"unknown", "restarted"} if stay.went == CRASHED else {"unknown"}
            assert row["join_type"] in came, (row, stay)
            assert row["leave_type"] in went, (row, stay)
            if stay.end_ms is None:
                assert row["end_time"] is None
            else:
                waits = {CRASHED: session_ms(group)}.get(stay.went, 0)
                assert stay.end_ms - LATE_MS <= row["end_time"], (row, stay)
                assert row["end_time"] <= stay.end_ms + waits + 4 * LATE_MS, (row, stay)


def session_ms(group: str) -> int:
    """How long a member of it is not missed."""
    return SESSION_TIMEOUT_MS if group in (*CLASSIC, STATIC) else BROKERS_SESSION_MS


@pytest.mark.parametrize("group", sorted(KINDS))
def test_every_owner_at_ten_random_moments(live: Live, group: str, seed: int) -> None:
    """At which nobody in the group was on the move."""
    chance = random.Random(seed)
    since, until = live.story.settled[0][0], live.story.settled[-1][1]
    moments: list[int] = []
    for _ in range(5_000):
        at = chance.randint(since, until)
        expected = history_truth.owners_at(live.story, group, at)
        if expected is not None:
            assert live.owners_at(group, at) == expected, at
            moments.append(at)
        if len(moments) == MOMENTS:
            return
    raise AssertionError(f"only {len(moments)} quiet moments")


def test_the_fleet_of_a_moment(live: Live) -> None:
    """Members, subscriptions and owners of all groups of consumers."""
    assert len(live.fleets) == FLEETS
    for at, fleet in live.fleets.items():
        assert {CONNECT, STREAMS}.isdisjoint(row["group_id"] for row in fleet["groups"])
        kinds = {row["group_id"]: row["group_type"] for row in fleet["groups"]}
        for group in CONSUMERS:
            where = f"{group} at {at}"
            expected = history_truth.owners_at(live.story, group, at)
            assert expected is not None
            clients = {row["member_id"]: row["client_id"] for row in fleet["members"] if row["group_id"] == group}
            found: dict[str, set[Item]] = {name: set() for name in clients.values()}
            for run in fleet["owned_slices"]:
                if run["group_id"] == group:
                    found[clients[run["member_id"]]] |= set(items(run | {"role": "partition"}))
            assert {name: frozenset(owned) for name, owned in found.items()} == expected, where
            subscribed = {
                (row["member_id"], row["topic"]) for row in fleet["subscriptions"] if row["group_id"] == group
            }
            assert subscribed == {(member, topic) for member in clients for topic in TOPICS}, where
            if expected:
                assert kinds[group] == KINDS[group], where
        assert {row["topic"]: row["partitions"] for row in fleet["topics"]} == TOPICS


@pytest.mark.parametrize("group", CONSUMERS)
def test_what_was_committed(live: Live, group: str) -> None:
    """Every partition, as far as the coordinator says that it is."""
    rows = {(row["topic"], row["partition"]): row for row in live.of("commits", group)}
    assert {key: row["last_offset"] for key, row in rows.items()} == live.committed[group]
    assert set(live.committed[group].values()) == {SENT}
    began = min(stay.start_ms for stay in live.story.stays if stay.group == group)
    for row in rows.values():
        assert row["commits"] > 1
        assert began <= row["start_time"] < row["end_time"]
        assert row["deleted"] == 0


def test_the_pause_of_a_group_that_was_stopped(live: Live) -> None:
    """From the last member that closed to the first that was told what it has: all partitions, about so long."""
    closed = max(
        row["at_ms"] for row in live.story.listener_rows if row["group"] == STOPPED and row["event"] == "closed"
    )
    listener_rows = [
        row["at_ms"] for row in live.story.listener_rows if row["group"] == STOPPED and row["event"] == "assigned"
    ]
    back = min(at for at in listener_rows if at > closed)
    whole = sum(TOPICS.values())
    pauses = [row for row in live.of("pauses", STOPPED) if row["generation_id"] is not None]
    since, until = min(row["start_time"] for row in pauses), max(row["end_time"] for row in pauses)
    assert max(row["partitions"] for row in pauses) == whole
    assert closed - COMMIT_EVERY_MS - LATE_MS <= since <= closed
    assert back <= until <= back + COMMIT_EVERY_MS + LATE_MS
    assert abs(sum(row["paused_partition_ms"] for row in pauses) - whole * (back - closed)) <= whole * LATE_MS


def test_a_stopped_group_is_one_restart(live: Live) -> None:
    """All at once, everybody back."""
    [row] = live.of("deploys", STOPPED)
    assert (row["deploy_type"], row["restarted"], row["crashed"]) == ("restart", len(STOPPING), 0)
    assert row["members_before"] == row["members_after"] == len(STOPPING)


@pytest.mark.parametrize("group", [*CLASSIC, *CONSUMER, STATIC])
def test_the_pause_of_what_a_crashed_member_had(live: Live, group: str) -> None:
    """Its partitions stop for the session that nobody misses it in."""
    [crashed] = [each for each in live.story.stays if each.group == group and each.went == CRASHED]
    mine = history_truth.steps(live.story, crashed)[-1].owned
    [row] = [row for row in live.of("memberships", group) if row["leave_type"] == "crashed"]
    pauses = [each for each in live.of("pauses", group) if each["start_time"] <= row["end_time"] <= each["end_time"]]
    assert pauses, group
    assert max(each["partitions"] for each in pauses) >= len(mine)
    assert crashed.end_ms is not None
    since, until = min(each["start_time"] for each in pauses), max(each["end_time"] for each in pauses)
    assert crashed.end_ms - COMMIT_EVERY_MS - LATE_MS <= since <= crashed.end_ms
    assert until - since >= session_ms(group) - COMMIT_EVERY_MS


@pytest.mark.parametrize("group", CONSUMERS)
def test_what_was_in_use_says_the_same_again(live: Live, group: str) -> None:
    """The assignor reproduces every rebalance, unless two IDs in one bucket of the broker's hash map were both present:
    no record shows which of them the broker stored first."""
    [row] = [row for row in live.of("replay_summary", group) if row["recorded"]]
    if ORDER_NOT_ON_RECORD in row["note"]:
        assert group in CONSUMER
        colliding = [each for each in map(number, live.of("rebalances", group)) if has_shared_bucket(live, group, each)]
        differing = re.search(r"first generation (\d+)", row["note"])
        assert differing is not None
        assert int(differing[1]) in colliding, row
        assert row["rebalances"] - row["num_replayed"] <= len(colliding), row
    else:
        assert "reproduce" not in row["note"], row
        assert row["num_replayed"] == row["rebalances"]
    assert row["assignor"] == {members[0].group: in_use(members[0]) for members in (*DYNAMIC, STATICS, STOPPING)}[group]


def test_who_is_not_replayed(live: Live) -> None:
    """Those that have no assignor of consumers."""
    assert {row["group_id"] for row in live.tables["replay_summary"]} == set(CONSUMERS)
    refused = {row["group_id"]: row["code"] for row in live.tables["replay_rejected"]}
    assert refused == dict.fromkeys([CONNECT, STREAMS, CLASSIC_STREAMS], "out-of-scope")


def has_shared_bucket(live: Live, group: str, generation: int) -> bool:
    """Checks whether two members that are present in a generation have ids in one bucket."""
    present = [
        bucket(row["member_id"])
        for row in live.of("memberships", group)
        if row["first_generation_id"] <= generation <= row["last_generation_id"]
    ]
    return len(set(present)) < len(present)


def bucket(member_id: str) -> int:
    """Returns the bucket of an id in a Java hash map of at most 12 keys."""
    code = 0
    for character in member_id:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    return (code ^ code >> 16) & 15


def in_use(member: Consumer) -> str:
    """As the replay calls it."""
    assert member.assignor is not None
    server = member.protocol == "consumer" and member.assignor == "range"
    return "server-range" if server else member.assignor
