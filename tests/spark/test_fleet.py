"""What a fleet accepts, what it raises, and which groups it sets aside."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign import Fleet, FleetError, plan
from spark_assign.groups import facts
from spark_assign.history.records import records_of
from spark_assign.spark.dataframes import compress, contains_partition, expand
from spark_assign.stores.run_store import read_run
from spark_assign.tables.errors import find_row_fault
from spark_assign.tables.groups import BROKERS
from spark_assign.tables.schema_check import check_schema
from spark_assign.tables.schema_fields import columns
from tests.cases import cases
from tests.frames import dataframe
from tests.spark.fleets import fleet, kept, mixed, rows_of, table, tuples, with_lists

pytestmark = pytest.mark.spark

GOOD = {"good": dict.fromkeys(("m1", "m2"), "t")}


def test_columns_and_types_are_checked_at_once(spark: SparkSession) -> None:
    """Missing columns and wrong types of all tables come in one error, before any row is read."""
    sound = table(spark, "topics", [("c", "t", 1)])
    with pytest.raises(FleetError) as raised:
        Fleet(
            topics=sound.withColumn("partitions", F.lit("four")),
            members=table(spark, "members", []).drop("member_id").withColumnRenamed("rack_id", "RACK_ID"),
            subscriptions=table(spark, "subscriptions", []).drop("topic"),
        )
    message = str(raised.value)
    assert "topics.partitions: the type is string, expected int" in message
    assert "members.member_id: the column is missing" in message
    assert "members.rack_id: the table calls it RACK_ID, which differs in case" in message, "the engine ignores it"
    assert "subscriptions.topic: the column is missing" in message
    assert len(raised.value.faults) == 4


def test_columns_that_engines_cannot_tell_apart(spark: SparkSession) -> None:
    """One of the schema is wrong input, in the words of this package; any other is left out: no one reads it."""
    sound = fleet(spark, GOOD)
    for twin in ("TOPIC", "topic"):
        with pytest.raises(FleetError, match=f"topics.topic: the table has topic, {twin}, which engines can't tell"):
            replace(sound, topics=sound.topics.select("*", F.col("topic").alias(twin)))
    twice = sound.members.select("*", F.col("member_id").alias("Member_ID"))
    for change in (sound.with_members_left, sound.with_members_joined):
        with pytest.raises(
            FleetError, match=r"member_id: the table has member_id, Member_ID, which engines can't tell"
        ):
            change(twice)
    with pytest.raises(FleetError, match=r"records\.timestamp: the table has timestamp, Timestamp, which engines"):
        records_of(sound.topics.select(F.lit("c").alias("cluster"), *(F.lit(1).alias(f"{t}imestamp") for t in "tT")))
    notes = (F.lit(each).alias(name) for each, name in enumerate(("note", "Note", "twice", "twice", "other")))
    topics = replace(sound, topics=sound.topics.select("*", *notes)).topics
    assert topics.columns == [*sound.topics.columns, "other"]
    assert topics.count() == sound.topics.count()


def test_ownership_has_one_form(spark: SparkSession) -> None:
    """Rows, slices, or lists; a fleet with two of them is an error."""
    owned = table(spark, "owned", [("c", "g", "m", "t", 0)])
    lists = table(spark, "owned_lists", [("c", "g", "m", ["t"], [0], [1], [1])])
    problem = r"owned\.\*: owned and owned_lists are given\. Give only one of them"
    with pytest.raises(FleetError, match=problem):
        replace(fleet(spark, GOOD), owned=owned, owned_lists=lists)


def test_nullable_columns_may_be_left_out_and_others_are_carried(spark: SparkSession) -> None:
    """rack_id and its like are optional; a bigint is an int; columns nobody knows do no harm."""
    rows = rows_of({"g": {"m": "t"}})
    members = table(spark, "members", rows["members"]).select("cluster", "group_id", "member_id", F.lit(1).alias("x"))
    topics = table(spark, "topics", [("c", "t", 2)]).withColumn("partitions", F.col("partitions").cast("bigint"))
    planned = plan(Fleet(topics, members, table(spark, "subscriptions", rows["subscriptions"])), "range")
    assert tuples(planned.assignments, "member_id", "partition") == [("m", 0), ("m", 1)]
    assert "x" in planned.fleet.members.columns


@cases(
    "name kind value",
    ("generation_id", "bigint", 2**32 + 5),
    ("user_data_generation_id", "bigint", -(2**31) - 1),
    ("positions", "array<bigint>", [1, None, 2**40]),
)
def test_a_number_out_of_range_is_not_null(spark: SparkSession, name: str, kind: str, value: object) -> None:
    """In a nullable column and in a list, where no value check would miss it; others are cast."""
    schema = columns("member_id string", f"{name} {'array<int>' if 'array' in kind else 'int'}?")
    rows = dataframe(spark, f"member_id string, {name} {kind}", [("a", None), ("b", [2, 1] if "array" in kind else 7)])
    checked, faults = check_schema("members", rows, StructType(schema))
    assert (faults, tuples(checked)) == ([], [("a", None), ("b", [2, 1] if "array" in kind else 7)])
    bad = dataframe(spark, f"member_id string, {name} {kind}", [("a", value)])
    with pytest.raises(Exception, match="out of range") as error:
        check_schema("members", bad, StructType(schema))[0].collect()
    start = f"members.{name}: out of range: member_id=a, {name}="
    assert start in str(find_row_fault(error.value))


def test_a_rack_that_is_too_long_is_wrong_input(spark: SparkSession) -> None:
    """The rack of a broker is copied for each of its replicas."""
    rows = dataframe(spark, "cluster string, broker_id int, rack_id string", [("c", 1, "é" * 127), ("c", 2, None)])
    checked, faults = check_schema("brokers", rows, BROKERS)
    assert (faults, checked.count()) == ([], 2)
    bad = dataframe(spark, "cluster string, broker_id int, rack_id string", [("c", 3, "é" * 128)])
    with pytest.raises(Exception, match="more than 255 bytes") as error:
        check_schema("brokers", bad, BROKERS)[0].collect()
    assert "brokers.rack_id: more than 255 bytes: cluster=c, broker_id=3" in str(find_row_fault(error.value))


def test_rows_without_a_group_are_raised_together(spark: SparkSession) -> None:
    """Every kind of fault is named with its table, column, number of rows, an example and the remedy."""
    bad = fleet(
        spark,
        GOOD,
        topics=[("c", "t", 4), ("c", "t", 5), ("c", "u", -1), (None, "v", 1)],
        members=[(None, "g", "m")],
        subscriptions=[("c", None, "m", "t")],
        brokers=[("c", 1, "a"), ("c", 1, "b")],
        replicas=[("c", "t", 0, None), ("c", "t", 1, [1, None]), ("c", "t", 2, [1] * 1_001)],
    )
    with pytest.raises(FleetError) as raised:
        plan(bad, "range")
    assert [str(fault).split(":")[0] for fault in raised.value.faults] == [
        *("brokers.broker_id", "members.cluster", "replicas.replicas", "subscriptions.group_id", "topics.cluster"),
        *("topics.partitions", "topics.topic"),
    ]
    message = str(raised.value)
    assert "topics.topic: the same key twice: 2 rows, e.g. cluster=c, topic=t. Keep one row per cluster and topic" in (
        message
    )
    assert "topics.partitions: null, negative or beyond int: 1 row, e.g. cluster=c, topic=u" in message
    assert "replicas.replicas: null or more than 1,000 brokers: 3 rows, e.g. cluster=c, topic=t, partition=0" in message


def test_an_empty_fleet_is_raised(spark: SparkSession) -> None:
    """There is nothing to plan without members."""
    with pytest.raises(FleetError, match="the fleet is empty"):
        plan(fleet(spark, topics=[("c", "t", 1)]), "range")


FAULTY = {
    "member-twice": ("duplicate-member", {"members": [("m",), ("m",)]}),
    "instance-twice": ("duplicate-instance", {"members": [("m", "i"), ("n", "i")]}),
    "member-null": ("null-key", {"members": [("m",), (None,)]}),
    "topic-null": ("null-key", {"members": [("m",)], "subscriptions": [("m", None)]}),
    "subscriber-null": ("null-key", {"members": [("m",)], "subscriptions": [(None, "t")]}),
    "subscriber-unknown": ("unknown-member", {"members": [("m",)], "subscriptions": [("x", "t")]}),
    "only-subscriptions": ("unknown-member", {"subscriptions": [("x", "t")]}),
    "group-twice": ("duplicate-group", {"members": [("m",)], "groups": [("range",), ("range",)]}),
}
FAULTY_ROWS = {
    "owner-unknown": ("unknown-member", {"members": [("m",)], "owned": [("x", "t", 0)]}),
    "owned-twice": ("duplicate-owned", {"members": [("m",)], "owned": [("m", "t", 0), ("m", "t", 0)]}),
    "owned-negative": ("bad-partition", {"members": [("m",)], "owned": [("m", "t", -1)]}),
    "owned-null": ("null-key", {"members": [("m",)], "owned": [("m", None, 1)]}),
}
FAULTY_RUNS = {
    "no-step": ("bad-partition", {"members": [("m",)], "owned_slices": [("m", "t", 0, 0, 2)]}),
    "run-null": ("null-key", {"members": [("m",)], "owned_slices": [("m", "t", 0, None, 2)]}),
    "run-of-stranger": ("unknown-member", {"members": [("m",)], "owned_slices": [("x", "t", 0, 1, 2)]}),
    "runs-meet": ("duplicate-owned", {"members": [("m",)], "owned_slices": [("m", "t", 0, 2, 3), ("m", "t", 1, 3, 2)]}),
}


@pytest.mark.once
@pytest.mark.parametrize(
    ("faulty", "is_compact"),
    [({**FAULTY, **FAULTY_ROWS}, False), ({**FAULTY, **FAULTY_ROWS}, True), ({**FAULTY, **FAULTY_RUNS}, False)],
    ids=["rows", "lists_and_bitmaps", "assignment_slices"],
)
def test_faulty_groups_are_set_aside(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    faulty: dict[str, tuple[str, dict[str, list]]],
    is_compact: bool,
) -> None:
    """Each is rejected with its code; the good group is planned, and measured, as if nothing were."""
    if is_compact:
        monkeypatch.setattr(facts, "SPARSE", 0)
        monkeypatch.setattr(facts, "MANY_TOPICS", 0)
    rows: dict[str, list] = {}
    for group_id, (_, tables) in faulty.items():
        for name, given in tables.items():
            rows.setdefault(name, []).extend(("c", group_id, *row) for row in given)
    given = fleet(spark, GOOD, topics={"t": 4}, **rows)
    planned = kept(plan(with_lists(given) if is_compact else given, "range"))
    expected = sorted(("c", group_id, code) for group_id, (code, _) in faulty.items())
    assert tuples(planned.rejected, "cluster", "group_id", "code") == expected
    assert tuples(planned.metrics, "group_id", "members", "partitions") == [("good", 2, 4)]
    owners = [("good", f"m{1 + partition // 2}", partition) for partition in range(4)]
    assert tuples(planned.assignments, "group_id", "member_id", "partition") == owners
    assert {row.group_id for row in planned.moves.collect()} == {"good"}


def test_one_group_has_one_row_with_all_its_faults(spark: SparkSession) -> None:
    """The gravest gives the code, the detail tells all."""
    more = {"members": [("c", "bad", "m")] * 2, "subscriptions": [("c", "bad", "x", "t")]}
    planned = plan(fleet(spark, GOOD, topics={"t": 4}, **more), "roundrobin")
    [(code, detail)] = tuples(planned.rejected, "code", "detail")
    assert code == "duplicate-member"
    assert detail == (
        "members: member_id=m. Keep one row per member; subscriptions: member_id=x. "
        "Add the member to members, or take its rows out (Fleet.with_members_left does so)"
    )


def test_ownership_changes_its_form_without_loss(spark: SparkSession) -> None:
    """Rows become runs and runs become rows, uneven ones too."""
    parts = {"a": [0, 1, 2, 5, 7, 9, 20], "b": [3], "d": [4, 8, 12, 13, 14], "e": [0, 1, 5, 6], "f": [40, 72, 104]}
    rows = [("c", "g", member, "t", partition) for member, owned in parts.items() for partition in owned]
    start = fleet(spark, {"g": dict.fromkeys(parts, "t")}, topics={"t": 105}, owned=rows)
    assert start.owned is not None
    runs = compress(start.owned)
    assert tuples(runs, "member_id", "first", "step", "count") == [
        *(("a", 0, 1, 3), ("a", 5, 2, 3), ("a", 20, 1, 1), ("b", 3, 1, 1), ("d", 4, 4, 3), ("d", 13, 1, 2)),
        *(("e", 0, 1, 2), ("e", 5, 1, 2), ("f", 40, 32, 3)),
    ]
    assert tuples(expand(runs)) == sorted(rows)


def test_numbers_that_are_further_apart_than_an_int(spark: SparkSession) -> None:
    """An int overflows: Spark ends the query, and the embedded engine counts on from the smallest number."""
    slices = spark.createDataFrame([(-(2**31), 2**31 - 1, 3)], "first int, step int, count int")
    numbers = (-1, 0, 2**31 - 2, 2**31 - 1)
    has = (contains_partition(F.lit(each), F.col("first"), F.col("step"), F.col("count")) for each in numbers)
    (found,) = slices.select(*(each.alias(f"n{at}") for at, each in enumerate(has))).collect()
    assert tuple(found) == (True, False, True, False)


def test_the_check_of_a_fleet_has_no_sql_text(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sail keeps 40 kB of each text that it parses. With the 126 of each check, a warm process grew without end."""
    from pyspark.sql.connect.expressions import SQLExpression

    read = fleet(spark, GOOD)
    texts: list[str] = []
    monkeypatch.setattr(SQLExpression, "__init__", lambda _, text: texts.append(text))
    assert read.sizes.members == 2
    assert not texts


@pytest.mark.once
def test_read_plan_and_write(spark: SparkSession, tmp_path: Path) -> None:
    """As methods: a folder is planned, and stored under the time or a name; a table of its own comes from elsewhere."""
    given = fleet(spark, GOOD, topics={"t": 4})
    for name in ("topics", "members", "subscriptions"):
        getattr(given, name).write.parquet(str(tmp_path / "fleet" / name))
    (tmp_path / "groups.csv").write_text("cluster,group_id,assignor\nc,good,roundrobin\n")
    found = Fleet.read(spark, str(tmp_path / "fleet"), tables={"groups": str(tmp_path / "groups.csv")})
    planned = plan(found)
    named = planned.write(str(tmp_path / "plans"), run_id="r", tables=["assignment_slices"], format="json")
    assert (named.run_id, named.rows) == ("r", {"assignment_slices": 2, "metrics": 1, "rejected": 0})
    timed = planned.write(str(tmp_path / "plans"), tables=[], inputs={"fleet": "here"})
    assert re.fullmatch(r"\d{8}T\d{6}Z", timed.run_id)
    assert timed.content["inputs"] == {"fleet": "here", "unknown": found.unknown}
    assert any("What members own isn't known" in each for each in found.unknown)
    assert tuples(read_run(spark, str(tmp_path / "plans"), "r").tables["metrics"], "assignor") == [("roundrobin",)]


WHAT_IFS = (
    lambda fleet: fleet,
    lambda fleet: fleet.with_members_left(cluster="c", count=1),
    lambda fleet: fleet.with_members_joined(group_id="*r", count=2),
    lambda fleet: fleet.with_members_joined(count=1, topics=["t", "u"]),
    lambda fleet: fleet.filter_groups(fleet.members.where("group_id = 'near'")),
)


@pytest.mark.once
def test_subscription_lists_are_the_same_subscriptions(spark: SparkSession, tmp_path: Path) -> None:
    """After every change of members, and as a table or as text; a list that is null is the fault of its group."""
    rows = mixed(spark)
    lists = with_lists(rows)
    for change in WHAT_IFS:
        of_rows, of_lists = change(rows), change(lists)
        assert of_lists.subscriptions is None
        assert tuples(of_lists.subscription_rows.distinct()) == tuples(of_rows.subscription_rows.distinct())
        assert tuples(of_lists.subscribed_topics) == tuples(of_rows.subscribed_topics)
    (tmp_path / "topics.csv").write_text("cluster,topic,partitions\nc,t,2\nc,u,1\n")
    (tmp_path / "members.csv").write_text("cluster,group_id,member_id\nc,g,m\nc,g,n\nc,h,m\nc,i,m\n")
    text = 'cluster,group_id,member_ids,topics\nc,g,"[""m"",""n""]","t,u"\nc,h,,t\nc,i,m,\n'
    (tmp_path / "subscription_lists.csv").write_text(text)
    planned = kept(plan(Fleet.read(spark, str(tmp_path)), "range"))
    assert tuples(planned.assignments) == [("c", "g", "m", "t", 0), ("c", "g", "m", "u", 0), ("c", "g", "n", "t", 1)]
    assert tuples(planned.rejected, "group_id", "code") == [("h", "null-key"), ("i", "null-key")]


def test_groups_of_sparks_kafka_source_are_left_out(spark: SparkSession) -> None:
    """A snapshot of an earlier release has them. Rows without a group stay."""
    own, other = "spark-kafka-source-1f0c7a3e--7-driver-0", "my-spark-kafka-source"
    both = {name: {"m": "t"} for name in (own, other)}
    owned = {(name, "m", "t"): [0] for name in both}
    loads = [("c", "t", 0, None, 1.0), ("c", "t", 0, own, None), ("c", "t", 0, other, None)]
    read = fleet(spark, both, topics={"t": 2}, owned=owned, loads=loads)
    assert read.owned is not None
    assert read.loads is not None
    for name in ("members", "subscriptions", "owned"):
        assert [row["group_id"] for row in getattr(read, name).collect()] == [other]
    assert {row["group_id"] for row in read.loads.collect()} == {None, other}
    assert [row["group_id"] for row in plan(read, "range").metrics.collect()] == [other]
    assert read.rejected.isEmpty()
