"""Writers of one run_id, and a removal of old runs: in every order of their steps, a complete run stays readable."""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from spark_assign.stores import driver_rows, retention, run_store
from spark_assign.stores.driver_rows import write_rows
from spark_assign.stores.locations import file_system
from spark_assign.stores.retention import StoredAttempt, expired, stored_attempts
from spark_assign.stores.run_store import new_attempt, newest_row
from spark_assign.stores.targets import manifest_rows
from spark_assign.tables.errors import SourceError
from spark_assign.tables.schema_fields import schema
from tests.cases import cases

TABLES = {"a": schema("writer string"), "b": schema("writer string")}
STEPS = 5
"""Steps of a writer: read the manifest and start, write two tables, append the row, remove what it replaces."""


def read(folder: Path) -> set[str] | None:
    """The writers whose rows a reader gets, of all tables of the valid attempt; None: there is no run."""
    row = newest_row(manifest_rows(folder) or (), "r")
    if row is None:
        return None
    files = (folder / name / "run_id=r" / f"attempt={row['attempt']}" / "rows.parquet" for name in TABLES)
    return {each["writer"] for file in files for each in parquet.ParquetFile(file).read().to_pylist()}


def write(name: str, folder: Path, run_id: str = "r") -> None:
    """Stores a run whose rows have the name of the writer."""
    write_rows({table: [{"writer": name}] for table in TABLES}, folder, run_id=run_id, inputs={}, schemas=TABLES)


class Turns:
    """Lets threads take their steps one at a time, two writers and a removal (P). Each waits until it gets its turn."""

    def __init__(self) -> None:
        self._go = {name: threading.Semaphore(0) for name in "ABP"}
        self._done = threading.Semaphore(0)
        self.finished: set[str] = set()
        self.errors: list[Exception] = []

    def start(self, name: str, work: Callable[[], Any]) -> threading.Thread:
        """Starts a thread, which waits for its first turn."""

        def run() -> None:
            self._go[name].acquire()
            try:
                work()
            except Exception as error:  # its files are gone: it is the one that started first
                self.errors.append(error)
            self.finished.add(name)
            self._done.release()

        thread = threading.Thread(target=run, name=name)
        thread.start()
        return thread

    def step(self, name: str) -> None:
        """Lets a thread take one step."""
        if name not in self.finished:
            self._go[name].release()
            self._done.acquire()

    def pause(self) -> None:
        """Ends a step of the current thread, and waits for its next turn."""
        self._done.release()
        self._go[threading.current_thread().name].acquire()


@contextmanager
def stepwise(monkeypatch: pytest.MonkeyPatch, turns: Turns, *, writes_in_one_step: bool = False) -> Iterator[None]:
    """Pauses `write_rows` between its steps."""

    def before(name: str, home: Any) -> None:
        real = getattr(home, name)

        def paused(*args: Any, **more: Any) -> Any:
            turns.pause()
            return real(*args, **more)

        patched.setattr(home, name, paused)

    with monkeypatch.context() as patched:
        if not writes_in_one_step:
            before("write_table", parquet)
        before("append_manifest", driver_rows)
        before("remove_attempts", driver_rows)
        yield


def test_every_order_of_two_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first complete run on, a reader gets the rows of one writer at any time, and at the end of the last."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    for number, of_a in enumerate(itertools.combinations(range(1, 2 * STEPS), STEPS - 1)):
        order = ["A" if at in (0, *of_a) else "B" for at in range(2 * STEPS)]  # the writers differ in their names only
        is_replacing = number % 3 > 0
        folder, turns = tmp_path / str(number), Turns()
        if is_replacing:
            write("before", folder)
        with stepwise(monkeypatch, turns):
            threads = [turns.start(name, functools.partial(write, name, folder)) for name in "AB"]
            is_written = is_replacing
            for name in order:
                turns.step(name)
                is_written = is_written or bool(manifest_rows(folder))
                found = read(folder)
                assert (found is not None and len(found) == 1) or not is_written, (order, name, found)
            for thread in threads:
                thread.join(10)
                assert not thread.is_alive()
        assert read(folder) == {"B"}, order
        assert all("another job that started later has written the run r" in str(each) for each in turns.errors), order
        shutil.rmtree(folder)


def orders(**steps: int) -> Iterator[str]:
    """Every order of the steps of several threads, a letter per step."""
    if not any(steps.values()):
        yield ""
    for name, left in steps.items():
        if left:
            yield from (name + rest for rest in orders(**{**steps, name: left - 1}))


def prune(folder: Path, turns: Turns) -> None:
    """Removes all runs that `config --prune FOLDER --keep 0d` removes."""
    old = expired(stored_attempts(None, str(folder)), timedelta(0), datetime.now(UTC))
    turns.pause()
    retention.remove(None, old)


def test_every_order_of_two_writers_and_a_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A removal of all runs at any time removes neither the run nor what a job still writes."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setitem(globals(), "TABLES", {"a": TABLES["a"]})
    for order in ("A" + rest for rest in orders(A=2, B=3, P=2)):
        folder, turns = tmp_path / order, Turns()
        write("before", folder)
        with stepwise(monkeypatch, turns, writes_in_one_step=True):
            threads = [turns.start(name, functools.partial(write, name, folder)) for name in "AB"]
            threads.append(turns.start("P", functools.partial(prune, folder, turns)))
            for name in order:
                turns.step(name)
                assert len(read(folder) or ()) == 1, (order, name)
            for thread in threads:
                thread.join(10)
        assert read(folder) == {"B"}, order
        assert all("another job that started later has written the run r" in str(each) for each in turns.errors), order
        shutil.rmtree(folder)


def test_a_removal_leaves_the_folder_in_which_a_job_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a run's ID goes with its last attempt, but not if a job has started the next one by then."""
    for run_id in ("r", "s"):
        write("before", tmp_path, run_id)
    old = expired(stored_attempts(None, str(tmp_path)), timedelta(0), datetime.now(UTC))
    assert [each.run_id for each in old] == ["r"]
    files, base = file_system(str(tmp_path))

    class Files:
        """A file system on which a job starts at once when the last attempt of its ID has been listed."""

        def get_file_info(self, of: Any) -> Any:
            found = files.get_file_info(of)
            if found == [] and read(tmp_path) is None:
                write("A", tmp_path)
            return found

        def __getattr__(self, name: str) -> Any:
            return getattr(files, name)

    monkeypatch.setattr(retention, "file_system", lambda location: (Files(), base))
    retention.remove(None, old)
    assert read(tmp_path) == {"A"}


def test_a_clock_that_goes_backward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is written again replaces the one before, even if that one's driver was an hour ahead."""
    ahead = datetime.now(UTC) + timedelta(hours=1)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return ahead

    with monkeypatch.context() as patched:
        patched.setattr(run_store, "datetime", Clock)
        first = write_rows({"a": [{"writer": "x"}]}, tmp_path, run_id="r", inputs={}, schemas=TABLES)
    assert first.finished_at == ahead
    for name in "yz":
        rows = {table: [{"writer": name}] for table in TABLES}
        second = write_rows(rows, tmp_path, run_id="r", inputs={}, schemas=TABLES)
        assert second.attempt > first.attempt
        assert second.finished_at > first.finished_at
        assert read(tmp_path) == {name}
        first = second
    assert new_attempt("20000101T000000000000Z-ffffff") > f"{datetime.now(UTC):%Y%m%d}"


def test_retention_follows_the_same_order() -> None:
    """What started first and finished last has no files: the run stays, and the two go together."""
    now = datetime(2026, 11, 28, tzinfo=UTC)

    def attempt(started: int, finished_days_ago: int | None, run_id: str = "r") -> StoredAttempt:
        at = None if finished_days_ago is None else now - timedelta(days=finished_days_ago)
        return StoredAttempt("x", run_id, f"2026010{started}T000000000000Z-aaaaaa", at, 1)

    first, second, other = attempt(1, 39), attempt(2, 41), attempt(3, 42, "s")
    assert expired([first, second, other], timedelta(days=40), now) == [other]
    assert expired([first, second, attempt(4, 1, "t")], timedelta(days=40), now) == [first, second]


@cases(
    "change",
    {"content": None},
    {"content": "{"},
    {"content": "[]"},
    {"content": "[" * 100_000},
    {"content": '{"format": "parquet", "inputs": {}, "tables": {"a": {"rows": "x"}}}'},
    {"content": '{"format": 5, "inputs": {}, "versions": {}, "tables": {}}'},
    {"content": '{"format": null, "inputs": {}, "versions": 3, "tables": {}}'},
    {"attempt": "../../../etc"},
    {"attempt": "20260101T000000000000Z-/../x"},
    {"run_id": None},
    {"run_id": "../x"},
    {"run_id": "x" * 100_000},
    {"finished_at": None},
    {"finished_at": 10**18},
)
def test_a_damaged_row_of_the_manifest_is_wrong_input(change: dict[str, Any]) -> None:
    """It names the location, and leads to no other folder."""
    good = {"format": "parquet", "inputs": {}, "versions": {}, "tables": {"a": {"rows": 1}}}
    row = {"run_id": "r", "attempt": new_attempt(), "duration_s": 1.0, "content": json.dumps(good), "finished_at": 1}
    assert run_store.read_manifest("out", row, 1).rows == {"a": 1}
    row |= change
    with pytest.raises(SourceError, match=r"^out: the manifest has a row that can't be read"):
        run_store.read_manifest("out", row, row["finished_at"])


@cases(
    "change", {"attempt": "x"}, {"attempt": "99991231T235959999999Z-a"}, {"finished_at": "9999-12-31T23:59:59+00:00"}
)
def test_a_damaged_row_is_not_replaced(tmp_path: Path, change: dict[str, Any]) -> None:
    """Its attempt would have no successor."""
    write_rows({"a": []}, tmp_path, run_id="r", inputs={}, schemas=TABLES)
    [file] = (tmp_path / "manifest").iterdir()
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(SourceError, match="the manifest has a row that can't be read"):
        write_rows({"a": []}, tmp_path, run_id="r", inputs={}, schemas=TABLES)
