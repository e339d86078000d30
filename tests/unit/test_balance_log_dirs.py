"""Balance of the log directories within brokers: by hand, and what must hold for any disks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_assign.replicas.kernel.balance_log_dirs import LogDirPlan, plan_log_dirs
from spark_assign.replicas.kernel.reassignment_facts import NamedCluster, RejectedError
from spark_assign.replicas.kernel.replica_cluster import ReplicaCluster
from tests.cases import cases
from tests.sizes import drawn

Row = dict[str, Any]


def disk(path: str, total: int | None = None, usable: int | None = None, broker: int = 0, **state: Any) -> Row:
    """Returns a row of `log_dirs`."""
    sizes = {"total_bytes": total, "usable_bytes": usable}
    return {"broker_id": broker, "log_dir": path, "error": None, "cordoned": None, **sizes, **state}


def logs(path: str, *sizes: int | None, first: int = 0, broker: int = 0, is_future: bool = False) -> list[Row]:
    """Returns rows of `log_dir_replicas`, of the partitions from `first` on."""
    key = {"topic": "t", "broker_id": broker, "log_dir": path, "is_future": is_future}
    return [key | {"partition": first + at, "bytes": size} for at, size in enumerate(sizes)]


def named(disks: list[Row], found: list[Row], current: list[list[int]], sizes: list[int]) -> NamedCluster:
    """Returns a cluster of brokers 0 and 1 whose partitions have one replica each."""
    count, zeros = len(current), np.zeros(len(current), np.int64)
    cluster = ReplicaCluster(
        np.zeros(2, np.int64), np.ones(2, bool), np.array(current), zeros + 1, np.array(sizes), weighed=True
    )
    tables = pa.Table.from_pylist(disks), pa.Table.from_pylist(found)
    ids, partitions = np.arange(2), np.arange(count)
    return NamedCluster(cluster, ids, {}, ["t"] * count, partitions, False, zeros, zeros, {}, *tables)


def planned(disks: list[Row], found: list[Row], tolerance: float = 0.1, **limits: Any) -> LogDirPlan:
    """Returns the plan of broker 0, which keeps all partitions."""
    count = 1 + max(row["partition"] for row in found)
    cluster = named(disks, found, [[0]] * count, [1] * count)
    return plan_log_dirs(cluster, [[0]] * count, tolerance, **limits)


A, B, C = (disk(path) for path in ("/a", "/b", "/c"))


@cases(
    "disks found moved after",
    # The example of the module; a broker with unlike disks; within the tolerance.
    ([A, B], logs("/a", 50, 30, 20), {1: "/b", 2: "/b"}, [50, 50]),
    ([disk("/a", 300, 300), disk("/b", 100, 100)], logs("/a", 10, 10, 10, 10), {0: "/b"}, [30, 10]),
    ([A, B], [*logs("/a", 52), *logs("/b", 48, first=1)], {}, [52, 48]),
    # Two logs change places: 50 and 30 are the fewest bytes.
    ([A, B], [*logs("/a", 60, 50), *logs("/b", 40, 30, first=2)], {1: "/b", 3: "/a"}, [90, 90]),
    # Never onto a directory that is offline, cordoned, or too full; what leaves /b makes no room in it.
    ([A, disk("/b", error="KafkaStorageError"), C], logs("/a", 50, 50), {0: "/c"}, [50, None, 50]),
    ([A, disk("/b", cordoned=True), C], [*logs("/a", 50, 50), *logs("/b", 7, first=2)], {0: "/c"}, [50, 7, 50]),
    ([disk("/a", 1000, 900), disk("/b", 1000, 220)], logs("/a", 50, 50), {}, [100, 0]),
    # A log on its way to /b counts there; a log of an unknown partition (-1) and a size that is unknown stay.
    ([A, B], [*logs("/a", 50, 50), *logs("/b", 10, is_future=True)], {}, [50, 50]),
    ([A, B], [*logs("/a", 50, 50), *logs("/b", 100, first=-1)], {}, [100, 100]),
    ([A, B], [*logs("/a", 50, 50, None)], {0: "/b"}, [50, 50]),
)
def test_by_hand(disks: list[Row], found: list[Row], moved: dict[int, str], after: list[float | None]) -> None:
    """Which partitions move to which directory, and the bytes of the directories after it."""
    plan = planned(disks, found)
    assert {row: path for (row, _), path in plan.targets.items()} == moved
    assert [row.get("load_after") for row in plan.balance if row["broker_id"] == 0] == after
    is_balanced = all(row["min_load"] <= row.get("load_after", 0) <= row["max_load"] for row in plan.balance)
    assert sum(plan.moved.values()) >= plan.lower_bound or not is_balanced


def test_what_moves_between_brokers() -> None:
    """A new replica is placed without more moves, one that leaves is a source only, and unknown brokers are named."""
    found = [*logs("/a", 40, 30), *logs("/b", 30, 40, first=2)]
    cluster = named([A, B], found, [[0], [0], [0], [0], [1], [1]], [40, 30, 30, 40, 60, 40])
    plan = plan_log_dirs(cluster, [[0], [0], [1], [1], [0], [1]], 0.1)
    assert plan.targets == {(4, 0): "/b"}
    assert plan.sources == {(2, 0): "/b", (3, 0): "/b"}
    assert (plan.moved, plan.unknown) == ({}, 3)
    assert [(row["broker_id"], row["log_dir_state"]) for row in plan.balance[2:]] == [(1, "unknown")]


def test_limits() -> None:
    """No bytes, and a hard goal that can't be met."""
    assert planned([A, B], logs("/a", 50, 50), max_bytes=49).targets == {}
    with pytest.raises(RejectedError, match=r"broker 0 has 100 bytes in '/a', expected 45 to 55\. Raise"):
        planned([A, B], logs("/a", 100), is_hard=True)


@cases(
    "disks found code message",
    ([], logs("/a", 1), "no-log-dirs", "Take a snapshot with --log-dirs"),
    ([A, A], logs("/a", 1), "bad-log-dirs", "twice"),
    ([disk("any")], logs("any", 1), "bad-log-dirs", "named any"),
    ([disk("/a", -1)], logs("/a", 1), "bad-log-dirs", "aren't from 0"),
    ([A], logs("/b", 1), "bad-log-dirs", "a directory that log_dirs lacks: broker 0, '/b'"),
    ([A], logs("/a", 2**60, 1), "bad-log-dirs", "aren't from 0 to"),
    ([A, B], [*logs("/a", 1), *logs("/b", 1)], "bad-log-dirs", "two logs of t-0"),
    ([disk(f"/{at}") for at in range(1001)], logs("/1", 1), "bad-log-dirs", "more than 1,000"),
    ([disk("/\x1b" + 900 * "a")] * 2, logs("/a", 1), "bad-log-dirs", r"'/\x1b" + 152 * "a"),
)
def test_rejections(disks: list[Row], found: list[Row], code: str, message: str) -> None:
    """Each with its code, and a path of which a terminal obeys nothing."""
    cluster = named(disks, found, [[0]] * 2, [1] * 2)
    with pytest.raises(RejectedError) as rejected:
        plan_log_dirs(cluster, [[0]] * 2, 0.1)
    assert rejected.value.code == code
    assert message in str(rejected.value)
    assert len(str(rejected.value)) < 400


@pytest.mark.parametrize("seed", range(drawn(60, 1000)))
def test_any_disks(seed: int) -> None:
    """Bytes are kept; nothing goes to a directory that takes no logs or has no room; balance gets no worse, and is
    reached if logs are small; and the order of rows doesn't matter."""
    draw = np.random.default_rng(seed)
    count, num_disks, tolerance = int(draw.integers(1, 80)), int(draw.integers(1, 6)), 0.15
    sizes = draw.integers(0, 1000, count)
    states = [{}, {}, {}, {"error": "KafkaStorageError"}, {"cordoned": True}]
    disks = [disk(f"/{at}", 10**6, int(draw.integers(1, 10**6)), **states[draw.integers(5)]) for at in range(num_disks)]
    online = [row["log_dir"] for row in disks if row["error"] is None]
    if not online:
        return
    found = [row for at in range(count) for row in logs(str(draw.choice(online)), int(sizes[at]), first=at)]
    plan = planned(disks, found, tolerance)
    after = {row["log_dir"]: row for row in plan.balance if "load_after" in row and row["log_dir"]}
    room = {row["log_dir"]: row["usable_bytes"] - 0.2 * row["total_bytes"] for row in disks}
    takes = {row["log_dir"] for row in disks if row["error"] is None and not row["cordoned"]}
    assert sum(row["load_after"] for row in after.values()) == sizes.sum()
    assert set(plan.targets.values()) <= takes
    for path in takes:
        assert sum(size for key, size in plan.moved.items() if plan.targets[key] == path) <= max(room[path], 0)

    def distance(column: str) -> float:
        rows = [after[path] for path in takes]
        return sum(max(row[column] - row["max_load"], row["min_load"] - row[column], 0) for row in rows)

    assert distance("load_after") <= distance("load_before") + 1e-6
    if takes and min(room.values()) > sizes.sum() and sizes.max() <= tolerance * after[min(takes)]["share"]:
        assert distance("load_after") < 1e-6
    shuffled = planned([disks[at] for at in draw.permutation(num_disks)], [found[at] for at in draw.permutation(count)])
    assert shuffled.targets == planned(disks, found).targets
