"""GroupMetadata values of versions 0 to 3 in one go: of a topic's records about groups nearly all are that.

A loop for what is laid out as it should be, several times as fast as reading field by field. It says nothing of what is
not: that is for the reader by tables, with which it agrees on all that it reads.
"""

from __future__ import annotations

from struct import Struct
from struct import error as too_short
from typing import Any

GROUP_METADATA = 2
_NEWEST = 3
_INT, _TWO, _LONG = (Struct(f">{layout}").unpack_from for layout in ("i", "ii", "q"))
_NULL = 0x8000
"""From here on an int16 is below 0."""


def read_generation(data: bytes) -> dict[str, Any] | None:
    """The fields of a value; None: it is of another version, or something about it is not regular."""
    try:
        version = data[0] << 8 | data[1]
        return _read(data, version) if version <= _NEWEST else None
    except (IndexError, UnicodeDecodeError, too_short):
        return None


def _read(data: bytes, version: int) -> dict[str, Any] | None:
    # Slices that begin or end after the last byte are short, and are found out at the end.
    texts: list[str | None] = []
    at = 2
    for place in range(3):
        size = data[at] << 8 | data[at + 1]
        at += 2
        if size >= _NULL:
            if place == 0:
                return None
            texts.append(None)
        else:
            texts.append(data[at : at + size].decode())
            at += size
        if place == 0:
            generation = _INT(data, at)[0]
            at += 4
    since = -1
    if version > 1:
        since = _LONG(data, at)[0]
        at += 8
    count = _INT(data, at)[0]
    at += 4
    if not 0 <= count <= len(data) - at:
        return None
    members = []
    for _ in range(count):
        size = data[at] << 8 | data[at + 1]
        name = data[at + 2 : at + 2 + size].decode()
        at += 2 + size
        if size >= _NULL:
            return None
        instance = None
        if version == _NEWEST:
            size = data[at] << 8 | data[at + 1]
            at += 2
            if size < _NULL:
                instance = data[at : at + size].decode()
                at += size
        size = data[at] << 8 | data[at + 1]
        client = data[at + 2 : at + 2 + size].decode()
        at += 2 + size
        host_size = data[at] << 8 | data[at + 1]
        host = data[at + 2 : at + 2 + host_size].decode()
        at += 2 + host_size
        rebalance = -1
        if version:
            rebalance = _INT(data, at)[0]
            at += 4
        session, told = _TWO(data, at)
        begin = at + 8
        at = begin + told
        given = _INT(data, at)[0] if told >= 0 else -1
        if size >= _NULL or host_size >= _NULL or given < 0:
            return None
        members.append(
            {
                "memberId": name,
                "groupInstanceId": instance,
                "clientId": client,
                "clientHost": host,
                "rebalanceTimeout": rebalance,
                "sessionTimeout": session,
                "subscription": data[begin:at],
                "assignment": data[at + 4 : at + 4 + given],
            }
        )
        at += 4 + given
    if at > len(data):
        return None
    kind, protocol, leader = texts
    return {
        "protocolType": kind,
        "generation": generation,
        "protocol": protocol,
        "leader": leader,
        "currentStateTimestamp": since,
        "members": members,
    }
