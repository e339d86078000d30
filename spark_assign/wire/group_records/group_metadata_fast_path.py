"""Reads GroupMetadata values of versions 0 to 3 in one pass. Nearly all group records of the topic have this form.

The loop reads regular bytes several times as fast as the generic decoder, with which it agrees on everything that it
reads. Irregular bytes are left to the generic decoder.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Any

GROUP_METADATA = 2
_NEWEST = 3
_INT, _TWO_INTS, _LONG = (Struct(f">{layout}").unpack_from for layout in ("i", "ii", "q"))
_NULL = 0x8000
"""An int16 length from here on is negative, which means null."""


def read_generation(data: bytes) -> dict[str, Any] | None:
    """Returns the fields of a value, or None if it has another version or irregular bytes."""
    try:
        version = data[0] << 8 | data[1]
        return _read(data, version) if version <= _NEWEST else None
    except (IndexError, UnicodeDecodeError, StructError):
        return None


def _read(data: bytes, version: int) -> dict[str, Any] | None:
    """Returns the fields of a value of a known version, or None if the bytes are irregular."""
    # Slices past the last byte are too short. The comparison of the position with the size at the end detects them.
    texts: list[str | None] = []
    position = 2
    for text_index in range(3):
        size = data[position] << 8 | data[position + 1]
        position += 2
        if size >= _NULL:
            if text_index == 0:
                return None
            texts.append(None)
        else:
            texts.append(data[position : position + size].decode())
            position += size
        if text_index == 0:
            generation = _INT(data, position)[0]
            position += 4
    state_timestamp = -1
    if version > 1:
        state_timestamp = _LONG(data, position)[0]
        position += 8
    count = _INT(data, position)[0]
    position += 4
    if not 0 <= count <= len(data) - position:
        return None
    members = []
    for _ in range(count):
        size = data[position] << 8 | data[position + 1]
        name = data[position + 2 : position + 2 + size].decode()
        position += 2 + size
        if size >= _NULL:
            return None
        instance = None
        if version == _NEWEST:
            size = data[position] << 8 | data[position + 1]
            position += 2
            if size < _NULL:
                instance = data[position : position + size].decode()
                position += size
        size = data[position] << 8 | data[position + 1]
        client = data[position + 2 : position + 2 + size].decode()
        position += 2 + size
        host_size = data[position] << 8 | data[position + 1]
        host = data[position + 2 : position + 2 + host_size].decode()
        position += 2 + host_size
        rebalance = -1
        if version:
            rebalance = _INT(data, position)[0]
            position += 4
        session, subscription_size = _TWO_INTS(data, position)
        subscription_start = position + 8
        position = subscription_start + subscription_size
        assignment_size = _INT(data, position)[0] if subscription_size >= 0 else -1
        if size >= _NULL or host_size >= _NULL or assignment_size < 0:
            return None
        members.append(
            {
                "memberId": name,
                "groupInstanceId": instance,
                "clientId": client,
                "clientHost": host,
                "rebalanceTimeout": rebalance,
                "sessionTimeout": session,
                "subscription": data[subscription_start:position],
                "assignment": data[position + 4 : position + 4 + assignment_size],
            }
        )
        position += 4 + assignment_size
    if position > len(data):
        return None
    protocol_type, protocol, leader = texts
    return {
        "protocolType": protocol_type,
        "generation": generation,
        "protocol": protocol,
        "leader": leader,
        "currentStateTimestamp": state_timestamp,
        "members": members,
    }
