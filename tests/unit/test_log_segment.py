"""Log segments: what kafka-python writes in each format is read as it was; damage is reported and skipped."""

from __future__ import annotations

import os
import random
import struct
import time
import tracemalloc
import zlib
from collections.abc import Sequence
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from kafka.record._crc32c import crc as their_crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from spark_assign.history.kernel import log_segments
from spark_assign.sources.kafka import log_segments as segment_files
from spark_assign.spark.dataframes import to_arrow_schema
from spark_assign.tables import history as tables
from spark_assign.wire import log_segment, segment_records
from spark_assign.wire.log_segment import Batch, Damaged, crc32c, iter_blocks
from spark_assign.wire.reader import WireError
from spark_assign.wire.segment_records import NAMES, Record, decompress, read_batch, read_batches
from tests.oracle import log_segment as plain

MUTATIONS = int(os.environ.get("SPARK_ASSIGN_MUTATIONS", 150))
RECORDS = [
    Record(10 + number, 1_700_000_000_000 + 7 * number, key, value)
    for number, (key, value) in enumerate([(b"k", b"v" * 300), (None, b""), (b"", None), (b"k" * 200, b"x" * 9)])
]


def batch_of(
    records: list[Record], codec: str = "none", headers: Sequence[tuple[str, bytes]] = (), **settings: int
) -> bytes:
    """One batch of format 2, compressed by us where kafka-python does not."""
    fields = {"is_transactional": False, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1} | settings
    builder = DefaultRecordBatchBuilder(magic=2, compression_type=0, batch_size=1 << 20, **fields)
    for each in records:
        builder.append(each.offset - records[0].offset, each.timestamp_ms, each.key, each.value, list(headers))
    made = bytearray(builder.build())
    struct.pack_into(">q", made, 0, records[0].offset)
    attributes = struct.unpack_from(">h", made, 21)[0] | NAMES.index(codec)
    body = compressed(codec, bytes(made[61:]))
    made[61:] = body
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">h", made, 21, attributes)
    struct.pack_into(">I", made, 17, their_crc32c(bytes(made[21:])))
    return bytes(made)


def compressed(codec: str, body: bytes) -> bytes:
    """As Java's clients do."""
    if codec == "none":
        return body
    if codec == "snappy":
        halves = (body[:50], body[50:])
        blocks = [pa.Codec("snappy").compress(half, asbytes=True) for half in halves]
        framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
        return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed
    sink = pa.BufferOutputStream()
    with pa.output_stream(sink, compression=codec) as out:
        out.write(body)
    return sink.getvalue().to_pybytes()


def messages_of(records: list[Record], magic: int, codec: int) -> bytes:
    """What a broker kept of them: offsets are the broker's."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for each in records:
        builder.append(
            each.offset - records[0].offset if codec and magic else each.offset, each.timestamp_ms, each.key, each.value
        )
    made = bytearray(builder.build())
    if codec:
        struct.pack_into(">q", made, 0, records[-1].offset)
    return bytes(made)


def control(offset: int, kind: int, producer_id: int) -> bytes:
    """A transaction marker: 0 aborts, 1 commits."""
    settings = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": -1}
    made = bytearray(batch_of([Record(offset, 1, struct.pack(">hh", 0, kind), b"\0" * 6)], **settings))
    struct.pack_into(">h", made, 21, 0x30)
    struct.pack_into(">I", made, 17, their_crc32c(bytes(made[21:])))
    return bytes(made)


def of_producer(offset: int, producer_id: int) -> bytes:
    """One record in a transaction."""
    settings = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    return batch_of([Record(offset, 1000 + offset, b"k", b"v")], **settings)


def emptied(offset: int, producer_id: int) -> bytes:
    """What compaction leaves of such a batch: no records."""
    made = bytearray(of_producer(offset, producer_id)[:61])
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">i", made, 57, 0)
    struct.pack_into(">I", made, 17, their_crc32c(bytes(made[21:])))
    return bytes(made)


def batches_in(data: bytes) -> list[Batch | Damaged]:
    """Every batch and every damaged range, one by one."""
    return [each for block in iter_blocks(data) for each in ([block] if isinstance(block, Damaged) else block.rows())]


def read(data: bytes) -> tuple[list[Record], list[Damaged]]:
    """Everything in a segment, by both readers of records."""
    found, by_batch, damaged = [], [], []
    for block in iter_blocks(data):
        if isinstance(block, Damaged):
            damaged.append(block)
            continue
        table, errors = read_batches(data, block)
        assert not errors
        found += list(map(Record, *table.drop_columns("batch").to_pydict().values()))
        by_batch += [record for batch in block.rows() for record in read_batch(data, batch)]
    assert found == by_batch
    return found, damaged


def test_checksums_are_those_of_a_plain_loop(seed: int) -> None:
    assert crc32c(np.frombuffer(b"123456789", np.uint8), np.array([0]), np.array([9]))[0] == 0xE3069283
    chance = random.Random(seed)
    data = chance.randbytes(20_000)
    begins = [chance.randrange(15_000) for _ in range(60)]
    ends = [begin + chance.choice((4, 5, 63, 64, 65, 128, 4_000)) for begin in begins]
    found = crc32c(np.frombuffer(data, np.uint8), np.array(begins), np.array(ends)).tolist()
    assert found == [their_crc32c(data[begin:end]) for begin, end in zip(begins, ends, strict=True)]


@pytest.mark.parametrize("codec", NAMES)
def test_batches_of_every_codec(codec: str) -> None:
    later = [each._replace(offset=each.offset + 10) for each in RECORDS]
    assert read(batch_of(RECORDS, codec) + batch_of(later, codec)) == (RECORDS + later, [])


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats(magic: int, codec: int) -> None:
    expected = RECORDS if magic else [each._replace(timestamp_ms=-1) for each in RECORDS]
    later = [each._replace(offset=each.offset + 10) for each in RECORDS]
    data = messages_of(RECORDS, magic, codec) + batch_of(later)
    assert read(data) == (expected + later, [])


def test_times_of_appending_stand_in_the_batch() -> None:
    data = bytearray(batch_of(RECORDS))
    struct.pack_into(">h", data, 21, 0x08)
    struct.pack_into(">I", data, 17, their_crc32c(bytes(data[21:])))
    found, _ = read(bytes(data))
    assert {each.timestamp_ms for each in found} == {RECORDS[-1].timestamp_ms}


def test_the_end_of_an_active_segment_is_cut_off_or_not_yet_written() -> None:
    data = batch_of(RECORDS)
    for end in (9, 30, 61, len(data) - 1):
        later = batch_of([RECORDS[0]._replace(offset=20)])
        found, damaged = read(data + later[: min(end, len(later) - 1)])
        assert found == RECORDS
        assert [(each.position, each.offset, each.code) for each in damaged] == [(len(data), 13, log_segment.CUT_OFF)]
    assert read(data + bytes(500)) == (RECORDS, [])


def test_a_damaged_batch_is_reported_and_the_next_ones_are_read() -> None:
    batches = [batch_of([RECORDS[0]._replace(offset=number)]) for number in range(4)]
    position = len(batches[0])
    for at, byte in ((70, 1), (8, 77), (11, 3), (16, 9), (0, 40), (6, 1)):
        damaged = bytearray(batches[1])
        damaged[at] ^= byte
        found, damage = read(batches[0] + bytes(damaged) + batches[2] + batches[3])
        assert [each.offset for each in found] == [0, 2, 3], at
        assert [(each.position, each.size, each.offset) for each in damage] == [(position, len(damaged), 0)], at
    assert [each.code for each in read(batches[0] + b"\0" * 16 + b"\7" + b"\0" * 60 + batches[2])[1]] == [
        log_segment.UNKNOWN_FORMAT
    ]


def test_who_wrote_in_a_transaction_is_known_and_how_it_ended() -> None:
    data = batch_of(RECORDS, is_transactional=True, producer_id=7, producer_epoch=1, base_sequence=0)
    (batch,) = batches_in(data)
    assert isinstance(batch, Batch)
    assert (batch.transactional, batch.control, batch.producer_id, batch.last_offset) == (True, False, 7, 13)
    for kind in (segment_records.ABORT, segment_records.COMMIT, 4):
        control = bytearray(batch_of([Record(14, 1, struct.pack(">hh", 0, kind), b"\0" * 6)]))
        struct.pack_into(">h", control, 21, 0x30)
        struct.pack_into(">I", control, 17, their_crc32c(bytes(control[21:])))
        (marker,) = batches_in(bytes(control))
        assert isinstance(marker, Batch)
        assert marker.control
        assert segment_records.read_marker(bytes(control), marker) == (kind if kind < 2 else None)


@pytest.mark.parametrize("codec", range(1, 8))
def test_what_is_not_compressed_is_refused(codec: int) -> None:
    for data in (b"no", b"\x82SNAPPY\x00" + b"\xff" * 30, b"\xff" * 20):
        with pytest.raises(WireError):
            decompress(codec, data, 1 << 20)


@pytest.mark.parametrize("codec", NAMES[1:])
def test_a_stream_that_is_cut_off_or_too_large_is_a_fault(codec: str) -> None:
    """Never the first part of it as if it were all."""
    data, number = b"0123456789" * 300_000, NAMES.index(codec)
    made = compressed(codec, data)
    assert decompress(number, made, len(data)) == data
    with pytest.raises(WireError, match=f"^{codec}: with the batches before it, it becomes more than the limit"):
        decompress(number, made, len(data) - 1)
    with pytest.raises(WireError):
        decompress(number, made[:-20], len(data))
    assert decompress(number, compressed(codec, b"x" * (1 << 20)), 1 << 20) == b"x" * (1 << 20)


@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4"])
def test_a_segment_that_becomes_gigabytes(codec: str) -> None:
    """Memory stays bounded, the sound batches beside it are read, and what is left out is named."""
    empty = bytearray(batch_of([Record(0, 1, b"k", b"v")]))
    body = compressed(codec, bytes(33 << 20))

    def bomb(offset: int) -> bytes:
        made = bytearray(empty[:61]) + body
        struct.pack_into(">qi", made, 0, offset, len(made) - 12)
        struct.pack_into(">h", made, 21, NAMES.index(codec))
        struct.pack_into(">I", made, 17, their_crc32c(bytes(made[21:])))
        return bytes(made)

    data = batch_of(RECORDS) + b"".join(bomb(20 + number) for number in range(4))
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    (block,) = iter_blocks(data)
    assert not isinstance(block, Damaged)
    table, errors = read_batches(data, block)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 300 << 20
    assert pa.total_allocated_bytes() - before < 1 << 20
    assert table.num_rows == len(RECORDS)
    assert set(errors) == set(range(1, 5))
    assert sum("becomes more than" in error for error in errors.values()) >= 3
    # Damage between them, which divides what is read together, changes nothing.
    damaged = with_header(batch_of(RECORDS), 20, "B", 0)[:-1] + b"!"
    data = b"".join(bomb(100 * at) + with_header(damaged, 0, ">q", 100 * at + 9)[:-1] + b"?" for at in range(9))
    found = rows_of(log_segments.find_damage(files_of([data]), "eu"))
    assert sum("becomes more than" in str(row) for row in found) >= 7


def test_more_records_than_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of six bytes takes more memory than bytes."""
    monkeypatch.setattr(segment_records, "MAX_RECORDS", 5)
    later = [each._replace(offset=each.offset + 10) for each in RECORDS]
    data = batch_of(RECORDS) + batch_of(later, "gzip")
    (block,) = iter_blocks(data)
    assert not isinstance(block, Damaged)
    table, errors = read_batches(data, block)
    assert (table.num_rows, errors) == (4, {1: "more than 5 records are next to each other"})
    data = messages_of(RECORDS, 1, 1) + messages_of(later, 1, 1)
    (block,) = iter_blocks(data)
    assert not isinstance(block, Damaged)
    assert read_batches(data, block)[1] == {1: "more than 5 records are next to each other"}


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_an_offset_that_is_repeated(magic: int) -> None:
    """A batch of one record again and again has no new offsets, and the batch before it is read."""
    records = [RECORDS[0]._replace(offset=20)] * 150
    if magic == 2:
        body = batch_of(records[:1])[61:]
        made = with_header(batch_of(records[:1])[:61] + 150 * body, 57, ">i", 150)
        repeated = with_header(with_header(made, 8, ">i", len(made) - 12), 23, ">i", 149)
    else:
        repeated = messages_of(records, magic, 1)
    data = batch_of(RECORDS) + repeated
    (damage,) = rows_of(log_segments.find_damage(files_of([data]), "eu"))
    assert str(damage[-1]).startswith("its offsets don't ascend: ")
    assert [row[2] for row in committed([data])] == [each.offset for each in RECORDS]


@pytest.mark.parametrize("delta", [-(2**69), -(2**63), -1, 1, 2**31, 2**54, 2**55, 2**62, 2**63 - 20, 2**63, 2**69 - 1])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_an_offset_of_another_batch(delta: int, codec: str) -> None:
    """Neither does it displace the record that another copy of the partition has there, nor exceed a long."""
    batch = with_record(batch_of([RECORDS[0]._replace(offset=20)], codec), delta)
    later = batch_of([RECORDS[0]._replace(offset=21)])
    (damage,) = rows_of(log_segments.find_damage(files_of([batch_of(RECORDS) + batch + later]), "eu"))
    assert damage[-1] == f"offset {20 + delta} is not from 20 to 20"
    assert [row[2] for row in committed([batch_of(RECORDS) + batch + later])] == [10, 11, 12, 13, 21]
    assert log_segments.read_fetched(batch + later, 20, 22, [])[1:] == (20, f"corrupt: {damage[-1]}")
    assert committed([with_record(batch, 0)]) == [("eu", 12, 20, RECORDS[0].timestamp_ms * 1_000, None, None)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(("first", "last", "around"), [(-1, 3, 20), (1, 21, 20), (0, 1, 0), (0, 2**63 - 1, 20)])
def test_an_offset_of_another_message(magic: int, first: int, last: int, around: int) -> None:
    """Offsets inside of a compressed message aren't negative, nor above its own, which is that of the last one."""
    made = b"".join(struct.pack(">q", at) + messages_of(RECORDS[:1], magic, 0)[8:] for at in (first, last))
    outer = messages_of([Record(around, 1, None, compressed("gzip", made))], magic, 0)
    outer = outer[:17] + b"\1" + outer[18:]
    outer = outer[:12] + struct.pack(">I", zlib.crc32(outer[16:])) + outer[16:]
    (damage,) = rows_of(log_segments.find_damage(files_of([outer]), "eu"))
    assert damage[-1] == f"offset {first if first < 0 else last} is not from 0 to {around}"
    assert committed([outer]) == []
    assert len(committed([struct.pack(">q", 2**63 - 1) + outer[8:]])) == (0 if first < 0 else 2)


def test_a_record_that_is_repeated_a_million_times() -> None:
    """A thousand bytes of them are no work."""
    made = batch_of([Record(20, 1, None, None)])
    repeated = with_header(made[:61] + compressed("zstd", 1_900_000 * made[61:]), 57, ">i", 1_900_000)
    for at, kind, value in ((8, ">i", len(repeated) - 12), (21, ">h", NAMES.index("zstd")), (23, ">i", 1_899_999)):
        repeated = with_header(repeated, at, kind, value)
    start = time.process_time()
    (damage,) = rows_of(log_segments.find_damage(files_of([repeated]), "eu"))
    assert time.process_time() - start < 0.5
    assert damage[-1] == "its offsets don't ascend: 20 follows 20"


@pytest.mark.parametrize("num_segments", [1, 2, 4, 50])
def test_the_total_of_small_segments(num_segments: int) -> None:
    """Records of groups take about eight times their size until they are rows: 128 MiB of them take a gigabyte."""
    assert num_segments * segment_records.max_of_segment(2_000, num_segments) <= 1 << 27


def test_many_small_segments_share_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each can become its share. A batch has a limit of its own."""
    data = batch_of([Record(0, 1, b"k", bytes(1 << 20))], "zstd")
    files = files_of([data])
    for of, limit, found in ((1, 1 << 26, 1), (64, 1 << 26, 1), (300, 1 << 26, 0), (1, 1 << 19, 0)):
        monkeypatch.setattr(segment_records, "_MAX_BATCH_BYTES", limit)
        rows = [batch.num_rows for batch in log_segments.read_records(files, "eu", RECORDS_SCHEMA, of)]
        assert sum(rows) == found, of
        assert log_segments.find_damage(files, "eu", None, of).num_rows == 1 - found, of


@pytest.mark.parametrize(("embedded", "num_readers"), [(True, 4), (False, 2)])
def test_as_many_segments_at_once_as_processors(
    monkeypatch: pytest.MonkeyPatch, embedded: bool, num_readers: int
) -> None:
    """The embedded engine runs all tasks at once, and keeps what it distributes to more tasks in memory."""
    spark = Mock(**{"conf.get.return_value": "4"})
    monkeypatch.setattr(segment_files, "is_embedded", lambda _: embedded)
    monkeypatch.setattr(segment_files, "shares_files", lambda _: True)
    monkeypatch.setattr(segment_files, "dataframe_of_rows", lambda *_: spark.rows)
    segment_files._contents(spark, ["/a.log", "/b.log"])
    spark.rows.repartition.assert_called_once_with(num_readers)


def test_headers_that_each_claim_the_rest() -> None:
    """The next batch after damage is found without a checksum of the rest for each of them."""
    claims = [struct.pack(">qiib", 0, (1 << 19) - 70 * at, 0, 2) + bytes(53) for at in range(7_000)]
    data = b"\xff" * 70 + b"".join(claims) + batch_of(RECORDS) + bytes(1 << 17)
    start = time.process_time()
    assert sum(isinstance(each, Batch) for each in batches_in(data)) == 1
    assert time.process_time() - start < 3


def test_damage_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sound batch and one that claims all the rest, by turns: the rest is not checked for each of them."""
    sound = [batch_of([RECORDS[0]._replace(offset=number)]) for number in range(200)]
    size = len(sound[0]) + 61
    ends = (200 * size + (8 << 20) - size * number for number in range(1, 201))
    claims = [struct.pack(">qiib", 1_000, end + 49, 0, 2) + bytes(44) for end in ends]
    data = b"".join(a + b for a, b in zip(sound, claims, strict=True)) + bytes(8 << 20)
    start = time.process_time()
    found = batches_in(data)
    assert time.process_time() - start < 3
    assert [isinstance(each, Batch) for each in found] == [True, False] * 200
    monkeypatch.setattr(log_segment, "_MAX_DAMAGED", 3)
    *_, last = found = batches_in(data)
    assert isinstance(last, Damaged)
    assert len(found) == 6
    assert (last.position + last.size, last.code) == (len(data), log_segment.CORRUPT)
    assert last.detail.endswith("after 3 damaged ranges, the rest of the file isn't read")


def test_what_cannot_be_read_was_decompressed_too() -> None:
    """Each of many batches becomes more than all may, and a marker has a few bytes."""
    made = bytearray(batch_of([RECORDS[0]], producer_id=7)[:61]) + compressed("zstd", bytes(70 << 20))
    struct.pack_into(">i", made, 8, len(made) - 12)
    plain_batch, marker = (with_header(bytes(made), 21, ">h", kind | NAMES.index("zstd")) for kind in (0, 0x30))
    data, markers = (
        b"".join(with_header(each, 0, ">q", number) for number in range(150)) for each in (plain_batch, marker)
    )
    start = time.process_time()
    assert log_segments.find_damage(files_of([data]), "eu").num_rows == 150
    assert log_segments.first_markers(files_of([markers])).num_rows == 0
    assert time.process_time() - start < 2


def test_no_mutation_is_fatal(seed: int) -> None:
    """Bytes turned, taken out and put in: sound batches beside them are read in their order, and nothing is raised."""
    chance = random.Random(seed)
    every = range(5)
    later = [[each._replace(offset=each.offset + 10 * number) for each in RECORDS] for number in every]
    parts = [batch_of(records, codec) for records, codec in zip(later, NAMES, strict=True)]
    data = messages_of([RECORDS[0]._replace(offset=1)], 1, 0) + b"".join(parts)
    whole, _ = read(data)
    assert len(whole) == 21
    for number in range(MUTATIONS):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(damaged))
            out, into = chance.choice(((1, 1), (chance.randint(1, 9), 0), (0, 3)))
            damaged[at : at + out] = chance.randbytes(into)
        found, damage = read(bytes(damaged))
        assert [each.offset for each in found] == sorted({each.offset for each in found}), number
        # No checksum covers a batch's offset: inside of a gap another one is as good.
        assert damage or [each[1:] for each in found] == [each[1:] for each in whole], number
        assert {each[1:] for each in whole} & {each[1:] for each in found} or len(damage) > 1, number


# --- against plain loops ----------------------------------------------------------------------------------------


def random_batch(chance: random.Random, offset: int) -> tuple[bytes, int]:
    """Any batch of any format, and the next offset; sometimes its checksum is right and its records are not."""
    size = chance.choice((1, 1, 1, 2, 5, 60))
    texts = (None, b"", b"k", b"key" * 9, chance.randbytes(chance.choice((63, 64, 200))))
    start_ms = chance.choice((1_790_000_000_000, 1_790_000_000_000, -1, 2**62, -(2**63)))
    records = [
        Record(offset + at, start_ms + chance.choice((0, at, 10**6, 2**40, 2**57)), *chance.choices(texts, k=2))
        for at in range(size)
    ]
    magic = chance.choice((0, 1, 2, 2, 2, 2, 2, 2))
    if magic < 2:
        codec = chance.choice((0, 1))
        made = messages_of([each._replace(timestamp_ms=7) for each in records[: size if codec else 1]], magic, codec)
        if chance.random() < 0.2:
            made = struct.pack(">q", offset + size // 2) + made[8:]
        return made, offset + size
    if chance.random() < 0.15:
        return control(offset, chance.choice((0, 1, 1, 2)), chance.randrange(3)), offset + 1
    if chance.random() < 0.1:
        return emptied(offset, chance.randrange(3)), offset + 1
    settings = {"producer_id": chance.randrange(3), "producer_epoch": 0, "base_sequence": 0}
    settings["is_transactional"] = chance.random() < 0.3
    headers = [("name", b"value" * 20)] * chance.choice((0, 0, 1))
    made = batch_of(records, chance.choice(("none", "none", *NAMES)), headers, **settings)
    if chance.random() < 0.1:
        made = with_header(made, 21, ">h", struct.unpack_from(">h", made, 21)[0] | 0x08)
    if chance.random() < 0.1:
        made = with_header(made, 57, ">i", chance.choice((0, size - 1, size + 1, 2**31 - 1)))
    if chance.random() < 0.1:
        made = with_header(made, 23, ">i", chance.choice((0, max(size - 2, 0))))
    if chance.random() < 0.1:
        return with_record(made, chance.choice((-(2**69), -1, 1, 2**31, 2**55, 2**62, 2**63, 2**69 - 1))), offset + size
    if chance.random() < 0.2:
        made = with_header(made, chance.randrange(61, len(made)), "B", chance.choice((0, 1, 127, 128, 255)))
    return made, offset + size


@pytest.mark.parametrize("is_damaged", [False, True])
def test_blocks_are_read_as_by_plain_loops(seed: int, monkeypatch: pytest.MonkeyPatch, is_damaged: bool) -> None:
    """Blocks of all sizes, records in rounds and one by one: the same batches, records, transactions, and damage."""
    chance = random.Random(seed)
    offsets = chance.sample(range(400), 3)
    markers = [(producer, at, chance.random() < 0.5) for producer, at in zip((0, 0, 1), offsets, strict=True)]
    for number in range(15):
        monkeypatch.setattr(segment_records, "_MIN_ROUND_BATCHES", chance.choice((1, 2, 100)))
        monkeypatch.setattr(log_segment, "_BLOCK_BYTES", 1 << 22 if is_damaged else chance.choice((1, 300, 5_000)))
        parts, offset = [], chance.choice((0, 0, 2**40))
        for _ in range(chance.randrange(1, 25)):
            part, offset = random_batch(chance, offset + chance.choice((0, 0, 3)))
            parts.append(part)
        data = b"".join(parts)
        for _ in range(chance.randint(1, 3) if is_damaged else 0):
            at = chance.randrange(len(data) + 1)
            out, into = chance.choice(((1, 1), (chance.randint(1, 9), 0), (0, 3), (len(data), 0)))
            data = data[:at] + chance.randbytes(into) + data[at + out :]
        found = [(each.position, each[2] if isinstance(each, Batch) else 0) for each in batches_in(data)]
        assert found == [
            (each.position, each.end if isinstance(each, plain.Plain) else 0) for each in plain.batches(data)
        ], number
        rows = [(row[2], row[3] // 1000, *row[4:]) for row in committed([data], markers)]
        assert rows == plain.committed(data, markers), number
        damage = rows_of(log_segments.find_damage(files_of([data]), "eu"))
        expected = [(begin, end - begin, None if after < 0 else after) for begin, end, after in plain.errors(data)]
        assert [row[3:6] for row in damage] == expected, number


# --- records of __consumer_offsets ------------------------------------------------------------------------------

RECORDS_SCHEMA = to_arrow_schema(tables.RECORDS)
FOLDER = "/logs/a/__consumer_offsets-12"
MARKERS = pa.list_(pa.struct({"producer_id": pa.int64(), "marker": pa.int64(), "committed": pa.bool_()}))


def files_of(contents: list[bytes], markers: list[tuple[int, int, bool]] | None = None) -> pa.RecordBatch:
    """Segments of one partition with base offsets 0, 1, 2, …; `markers` as (producer id, offset, commits)."""
    names = ("producer_id", "marker", "committed")
    of_partition = None if markers is None else [dict(zip(names, each, strict=True)) for each in markers]
    paths = [f"{FOLDER}/{base:020}.log" for base in range(len(contents))]
    columns = {"path": paths, "content": contents, "markers": pa.array([of_partition] * len(contents), MARKERS)}
    return pa.RecordBatch.from_pydict(columns)


def committed(contents: list[bytes], markers: list[tuple[int, int, bool]] | None = None) -> list[tuple[object, ...]]:
    """Rows of RECORDS, the timestamp in microseconds."""
    batches = log_segments.read_records(files_of(contents, markers), "eu", RECORDS_SCHEMA)
    return [row for batch in batches for row in rows_of(batch)]


def rows_of(batch: pa.RecordBatch) -> list[tuple[object, ...]]:
    """Rows in the order of the columns; times as numbers."""
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in batch.columns]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def with_header(made: bytes, at: int, layout: str, value: int) -> bytes:
    """A batch with another value in its header, and the checksum to it."""
    changed = bytearray(made)
    struct.pack_into(layout, changed, at, value)
    struct.pack_into(">I", changed, 17, their_crc32c(bytes(changed[21:])))
    return bytes(changed)


def with_record(made: bytes, delta: int) -> bytes:
    """A batch with a single record without key and value, of an offset relative to that of the batch."""
    number, offset = delta << 1 if delta >= 0 else ~(delta << 1), b""
    while number > 0x7F:
        offset, number = offset + bytes([number & 0x7F | 0x80]), number >> 7
    record = b"\0\0" + offset + bytes([number, 1, 1, 0])
    codec = NAMES[struct.unpack_from(">h", made, 21)[0] & 7]
    changed = made[:61] + compressed(codec, bytes([2 * len(record)]) + record)
    return with_header(with_header(changed, 8, ">i", len(changed) - 12), 57, ">i", 1)


def test_records_of_transactions_count_if_the_next_marker_of_the_producer_commits() -> None:
    """As `read_committed` consumers see them, in the order of the log."""
    plain = batch_of([Record(2, 9, b"k", None)])
    inside = of_producer(0, 1) + of_producer(1, 2) + plain + control(4, 1, 1) + control(5, 0, 2) + of_producer(6, 2)
    assert committed([inside + control(7, 4, 2) + control(8, 1, 3)]) == [
        ("eu", 12, 0, 1_000_000, b"k", b"v"),
        ("eu", 12, 2, 9_000, b"k", None),
    ]
    assert committed([inside + control(7, 1, 2)]) == [
        ("eu", 12, 0, 1_000_000, b"k", b"v"),
        ("eu", 12, 2, 9_000, b"k", None),
        ("eu", 12, 6, 1_006_000, b"k", b"v"),
    ]


@pytest.mark.parametrize(
    ("markers", "expected"),
    [
        (None, []),
        ([(2, 9, True)], []),
        ([(1, 4, True)], [0, 3]),
        ([(1, 4, False)], []),
        ([(1, 9, False), (1, 4, True)], [0, 3]),  # In any order: the next marker decides.
        ([(1, 9, True), (1, 4, False)], []),
        ([(1, 2, False), (1, 9, True)], [0, 3]),  # A marker before the last record ended another transaction.
        ([(1, 3, True)], []),  # The marker must follow the last record.
    ],
)
def test_the_marker_of_an_open_transaction_can_be_in_a_later_segment(
    markers: list[tuple[int, int, bool]] | None, expected: list[int]
) -> None:
    assert [row[2] for row in committed([of_producer(0, 1) + of_producer(3, 1)], markers)] == expected


def test_open_transactions_take_the_memory_of_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, what their batches become isn't held until a marker, nor until a batch has all rows."""
    monkeypatch.setattr(log_segment, "_BLOCK_BYTES", 1_000)
    monkeypatch.setattr(log_segments, "_BATCH_BYTES", 1 << 20)
    settings = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    records = [Record(number, 1, b"k", bytes(100_000)) for number in range(200)]
    parts = [batch_of([each], "zstd", producer_id=each.offset, **settings) for each in records]
    files = files_of([b"".join(parts)], [(number, 200 + number, True) for number in range(100)])
    pool, default = pa.proxy_memory_pool(pa.default_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        num_rows = sum(batch.num_rows for batch in log_segments.read_records(files, "eu", RECORDS_SCHEMA))
    finally:
        pa.set_memory_pool(default)
    assert num_rows == 100
    assert pool.max_memory() < 6 << 20


def test_a_transaction_that_compaction_emptied_has_no_records() -> None:
    assert committed([emptied(0, 1) + batch_of([Record(2, 9, b"k", b"v")])], [(1, 0, True)]) == [
        ("eu", 12, 2, 9_000, b"k", b"v")
    ]


def test_the_first_marker_of_each_producer_per_segment() -> None:
    """Markers of other kinds and markers that can't be read don't count, and neither do records."""
    unreadable = with_header(control(2, 1, 3), 21, ">h", 0x31)  # It says that it is compressed.
    first = of_producer(0, 1) + control(1, 4, 2) + unreadable + control(3, 1, 2) + control(4, 0, 2)
    second = batch_of(RECORDS) + control(14, 0, 1) + control(15, 1, 3) + control(16, 1, 1)
    found = log_segments.first_markers(files_of([first, second]))
    assert found.schema == pa.schema(
        {"partition": pa.int32(), "producer_id": pa.int64(), "marker": pa.int64(), "committed": pa.bool_()}
    )
    assert rows_of(found) == [(12, 2, 3, True), (12, 1, 14, False), (12, 3, 15, True)]
    assert log_segments.first_markers(files_of([])).to_pylist() == []


def test_records_leave_in_batches_of_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """All segments together; times that don't fit in microseconds are the nearest that do."""
    monkeypatch.setattr(log_segments, "_BATCH_SIZE", 2)
    ends = [Record(20, -(2**62), b"a", b""), Record(21, 2**62, b"b", b"")]
    contents = [batch_of(RECORDS[:3]), batch_of(ends[:1]) + batch_of(ends[1:])]
    batches = list(log_segments.read_records(files_of(contents), "eu", RECORDS_SCHEMA))
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert {batch.schema for batch in batches} == {RECORDS_SCHEMA}
    assert [row[2:] for batch in batches for row in rows_of(batch)] == [
        *((each.offset, 1000 * each.timestamp_ms, each.key, each.value) for each in RECORDS[:3]),
        (20, -9_223_372_036_854_775_000, b"a", b""),
        (21, 9_223_372_036_854_775_000, b"b", b""),
    ]


def test_damaged_ranges_of_segments() -> None:
    """Batches whose records can't be read although the checksum is right, and all that the segment reader reports."""
    sound = [batch_of([RECORDS[0]._replace(offset=number)]) for number in range(4)]
    wrong = [with_header(each, 57, ">i", 2) for each in sound]  # It says that it has two records.
    cut = sound[3][:-1]
    first, second = wrong[0] + sound[1] + wrong[2] + cut, sound[0]
    found = log_segments.find_damage(files_of([first, second, wrong[0]]), "eu")
    assert found.schema == pa.schema(
        {"cluster": pa.string(), "path": pa.string(), "partition": pa.int32(), "position": pa.int64()}
        | {"size": pa.int64(), "after": pa.int64(), "code": pa.string(), "detail": pa.string()}
    )
    size, short = len(sound[0]), "a record is cut off"
    left = f"a batch of {len(sound[3]) - 12} bytes, {len(cut) - 12} left"
    assert rows_of(found) == [
        ("eu", f"{FOLDER}/{0:020}.log", 12, 0, size, None, "corrupt", short),
        ("eu", f"{FOLDER}/{0:020}.log", 12, 2 * size, size, 1, "corrupt", short),
        ("eu", f"{FOLDER}/{0:020}.log", 12, 3 * size, len(cut), 2, "cut-off", left),
        ("eu", f"{FOLDER}/{2:020}.log", 12, 0, size, None, "corrupt", short),
    ]
    assert committed([first]) == [("eu", 12, 1, 1000 * RECORDS[0].timestamp_ms, b"k", b"v" * 300)]


def test_only_the_last_segment_was_being_written() -> None:
    """One that is cut off before another of its folder has lost records."""
    cut = batch_of(RECORDS[:1])[:-1]
    files = files_of([cut, cut])
    found = log_segments.find_damage(files, "eu", {files["path"][1].as_py()})
    assert found["code"].to_pylist() == ["corrupt", "cut-off"]


def test_damage_is_listed_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment can consist of batches that can't be read, each shorter than its row."""
    monkeypatch.setattr(log_segments, "MAX_DAMAGED", 3)
    monkeypatch.setattr(log_segment, "_BLOCK_BYTES", 300)
    wrong = [with_header(batch_of([RECORDS[0]._replace(offset=number)]), 57, ">i", 2) for number in range(9)]
    rows = rows_of(log_segments.find_damage(files_of([b"".join(wrong), wrong[0], b"".join(wrong[:3])]), "eu"))
    assert [row[3] for row in rows] == [number * len(wrong[0]) for number in (0, 1, 2, 0, 0, 1, 2)]
    assert [row[4] for row in rows] == [len(wrong[0]) * number for number in (1, 1, 7, 1, 1, 1, 1)]
    more = "a record is cut off; the size includes 6 more ranges"
    assert [row[7] for row in rows] == ["a record is cut off"] * 2 + [more] + ["a record is cut off"] * 4
