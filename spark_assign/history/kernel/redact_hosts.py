"""Values of group records without the hosts of their members.

A host stands in `clientHost`; in the endpoint of a Streams member; in what a Connect worker says of itself (its URL,
that of its leader, and where nobody named it its client id, of which its member id is made); and in the user data of
clients that nobody but they can read, Streams' among them. What the assignors of Kafka's own consumers keep there has
no hosts, and is needed to know what they would do.
"""

from __future__ import annotations

import re
import struct
from typing import Any

from spark_assign.connect import connect_protocol
from spark_assign.wire import consumer_protocol
from spark_assign.wire.reader import Reader, WireError

_HARMLESS = {"range", "roundrobin", "sticky", "cooperative-sticky"}
_CONNECT_NAMED = re.compile(r"\Aconnect-.*:(\d+)", re.DOTALL)
_NO_BYTES = struct.pack(">i", -1)
_NO_STRING = struct.pack(">h", 0)


def without_hosts(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a value of this record type. What embedded bytes cannot be read is left out as a whole."""
    if name == "GroupMetadata":
        return _classic(fields)
    if "clientHost" in fields:
        fields = fields | {"clientHost": ""}
    if fields.get("userEndpoint") is not None:
        fields = fields | {"userEndpoint": None}
    if (classic := fields.get("classicMemberMetadata")) is not None:
        protocols = [
            each | {"metadata": _or_nothing(_subscription, each["metadata"], each["name"])}
            for each in classic["supportedProtocols"]
        ]
        fields = fields | {"classicMemberMetadata": classic | {"supportedProtocols": protocols}}
    return fields


def _classic(fields: dict[str, Any]) -> dict[str, Any]:
    protocol_type, protocol = fields["protocolType"], fields["protocol"] or ""
    connect = protocol_type == "connect"
    members = []
    for member in fields["members"]:
        said, told = member["subscription"], member["assignment"]
        if connect:
            said, told = _or_nothing(_worker_state, said), _or_nothing(_worker_assignment, told)
        elif protocol_type == "consumer":
            said, told = _or_nothing(_subscription, said, protocol), _or_nothing(_assignment, told, protocol)
        else:
            said, told = b"", b""
        names = {key: _named(member[key]) for key in ("memberId", "clientId")} if connect else {}
        members.append(member | names | {"clientHost": "", "subscription": said, "assignment": told})
    leader = _named(fields["leader"]) if connect and fields["leader"] is not None else fields["leader"]
    return fields | {"members": members, "leader": leader}


def _named(text: str) -> str:
    """A worker whose client id nobody set is called connect-HOST:PORT, and its member ids begin with that."""
    return _CONNECT_NAMED.sub(r"connect-:\1", text)


def _or_nothing(rewrite: Any, data: bytes, *more: str) -> bytes:
    try:
        rewritten: bytes = rewrite(data, *more)
    except WireError:
        return b""
    return rewritten


def _subscription(data: bytes, protocol: str) -> bytes:
    """As far as it is known; user data only of assignors that are."""
    if not data:
        return data
    consumer_protocol.subscription_as_sent(data)
    reader = Reader(data)
    version = reader.int16()
    for _ in range(reader.array_length(2)):
        reader.string()
    return _of_a_consumer(data, reader, protocol, _end_of_subscription(version))


def _end_of_subscription(version: int) -> Any:
    def read(reader: Reader) -> None:
        if version >= 1 and reader.left:
            _pass_partitions(reader)
            if version >= 2:
                reader.int32()
            if version >= 3:
                reader.nullable_string()

    return read


def _assignment(data: bytes, protocol: str) -> bytes:
    if not data:
        return data
    consumer_protocol.assignment(data)
    reader = Reader(data)
    reader.int16()
    _pass_partitions(reader)
    return _of_a_consumer(data, reader, protocol, lambda _: None)


def _pass_partitions(reader: Reader) -> None:
    for _ in range(reader.array_length(6)):
        reader.string()
        reader.int32s()


def _of_a_consumer(data: bytes, reader: Reader, protocol: str, rest: Any) -> bytes:
    """What was read so far, the user data, and what `rest` reads behind it, but no bytes that nobody knows."""
    begins = len(data) - reader.left
    reader.nullable_bytes()
    after = len(data) - reader.left
    rest(reader)
    user_data = data[begins:after] if protocol in _HARMLESS else _NO_BYTES
    return data[:begins] + user_data + data[after : len(data) - reader.left]


def _worker_state(data: bytes) -> bytes:
    if not data:
        return data
    connect_protocol.worker_state(data)
    reader = Reader(data)
    version = reader.take(2)
    reader.string()
    found = version + _NO_STRING + reader.take(8)
    if not reader.left:
        return found
    running = reader.nullable_bytes()
    if running is None:
        return found + _NO_BYTES
    running = _worker_assignment(running)
    return found + struct.pack(">i", len(running)) + running


def _worker_assignment(data: bytes) -> bytes:
    if not data:
        return data
    connect_protocol.assignment(data)
    reader = Reader(data)
    start = reader.take(4)
    leader = _named(reader.string()).encode()
    reader.string()
    begins = len(data) - reader.left
    reader.int64()
    for _ in range(2):  # what it runs, what it is to stop
        if reader.left:
            for _ in range(reader.nullable_array_length(6)):
                reader.string()
                reader.int32s()
    if reader.left:
        reader.int32()
    rest = data[begins : len(data) - reader.left]
    return start + struct.pack(">h", len(leader)) + leader + _NO_STRING + rest
