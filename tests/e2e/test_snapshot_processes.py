"""Snapshots that several processes write, or one that is killed: each is whole, or the old one."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from spark_assign.sources.files import snapshot_files
from tests.unit.test_snapshot_files import _snapshot, _tables

ROOT = Path(__file__).parents[2]


def test_a_killed_process_leaves_the_old_one(tmp_path: Path) -> None:
    """With no chance to clear up after itself; and the next one is written as if nothing had been."""
    snapshot_files.write_folder(_snapshot(1), tmp_path, "json")
    before = _tables(tmp_path)
    killed = (
        "import os, sys; from pathlib import Path; from spark_assign.sources.files import snapshot_files; "
        "from tests.unit.test_snapshot_files import _snapshot; "
        "Path.rename = lambda *_: os._exit(9); snapshot_files.write_folder(_snapshot(3), sys.argv[1], 'json')"
    )
    done = subprocess.run([sys.executable, "-c", killed, str(tmp_path)], cwd=ROOT, check=False)
    assert done.returncode == 9
    assert len(list((tmp_path / "cluster=prod").iterdir())) == 2
    assert _tables(tmp_path) == before
    snapshot_files.write_folder(_snapshot(3), tmp_path, "json")
    assert len((_tables(tmp_path) / "topics.json").read_text().splitlines()) == 3


def _write_some(fleet: str, cluster: str) -> None:
    for topics in range(1, 6):
        snapshot_files.write_folder(replace(_snapshot(topics), cluster=cluster), fleet, "json")


def test_many_clusters_at_once(tmp_path: Path) -> None:
    """Processes that write one fleet: each cluster is as its own process wrote it last; one that fails harms none."""
    named = [f"c{number}" for number in range(6)]
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(_write_some, str(tmp_path / "fleet"), name) for name in (*named, *named[:3])]:
            done.result()
    for name in named:
        assert len((_tables(tmp_path / "fleet", f"cluster={name}") / "topics.json").read_text().splitlines()) == 5
    snapshot_files.write_folder(replace(_snapshot(2), cluster="c1"), tmp_path / "fleet", "json")
    counts = {
        name: len((_tables(tmp_path / "fleet", f"cluster={name}") / "topics.json").read_text().splitlines())
        for name in named
    }
    assert counts == dict.fromkeys(named, 5) | {"c1": 2}
