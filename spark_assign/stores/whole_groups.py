"""Checks that no group of a stored plan was seen by two tasks.

Every group of a plan is a row of `metrics` or of `rejected`. An engine that splits the facts of a group, for example by
shuffling them again for a window, makes two rows of it, each of a part of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.stores.local_tables import list_files

_REJECTION = "code"
"""The first column of the tables of rejections that isn't part of the key."""


def split_group(tables: Sequence[DataFrame], folders: Sequence[Path | None]) -> str | None:
    """Returns the key of a group that is in more than one row of two tables, or None if there is none.

    Args:
        tables: `metrics` and `rejected` of one kind of group.
        folders: their folders if they are local Parquet files, which are read without a query.
    """
    names = tables[-1].columns
    key = names[: names.index(_REJECTION)]
    if None in folders:
        rows = reduce(DataFrame.unionByName, [table.select(*key) for table in tables])
        counted = rows.groupBy(*key).agg(F.count(F.lit(1)).alias("rows")).where(F.col("rows") > 1)
        twice = [tuple(row) for row in counted.select(*key).limit(1).collect()]  # one row at most
    else:
        paths = [file.path for folder in folders for file in list_files([str(folder)])]
        found = [parquet.ParquetFile(path).read(columns=key) for path in paths]
        rows_of_key = pa.concat_tables(found).group_by(key).aggregate([([], "count_all")]) if found else pa.table({})
        twice = []
        if len(rows_of_key):
            many = rows_of_key.filter(pc.greater(rows_of_key["count_all"], 1)).slice(0, 1)
            twice = [tuple(row[name] for name in key) for row in many.to_pylist()]
    return "/".join(map(str, twice[0])) if twice else None
