"""How the process of a job ends: signals, and a standard output that has the result only."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]

JOB = """
import subprocess, sys, threading, time
from spark_assign.cli.job import job
from spark_assign.cli.process import starting_session

@job("An example.", "Exit codes.", name="example")
def main(options):
    with starting_session():
        subprocess.run(["echo", "of a child"])
    print("result", flush={flushes})
    if {waits}:
        threading.Thread(target=time.sleep, args=(600,)).start()
        print("ready", file=sys.stderr, flush=True)
        time.sleep(600)
    return 0

sys.exit(main())
"""
"""A job without Spark; its child stands for the JVM, and its thread for a step that runs beside others."""


def started(
    tmp_path: Path, waits: bool, stdout: int | None = subprocess.PIPE, *words: str, flushes: bool = False
) -> subprocess.Popen[str]:
    """The job in a process of its own."""
    file = tmp_path / "example.py"
    file.write_text(JOB.format(waits=waits, flushes=flushes))
    command = [sys.executable, str(file), "--outcome", str(tmp_path / "outcome.json"), *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("number", "code", "word", "kind"),
    [(signal.SIGINT, 130, "interrupted", "KeyboardInterrupt"), (signal.SIGTERM, 143, "terminated", "Terminated")],
)
def test_a_signal_is_a_line_a_code_and_an_outcome(
    number: signal.Signals, code: int, word: str, kind: str, tmp_path: Path
) -> None:
    """Also while another thread still works."""
    process = started(tmp_path, waits=True)
    assert process.stderr is not None
    printed = ""
    while not printed.endswith("ready\n"):
        line = process.stderr.readline()
        assert line, printed
        printed += line
    time.sleep(0.05)
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert process.returncode == code
    assert out == "result\n"
    (line,) = error.splitlines()
    assert line.endswith(f" example: {word}")
    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert (outcome["exit_code"], outcome["error"]) == (code, {"kind": kind, "message": word})


@pytest.mark.parametrize("job", sorted(file.name for file in (ROOT / "jobs").glob("[a-z]*.py")))
def test_ctrl_c_while_modules_are_imported(job: str, tmp_path: Path) -> None:
    """A line and a code, as later: the first module of this project that a job imports sees to it."""
    imports = re.findall(r"^(?:from|import) (spark_assign\S*)", (ROOT / "jobs" / job).read_text(), re.MULTILINE)
    assert imports[0].startswith("spark_assign.cli")
    if job == "snapshot.py":
        (tmp_path / "click.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
        (tmp_path / job).write_text("import spark_assign.cli\nimport click")
        command = [sys.executable, str(tmp_path / job)]
        ended = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "snapshot: interrupted\n")


def test_what_a_child_prints_is_on_standard_error(tmp_path: Path) -> None:
    """The JVM prints its warnings on standard output."""
    out, error = started(tmp_path, waits=False).communicate(timeout=60)
    assert (out, error) == ("result\n", "of a child\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("flushes", [True, False], ids=["while it runs", "at the end"])
@pytest.mark.parametrize("format", ["table", "json"])
def test_a_full_standard_output_is_a_failure(tmp_path: Path, format: str, flushes: bool) -> None:
    """One line, exit code 3. It doesn't look like a full disk of the output."""
    with open("/dev/full", "w") as full:
        process = started(tmp_path, False, full.fileno(), "-o", format, flushes=flushes)
        error = process.communicate(timeout=60)[1]
    assert process.returncode == 3
    (line,) = [line for line in error.splitlines() if line != "of a child"]
    assert line.endswith("example: standard output can't be written: No space left on device")


@pytest.mark.parametrize("flushes", [True, False], ids=["while it runs", "at the end"])
@pytest.mark.parametrize("words", [["-o", "table"], ["-o", "json"], ["--help"]], ids=" ".join)
def test_a_closed_pipe_ends_quietly(tmp_path: Path, words: list[str], flushes: bool) -> None:
    """As tools of Unix do in `spark-assign plan | head -1`: no message, and the exit code of SIGPIPE."""
    reader, writer = os.pipe()
    os.close(reader)
    process = started(tmp_path, False, writer, *words, flushes=flushes)
    os.close(writer)
    error = process.communicate(timeout=60)[1]
    assert (process.returncode, error.replace("of a child\n", "")) == (141, "")


SERVER = """
import sys
from spark_assign.cli import job, mcp_questions, process
questions = object.__new__(mcp_questions.Questions)
run = lambda: job.run_job("mcp", lambda: mcp_questions.serve(questions, None) or 0, verbose=False)
sys.exit(process.with_output_written(run, "mcp"))
"""


@pytest.mark.parametrize(
    ("redirections", "code", "message"),
    [
        (">&-", 0, ""),
        ("<&-", 0, ""),
        ("| true", 141, ""),
        (">/dev/full", 3, "mcp: standard input or standard output failed: No space left on device"),
    ],
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_client_that_closes_its_end(redirections: str, code: int, message: str) -> None:
    """The transport of the SDK raises a group of exceptions; and without standard input, there is no client."""
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    script = f"""{{ sleep 1; echo '{ping}'; }} | {{ "$0" -c "$1" {redirections}; exit "${{PIPESTATUS[0]}}"; }}"""
    command = ["bash", "-c", script, sys.executable, SERVER]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert ended.stderr.rstrip().endswith(message) if message else not ended.stderr


def test_what_hangs_at_the_end_is_left() -> None:
    """A client of Spark Connect hangs if Ctrl-C has left a lock of it held. Temporary files are removed before."""
    program = """
import atexit, sys, threading
from spark_assign.cli import process
process.EXIT_SECONDS = 0.1
sys.modules["pysail"] = sys
atexit.register(threading.Event().wait)
atexit.register(print, "removed")
process.leave(130)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "removed\n", "")


def test_after_an_error_no_thread_of_the_engine_aborts_the_process() -> None:
    """A process of the embedded engine ends at once, after its temporary files are removed; code 0 ends as ever."""
    program = """
import atexit, sys, threading, time
from spark_assign.cli.process import leave
sys.modules["pysail"] = sys
atexit.register(print, "removed")
leave(0)
threading.Thread(target=time.sleep, args=(600,)).start()
leave(2)
"""
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (process.returncode, process.stdout, process.stderr) == (2, "removed\n", "")


def test_without_a_further_thread_the_process_ends() -> None:
    """The system can refuse one (ulimit -u)."""
    program = """
import sys, threading
from spark_assign.cli.process import leave
sys.modules["pysail"] = sys
def start(thread):
    raise RuntimeError("can't start new thread")
threading.Thread.start = start
leave(3)
"""
    process = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert (process.returncode, process.stderr) == (3, b"")


PRINTS = """
import sys
from spark_assign.cli.job import job
from spark_assign.cli.process import starting_session
from spark_assign.report.formatting import listed

@job("An example.", "Exit codes.", name="example")
def main(options):
    listed("groups", [{"group_id": "ü\U0001f600"}])
    with starting_session():
        pass
    print("ü – \U0001f600")
    return 0

sys.exit(main())
"""


def printed(
    tmp_path: Path, *words: str, streams: str = "", encoding: str = "ascii"
) -> subprocess.CompletedProcess[str]:
    """What the job prints on standard output of an encoding, or with streams that the shell has closed."""
    (tmp_path / "prints.py").write_text(PRINTS, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": encoding}
    command = shlex.join([sys.executable, str(tmp_path / "prints.py"), *words])
    shell = ["sh", "-c", f"{command} {streams}"]
    return subprocess.run(shell, env=environment, capture_output=True, text=True, encoding=encoding)


def test_characters_that_standard_output_lacks(tmp_path: Path) -> None:
    """They are codes, and don't end a job that has done its work. JSON stays JSON."""
    text = printed(tmp_path)
    assert (text.returncode, text.stdout, text.stderr) == (0, "\\xfc \\u2013 \\U0001f600\n", "")
    assert printed(tmp_path, "-o", "csv").stdout == "group_id\n\\xfc\\U0001f600\n"
    for format, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        for encoding in ("ascii", "latin-1", "utf-8"):
            document = read(printed(tmp_path, "-o", format, encoding=encoding).stdout)
            assert document["tables"]["groups"] == [{"group_id": "ü\U0001f600"}]
            assert document["summary"] == "ü – \U0001f600"


@pytest.mark.parametrize("streams", [">&-", "<&- >&- 2>&-"])
def test_standard_output_that_is_closed(streams: str, tmp_path: Path) -> None:
    """What is printed is lost; the job ends as otherwise."""
    for words in ((), ("-o", "json")):
        ended = printed(tmp_path, *words, streams=streams)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
