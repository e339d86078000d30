"""Partitions that a claim and a planned run of the same member and topic have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pandas as pd
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import pandas_udf  # type: ignore[attr-defined]
from pyspark.sql.types import LongType

from spark_assign.kernels.progressions import shared


def overlap() -> Column:
    """Of columns first, step, count and to_first, to_step, to_count: how many partitions are in both (bigint)."""
    names = ("first", "step", "count", "to_first", "to_step", "to_count")
    counted = cast(Callable[..., Column], pandas_udf(_shared, LongType()))
    return counted(*(F.col(name).cast("long") for name in names))


def _shared(*columns: pd.Series) -> pd.Series:
    return pd.Series(shared(*(column.to_numpy(dtype=np.int64) for column in columns)))
