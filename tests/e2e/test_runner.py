"""What pytest itself leaves behind when it has not run what it should, and that the runner sees it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.runner.__main__ import run
from tests.runner.parts import Part
from tests.runner.processes import Processes

RUNS = "def test_runs(): pass\n"
LEFT_OUT = {
    "nothing is left out": (RUNS, "", "1 passed, 0 failed, 0 skipped"),
    "the folder is missing": (None, "no test of tests/fake was executed", "0 passed, 1 failed, 0 skipped"),
    "no test in it": ("", "exit 5", "0 passed, 1 failed, 0 skipped"),
    "a module that cannot be imported": ("import nowhere", "exit 2", "0 passed, 1 failed, 0 skipped"),
    "an exit in the middle": (
        f"{RUNS}def test_ends(): import os; os._exit(0)\n",
        "no junit file",
        "0 passed, 1 failed, 0 skipped",
    ),
    "an exit on import": ("import os; os._exit(0)\n", "no junit file", "0 passed, 1 failed, 0 skipped"),
    "a whole module skipped": (
        f"import pytest; pytest.importorskip('nowhere')\n{RUNS}",
        "skipped in CI: tests.fake.test_it",
        "0 passed, 1 failed, 0 skipped",
    ),
    "a test skipped": (
        f"{RUNS}def test_waits(): import pytest; pytest.skip('no Java')\n",
        "skipped in CI: tests.fake.test_it.test_waits",
        "1 passed, 1 failed, 0 skipped",
    ),
    "a test that hangs": (
        "import time\ndef test_hangs(): time.sleep(600)\n",
        "not over after",
        "0 passed, 1 failed, 0 skipped",
    ),
}


@pytest.mark.parametrize(("module", "reason", "last"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_pytest_leaves_out_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], module: str | None, reason: str, last: str
) -> None:
    """A folder as it might be, with the command line of the real parts."""
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = "--import-mode=importlib -ra"\n')
    if module is not None:
        (tmp_path / "tests" / "fake").mkdir(parents=True)
        (tmp_path / "tests" / "fake" / "test_it.py").write_text(module)
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/fake")
    part = Part("fake", command, ("tests/fake",), seconds=4 if "hang" in str(module) else 60)
    code = run([part], Processes(tmp_path, os.environ), ci=True)
    said = capsys.readouterr().out
    assert said.endswith(f"\n{last}\n")
    assert code == (1 if reason else 0)
    assert f"\nfake: {reason}" in said or not reason
    if "hang" in str(module):
        assert "test_it.py:2: KeyboardInterrupt" in said
