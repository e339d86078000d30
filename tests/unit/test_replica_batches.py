"""The JSON files of Kafka's tools."""

from __future__ import annotations

import json
from typing import Any

from spark_assign.kernels.replicas.batches import FILE_COLUMNS, files


def _row(partition: int, size: int | None, moved: int = 1, cluster: str = "c") -> dict[str, Any]:
    return {
        "cluster": cluster,
        "topic": 't"',
        "partition": partition,
        "previous": [1, 2],
        "replicas": [2, 3] if moved else [2, 1],
        "moved": moved,
        "leader_changed": partition == 0,
        "bytes": size,
    }


def _files(*rows: dict[str, Any], **limits: int | None) -> list[dict[str, Any]]:
    found = files(rows, limits.get("partitions"), limits.get("limit"))
    return [dict(zip(FILE_COLUMNS, each, strict=True)) for each in found]


def test_content() -> None:
    """What the tools take, the way back, and the leaders to elect."""
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
    assert (reassign["name"], rollback["name"], leaders["name"], leaders["batch"]) == (
        "reassign-001.json",
        "rollback-001.json",
        "preferred-leaders.json",
        None,
    )


def test_batches_by_partitions() -> None:
    """No more than so many at once; every cluster for itself."""
    found = _files(*(_row(at, None) for at in range(1, 6)), _row(7, None, cluster="d"), partitions=2)
    assert [(each["cluster"], each["batch"], each["partitions"]) for each in found if each["kind"] == "reassign"] == [
        ("c", 1, 2),
        ("c", 2, 2),
        ("c", 3, 1),
        ("d", 1, 1),
    ]


def test_batches_by_bytes() -> None:
    """What a batch moves stays within the limit; a heavier partition is alone; reordering moves nothing."""
    rows = [_row(1, 60), _row(2, 50), _row(3, 40), _row(4, 300, moved=2), _row(5, 900, moved=0), _row(6, 10)]
    found = [each for each in _files(*rows, limit=100) if each["kind"] == "reassign"]
    assert [(each["partitions"], each["bytes"]) for each in found] == [(1, 60), (2, 90), (2, 600), (1, 10)]
