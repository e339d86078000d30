"""The type of the function that adds a job's outcome to the manifest of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RowCounts = Mapping[str, int]
"""The number of rows of each table that was written."""
ReadTable = Callable[[str], "DataFrame"]
"""Reads a table of the run, as it was written."""
ManifestOutcome = Callable[[RowCounts, ReadTable], Mapping[str, Any]]
"""Returns the entries of the manifest that say how the job ends."""
