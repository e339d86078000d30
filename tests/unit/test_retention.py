"""Old runs of a folder: what is listed, what is removed, and what a killed removal leaves."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from jobs import config
from spark_assign.stores import locations, retention, targets
from spark_assign.stores.retention import StoredAttempt, expired, stored_attempts
from spark_assign.tables.errors import SourceError
from spark_assign.tables.groups import SCHEMA_VERSION
from spark_assign.tables.schema_check import check_version

NOW = datetime.now(UTC).replace(microsecond=0)


def stored(folder: Path, run_id: str, days_ago: int, *, finished: bool = True, tables: str = "metrics moves") -> str:
    """Stores a run with a file of 10 bytes per table, as `run_store` does; returns the name of its attempt."""
    at = NOW - timedelta(days=days_ago)
    attempt = f"{at:%Y%m%dT%H%M%S%f}Z-abcdef"
    for table in tables.split():
        files = folder / table / f"run_id={run_id}" / f"attempt={attempt}"
        files.mkdir(parents=True)
        (files / "part-0.parquet").write_bytes(b"x" * 10)
    if finished:
        row = {"run_id": run_id, "attempt": attempt, "finished_at": at, "duration_s": 1.0, "content": "{}"}
        targets.append_manifest(folder, row)
    return attempt


def runs(folder: Path) -> list[tuple[str, str, int | None]]:
    """The attempts of a folder: the last folder of the location, the run, and its size."""
    return [(Path(each.location).name, each.run_id, each.size) for each in stored_attempts(None, str(folder))]


def pruned(folder: Path, *more: str) -> int:
    return config.main(["--prune", str(folder), "--keep", "30d", *more])


def test_old_runs_are_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the time at which they finished, and by the start if they were killed; a folder without runs goes, too."""
    place = tmp_path / "plans"
    for run_id, days in (("old", 40), ("edge", 29), ("new", 1)):
        stored(place, run_id, days)
    stored(place, "killed", 35, finished=False)
    stored(place, "running", 0, finished=False)
    before = runs(place)
    assert before == [("plans", run_id, 20) for run_id in ("old", "killed", "edge", "new", "running")]
    assert pruned(place, "--dry-run") == 0
    assert "2 of 5 runs to remove: 40 bytes; 60 bytes kept" in capsys.readouterr().out
    assert runs(place) == before
    assert pruned(place) == 0
    assert "2 of 5 runs removed: 40 bytes; 60 bytes kept" in capsys.readouterr().out
    assert runs(place) == [("plans", run_id, 20) for run_id in ("edge", "new", "running")]
    assert not (place / "metrics" / "run_id=old").exists()
    assert pruned(place) == 0
    assert "0 of 3 runs removed" in capsys.readouterr().out


def test_the_newest_run_of_each_folder_stays(tmp_path: Path) -> None:
    """However old it is: also in a folder that holds the folders of several jobs."""
    for job in ("plan", "drift"):
        stored(tmp_path / job, "older", 400)
        stored(tmp_path / job, "newest", 300)
    assert pruned(tmp_path) == 0
    assert runs(tmp_path) == [("drift", "newest", 20), ("plan", "newest", 20)]


def test_a_run_is_removed_from_the_manifest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed removal leaves belongs to no run, and the next removal takes it."""
    stored(tmp_path, "old", 40)
    stored(tmp_path, "new", 1)
    old = expired(stored_attempts(None, str(tmp_path)), timedelta(days=30), NOW)
    real = retention.file_system

    class Killed(Exception):
        """The process ends here."""

    def file_system(location: str) -> tuple[object, str]:
        files, base = real(location)

        class Files:
            def __getattr__(self, name: str) -> object:
                if name == "delete_dir":
                    raise Killed
                return getattr(files, name)

        return Files(), base

    monkeypatch.setattr(retention, "file_system", file_system)
    with pytest.raises(Killed):
        retention.remove(None, old)
    monkeypatch.undo()
    assert [row["run_id"] for row in targets.manifest_rows(tmp_path) or []] == ["new"]
    assert [(each.run_id, each.finished_at is None) for each in stored_attempts(None, str(tmp_path))] == [
        ("old", True),
        ("new", False),
    ]
    assert pruned(tmp_path) == 0
    assert [each.run_id for each in stored_attempts(None, str(tmp_path))] == ["new"]


def test_a_replaced_attempt_has_no_files(tmp_path: Path) -> None:
    """Its row of the manifest stays until it is old."""
    stored(tmp_path, "nightly", 40, tables="")
    stored(tmp_path, "nightly", 1)
    assert [size for _, _, size in runs(tmp_path)] == [0, 20]
    assert pruned(tmp_path) == 0
    assert [size for _, _, size in runs(tmp_path)] == [20]


def test_places_without_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is removed from a folder that no job wrote to."""
    (tmp_path / "notes.txt").write_text("mine")
    assert pruned(tmp_path) == 2
    assert "has no runs. Name a folder or a catalog prefix that a job wrote to" in caplog.text
    assert pruned(tmp_path / "nowhere") == 2
    assert (tmp_path / "notes.txt").exists()


@pytest.mark.parametrize(
    ("change", "code", "left"),
    [
        ({"run_id": "x", "attempt": "../../../../victim"}, 0, ["new", "old"]),
        ({"run_id": "../../victim"}, 0, ["new", "old"]),
        ({"run_id": "x" * 100_000}, 0, ["new", "old"]),
        ({"attempt": "20260000T000000000000Z-abcdef"}, 0, ["new", "old"]),
        ({"finished_at": "0001-01-01T00:00:00+14:00"}, 2, []),
        ({"finished_at": 3}, 2, []),
    ],
)
def test_a_manifest_that_no_job_has_written(tmp_path: Path, change: dict[str, Any], code: int, left: list[str]) -> None:
    """No name leads out of the folder, and a value that can't be read is wrong input."""
    place, victim = tmp_path / "plans", tmp_path / "victim"
    victim.mkdir()
    for run_id, days in (("old", 29), ("new", 1)):
        attempt = stored(place, run_id, days)
    row = {"run_id": "new", "attempt": attempt, "finished_at": "2020-01-01T00:00:00+00:00", "content": "{}"}
    (place / "manifest" / "x.json").write_text(json.dumps(row | change))
    (place / "metrics" / "run_id=x" / "attempt=").mkdir(parents=True)
    assert pruned(place) == code
    assert victim.is_dir()
    assert sorted({run_id for _, run_id, _ in runs(place)} if left else []) == left


@pytest.mark.parametrize(
    ("kind", "code", "problem"),
    [
        ("links", 2, "has more than 16 folders in each other"),
        ("large", 2, "has more than 67,108,864 bytes"),
        ("pipe", 0, ""),
        ("list", 0, ""),
    ],
)
def test_what_others_have_put_there(
    tmp_path: Path, kind: str, code: int, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Links in a circle, a file without end, a pipe, and a name that is a list neither hold the job nor end it raw."""
    for run_id, days in (("old", 40), ("new", 1)):
        attempt = stored(tmp_path, run_id, days)
    file = tmp_path / "manifest" / "x.json"
    if kind == "links":
        for name in ("a", "b"):
            (tmp_path / name).symlink_to(tmp_path)
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "large":
        file.touch()
        os.truncate(file, 1 << 32)
        with pytest.raises(SourceError, match=problem):
            targets.manifest_rows(tmp_path)
    else:
        row = {"run_id": ["x"], "attempt": attempt, "finished_at": "2020-01-01T00:00:00+00:00", "content": "{}"}
        file.write_text(json.dumps(row))
    assert pruned(tmp_path) == code
    assert problem in caplog.text


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xff\xfe\n", b'{"run_id":"r1","att', b"\xef\xbb\xbf{}", b"[]"])
def test_a_file_of_the_manifest_that_was_damaged(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Its run is neither unfinished nor replaced by an earlier one; the other folders are pruned."""
    for job in ("plan", "drift"):
        stored(tmp_path / job, "old", 40)
        attempt = stored(tmp_path / job, "new", 35)
    file = tmp_path / "plan" / "manifest" / f"{attempt}.json"
    file.write_bytes(content)
    problem = f"{tmp_path}/plan: the manifest has a row that can't be read. Remove {file.name} from the folder manifest"
    with pytest.raises(SourceError, match=re.escape(problem)):
        targets.manifest_rows(tmp_path / "plan")
    assert pruned(tmp_path) == 2
    assert problem in caplog.text
    assert runs(tmp_path / "drift") == [("drift", "new", 20)]
    assert len(list((tmp_path / "plan" / "metrics").glob("*/*/*"))) == 2
    caplog.clear()
    assert pruned(tmp_path / "plan") == 2
    assert problem in caplog.text


def test_a_manifest_that_is_a_file_or_compressed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No complete run is removed as an unfinished one."""
    for run_id in ("old", "new"):
        attempt = stored(tmp_path, run_id, 40 if run_id == "old" else 35)
    file = tmp_path / "manifest" / f"{attempt}.json"
    row = file.read_bytes()
    file.unlink()
    compressed = file.with_suffix(".json.gz")
    compressed.write_bytes(gzip.compress(row))
    assert len(runs(tmp_path)) == 2
    compressed.write_bytes(row)
    assert pruned(tmp_path) == 2
    assert f"Remove {compressed.name} from the folder manifest" in caplog.text
    shutil.rmtree(tmp_path / "manifest")
    (tmp_path / "manifest").touch()
    assert pruned(tmp_path) == 2
    assert f"{tmp_path}/manifest isn't a folder. Remove it" in caplog.text
    assert len(list((tmp_path / "metrics").iterdir())) == 2


def test_lines_of_a_manifest_of_spark(tmp_path: Path) -> None:
    """Spark writes U+2028 as it is."""
    stored(tmp_path, "r", 1)
    [file] = (tmp_path / "manifest").iterdir()
    file.write_text(json.dumps(json.loads(file.read_text()) | {"content": "\u2028"}, ensure_ascii=False))
    assert [row["content"] for row in targets.manifest_rows(tmp_path) or []] == ["\u2028"]


def test_content_is_on_the_disk_before_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a row of the manifest, and of all files that are replaced."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(os.fstat(number).st_size))
    stored(tmp_path, "r", 1)
    locations.publish(b"four", tmp_path / "file")
    [file] = (tmp_path / "manifest").iterdir()
    assert synced == [file.stat().st_size, 4]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--prune", "./x"], "--prune needs --keep."),
        (["--keep", "1d", "--show"], "--keep needs --prune."),
        (["--dry-run", "--show"], "--dry-run needs --prune."),
    ],
)
def test_options_that_belong_together(arguments: list[str], problem: str, caplog: pytest.LogCaptureFixture) -> None:
    """--prune and --keep need each other."""
    assert config.main(arguments) == 2
    assert problem in caplog.text


def test_only_finished_runs_are_kept_for_their_place() -> None:
    """A run that was killed after the newest one doesn't keep its place."""
    old = NOW - timedelta(days=50)
    last = StoredAttempt("a", "r", f"{old:%Y%m%dT%H%M%S%f}Z-1", old, 1)
    killed = StoredAttempt("a", "s", f"{old + timedelta(days=1):%Y%m%dT%H%M%S%f}Z-2", None, 1)
    assert expired([last, killed], timedelta(days=30), NOW) == [killed]


@pytest.mark.parametrize(("version", "problem"), [
    (None, r"before 0\.2 \(schema version missing"),
    (0, r"before 0\.2"),
    ("1", r"before 0\.2"),
    (SCHEMA_VERSION + 1, r"newer spark_assign \(schema version 2; this release reads 1\): upgrade"),
])  # fmt: skip
def test_schema_versions(version: object, problem: str) -> None:
    """This release reads its own; others are refused in one sentence."""
    check_version("here", SCHEMA_VERSION)
    with pytest.raises(SourceError, match=f"^here was written by .*{problem}") as error:
        check_version("here", version)
    assert "\n" not in str(error.value)
