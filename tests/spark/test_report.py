"""The report from a plan, stored or not: what Spark adds up is what there is; the job; a plan in a notebook."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

pytest.importorskip("jinja2", reason="reports are an extra")

from jobs import report as job
from spark_assign import Plan, plan
from spark_assign.protocol.compare import side_by_side, simulate_protocols
from spark_assign.protocol.schemas import EVENTS
from spark_assign.report.html import PlanRows, report
from spark_assign.report.html.collect import plan_rows
from spark_assign.report.html.collect_beside import compare_rows, drift_rows, simulation_rows
from spark_assign.report.html.rows import classes_of
from spark_assign.schemas import GROUP_KEY
from spark_assign.sinks.plan_store import StoredPlan, read_plan, write_plan
from tests.frames import dataframe
from tests.spark.fleets import fleet

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
        topics=[("c", "t", 6), ("c", "small", 1)],
        members=members,
        subscriptions=[(*member, "small" if member[1] == "idle" else "t") for member in sorted(set(members))],
        owned=[
            ("c", group, member, "t", partition)
            for group, of_group in OWNED.items()
            for member, partitions in of_group.items()
            for partition in partitions
        ],
    )
    return plan(tables, "cooperative-sticky")


@pytest.fixture(scope="module")
def place(planned: Plan, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where it is stored, as the run `whole`."""
    folder = str(tmp_path_factory.mktemp("plans"))
    write_plan(planned, folder, run_id="whole", tables=("runs", "moves", "revocations"))
    return folder


@pytest.fixture(scope="module")
def stored(spark: SparkSession, place: str) -> StoredPlan:
    """Read back: its tables are computed once."""
    return read_plan(spark, place, "whole")


@pytest.fixture(scope="module")
def rows(stored: StoredPlan) -> PlanRows:
    """What the page is made from."""
    return plan_rows(stored)


@pytest.mark.once
def test_members_before_and_after(stored: StoredPlan, rows: PlanRows) -> None:
    """What follows from the tables of a plan is what the fleet says is owned, and what the plan assigns."""
    before = {(group, member): len(owned) for group, of_group in OWNED.items() for member, owned in of_group.items()}
    after: Counter[tuple[str, str]] = Counter()
    for run in stored.tables["runs"].collect():
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
def test_totals_and_classes(stored: StoredPlan, rows: PlanRows) -> None:
    """Spark adds up groups as Python does; every group is listed once, the worst first; refusals are there."""
    key = lambda row: (row["assignor"], row["imbalance"], row["even"])  # noqa: E731
    assert sorted(rows.classes, key=key) == sorted(classes_of(rows.groups), key=key)
    assert {row["group_id"] for row in rows.groups} == {"joined", "claimed", "swapped", "idle"}
    assert rows.groups[-1]["group_id"] == "idle", "the only one that nothing happens to"
    assert [(row["group_id"], row["code"]) for row in rows.rejected] == [("twice", "duplicate-member")]
    changes = Counter(row["reason"] for row in stored.tables["moves"].collect())
    assert {row["reason"]: row["partitions"] for row in rows.reasons} == changes
    assert sum(row["partitions"] for row in rows.moves if row["group_id"] == "joined") == 2


def test_a_plan_that_is_not_stored(spark: SparkSession) -> None:
    """In a notebook: totals, the worst groups, what was rejected; and the whole report."""
    members = [("c", group, member) for group in ("g", "h") for member in ("x", "y")] + [("c", "twice", "m")] * 2
    listens = [("c", "g", "x", "t"), ("c", "g", "y", "t"), ("c", "h", "x", "small")]
    owned = [("c", "g", "x", "t", partition) for partition in (5, 4)]
    given = fleet(spark, topics=[("c", "t", 6), ("c", "small", 1)], members=members, subscriptions=listens, owned=owned)
    planned = plan(given, "range")
    html = planned._repr_html_()
    assert "Plan of 2 groups: 4 members, 7 partitions, 2 moved (29 %)" in html
    assert html.index("c/g") < html.index("c/h")
    assert "c/twice: duplicate-member" in html
    text = report(planned)
    assert "2 rebalanced" in text
    assert "Partitions of each member, before and after" in text


@pytest.mark.once
def test_the_job_on_stored_plans(
    spark: SparkSession, stored: StoredPlan, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A whole plan, one without members and movements, the exit code, and what is missing."""
    file = tmp_path / "out.html"
    arguments = ["--plan", place, "--output", str(file)]
    assert job.main([*arguments, "--run-id", "whole", "--fail-on", "rejected"]) == 1
    assert f"Report {file}: 0." in capsys.readouterr().out
    text = file.read_text()
    assert "duplicate-member" in text
    assert "Partitions of each member, before and after" in text
    short = SimpleNamespace(**{name: stored.tables[name] for name in ("metrics", "rejected")})
    write_plan(short, place, run_id="short", tables=[])
    assert job.main(arguments) == 0
    assert "Members are not shown: the plan was stored without the tables runs and assignments." in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]
    for wrong in (["--run-id", "other"], ["--output", str(tmp_path)], ["--output", "/no/where.html"]):
        assert job.main(["--plan", place, *wrong]) == 2


def test_the_job_without_anything(capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage is said before a session is started."""
    with pytest.raises(SystemExit) as ended:
        job.main(["--output", "report.html"])
    assert ended.value.code == 2
    assert "nothing to report on" in capsys.readouterr().err


@pytest.mark.once
def test_rebalances_in_time(spark: SparkSession, planned: Plan) -> None:
    """What is drawn adds up to what is counted; a comparison stored by itself is shown, too."""
    events = dataframe(spark, EVENTS, [("c", "joined", 5_000, "member-leaves", "a", *[None] * (len(EVENTS) - 5))])
    played = simulate_protocols(planned.fleet, events)
    shown = simulation_rows(played)
    assert {row["protocol"] for row in shown.totals} == {"eager", "cooperative", "static"}
    for row in shown.groups:
        drawn = [
            each["not_consumed"] * (each["to_ms"] - each["from_ms"])
            for each in shown.pauses
            if all(each[name] == row[name] for name in (*GROUP_KEY, "protocol"))
        ]
        assert sum(drawn) == pytest.approx(row["partition_ms_not_consumed"])
    stored = {"configured": {"comparison": side_by_side(played), "rejected": played.rejected}}
    text = report(simulation=stored)
    assert "Groups that gain most by cooperating" in text
    assert "c/twice" in text
    played.release()


@pytest.mark.once
def test_comparisons_and_drift(spark: SparkSession) -> None:
    """Sums per assignor, what is recommended and spares most; what changed between two runs."""
    columns = (
        "cluster string, group_id string, assignor string, change string, moved long, revoked long, rounds int, "
        "max_over_mean double, partition_seconds_paused double, rejected string, recommended boolean, reason string"
    )
    compared = spark.createDataFrame(
        [
            ("c", "g", "range", "as-is", 9, 9, 1, 1.0, 5.0, None, False, ""),
            ("c", "g", "sticky", "as-is", 2, 2, 1, 1.0, 3.0, None, True, "2 move instead of 9"),
            ("c", "h", "range", "as-is", 0, 0, 1, 1.0, 0.0, None, True, "nothing moves"),
            ("c", "h", "sticky", "as-is", None, None, None, None, None, "code", False, "no"),
        ],
        columns,
    )
    rows = compare_rows(compared)
    assert [(row["assignor"], row["moved"], row["rejected"], row["recommended"]) for row in rows.totals] == [
        ("range", 9, 0, 1),
        ("sticky", 2, 1, 1),
    ]
    assert [(row["group_id"], row["spared"]) for row in rows.recommended] == [("g", 7), ("h", 0)]
    names = ("moved", "newly_owned", "no_longer_owned", "came", "went", "restarted")
    groups = spark.sql(
        "select 'c' as cluster, group_id, change, "
        + ", ".join(f"moves as {name}" for name in names)
        + " from values ('same', 'same', 0L), ('few', 'changed', 1L), ('many', 'changed', 5L)"
        + " as t(group_id, change, moves)"
    )
    changed = drift_rows({"groups": groups})
    assert [row["group_id"] for row in changed.groups] == ["many", "few"]
    assert {row["change"]: row["groups"] for row in changed.changes} == {"changed": 2, "same": 1}
    assert "many" in report(comparison=compared, drift={"groups": groups})
