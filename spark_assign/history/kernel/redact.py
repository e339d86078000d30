"""Redacts records: removes the hosts of members and the metadata of commits.

A changed record is decoded completely and encoded again, so that nothing remains that was not understood: an unreadable
value becomes empty, and an unreadable key keeps only its type. Most records are commits. Those that have nothing to
remove, and nothing but the fields of a commit, are found vectorized and remain unchanged.

A host occurs in `clientHost`; in the endpoint of a Streams member; in the metadata of a Connect worker (its URL, that
of its leader, and, unless configured, its client id, of which its member id is made); and in the user data of clients
that nobody else can decode, Streams among them. The user data of the assignors of Kafka's own consumers has no hosts,
and is needed to reproduce their assignments.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_assign.connect import connect_protocol
from spark_assign.history.kernel.batch_decoder import find_commit_layout, read_commit_keys
from spark_assign.history.kernel.binary_column import BinaryColumn
from spark_assign.numeric.arrays import BoolArray
from spark_assign.wire import consumer_protocol, group_records
from spark_assign.wire.reader import Reader, WireError

_ASSIGNORS_WITHOUT_HOSTS = {"range", "roundrobin", "sticky", "cooperative-sticky"}
_CONNECT_CLIENT_ID = re.compile(r"\Aconnect-.*:(\d+)", re.DOTALL)
_NULL_BYTES = struct.pack(">i", -1)
_EMPTY_STRING = struct.pack(">h", 0)
_UNDECODABLE = b"\0"
"""No valid bytes of any protocol: what a member sent remains unknown, instead of nothing."""


def redact_records(records: pa.RecordBatch, *, hosts: bool, metadata: bool) -> pa.RecordBatch:
    """Returns RECORDS without the hosts of members or the metadata of commits.

    Offset, partition, and timestamp are unchanged.

    Args:
        records: records with key and value.
        hosts: whether to remove the hosts of members.
        metadata: whether to remove the metadata of commits.
    """
    if not (hosts or metadata) or records.num_rows == 0:
        return records
    columns = {name: records.column(name) for name in records.schema.names}
    keys, values = columns["key"].cast(pa.binary()), columns["value"].cast(pa.binary())
    changed = pa.array(~_find_plain_commits(keys, values, metadata))
    pairs = [
        _redact_record(key, value, hosts, metadata)
        for key, value in zip(keys.filter(changed).to_pylist(), values.filter(changed).to_pylist(), strict=True)
    ]
    if pairs:
        keys = pc.replace_with_mask(keys, changed, pa.array([key for key, _ in pairs], pa.binary()))
        values = pc.replace_with_mask(values, changed, pa.array([value for _, value in pairs], pa.binary()))
    columns |= {"key": keys.cast(columns["key"].type), "value": values.cast(columns["value"].type)}
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=records.schema)


def _redact_record(
    key: bytes | None, value: bytes | None, hosts: bool, metadata: bool
) -> tuple[bytes | None, bytes | None]:
    """Returns the redacted key and value of a record."""
    try:
        record_key = group_records.read_key(key or b"")
        redacted_key = group_records.write_key(record_key.type, record_key.fields)
    except WireError:
        return (None if key is None else key[:2]), (None if value is None else b"")
    if value is None:
        return redacted_key, None
    try:
        record_value = group_records.read_value(record_key.type, value)
        fields = redact_hosts(record_key.name, record_value.fields) if hosts else record_value.fields
        if metadata and record_key.name == "OffsetCommit":
            fields = fields | {"metadata": ""}
        return redacted_key, group_records.write_value(record_key.type, fields, record_value.version)
    except WireError:
        return redacted_key, b""


def _find_plain_commits(keys: pa.Array, values: pa.Array, metadata: bool) -> BoolArray:
    """Returns which records are commits without any extra byte and, if `metadata` is set, without metadata."""
    key_bytes, value_bytes = BinaryColumn(keys), BinaryColumn(values)
    record_type, _, _ = read_commit_keys(key_bytes, key_bytes.end - 4)
    layout = find_commit_layout(record_type, value_bytes)
    has_plain_value = layout.is_regular & (layout.end == value_bytes.end)
    if metadata:
        has_plain_value &= layout.metadata_size == 0
    is_tombstone = values.is_null().to_numpy(zero_copy_only=False)
    is_plain: BoolArray = (record_type >= 0) & (has_plain_value | is_tombstone)
    return is_plain


# --- hosts --------------------------------------------------------------------------------------------------------


def redact_hosts(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a value without hosts. Embedded bytes that can't be decoded become `_UNDECODABLE`.

    Args:
        name: the record type, such as `GroupMetadata`.
        fields: the fields of the value.
    """
    if name == "GroupMetadata":
        return _redact_group_metadata(fields)
    if "clientHost" in fields:
        fields = fields | {"clientHost": ""}
    if fields.get("userEndpoint") is not None:
        fields = fields | {"userEndpoint": None}
    if (classic := fields.get("classicMemberMetadata")) is not None:
        protocols = [
            protocol | {"metadata": _redact_bytes(_redact_subscription, protocol["metadata"], protocol["name"])}
            for protocol in classic["supportedProtocols"]
        ]
        fields = fields | {"classicMemberMetadata": classic | {"supportedProtocols": protocols}}
    return fields


def _redact_group_metadata(fields: dict[str, Any]) -> dict[str, Any]:
    """Redacts the value of a classic group."""
    protocol_type, protocol = fields["protocolType"], fields["protocol"] or ""
    connect = protocol_type == "connect"
    members = []
    for member in fields["members"]:
        subscription, assignment = member["subscription"], member["assignment"]
        if connect:
            subscription = _redact_bytes(_redact_worker_state, subscription)
            assignment = _redact_bytes(_redact_worker_assignment, assignment)
        elif protocol_type == "consumer":
            subscription = _redact_bytes(_redact_subscription, subscription, protocol)
            assignment = _redact_bytes(_redact_assignment, assignment, protocol)
        else:
            subscription, assignment = b"", b""
        names = {key: _redact_worker_name(member[key]) for key in ("memberId", "clientId")} if connect else {}
        members.append(member | names | {"clientHost": "", "subscription": subscription, "assignment": assignment})
    leader = _redact_worker_name(fields["leader"]) if connect and fields["leader"] is not None else fields["leader"]
    return fields | {"members": members, "leader": leader}


def _redact_worker_name(text: str) -> str:
    """Removes the host of a default client id, connect-HOST:PORT, with which a worker's member id starts."""
    return _CONNECT_CLIENT_ID.sub(r"connect-:\1", text)


def _redact_bytes(redact: Any, data: bytes, *args: str) -> bytes:
    """Returns redacted bytes: empty if they are empty, `_UNDECODABLE` if they can't be decoded."""
    if not data:
        return data
    try:
        redacted: bytes = redact(data, *args)
    except WireError:
        return _UNDECODABLE
    return redacted


def _redact_subscription(data: bytes, protocol: str) -> bytes:
    """Returns the known fields of a subscription, with the user data only of assignors that write no hosts."""
    consumer_protocol.subscription_as_sent(data)
    reader = Reader(data)
    version = reader.int16()
    for _ in range(reader.array_length(2)):
        reader.string()
    return _redact_user_data(data, reader, protocol, version)


def _redact_assignment(data: bytes, protocol: str) -> bytes:
    consumer_protocol.assignment(data)
    reader = Reader(data)
    reader.int16()
    _skip_partitions(reader)
    return _redact_user_data(data, reader, protocol)


def _skip_partitions(reader: Reader) -> None:
    for _ in range(reader.array_length(6)):
        reader.string()
        reader.int32s()


def _redact_user_data(data: bytes, reader: Reader, protocol: str, version: int = 0) -> bytes:
    """Returns the bytes read so far, the redacted user data, and the fields after it, without unknown bytes.

    Subscriptions have such fields, depending on their `version`: owned partitions, generation, and rack.
    """
    start = len(data) - reader.left
    reader.nullable_bytes()
    end = len(data) - reader.left
    if version >= 1 and reader.left:
        _skip_partitions(reader)
        if version >= 2:
            reader.int32()
        if version >= 3:
            reader.nullable_string()
    user_data = data[start:end] if protocol in _ASSIGNORS_WITHOUT_HOSTS else _NULL_BYTES
    return data[:start] + user_data + data[end : len(data) - reader.left]


def _redact_worker_state(data: bytes) -> bytes:
    """Returns the state of a Connect worker without its URL, and with a redacted assignment."""
    connect_protocol.read_worker_state(data)
    reader = Reader(data)
    version = reader.take(2)
    reader.string()
    redacted = version + _EMPTY_STRING + reader.take(8)
    if not reader.left:
        return redacted
    running = reader.nullable_bytes()
    if running is None:
        return redacted + _NULL_BYTES
    running = _redact_worker_assignment(running) if running else b""
    return redacted + struct.pack(">i", len(running)) + running


def _redact_worker_assignment(data: bytes) -> bytes:
    """Returns the assignment of a Connect worker with the redacted name of the leader and without its URL."""
    connect_protocol.read_assignment(data)
    reader = Reader(data)
    header = reader.take(4)
    leader = _redact_worker_name(reader.string()).encode()
    if len(leader) >= 1 << 15:  # a byte that isn't UTF-8 becomes three
        raise WireError("the leader has a name that Kafka can't write")
    reader.string()
    start = len(data) - reader.left
    reader.int64()
    for _ in range(2):  # assigned connectors and tasks, revoked connectors and tasks
        if reader.left:
            for _ in range(reader.nullable_array_length(6)):
                reader.string()
                reader.int32s()
    if reader.left:
        reader.int32()
    fields = data[start : len(data) - reader.left]
    return header + struct.pack(">h", len(leader)) + leader + _EMPTY_STRING + fields
