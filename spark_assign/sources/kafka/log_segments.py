"""Reads records of `__consumer_offsets` from log segments that were copied from a broker or a backup."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.history.kernel import log_segments as segments
from spark_assign.spark.dataframes import dataframe_of_rows, forget_zipped_pyspark, to_arrow_schema
from spark_assign.spark.engine import is_embedded, shares_files
from spark_assign.stores.locations import for_spark, local_path
from spark_assign.tables.errors import SourceError
from spark_assign.tables.history import RECORDS
from spark_assign.tables.schema_fields import schema

if TYPE_CHECKING:
    import pyarrow as pa

DAMAGED = from_arrow_schema(segments.DAMAGED)
_MARKERS = from_arrow_schema(segments.MARKERS)
_FOLDERS = "__consumer_offsets-*"
_DEPTH = 3
"""Maximum depth of folders: a backup, its brokers, their disks."""
_PATHS = schema("path string")
_CONTENTS = schema("path string, content binary")
_MAX_READERS = 200
"""Maximum number of tasks that read local segments."""
_MAX_BYTES = (1 << 31) - 1
"""Largest size of a segment (`segment.bytes` is an int)."""
_EXAMPLE = "__consumer_offsets-12/00000000000000000000.log"


@dataclass(frozen=True)
class LogSegments:
    """The contents of segments. Each table is one pass over the files.

    Attributes:
        records: RECORDS (`tables.history`), without records of transactions that were never committed.
        damaged: one row per range of bytes that can't be decoded (`DAMAGED`), of a segment at most
            `log_segments.MAX_DAMAGED`, the last of which has the size of all others. The incomplete end of the last
            segment in a folder, which was being written, is `cut-off` and isn't a loss.
    """

    records: DataFrame
    damaged: DataFrame


def log_segments(spark: SparkSession, location: str, cluster: str) -> LogSegments:
    """Reads the segments in a folder, up to three levels deep: `…/__consumer_offsets-12/00000000000000000000.log`.

    The folder can be the log directory of a broker: other topics aren't opened. If a partition occurs several times,
    for example from several brokers, each of its records is read once.

    Raises:
        SourceError: the folder has no segment of that topic.
    """
    paths = _paths(spark, location)
    files = _contents(spark, paths)
    with_markers = files.withColumn("markers", F.lit(None).cast(f"array<{_MARKERS.simpleString()}>"))
    copies = [segments.parse_path(path) for path in paths]
    partitions = {path.rpartition("/")[0] for path in paths}
    if len(copies) > len({partition for partition, _ in copies}):
        with_markers = _with_markers(files)
    num_segments = len(paths)
    of_records = {"cluster": cluster, "schema": to_arrow_schema(RECORDS), "num_segments": num_segments}
    read_records = partial(segments.read_records, **of_records)
    records = with_markers.mapInArrow(_each(read_records), RECORDS)
    if len(partitions) > len({partition for partition, _ in copies}):
        records = records.dropDuplicates(["partition", "offset"])
    last = frozenset({path.rpartition("/")[0]: path for path in paths}.values())
    damaged = files.mapInArrow(_each(lambda batch: [segments.find_damage(batch, cluster, last, num_segments)]), DAMAGED)
    return LogSegments(records, damaged)


def _contents(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Returns path and content of files, a file per row."""
    if not shares_files(spark) or not all(map(local_path, paths)):
        return spark.read.format("binaryFile").load(list(paths)).select("path", "content")

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for path in batch["path"].to_pylist():
                content = Path(local_path(path) or path).read_bytes()
                yield pa.RecordBatch.from_pydict({"path": [path], "content": pa.array([content], pa.binary())})

    rows = dataframe_of_rows(spark, [{"path": path} for path in paths], _PATHS)
    num_readers = min(len(paths), _MAX_READERS)
    if is_embedded(spark):
        # All tasks run at once, and a segment takes memory in each. With fewer tasks than processors, the engine would
        # distribute the records again, and keep those that wait in memory.
        num_readers = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return rows.repartition(num_readers).mapInArrow(read, _CONTENTS)


def _paths(spark: SparkSession, location: str) -> list[str]:
    """Returns the paths of the segments of one topic, sorted.

    Uses patterns, because Spark's recursive search skips names that start with an underscore.
    """
    local = local_path(location) if shares_files(spark) else None
    folder = (for_spark(location) if local is None else local).rstrip("/")
    depths = [f"{folder}{'/*' * depth}/{_FOLDERS}/*.log" for depth in range(_DEPTH + 1)]
    patterns = [f"{folder}/*.log", *depths]
    if local is None:
        found = [path for pattern in patterns for path in _matching(spark, pattern)]
    else:
        patterns = [f"{glob.escape(folder)}{pattern.removeprefix(folder)}" for pattern in patterns]
        listed = {path for pattern in patterns for path in glob.glob(pattern) if os.path.isfile(path)}
        found = [f"file:{path}" for path in listed if re.search(segments.SEGMENT, path)]
        for path in (path.removeprefix("file:") for path in found):
            if any("\ud800" <= each <= "\udfff" for each in path):
                raise SourceError(f"{path!a} has a name that isn't UTF-8. Rename it.")
            if os.path.getsize(path) > _MAX_BYTES:
                raise SourceError(f"{path} has more than {_MAX_BYTES:,} bytes, which no segment has. Remove it.")
            try:
                with open(path, "rb") as file:
                    file.read(1)
            except OSError as error:
                raise SourceError(f"{path} can't be read: {error.strerror}. Copy it again.") from error
    if not found:
        raise SourceError(f"{location} has no log segments of __consumer_offsets. Their paths end in {_EXAMPLE}.")
    return sorted(found)


def _matching(spark: SparkSession, pattern: str) -> set[str]:
    """Returns the paths of segments that match a pattern."""
    try:
        # The pattern is passed twice: for one path, Spark checks whether a stream wrote it, and logs at length.
        listed = spark.read.format("binaryFile").load([pattern, pattern]).select("path")
        return {row.path for row in listed.where(F.col("path").rlike(segments.SEGMENT)).collect()}
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        return set()


def _with_markers(files: DataFrame) -> DataFrame:
    """Adds to each segment the markers of its partition, because a transaction can end in another segment."""
    markers = files.mapInArrow(_each(lambda batch: [segments.first_markers(batch)]), _MARKERS)
    of_partition = markers.groupBy("partition").agg(F.collect_list(F.struct(*_MARKERS.names)).alias("markers"))
    numbered = files.withColumn("partition", F.regexp_extract("path", segments.SEGMENT, 1).cast("int"))
    return numbered.join(F.broadcast(of_partition), "partition", "left").select("path", "content", "markers")


def _each(
    work: Callable[[pa.RecordBatch], Iterable[pa.RecordBatch]],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns a function for `mapInArrow` that applies `work` to each batch as it is read."""

    def map_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        forget_zipped_pyspark()
        for batch in batches:
            yield from work(batch)

    return map_batches
