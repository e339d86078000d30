"""Replaces IDs and hosts of a snapshot by keyed hashes, so that a fleet can be shared without them (`--pseudonyms`).

A pseudonym is an HMAC-SHA256 with the user's key, shortened to 64 bits: the same value gets the same pseudonym in all
tables and snapshots with this key, and nobody without the key can test a guess. Group IDs, topics, clusters,
connectors, and racks remain.

Kafka's assignors sort members by ID, and static members by instance ID. So these pseudonyms start with the rank of the
ID within its group, in Java's order of strings: `00002-5d1f…`. The rank, and with it the pseudonym, changes if a member
with a smaller ID joins or leaves.
"""

from __future__ import annotations

import hashlib
import hmac
import uuid
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_assign.java.hash_map import java_key
from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.stores.locations import read_file
from spark_assign.tables.errors import ConfigError

MIN_KEY_BYTES = 16
"""Minimum size of a key: 128 bits can't be guessed."""

_RANKED = {
    **dict.fromkeys(("member_id", "member_ids"), "member"),
    "group_instance_id": "instance",
    **dict.fromkeys(("worker_id", "leader", "candidates", "members"), "worker"),
}
"""Columns with an ID, or a list of IDs, that assignors sort by, and the kind of the ID. Ranks are within a group."""
_HASHED = ("client_id", "client_host", "process_id", "leader_process_id", "rest_worker_id", "url")
_REMOVED = {"error": "removed by --pseudonyms"}
"""Columns with text that can contain a host."""
_SOURCE = ("kind", "client", "groups")
"""Keys of a snapshot's source without a host or an ID of a member."""
_UNSEEN = "groups are missing; why was removed by --pseudonyms"
"""Text of `unseen`: the error of a broker can contain a host."""


def read_key(file: str) -> bytes:
    """Returns the key in a file, without white space around it.

    Raises:
        ConfigError: the file can't be read, or the key is too short.
    """
    try:
        key = read_file(file).strip()
    except (OSError, ValueError) as error:  # ValueError: a path with NUL
        raise ConfigError(f"--pseudonyms {file} can't be read: {getattr(error, 'strerror', None) or error}.") from error
    if len(key) < MIN_KEY_BYTES:
        raise ConfigError(
            f"--pseudonyms {file}: the key has {len(key)} bytes; expected at least {MIN_KEY_BYTES}. "
            "To make one: openssl rand -hex 32 > FILE"
        )
    return key


def with_pseudonyms(snapshot: Snapshot, key: bytes) -> Snapshot:
    """Returns a snapshot with pseudonyms instead of hosts and of IDs of members, clients, and Connect workers.

    `source` in its summary gets `pseudonyms`, by which snapshots with the same key are recognized.
    """
    ids: dict[tuple[str, ...], set[str]] = defaultdict(set)

    def collect(scope: tuple[str, ...], value: str) -> str:
        ids[scope].add(value)
        return value

    for table in snapshot.tables.values():
        _replace_ids(table, collect)
    ranks = {
        scope: {value: rank for rank, value in enumerate(sorted(values, key=java_key))} for scope, values in ids.items()
    }

    def ranked(scope: tuple[str, ...], value: str) -> str:
        digits = max(5, len(str(len(ranks[scope]))))  # so that a hundred thousand keep their order, too
        return f"{ranks[scope][value]:0{digits}d}-{pseudonym(key, value)}"

    tables = {}
    for name, table in snapshot.tables.items():
        hashed = _replace_ids(table, ranked)
        for column in set(_HASHED) & set(hashed.column_names):
            hashed = _mapped(hashed, column, lambda row, value: value and _hashed(key, value))
        for column in set(_REMOVED) & set(hashed.column_names):
            hashed = _mapped(hashed, column, lambda row, value: value and _REMOVED["error"])
        tables[name] = hashed
    source = {name: snapshot.source[name] for name in _SOURCE if name in snapshot.source}
    source |= {"unseen": _UNSEEN} if snapshot.source.get("unseen") else {}
    return replace(snapshot, tables=tables, source={**source, "pseudonyms": pseudonym(key, "key")})


def pseudonym(key: bytes, value: str) -> str:
    """Returns the keyed hash of a value: 16 hexadecimal digits."""
    return _digest(key, value).hex()[:16]


def _hashed(key: bytes, value: str) -> str:
    """Returns the pseudonym of a value; that of a UUID is a UUID, because processes of Kafka Streams have one."""
    try:
        return str(uuid.UUID(bytes=_digest(key, str(uuid.UUID(value)))[:16]))
    except ValueError:
        return pseudonym(key, value)


def _digest(key: bytes, value: str) -> bytes:
    return hmac.new(key, value.encode("utf-8", "surrogatepass"), hashlib.sha256).digest()


def _replace_ids(table: pa.Table, change: Callable[[tuple[str, ...], str], str]) -> pa.Table:
    """Returns a table with changed IDs. `change` gets the scope of an ID: its kind, cluster, and group."""
    for column in set(_RANKED) & set(table.column_names):

        def changed(row: dict[str, Any], value: Any, kind: str = _RANKED[column]) -> Any:
            if value is None:
                return None
            group = (row["cluster"], row["group_id"]) if "cluster" in row else (row["connect_cluster"],)
            scope = (kind, *map(str, group))
            return [change(scope, each) for each in value] if isinstance(value, list) else change(scope, value)

        table = _mapped(table, column, changed)
    return table


def _mapped(table: pa.Table, column: str, change: Callable[[dict[str, Any], Any], Any]) -> pa.Table:
    keys = table.select([name for name in ("cluster", "connect_cluster", "group_id") if name in table.column_names])
    values = [change(row, value) for row, value in zip(keys.to_pylist(), table[column].to_pylist(), strict=True)]
    index = table.column_names.index(column)
    field = table.schema.field(index)
    return table.set_column(index, field, pa.array(values, field.type))
