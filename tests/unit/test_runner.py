"""The runner of all tests, held with fake parts against everything that once ended green without having run.

What hangs, and what pytest itself leaves behind, is in tests/e2e.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests import selection
from tests.cases import tuples
from tests.runner import lanes
from tests.runner.parts import COUNTS, MAY_SKIP, ROOT, Lane, Part, SetUp
from tests.runner.processes import Processes, StoppedError
from tests.runner.tools import MAVEN, TOOLS, lacks, named_in
from tests.runner.verdicts import Verdict, summary
from tests.unit.fake_parts import BESIDE, GOOD, Runner, case, fake, gone, leaves, skipped

MOUNTS = next(iter(MAY_SKIP))


@pytest.fixture
def runner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Runner:
    """A function: parts to what was said."""
    return Runner(tmp_path, capsys)


def test_green_comes_with_the_totals(runner: Runner) -> None:
    """Exit code 0, a line per part with its wall and processor time, and last the totals, alone on their line."""
    printed = runner(fake("true", "lint", ()), fake(GOOD, "first"), fake(GOOD, "second"))
    assert (printed.code, printed.last) == (0, "2 passed, 0 failed, 0 skipped")
    found = re.findall(r"(?m)^(\w+) +(\w+) +\d+ s, CPU +\d+ s *(.*?)$", printed.text.partition("== summary\n")[2])
    assert found == tuples("lint ok ''; first ok '1 passed'; second ok '1 passed'")


RED = {
    "a process that stops in the middle of a line": ("printf half", "no junit file"),
    "a process that ends 0 and leaves no junit file": ("exit 0", "no junit file"),
    "a process that ends otherwise": (f"{GOOD}; exit 1", "exit 1"),
    "a process that is killed": (f"{GOOD}; kill -9 $$", "exit -9"),
    "pytest finds no test": (f"{leaves()}; exit 5", "exit 5"),
    "no test although it ended 0": (leaves(), "no test of tests/fake was executed"),
    "tests of another folder only": (leaves(case("tests.faked.test_a.test_one")), "no test of tests/fake was executed"),
    "all tests skipped": (leaves(skipped("tests.fake.t.t")), "no test of tests/fake was executed"),
    "a tool that nobody knows": (
        leaves(skipped("tests.fake.t.t", "needs Foo: none")),
        "no test of tests/fake was executed",
    ),
    "an empty junit file": (': >"$1"', "no junit file that can be read"),
    "half a junit file": ("""echo '<testsuites><testsuite>' >"$1" """, "no junit file that can be read"),
    "a failed test although it ended 0": (leaves(case("tests.fake.t.t", "<failure/>")), "1 failed"),
    "a test that cannot clear up": (leaves(case("tests.fake.t.t", "<error/>")), "1 failed"),
    "a disk that takes no byte": (f"""trap '' XFSZ; ulimit -f 0; {GOOD}; exit 0""", "no junit file that can be read"),
}


@pytest.mark.parametrize(("script", "reason"), RED.values(), ids=RED)
def test_silence_is_red(runner: Runner, script: str, reason: str) -> None:
    """Whatever a part leaves out of its proof fails the run; the last line says so too, and the reason is shown."""
    printed = runner(fake(script), BESIDE)
    assert printed.code == 1
    assert ", 1 failed, " in printed.last
    assert f"\nfake: {reason}" in printed.text
    assert "\nbeside: " not in printed.text


def test_every_place_has_to_be_heard_of(runner: Runner) -> None:
    """A folder without tests beside one that has some."""
    printed = runner(fake(GOOD, places=("tests/fake", "tests/gone", "tests/fake/test_a.py")))
    assert printed.code == 1
    assert printed.text.count("fake: no test of") == 1
    assert "fake: no test of tests/gone was executed" in printed.text


def test_a_lint_that_fails_is_one_failure(runner: Runner) -> None:
    """It has no tests to count, and the last line is not green."""
    printed = runner(fake("echo so; exit 1", "lint", ()), BESIDE)
    assert (printed.code, printed.last) == (1, "1 passed, 1 failed, 0 skipped")
    assert "== lint\nso\nlint: exit 1\n" in printed.text


@pytest.mark.parametrize(
    "part", [Part("gone", ("/no/such/program",)), fake(GOOD, "no/log")], ids=lambda part: part.name
)
def test_what_no_lane_can_take_is_red(runner: Runner, part: Part) -> None:
    """Its program is not there, or nothing can be written down of it."""
    printed = runner(part, BESIDE)
    assert (printed.code, printed.last) == (1, "1 passed, 1 failed, 0 skipped")
    assert f"{part.name}: could not be run: FileNotFoundError" in printed.text


def test_a_lane_that_dies_is_red(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even by an exit that means success."""

    def exits(*_: object) -> Verdict:
        raise SystemExit(0)

    monkeypatch.setattr(lanes, "_run_part", exits)
    printed = runner(BESIDE)
    assert (printed.code, printed.last) == (1, "0 passed, 1 failed, 0 skipped")


def test_a_part_without_a_verdict_is_red() -> None:
    """And so is a run of nothing."""
    lines, code = summary([BESIDE, fake(GOOD, "lost")], {"beside": Verdict(BESIDE, 1)})
    assert (code, lines[-1]) == (1, "0 passed, 1 failed, 0 skipped")
    assert "left no verdict" in lines[1]
    assert summary([], {})[1] == 1


def test_children_that_are_left_behind_are_ended(runner: Runner, tmp_path: Path) -> None:
    """A session or a broker of a part that is over would take memory from the next one."""
    assert runner(fake(f"sleep 60 & echo $! >pid; {GOOD}")).code == 0
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_set_up_that_dies_is_red(runner: Runner, tmp_path: Path) -> None:
    """Its own words are shown, the part is not run, the others are."""
    needs = replace(fake(f"touch ran; {GOOD}"), set_up=SetUp("venv", ("sh", "-c", "echo no network; exit 1")))
    printed = runner(needs, BESIDE)
    assert (printed.code, printed.last) == (1, "1 passed, 1 failed, 0 skipped")
    assert "== fake\nno network\nfake: set-up: exit 1" in printed.text
    assert not (tmp_path / "ran").exists()


def test_a_set_up_without_a_network_is_a_named_skip(runner: Runner) -> None:
    """Outside CI; there it fails. The set-up itself says that no index answers."""
    says = f"echo 'set-up: {lanes.OFFLINE}: https://x. Check the network'; exit 1"
    assert lanes.OFFLINE in (ROOT / "conf" / "requirements" / "install.py").read_text(encoding="utf-8")
    needs = replace(fake(GOOD), set_up=SetUp("venv", ("sh", "-c", says)))
    printed = runner(needs, BESIDE)
    assert printed.code == 0
    assert printed.last.startswith(
        "1 tests did not run, as this machine lacks what they need: 1 need a network (connect"
    )
    assert re.search(r"(?m)^fake +skipped +.* 1 skipped; a network is missing: connect ", printed.text)
    assert runner(needs, BESIDE, ci=True).code == 1


def test_a_set_up_is_waited_for(runner: Runner) -> None:
    """It is made once, in its own environment, while other parts run, and then used by all that want it."""
    set_up = SetUp("venv", ("sh", "-c", "sleep 0.1; echo $WHAT >>made"), {"WHAT": "venv"})
    needs = replace(fake(f'[ "$(cat made)" = venv ] && {GOOD}'), set_up=set_up)
    printed = runner(needs, replace(needs, name="too"), BESIDE)
    assert (printed.code, printed.last) == (0, "3 passed, 0 failed, 0 skipped")


def test_what_a_part_says_stays_together(runner: Runner) -> None:
    """Two lanes at once, each part in one piece; the summary in the order in which they were wanted."""
    talks = "for n in 1 2; do echo $0$n >&2; sleep 0.05; done; printf ${0}3"
    printed = runner(*(Part(name, ("sh", "-c", talks, name)) for name in ("a", "b")))
    assert {"== a\na1\na2\na3\n", "== b\nb1\nb2\nb3\n"} <= {f"{text.strip()}\n" for text in printed.text.split("\n\n")}


SKIPS = leaves(case("tests.fake.t.runs"), skipped("tests.fake.t.waits[1]"), skipped(MOUNTS))


def test_a_skipped_test_is_counted(runner: Runner) -> None:
    """Outside CI a test may be skipped for any reason, if another one of its folder is executed."""
    printed = runner(fake(SKIPS))
    assert (printed.code, printed.last) == (0, "1 passed, 0 failed, 2 skipped")


def test_a_skip_fails_in_ci(runner: Runner) -> None:
    """In every part, except for tests that MAY_SKIP names with a reason."""
    printed = runner(fake(SKIPS), ci=True)
    assert (printed.code, printed.last) == (1, "1 passed, 1 failed, 1 skipped")
    assert "\nfake: skipped in CI: tests.fake.t.waits[1]\n" in printed.text
    allowed = runner(fake(leaves(case("tests.fake.t.runs"), skipped(MOUNTS))), ci=True)
    assert (allowed.code, allowed.last) == (0, "1 passed, 0 failed, 1 skipped")


LACKING = leaves(*(skipped(f"tests.fake.t.{at}", f"needs {tool.name}: gone") for at, tool in enumerate(TOOLS)))


def test_a_part_that_lacks_its_tools_is_skipped(runner: Runner) -> None:
    """Outside CI: its line names each missing tool and how to install it, the last line the number of tests."""
    printed = runner(fake(LACKING), BESIDE)
    assert printed.code == 0
    expected = printed.text
    assert "\n1 passed, 0 failed, 5 skipped\n5 tests did not run, as this machine lacks what they need: " in expected
    assert re.search(
        r"(?m)^fake +skipped +\d+ s, CPU +\d+ s +5 skipped; Java is missing: apt-get install ", printed.text
    )
    assert all(f"1 need {tool.name} ({tool.install})" in printed.last for tool in TOOLS)


def test_a_part_that_lacks_a_tool_and_skips_more_is_red(runner: Runner) -> None:
    """Another reason to skip is none to leave out a whole part."""
    printed = runner(fake(leaves(skipped("tests.fake.t.t"), skipped("tests.fake.t.u", "needs Maven: gone"))), BESIDE)
    assert printed.code == 1
    assert "\nfake: no test of tests/fake was executed\n" in printed.text
    assert "\n1 passed, 1 failed, 2 skipped\n" in printed.text


def test_a_part_that_lacks_its_tools_fails_in_ci(runner: Runner) -> None:
    """There every proof is wanted."""
    printed = runner(fake(LACKING), BESIDE, ci=True)
    assert printed.code == 1
    assert "1 passed, 5 failed, 0 skipped" in printed.text
    assert "\nfake: no test of tests/fake was executed\n" in printed.text


def test_a_tool_is_named_in_the_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `lacks` says is what the verdict understands; in CI the test fails instead."""
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception) as left_out:
        lacks(MAVEN, "the jars are not cached")
    assert str(left_out.value) == f"needs Maven: the jars are not cached. To install it: {MAVEN.install}"
    assert named_in(str(left_out.value)) == MAVEN
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="needs Maven"):
        lacks(MAVEN)


def test_a_lost_file_is_noticed(runner: Runner) -> None:
    """A file reports fewer tests than tests/counts.toml lists, although one of its folder was executed."""
    counts = {"tests/fake/test_a.py": 1, "tests/fake/test_b.py": 2, "tests/fake/test_c.py": 5}
    whole = leaves(
        case("tests.fake.test_a.test_one"), case("tests.fake.test_b.Class.test_one"), skipped("tests.fake.test_c")
    )
    printed = runner(replace(fake(whole), counts=counts), BESIDE)
    assert printed.code == 1
    [line] = re.findall(r"(?m)^fake: .*$", printed.text)
    assert line.startswith("fake: tests/fake/test_b.py: 1 tests, tests/counts.toml lists 2 ")
    assert ", 1 failed, " in printed.last


def test_each_file_is_counted() -> None:
    """tests/counts.toml lists every test file but those that only the full run includes."""
    listed = {file for files in COUNTS.values() for file in files}
    there = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    assert listed <= there, "run python -m tests.counts"
    only_full = {name for name in selection.listed()["full"] if "::" not in name}
    left_out = {file for file in there - listed - only_full if not file.startswith("tests/kafka/clock/")}
    assert left_out == set(), "run python -m tests.counts"


BUSY = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; "


def test_a_budget_is_processor_time(runner: Runner) -> None:
    """That of children, too; the default run says that it was exceeded by three tenths, and the full run fails."""
    busy = replace(fake(f"({BUSY}); {GOOD}"), budget=0.01)
    printed = runner(busy)
    assert printed.code == 0
    assert re.search(
        r"(?m)^fake +ok +\d+ s, CPU +\d+ s of 0 +\d+ s of processor time, the budget is 0; 1 p", printed.text
    )
    printed = runner(replace(busy, within_budget=True))
    assert (printed.code, printed.last) == (1, "1 passed, 1 failed, 0 skipped")
    assert runner(replace(fake(f"sleep 0.5; {GOOD}"), budget=0.2, within_budget=True)).code == 0


ORPHANS = f"""
import os, sys
from pathlib import Path
from tests.runner.processes import Processes, adopt_orphans
adopt_orphans()
script = "sh -c '{BUSY}echo done >done; sleep 60' & until [ -e done ]; do sleep 0.05; done"
print(Processes(Path(sys.argv[1]), os.environ).run(("sh", "-c", script), {{}}, Path(sys.argv[1]) / "log", 60))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt")
def test_the_time_of_children_that_outlive_their_parent(tmp_path: Path) -> None:
    """As of Spark's JVM."""
    command = [sys.executable, "-c", ORPHANS, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert float(done.stdout.rpartition("processor_seconds=")[2].rstrip(")\n")) > 0.05


def test_durations_are_kept(runner: Runner, tmp_path: Path) -> None:
    """JUnit files stay, with the seconds of each file, and the slowest tests; a part has its budget by its time."""
    slow, quick = (f'<testcase classname="tests.fake.{n}" name="t" time="{t}"/>' for n, t in (("a", 7.5), ("b", 0.5)))
    printed = runner(replace(fake(leaves(slow, quick)), budget=30), BESIDE)
    assert re.search(r"(?m)^fake +ok +0 s, CPU +0 s of 30 +2 passed$", printed.text)
    shown = printed.text.partition("== durations")[2].partition("== summary")[0].splitlines()
    assert "     7.5  tests.fake.a" in shown
    assert "     0.5  tests.fake.b" not in shown
    assert "     0.5  files of less than 5 s each" in shown
    assert shown[shown.index("the 25 slowest tests") + 1] == "     7.5  fake: tests.fake.a.t"
    assert (tmp_path / "results" / "fake.xml").exists()
    assert "     0.5  tests.fake.b\n" in (tmp_path / "results" / "durations.txt").read_text()


def test_lanes(runner: Runner) -> None:
    """Two parts that compute and one that waits run side by side; one that is to be alone comes last."""
    together = "touch $0; for n in $(seq 100); do [ -e a ] && [ -e b ] && [ -e w ] && exit 0; sleep 0.1; done; exit 1"
    pairs = (("a", Lane.COMPUTING), ("b", Lane.COMPUTING), ("w", Lane.WAITING))
    beside = [Part(name, ("sh", "-c", f"{together}; ", name), lane=lane) for name, lane in pairs]
    alone = Part("alone", ("sh", "-c", "sleep 0.3; rm a b w c"), lane=Lane.ALONE)
    printed = runner(alone, *beside, Part("c", ("sh", "-c", "sleep 0.5; touch c")))
    assert (printed.code, printed.last) == (0, "0 passed, 0 failed, 0 skipped")


def test_nothing_begins_after_the_end(tmp_path: Path) -> None:
    """A lane that is between two parts when the run is stopped."""
    processes = Processes(tmp_path, os.environ)
    processes.stop()
    with pytest.raises(StoppedError):
        processes.run(("touch", "ran"), {}, tmp_path / "log", 5)
    assert not (tmp_path / "ran").exists()
