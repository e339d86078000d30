"""The history of groups in words, from rows that are made up."""

from __future__ import annotations

from spark_assign.report.history import MAX_LINES, format_group_history, heat_maps, partition_time, summary_lines
from tests.cases import keyed
from tests.unit import history_rows as made


def test_the_story_of_a_group() -> None:
    """A deploy with its rebalances under it, a pause of its own; what the group is, and what is not on record."""
    rows = made.tables()
    group = rows["groups"][1]
    mine = [[row for row in rows[name] if row["group_id"] == "payments"] for name in ("rebalances", "deploys")]
    lines = format_group_history(group, *mine, [row for row in rows["pauses"] if row["generation_id"] is None])
    assert lines[0] == (
        "shop/payments: classic group, range, 3 members and 12 partitions at the end (Stable). 2 rebalances from "
        "2026-11-20 10:00:00 to 2026-11-20 11:00:00, at most 2 in 24 hours. They paused 36 partition-seconds in total, "
        "a single partition at most 9 s. 4 generations in between no longer on record."
    )
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "time (UTC) generation members event moved paused longest pause",
        "2026-11-20 10:00:50 5–6 3 → 3 rolling-restart until 10:02:50: 3 members, one by one 36 s",
        "2026-11-20 10:01:00 5 3 payments-2 left 4 18 s 9 s",
        "2026-11-20 10:02:00 6 3 payments-2 left 4 18 s 9 s",
        "2026-11-20 10:30:00 – – no commits for 2 partitions, without a rebalance 2 min 60 s",
    ]
    assert "3 → 3  rolling-restart" in lines[2]
    assert "    3    payments-2 left" in lines[3], "a rebalance of a deploy is indented"


def test_earlier_rebalances_are_counted() -> None:
    """The newest are told; deploys before them are not."""
    group = made.group("g", rebalances=MAX_LINES + 7)
    lines = format_group_history(
        group, [made.rebalance("g", 9, 500)], [made.deploy("g", 1, 2, 10)], [made.pause("g", 20)]
    )
    assert lines[-1] == f"  … and {MAX_LINES + 6} earlier rebalances, in the table rebalances"
    assert len(lines) == 4
    assert format_group_history(group, [made.rebalance("g", 9, 5)], [made.deploy("g", -(2**31), 2**31 - 1, 0)], ())


def test_a_rebalance_long_before_the_others() -> None:
    """A heat map has a limit of columns, with the newest ones."""
    key, figures = {"cluster": "shop", "group_id": "g"}, {"rebalances": 7, "paused_partition_ms": 5_000}
    rows = [{**key, **figures, "time_bucket": at} for at in (0, 10**9, 10**9 + 1)]
    assert [str(each.picture).count("shop/g, ") for each in heat_maps([made.group("g")], rows, 10)] == [
        4,
        4,
    ]  # two cells, each named twice


def test_numbers_of_rows_are_not_counted_up() -> None:
    """A deploy of two billion generations, and rebalances thousands of years apart."""
    group, deploy = made.group("g"), made.deploy("g", 1, 2**31 - 1, 450)
    assert len(format_group_history(group, [made.rebalance("g", 9, 500)], [deploy], [])) == 5
    buckets = [{**group, "time_bucket": at, "paused_partition_ms": 0} for at in (-6_000_000_000, 25_000_000_000)]
    (drawn,) = heat_maps([group], buckets, 10)
    assert drawn.heading == "Rebalances: each column is 11,071,428,580 seconds, times in UTC"


def test_a_history_in_a_few_lines() -> None:
    """Nothing stopped that is not known; what is gone is said."""
    row = keyed(
        "groups=2 flapping=1 rebalances=14 idle_epochs=2 missing_generations=4 crashes=1 paused_partition_ms=252_000"
    )
    row |= {"start_time": made.at(0), "end_time": made.at(3600)}
    assert list(summary_lines(row, {"rolling-restart": 1, "crash": 2})) == [
        "2 groups from 2026-11-20 10:00:00 to 2026-11-20 11:00:00 UTC",
        "14 rebalances, 4 partition-minutes paused; 4 generations no longer on record",
        "2 idle epochs: every member kept its partitions, and nothing stopped",
        "Deploys: 1 rolling-restart, 2 crash",
        "1 flapping group; 1 crash",
    ]
    assert list(summary_lines({"groups": 0}, {})) == ["No group is on record"]
    assert [partition_time(ms) for ms in (36_000, 720_000, 12_240_000)] == [
        "36 partition-seconds",
        "12 partition-minutes",
        "3.4 partition-hours",
    ]
