"""What is unknown isn't empty: without a table or a column, a plan is the same, or names what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_assign import Fleet, advise, compare, converge, find_drift, plan, plan_migration, plan_upgrade
from spark_assign.report.plan_summary import plan_text
from spark_assign.share import plan_share
from spark_assign.streams import find_streams_drift, plan_streams
from spark_assign.tables.groups import ALTERNATIVES, INPUT_TABLES, OWNERSHIP, REQUIRED_TABLES
from tests.docs.pages import ROOT
from tests.spark import fleets
from tests.spark.fleets import tuples

pytestmark = [pytest.mark.spark, pytest.mark.once]

Tables = dict[str, DataFrame]
Without = Callable[[Tables], Iterator[tuple[tuple[str, ...], Tables]]]


def without_a_table(tables: Tables) -> Iterator[tuple[tuple[str, ...], Tables]]:
    """The tables without one of the optional ones; with the names to look for."""
    for name in tables.keys() - {*REQUIRED_TABLES, *ALTERNATIVES.values()}:
        names = OWNERSHIP if name in OWNERSHIP else (name, f"{name}.")
        yield names, {other: each for other, each in tables.items() if other != name}


def without_a_column(tables: Tables) -> Iterator[tuple[tuple[str, ...], Tables]]:
    """The tables without an optional column of one; with the name to look for."""
    for name, table in tables.items():
        for field in INPUT_TABLES[name].fields:
            if field.nullable and field.name in table.columns:
                yield (f"{name}.{field.name}",), {**tables, name: table.drop(field.name)}


def printed(fleet: Fleet) -> str:
    """The summary of the fleet's plan."""
    planned = plan(fleet)
    return plan_text(planned.metrics, planned.rejected, 30, fleet.unknown)


@pytest.mark.parametrize("without_one", [without_a_table, without_a_column])
def test_what_is_missing_is_named_or_changes_nothing(spark: SparkSession, without_one: Without) -> None:
    """The summary that the command prints of the sample's plan, once without each of them."""
    fleet = Fleet.read(
        spark,
        str(ROOT / "conf" / "sample-fleet"),
        tables={"loads": str(ROOT / "conf" / "sample-loads" / "loads.csv")},
    )
    tables = {name: table for name in INPUT_TABLES if (table := getattr(fleet, name)) is not None}
    complete = printed(fleet)
    assert "known" not in complete.replace("leader not known", "")
    silent = []
    for names, fewer in without_one(tables):
        text = printed(Fleet(**fewer))
        if text != complete and not any(name in text for name in names):
            silent.append((names, text))
    assert silent == []


def test_what_a_fleet_lacks(spark: SparkSession) -> None:
    """The sentences, of a fleet with as little as a plan needs."""
    key = "cluster string, group_id string, member_id string"
    fleet = Fleet(
        topics=spark.createDataFrame([("c", "t", 2)], "cluster string, topic string, partitions int"),
        members=spark.createDataFrame([("c", "g", "m", "a")], f"{key}, rack_id string"),
        subscriptions=spark.createDataFrame([("c", "g", "m", "t")], f"{key}, topic string"),
        groups=spark.createDataFrame([("c", "g", "range")], "cluster string, group_id string, assignor string"),
    )
    assert fleet.unknown == [
        "What members own isn't known (owned, owned_slices, owned_lists): every partition counts as moved to its first "
        "owner, and sticky assignors start from nothing.",
        "Racks of replicas aren't known (replicas, brokers), but 1 member has a rack: planned without racks.",
        "The type of 1 group isn't known (groups.group_type): planned as classic.",
        "Loads aren't known (loads): balance is by number of partitions.",
    ]


def test_a_leader_that_can_assign_otherwise(spark: SparkSession) -> None:
    """By whose rules its group is planned, and what differs."""
    key = "cluster string, group_id string"
    leader = f"{key}, assignor string, leader_library string, leader_version string, leader_confidence string"
    rows = [
        ("c", "g", "cooperative-sticky", "librdkafka", "2.4.0", "given"),
        ("c", "h", "range", "Java", "4.4", "given"),
    ]
    fleet = Fleet(
        topics=spark.createDataFrame([("c", "t", 2)], "cluster string, topic string, partitions int"),
        members=spark.createDataFrame([("c", group, "m") for group in "gh"], f"{key}, member_id string"),
        subscriptions=spark.createDataFrame(
            [("c", group, "m", "t") for group in "gh"], f"{key}, member_id string, topic string"
        ),
        groups=spark.createDataFrame(rows, leader),
    )
    lines = printed(fleet).splitlines()
    assert lines[lines.index("Notes:") + 1 :] == [
        "  c/g: planned by the rules of librdkafka 2.4.0 (given), as 2.6.1 (before, different subscriptions can count "
        "as balanced, or the leader never finishes, confluentinc/librdkafka#4783)"
    ]


REFUSED = "GroupAuthorizationFailed"
APPLICATION = ("c", "app", "0", 1, False)


@pytest.fixture(scope="module")
def taken(spark: SparkSession) -> tuple[Fleet, Fleet]:
    """A fleet, and one in which groups weren't described: `bare` has no row in `groups`, and of `idle` and `odd` only
    the offsets couldn't be read."""
    consumers, types = ("bare", "gone", "odd"), {"app": "streams", "shared": "share"}
    members = {group: {"m": "t"} for group in (*consumers, "shared")} | {"app": {"m": ""}}
    common = {"topics": {"t": 2}, "subtopologies": [APPLICATION]}
    before = fleets.fleet(
        spark,
        members,
        **common,
        groups=[("c", group, "range", types.get(group, "classic"), "Stable") for group in members],
        owned=[("c", group, "m", "t", partition) for group in members if group != "app" for partition in (0, 1)],
        tasks=[("c", "app", "m", "0", 0, "active")],
    )
    states = {"gone": None, "shared": "Stable", "app": None}
    groups = [("c", group, None, types.get(group, "classic"), state) for group, state in states.items()]
    after = fleets.fleet(
        spark,
        {"odd": {"m": "t"}},
        **common,
        groups=[*groups, ("c", "odd", "range", "classic", "Stable"), ("c", "idle", None, "classic", "Empty")],
        owned=[("c", "odd", "m", "t", partition) for partition in (0, 1)],
        tasks=[],
        undescribed=[
            *(("c", group, None if group == "gone" else REFUSED) for group in ("bare", *states)),
            *(("c", group, f"committed offsets: {REFUSED}") for group in ("idle", "odd")),
        ],
    )
    return before, after


def test_a_group_that_is_not_described_is_not_empty(spark: SparkSession, taken: tuple[Fleet, Fleet]) -> None:
    """Every pass rejects it, with the error; the group of which only offsets are unknown is there."""
    _, fleet = taken
    planned = plan(fleet)
    assert tuples(planned.metrics, "group_id", "members") == [("idle", 0), ("odd", 1)]
    rejected = {group: (code, detail) for _, group, code, detail in tuples(planned.rejected)}
    assert {group: code for group, (code, _) in rejected.items()} == {
        "app": "streams-group",
        "bare": "undescribed",
        "gone": "undescribed",
        "shared": "share-group",
    }
    assert rejected["bare"][1].startswith(f"{REFUSED}. Its members aren't known")
    assert rejected["gone"][1].startswith("The error isn't known. Its members aren't known")
    assert REFUSED in rejected["app"][1]
    codes = [("gone", "undescribed")]
    for found in (compare(fleet, ["range"]), advise(fleet), plan_migration(fleet), plan_upgrade(fleet, "4.0")):
        assert set(codes) <= set(tuples(found.rejected, "group_id", "code")), type(found)
    assert set(codes) <= set(tuples(fleet.rejected, "group_id", "code"))
    assert set(tuples(converge(fleet), "group_id")) == {("odd",)}
    assert tuples(plan_share(fleet).rejected, "group_id", "code") == [("shared", "undescribed")]
    streams = plan_streams(fleet)
    assert tuples(streams.rejected, "group_id", "code") == [("app", "undescribed")]
    assert tuples(streams.metrics) == []
    chosen = fleet.filter_groups(spark.createDataFrame([("c", "bare")], "cluster string, group_id string"))
    assert tuples(plan(chosen).rejected, "group_id", "code") == [("bare", "undescribed")]


def test_members_of_a_group_that_is_not_described_have_not_left(taken: tuple[Fleet, Fleet]) -> None:
    """In either direction, also in a stored plan; nothing is said of tasks, either."""
    for before, after, column in ((*taken, "rejected_after"), (*taken[::-1], "rejected_before")):
        found = find_drift(before, after)
        unknown = found.groups.where(f"{column} = 'undescribed'")
        changed = [(group, "changed", 0, 0) for group in ("app", "bare", "gone", "shared")]
        assert tuples(unknown, "group_id", "change", "joined", "left") == changed
        assert tuples(found.members) == []
        assert tuples(found.ownership) == []
        of_streams = find_streams_drift(before, after)
        assert of_streams is not None
        assert tuples(of_streams.groups) == []
    before, after = taken
    with_prefix = {f"streams_{name}": table for name, table in plan_streams(after).tables.items()}
    stored = {**plan(after).tables, **with_prefix}
    stored["rejected"] = stored["rejected"].where("code = 'undescribed'")  # as the command stores it
    assert ("app", "undescribed") in tuples(find_drift(before, stored).groups, "group_id", "rejected_after")


def test_changes_make_no_group_described(spark: SparkSession, taken: tuple[Fleet, Fleet]) -> None:
    """A group that all members leave is known to be empty; one that a member joins has others."""
    _, fleet = taken
    joiner = spark.createDataFrame([("c", "gone", "new")], "cluster string, group_id string, member_id string")
    changed = fleet.with_members_left(group_id="odd", member_id="m").with_members_joined(joiner)
    assert tuples(plan(changed).metrics, "group_id", "members") == [("idle", 0), ("odd", 0)]
    assert ("gone", "undescribed") in tuples(plan(changed).rejected, "group_id", "code")
