"""A group that two tasks have seen is an error, never a plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_assign import Fleet, plan
from spark_assign.groups import facts
from spark_assign.stores.run_store import read_run
from spark_assign.tables.errors import SourceError
from tests.spark.fleets import fleet


@pytest.mark.parametrize("format", ["parquet", "json"])
def test_groups_that_were_split_are_not_stored(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    """As if an engine had shuffled the topics of a group again, after the windows."""
    topics = [("c", f"t{n}", 3) for n in range(20)]
    members = [("c", f"g{n}", f"m{k}") for n in range(10) for k in range(2)]
    split = fleet(spark, topics=topics, members=members, subscriptions=[(*m, t) for m in members for _, t, _ in topics])
    windows = facts.assign_by_windows

    def split_groups(*arguments: Any, **named: Any) -> DataFrame:
        return windows(*arguments, **named).repartition(4, "topic")

    monkeypatch.setattr(facts, "assign_by_windows", split_groups)
    monkeypatch.setattr(facts, "windows_shuffle_again", lambda _: False)
    with pytest.raises(RuntimeError, match=r"c/g\d was planned by two tasks"):
        plan(split, "range").write(str(tmp_path), run_id="r", format=format)
    with pytest.raises(SourceError, match="no finished run"):
        read_run(spark, str(tmp_path))
    monkeypatch.undo()
    plan(split, "range").write(str(tmp_path), run_id="r", format=format)
    assert read_run(spark, str(tmp_path)).tables["metrics"].count() == 10


def test_a_run_that_was_replaced_while_it_was_written_fails(
    spark: SparkSession, small_fleet: Callable[..., Fleet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedded engine reads no rows of files that are gone, and says nothing."""
    from spark_assign.stores.targets import FolderTarget

    read = FolderTarget.read

    def remove_and_read(target: FolderTarget, table: str, attempt: object, *, own: bool = False) -> object:
        frame = read(target, table, attempt, own=own)  # type: ignore[arg-type]
        if own:
            target.remove("r", attempt.id, older=False)  # type: ignore[attr-defined]
        return frame

    monkeypatch.setattr(FolderTarget, "read", remove_and_read)
    with pytest.raises(Exception, match=r"has written the run r|NOT_EXIST|does not exist"):
        plan(small_fleet(), "range").write(str(tmp_path), run_id="r")
