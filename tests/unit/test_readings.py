"""Rows of loads from readings that are given: leaders without an answer, groups that come and go, a lost connection."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jobs import snapshot
from spark_assign.sources.files import snapshot_files
from spark_assign.sources.files.snapshot import SnapshotRows
from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.sources.kafka import loads as kafka_loads
from spark_assign.sources.kafka import offsets as kafka_offsets
from spark_assign.sources.kafka.loads import LoadReadOptions, LoadTargets, OffsetReading
from spark_assign.sources.kafka.offsets import LeaderOffset
from spark_assign.tables.errors import SourceError
from tests import snapshots
from tests.cases import cases, keyed

T0, T1 = ("t", 0), ("t", 1)
NOW_MS = 1_000_000


class Played:
    """In place of a cluster: what its readings give, one after the other."""

    def __init__(
        self, first: OffsetReading, later: Sequence[OffsetReading | SourceError], recreated: set[str] | None = None
    ) -> None:
        self.first, self.later, self.recreated = first, list(later), recreated or set()
        self.leaders = dict.fromkeys(first.ends, 1)
        self.messages: list[str] = []

    def report(self, line: str) -> None:
        self.messages.append(line)

    def sizes(self, of: Any) -> Mapping[Any, LeaderOffset]:
        return self.first.sizes

    def read(self, first: OffsetReading) -> OffsetReading:
        assert first.sizes == self.first.sizes
        found = self.later.pop(0)
        if isinstance(found, SourceError):
            raise found
        return found

    def recreated_topics(self) -> set[str]:
        return self.recreated

    def loads(self) -> dict[Any, dict[str, Any]]:
        """By partition and group, without columns that are null."""
        rows = SnapshotRows("c")
        kafka_loads.add(rows, cast(LoadTargets, self), self.first, LoadReadOptions(1, 1 + len(self.later)))
        return {
            (r["partition"], r["group_id"]): {
                n: v for n, v in r.items() if v is not None and n not in ("cluster", "topic", "partition", "group_id")
            }
            for r in rows.tables()["loads"].to_pylist()
        }


def reading(
    at: float,
    ends: Mapping[Any, int],
    committed: Mapping[str, Mapping[Any, int]] | None = None,
    sizes: Mapping[Any, int] | None = None,
) -> OffsetReading:
    """All at one time."""
    found = [{key: LeaderOffset(value, -1, at) for key, value in (each or {}).items()} for each in (ends, sizes)]
    committed = committed or {}
    return OffsetReading(committed, dict.fromkeys(committed, at), *found)


@pytest.fixture(autouse=True)
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits."""
    monkeypatch.setattr(kafka_connection, "wait", lambda _: None)


def test_rates_lag_and_bytes() -> None:
    """The lag is that of the last reading."""
    played = Played(
        reading(0, {T0: 100, T1: 0}, {"g": {T0: 90}}, {T0: 1000}),
        [reading(10, {T0: 200, T1: 0}, {"g": {T0: 140}}, {T0: 6000}), reading(20, {T0: 300, T1: 0}, {"g": {T0: 190}})],
    )
    assert played.loads() == {
        (0, None): keyed(
            "in_messages_per_second=10.0 in_messages_per_second_stddev=0.0"
        ),  # the size is not there at the end
        (1, None): {"in_messages_per_second": 0.0, "in_messages_per_second_stddev": 0.0},
        (0, "g"): {"out_messages_per_second": 5.0, "lag": 110},
    }


def test_what_comes_goes_and_goes_back() -> None:
    """A partition that has no leader at the end, a group that commits later, one whose offsets are gone, a reset."""
    first = reading(
        0, {T0: 100, T1: 5}, {"gone": {T0: 1}, "reset": {T0: 90}, "ahead": {T0: 400}, "else": {("x", 0): 1}}
    )
    last = reading(10, {T0: 50}, {"new": {T0: 40, T1: 1}, "reset": {T0: 10}, "ahead": {T0: 400}})
    assert Played(first, [last]).loads() == {
        (0, None): {},
        (1, None): {},
        (0, "gone"): {},
        (0, "new"): {"lag": 10},
        (1, "new"): {},
        (0, "reset"): {"lag": 40},
        (0, "ahead"): {"out_messages_per_second": 0.0},
    }


def test_a_topic_that_was_recreated() -> None:
    """No rate, whatever its offsets are; the lag is that of the new one."""
    first, last = (reading(at, {T0: at + 5}, {"g": {T0: at}}, {T0: at}) for at in (0, 10))
    assert Played(first, [last], {"t"}).loads() == {(0, None): {}, (0, "g"): {"lag": 5}}


def test_a_cluster_that_is_lost_on_the_way() -> None:
    """What was read until then counts, and it is said; the first reading alone has lags."""
    first, second = reading(0, {T0: 0}, {"g": {T0: 0}}), reading(10, {T0: 50}, {"g": {T0: 20}})
    played = Played(first, [second, SourceError("connection lost"), second])
    assert played.loads() == {
        (0, None): {"in_messages_per_second": 5.0},
        (0, "g"): {"out_messages_per_second": 2.0, "lag": 30},
    }
    assert played.messages[-1] == "loads are of 2 readings, not of 4: connection lost"
    assert Played(first, [SourceError("x")]).loads() == {(0, None): {}, (0, "g"): {"lag": 0}}


@cases(
    "end start then ahead dated rate",
    (700, 0, (100, 400_500), -1, True, 1.0),
    (700, 0, (-1, -1), -1, True, 0.0),  # nothing since then
    (0, 0, (-1, -1), -1, False, 0.0),  # nothing ever
    (700, 700, (-1, -1), -1, False, None),  # all of it deleted
    (700, 0, (-1, -1), -1, False, None),  # records without timestamps
    (700, 0, (100, 400_500), 650, True, None),  # some are ahead of the clock
    (700, 0, (100, 400_500), 700, True, 1.0),  # written after the end was read
    (700, 100, (100, 700_000), -1, True, 2.0),  # what was before is deleted: since that record
    (700, 0, (0, 700_000), -1, True, 700 / 600),  # nothing is deleted: it began to be written then
    (700, 0, (800, 990_000), -1, True, None),
    (700, 0, (100, 400_500), -1, False, 1.0),  # the latest is on its way to followers, or is not told
)
def test_by_timestamps(
    end: int, start: int, then: tuple[int, int], ahead: int, dated: bool, rate: float | None
) -> None:
    """Ten minutes back from now."""
    found = kafka_loads._since(600, NOW_MS - 600_000, end, start, LeaderOffset(*then, 0), ahead, dated)
    assert (None if found != found else found) == (rate if rate is None else pytest.approx(rate))


@dataclass(frozen=True)
class Log:
    """A partition at its leader: its records' timestamps; and how many of them all followers have."""

    timestamps: Sequence[int]
    replicated: int

    def answer(self, timestamp: int) -> LeaderOffset:
        """As ListOffsets has it for consumers: nothing of a record that not all followers have."""
        if timestamp == kafka_offsets.EARLIEST:
            return LeaderOffset(0, -1, 0)
        latest = max(self.timestamps)
        found = self.timestamps.index(latest) if timestamp == kafka_offsets.MAX_TIMESTAMP else -1
        if timestamp >= 0:
            found = next((at for at, each in enumerate(self.timestamps) if each >= timestamp), -1)
        return (
            LeaderOffset(found, self.timestamps[found], 0) if 0 <= found < self.replicated else LeaderOffset(-1, -1, 0)
        )


def test_a_partition_that_is_written_to_during_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its latest record is on its way to the followers, and those after the end came later than the limit."""
    now_ms = int(time.time() * 1000)
    stopped = SimpleNamespace(time=lambda: now_ms / 1000, monotonic=lambda: 50.0)
    monkeypatch.setattr(kafka_loads, "time", stopped)
    busy = [now_ms - 60_000 + second * 1_000 for second in range(180)]
    logs = {
        ("busy", 0): Log(busy, 179),
        ("quiet", 0): Log([now_ms - 10_000_000], 1),
        ("first", 0): Log([now_ms - 10_000_000, now_ms], 1),
        ("ahead", 0): Log([now_ms + 10_000_000, *busy], 181),
        ("undated", 0): Log([-1], 1),
    }
    requested: list[int] = []

    def offsets_at(_: Any, leaders: Any, ends: Any, report: Any, timestamp: int) -> Mapping[Any, LeaderOffset]:
        requested.append(timestamp)
        return {key: log.answer(timestamp) for key, log in logs.items()}

    monkeypatch.setattr(kafka_offsets, "offsets_at", offsets_at)
    monkeypatch.setattr(kafka_offsets, "has_max_timestamp", lambda _: True)
    ends = {k: LeaderOffset(60 if k[0] == "busy" else o.replicated, -1, stopped.monotonic()) for k, o in logs.items()}
    rows, watched = SnapshotRows("c"), LoadTargets(cast(Any, None), {}, {}, {}, lambda _: None)
    kafka_loads.add(rows, watched, OffsetReading({}, {}, ends), LoadReadOptions(since_s=600))
    rates = {row["topic"]: row["in_messages_per_second"] for row in rows.tables()["loads"].to_pylist()}
    assert rates == {"busy": pytest.approx(0.1), "quiet": 0, "first": None, "ahead": None, "undated": None}
    assert len(requested) == 4


@cases(
    "words message",
    (["--interval", "1m", "--rates-since", "10m"], "--rates-since can't be used with --interval"),
    (["--times", "3"], "--times needs --interval"),
    (["--interval", "soon"], "'soon' isn't a valid duration. Use a number and a unit, for example 500ms"),
    (["--interval", "0s"], "expected above 0 s."),
    (["--interval", "60s", "--times", "1"], "1 is not in the range"),
    (["--interval", "60s", "--connect-url", "http://c:8083"], "--interval can't be used with --connect-url"),
    (["--rates-since", "1h", "--connect-url", "http://c:8083"], "--rates-since can't be used with --connect-url"),
)
def test_wrong_usage(words: list[str], message: str, tmp_path: Path, capfd: Any, caplog: Any) -> None:
    """Said before anything is read."""
    place = ["--fleet-dir", str(tmp_path / "x")]
    server = [] if "--connect-url" in words else ["--bootstrap-server", "127.0.0.1:1"]
    assert snapshot.main([*server, *place, *words]) == 2
    assert message in capfd.readouterr().err + caplog.text


def test_times_of_flags_and_of_a_settings_file(tmp_path: Path) -> None:
    """With their unit, in milliseconds."""
    given = {"90s": 90_000, "10m": 600_000, "2min": 120_000, "1.5h": 5_400_000, "1d": 86_400_000, "250ms": 250}
    for text, ms in given.items():
        assert snapshot.main.parse(["--interval", text]).interval == ms
    file = tmp_path / "snapshot.toml"
    file.write_text('interval = "60s"\ntimes = 3')
    options = snapshot.main.parse(["--config", str(file)])
    assert (options.interval, options.times, options.rates_since) == (60_000, 3, None)


def test_loads_of_an_earlier_snapshot_do_not_stay(tmp_path: Path) -> None:
    """A folder has them where they were read, with no rows too, and not after a snapshot without."""
    plain = snapshots.of_kafka("eu")
    rows = SnapshotRows("eu")
    rows.rows["loads"] = []
    for tables, there in ((plain.tables | {"loads": rows.tables()["loads"]}, True), (plain.tables, False)):
        (home,) = snapshot_files.write_folder(replace(plain, tables=tables), tmp_path)
        assert (max(home.glob("taken=*")) / "loads.parquet").exists() is there
