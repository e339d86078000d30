"""Records of `__consumer_offsets` as kafka-dump-log.sh and kafka-console-consumer.sh print them.

tests/kafka/record_pasted_text.py has recorded the text and the segments.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from spark_assign.history.kernel.log_segments import read_fetched
from spark_assign.sources.kafka import records_text
from spark_assign.sources.kafka.records_text import is_records_text, read_records_text
from spark_assign.tables.errors import ConfigError
from spark_assign.wire.group_records import read_key, read_value
from tests.unit import group_record_json

RECORDED = Path(__file__).parent / "records_text.jsonl.gz"


@cache
def _recorded() -> list[dict[str, Any]]:
    with gzip.open(RECORDED, "rt") as file:
        return [json.loads(line) for line in file]


def _read(folder: Path, text: str, name: str = "records.txt") -> list[dict[str, Any]]:
    data = text.encode(errors="surrogateescape")
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return read_records_text(str(folder / name)).to_pylist()


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("name", ["dump.txt", "dump.txt.gz"])
def test_a_dump_has_the_bytes_of_the_segment(number: int, name: str, tmp_path: Path) -> None:
    """Of Kafka 3.9 and 4.3: partition, offset, time, key, and value."""
    recorded = _recorded()[number]
    expected = []
    for path, data in recorded["segments"].items():
        table, _, damage = read_fetched(base64.b64decode(data), 0, 1 << 62, [])
        assert damage is None
        partition = int(re.search(r"__consumer_offsets-(\d+)/", path)[1])  # type: ignore[index]
        expected += [{"partition": partition, **row} for row in table.to_pylist()]
    found = _read(tmp_path, recorded["text"], name)
    assert len(found) == len(expected) > 20
    for mine, right in zip(found, expected, strict=True):
        assert (mine["partition"], mine["offset"], mine["timestamp"]) == (
            right["partition"],
            right["offset"],
            right["timestamp_ms"],
        )
        assert mine["key"] == right["key"]
        ours, theirs = mine["value"], right["value"]
        if number == 1 and ours is not None and len(ours) < len(theirs):  # 3.9 knows no topic IDs in commits
            assert theirs.startswith(ours[:-1])
        else:
            assert _same(ours, theirs)


def _same(ours: bytes | None, theirs: bytes | None) -> bool:
    """Checks whether values are equal, apart from versions in the bytes of the consumer protocol."""
    if ours == theirs or ours is None or theirs is None:
        return ours == theirs
    mine, right = (read_value(2, value).fields for value in (ours, theirs))
    for member, other in zip(mine["members"], right["members"], strict=True):
        for name in ("subscription", "assignment"):
            assert member.pop(name)[2:] == other.pop(name)[2:]
    return bool(mine == right)


def test_all_types_of_records(tmp_path: Path) -> None:
    """Classic, consumer, share, and streams groups, and a deletion: what we read is the JSON that the tool printed."""
    text = _recorded()[2]["text"]
    lines = [line for line in text.splitlines() if " key: " in line]
    found = _read(tmp_path, text)
    types = set()
    for row, line in zip(found, lines, strict=True):
        key, payload = re.search(r" key: (.*) payload: (.*)$", line).groups()  # type: ignore[union-attr]
        read = read_key(row["key"])
        types.add(read.type)
        assert group_record_json.of_key(read) == json.loads(key)["data"]
        if payload == "<DELETE>":
            assert row["value"] is None
            continue
        data = json.loads(payload)["data"]
        if read.type == 2:
            for member in data["members"]:
                for name in ("subscription", "assignment"):
                    member.pop(name)
        value = group_record_json.of_value(read.type, read_value(read.type, row["value"]))
        for member in value.get("members", ()) if read.type == 2 else ():
            for name in ("subscription", "assignment"):
                member.pop(name)
        assert value == data, line
    assert len(types) >= 18


@pytest.mark.parametrize("number", [3, 4])
def test_the_console_consumer(number: int, tmp_path: Path) -> None:
    """Objects without line ends, and a last line about their number; each record has a time."""
    found = _read(tmp_path, _recorded()[number]["text"])
    assert [row["offset"] for row in found] == list(range(len(found)))
    assert min(row["timestamp"] for row in found) > 1_790_000_000_000
    assert {read_key(row["key"]).type for row in found} == {1 if number == 3 else 2}
    assert all(row["value"] is None or read_value(read_key(row["key"]).type, row["value"]) for row in found)


LINE = "| offset: 3 CreateTime: 5 keySize: 1 valueSize: 1 sequence: -1 headerKeys: [] key: {} payload: {}"
KEY = '{"type":"1","data":{"group":"g","topic":"t","partition":0}}'


def test_names_and_lines_of_any_kind(tmp_path: Path) -> None:
    """A group can be named as the text between key and value; objects can share a line."""
    named = KEY.replace('"g"', '"a payload: b"')
    (row,) = _read(tmp_path, "Dumping /__consumer_offsets-0/0.log\n" + LINE.format(named, "<DELETE>"))
    assert (read_key(row["key"]).fields["group"], row["value"]) == ("a payload: b", None)
    record = f'{{"key":{KEY},"value":null}}'
    assert [
        each["offset"] for each in _read(tmp_path, f"{record}{record} {record}\n{record}Processed 4 messages\n{record}")
    ] == [*range(5)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no records"),
        ("key,value\n1,2\n", "has no records"),
        (LINE.format(KEY, "<DELETE>"), "line 1: not a record: no line `Dumping"),
        ("Dumping /__consumer_offsets-0/0.log\n" + LINE.format("offset_commit::group=g", "offset=3"), "older release"),
        ("Dumping /__consumer_offsets-0/0.log\n" + LINE.format('{"type":"77","data":{}}', "<DELETE>"), "type 77"),
        ("Dumping /__consumer_offsets-0/0.log\n" + LINE.format(KEY, '{"version":"9","data":{}}'), "version 9"),
        ("Dumping /__consumer_offsets-0/0.log\n" + LINE.format(KEY, '{"version":"1","data":{"x":1}}'), "unknown: x"),
        ('{"key":{"type":1,"data":{"group":"g"', "line 1: the last record is cut off"),
        ('{"key":1}\n', "line 1: not a record"),
        ('{"key" 1}\n', "line 1: not a record"),
        ('{"a":' * 5_000 + "\n", "line 1: not a record"),
        ('{"a":' + "9" * 5_000 + "}\n", "line 1: not a record"),
        ("Dumping /__consumer_offsets-0/0.log\n" + LINE.replace("3", "9" * 19).format(KEY, "<DELETE>"), "isn't a long"),
        (f'{{"key":{KEY},"value":{{"version":1,"data":[]}}}}', "line 1: not a record"),
        (f'{{"key":{KEY},"value":{{"version":1,"data":{{"commitTimestamp":true}}}}}}', "isn't a long"),
        ('{"key":{"type":Infinity,"data":{}},"value":null}', "line 1: not a record"),
        ('{"key":{"type":1,"data":null},"value":null}', "line 1: not a record: a field is missing, or has a value of"),
        ('{"key":{"type":1,"data":{"group":[],"topic":"t","partition":0}},"value":null}', "line 1: not a record"),
    ],
)
def test_other_text(tmp_path: Path, text: str, problem: str) -> None:
    """The message names the file, the line, and the accepted formats."""
    with pytest.raises(ConfigError, match=problem) as raised:
        _read(tmp_path, text)
    assert "records.txt" in str(raised.value)
    assert "kafka-dump-log.sh --offsets-decoder" in str(raised.value) or "cut off" in str(raised.value)
    assert len(str(raised.value)) < 1_000


def test_a_byte_that_is_no_text(tmp_path: Path) -> None:
    """The message names the line."""
    for name in ("records.txt", "records.txt.gz"):
        with pytest.raises(ConfigError, match=r"records\.txt.*, line 3: it isn't UTF-8"):
            _read(tmp_path, f'{{"key":{KEY},"value":null}}\n\n\udcff\n', name)


def test_too_many_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused before all are in memory."""
    monkeypatch.setattr(records_text, "_MAX_RECORDS", 1)
    with pytest.raises(ConfigError, match=r"has more than 1 records, or .* bytes of them: copy the segments"):
        _read(tmp_path, 2 * f'{{"key":{KEY},"value":null}}\n')
    monkeypatch.setattr(records_text, "_MAX_BYTES", 9)
    with pytest.raises(ConfigError, match="or 9 bytes of them: copy the segments"):
        _read(tmp_path, f'{{"key":{KEY},"value":null}}\n', "records.gz")


def test_lines_without_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of gzip has a billion empty lines."""
    monkeypatch.setattr(records_text, "_MAX_SIZE", 100_000)
    with pytest.raises(ConfigError, match=r"records\.gz, line 100: more than 100,000 characters"):
        _read(tmp_path, "\n" * 1_000_000, "records.gz")


def test_which_files_are_text(tmp_path: Path) -> None:
    """Parquet isn't, nor are folders. A gzip file that is cut off is an error."""
    (tmp_path / "a.parquet").write_bytes(b"PAR1....PAR1")
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"x" * 10_000)[:-9])
    found = [name for name in ("a.parquet", "a.txt", ".", "none") if is_records_text(str(tmp_path / name))]
    assert found == ["a.txt"]
    with pytest.raises(ConfigError, match=r"a\.gz can't be read"):
        read_records_text(str(tmp_path / "a.gz"))
    damaged = bytearray(gzip.compress(b"x" * 10_000))
    damaged[10] ^= 0xFF
    (tmp_path / "a.gz").write_bytes(damaged)
    with pytest.raises(ConfigError, match=r"a\.gz can't be read: Error -3"):
        read_records_text(str(tmp_path / "a.gz"))


def test_records_in_one_line_take_linear_time(tmp_path: Path) -> None:
    """Each record is read where it starts. Copying the rest of the line for each took minutes for 16 MB."""
    text = f'{{"key":{KEY},"value":null}}' * 40_000
    start = time.process_time()
    assert len(_read(tmp_path, text)) == 40_000
    assert time.process_time() - start < 2
