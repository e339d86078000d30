"""The group protocol through Spark: tables, faulty groups, order of rows, protocols side by side, upgrades."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_assign import Fleet
from spark_assign.migration.cooperative_upgrade import plan_cooperative_upgrade, supported_clients
from spark_assign.simulation import Settings, simulate, simulate_variants
from spark_assign.tables import simulation as schemas
from spark_assign.tables.errors import ConfigError, FleetError
from tests.frames import dataframe
from tests.spark import fleets

pytestmark = pytest.mark.spark

Row = dict[str, Any]
Tables = dict[str, list[tuple[Any, ...]]]

JOIN = {"event": "member-starts", "member_id": "c3", "at_ms": 10_000}
GROUPS = ("textbook", "other", "at-rest", "twice", "mixed", "apart", "strange", "nobody")


def tables() -> Tables:
    """Groups in which c1 owns t-0 and t-1, and c2 t-2, each with something of its own."""
    names = [("k", group, member) for group in GROUPS[:-1] for member in ("c1", "c2")]
    owned = [("k", group, *each) for group in GROUPS[:-1] for each in (("c1", "t", 0), ("c1", "t", 1), ("c2", "t", 2))]
    return {
        "topics": [("k", "t", 3), ("k", "u", 1)],
        "members": [(*each, None, None, None, None, 1, None, None) for each in names],
        "subscriptions": [(*each, "t") for each in names],
        "owned": [*owned, ("k", "twice", "c2", "t", 0)],
        "groups": [("k", "strange", "my-own", None, None), ("k", "other", "range", None, None)],
    }


def fleet_of(spark: SparkSession, rows: Tables) -> Fleet:
    return fleets.fleet(spark, **rows)


def events_of(spark: SparkSession, events: list[Row]) -> DataFrame:
    lines = [tuple({"cluster": "k", **each}.get(name) for name in schemas.EVENTS.names) for each in events]
    return dataframe(spark, schemas.EVENTS, lines)


EVENTS: list[Row] = [
    *({"group_id": group} | JOIN for group in ("textbook", "other", "mixed", "twice", "strange")),
    {"group_id": "nobody", "event": "member-leaves", "member_id": "x", "at_ms": 1},
    {"event": "topic-created", "topic": "v", "partitions": 2, "at_ms": 20_000},
]


def settings_of(spark: SparkSession) -> Settings:
    """`mixed` has members that vote; t-2 is slow to restore everywhere, and `textbook` slow to hear."""
    votes = [
        ("k", "mixed", "c1", ["roundrobin", "range"], None),
        ("k", "mixed", "c2", ["range", "roundrobin"], "i2"),
        ("k", "apart", "c1", ["roundrobin"], None),
        ("k", "apart", "c2", ["range"], None),
    ]
    slow = ("k", "textbook", None, 5_000, *[None] * 10)
    return Settings(
        poll_interval_ms=0,
        restore_ms=1_000,
        members=dataframe(spark, schemas.MEMBER_SETTINGS, votes),
        groups=dataframe(spark, schemas.GROUP_SETTINGS, [slow]),
        partitions=dataframe(spark, schemas.PARTITION_SETTINGS, [("k", "t", 2, None, 9_000)]),
    )


def listed(table: DataFrame, *order: str) -> list[Row]:
    return sorted((row.asDict() for row in table.collect()), key=lambda row: [str(row[name]) for name in order])


def test_many_groups_in_one_call(spark: SparkSession) -> None:
    """Each group on its own; those that cannot be played are rejected, and sink nobody."""
    played = simulate(fleet_of(spark, tables()), events_of(spark, EVENTS), "configured", settings_of(spark))
    rejected = {row["group_id"]: (row["code"], row["detail"]) for row in played.rejected.collect()}
    assert {group: code for group, (code, _) in rejected.items()} == {
        "twice": "owned-twice",
        "strange": "unknown-assignor",
        "nobody": "bad-event",
        "apart": "kafka-refuses",
    }
    assert "c1 and c2 own t-0" in rejected["twice"][1]
    rounds = {(row["group_id"], row["generation_id"]): row for row in played.rebalances.collect()}
    assert {key: row["assignor"] for key, row in rounds.items() if key[0] != "mixed"} == {
        ("textbook", 2): "range",
        ("other", 2): "range",
    }
    assert rounds["textbook", 2]["joined_ms"] == 15_000  # heartbeats every five seconds
    assert rounds["other", 2]["joined_ms"] == 12_000
    assert rounds["mixed", 2]["assignor"] == "range"  # what c3, with Kafka's default, supports as well
    costs = {row["group_id"]: row for row in played.availability.collect()}
    assert set(costs) == set(GROUPS) - set(rejected)
    assert costs["at-rest"]["rebalances"] == 0
    assert costs["at-rest"]["paused_partition_ms"] == 0
    assert costs["other"]["longest_pause_ms"] == 9_000  # t-2 goes to c3, and is slow to restore
    assert (costs["other"]["longest_pause_topic"], costs["other"]["longest_pause_partition"]) == ("t", 2)
    fleets.assert_declared(played, schemas.SIMULATION_TABLES)
    played.unpersist()


@pytest.mark.once
def test_order_and_number_of_tasks_do_not_matter(spark: SparkSession, seed: int) -> None:
    """The same groups and events in another order, in other Spark partitions: the same trace."""
    traces = []
    for tasks in (1, 2):
        rows = tables()
        events = list(EVENTS)
        for lines in (*rows.values(), events):
            random.Random(seed + tasks).shuffle(lines)
        played = simulate(fleet_of(spark, rows), events_of(spark, events).repartition(tasks), "cooperative")
        traces.append(listed(played.trace.repartition(tasks), "group_id", "seq"))
        played.unpersist()
    assert traces[0] == traces[1]
    assert len(traces[0]) > 100


def test_protocols_side_by_side(spark: SparkSession) -> None:
    """A row per group: the same rolling restart four times, and members that leave for good, whose cost is open."""
    rows = tables()
    kept = ("textbook", "at-rest", "other")
    for name in ("members", "subscriptions", "owned"):
        rows[name] = [line for line in rows[name] if line[1] in kept]
    events: list[Row] = [{"group_id": "textbook", "event": "rolling-restart", "at_ms": 10_000}]
    leaves = {"group_id": "other", "event": "member-leaves"}
    events += [leaves | {"member_id": "c1", "at_ms": 10_000}, leaves | {"member_id": "c2", "at_ms": 20_000}]
    compared = simulate_variants(
        fleet_of(spark, rows), events_of(spark, events), Settings(poll_interval_ms=0, restore_ms=1_000)
    )
    costs = {row["group_id"]: row.asDict() for row in compared.comparison.collect()}
    assert costs["at-rest"]["cooperative_ratio"] is None
    assert costs["other"]["eager_paused_partition_ms"] > 0
    assert (costs["other"]["static_unowned_at_end"], costs["other"]["static_ratio"]) == (3, None)
    mine = costs["textbook"]
    assert (mine["eager_rebalances"], mine["static_rebalances"]) == (4, 0)
    assert mine["static_paused_partition_ms"] == 3 * 5_000  # each partition while its owner is away
    for name in ("static", "consumer"):
        cost = mine[f"{name}_paused_partition_ms"]
        assert mine[f"{name}_ratio"] == cost / mine["eager_paused_partition_ms"]
    assert mine["consumer_rebalances"] == 4  # two members leave and join


def test_groups_that_are_kip_848s(spark: SparkSession) -> None:
    """By themselves they are played so, with the broker's assignor and settings, and by the ids of their topics."""
    rows = tables()
    rows["groups"] = [("k", "textbook", "range", "consumer", None), ("k", "other", "range", "classic", None)]
    rows["topics"] = [("k", "t", 3, "AAAAAAAAAAAAAAAAAAAAAQ"), ("k", "u", 1)]
    fleet = fleet_of(spark, rows)
    beats = [("k", "textbook", *[None] * 9, 40_000, 2_000, None)]
    settings = Settings(poll_interval_ms=0, groups=dataframe(spark, schemas.GROUP_SETTINGS, beats))
    joins = [{"group_id": group} | JOIN for group in ("textbook", "other")]
    played = simulate(fleet, events_of(spark, joins), settings=settings)
    found = {row["group_id"]: (row["assignor"], row["leader"]) for row in played.rebalances.collect()}
    assert found == {"textbook": ("server-range", None), "other": ("range", "c1")}
    trace = listed(played.trace.where("group_id = 'textbook' and actor = 'c3'"), "seq")
    assert {row["message"] for row in trace} == {"FindCoordinator", "ConsumerGroupHeartbeat", "assigned"}
    played.unpersist()


def test_two_bounces_to_the_cooperative_protocol(spark: SparkSession) -> None:
    """KIP-429: first beside the old assignor, then alone; at once it is refused, with the reason."""
    fleet = fleet_of(spark, tables())
    steps = listed(plan_cooperative_upgrade(fleet, "k", "other"), "step")
    assert [(each["bounce"], each["member_id"], each["assignors"]) for each in steps] == [
        (bounce, member, ["cooperative-sticky", "range"][: 3 - bounce]) for bounce in (1, 2) for member in ("c1", "c2")
    ]
    assert [each["eager_members"] for each in steps] == [2, 2, 1, 0]
    assert [each["assignor"] for each in steps] == ["range", "cooperative-sticky", *["cooperative-sticky"] * 2]
    assert not any(each["rejection"] for each in steps)
    at_once = [("c1", ["cooperative-sticky"]), ("c2", ["cooperative-sticky"])]
    rejections = [each["rejection"] for each in listed(plan_cooperative_upgrade(fleet, "k", "other", at_once), "step")]
    assert rejections[0].startswith("INCONSISTENT_GROUP_PROTOCOL: c1 would support only cooperative-sticky")
    assert rejections[1].startswith("not reached")
    with pytest.raises(FleetError, match="there is no group 'none'"):
        plan_cooperative_upgrade(fleet, "k", "none")
    with pytest.raises(ConfigError, match="no member 'c9'"):
        plan_cooperative_upgrade(fleet, "k", "other", [("c9", ["range"])])


@pytest.mark.parametrize(("library", "client_id"), [("librdkafka", "rdkafka"), ("Java", "consumer-other-1")])
def test_a_library_that_would_not_start_is_not_restarted(spark: SparkSession, library: str, client_id: str) -> None:
    """librdkafka refuses a list that mixes both protocols; of Java all steps hold; and it is said for whom they do."""
    rows = tables()
    rows["members"] = [
        (*line[:4], client_id if line[2] == "c2" else "consumer-other-2", *line[5:]) for line in rows["members"]
    ]
    fleet = fleet_of(spark, rows)
    steps = listed(plan_cooperative_upgrade(fleet, "k", "other"), "step")
    text = supported_clients(fleet, "k", "other")
    assert [each["client_library"] for each in steps] == ["Java", library] * 2
    if library == "Java":
        assert not any(each["rejection"] for each in steps)
        assert "The clients, by their client IDs: Java 2. Two rolling restarts:" in text
    else:
        assert steps[0]["rejection"] is None
        assert steps[1]["rejection"].startswith("librdkafka doesn't start with eager and cooperative assignors")
        assert all(each["rejection"].startswith("not reached") for each in steps[2:])
        assert "Java 1, librdkafka 1. Stop all members, then start them with cooperative-sticky alone." in text
    assert text.startswith("Rolling steps hold for Java, franz-go, and Sarama clients only.")


def test_members_of_franz_go_are_cooperative_once_the_vote_is(spark: SparkSession) -> None:
    """After the first bounce, so that the second one revokes less than with Java."""
    revoked = {}
    for library, client_id in (("franz-go", "kgo"), ("Java", "consumer-other-1")):
        rows = tables()
        rows["members"] = [(*line[:4], client_id, *line[5:]) for line in rows["members"]]
        steps = listed(plan_cooperative_upgrade(fleet_of(spark, rows), "k", "other"), "step")
        assert [each["client_library"] for each in steps] == [library] * 4
        revoked[library] = [each["revoked"] for each in steps]
    assert revoked["franz-go"][0] == revoked["Java"][0]
    assert sum(revoked["franz-go"][1:]) < sum(revoked["Java"][1:])


def test_what_is_wrong_with_the_call(spark: SparkSession) -> None:
    fleet = fleet_of(spark, tables())
    with pytest.raises(ConfigError, match="unknown variant 'lazy'"):
        simulate(fleet, events_of(spark, []), "lazy")
    with pytest.raises(ConfigError, match="heartbeat_interval_ms is 50000"):
        Settings(heartbeat_interval_ms=50_000)
    with pytest.raises(FleetError, match="at_ms: the column is missing"):
        simulate(fleet, events_of(spark, []).drop("at_ms"))
    nowhere = events_of(spark, [{"group_id": "g", **JOIN}]).withColumn("cluster", F.lit(None).cast("string"))
    with pytest.raises(FleetError, match="rows have no cluster"):
        simulate(fleet, nowhere)
