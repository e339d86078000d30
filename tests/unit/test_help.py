"""conf/help and docs/commands.md: the help of each job, printed without Spark, Python packages or a set-up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import _entry
from tests.cases import cases
from tests.help_texts import FOLDER, PAGE, page, texts

ROOT = Path(__file__).parents[2]


def test_the_files_are_what_the_jobs_print() -> None:
    """Files and page are up to date, and there is one for every job. `python -m tests.help_texts` writes them."""
    found = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.iterdir()}
    assert found == dict(texts())
    assert PAGE.read_text(encoding="utf-8") == page(found)


@cases("words usage", (["plan"], "plan [OPTIONS]"), (["replicas", "place"], "replicas place [OPTIONS]"))
def test_the_launcher_prints_help_on_a_bare_machine(words: list[str], usage: str, tmp_path: Path) -> None:
    """It needs neither Python nor Java: both are missing from PATH here."""
    for tool in ("bash", "cat", "dirname", "basename", "uname"):
        (tmp_path / tool).symlink_to(f"/usr/bin/{tool}" if Path(f"/usr/bin/{tool}").exists() else f"/bin/{tool}")
    command = [str(ROOT / "spark-submit.sh"), *words, "--help"]
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: {usage}\n")


PATTERNS = ("--help", "--reader=spark", "--table-prefix*")


@cases(
    "words found",
    (["a", "--help"], "--help"),
    (["--reader", "spark"], "--reader=spark"),
    (["--reader=spark"], "--reader=spark"),
    (["--table-prefix=x"], "--table-prefix*"),
    (["--group", "a --help b", "--help ", "a\n--help", "--reader spark", "--reader", "x --table-prefix y"], ""),
    ([], ""),
)
def test_the_launchers_look_at_whole_arguments(words: list[str], found: str) -> None:
    """The name of a group is a stranger's, and can contain ` --help `."""
    script = f'set -eu; source "{ROOT}/conf/launcher.sh"\n'
    script += "for each in " + " ".join(f"'{each}'" for each in PATTERNS)
    script += '; do if has_argument "$each" "$@"; then printf %s "$each"; fi; done'
    done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True)
    assert done.stdout == found
    for launcher in ("spark-submit.sh", "spark-assign", "conf/launcher.sh"):
        assert '" $* "' not in (ROOT / launcher).read_text(encoding="utf-8")


def test_the_command_of_the_wheel_imports_no_job(capsys: pytest.CaptureFixture[str]) -> None:
    """`spark-assign JOB --help` takes at most 0.6 s of processor time, and imports no array library and no Spark."""
    script = "import atexit, os, sys; from jobs import _entry\n"
    report = "print(*sorted({'pyspark', 'pandas', 'pyarrow', 'numpy'} & set(sys.modules)), os.times().user)"
    script += f"atexit.register(lambda: {report})\n_entry.main()\n"
    for words, usage in ((["plan"], "plan"), (["replicas", "place"], "replicas place")):
        command = [sys.executable, "-c", script, *words, "--help"]
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        text, _, seconds = done.stdout.rstrip("\n").rpartition("\n")
        assert text.startswith(f"Usage: spark-assign {usage} [OPTIONS]\n")
        assert float(seconds) < 0.6, "or something heavy was imported"


def test_words_that_ask_for_no_help() -> None:
    """Only a job's own help is a file; the list of jobs is made by the command."""
    assert _entry._help(["--help"]) is None
    assert _entry._help(["plan", "--fleet", "x"]) is None
    assert _entry._help(["no-such-job", "--help"]) is None
