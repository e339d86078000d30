"""The tables of the advisers, declared once."""

from __future__ import annotations

from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructType

from spark_assign.schemas import LOADS

_STRING, _INT, _LONG, _DOUBLE = StringType(), IntegerType(), LongType(), DoubleType()

# --- loads: between two snapshots ---------------------------------------------------------------------------

LOADS_TABLES: dict[str, StructType] = {"loads": LOADS}

# --- size: how many consumers ------------------------------------------------------------------------------

# --- membership: static or not, and how long a session -----------------------------------------------------

# --- zones: what crosses a zone -----------------------------------------------------------------------------

# --- advise: all of it, ranked ------------------------------------------------------------------------------
