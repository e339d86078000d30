"""The daily page: its answers in order, commands for each recommendation, and the rows of one team."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from spark_assign.report.advice import advice_commands
from spark_assign.report.daily import DailyRows, _with_settings
from spark_assign.report.html import render_report
from tests.cases import cases

pytest.importorskip("jinja2", reason="pages are an extra")
pytest.importorskip("vl_convert", reason="charts are an extra")

UNTIL = datetime(2026, 11, 27, 6, tzinfo=UTC)


def deploy(group_id: str, deploy_type: str, paused_ms: int | None, team: str | None) -> dict[str, Any]:
    """A row of `tables.history.DEPLOYS` with a team."""
    row = {"cluster": "c", "group_id": group_id, "deploy_type": deploy_type, "team": team, "detail": "3 restarted"}
    row |= {"start_time": UNTIL - timedelta(hours=3), "end_time": UNTIL - timedelta(hours=2)}
    return row | {"rebalances": 4, "members_before": 3, "members_after": 3, "paused_partition_ms": paused_ms}


def saving(group_id: str, setting: str, replayed_ms: int) -> dict[str, Any]:
    """A row of the savings of a group that paused 100 partition-seconds."""
    row = {"cluster": "c", "group_id": group_id, "setting": setting, "team": "a", "rebalances": 4}
    row["settings"] = f"# Stop all members, then start them with:\n{setting}=1"
    return row | {"paused_ms": 100_000, "replayed_ms": replayed_ms}


def advice(action: str, **more: Any) -> dict[str, Any]:
    """A row of `tables.advice.ADVICE`."""
    row = {"rank": 1, "category": "pause", "cluster": "c", "group_id": "g", "action": action, "description": "Do it"}
    row |= {"gain": 3.0, "gain_unit": "partition-seconds a month", "cost": None, "cost_unit": None, "team": "a"}
    return row | {"payback_months": None, "risk": "None.", "command": "advise", "settings": None} | more


ROWS = DailyRows(
    since=UNTIL - timedelta(days=1),
    until=UNTIL,
    deploys=[
        deploy("g", "rolling-restart", 90_000, "a"),
        deploy("h", "flapping", 10_000, "b"),
        deploy("h", "crash", None, "b"),
    ],
    buckets=[
        {"cluster": "c", "group_id": "g", "time_bucket": 1, "rebalances": 4, "paused_partition_ms": 9, "team": "a"}
    ],
    savings=[
        saving("g", "static members", 20_000),
        saving("g", "other", 90_000),
        saving("h", "other", 60_000),
        saving("i", "other", 75_000),
    ],
    changed=[],
    advice=[advice("static", settings="group.instance.id=…")],
    alerts=[{"cluster": "c", "group_id": "h", "alert": "rebalances", "detail": "30", "team": "b", "contact": "#b"}],
    clusters=[
        {"cluster": "c", "labels": "tier: 1", "taken_at": UNTIL, "age_hours": 1.0, "stale": False, "problem": ""},
        {"cluster": "d", "labels": "", "taken_at": None, "age_hours": None, "stale": True, "problem": "No snapshot."},
    ],
    missing=["The step snapshot ended with exit code 3."],
)


def test_the_page_answers_in_order() -> None:
    """Clusters without a snapshot, causes, their cost, the best single setting, changes, and what to do."""
    clusters, stopped, cost, prevention, changes, to_do = ROWS.parts
    assert [row[0] for row in clusters.tables[0].rows] == ["d", "c"]
    again = replace(ROWS, deploys=[*ROWS.deploys, deploy("g", "rolling-restart", 10_000, "a")])
    (folded, *_) = again.parts[1].tables[0].rows
    assert folded[:4] == ["deployment", "c/g (a)", "rolling-restart", "2"]
    assert [part.heading for part in replace(ROWS, clusters=ROWS.clusters[:1]).parts][-1] == clusters.heading
    assert "3 events in 2 groups (deployment 1, rebalance storm 1, crash 1)." in stopped.sentences[0]
    assert cost.sentences[0] == "100 partition-seconds without consumption."
    assert [row[0] for row in cost.tables[0].rows] == ["deployment", "rebalance storm", "crash"]
    assert prevention.sentences[0].startswith("static members in 1 group would have saved 80 partition-seconds")
    assert [card.heading for card in prevention.cards] == ["c/g (a): static members", "c/h (a): other"]
    assert changes.sentences == ["0 groups changed since the previous plan."]
    assert to_do.cards[0].commands.apply[0] == "group.instance.id=…"
    assert clusters.sentences == ["Stale: d.", *ROWS.missing]
    page = render_report(daily=ROWS, title="Today")
    order = [page.index(f'<h2 id="{part.ident}">') for part in ROWS.parts]
    assert order == sorted(order)
    assert '<body class="daily">' in page
    assert "<time>2026-11-27 03:00:00</time>" in page


def test_a_team_sees_its_rows() -> None:
    """And every cluster."""
    assert ROWS.teams() == ["a", "b"]
    own = ROWS.of_team("b")
    assert {row["group_id"] for row in own.deploys} == {"h"}
    assert (own.advice, own.savings, own.clusters) == ([], [], ROWS.clusters)


def test_without_a_history() -> None:
    """The page says so, and has the rest."""
    parts = DailyRows().parts
    assert parts[0].sentences == ["No history was read, so pauses aren't known."]
    assert parts[3].sentences == ["There is no earlier plan to compare with."]
    (sentence,) = parts[2].sentences
    assert sentence.startswith("No single setting would have saved more than 25 % of the pauses of a group,")


def test_the_rows_are_printed() -> None:
    """By the names of the stored tables."""
    assert [*ROWS.tables()] == ["deploys", "savings", "groups", "advice", "alerts", "clusters"]
    assert ROWS.tables()["deploys"] == ROWS.deploys
    assert DailyRows().tables()["groups"] == ()


@cases(
    "row apply undo",
    (advice("replicas-move", group_id=None, category="money"), "--execute", "current assignment"),
    (advice("more-partitions", category="behind"), "--alter", "Not possible"),
    (advice("racks", group_id=None, category="unknown", settings="client.rack"), "client.rack", "Nothing to undo"),
    (advice("session", settings="session.timeout.ms=60000"), "session.timeout.ms=60000", "previous values"),
    (
        advice("assignor", settings="# Stop all members, then start them with:\nstrategy=X"),
        "# Stop all members, then start them with:\nstrategy=X",
        "by the same steps in the opposite order",
    ),
)
def test_commands(row: dict[str, Any], apply: str, undo: str) -> None:
    """Each recommendation has commands to apply, verify, and undo it, and its confidence."""
    commands = advice_commands(row)
    assert apply in "\n".join(commands.apply)
    assert undo in "\n".join(commands.undo)
    assert commands.verify
    assert commands.confidence


def test_changes_of_a_group_that_save_the_same() -> None:
    """The one that is preferred everywhere comes first, and what the clients refuse is left out."""
    row = {"cluster": "c", "group_id": "g", "static": False, "current_assignor": "range"}
    row |= {"paused_ms": 9, "replayed_ms": 1, "client_libraries": "librdkafka 2"}
    names = ("roundrobin", "sticky", "cooperative-sticky", "uniform")
    rows = [*(row | {"assignor": name} for name in names), row | {"assignor": "range", "static": True}]
    found = _with_settings(rows)
    assert [each["setting"] for each in found] == ["cooperative-sticky", "uniform", "roundrobin", "static members"]
    assert found[0]["settings"].endswith("\npartition.assignment.strategy=cooperative-sticky")
    assert _with_settings([each | {"client_libraries": "kafkajs 2"} for each in rows]) == []
