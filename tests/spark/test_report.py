"""The report from a plan, stored or not: what Spark adds up is what there is; the job; a plan in a notebook."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

pytest.importorskip("jinja2", reason="reports are an extra")

from jobs import check, compare
from jobs import report as job
from spark_assign import Fleet, Plan, find_drift, plan
from spark_assign.connect import simulate_connect
from spark_assign.connect.simulate import ninety_by_ten
from spark_assign.report.comparison import compare_rows
from spark_assign.report.connect import connect_rows
from spark_assign.report.drift import drift_rows
from spark_assign.report.html import PlanRows, report
from spark_assign.report.listed_groups import collected
from spark_assign.report.plan_page import plan_rows
from spark_assign.report.replicas import replica_rows
from spark_assign.report.simulation import _mean_pauses, charted_ownership, simulation_rows, with_variant
from spark_assign.simulation.simulate_groups import simulate_variants
from spark_assign.stores.run_store import StoredRun, read_run, write_run
from spark_assign.tables.comparison import DRIFT_TABLES
from spark_assign.tables.connect import COSTS, DELAYS, METRICS
from spark_assign.tables.errors import FleetError
from spark_assign.tables.groups import GROUP_KEY, OFFSETS
from spark_assign.tables.simulation import EVENTS, OWNERSHIP
from tests.frames import dataframe, scenario_tables
from tests.spark.fleets import fleet, kept
from tests.unit.report_rows import classes_of, ruled_of

pytestmark = [pytest.mark.spark, pytest.mark.keeps_cached]

MEMBERS = {
    "joined": ["a", "b", "new"],
    "claimed": ["a", "b"],
    "swapped": ["x", "y"],
    "idle": ["one", "two", "three"],
    "twice": ["m", "m"],
}
OWNED = {
    "joined": {"a": [0, 1, 2], "b": [3, 4, 5]},
    "claimed": {"a": [0, 1, 2], "b": [2, 3, 4, 5]},
    "swapped": {"x": [4, 3, 2, 1, 0]},
}


@pytest.fixture(scope="module")
def planned(spark: SparkSession) -> Plan:
    """Groups of all kinds: one waits for a second round, in one two members claim the same, one cannot be planned."""
    members = [("c", group, member) for group, ids in MEMBERS.items() for member in ids]
    tables = fleet(
        spark,
        topics={"t": 6, "small": 1},
        members=members,
        subscriptions=[(*member, "small" if member[1] == "idle" else "t") for member in sorted(set(members))],
        owned={(group, member, "t"): owned for group, each in OWNED.items() for member, owned in each.items()},
    )
    return plan(tables, "cooperative-sticky")


@pytest.fixture(scope="module")
def place(planned: Plan, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where it is stored, as the run `whole`."""
    folder = str(tmp_path_factory.mktemp("plans"))
    planned.write(folder, run_id="whole", tables=("assignment_slices", "moves", "revocations"))
    return folder


@pytest.fixture(scope="module")
def stored(spark: SparkSession, place: str) -> StoredRun:
    """Read back: its tables are computed once."""
    return read_run(spark, place, "whole")


@pytest.fixture(scope="module")
def rows(stored: StoredRun) -> PlanRows:
    """What the page is made from."""
    return plan_rows(stored, {})


@pytest.mark.once
def test_members_before_and_after(stored: StoredRun, rows: PlanRows) -> None:
    """What follows from the tables of a plan is what the fleet says is owned, and what the plan assigns."""
    before = {(group, member): len(owned) for group, of_group in OWNED.items() for member, owned in of_group.items()}
    after: Counter[tuple[str, str]] = Counter()
    for run in stored.tables["assignment_slices"].collect():
        after[run["group_id"], run["member_id"]] += run["count"]
    shown = {(row["group_id"], row["member_id"]): row for row in rows.members}
    assert set(before) <= set(shown)
    assert {key: row["before"] for key, row in shown.items() if row["before"]} == before
    assert {key: row["after"] for key, row in shown.items() if row["after"]} == {
        key: count for key, count in after.items() if key[0] in {group for group, _ in shown}
    }
    assert shown["joined", "new"]["waiting"] == 2
    assert {row["listed"] for row in rows.members if row["group_id"] == "joined"} == {3}
    for row in rows.groups:
        waiting = sum(each["waiting"] for each in rows.members if each["group_id"] == row["group_id"])
        assert waiting == row["withheld"], row["group_id"]


@pytest.mark.once
def test_totals_and_classes(stored: StoredRun, rows: PlanRows) -> None:
    """Spark adds up groups as Python does; every group is listed once, the worst first; refusals are there."""
    key = lambda row: (row["cluster"], row["assignor"], row["imbalance"], row["even"])  # noqa: E731
    assert sorted(rows.classes, key=key) == sorted(classes_of(rows.groups), key=key)
    assert {row["group_id"] for row in rows.groups} == {"joined", "claimed", "swapped", "idle"}
    assert sorted(rows.ruled, key=lambda row: row["assignor"]) == ruled_of(
        [row for row in rows.groups if row["members"]]
    )
    assert rows.groups[-1]["group_id"] == "idle", "the only one that nothing happens to"
    assert [(row["group_id"], row["code"]) for row in rows.rejected] == [("twice", "duplicate-member")]
    changes = Counter(row["reason"] for row in stored.tables["moves"].collect())
    assert {row["reason"]: row["partitions"] for row in rows.reasons} == changes
    assert sum(row["partitions"] for row in rows.moves if row["group_id"] == "joined") == 2


@pytest.mark.once
def test_partitions_without_traffic(spark: SparkSession, stored: StoredRun, rows: PlanRows) -> None:
    """Those whose end offset is 0, of groups and of their members; without offsets nothing is known."""
    ends = [("c", "joined", "t", partition, None, 0 if partition < 4 else 9, None) for partition in range(6)]
    ends += [("c", "claimed", "t", 0, None, None, None), ("other", "joined", "t", 5, None, 0, None)]
    found = plan_rows(stored, {"offsets": dataframe(spark, OFFSETS, ends)})
    assert [tuple(row.values()) for row in found.silent or ()] == [("c", "joined", 4)]
    after = {
        (run["group_id"], run["member_id"], run["first"] + at * run["step"])
        for run in stored.tables["assignment_slices"].collect()
        for at in range(run["count"])
    }
    for row in found.members:
        mine = {each for group, member, each in after if (group, member) == (row["group_id"], row["member_id"])}
        assert row["silent"] == (len(mine & {0, 1, 2, 3}) if row["group_id"] == "joined" else 0)
    assert rows.silent is None
    offsets = dataframe(spark, OFFSETS, ends)
    assert "4 without traffic" in report(stored, offsets=offsets)
    assert "without traffic" not in report(stored, offsets=offsets.drop("end_offset", "lag"))  # both may be missing
    with pytest.raises(FleetError, match=r"offsets\.partition: the column is missing"):
        report(stored, offsets=offsets.drop("partition"))


def test_a_plan_that_is_not_stored(spark: SparkSession) -> None:
    """In a notebook: totals, the worst groups, what was rejected; and the whole report, with what isn't known."""
    subscribed = {"g": {"x": "t", "y": "t"}, "h": {"x": ["small"], "y": ""}}
    twice, owned = [("c", "twice", "m")] * 2, {("g", "x", "t"): (5, 4)}
    planned = plan(fleet(spark, subscribed, topics={"t": 6, "small": 1}, members=twice, owned=owned), "range")
    html = planned._repr_html_()
    assert "Plan of 2 groups: 4 members, 7 partitions, 2 moved (29 %)" in html
    assert html.index(">g<") < html.index(">h<")
    assert ">twice: duplicate-member" in html
    text = report(planned)
    assert "2 rebalanced" in text
    assert "Loads aren&#39;t known (loads)" in text
    assert "Partitions of each member, before and after" in text


@pytest.mark.once
def test_the_job_on_stored_plans(
    spark: SparkSession, stored: StoredRun, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A whole plan, one without members and movements, the exit code, and what is missing."""
    file = tmp_path / "out.html"
    arguments = ["--output-file", str(file), "--plan"]
    assert job.main([*arguments, f"{place}@whole", "--fail-on", "rejected"]) == 1
    assert f"Report {file}: 0." in capsys.readouterr().out
    text = file.read_text()
    assert "duplicate-member" in text
    assert "Partitions of each member, before and after" in text
    short = {name: stored.tables[name] for name in ("metrics", "rejected")}
    write_run(short, place, run_id="short", tables=[], inputs={"unknown": ["Loads aren't known (loads)."]})
    assert job.main([*arguments, place]) == 0
    assert '<p class="note">Loads aren&#39;t known (loads).</p>' in file.read_text()
    assert (
        "Members aren&#39;t shown: the plan was stored without the tables assignment_slices and assignments."
        in file.read_text()
    )
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]
    assert job.main([*arguments, f"{place}@other"]) == 2
    for wrong in (str(tmp_path), "/no/where.html", str(tmp_path / ("n" * 300))):
        assert job.main(["--plan", place, "--output-file", wrong]) == 2


@pytest.mark.once
def test_runs_of_other_jobs(
    spark: SparkSession, stored: StoredRun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A plan without a table that every plan has, and a run of another job that has a table of the same name."""
    write_run({name: stored.tables[name] for name in ("metrics", "rejected")}, str(tmp_path), run_id="r", tables=[])
    [file] = (tmp_path / "manifest").iterdir()
    row = json.loads(file.read_text())
    content = json.loads(row["content"])
    del content["tables"]["metrics"]
    file.write_text(json.dumps(row | {"content": json.dumps(content)}))
    for main in (job.main, check.main):
        caplog.clear()
        assert main(["--plan", f"{tmp_path}@r"]) == 2
        assert f"{tmp_path}, run r, has no table metrics, but rejected. Name a run that has it" in caplog.text
    nulls = stored.tables["metrics"].withColumn("members", F.lit(None).cast("long"))
    write_run({"metrics": nulls, "rejected": stored.tables["rejected"]}, f"{tmp_path}/null", run_id="r", tables=[])
    assert job.main(["--plan", f"{tmp_path}/null@r", "--output-file", str(tmp_path / "x.html")]) == 2
    assert "metrics.members: null or out of range" in caplog.text
    tables = {
        name: stored.tables[name] for name in ("metrics", "rejected", "assignment_slices", "moves", "revocations")
    }
    tables["assignment_slices"] = tables["assignment_slices"].withColumn("count", F.lit(2**31 - 1))
    write_run(tables, f"{tmp_path}/long", run_id="r", tables=["assignment_slices", "moves", "revocations"])
    assert job.main(["--plan", f"{tmp_path}/long@r", "--output-file", str(tmp_path / "x.html")]) == 2
    assert "assignment_slices.count: null or out of range: cluster=c, group_id=" in caplog.text
    assert compare.main(["--sample", "--output", str(tmp_path / "compared"), "--run-id", "r"]) == 0
    assert job.main(["--simulation", str(tmp_path / "compared"), "--output-file", str(tmp_path / "x.html")]) == 2
    assert "is of the job compare. Name a run of the job simulate" in caplog.text


def test_the_job_without_anything(caplog: pytest.LogCaptureFixture) -> None:
    """Wrong usage is reported before a session is started."""
    assert job.main(["--output-file", "report.html"]) == 2
    assert (
        "Use --sample, --plan, --comparison, --simulation, --connect, --replicas, --drift, --history, or --advice."
        in caplog.text
    )


@pytest.mark.once
def test_rebalances_in_time(spark: SparkSession, planned: Plan) -> None:
    """What is drawn adds up to what is counted; a comparison stored by itself is shown, too."""
    events = dataframe(spark, EVENTS, [("c", "joined", 5_000, "member-leaves", "a", *[None] * (len(EVENTS) - 5))])
    played = simulate_variants(planned.fleet, events)
    shown = simulation_rows(played)
    assert {row["variant"] for row in shown["totals"]} == {"eager", "cooperative", "static", "consumer"}
    for row in shown["availability"]:
        drawn = [
            each["paused_partitions"] * (each["end_ms"] - each["start_ms"])
            for each in shown["pauses"]
            if all(each[name] == row[name] for name in (*GROUP_KEY, "variant"))
        ]
        assert sum(drawn) == pytest.approx(row["paused_partition_ms"])
    stored = {"configured": {"comparison": played.comparison, "rejected": played.rejected}}
    text = report(simulation=stored)
    assert "Groups with the largest savings" in text
    assert ">twice<" in text
    played.unpersist()


@pytest.mark.once
def test_comparisons(spark: SparkSession) -> None:
    """Sums per assignor; who keeps what it has, who should change, and what that costs; advice for listed groups."""
    columns = (
        "cluster string, group_id string, assignor string, what_if string, members long, moved long, revoked long, "
        "rounds int, max_over_mean double, paused_partition_seconds double, is_current boolean, rejected string, "
        "recommended boolean, reason string"
    )
    rows = []
    for group, runs_with, best, refused in (
        ("changes", "range", "sticky", None),
        ("keeps", "sticky", "sticky", None),
        ("unknown", None, "sticky", None),
        ("elsewhere", "uniform", "range", None),
        ("odd", "range", "sticky", "range"),
        ("bad", "range", None, "both"),
    ):
        for assignor, moved, balance in (("range", 9, 1.5), ("sticky", 2, 1.0)):
            out = refused in (assignor, "both")
            figures = (None,) * 5 if out else (moved, moved, 1, balance, moved / 2)
            now = None if runs_with is None else assignor == runs_with
            chosen = assignor == best
            key = ("c", group, assignor, "as-is", None if out else 3)
            rows.append((*key, *figures, now, "code" if out else None, chosen, f"{assignor}: why"))
    compared = dataframe(spark, columns, [*rows, *((*row[:3], "later", *row[4:]) for row in rows)])
    listed = [{"cluster": "c", "group_id": group} for group in ("changes", "keeps", "bad", "not compared")]
    found = compare_rows(compared, listed)
    assert [
        tuple(row[name] for name in ("what_if", "assignor", "groups", "rejected", "recommended", "moved"))
        for row in found["totals"]
    ] == [(change, *row) for change in ("as-is", "later") for row in (("sticky", 5, 1, 4, 10), ("range", 4, 2, 1, 36))]
    verdicts = {
        (row["verdict"], row["assignor"]): row["groups"] for row in found["verdicts"] if row["what_if"] == "later"
    }
    once = (("keep", "sticky"), ("unknown", "sticky"), ("elsewhere", "range"), ("none", None))
    assert verdicts == {("change", "sticky"): 2, **dict.fromkeys(once, 1)}
    (as_is, _) = found["sums"]
    assert (as_is["groups"], as_is["moved"], as_is["now_moved"]) == (4, 2 + 2 + 2 + 9, 9 + 2 + 9 + 9)
    assert [(row["group_id"], row["what_if"], row["now"], row["now_moved"]) for row in found["gains"]] == [
        (group, change, now, moved)
        for group, now, moved in (("changes", "range", 9), ("unknown", None, 9), ("odd", None, None))
        for change in ("as-is", "later")
    ]
    assert found["ways"] == [], "a comparison of an earlier release does not tell"
    way = F.when(F.col("recommended"), F.lit("Stop all members: why"))
    with_ways = compared.withColumns(
        {"current_assignor": F.lit("range"), "client_libraries": F.lit("Java 3"), "switch_steps": way}
    )
    newer = compare_rows(with_ways, listed)
    ways = [(row["what_if"], row["groups"], row["example"]) for row in newer["ways"]]
    assert ways == [(change, 5, ("c", "changes")) for change in ("as-is", "later")]
    assert {(row["now"], row["client_libraries"], row["switch_steps"]) for row in newer["advice"]} == {
        ("range", "Java 3", "Stop all members: why")
    }
    assert {(row["group_id"], row["verdict"]) for row in found["advice"]} == {("changes", "change"), ("keeps", "keep")}
    text = report(comparison=compared)
    assert "1 group keeps the assignor it runs with. 2 groups should change: 2 to sticky." in text
    assert "4 groups" not in text


@pytest.mark.once
def test_drift(spark: SparkSession) -> None:
    """What has changed, most first; what is less even than before; who had it and who has it; both names."""
    before = _owning(spark, few="aabb", many="aabb", same="ab", went="a")
    after = _owning(spark, few="aaab", many="bbaa", same="ab", came="a")
    changed = kept(find_drift(before, after))
    tables = {name: getattr(changed, name) for name in DRIFT_TABLES}
    rows = drift_rows(tables, {"before": "monday", "after": "friday"})
    assert [row["group_id"] for row in rows["groups"]] == ["many", "came", "went", "few"]
    assert [row["group_id"] for row in rows["worse"]] == ["few"]
    assert {row["change"]: (row["groups"], row["moved"]) for row in rows["changes"]} == {
        **dict.fromkeys(("added", "removed", "unchanged"), (1, 0)),
        "changed": (2, 5),
    }
    pairs = [("many", "a", "b", 2), ("many", "b", "a", 2), ("few", "b", "a", 1)]
    assert [tuple(row.values())[1:] for row in rows["pairs"]] == pairs
    text = report(drift=tables)
    assert "2 of 5 groups have changed, 1 is new, 1 is gone, 1 is unchanged." in text
    assert "most of all few (largest over mean 1.00 → 1.50)." in text
    before.unpersist()
    after.unpersist()


def _owning(spark: SparkSession, **groups: str) -> Fleet:
    """Groups by the owners of the partitions of t, one letter each."""
    subscribed = {group: dict.fromkeys(sorted({*owners}), "t") for group, owners in groups.items()}
    owned = [("c", group, owner, "t", p) for group, owners in groups.items() for p, owner in enumerate(owners)]
    return fleet(spark, subscribed, topics={"t": 4}, owned=owned)


@pytest.mark.once
def test_what_a_comparison_of_variants_stores(spark: SparkSession, planned: Plan) -> None:
    """The ownership of the groups that are drawn, which is all that the drawings need."""
    events = dataframe(spark, EVENTS, [("c", "joined", 5_000, "member-leaves", "a", *[None] * (len(EVENTS) - 5))])
    played = simulate_variants(planned.fleet, events)
    ownership = charted_ownership(played)
    assert ownership.schema == played.ownership.schema
    drawn = {row["group_id"] for row in ownership.select("group_id").distinct().collect()}
    losing = {row["group_id"] for row in played.availability.where("paused_partition_ms > 0").collect()}
    assert drawn == losing
    assert "joined" in drawn
    played.unpersist()


@pytest.mark.once
def test_times_and_keys_that_a_stranger_has_stored(spark: SparkSession) -> None:
    """Times at both ends of a long are no more buckets, and a key that is there often is no product of its rows."""
    ends = [(-(2**63), 2**63 - 1), (0, 10**13), (-(2**63), 1 - 2**63)]
    rows = [("c", "g", "t", at, start, end, "unowned", None, None) for at, (start, end) in enumerate(ends)]
    drawn = collected(_mean_pauses(with_variant(dataframe(spark, OWNERSHIP, rows), "v")))
    assert 200 <= len(drawn) <= 202
    metrics = dataframe(spark, METRICS, [("c", "eager", *[1] * 7, *[0] * 8, *[None] * 5)] * 3)
    found = connect_rows({"metrics": metrics, "delays": dataframe(spark, DELAYS, [("c", 7, 9), ("c", 8, 9)])})
    assert [row["delay_ms"] for row in found["metrics"]] == [8] * 3
    costs = [(cluster, "eager", *[1] * 6, 9 * 10**18, 1, 9 * 10**18) for cluster in "ab"]
    [total] = connect_rows({"costs": dataframe(spark, COSTS, costs)})["totals"]
    assert (total["clusters"], total["rebalances"], total["task_ms_not_running"]) == (2, 2, 2**63 - 1)


@pytest.mark.once
def test_connect_clusters(spark: SparkSession) -> None:
    """One rebalance, and a story under two protocols from what it stores; stops and starts are all in the drawing."""
    scenario = ninety_by_ten(6, 2)
    tables, events = scenario_tables(spark, scenario)
    times = {"start_ms": 2_000, "stop_ms": 1_000, "rebalance_ms": 3_000}
    played = simulate_connect(tables, events, **times, protocols=("eager", "sessioned"))
    rows = connect_rows({"rebalances": played.rebalances, "costs": played.costs})
    calls = [f"{what}_{kind}" for what in ("connector", "task") for kind in ("stops", "starts")]
    spent = {row["protocol"]: sum(row[name] for name in calls) for row in rows["totals"]}
    assert spent["eager"] > 2 * spent["sessioned"] > 0
    for protocol, sum_ in spent.items():
        drawn = [row for row in rows["rebalances"] if row["protocol"] == protocol]
        assert [row["so_far"] for row in drawn] == sorted(row["so_far"] for row in drawn)
        assert drawn[-1]["so_far"] == sum_
        assert drawn[0]["at_ms"] >= 0
    text = report(connect=played)
    assert f"The same events stop and start {spent['eager']:,} connectors and tasks with eager" in text
    assert "6x2: cumulative stops and starts of connectors and tasks" in text


@pytest.mark.once
def test_replicas(spark: SparkSession) -> None:
    """Replicas and leaders of every broker before and after."""
    placement = dataframe(
        spark,
        "cluster string, topic string, partition int, previous_replicas array<int>, replicas array<int>",
        [("c", "t", 0, [1, 2], [1, 3]), ("c", "t", 1, [2, 1], [3, 1]), ("c", "new", 0, None, [1, 3])],
    )
    rows = replica_rows({"placement": placement})
    assert [tuple(row.values()) for row in rows["loads"]] == [
        ("c", 1, 2, 1, 3, 2),
        ("c", 2, 2, 1, 0, 0),
        ("c", 3, 0, 0, 3, 1),
    ]
    placed = placement.drop("previous_replicas")
    assert [row["replicas_before"] for row in replica_rows({"placements": placed})["loads"]] == [None, None]
    assert "Leaders before" in report(replicas={"placement": placement})
