"""A stored history in the job check and in the report: rows made up, kept as the job history keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import check, report
from spark_assign.history.alerts import history_alerts
from spark_assign.history.kernel.build_history import NO_CAUSE
from spark_assign.report.daily import daily_rows
from spark_assign.report.formatting import count
from spark_assign.report.history import format_histories, history_rows, summarize_history
from spark_assign.stores.run_store import write_run
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.history import HISTORY_TABLES
from spark_assign.tables.schema_check import with_keys
from tests.frames import dataframe, frame_of
from tests.unit import history_rows as made

pytestmark = [pytest.mark.spark, pytest.mark.once]

Tables = Mapping[str, DataFrame]


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    """A history."""
    rows = made.tables()
    return {
        name: dataframe(spark, schema, [[row[field] for field in schema.names] for row in rows.get(name, [])])
        for name, schema in HISTORY_TABLES.items()
    }


@pytest.fixture(scope="module")
def place(tables: Tables, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same, stored."""
    place = str(tmp_path_factory.mktemp("history"))
    write_run(tables, place, run_id="r", schemas=HISTORY_TABLES)
    return place


def found(tables: Tables, **limits: Any) -> dict[tuple[str, str], str]:
    """Alerts by group and kind."""
    return {(row["group_id"], row["alert"]): row["detail"] for row in history_alerts(tables, **limits).collect()}


def test_what_is_an_alert_of_the_past(tables: Tables) -> None:
    """More than is allowed, in any 24 hours; the longest stop with its reason; all that could not be read."""
    assert found(tables, max_rebalances_per_day=11, max_pause_ms=8_000, max_unreadable=2) == {
        ("carts", "rebalances"): "12 rebalances in the 24 hours before 2026-11-20 11:00:00 UTC; the limit is 11",
        ("carts", "pause"): "a partition paused for 9 s at 2026-11-20 11:00:00 UTC (generation 12); the limit is 8 s",
        ("payments", "pause"): "a partition paused for 9 s at 2026-11-20 10:02:00 UTC (generation 6); the limit is 8 s",
        ("carts", "unreadable"): "unreadable records: 1 corrupt",
        ("", "unreadable"): "unreadable records: 1 corrupt, 1 newer-version",
    }
    assert found(tables, max_rebalances_per_day=12, max_pause_ms=9_000, max_unreadable=3) == {}


def test_the_last_of_a_history(tables: Tables) -> None:
    """Counted from the last record of the cluster, so that what is long past is no alert for ever, and a cluster whose
    clock is ahead hides none of the others."""
    ahead = tables["groups"].withColumns({"cluster": F.lit("ahead"), "end_time": F.expr("end_time + INTERVAL 9 DAYS")})
    tables = {**tables, "groups": tables["groups"].unionByName(ahead)}
    assert set(found(tables, max_pause_ms=8_000, max_unreadable=0, lookback_ms=1_800_000)) == {("carts", "pause")}
    assert "7 rebalances" in found(tables, max_rebalances_per_day=1, lookback_ms=1_800_000)["carts", "rebalances"]


@pytest.mark.parametrize("read_at", [made.at(3600), None])
def test_one_late_record_hides_no_alert(tables: Tables, read_at: datetime | None) -> None:
    """The time of a record counts at most as the time at which the records were read."""
    late = tables["groups"].limit(1).withColumns({"end_time": F.lit(datetime(9998, 1, 1, tzinfo=UTC))})
    tables = {**tables, "groups": tables["groups"].unionByName(late)}
    since_begin = datetime.now(UTC) - made.BEGIN if read_at is None else timedelta(minutes=30)
    lookback_ms = round(since_begin.total_seconds() * 1000)
    limits = {"lookback_ms": lookback_ms, "read_at": read_at}
    assert ("carts", "rebalances") in found(tables, max_rebalances_per_day=1, **limits)


@pytest.mark.parametrize("limits", [{}, {"max_unreadable": -1}, {"lookback_ms": 1}])
def test_thresholds_that_make_no_sense(tables: Tables, limits: dict[str, Any]) -> None:
    """None at all, or one below 0."""
    with pytest.raises(ConfigError, match=r"No threshold given|expected 0 or more"):
        history_alerts(tables, **limits)


def test_the_job(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a plan; the alerts end it with exit code 1, and the figures are there for Prometheus."""
    pytest.importorskip("prometheus_client", reason="metrics are an extra")
    file, outcome = tmp_path / "history.prom", tmp_path / "outcome.json"
    words = ["--history", f"{place}@r", "--max-rebalances-per-day", "10", "--openmetrics", str(file)]
    assert check.main([*words, "--fail-on", "alerts", "--outcome", str(outcome)]) == 1
    output = capsys.readouterr().out
    assert "carts  rebalances  12 rebalances in the 24 hours before 2026-11-20 11:00:00 UTC" in output
    assert output.endswith("check: 1 alert in r\n")
    assert '"threshold": "max_rebalances_per_day"' in outcome.read_text()
    metrics = file.read_text()
    assert 'spark_assign_history_group_max_rebalances_per_day{cluster="shop",group="carts"} 12.0' in metrics
    assert 'spark_assign_history_group_longest_pause_seconds{cluster="shop",group="carts"} 9.0' in metrics
    assert 'spark_assign_history_group_longest_pause_seconds{cluster="shop",group="tool"}' not in metrics
    assert "planned" not in metrics


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Use --plan, --history, or --sample."),
        (
            ["--history", "./x"],
            "--history needs --max-rebalances-per-day, --max-pause, or --max-unreadable: a threshold.",
        ),
        (["--plan", "./x", "--max-pause", "10m"], "--max-pause needs --history"),
        (["--history", "./x", "--drift", "./x", "--max-unreadable", "0"], "--drift needs --plan"),
    ],
)
def test_wrong_usage(words: list[str], message: str, caplog: pytest.LogCaptureFixture) -> None:
    """What is about nothing."""
    assert check.main(words) == 2
    assert message in caplog.text


def test_on_the_screen(tables: Tables) -> None:
    """Flapping groups first; a story of those that are asked for."""
    summary = summarize_history(tables, 2)
    assert "3 groups from 2026-11-20 10:00:00 to 2026-11-20 11:00:00 UTC" in summary
    first, second = summary.partition("then those with the longest pauses in total:\n")[2].splitlines()[1:3]
    assert (first.split()[0], first.split()[-1]) == ("shop/carts", "yes"), "it flaps"
    assert (second.split()[0], second.split()[-1]) == ("shop/payments", "no")
    assert "… and 1 more, in the table groups" in summary
    assert "Unreadable records (table unreadable): 2 corrupt, 1 newer-version" in summary
    histories = format_histories(tables, ["pay*", "none"], 5)
    assert histories is not None
    assert [line.split()[:2] for line in histories.splitlines()[2:]] == [
        ["2026-11-20", when] for when in ("10:00:50", "10:01:00", "10:02:00", "10:30:00")
    ]
    assert format_histories(tables, ["none"], 5) is None


@pytest.mark.parametrize("is_large", [False, True])
def test_selected_groups_of_a_stored_history(spark: SparkSession, tables: Tables, is_large: bool) -> None:
    """The embedded engine refused windows over stored tables that were empty, or too large to be read at once."""
    given, stored = dict(tables), dict(tables)
    for name in ("rebalances", "deploys", "pauses"):
        table = given[name] = tables[name] if is_large else dataframe(spark, HISTORY_TABLES[name], [])
        table = table.mapInArrow(lambda batches: batches, table.schema) if is_large else table
        stored[name] = with_keys(name, table, HISTORY_TABLES[name])
    histories = format_histories(stored, ["payments"], 5)
    assert histories is not None
    assert histories == format_histories(given, ["payments"], 5)
    assert history_rows(stored) == history_rows(given)


A, B, C = "a", "b", "c"
LATE = {"end_time": made.at(200)}


@pytest.mark.parametrize(
    ("pauses", "causes"),
    [
        ([made.pause(A, 0)], {A: "hang"}),
        ([made.pause(A, 0), made.pause(B, 20, topics=["u"])], {A: "outage", B: "outage"}),
        ([made.pause(A, 0), made.pause(B, 40, topics=["u"])], {A: "hang", B: "hang"}),
        ([made.pause(A, 0), made.pause(B, 20)], {A: "hang", B: "hang"}),
        ([made.pause(A, 0), made.pause(B, 20), made.pause(C, 30)], {A: "outage", B: "outage", C: "outage"}),
        ([made.pause(A, 0, idle=True), made.pause(B, 20, idle=True, topics=["u"])], {}),
        (
            [made.pause(each, 0, idle=True, partitions=7, topics=[each]) for each in (A, B, C)],
            {A: "outage", B: "outage", C: "outage"},
        ),
        ([made.pause(each, 0, idle=True, partitions=7) for each in (A, B, C)], {}),
        (
            [made.pause(each, 0, idle=True, partitions=7, topics=[each], **LATE) for each in (A,)]
            + [made.pause(each, 0, idle=True, partitions=7, topics=[each]) for each in (B, C)],
            {},
        ),
        ([made.pause(A, 0), made.pause(B, 20, idle=True, topics=["u"])], {A: "hang"}),
        (
            [made.pause(A, 0, idle=None, topics=None), made.pause(B, 0, idle=None, topics=None)],
            {A: "outage", B: "outage"},
        ),
        (
            [made.pause(A, 0, 2), made.pause(B, 0, idle=True, partitions=7, topics=["u"]), made.pause(C, 0, 2)],
            {A: "outage", B: "outage", C: "outage"},
        ),
    ],
    ids=[
        "one group",
        "two that read different topics",
        "not within 30 seconds",
        "two that read one topic are one cause",
        "most groups of the cluster",
        "two of four are idle",
        "most are idle at once, in most of their partitions",
        "most are, and read one topic",
        "not until the same time",
        "an idle group isn't a second one",
        "a run of an earlier release",
        "members that rejoin and change nothing",
    ],
)
def test_what_stopped_without_a_rebalance(
    spark: SparkSession, pauses: list[dict[str, Any]], causes: dict[str, str]
) -> None:
    """A broker or network is the cause only if groups stopped that have nothing but it in common."""
    groups = [made.group(name) for name in (A, B, C, "d")] + [made.group("e", paused_partition_ms=None)]
    rejoined = [made.rebalance(each["group_id"], 2, 60, cause=NO_CAUSE) for each in pauses if each["generation_id"]]
    rows = {"groups": groups, "pauses": pauses, "rebalances": rejoined}
    history = {name: frame_of(spark, schema, rows.get(name, ())) for name, schema in HISTORY_TABLES.items()}
    day = {"shop": (made.at(-1), made.at(3600))}
    found = daily_rows(history=history, times=day, drift=None, advice=None, alerts=None, clusters=())
    assert {row["group_id"]: row["deploy_type"] for row in found.deploys} == causes
    assert {row["group_id"] for row in found.idle} == {row["group_id"] for row in pauses} - {*causes}
    details = {row["detail"].partition("; ")[2] for row in found.deploys}
    alone = "no other group of the cluster stopped: its consumers hang"
    several = f"{len(causes)} groups of the cluster stopped at that time"
    same = f"{len(causes)} groups that read the same topics stopped at that time"
    assert details <= ({several} if "outage" in causes.values() else {alone, same})
    assert (same in details) == (causes == {A: "hang", B: "hang"} and pauses[1]["start_time"] == made.at(20))
    if found.idle:
        assert f"Not listed: {count(len(found.idle), 'idle time')} of" in found.parts[0].sentences[1]


def test_one_early_record_hides_no_hour(spark: SparkSession) -> None:
    """The columns of the day's heat map are no years wide because of a pause that began in the year 1000."""
    early = made.pause(A, 0, start_time=datetime(1000, 1, 1, tzinfo=UTC))
    rows = {"groups": [made.group(A)], "pauses": [early], "rebalances": [made.rebalance(A, 2, 60)]}
    history = {name: frame_of(spark, schema, rows.get(name, ())) for name, schema in HISTORY_TABLES.items()}
    day = {"shop": (made.at(-1), made.at(3600))}
    found = daily_rows(history=history, times=day, drift=None, advice=None, alerts=None, clusters=())
    assert (len(found.deploys), found.width_s) == (1, 10)


def test_in_the_report(place: str, tmp_path: Path) -> None:
    """A section of its own, with both heat maps and the two groups that rebalanced."""
    pytest.importorskip("jinja2", reason="reports are an extra")
    file = tmp_path / "report.html"
    assert report.main(["--history", place, "--output-file", str(file)]) == 0
    page = file.read_text()
    assert page.count("<svg") == 8
    assert "each column is 5 minutes" in page
    assert "carts, flapping: 12 rebalances, generations 1 to 12" in page
