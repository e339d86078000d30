"""What other settings of classic Streams applications change, and what is proposed, without Spark."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from spark_assign.advice.kernel.advice_items import AdviceItem, AdviceParams
from spark_assign.advice.kernel.propose_streams import list_kept_settings, propose_streams
from spark_assign.advice.kernel.streams_settings import RECOVERY_LAG, STANDBYS, STREAMS_ROWS, measure_streams_settings
from spark_assign.streams.kernel.streams_group_input import (
    CHANGELOG,
    FACTS,
    GROUP,
    MEMBER,
    OWNED,
    SUBTOPOLOGY,
    TASK,
    TOPIC,
)
from tests.cases import cases
from tests.unit.test_classic_groups import fact, group, member, task

Row = dict[str, Any]
MB = 10**6
PROCESSES = [f"00000000-0000-0000-0000-00000000000{at}" for at in range(1, 4)]


def application(
    sizes: list[int], instances: int = 2, *config: str, standbys: int = 0, end: int | None = 1_000_000
) -> list[Row]:
    """Task i of subtopology 0 has `sizes[i]` bytes of state, and instance i modulo `instances` runs it."""
    return [
        group(*config, standbys=standbys),
        fact(SUBTOPOLOGY, name="0", source_topics=["t"], changelog_topics=["l"]),
        fact(TOPIC, name="t", number=len(sizes)),
        *(fact(CHANGELOG, name="l", number=at, offset=end, bytes=size) for at, size in enumerate(sizes)),
        *(member(f"m{at}", PROCESSES[at]) for at in range(instances)),
        *(task(f"m{at % instances}", at, "active") for at in range(len(sizes))),
    ]


def measured(rows: list[Row], rate: float = 10 * MB) -> list[Row]:
    """The rows of the application, without nulls."""
    tables = measure_streams_settings(pa.Table.from_pylist(rows, FACTS), STREAMS_ROWS, rate)
    found = [row for table in tables for row in table.to_pylist()]
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def values(rows: list[Row], setting: str, *columns: str) -> list[tuple[Any, ...]]:
    """The current value of a setting and the other one, with some figures."""
    found = [row for row in rows if row.get("setting") == setting]
    return [(row["value"], *(row.get(name) for name in columns)) for row in found]


def proposed(rows: list[Row], rate: float = 10 * MB) -> tuple[list[AdviceItem], list[Row]]:
    """What is proposed, and what is kept."""
    full = [{name: row.get(name) for name in STREAMS_ROWS.names} for row in measured(rows, rate)]
    params = AdviceParams(restore_bytes_per_second=rate)
    return propose_streams(full, params), list(list_kept_settings(full, params))


LOSS = "moved_without_state", "restored_bytes", "stopped_task_seconds", "standby_bytes"


def test_standbys_save_a_restore() -> None:
    """m0 has 1.2 GB and m1 0.6 GB: without m0, m1 restores 1.2 GB in 120 s, and both tasks stop for all of it."""
    rows = application([600 * MB, 300 * MB, 600 * MB, 300 * MB])
    assert values(measured(rows), STANDBYS, *LOSS) == [(0, 2, 1_200 * MB, 240.0, 0), (1, 0, 0, 0.0, 1_800 * MB)]
    (item,), kept = proposed(rows)
    assert (item.action, item.settings, item.gain, item.cost) == ("standbys", "num.standby.replicas=1", 240.0, 1.8)
    assert "2 tasks move without their state, 1.20 GB are restored, and tasks stop for 240" in item.description
    assert [row["code"] for row in kept] == ["nothing-to-do"], "acceptable.recovery.lag"


def test_what_standbys_read() -> None:
    """Each of two tasks writes 0.5 MB/s to its changelog, which is 86.4 GB a day."""
    rows = application([600 * MB] * 2)
    rates = {"offset": 1_000_000, "bytes": 600 * MB, "in_bytes_per_second": 5e5}
    rated = [fact(CHANGELOG, name="l", number=at, **rates) for at in (0, 1)]
    (item,), _ = proposed([*(row for row in rows if row["kind"] != CHANGELOG), *rated])
    assert "read this from brokers once, and then 86.40 GB a day." in item.risk
    assert "and then all that is written to the changelogs." in proposed(rows)[0][0].risk


def test_the_lost_instance_is_the_one_with_the_most_state() -> None:
    """m1, in any order of facts. Its task stops for 90 s, and a task of 200 MB goes to the other instance by warmup.
    With standbys no task stops, and the others restore both copies that m1 had: its task, and a standby of 100 MB."""
    rows = application([100 * MB, 900 * MB, 200 * MB], 3)
    found = measured(rows)
    assert values(found, STANDBYS, *LOSS[:3]) == [(0, 1, 1_100 * MB, 90.0), (1, 0, 1_000 * MB, 0.0)]
    Random(1).shuffle(rows)
    assert measured(rows) == found


def test_standbys_that_exist_are_kept() -> None:
    """They save 60 s; other state on disk doesn't count as a standby."""
    rows = [*application([600 * MB, 600 * MB], standbys=1), task("m0", 1, "standby"), task("m1", 0, "standby")]
    assert values(measured(rows), STANDBYS, *LOSS) == [(1, 0, 0, 0.0, 1_200 * MB), (0, 1, 600 * MB, 60.0, 0)]
    items, kept = proposed(rows)
    assert (items, [row["code"] for row in kept]) == ([], ["nothing-to-do", "nothing-to-do"])
    assert "Keep num.standby.replicas=1. If the instance with the most state fails" in kept[1]["detail"]
    assert "tasks stop for 60 task-seconds, at 10 MB/s" in kept[1]["detail"]
    left = [*application([600 * MB, 600 * MB]), task("m0", 1, None, 1_000_000), task("m1", 0, None, 1_000_000)]
    assert values(measured(left), STANDBYS, *LOSS[:3])[0] == (0, 1, 600 * MB, 60.0)


def test_standbys_that_no_instance_gets() -> None:
    """Two instances have at most one standby of each task, one instance none, and a task without state none."""
    (item,), _ = proposed(application([600 * MB] * 3, standbys=2))
    assert (item.action, item.settings, item.gain) == ("fewer-standbys", "num.standby.replicas=1", None)
    assert "no instance gets 3 of the standbys. The application has 2 instances" in item.description
    (item,), _ = proposed(application([600 * MB], 1, standbys=1))
    assert item.settings == "num.standby.replicas=0"
    stateless = [row for row in application([0, 0], standbys=1) if row["kind"] not in (SUBTOPOLOGY, CHANGELOG)]
    (item,), kept = proposed([*stateless, fact(SUBTOPOLOGY, name="0", source_topics=["t"])])
    assert (item.settings, "No task has state." in item.description, kept) == ("num.standby.replicas=0", True, [])


def test_an_acceptable_lag_that_is_too_high() -> None:
    """A new instance counts as caught up, and gets one of two tasks, which stops for 60 s; or restores it first."""
    rows = application([600 * MB] * 2, 1, "acceptable.recovery.lag=2000000")
    assert values(measured(rows), RECOVERY_LAG, *("stopped_task_seconds", "pending_moves", "restored_bytes")) == [
        (2_000_000, 60.0, 0, 600 * MB),
        (100_000, 0.0, 1, 600 * MB),
    ]
    (item,), kept = proposed(rows)
    assert (item.settings, item.gain, item.cost) == ("acceptable.recovery.lag=100000", 60.0, None)
    assert "up to 60 s to restore it per task, and 6 s with 100,000, at 10 MB/s" in item.description
    assert item.command.endswith("--what-if 'join:g:1'")
    assert [row["code"] for row in kept] == ["not-possible"], "one instance has no standbys"


def test_an_acceptable_lag_that_is_too_low() -> None:
    """m1 lacks 5% of a task, 3 s, and isn't caught up with the default of 10,000."""
    rows = [*application([600 * MB] * 2, 1), member("m1", PROCESSES[1]), task("m1", 1, None, 950_000)]
    assert values(measured(rows), RECOVERY_LAG, "pending_moves") == [(10_000, 1), (100_000, 0)]
    item = proposed(rows)[0][1]
    assert (item.settings, item.gain, item.gain_unit) == (
        "acceptable.recovery.lag=100000",
        1.0,
        "moves without waiting",
    )
    assert item.cost == pytest.approx(3.0)
    far = [*rows[:-1], task("m1", 1, None, 500_000)]
    assert [row["code"] for row in measured(far) if row.get("setting") == RECOVERY_LAG] == ["nothing-to-do"]


@cases(
    "rows codes",
    (application([0, 0], end=None), ["not-known", "not-known"]),
    ([{**row, "more": None} if row["kind"] == CHANGELOG else row for row in application([1, 1])], ["not-known"] * 2),
    (application([1], 1), ["not-possible", "nothing-to-do"]),
    (application([1] * 2, 2, "task.assignor.class=sticky", standbys=3), []),
)
def test_what_is_unknown(rows: list[Row], codes: list[str]) -> None:
    """End offsets, sizes; other assignors ignore lags."""
    assert [row["code"] for row in measured(rows) if "code" in row] == codes


def test_rejected_applications() -> None:
    """With the code of the plan; groups of other protocols are none."""

    def rejections(rows: list[Row]) -> list[tuple[str, str]]:
        return [(row["kind"], row["code"]) for row in measured(rows)]

    rows = application([MB] * 2)
    assert rejections([*rows, task("m0", 0, "active")]) == [("rejected", "duplicate-task")]
    assert rejections([row for row in rows if row["kind"] not in (MEMBER, TASK)]) == [("rejected", "no-members")]
    lost = [row for row in rows if row["kind"] != TASK]
    lost.append(fact(OWNED, member_id="m0", name="gone", first=0, step=1, count=1))
    assert rejections(lost) == [("rejected", "unknown-owned")]
    assert measured([fact(GROUP, text="streams"), *rows[1:]]) == []
