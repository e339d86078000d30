"""What a plan says beside who gets what: moves, revocations, metrics; and that it hangs on the fleet alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs import plan as plan_job
from spark_assign import ConfigError, Fleet, FleetError, plan
from spark_assign.groups.explaining import explain
from spark_assign.numeric.arrays import MAX_PARTITIONS
from spark_assign.spark.dataframes import compress, contains_partition, expand
from spark_assign.tables.groups import PLAN_TABLES
from spark_assign.tables.schema_fields import MAX_NAME_BYTES
from tests.golden import tables
from tests.kafka import random_groups
from tests.spark.fleets import fleet, kept, shuffled, table, tuples, written_as_json

pytestmark = pytest.mark.spark

TABLES = ("assignments", "assignment_slices", "moves", "revocations", "metrics", "rejected")


def _odd_fleet(spark: SparkSession) -> Fleet:
    """One group with everything that Kafka has rules for, and two that own nothing."""
    subscribed = {"g": {"m1": ["t", "u", "none"], "m2": "t", "m3": ""}}
    owned = {("m1", "t"): [0, 2], ("m2", "t"): [2, 3, 9], ("m2", "u"): [0], ("m3", "gone"): [0], ("m3", "w"): [1]}
    return fleet(
        spark,
        subscribed | dict.fromkeys("hi", dict.fromkeys("ab", "tu")),
        topics={"t": 4, "u": 2, "w": 2},
        owned={("g", *key): partitions for key, partitions in owned.items()},
    )


@pytest.mark.once
def test_every_change_of_owner_has_its_reason(spark: SparkSession) -> None:
    """m1 gets t0, t1, u0, u1 and m2 gets t2, t3."""
    planned = kept(plan(_odd_fleet(spark), "range"))
    for name in TABLES:
        found = [(field.name, field.dataType) for field in getattr(planned, name).schema.fields]
        assert found == [(field.name, field.dataType) for field in PLAN_TABLES[name].fields], name
    moves = planned.moves.where("group_id = 'g'")
    assert tuples(moves, "topic", "partition", "from_member_id", "to_member_id", "reason") == [
        ("gone", 0, "m3", None, "topic-gone"),
        ("t", 1, None, "m1", "new"),
        ("t", 2, "m1", "m2", "claim-conflict"),
        ("t", 9, "m2", None, "partition-gone"),
        ("u", 0, "m2", "m1", "unsubscribed"),
        ("u", 1, None, "m1", "new"),
        ("w", 1, "m3", None, "unsubscribed"),
    ]
    assert tuples(planned.revocations, "member_id", "topic", "partition", "next_member_id") == [
        ("m1", "t", 2, "m2"),
        ("m2", "t", 9, None),
        ("m2", "u", 0, "m1"),
        ("m3", "gone", 0, None),
        ("m3", "w", 1, None),
    ]


@pytest.mark.once
def test_metrics_count_what_is_odd(spark: SparkSession) -> None:
    """Of a fleet that gives ownership as runs; as rows it becomes runs before anything is counted."""
    odd = _odd_fleet(spark)
    assert odd.owned is not None
    planned = kept(plan(replace(odd, owned=None, owned_slices=compress(odd.owned)), "range"))
    assert planned.metrics.columns == PLAN_TABLES["metrics"].names
    [row] = planned.metrics.where("group_id = 'g'").collect()
    expected = {"cluster": "c", "group_id": "g", "assignor": "range", "members": 3, "partitions": 6}
    expected |= {"min_per_member": 0, "max_per_member": 4, "mean_per_member": 2.0, "max_over_mean": 2.0}
    expected |= {"moved": 1, "revoked": 5, "unassigned": 0, "withheld": 0, "order_dependent": 0}
    assert row.asDict() == {
        **expected,
        "stddev_per_member": pytest.approx(1.632993),
        **dict.fromkeys(("members_without_subscription", "unknown_topics", "owned_unknown_topic"), 1),
        **dict.fromkeys(("owned_out_of_range", "claim_conflicts"), 1),
        **dict.fromkeys(("rack_matched", "leader_client", "load_bound_status")),
        **dict.fromkeys(("load", "max_load_per_member", "load_max_over_mean", "load_unknown", "drain_seconds")),
        "final_min_per_member": 0,
        "final_max_per_member": 4,
        "final_max_over_mean": 2.0,
        "topic_max_over_mean": 1.0,
        "members_without_partitions": 0,
        "note": "members subscribe to different topics, and one has 4 partitions, and an even share is 3",
    }
    others = planned.metrics.where("group_id != 'g'")
    assert tuples(others, "group_id", "partitions", "moved", "revoked") == [("h", 6, 0, 0), ("i", 6, 0, 0)]


@pytest.mark.once
def test_departed_members_are_distinguished(spark: SparkSession) -> None:
    """What a leaver owned moves because it left; it revokes nothing."""
    members = {f"m{number}": "t" for number in (1, 2, 3)}
    runs = [("c", "g", member, "t", 2 * number, 1, 2) for number, member in enumerate(members)]
    start = fleet(spark, {"g": members}, topics={"t": 6}, owned_slices=runs)
    after = start.with_members_left(table(spark, "members", [("c", "g", "m2"), ("c", "g", "nobody")]))
    planned = kept(plan(after, "range"))
    assert tuples(planned.moves, "partition", "from_member_id", "to_member_id", "reason") == [
        (2, "m2", "m1", "member-left"),
        (3, "m2", "m3", "member-left"),
    ]
    assert planned.revocations.count() == 0
    assert tuples(planned.metrics, "members", "moved", "revoked") == [(2, 2, 0)]
    assert tuples(plan(start, "range").metrics, "moved", "revoked") == [(0, 0)]
    with pytest.raises(FleetError, match=r"leavers\.member_id: the column is missing"):
        start.with_members_left(start.topics)


def test_a_group_keeps_its_configured_assignor(spark: SparkSession) -> None:
    """Per group by pattern, or each group's own; what nobody can plan is rejected and says so."""
    subscribed = dict.fromkeys(("pay-1", "pay-2", "web", "old", "srv"), dict.fromkeys("ab", "tu"))
    groups = [("c", "pay-1", "roundrobin"), ("c", "web", "mystery"), ("c", "srv", "range", "consumer")]
    groups += [("c", "old", None), ("c", "idle", None, "classic", "Empty"), ("c", "connect-sink", None, "connect")]
    many = fleet(spark, subscribed, topics={"t": 3, "u": 3}, groups=groups)
    planned = kept(plan(many, {"pay-2": "range", "*": "configured"}))
    assigned_by = {"idle": "none", "pay-1": "roundrobin", "pay-2": "range", "srv": "server-range"}
    assert tuples(planned.metrics, "group_id", "assignor") == [*assigned_by.items()]
    assert tuples(planned.rejected, "group_id", "code") == [("old", "no-assignor"), ("web", "unknown-assignor")]
    for (name, member), partitions in {("pay-1", "a"): ["t0", "t2", "u1"], ("pay-2", "b"): ["t2", "u2"]}.items():
        assigned = planned.assignments.where(f"group_id = '{name}' and member_id = '{member}'")
        assert [f"{topic}{at}" for topic, at in tuples(assigned, "topic", "partition")] == partitions
    some = kept(plan(many, {"pay-*": "range"}))
    assert {row.code for row in some.rejected.collect()} == {"no-pattern"}
    assert tuples(some.metrics, "group_id", "members", "partitions", "max_over_mean") == [
        ("idle", 0, 0, None),
        ("pay-1", 2, 6, pytest.approx(1.3333333)),
        ("pay-2", 2, 6, pytest.approx(1.3333333)),
    ]
    with pytest.raises(ConfigError, match="did you mean 'roundrobin'"):
        plan(many, "roundrobbin")


@pytest.mark.once
def test_the_plan_hangs_on_the_fleet_alone(spark: SparkSession, seed: int) -> None:
    """Rows in any order, in any number of Spark partitions: the same plan, row for row.

    (The sticky kernels have a test of their own, without Spark.)
    """
    ordered = tables.fleet_of(spark, random_groups.groups("range", seed, small=40, mid_size=0))
    one, other = kept(plan(ordered, "range")), kept(plan(shuffled(ordered, seed), "range"))
    for name in ("assignment_slices", "rejected"):
        assert_df_equality(getattr(one, name), getattr(other, name), ignore_row_order=True, ignore_nullable=True)


@pytest.mark.once
def test_metrics_do_not_expand_partitions(spark: SparkSession) -> None:
    """The largest topic is measured in no time."""
    planned = plan(fleet(spark, {"g": dict.fromkeys("abc", "t")}, topics={"t": MAX_PARTITIONS}), "roundrobin")
    assert tuples(planned.metrics, "partitions", "min_per_member", "max_per_member") == [(1_000_000, 333_333, 333_334)]


@pytest.mark.once
def test_a_number_without_a_bound_rejects_its_group_only(spark: SparkSession) -> None:
    """A topic and a slice with 2^31 - 1 partitions; all tables of the plan are computed."""
    given = fleet(
        spark,
        {"large-topic": {"m": ["huge"]}, "long-slice": {"m": "t"}, "good": {"m": "t"}},
        topics={"huge": 2**31 - 1, "t": 3},
        owned_slices=[("c", "long-slice", "m", "t", 0, 1, 2**31 - 1), ("c", "good", "m", "t", 0, 1, 2)],
    )
    for assignor in ("roundrobin", "cooperative-sticky"):
        planned = plan(given, assignor)
        assert tuples(planned.rejected, "group_id", "code") == [
            ("large-topic", "too-many-partitions"),
            ("long-slice", "too-many-partitions"),
        ]
        assert tuples(planned.assignments, "group_id", "partition") == [("good", 0), ("good", 1), ("good", 2)]
        assert planned.moves.count() == 1


@pytest.mark.once
def test_long_member_ids_are_not_multiplied(spark: SparkSession) -> None:
    """A hundred IDs of 32 kB, and 700 partitions that change hands: no row of a change has all IDs of its topic."""
    ids = [f"{number:03d}-{'x' * 32_000}" for number in range(100)]
    owned = [("c", "g", name, "t", first, 100, 7) for first, name in enumerate(ids)]
    planned = plan(fleet(spark, {"g": dict.fromkeys(ids, "t")}, topics={"t": 700}, owned_slices=owned), "range")
    for changes in (planned.moves, planned.revocations.withColumnsRenamed({"next_member_id": "to_member_id"})):
        named = changes.select("partition", F.substring("to_member_id", 1, 3), F.length("to_member_id"))
        found = [tuple(row) for row in named.orderBy("partition").collect()]
        changed = [partition for partition in range(700) if partition % 100 != partition // 7]
        assert found == [(partition, f"{partition // 7:03d}", 32_004) for partition in changed]


@pytest.mark.once
def test_slices_are_expanded_in_pieces(spark: SparkSession) -> None:
    """Any length and step, up to the largest partition; a stored slice of 2^31 - 1 partitions needs no such array."""
    rows = [("a", 0, 1, 0), ("b", 7, 3, 250_001), ("c", 2**31 - 1, 1, 1), ("d", 0, 1, 10_000), ("e", 0, 2**31 - 1, 2)]
    slices = spark.createDataFrame(rows, "name string, first int, step int, count int")
    found = expand(slices).groupBy("name").agg(F.count("*"), F.min("partition"), F.max("partition")).collect()
    assert sorted(map(tuple, found)) == [
        ("b", 250_001, 7, 750_007),
        ("c", 1, 2**31 - 1, 2**31 - 1),
        ("d", 10_000, 0, 9_999),
        ("e", 2, 0, 2**31 - 1),
    ]
    long = spark.createDataFrame([("x" * MAX_NAME_BYTES, 0, 1, 70_000)], slices.schema)
    assert expand(long).agg(F.sum(F.length("name"))).collect()[0][0] == MAX_NAME_BYTES * 70_000 > 2**31
    endless = spark.createDataFrame([("x", 0, 1, 2**31 - 1)], slices.schema)
    assert expand(endless).limit(1).collect()[0]["partition"] == 0
    claim = spark.createDataFrame([("x", -(2**31), 2**31 - 1, 3)], slices.schema)  # -2^31, -1, 2^31 - 2
    found = [contains_partition(F.lit(each), F.col("first"), F.col("step"), F.col("count")) for each in (1, 2**31 - 2)]
    assert tuple(claim.select(*found).collect()[0]) == (False, True)


def test_explain(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The job explains one partition, as text or as rows, and writes nothing; a wrong name is wrong input."""
    members = [{"cluster": cluster, "group_id": group, "member_id": "a"} for cluster, group in (("c", "g"), ("d", "g"))]
    tables = {
        "topics": [{"cluster": cluster, "topic": "t-x", "partitions": 2} for cluster in ("c", "d")],
        "members": [*members, {**members[0], "member_id": "b"}],
        "subscriptions": [{**row, "topic": "t-x"} for row in (*members, {**members[0], "member_id": "b"})],
        "owned": [{**members[0], "topic": "t-x", "partition": partition} for partition in (0, 1)],
    }
    words = ["--fleet", str(written_as_json(tmp_path, tables)), "--assignor", "cooperative-sticky"]
    assert plan_job.main([*words, "--explain", "c/g", "t-x-1"]) == 0
    why = "moves from a to b, because a owned 2, its quota is 1, and this is number 2 of them"
    assert capsys.readouterr().out.startswith(f"t-x-1 of c/g: {why}")
    assert plan_job.main([*words, "--explain", "c/g", "t-x-0", "-o", "json"]) == 0
    row = {"cluster": "c", "group_id": "g", "topic": "t-x", "partition": 0}
    moved = {"from_member_id": "a", "to_member_id": "a", "reason": None}
    document = json.loads(capsys.readouterr().out)
    assert document["tables"] == {"moves": [{**row, **moved, "explanation": "stays with a, which owned 2 (quota 1)."}]}
    assert document["summary"] == "t-x-0 of c/g: stays with a, which owned 2 (quota 1)."
    slash = {"cluster": "c", "group_id": "c/g", "member_id": "z"}
    tables["members"].append(slash)
    tables["subscriptions"].append({**slash, "topic": "t-x"})
    written_as_json(tmp_path, tables)
    for name, group in (("c/g", "c/g"), ("c/c/g", "c/c/g"), ("d/g", "d/g")):  # CLUSTER/GROUP is before a group's ID
        assert plan_job.main([*words, "--explain", name, "t-x-1"]) == 0
        assert capsys.readouterr().out.startswith(f"t-x-1 of {group}: ")
    for value, more, problem in (
        (("g", "t-x-0"), [], "Several clusters have a group g. Use one of: c/g, d/g."),
        (("h", "t-x-0"), [], "The fleet has no group h. Did you mean g?"),
        (("c/g", "t-y-1"), [], "as TOPIC-PARTITION. Did you mean t-x?"),
        (("c/g", "t-x-2"), [], "t-x-2 is neither owned nor assigned in that group."),
        (("c/g", "t-x"), [], "--explain c/g t-x: expected GROUP TOPIC-PARTITION"),
        (("c/g", "t-x-1"), ["--output", "./plans"], "--explain writes no plan. Remove --output."),
    ):
        assert plan_job.main([*words, "--explain", *value, *more, "--outcome", str(tmp_path / "outcome.json")]) == 2
        assert problem in json.loads((tmp_path / "outcome.json").read_text())["error"]["message"]


@pytest.mark.once
def test_explain_gives_the_numbers_of_the_rule(spark: SparkSession) -> None:
    """Rank, quota, and remainder of range; the number of the partition in the ring of round robin."""
    members = {name: ["t", "u"] for name in "abc"}
    planned = fleet(spark, {"g": members, "h": {"a": "t", "b": ["t", "u"], "c": "u"}}, topics={"t": 10, "u": 3})
    by_range, in_turn = plan(planned, "range"), plan(planned, "roundrobin")
    assert explain(by_range, "g", "t", 3) == (
        "t-3 of c/g: moves to a, because what members own isn't known (owned, owned_slices, owned_lists). "
        "By range, a has rank 1 of 3; 10 partitions: quota 3, the first one gets one more."
    )
    assert explain(by_range, "g", "u", 2).endswith("By range, c has rank 3 of 3; 3 partitions: quota 1.")
    assert explain(in_turn, "g", "u", 1).endswith(
        "By roundrobin, c has rank 3 of 3; this is partition 11 of all topics, from 0, and 11 modulo 3 is 2."
    )
    assert "Racks, or different subscriptions, decide here" in explain(in_turn, "h", "u", 0)


def test_explain_lists_ten_claims(spark: SparkSession) -> None:
    """Anyone can claim a partition: the other claims are counted."""
    members = [f"m{at:02d}" for at in range(13)]
    owned = {("g", member, "t"): [0] for member in members}
    planned = plan(fleet(spark, {"g": dict.fromkeys(members, "t")}, topics={"t": 2}, owned=owned), "cooperative-sticky")
    text = explain(planned, "g", "t", 0)
    assert (text.count("13 members claim it"), text.count("from m")) == (10, 10)
    assert text.endswith((" Left out: 3 other claims.", " Left out: 2 other claims."))


def test_details(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The job prints the members of a group, as text or as rows of the stored tables, and writes nothing."""
    key = {"cluster": "c", "group_id": "g"}
    load = {"cluster": "c", "topic": "t", "in_messages_per_second": 1.5}
    tables = {
        "topics": [{"cluster": "c", "topic": "t", "partitions": 4}],
        "members": [{**key, "member_id": name, "client_id": name * 2} for name in "abc"]
        + [{**key, "group_id": "other", "member_id": "a"}],
        "subscriptions": [{**key, "member_id": name, "topic": "t"} for name in "ab"],
        "owned": [{**key, "member_id": "a", "topic": "t", "partition": at} for at in range(4)],
        "loads": [{**load, "partition": at} for at in range(4)] + [{**load, **key, "partition": 2, "lag": 7}],
        "offsets": [{**key, "topic": "t", "partition": at, "lag": 100} for at in (2, 3)],
    }
    words = ["--fleet", str(written_as_json(tmp_path, tables)), "--assignor", "cooperative-sticky"]
    assert plan_job.main([*words, "--details", "c/g"]) == 0
    assert (
        capsys.readouterr().out.split("\n", 1)[1]
        == """\
  member  client  host  partitions  gained  lost  lag  messages/s
  a       aa      –              2       0     2  107         3.0
    t 2-3
    loses t 0-1 to b: its next owner had at least two partitions fewer
  b       bb      –          0 + 2       2     0    –           –
    gains t 0-1 from a in the next round: its next owner had at least two partitions fewer
  c       cc      –              0       0     0    –           –

Types of groups aren't known (groups): planned as classic.
Nothing is known of loads.out_messages_per_second: loads of members, and the time in which they read their lag, \
can be unknown.
"""
    )
    assert plan_job.main([*words, "--details", "g*", "-o", "json"]) == 0
    tables_by_name = json.loads(capsys.readouterr().out)["tables"]
    assert list(tables_by_name) == ["metrics", "members", "assignment_slices", "moves"]
    assert [row["partition"] for row in tables_by_name["moves"]] == [0, 1]
    assert tables_by_name["assignment_slices"] == [
        {**key, "member_id": "a", "topic": "t", "first": 2, "step": 1, "count": 2}
    ]
    for value, more, problem in (
        ("othr", [], "The fleet has no group othr. Did you mean other?"),
        ("g", ["--run-id", "x"], "--details writes no plan. Remove --run-id."),
        ("g", ["--explain", "g", "t-1"], "--explain can't be used with --details."),
    ):
        assert plan_job.main([*words, "--details", value, *more, "--outcome", str(tmp_path / "outcome.json")]) == 2
        assert problem in json.loads((tmp_path / "outcome.json").read_text())["error"]["message"]
