"""What every result can do: be stored, read back, printed, and made a page of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import spark_assign
from spark_assign import Comparison, Drift, Migration, Plan, SourceError, Upgrade
from spark_assign.report.group_members import read_group_members
from spark_assign.spark.dataframes import dataframe_of_rows
from spark_assign.stores.result import Result
from spark_assign.tables.groups import ASSIGNMENT_SLICES, LOADS
from tests.spark.fleets import fleet

GROUPS = ("g", "h")
SHOWN = {
    "Plan": """\
2 groups planned, 0 rejected, 4 members, 12 partitions assigned, 3 moved, 3 revoked, 0 unassigned
By the rules of Java clients, leader not known: 2 groups (--leader-client names it)

Groups (least balanced first):
  group  assignor  members  partitions  per member  max/mean  per topic  moved
  g      range           2           6         3–3      1.00       1.00      3
  h      range           2           6         3–3      1.00       1.00      0
""",
    "Comparison": """\
What if as-is:
  assignor  groups  recommended  rejected  max/mean  moved  revoked  paused s
  sticky         2            2         0      1.00      3        3      11.5
  range          2            0         0      1.00      3        3      11.5

Groups that gain most:
  group  recommended  why
  g      sticky       not worse in any metric, same balance, 50 % of partitions move with both (against range)
  h      sticky       not worse in any metric, same balance, 0 % of partitions move with both (against range)

How to switch:
    g, h: Stop all members, then start them with sticky alone: what the group runs with is not known.
      # Stop all members, then start them with:
      # Java:
      partition.assignment.strategy=org.apache.kafka.clients.consumer.StickyAssignor
""",
    "Drift": """\
Groups: 0 added, 0 removed, 1 changed, 1 unchanged
Members: 0 joined, 1 left, 0 restarted
Partitions: 0 moved, 0 newly owned, 6 no longer owned

Groups in which most has changed:
  group  change   members  left  partitions  no longer owned  max/mean
  g      changed    2 → 1     1       6 → 0                6  2.00 → –
""",
    "Migration": """\
Groups: 0 ready, 2 ready with warnings, 0 blocked, 0 done

Ready with warnings:
  rank  group  current  target   moved  restart moves  pauses     max/mean  cross-rack  findings
     1  h      –        uniform      0              –       –     – → 1.00           –  client-unknown, assignor-unknown
     2  g      –        uniform      3              –       –  2.00 → 1.00           –  client-unknown, \
assignor-unknown, moves
""",
    "Upgrade": """\
Groups: 0 ready with warnings, 0 ready, 0 blocked, 2 unknown, 0 done

Unknown:
  group  note
  g      The current assignor is unknown. Only range, roundrobin, sticky, cooperative-sticky can be simulated by \
release.
  h      The current assignor is unknown. Only range, roundrobin, sticky, cooperative-sticky can be simulated by \
release.
""",
}
"""What each result prints, checked by hand.

`range` and `sticky` split the six partitions of each group, so three of `g` move and those of `h` get an owner. They
pause for 6 * 83 ms (from the poll of a member to the last of two) and 6 * 1,833 ms (half a heartbeat of 3 s, and the
last of two polls of 500 ms).
"""


@pytest.fixture(scope="module")
def results(spark: SparkSession) -> dict[str, Result]:
    """Some results of a fleet, by name of their class."""
    subscribed = dict.fromkeys(GROUPS, dict.fromkeys("xy", "t"))
    given = fleet(spark, subscribed, topics={"t": 6}, owned={("g", "x", "t"): range(6)})
    left = given.with_members_left(group_id="g", count=1)
    found: list[Result] = [
        spark_assign.plan(given, "range"),
        spark_assign.compare(given, ["range", "sticky"]),
        spark_assign.find_drift(given, left),
        spark_assign.plan_migration(given),
        spark_assign.plan_upgrade(given.with_leader_client("Java", "2.8"), "3.9"),
    ]
    return {type(each).__name__: each for each in found}


@pytest.mark.parametrize("kind", [Plan, Comparison, Drift, Migration, Upgrade])
def test_a_result_that_is_read_is_the_result_that_was_written(
    results: dict[str, Any],
    spark: SparkSession,
    kind: type[Result],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same tables, the text that is expected of both, and the same page."""
    result = results[kind.__name__]
    manifest = result.write(str(tmp_path / "run"), run_id="r")
    stored = kind.read(spark, str(tmp_path / "run"))
    assert list(stored.tables) == list(manifest.rows) == list(result.tables) == list(kind.schemas)
    for name, table in stored.tables.items():
        assert sorted(map(str, table.collect())) == sorted(map(str, result.tables[name].collect())), name
    texts = []
    for each in (result, stored):
        each.show(top=3)
        texts.append(capsys.readouterr().out)
    assert texts == [SHOWN[kind.__name__]] * 2
    pages = [result.to_html(tmp_path / "page.html"), stored.to_html()]
    assert pages[0] == pages[1] == (tmp_path / "page.html").read_text(encoding="utf-8")
    assert pages[0].startswith("<!DOCTYPE html>")


def test_a_result_that_is_read_computes_nothing(results: dict[str, Any], spark: SparkSession, tmp_path: Path) -> None:
    """Another table is an error that names the stored ones; so is a run of another result."""
    results["Plan"].write(str(tmp_path), tables=["assignment_slices"])
    stored = Plan.read(spark, str(tmp_path))
    assert set(stored.tables) == {"assignment_slices", "metrics", "rejected"}
    with pytest.raises(SourceError, match="only the stored tables assignment_slices, metrics, rejected"):
        _ = stored.moves
    with pytest.raises(SourceError, match="Name a run with these tables"):
        Drift.read(spark, str(tmp_path))


def test_lags_of_a_member_are_bounded(spark: SparkSession) -> None:
    """Their sum ends at the largest long; of repeated rows the largest counts, in any order."""
    keys = {"cluster": "c", "topic": "t"}
    slices = [{**keys, "group_id": "g", "member_id": "m", "first": 0, "step": 1, "count": 2}]
    rows = [{**keys, "partition": at, "group_id": "g", "lag": lag} for at, lag in ((0, 2**63 - 1), (1, 5), (1, 7))]
    for loads, total in ((rows, 2**63 - 1), (rows[1:], 7), (rows[:0:-1], 7)):
        given = dataframe_of_rows(spark, loads, LOADS)
        plan = {"assignment_slices": dataframe_of_rows(spark, slices, ASSIGNMENT_SLICES)}
        (member,) = read_group_members(plan, {"loads": given}).members
        assert (member["lag"], member["lag_known"]) == (total, len({row["partition"] for row in loads}))
