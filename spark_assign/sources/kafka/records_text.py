"""Reads records of `__consumer_offsets` from the text of Kafka's tools, whose JSON has all that the bytes have.

    kafka-dump-log.sh --offsets-decoder                     since Kafka 3.9
    kafka-console-consumer.sh with OffsetsMessageFormatter,   since Kafka 3.9: one JSON object per record, without its
    GroupMetadataMessageFormatter                            partition, offset, and time

The console consumer prints the time of commits and of rebalances of classic groups; another record has the time of the
record before it. Its records get the order of the text as offsets of partition 0.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from spark_assign.spark.dataframes import to_arrow_schema
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.schema_fields import schema
from spark_assign.wire.group_records import RECORDS, write_key, write_value
from spark_assign.wire.group_records.codec import write
from spark_assign.wire.group_records.record_types import Field, Kind, Many, Struct, fields, many, struct
from spark_assign.wire.reader import WireError

FORMATS = (
    "Accepted are a folder or table of records, and text, also .gz, of kafka-dump-log.sh --offsets-decoder and of "
    "kafka-console-consumer.sh with OffsetsMessageFormatter or GroupMetadataMessageFormatter, of Kafka 3.9 or newer. "
    "For copied log segments, use --segments"
)
_SEGMENT = re.compile(r"Dumping .*__consumer_offsets-(\d{1,9})[/\\]")
_RECORD = re.compile(r"\|? ?offset: (\d{1,19}) (?:CreateTime|LogAppendTime): (-?\d{1,19}) ")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
"""What Python reads as other bytes than UTF-8 (`surrogateescape`)."""
_MAX_TEXT = 16 << 20
"""Maximum number of characters of a record; the broker accepts records of 1 MB by default."""
_MAX_RECORDS = 2_000_000
"""Maximum number of records of a file: about 2 GB while they are read."""
_MAX_BYTES = 1 << 30
"""Maximum size of the keys and values of a file: a small compressed text can have any."""
_MAX_SIZE, _PER_LINE = 16 << 30, 1_000
"""Maximum number of characters of a file, and how many a line counts in addition: a compressed file of lines without a
record took hours."""
_DELETED = "<DELETE>"
_DECODER = json.JSONDecoder()
_WRONG = ValueError, RecursionError
"""Errors of JSON that is malformed, has a number of too many digits, or is nested too deeply."""
_PARTITIONS = struct("topic string, partitions int32[]")
_CONSUMER_PROTOCOL = {
    "subscription": fields(
        "topics string[], userData bytes?", many("ownedPartitions", _PARTITIONS), "generationId int32, rackId string?"
    ),
    "assignment": fields(many("assignedPartitions", _PARTITIONS), "userData bytes?"),
}
_VERSION = 3
"""Version of the subscriptions and assignments that the dump prints as JSON, without their version: the newest one."""
SCHEMA = schema("partition int, offset long, timestamp long, key binary, value binary?")
Row = dict[str, Any]


def is_records_text(path: str) -> bool:
    """Checks whether a path is a local file that isn't Parquet."""
    file = Path(path)
    if not os.path.isfile(file):  # also if its name is too long
        return False
    try:
        with file.open("rb") as stream:
            return stream.read(4) != b"PAR1"
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}. {FORMATS}") from error


def read_records_text(path: str) -> pa.Table:
    """Returns partition, offset, timestamp (ms since 1970), key, and value of the records of a file.

    Raises:
        ConfigError: the file can't be read, a record is malformed or printed by an older release, there is none, or
            there are more than 2,000,000, or more than 1 GiB.
    """
    rows: list[Row] = []
    num_bytes = 0
    try:
        opened = gzip.open if path.endswith(".gz") else open
        with opened(path, "rt", encoding="utf-8", errors="surrogateescape") as file:
            for number, partition, text in _records(path, file):
                try:
                    is_dumped = text.startswith(("|", "offset:"))
                    rows.append(_dumped(partition, text) if is_dumped else _consumed(text, rows))
                except (ArithmeticError, AttributeError, LookupError, TypeError, *_WRONG, WireError) as error:
                    is_said = isinstance(error, (*_WRONG, WireError))
                    wrong = error if is_said else "a field is missing, or has a value of another kind"
                    raise ConfigError(f"{path}, line {number}: not a record: {wrong}. {FORMATS}") from error
                num_bytes += len(rows[-1]["key"]) + len(rows[-1]["value"] or b"")
                if len(rows) > _MAX_RECORDS or num_bytes > _MAX_BYTES:
                    limits = f"{_MAX_RECORDS:,} records, or {_MAX_BYTES:,} bytes of them"
                    raise ConfigError(f"{path} has more than {limits}: copy the segments (--segments)")
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path} can't be read: {error}. {FORMATS}") from error
    if not rows:
        raise ConfigError(f"{path} has no records. {FORMATS}")
    return pa.Table.from_pylist(rows, to_arrow_schema(SCHEMA))


def _records(path: str, file: IO[str]) -> Iterator[tuple[int, int | None, str]]:
    """Yields line, partition (None: unknown), and text of each record; the console consumer prints no line ends."""
    partition, number, rest, left = None, 0, "", _MAX_SIZE
    while line := file.readline(_MAX_TEXT):
        number, left = number + 1, left - len(line) - _PER_LINE
        if left < 0:
            raise ConfigError(
                f"{path}, line {number}: more than {_MAX_SIZE:,} characters. Copy the segments (--segments)"
            )
        if not line.isascii() and _NOT_UTF8.search(line):
            raise ConfigError(f"{path}, line {number}: it isn't UTF-8. {FORMATS}")
        if segment := _SEGMENT.match(line):
            partition = int(segment[1])
        elif "key: " in line and _RECORD.match(line):
            yield number, partition, line
        elif rest or line.startswith("{"):
            rest += line
            start = 0
            while start >= 0:
                try:
                    _, end = _DECODER.raw_decode(rest, start)
                except _WRONG as error:
                    if len(rest) - start >= _MAX_TEXT or rest.endswith("\n"):
                        raise ConfigError(f"{path}, line {number}: not a record: {error}. {FORMATS}") from error
                    break
                yield number, None, rest[start:end]
                start = rest.find("{", end)
            rest = rest[start:] if start >= 0 else ""
    if rest:
        raise ConfigError(f"{path}, line {number}: the last record is cut off. Print it again")


def _dumped(partition: int | None, text: str) -> Row:
    """Returns the record of a line of kafka-dump-log.sh. Raises ValueError, or another error of a wrong value."""
    found = _RECORD.match(text)
    if found is None or partition is None:
        raise ValueError("no line `Dumping …/__consumer_offsets-N/…` before it")
    rest = text.partition(" key: ")[2]
    if not rest.startswith("{"):
        raise ValueError("its key isn't JSON, so an older release has printed it")
    key, end = _DECODER.raw_decode(rest)  # a name can have ` payload: `
    _, is_value, value = rest[end:].partition(" payload: ")
    value = value.strip()
    row = _bytes(key, None if not is_value or value == _DELETED else json.loads(value))
    return {"partition": partition, "offset": _long(int(found[1])), "timestamp": _long(int(found[2])), **row}


def _consumed(text: str, before: list[Row]) -> Row:
    """Returns the record of an object of kafka-console-consumer.sh. Raises as `_dumped` does."""
    record = json.loads(text)
    value = record.get("value")
    data = value["data"] if value else {}
    at = data.get("commitTimestamp", data.get("currentStateTimestamp", -1))
    at = before[-1]["timestamp"] if at == -1 and before else at
    return {"partition": 0, "offset": len(before), "timestamp": _long(at), **_bytes(record["key"], value)}


def _long(value: Any) -> int:
    if type(value) is not int or not -1 << 63 <= value < 1 << 63:
        raise ValueError("an offset or a time isn't a long")
    return value


def _bytes(key: Mapping[str, Any], value: Mapping[str, Any] | None) -> Row:
    """Returns key and value as the coordinator writes them."""
    kind = int(key["type"] if "type" in key else key["version"])
    if kind not in RECORDS:
        raise ValueError(f"records of type {kind} are not known")
    declared, bytes_of = RECORDS[kind], None
    if value is not None:
        bytes_of = write_value(kind, _values(declared.value, value["data"]), int(value["version"]))
    return {"key": write_key(kind, _values(declared.key, key["data"])), "value": bytes_of}


def _values(declared: tuple[Field, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a struct from JSON. Bytes are base64, or JSON if they are of the consumer protocol."""
    kinds = {field.name: field.kind for field in declared}
    return {
        name: _VERSION.to_bytes(2) + _consumer_protocol(_CONSUMER_PROTOCOL[name], value)
        if isinstance(value, dict) and name in _CONSUMER_PROTOCOL and kinds.get(name) == "bytes"
        else _value(kinds.get(name, "string"), value)
        for name, value in given.items()
    }


def _consumer_protocol(declared: tuple[Field, ...], given: Mapping[str, Any]) -> bytes:
    return write(declared, _values(declared, given), 0, flexible=False)


def _value(kind: Kind, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, Many):
        return [_value(kind.of, each) for each in value]
    if isinstance(kind, Struct):
        return _values(kind.fields, value)
    if kind == "bytes":
        return base64.b64decode(value, validate=True)
    return value
