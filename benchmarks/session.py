"""The Spark session of a benchmark: two cores, a fixed heap, otherwise `conf/spark/local.conf`."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from pyspark.sql import SparkSession

_LOCAL_CONF = Path(__file__).parents[1] / "conf" / "spark" / "local.conf"
CORES = 2


def start(driver_memory: str, **settings: str) -> SparkSession:
    """A new session; `driver_memory` (e.g. `8g`) takes effect only in the process's first one.

    Other `settings` of Spark replace those of a benchmark.
    """
    own = {"spark.master": f"local[{CORES}]", "spark.driver.memory": driver_memory}
    own |= {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    settings = local_settings() | own | settings
    arguments = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*arguments, "pyspark-shell"])
    return SparkSession.builder.appName("spark_assign benchmarks").getOrCreate()


def local_settings() -> dict[str, str]:
    """The settings of `conf/spark/local.conf`."""
    if not _LOCAL_CONF.exists():
        return {}
    lines = (line.split(maxsplit=1) for line in _LOCAL_CONF.read_text().splitlines())
    return {parts[0]: parts[1] for parts in lines if len(parts) == 2 and parts[0].startswith("spark.")}
