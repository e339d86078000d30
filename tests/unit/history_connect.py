"""What Connect's workers say and are told, in bytes (IncrementalCooperativeConnectProtocol, version 2)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from tests.unit.history_log import classic_member, numbers_bytes, text_bytes

Task = tuple[str, int]


def worker_assignment(
    connectors: Iterable[str] = (), tasks: Iterable[Task] = (), revoked: Iterable[Task] = ()
) -> bytes:
    """An assignment."""
    head = struct.pack(">hh", 2, 0) + text_bytes("leader") + text_bytes("http://leader") + struct.pack(">q", 1)
    return head + _items(connectors, tasks) + _items((), revoked) + struct.pack(">i", 0)


def worker(member_id: str, running: bytes | None, assignment: bytes) -> dict[str, Any]:
    """A worker in a GroupMetadata value: what it ran when it joined, and what it is told."""
    ran = struct.pack(">i", -1) if running is None else struct.pack(">i", len(running)) + running
    metadata = struct.pack(">h", 2) + text_bytes("http://worker") + struct.pack(">q", 1) + ran
    return classic_member(member_id, {}, subscription=metadata, assignment=assignment)


def _items(connectors: Iterable[str], tasks: Iterable[Task]) -> bytes:
    found: dict[str, list[int]] = {connector: [-1] for connector in connectors}
    for connector, task in tasks:
        found.setdefault(connector, []).append(task)
    return struct.pack(">i", len(found)) + b"".join(text_bytes(n) + numbers_bytes(each) for n, each in found.items())
