"""The runner of all tests where time is needed: what hangs, and what pytest leaves behind if it does not run all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runner.parts import ENGINE_VARIABLE, ROOT, Part, SetUp
from tests.runner.tools import JAVA, TOOLS, lacks
from tests.unit.fake_parts import BESIDE, GOOD, Runner, fake, gone


@pytest.fixture
def runner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Runner:
    """A function: parts to what was said."""
    return Runner(tmp_path, capsys)


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_part_that_hangs_is_ended(runner: Runner, tmp_path: Path, stubborn: bool) -> None:
    """At its bound, with what it has said until then; and its children with it, even if they ignore the request."""
    ignored = "trap '' INT; " if stubborn else ""
    child = "sh -c 'echo $$ >pid; exec sleep 120'"
    hangs = fake(f"{ignored}{GOOD}; echo thinking; {child}; true", seconds=2)
    started = time.monotonic()
    printed = runner(hangs, BESIDE, grace=0.1 if stubborn else 600)
    assert time.monotonic() - started < 120, "the child sleeps as long, and the grace is longer"
    assert (printed.code, printed.last) == (1, "1 passed, 1 failed, 0 skipped")
    assert "== fake\nthinking\nfake: not over after " in printed.text
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_set_up_that_hangs_is_red(runner: Runner, tmp_path: Path) -> None:
    """Its own words are shown, the part is not run, the others are."""
    set_up = SetUp("venv", ("sh", "-c", "echo no network; sleep 600"), seconds=2)
    printed = runner(replace(fake(f"touch ran; {GOOD}"), set_up=set_up), BESIDE)
    assert (printed.code, printed.last) == (1, "1 passed, 1 failed, 0 skipped")
    assert "== fake\nno network\nfake: set-up: not over after " in printed.text
    assert not (tmp_path / "ran").exists()


STOPPED = """
import os, sys
from tests.runner import __main__ as entry
from tests.runner.parts import Part
from pathlib import Path
long = dict.fromkeys(("long", "longer"), "sleep 600")
scripts = {"over": "cat", **long, "stops": "sleep 1; kill -TERM $PPID; sleep 600", "never": "echo never"}
parts = [Part(name, ("sh", "-c", f"echo $$ >{sys.argv[1]}/{name}; {each}")) for name, each in scripts.items()]
entry.wanted = lambda _: (parts, Path(sys.argv[1]) / "results")
sys.exit(entry.main([], os.environ))
"""


def test_a_run_that_is_stopped_is_red_and_ends_all(tmp_path: Path) -> None:
    """As by the time limit of a pipeline: what is over has its verdict, nothing goes on and nothing begins."""
    command = [sys.executable, "-c", STOPPED, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, input="typed", capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    assert "\n== over\n\n" in done.stdout, "standard input is not for the parts"
    assert done.stdout.endswith("\n0 passed, 4 failed, 0 skipped\n")
    assert done.stdout.count("left no verdict") == 4
    assert sorted(file.name for file in tmp_path.iterdir()) == ["long", "longer", "over", "results", "stops"]
    assert all(gone(int((tmp_path / name).read_text())) for name in ("long", "longer", "stops"))


RUNS = "def test_runs(): pass\n"
ENDS = f"{RUNS}def test_ends(): import os; os._exit(0)\n"
ALL_SKIPPED = f"import pytest; pytest.importorskip('nowhere')\n{RUNS}"
ONE_SKIPPED = f"{RUNS}def test_waits(): import pytest; pytest.skip('no Java')\n"
LEFT_OUT = {
    "nothing is left out": (RUNS, "", 1),
    "the folder is missing": (None, "no test of tests/fake was executed", 0),
    "no test in it": ("", "exit 5", 0),
    "a module that cannot be imported": ("import nowhere", "exit 2", 0),
    "an exit in the middle": (ENDS, "no junit file", 0),
    "an exit on import": ("import os; os._exit(0)\n", "no junit file", 0),
    "a whole module skipped": (ALL_SKIPPED, "skipped in CI: tests.fake.test_it", 0),
    "a test skipped": (ONE_SKIPPED, "skipped in CI: tests.fake.test_it.test_waits", 1),
}
"""A module, what is said about it, and the number of tests that pass."""


@pytest.mark.parametrize(("module", "reason", "passed"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_pytest_leaves_out_is_seen(
    runner: Runner, tmp_path: Path, module: str | None, reason: str, passed: int
) -> None:
    """A folder as it might be, with the command line of the real parts."""
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = "--import-mode=importlib -ra"\n')
    if module is not None:
        (tmp_path / "tests" / "fake").mkdir(parents=True)
        (tmp_path / "tests" / "fake" / "test_it.py").write_text(module)
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/fake")
    printed = runner(Part("fake", command, ("tests/fake",)), ci=True)
    failed = int(bool(reason))
    assert (printed.code, printed.last) == (failed, f"{passed} passed, {failed} failed, 0 skipped")
    assert f"\nfake: {reason}" in printed.text or not reason


HANGS = "import time\ndef test_hangs(): time.sleep(600)\n"
GOES_ON = """
import time
def test_hangs():
    try:
        time.sleep(600)
    except KeyboardInterrupt as interrupt:
        raise ValueError from interrupt
def test_goes_on(): time.sleep(600)
"""


@pytest.mark.parametrize(
    ("module", "grace", "shown"),
    [(HANGS, 60, "test_it.py:2: KeyboardInterrupt"), (GOES_ON, 2, "Fatal Python error: Aborted")],
    ids=("ends", "goes on"),
)
def test_a_test_that_hangs_is_named(runner: Runner, tmp_path: Path, module: str, grace: float, shown: str) -> None:
    """pytest is asked to end, and says where it was; a test that takes the request for a failure of its own doesn't
    keep the part from its end."""
    (tmp_path / "test_it.py").write_text(module)
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest", "-c", "/dev/null", "test_it.py")
    part = Part("fake", (sys.executable, *words), ("test_it.py",), {"PYTHONPATH": str(ROOT)})
    for seconds in (8, 60, 240):  # on a busy machine, pytest needs longer to come to its first test
        printed = runner(replace(part, seconds=seconds), grace=grace)
        if "during" in printed.text:
            break
    assert (printed.code, printed.last) == (1, "0 passed, 1 failed, 0 skipped")
    assert re.search(r"fake: not over after \d+ s: it was ended during \S*test_it.py::test_hangs\n", printed.text)
    assert shown in printed.text


def machine(folder: Path, lacking: set[str]) -> dict[str, str]:
    """Returns the variables of a machine without some programs and with empty caches."""
    only = folder / "bin"
    only.mkdir(exist_ok=True)
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).glob("*"):
            if program.name not in lacking and not (only / program.name).is_file():
                (only / program.name).unlink(missing_ok=True)
                (only / program.name).symlink_to(program)
    return {"HOME": os.environ["HOME"], "PATH": str(only), "XDG_CACHE_HOME": str(folder / "cache")}


def run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Returns the exit code of a command, and what is said."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1_800,
        check=False,
    )
    return done.returncode, done.stdout


def run_lacking(folder: Path, lacking: set[str], *parts: str, ci: str = "") -> tuple[int, str]:
    """Runs parts on a machine without some programs and with empty caches; returns the exit code and what is said."""
    command = ("-m", "tests.runner", "--results", str(folder / "results"), *parts)
    return run(command, machine(folder, lacking) | {"CI": ci})


def assert_skipped(printed: tuple[int, str], **parts: str) -> None:
    """The run is green; each of these parts names what is missing, and the last line has the number of tests."""
    code, text = printed
    assert code == 0, text
    totals, last = text.rstrip("\n").rsplit("\n", 2)[1:]
    assert re.fullmatch(r"\d+ passed, 0 failed, \d+ skipped", totals)
    for part, missing in parts.items():
        assert re.search(rf"(?m)^{part} +(ok|skipped) .*{re.escape(missing)}", text), part
    assert last.startswith(f"{totals.split()[4]} tests did not run, as this machine lacks what they need: ")


OTHERS = {program for tool in TOOLS if tool != JAVA for program in tool.programs} | {"npm", "google-chrome-stable"}


def test_a_machine_without_tools(tmp_path: Path) -> None:
    """Java and what .venv has, but no Maven, browser, Go or Node, and no jar in the cache: skipped, and not red."""
    if JAVA.program is None:
        lacks(JAVA)
    printed = run_lacking(tmp_path, OTHERS, "browser", "classes", "live")
    maven = "Maven is missing: apt-get install maven"
    chromium = "Chromium is missing: apt-get install chromium"
    assert_skipped(printed, browser=chromium, classes=maven, live=maven)


def test_a_machine_without_java(tmp_path: Path) -> None:
    """The tests that need Spark itself, or Kafka's classes, are skipped, and not red; but in CI they fail."""
    missing = "Java is missing: apt-get install openjdk-17-jdk-headless"
    assert_skipped(run_lacking(tmp_path, {"java", *OTHERS}, "spark", "live"), spark=missing, live=missing)
    code, text = run_lacking(tmp_path, {"java", *OTHERS}, "clock", ci="true")
    assert code == 1
    assert "needs Java: it isn't on the PATH" in text


def test_what_needs_no_java(tmp_path: Path) -> None:
    """A page, recorded cases, and Spark tests on the embedded engine: none is skipped without Java."""
    files = ("docs/test_worked_examples.py", "golden/test_golden_share.py", "spark/test_whole_groups.py")
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not classic and not full")
    environment = machine(tmp_path, {"java", *OTHERS}) | {ENGINE_VARIABLE: "embedded"}
    code, text = run((*command, *(f"tests/{file}" for file in files)), environment)
    assert code == 0, text
    assert re.search(r"(?m)^\d+ passed", text)
    assert "skipped" not in text


def test_a_machine_without_a_network(tmp_path: Path) -> None:
    """Maven is there, but reaches nothing."""
    if JAVA.program is None:
        lacks(JAVA)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mvn").write_text("#!/bin/sh\necho 'Unknown host repo.maven.apache.org'; exit 1\n")
    (tmp_path / "bin" / "mvn").chmod(0o755)
    printed = run_lacking(tmp_path, OTHERS - {"mvn"}, "live")
    assert_skipped(printed, live="a network is missing: connect this machine")
    assert "mvn could not fetch the jars: Unknown host repo.maven.apache.org" in printed[1]


def test_a_machine_without_a_package_index(tmp_path: Path) -> None:
    """Tests that install packages are skipped, with the reason."""
    index = "http://127.0.0.1:9/simple"
    offline = {"PIP_INDEX_URL": index, "UV_DEFAULT_INDEX": index, "PIP_FIND_LINKS": ""}
    command = ("-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests/e2e/test_wheel.py")
    code, text = run(command, machine(tmp_path, OTHERS) | offline)
    assert code == 0, text
    assert re.search(r"(?m)^\d+ skipped", text)
    assert "needs a network: the package index cannot be reached" in text
