"""The JSON files of Kafka's tools."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_assign.replicas.batch_schedule import Bandwidth, schedule_batches
from spark_assign.replicas.kafka_tool_files import to_tool_files, write_tool_files
from spark_assign.tables.errors import ConfigError
from tests.cases import tuples


def _row(partition: int, size: int | None, moved: int = 1, cluster: str = "c") -> dict[str, Any]:
    return {
        "cluster": cluster,
        "topic": 't"',
        "partition": partition,
        "previous_replicas": [1, 2],
        "replicas": [2, 3] if moved else [2, 1],
        "moved": moved,
        "leader_changed": partition == 0,
        "bytes": size,
    }


def _files(*rows: dict[str, Any], **limits: int | None) -> list[dict[str, Any]]:
    return list(to_tool_files(rows, limits.get("partitions"), limits.get("limit")))


def test_content() -> None:
    """Files for the reassignment, the rollback, and the leaders to elect."""
    reassign, rollback, leaders = _files(_row(0, None), _row(1, None, moved=0))
    assert json.loads(reassign["content"]) == {
        "version": 1,
        "partitions": [
            {"topic": 't"', "partition": 0, "replicas": [2, 3]},
            {"topic": 't"', "partition": 1, "replicas": [2, 1]},
        ],
    }
    assert [each["replicas"] for each in json.loads(rollback["content"])["partitions"]] == [[1, 2], [1, 2]]
    assert json.loads(leaders["content"]) == {"partitions": [{"topic": 't"', "partition": 0}]}
    expected = ("reassign-001.json", "rollback-001.json", "preferred-leaders.json", None)
    assert (reassign["name"], rollback["name"], leaders["name"], leaders["batch"]) == expected


def test_batches_by_partitions() -> None:
    """A batch has at most the maximum number of partitions, of one cluster."""
    assert [
        (each["cluster"], each["batch"], each["partitions"])
        for each in _files(*(_row(at, None) for at in range(1, 6)), _row(7, None, cluster="d"), partitions=2)
        if each["kind"] == "reassign"
    ] == [("c", 1, 2), ("c", 2, 2), ("c", 3, 1), ("d", 1, 1)]


def test_batches_by_bytes() -> None:
    """A batch moves at most the limit; a larger partition is alone; reordering moves nothing."""
    rows = [_row(1, 60), _row(2, 50), _row(3, 40), _row(4, 300, moved=2), _row(5, 900, moved=0), _row(6, 10)]
    files = [each for each in _files(*rows, limit=100) if each["kind"] == "reassign"]
    assert [(each["partitions"], each["bytes"]) for each in files] == [(3, 70), (1, 600), (2, 90)]
    assert _files(_row(1, 2**62, moved=2), _row(2, 1))[0]["bytes"] == 2**63 - 1, "a stored size can be any long"


def test_a_batch_may_be_as_heavy_as_its_limit() -> None:
    """Exactly the limit is allowed; one byte or one partition more starts another batch."""
    for size, batches in ((40, [(2, 100)]), (41, [(1, 60), (1, 41)])):
        files = [each for each in _files(_row(1, 60), _row(2, size), limit=100) if each["kind"] == "reassign"]
        assert [(each["partitions"], each["bytes"]) for each in files] == batches
    assert [each["partitions"] for each in _files(*(_row(at, 1) for at in range(1, 5)), partitions=4)] == [4, 4]


def test_a_batch_that_is_too_heavy_alone() -> None:
    """No other partition that moves joins it; one that moves nothing can. No batch is empty."""
    rows = [_row(1, 101), _row(2, 0), _row(3, None), _row(4, 500, moved=0), _row(5, 1), _row(6, 99)]
    assert [
        (each["batch"], each["name"], each["partitions"], each["bytes"])
        for each in [each for each in _files(*rows, limit=100) if each["kind"] == "rollback"]
    ] == [(1, "rollback-001.json", 4, 100), (2, "rollback-002.json", 2, 101)]


def test_unknown_sizes_are_no_size() -> None:
    """Bytes are None if no size is known; without limits there is one batch."""
    unknown, _ = _files(_row(1, None), _row(2, None), limit=1)
    assert (unknown["partitions"], unknown["bytes"]) == (2, None)
    batch, _ = _files(_row(1, None), _row(2, 7, moved=2), _row(3, 10**12))
    assert (batch["partitions"], batch["bytes"], batch["kind"]) == (3, 10**12 + 14, "reassign")
    assert _files() == []


def test_no_leaders_no_file() -> None:
    """Leaders are elected once per cluster, and only if one changed."""
    assert {each["kind"] for each in _files(_row(1, None))} == {"reassign", "rollback"}
    kinds = [(each["cluster"], each["kind"], each["partitions"], each["bytes"]) for each in _files(
        _row(0, 5), _row(1, 5), _row(0, 5, cluster="d"), partitions=1)]  # fmt: skip
    found = [each for each in kinds if each[1] == "preferred-leaders"]
    assert found == tuples("c preferred-leaders 1 None; d preferred-leaders 1 None")


def test_the_bytes_of_a_file() -> None:
    """A file has one partition per line, so that it's readable and comparable."""
    found = _files(_row(1, None))[0]["content"]
    assert found == ('{"version":1,"partitions":[\n{"topic": "t\\"", "partition": 1, "replicas": [2, 3]}\n]}\n')
    assert _files(_row(0, None))[2]["content"] == '{"partitions":[\n{"topic": "t\\"", "partition": 0}\n]}\n'


def test_a_request_has_at_most_ten_thousand() -> None:
    """Kafka's controller refuses more: files of reassignments and of leaders are split, with or without a limit."""
    rows = [_row(at, None) | {"leader_changed": True} for at in range(10_001)]
    for limits in ({}, {"partitions": 20_000}):
        files = _files(*rows, **limits)
        assert [(each["name"], each["partitions"]) for each in files if each["kind"] != "rollback"] == tuples(
            "reassign-001.json 5_001; reassign-002.json 5_000; "
            "preferred-leaders-001.json 10_000; preferred-leaders-002.json 1"
        )


def _timed(partition: int, previous: list[int], replicas: list[int], **values: Any) -> dict[str, Any]:
    row = {"cluster": "c", "topic": "t", "partition": partition, "previous_replicas": previous, "replicas": replicas}
    moved = len(set(replicas) - set(previous))
    row |= {"moved": moved, "leader_changed": False, "bytes": 100_000_000, "rate": 1_000_000.0}
    return row | {"throttle": 10_000_000.0, "mean_bytes": 50_000_000.0} | values


def test_time_of_a_batch() -> None:
    """The slowest broker counts; new writes, what replicas in sync fetch, and waits take from the throttle."""
    (batch,) = schedule_batches([_timed(0, [1, 2], [1, 3])], None, None, None)
    assert (batch["min_seconds"], batch["max_seconds"]) == (10.0, 14.75)
    assert (batch["slowest_broker_id"], batch["copied_bytes"], batch["latest_start"]) == (1, 100_000_000, None)
    assert batch["execute"].endswith("reassign-001.json --throttle 10000000 --execute")
    (batch,) = schedule_batches([_timed(0, [1, 2], [2, 1]), _timed(1, [1], [3], bytes=None)], None, None, None)
    assert (batch["partitions"], batch["copied_bytes"], batch["min_seconds"]) == (2, 50_000_000, 5.0)
    (batch,) = schedule_batches([_timed(0, [1, 2], [1, 3])], None, None, None, 12_000_000)
    assert (batch["min_seconds"], batch["max_seconds"], batch["throttle"]) == (100 / 12, 10.0, 10_000_000)
    (batch,) = schedule_batches([_timed(0, [1, 2], [2, 1])], None, None, None)
    assert (batch["min_seconds"], batch["max_seconds"], batch["slowest_broker_id"]) == (0.0, 0.0, None)


def test_writes_that_use_up_the_throttle() -> None:
    """Then the copy might never end."""
    (batch,) = schedule_batches([_timed(0, [1, 2], [1, 3], rate=5_000_000.0)], None, None, datetime.now(UTC))
    assert (batch["min_seconds"], batch["max_seconds"], batch["latest_start"]) == (10.0, None, None)


def test_latest_starts() -> None:
    """Batches run one after the other, each as slow as it may be; the bound is that of all partitions at once."""
    rows = [_timed(0, [1], [2], rate=0.0), _timed(1, [3], [4], rate=0.0)]
    first, second = schedule_batches(rows, 1, None, datetime(2026, 11, 27, 12, tzinfo=UTC))
    assert (first["latest_start"], second["latest_start"]) == (
        datetime(2026, 11, 27, 11, 59, 36, tzinfo=UTC),
        datetime(2026, 11, 27, 11, 59, 48, tzinfo=UTC),
    )
    assert first["lower_bound_seconds"] == second["lower_bound_seconds"] == 10.0


@pytest.mark.parametrize("wrong", [{}, {"throttle": 1, "bytes_per_second": 1}, {"throttle": 0}])
def test_bandwidths_that_say_nothing(wrong: dict[str, Any]) -> None:
    """Exactly one of throttle and bandwidth, of at least one byte/s."""
    with pytest.raises(ConfigError):
        Bandwidth(**wrong)
    with pytest.raises(ConfigError):
        Bandwidth(throttle=1, headroom=1.0)
    with pytest.raises(ConfigError):
        Bandwidth(throttle=1, measured_rate=0)


def test_files_behind_links_stay(tmp_path: Path) -> None:
    """Files of an earlier plan are removed, but not those of another folder; links in a circle end."""
    (tmp_path / "c").mkdir()
    (tmp_path / "other").mkdir()
    for file in ("c/reassign-001.json", "other/reassign-001.json"):
        (tmp_path / file).touch()
    (tmp_path / "out").mkdir()
    (tmp_path / "c").rename(tmp_path / "out" / "c")
    for name in ("a", "b"):
        (tmp_path / "out" / name).symlink_to(tmp_path / "out")
    (tmp_path / "out" / "x").symlink_to(tmp_path / "other")
    nothing: Any = SimpleNamespace(toLocalIterator=lambda: iter(()))
    assert write_tool_files(nothing, str(tmp_path / "out")) == []
    left = [(tmp_path / folder / "reassign-001.json").exists() for folder in ("other", "out/c")]
    assert left == [True, False]
