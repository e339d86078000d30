"""Log segments of `__consumer_offsets` to records and to the rows of a history, by the processor time of both."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks import offsets_topic
from benchmarks.bench import Bench, Result, to_noop
from benchmarks.processor import used_by
from spark_assign.history import read_history
from spark_assign.sources.kafka.log_segments import log_segments
from spark_assign.wire.log_segment import crc32c

_FORMS = (("none", 1), ("none", 10), ("lz4", 10))
"""Codec, and records of a batch: commits of one partition, or of ten."""
_CODECS = {"none": 0, "lz4": 3}
_SEGMENTS, _OF_A_PARTITION = 4, 2
_CHECKED_FROM = 21


def segments(bench: Bench) -> None:
    """Two million records in segments of two partitions, so that transactions could end in other segments."""
    records = bench.size(2_000_000, 8_000)
    for codec, size in _FORMS:
        folder = bench.folder / f"segments-{codec}-{size}"
        _write(folder, records, codec, size)
        form = f"{records:,} records, {size} a batch, {codec}"
        works = {"segments to records": _to_records, "segments to rows of a history": _to_history}
        used: dict[str, list[float]] = {measure: [] for measure in works}
        turns = {measure: partial(_measured, used[measure], work, bench, folder) for measure, work in works.items()}
        seconds = bench.in_turns(**turns)
        for measure, processor in used.items():
            rate = records / sorted(processor)[len(processor) // 2] / 1e6
            detail = f"{records / seconds[measure] / 1e6:.2f} M/s by the clock"
            bench.report(Result(measure, form, rate, "M/s a core", bench.goal(">= 0.3"), detail))
        shutil.rmtree(folder)


def _measured(used: list[float], work: Callable[[DataFrame], DataFrame], bench: Bench, folder: Path) -> None:
    """Processor time goes to `used`."""
    used.append(used_by(lambda: to_noop(work(log_segments(bench.spark, str(folder), "cluster-0").records))))


def _to_records(records: DataFrame) -> DataFrame:
    return records


def _to_history(records: DataFrame) -> DataFrame:
    return read_history(records).tagged_rows()


def _write(folder: Path, records: int, codec: str, size: int) -> None:
    """Writes the topic as a broker stores it: batches of format 2 without a producer."""
    of_a_segment = records // _SEGMENTS
    for segment in range(_SEGMENTS):
        first = segment * of_a_segment
        rows = offsets_topic.rows_as_written(np.arange(first, first + of_a_segment))
        path = folder / f"__consumer_offsets-{segment // _OF_A_PARTITION}" / f"{first:020}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_segment(list(rows), first, codec, size))


def _segment(rows: list[tuple[int, bytes, bytes]], first: int, codec: str, size: int) -> bytes:
    batches = [_batch(rows[at : at + size], first + at, codec) for at in range(0, len(rows), size)]
    ends = np.cumsum([len(batch) for batch in batches])
    data = np.frombuffer(b"".join(batches), np.uint8).copy()
    starts = np.append(0, ends[:-1])
    checksums = crc32c(data, starts + _CHECKED_FROM, ends).astype(">u4").view(np.uint8).reshape(-1, 4)
    data[starts[:, None] + np.arange(_CHECKED_FROM - 4, _CHECKED_FROM)] = checksums
    return data.tobytes()


def _batch(rows: list[tuple[int, bytes, bytes]], first: int, codec: str) -> bytes:
    """A batch of format 2 without its checksum."""
    start_ms, end_ms, count = rows[0][0], max(at_ms for at_ms, _, _ in rows), len(rows)
    body = b"".join(_record(at_ms - start_ms, delta, key, value) for delta, (at_ms, key, value) in enumerate(rows))
    if codec != "none":
        sink = pa.BufferOutputStream()
        with pa.output_stream(sink, compression=codec) as stream:
            stream.write(body)
        body = sink.getvalue().to_pybytes()
    numbers = (_CODECS[codec], count - 1, start_ms, end_ms, -1, -1, -1, count)
    return struct.pack(">qiibIhiqqqhii", first, len(body) + 49, 0, 2, 0, *numbers) + body


def _record(delta_ms: int, delta: int, key: bytes, value: bytes) -> bytes:
    parts: Iterable[bytes] = (_varint(len(key)), key, _varint(len(value)), value, b"\0")
    content = b"\0" + _varint(delta_ms) + _varint(delta) + b"".join(parts)
    return _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """A zigzag number."""
    number, written = (number << 1) ^ (number >> 63), bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])
