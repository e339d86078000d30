"""One pytest session over the tests that may judge a mutant: collected once, no Spark among them, none can start it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "spark_assign"
KERNELS = (
    *(PACKAGE / room for room in ("numeric", "java", "assignors")),
    *sorted(path for path in PACKAGE.rglob("kernel") if path.is_dir()),
)
"""The folders of pure computations, which the mutants change."""
FOLDERS = ("tests/unit", "tests/golden")
QUIET = ("-q", "-s", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", "ignore")
"""Output of a mutant is of no interest; `-s` also because a killed process could not put the streams back."""


def calm() -> None:
    """One thread each, the same random groups in every run: what is forked then does not wait, and repeats."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "SPARK_ASSIGN_SEED": "1"}
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "agg"}


def starts_spark(item: pytest.Item) -> bool:
    """Whether a test asks for a session."""
    return "spark" in getattr(item, "fixturenames", ()) or item.get_closest_marker("spark") is not None


class WithoutSpark:
    """Leaves out every test that needs a session, and refuses to start one for the rest."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Tests of kernels only."""
        kept = [item for item in items if not starts_spark(item)]
        config.hook.pytest_deselected(items=[item for item in items if starts_spark(item)])
        items[:] = kept

    def pytest_sessionstart(self) -> None:
        """A gateway is how a JVM comes up; `getOrCreate` is how a Connect client would."""
        from pyspark import java_gateway
        from pyspark.sql import SparkSession

        def refuse(*_: Any, **__: Any) -> Any:
            raise RuntimeError("a mutant must not start Spark")

        java_gateway.launch_gateway = refuse
        SparkSession.Builder.getOrCreate = refuse  # type: ignore[method-assign]
