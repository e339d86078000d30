"""The work of a task over its Arrow rows."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from zipimport import zipimporter

import pyarrow as pa
import pyspark
import pytest

from spark_assign.spark.dataframes import batches_to_chunks, map_arrow_batches, map_arrow_chunks


def _archive(path: Path) -> zipimporter:
    """An importer from a new archive, which stands in the caches of imports."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pyspark/__init__.py", "")
    sys.path_importer_cache[str(path)] = importer = zipimporter(str(path))
    return importer


def test_work_is_done_over_all_rows_at_once() -> None:
    """Batches come together and leave in batches; a task without rows does nothing."""
    work = map_arrow_batches(lambda rows: [pa.table({"number": [rows.num_rows] * 3})], batch_rows=2)
    batch = pa.record_batch({"name": ["a", "b"]})
    assert [each.to_pydict() for each in work([batch, batch])] == [{"number": [4, 4]}, {"number": [4]}]
    assert list(work([])) == []


def test_only_pysparks_archive_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user's archives hold is read anew before every task, as Spark means it."""
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    own, other = _archive(tmp_path / "pyspark.zip"), _archive(tmp_path / "user.zip")
    monkeypatch.setattr(pyspark, "__file__", f"{own.archive}/pyspark/__init__.py")
    list(map_arrow_batches(lambda rows: [rows])([]))
    assert own.archive not in sys.path_importer_cache
    assert sys.path_importer_cache[other.archive] is other


def test_rows_come_in_chunks() -> None:
    """At least so many rows each, but for the last; none is lost, and no batch is parted."""
    batches = [pa.record_batch({"n": pa.array(range(size), pa.int64())}) for size in (3, 0, 4, 9, 1)]
    assert [len(chunk) for chunk in batches_to_chunks(batches, 5)] == [7, 9, 1]
    assert list(batches_to_chunks([], 5)) == []
    large = [pa.record_batch({"n": [bytes(3 << 8)]})] * 5
    assert [len(chunk) for chunk in batches_to_chunks(large, 5)] == [2, 2, 1]  # or so much
    done = map_arrow_chunks(lambda tables: (table for table in tables), chunk_rows=5)
    assert sum(batch.num_rows for batch in done(batches)) == 17
