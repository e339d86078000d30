"""Java's orders in Connect, and the closed forms against plain loops."""

from __future__ import annotations

import random

from spark_assign.assignors.connect.connectors_and_tasks import (
    Names,
    apply_assignment,
    connector_item,
    copied_hash_set_order,
    hash_set_order,
    item_name,
    serialized_order,
    split_items,
    task_item,
)
from spark_assign.assignors.connect.incremental_cooperative_assignor import WorkerLoads, backoff
from spark_assign.connect.kernel.indexed_facts import IndexedConnectFacts, to_facts
from tests.cases import cases, tuples


def test_items_sort_as_kafka_sorts_them() -> None:
    """By UTF-16 code units of the connector, the connector before its tasks, tasks by number and not by text."""
    names = Names(["b", "\U0001f600", "\uff5e", "a-1", "a"])
    assert names.texts == ["a", "a-1", "b", "\U0001f600", "\uff5e"]
    items = [task_item(0, 10), task_item(0, 9), connector_item(1), connector_item(0), task_item(0, 2**31 - 1)]
    assert [item_name(item, names.texts) for item in sorted(items)] == [
        *tuples("a None; a 9; a 10"),
        ("a", 2**31 - 1),
        ("a-1", None),
    ]
    assert split_items(items) == ([items[2], items[3]], [items[0], items[1], items[4]])


def test_a_copy_is_presized() -> None:
    """`new HashSet<>(collection)` of 12 has 32 buckets, where a table filled one by one has 16."""
    spread = [17, *range(2, 13)]
    assert hash_set_order(range(12), spread)[0] == 0  # 17 is in bucket 1 of 16
    assert copied_hash_set_order(range(12), spread)[-1] == 0  # and in bucket 17 of 32
    assert copied_hash_set_order(range(11), spread)[0] == 0


def test_a_long_chain_makes_a_small_table_grow() -> None:
    """The ninth name of a bucket doubles a table of less than 64 buckets."""
    spread = [1, *(16 * index for index in range(9))]
    assert hash_set_order(range(10), spread) == [1, 3, 5, 7, 9, 0, 2, 4, 6, 8]


def test_positions_are_the_order_of_workers() -> None:
    """Ids decide between equal positions, and workers without a position come last; other clusters keep their order."""
    positions = {"a": None, "b": 1, "c": 0, "d": 1}
    workers = [{"connect_cluster": "c", "worker_id": worker, "position": at} for worker, at in positions.items()]
    workers += [{"connect_cluster": "d", "worker_id": worker} for worker in ("p", "a")]  # buckets 0 and 1 of 16
    indexed = IndexedConnectFacts(to_facts({"workers": workers[::-1]}))
    found: dict[str | None, str] = {"c": "", "d": ""}
    for row in indexed.ordered_workers().tolist():
        found[indexed.clusters[indexed.cluster[row]]] += indexed.workers.texts[indexed.name[row]]
    assert found == {"c": "cbda", "d": "pa"}


def test_the_wire_groups_by_connector() -> None:
    """The example of `serialized_order`: a `HashSet` that iterates b before a."""
    spread = [2, 1, 3]  # of a, b, c
    tasks = [task_item(2, 0), task_item(1, 0), task_item(0, 1), task_item(1, 1)]
    connectors, sent = serialized_order([connector_item(0), connector_item(1)], tasks, spread)
    assert connectors == [connector_item(1), connector_item(0)]
    assert sent == [task_item(1, 0), task_item(1, 1), task_item(0, 1), task_item(2, 0)]
    assert serialized_order(connectors, sent, spread) == (connectors, sent)
    kept = apply_assignment((connectors, sent), ([], [task_item(0, 0)]), {task_item(1, 0), connector_item(1)}, spread)
    assert kept == ([connector_item(0)], [task_item(0, 0), task_item(1, 1), task_item(0, 1), task_item(2, 0)])


@cases(
    "max_delay_ms delays",
    (300_000, [40, 1_600, 64_000, 300_000, 300_000]),
    (30_000, [40, 1_600, 29_999, 29_999]),
    (180_000, [40, 1_600, 64_000, 179_999]),
    (60_000, [40, 1_600, 60_000]),
    (1, [1, 1]),
    (0, [0, 0]),
)
def test_backoff(max_delay_ms: int, delays: list[int]) -> None:
    """As Java's `ExponentialBackoff` gives it; the truncation matters."""
    assert [backoff(attempt, max_delay_ms) for attempt in range(1, len(delays) + 1)] == delays


def test_spreading_against_the_plain_loop() -> None:
    """The least loaded worker first, then the lowest id, in passes over the prefix with the lowest load."""
    draw = random.Random(5)
    for _ in range(300):
        sizes = [draw.randrange(5) for _ in range(draw.randrange(1, 7))]
        new = list(range(100, 100 + draw.randrange(12)))
        by_id = list(range(len(sizes)))
        draw.shuffle(by_id)
        loads = WorkerLoads([list(range(size)) for size in sizes])
        loads.assign(new, by_id)
        assert [loads.assigned(worker) for worker in range(len(sizes))] == _spread_plainly(sizes, new, by_id)


def test_revoked_items_are_the_first_ones() -> None:
    """Reported items are revoked first, then newly assigned ones, which are then no longer assigned."""
    loads = WorkerLoads([[1, 2, 3]])
    loads.items[0].append(8)
    loads.items[0].append(9)
    assert (loads.revoke(0, 1), loads.assigned(0)) == ([1], [8, 9])
    assert (loads.revoke(0, 3), loads.assigned(0), loads.items) == ([2, 3, 8], [9], [[9]])
    again = WorkerLoads([[1, 2]], lambda _: [4, 3, 2, 1])
    again.items[0].append(9)
    assert (again.revoke(0, 1), again.items, again.assigned(0)) == ([2], [[1, 9]], [9])


def _spread_plainly(sizes: list[int], new: list[int], by_id: list[int]) -> list[list[int]]:
    """`assignConnectors` as it is written in Java."""
    order = sorted(by_id, key=lambda worker: sizes[worker])
    current, assigned, remaining = list(sizes), [[] for _ in sizes], list(new)
    while remaining:
        level = current[order[0]]
        for worker in order[: next((at for at, worker in enumerate(order) if current[worker] > level), len(order))]:
            if remaining:
                assigned[worker].append(remaining.pop(0))
                current[worker] += 1
    return assigned
