"""ConnectProtocol bytes, built by hand from Kafka's schemas: every version, missing fields, and damaged bytes.

The live tests read the same from real workers.
"""

from __future__ import annotations

import struct

import pytest

from spark_assign.connect import connect_protocol
from spark_assign.connect.connect_protocol import ConnectAssignment, WorkerState
from spark_assign.wire.reader import WireError
from tests.cases import cases

Items = list[tuple[str, list[int]]]


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _items(items: Items | None) -> bytes:
    if items is None:
        return struct.pack(">i", -1)
    rows = [_string(name) + struct.pack(f">i{len(tasks)}i", len(tasks), *tasks) for name, tasks in items]
    return struct.pack(">i", len(items)) + b"".join(rows)


def assignment(
    items: Items | None,
    revoked: Items | None = None,
    *,
    delay_ms: int = 0,
    version: int = 1,
    error: int = 0,
    leader: str = "connect-a",
) -> bytes:
    """A complete assignment, as the leader writes it."""
    head = struct.pack(">hh", version, error) + _string(leader) + _string("http://a:8083/") + struct.pack(">q", 7)
    return head + _items(items) + (_items(revoked) + struct.pack(">i", delay_ms) if version else b"")


def metadata(url: str, running: bytes | None = None, *, version: int = 2, config_offset: int = 7) -> bytes:
    """A worker's part of its JoinGroup."""
    head = struct.pack(">h", version) + _string(url) + struct.pack(">q", config_offset)
    if version == 0:
        return head
    return head + (struct.pack(">i", -1) if running is None else struct.pack(">i", len(running)) + running)


def test_assignment() -> None:
    """-1 is the connector itself, other numbers are its tasks."""
    got = connect_protocol.read_assignment(assignment([("x", [-1, 1, 0]), ("y", [2])], [("z", [-1, 3])], delay_ms=3000))
    assert got == ConnectAssignment(0, "connect-a", ("x",), (("x", 1), ("x", 0), ("y", 2)), ("z",), (("z", 3),), 3000)


@pytest.mark.parametrize("missing", [0, 4, 8, 12])
def test_what_an_older_version_leaves_out_has_a_default(missing: int) -> None:
    """The delay, the revoked and the assigned items may be missing at the end; an eager assignment ends before."""
    complete = assignment([], [])
    got = connect_protocol.read_assignment(complete[: len(complete) - missing])
    assert (got.connectors, got.tasks, got.revoked_connectors, got.delay_ms) == ((), (), (), 0)
    assert connect_protocol.read_assignment(assignment([("x", [-1])], version=0)).connectors == ("x",)
    assert connect_protocol.read_assignment(assignment(None, None)).connectors == ()


def test_worker_state() -> None:
    """Eager: URL and config offset; later versions carry what the worker runs, or null."""
    found = connect_protocol.read_worker_state(metadata("http://a:8083/", version=0))
    assert found == WorkerState("http://a:8083/", 7, None)
    assert connect_protocol.read_worker_state(metadata("http://a:8083/")).running is None
    got = connect_protocol.read_worker_state(metadata("http://a:8083/", assignment([("x", [-1, 0])])))
    assert got.running is not None
    assert (got.running.connectors, got.running.tasks) == (("x",), (("x", 0),))


def test_versions_to_come_are_read_as_far_as_known() -> None:
    """Bytes at the end are ignored."""
    data = bytearray(metadata("http://a:8083/") + b"more")
    data[1] = 9
    assert connect_protocol.read_worker_state(bytes(data)).url == "http://a:8083/"


@cases(
    "data",
    b"",
    b"\xff\xff" + metadata("u")[2:],
    metadata("u")[:-6],
    metadata("u")[:-2],
    metadata("u", b"\x00"),
    metadata("u", assignment([("x", [1])])[:-30]),
)
def test_damaged_bytes_are_refused(data: bytes) -> None:
    """Never read as something else."""
    with pytest.raises(WireError):
        connect_protocol.read_worker_state(data)


@cases("items revoked", ([("x", [0, -2])], []), ([], [("x", [-(2**31)])]))
def test_a_task_below_the_number_of_a_connector(items: Items, revoked: Items) -> None:
    """It would be a task of the connector before. The largest number is one of its own."""
    with pytest.raises(WireError, match=r"task -.* of connector x: expected -1 or more"):
        connect_protocol.read_assignment(assignment(items, revoked))
    largest = connect_protocol.read_assignment(assignment([("x", [2**31 - 1]), ("y", [-1])]))
    assert connect_protocol.arrival_order(largest.connectors, largest.tasks) == (("y",), (("x", 2**31 - 1),))


def test_more_announced_than_there_is() -> None:
    """A length that cannot be is refused before anything is allocated."""
    data = assignment([])[:-12] + struct.pack(">i", 2_000_000_000) + b"\x00" * 8
    with pytest.raises(WireError, match="announced"):
        connect_protocol.read_assignment(data)


def test_the_next_report() -> None:
    """Assigned items come first, then kept ones; serialization reorders both."""
    previous = connect_protocol.read_assignment(assignment([("b", [-1, 0, 1]), ("a", [-1, 0])]))
    received = connect_protocol.read_assignment(assignment([("c", [-1, 0]), ("b", [2])], [("b", [-1, 0])]))
    connectors, tasks = connect_protocol.next_report(WorkerState("u", 7, previous), received)
    # Hash order of the connectors: a, c. Tasks: those of a and c first, then b in the order of appearance.
    assert connectors == ("a", "c")
    assert tasks == (("a", 0), ("c", 0), ("b", 2), ("b", 1))
    assert connect_protocol.next_report(WorkerState("u", 7, None), received)[0] == ("c",)
    assert connect_protocol.next_report(WorkerState("u", 7, previous), None)[0] == ("a", "b")


def test_the_order_of_a_copied_set() -> None:
    """`new HashSet<>(collection)` of 12 elements begins with 32 buckets, where adding one by one stays at 16."""
    names = [f"{letter}" for letter in "prstuvwxyzab"]
    assert len(names) == 12
    by_bucket = sorted(names, key=lambda name: ord(name) & 31)
    assert connect_protocol.arrival_order(names, [])[0] == tuple(by_bucket)
    assert by_bucket != sorted(names, key=lambda name: ord(name) & 15)


def test_an_item_is_reported_once() -> None:
    """Even where it was assigned a second time."""
    assert connect_protocol.arrival_order(["a", "a"], [("a", 0), ("a", 0)]) == (("a",), (("a", 0),))
    assert connect_protocol.arrival_order([], []) == ((), ())
