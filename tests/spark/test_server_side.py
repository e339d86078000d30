"""Groups that the broker assigns (KIP-848), and such that might go over or back: every table and every word."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_assign import Fleet, Plan, compare, converge, explain, find_drift, plan
from spark_assign.comparison.what_if import AS_IS, members_joined, members_left
from spark_assign.report.comparison import summarize_comparison
from spark_assign.report.html import report
from spark_assign.spark.engine import cached
from spark_assign.stores.run_store import read_run
from tests.spark.fleets import fleet, kept, tuples

pytestmark = [pytest.mark.spark, pytest.mark.keeps_cached]

TOPIC_IDS = {"t": "4Fh1cbVvQ8q3vYxjXkV0Yw", "u": "QbS1mZ1nTrS6nNn5V1l2bA"}
GROUPS = {"sticks": ("uniform", "consumer"), "ranges": ("range", "consumer"), "stays": ("range", "classic")}
MEMBERS = ("a", "b", "c")
RACKS = {"a": "x", "b": "y", "c": "y"}


@pytest.fixture(scope="module")
def groups(spark: SparkSession) -> Fleet:
    """Three groups of three members, of which c has just come; a is in rack x, and but for two its partitions in y."""
    return fleet(
        spark,
        topics=[("m", "t", 8, TOPIC_IDS["t"]), ("m", "u", 4, TOPIC_IDS["u"])],
        members=[
            ("m", group, member, None, None, None, RACKS[member], None, None, place)
            for group in GROUPS
            for place, member in enumerate(MEMBERS)
        ],
        subscriptions=[("m", group, member, topic) for group in GROUPS for member in MEMBERS for topic in TOPIC_IDS],
        owned=[
            ("m", group, member, topic, partition)
            for group in GROUPS
            for member, topic, some in (("a", "t", range(6)), ("b", "t", (6, 7)), ("b", "u", range(4)))
            for partition in some
        ],
        groups=[("m", group, assignor, kind) for group, (assignor, kind) in GROUPS.items()],
        replicas=[
            *(("m", "t", partition, [1 if partition in (4, 5) else 2]) for partition in range(8)),
            *(("m", "u", partition, [2]) for partition in range(4)),
        ],
        brokers=[("m", 1, "x"), ("m", 2, "y")],
    )


@pytest.fixture(scope="module")
def planned(groups: Fleet) -> Plan:
    """Each by its own assignor."""
    return kept(plan(groups))


def test_each_group_by_its_own_assignor(planned: Plan) -> None:
    """Uniform moves what it must and withholds it; server-range lays out anew; the clients' range withholds nothing."""
    figures = ("group_id", "assignor", "moved", "revoked", "withheld", "unassigned", "order_dependent")
    assert tuples(planned.metrics, *figures) == [
        ("ranges", "server-range", 8, 8, 8, 8, 0),
        ("stays", "range", 9, 9, 0, 0, 0),
        ("sticks", "uniform", 4, 4, 4, 4, 0),
    ]
    assert planned.rejected.count() == 0
    assert {row["reason"] for row in planned.moves.where("group_id = 'sticks'").collect()} == {"over-quota"}
    gone = tuples(planned.revocations.where("group_id = 'sticks'"), "member_id", "topic", "partition", "next_member_id")
    assert [(member, to) for member, _, _, to in gone] == [("a", "c")] * 2 + [("b", "c")] * 2
    late = {
        (row["topic"], row["first"] + at * row["step"])
        for row in planned.withheld.where("group_id = 'sticks'").collect()
        for at in range(row["count"])
    }
    assert late == {(topic, partition) for _, topic, partition, _ in gone}


@pytest.mark.parametrize("assignor", ["uniform", "server-range", "rack-uniform", "rack-server-range"])
def test_every_group_may_go_over(groups: Fleet, assignor: str) -> None:
    """Whatever it is now, it gets what the broker's own groups get; the table it would stand in is a guess."""
    over = kept(plan(groups, assignor))
    metrics = {row["group_id"]: row for row in over.metrics.collect()}
    for name in ("moved", "withheld", "max_per_member", "rack_matched"):
        assert len({row[name] for row in metrics.values()}) == 1, name
    assert {row["assignor"] for row in metrics.values()} == {assignor}
    targets = {
        group: tuples(over.target.where(f"group_id = '{group}'"), "member_id", "topic", "first", "count")
        for group in GROUPS
    }
    assert targets["sticks"] == targets["ranges"] == targets["stays"]


def test_and_back_again(groups: Fleet) -> None:
    """By the assignors of the clients all groups get the same, too."""
    for assignor in ("range", "cooperative-sticky"):
        back = plan(groups, assignor)
        assert len({row[1:] for row in tuples(back.metrics, "group_id", "moved", "withheld", "max_per_member")}) == 1


def test_racks_are_what_ours_would_save(groups: Fleet) -> None:
    """As balanced, no move more, and fewer reads across racks."""
    figures = ("group_id", "assignor", "moved", "max_over_mean", "rack_matched")
    found = compare(groups, ["uniform", "rack-uniform", "server-range", "rack-server-range"]).comparison
    rows = {
        row["assignor"]: row
        for row in found.where("group_id = 'sticks'").select(*figures, "recommended", "switch_steps").collect()
    }
    for ours, kafkas in (("rack-uniform", "uniform"), ("rack-server-range", "server-range")):
        assert rows[ours]["max_over_mean"] == rows[kafkas]["max_over_mean"]
        assert rows[ours]["rack_matched"] > rows[kafkas]["rack_matched"]
    assert rows["rack-uniform"]["moved"] == rows["uniform"]["moved"]
    best = next(row for row in rows.values() if row["recommended"])
    assert best["assignor"] == "rack-uniform"
    assert best["switch_steps"].startswith("Kafka has no rack-uniform")


def test_compared_by_those_of_its_own_protocol(groups: Fleet) -> None:
    """By default; named ones are compared in every group. A group that cannot change with its protocol need not."""
    what_ifs = [AS_IS, members_joined(group_id="*", count=1), members_left(group_id="s*", count=1)]
    compared = cached(compare(groups, what_ifs=what_ifs).comparison)
    found: dict[tuple[str, str], set[str]] = {}
    for row in compared.collect():
        found.setdefault((row["what_if"], row["group_id"]), set()).add(row["assignor"])
        assert row["rejected"] is None
        if row["assignor"] in ("uniform", "server-range"):
            # Who loses something takes a heartbeat more, who waits one more; by server-range one may do both.
            most = 3 if row["assignor"] == "server-range" else 2
            assert row["rounds"] in (range(2, most + 1) if row["revoked"] else (1,))
    broker, clients = {"uniform", "server-range"}, {"range", "roundrobin", "sticky", "cooperative-sticky"}
    changes = {change for change, _ in found}
    assert len(changes) == 3
    assert found == {(change, group): clients if group == "stays" else broker for change in changes for group in GROUPS}
    best = tuples(compared.where("recommended and what_if = 'as-is'"), "group_id", "assignor", "current_assignor")
    assert best[0] == ("ranges", "uniform", "server-range")
    assert best[2] == ("sticks", "uniform", "uniform")
    (way,) = {
        row["switch_steps"]
        for row in compared.where("group_id = 'ranges' and recommended and what_if = 'as-is'").collect()
    }
    assert "group.remote.assignor" in way
    text = summarize_comparison(compared, 10)
    assert "m/ranges" in text
    assert "which is not compared" not in text
    assert "server-range" in report(comparison=compared)


def test_a_fleet_without_groups_is_compared_by_the_clients(groups: Fleet) -> None:
    """Nobody says that the broker assigns."""
    silent = Fleet(topics=groups.topics, members=groups.members, subscriptions=groups.subscriptions)
    assert {row["assignor"] for row in compare(silent).comparison.collect()} == {
        "range",
        "roundrobin",
        "sticky",
        "cooperative-sticky",
    }


def test_what_depends_on_an_order_is_listed(groups: Fleet) -> None:
    """Without the ids of topics it is not known which partitions c gets; with them it is."""
    nameless = Fleet(
        topics=groups.topics.drop("topic_id"),
        members=groups.members.where("member_id != 'b'"),
        subscriptions=groups.subscriptions.where("member_id != 'b'"),
        owned=groups.owned.where("member_id != 'b' and partition < 3"),
        groups=groups.groups,
    )
    over = kept(plan(nameless, "uniform"))
    metrics = {row["group_id"]: row["order_dependent"] for row in over.metrics.collect()}
    listed: dict[str, int] = dict.fromkeys(GROUPS, 0)
    for row in over.order_dependent.collect():
        listed[row["group_id"]] += row["count"]
    assert listed == metrics
    assert metrics["sticks"] > 0
    assert over.order_dependent.where("member_id = 'a' and topic = 't' and first < 3").isEmpty()
    one = over.order_dependent.where("group_id = 'sticks'").first()
    assert one is not None
    assert explain(over, "sticks", one["topic"], one["first"]).endswith(
        "This depends on an order that the fleet doesn't specify, so Kafka might choose another member."
    )
    assert "might go to another member: an order is unknown" in report(over)


def test_the_story_of_a_partition(planned: Plan) -> None:
    """No rounds, and no order that it does not have."""
    moved = planned.moves.where("group_id = 'sticks' and from_member_id = 'a'").orderBy("partition").first()
    assert moved is not None
    assert explain(planned, "sticks", "t", moved["partition"]) == (
        f"t-{moved['partition']} of m/sticks: moves from a to c, because a owned 6 and its quota is 4; Java's hash "
        "order determines which of them it revokes. It is withheld until a has revoked it."
    )
    assert explain(planned, "sticks", "u", 0).startswith("u-0 of m/sticks: ")


def test_on_the_page(planned: Plan) -> None:
    """What waits is not said to wait for a round."""
    text = report(planned)
    assert "4 wait until they are revoked" in text
    assert "server-range" in text


def test_carried_out_nothing_moves_any_more(groups: Fleet, tmp_path: Path) -> None:
    """Stored, read back, held against what came of it; and the way there had two steps."""
    over = kept(plan(groups, "uniform"))
    over.write(str(tmp_path), run_id="over", tables=("assignment_slices", "revocations", "metrics"))
    stored = read_run(groups.members.sparkSession, str(tmp_path), "over")
    assert stored.tables["metrics"].where("order_dependent is null").count() == 0
    after = Fleet(
        topics=groups.topics,
        members=groups.members,
        subscriptions=groups.subscriptions,
        owned_slices=cached(over.target),
        groups=groups.groups,
    )
    assert tuples(plan(after, "uniform").metrics, "group_id", "moved", "withheld") == [
        (group, 0, 0) for group in sorted(GROUPS)
    ]
    assert find_drift(over, after).ownership.count() == 0
    assert find_drift(groups, after).ownership.where("group_id = 'sticks'").count() == 4
    rounds = tuples(converge(groups, "uniform").where("group_id = 'sticks'"), "round", "assigned", "revoked", "stable")
    assert rounds == [(1, 8, 4, False), (2, 12, 0, True)]
