"""The launcher and the plan job from outside: what is printed, what is written, how it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.e2e.conftest import ROOT, Submit
from tests.runner.tools import JAVA, lacks

pytestmark = pytest.mark.spark


MODULES = ("ensurepip", "hashlib", "importlib", "jobs", "pip", "pyspark", "re", "shlex", "tomllib", "venv", "zipfile")


def plant_modules(folder: Path) -> Path:
    """Writes modules with names of others, which fail. Returns the file that they write when they are imported."""
    imported = folder / "imported.txt"
    for name in MODULES:
        text = f"with open({str(imported)!r}, 'a') as file:\n    file.write('{name} ')\nraise SystemExit('{name}')\n"
        (folder / f"{name}.py").write_text(text)
    return imported


def test_without_arguments_the_launcher_lists_its_jobs(submit: Submit) -> None:
    """The first thing that a new user sees."""
    done = submit()
    assert done.returncode == 0
    assert "plan       Plan every group of a fleet" in done.stdout
    assert "kubernetes, local, standalone, yarn" in done.stdout


def test_plan_without_arguments_plans_the_sample_fleet(submit: Submit, tmp_path: Path) -> None:
    """One command, a readable summary, exit code 0, and nothing that Spark or the JVM prints. Neither the job nor the
    workers import modules of the current folder."""
    imported = plant_modules(tmp_path)
    done = submit("plan", cwd=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert not imported.exists()
    assert "No options given, so the bundled sample fleet is planned" in done.stderr
    assert "19 groups planned, 0 rejected, 82 members" in done.stdout
    assert "Written to output/plan" in done.stdout
    assert (tmp_path / "output" / "plan" / "metrics").is_dir()
    assert " WARN " not in done.stderr
    assert "read the fleet's tables in" in done.stderr
    assert not re.search("WARN|log level|[0-9]{2}:[0-9]{2}:[0-9]{2}", done.stdout)
    assert not re.search("WARN|log level", done.stderr)


def test_the_embedded_engine_plans_the_same(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """As JSON: standard output is one document. A token of a Spark Connect server isn't for the embedded engine."""
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "of another server")
    submit: Submit = request.getfixturevalue("submit")
    plant_modules(tmp_path)
    done = submit("plan", "--sample", "-o", "json", cwd=str(tmp_path), program="spark-assign")
    assert json.loads(done.stdout)["counts"] == {"groups": 22, "rejected": 0}


OF_A_USER = """
import sys
from pyspark.sql import SparkSession
from beside import doubled
ids = SparkSession.builder.getOrCreate().range(2).mapInPandas(doubled, "id long")
print(sys.argv[1:], ids.agg({"id": "sum"}).head()[0])
"""


def test_a_printed_line_runs_when_it_is_pasted(submit: Submit, tmp_path: Path) -> None:
    """Quoted, complete, and independent of folder and environment. Workers import a module beside a user's script."""
    (tmp_path / "mine.py").write_text(OF_A_USER)
    (tmp_path / "beside.py").write_text("def doubled(batches):\n    yield from (2 * batch for batch in batches)\n")
    done = submit("--conf", "spark.app.name=a b", "--dry-run", str(tmp_path / "mine.py"), "one word")
    assert done.returncode == 0, done.stderr
    assert "--py-files" in done.stdout
    assert len(done.stdout.strip().splitlines()) == 1
    pasted = subprocess.run(
        ["bash", "-c", done.stdout], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert pasted.returncode == 0, pasted.stderr
    assert pasted.stdout == "['one word'] 2\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plann"], "there is no job 'plann'"),
        (["--env", "mesos", "plan"], "there is no environment 'mesos'"),
        (["--env", "standalone", "plan"], "does not say where the cluster is"),
        (["--nonsense"], "unknown option --nonsense"),
        (["plan", "--nonsense"], "No such option"),
    ],
)
def test_wrong_usage_is_exit_code_2(submit: Submit, arguments: list[str], message: str) -> None:
    """Found before a session is started; nothing is on standard output. tests/unit/test_checks_before_spark.py has more
    of what jobs refuse.
    """
    done = submit(*arguments)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "needs_spark"),
    [
        (["simulate", "crash", "--pictures-dir", "x"], False),
        (["simulate"], True),
        (["simulate", "deploy-fleet"], True),
        (["simulate", "--fleet", "x"], True),
        (["simulate", "90x10", "--output", "x", "--run-id", "one"], False),
        (["simulate", "90x10", "--output", "x", "--output-format", "csv"], True),
        (["plan", "--run-id", "crash"], True),
        (["snapshot", "--fleet-dir", "x"], False),
        (["snapshot", "--table-prefix", "x"], True),
        (["plan", "--fleet", "x", "--help"], False),
    ],
)
def test_what_is_run_without_spark(submit: Submit, arguments: list[str], needs_spark: bool) -> None:
    """Reading from Kafka, and stories of one group or one Connect cluster."""
    done = submit("--dry-run", *arguments)
    assert done.returncode == 0, done.stderr
    assert ("bin/spark-submit" in done.stdout) is needs_spark


def test_history_with_sparks_reader_gets_the_kafka_source(submit: Submit) -> None:
    """Unless it is named. The default reader needs neither that nor, to follow a cluster, Spark."""
    history = ["history", "--bootstrap-server", "x:1", "--reader", "spark"]
    assert "--packages org.apache.spark:spark-sql-kafka" in submit("--dry-run", *history).stdout
    for words in (["--jars", "x.jar", "--dry-run", *history], ["--dry-run", *history[:-2]]):
        assert "spark-sql-kafka" not in submit(*words).stdout
    follow = ["--follow", "--archive", "./x"]
    assert "bin/spark-submit" in submit("--dry-run", *history, *follow).stdout
    assert "bin/spark-submit" not in submit("--dry-run", *history[:-2], *follow).stdout


def test_a_script_of_ones_own_may_be_called_like_a_job(submit: Submit, tmp_path: Path) -> None:
    """It gets Spark, whatever its arguments are called."""
    (tmp_path / "simulate.py").write_text("")
    done = submit("--dry-run", str(tmp_path / "simulate.py"), "crash")
    assert "bin/spark-submit" in done.stdout


def test_a_story_needs_no_java(tmp_path: Path) -> None:
    """Not even an installed one."""
    pytest.importorskip("vl_convert", reason="drawing is an extra")
    words = ["simulate", "textbook-join", "--pictures-dir", str(tmp_path)]
    command = [str(ROOT / "spark-submit.sh"), *words]
    without = {**os.environ, "JAVA_HOME": "/nowhere"}
    done = subprocess.run(command, env=without, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "Scenario textbook-join: " in done.stdout
    assert (tmp_path / "textbook-join.timeline.svg").exists()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone in a folder with an apostrophe and the environment of this one, and a Java that only makes class data:
    the word `classes`."""
    folder = tmp_path / "it's"
    (folder / "build").mkdir(parents=True)
    for name in ("spark_assign", "jobs"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "conf", folder / "conf", symlinks=True)
    for name in ("spark-assign", "spark-submit.sh", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    executable(folder / "java" / "bin" / "java", FAKE_JAVA)
    return folder


def executable(file: Path, text: str) -> None:
    """Writes a program."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


FAKE_JAVA = r"""#!/bin/bash
if [[ "$1" == -version ]]; then echo 'openjdk version "17.0.1"' >&2; exit; fi
sed -n 's/.*ArchiveClassesAtExit="\([^"]*\)".*/\1/p' <<<"$*" | while read -r file; do printf classes >"$file"; done
printf '\0\ntrue\0' # what Spark's launcher says is to be run
"""


def launch(
    clone: Path, *words: str, program: str = "spark-submit.sh", cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """A launcher of a clone, with the clone's Java."""
    own = {"JAVA_HOME": str(clone / "java"), "SPARK_ASSIGN_VENV": str(ROOT / ".venv")}
    environment = {**os.environ, **own, **variables}
    command = [str(clone / program), *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_class_data_are_made_by_the_set_up_and_used_where_they_are_whole(clone: Path) -> None:
    """Once; not where a file was cut short, not on a cluster, and not where the user wants none."""
    assert "SharedArchiveFile" not in launch(clone, "--dry-run", "plan").stdout
    done = launch(clone, "--set-up", "spark")
    assert done.returncode == 0, done.stderr
    assert "Keeping the class data of the JVM under build/class-data" in done.stderr
    [made] = clone.glob("build/class-data*/*.jsa")
    assert made.read_text() == "classes"
    assert launch(clone, "--set-up", "spark").stderr == ""
    line = launch(clone, "--dry-run", "plan").stdout
    options = next(word for word in shlex.split(line) if word.startswith("-Dlog4j2"))
    assert f'-XX:SharedArchiveFile="{made}"' in options
    assert "-Xshare:auto" in options
    assert "SharedArchiveFile" not in launch(clone, "--env", "yarn", "--dry-run", "plan").stdout
    assert "SharedArchiveFile" not in launch(clone, "--dry-run", "plan", SPARK_ASSIGN_CLASS_DATA="no").stdout
    made.write_text("cla")
    assert "SharedArchiveFile" not in launch(clone, "--dry-run", "plan").stdout


def test_a_set_up_without_class_data(clone: Path) -> None:
    """Where the user wants none, and where Java cannot make them: the set-up is done all the same."""
    done = launch(clone, "--set-up", "spark", SPARK_ASSIGN_CLASS_DATA="no")
    assert (done.returncode, done.stderr) == (0, "")
    java = clone / "java" / "bin" / "java"
    java.write_text(java.read_text().replace("printf classes", "true"))
    done = launch(clone, "--set-up", "spark")
    assert done.returncode == 0
    assert "They could not be kept, which only costs time" in done.stderr
    assert not list(clone.glob("build/class-data*/*.jsa"))


def test_options_of_the_jvm_are_quoted(clone: Path) -> None:
    """Also in a folder with an apostrophe: Spark splits them at blanks, and knows quotes and backslashes."""
    done = launch(clone, "--dry-run", "plan")
    assert done.returncode == 0, done.stderr
    (options,) = (word for word in shlex.split(done.stdout) if word.startswith("-Dlog4j2"))
    assert options.startswith(f'-Dlog4j2.configurationFile="file:{clone}/conf/spark/log4j2.properties" ')
    assert "-Xlog:all=warning:stderr" in options


def test_the_java_of_the_launcher_leaves_a_module_out(clone: Path) -> None:
    """The one for which the JVM prints a warning; all other words, and the exit code, are passed on."""
    executable(clone / "echo", "#!/bin/bash\nprintf '<%s>' \"$@\"\nexit 7\n")
    done = subprocess.run(
        [str(clone / "conf/spark/java/bin/java"), "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main"],
        env={**os.environ, "SPARK_ASSIGN_JAVA": str(clone / "echo")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, "<-cp><a b><Main>")


def test_a_jvm_that_cannot_start_is_exit_code_3(clone: Path) -> None:
    """Not 1, which means findings; standard output has nothing but results."""
    java = clone / "java" / "bin" / "java"
    java.write_text(java.read_text().replace("ntrue", "nfalse"))
    done = launch(clone, "plan", "--sample", SPARK_ASSIGN_CLASS_DATA="no")
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert "plan failed: PySparkRuntimeError: [JAVA_GATEWAY_EXITED]" in done.stderr


FAKE_PYTHON = r"""#!/bin/bash
case "$*" in
  *sys.executable*) echo "$0" ;;
  "-I -m venv --clear "*) mkdir -p "$5/bin"; cp "$0" "$5/bin/python" ;;
  *install.py\ *) echo "installed: $2" >&2 ;;
  *install.py | "-I -c "*) ;;
  *) echo "${SPARK_ASSIGN_ENGINE:-} $*" ;;
esac
"""


@pytest.fixture
def stubs(clone: Path) -> dict[str, str]:
    """Variables with which the set-up installs nothing, and jobs print the engine and their words."""
    executable(clone / "bin" / "python", FAKE_PYTHON)
    executable(
        clone / "bin" / "uname", '#!/bin/sh\ncase "$1" in -s) echo Linux ;; *) echo "${MACHINE:-x86_64}" ;; esac\n'
    )
    return {
        "SPARK_ASSIGN_PYTHON": str(clone / "bin" / "python"),
        "SPARK_ASSIGN_VENV": str(clone / ".venv"),
        "SPARK_ASSIGN_CLASS_DATA": "no",
        "JAVA_HOME": "/nowhere",
        "PATH": f"{clone / 'bin'}:{os.environ['PATH']}",
    }


def test_spark_assign_runs_the_embedded_engine(clone: Path, stubs: dict[str, str]) -> None:
    """Without Java, after a set-up of what the job needs; the second time without a set-up."""
    done = launch(clone, "plan", "--sample", program="spark-assign", **stubs)
    assert (done.returncode, done.stdout) == (0, f"embedded {clone}/jobs/plan.py --sample\n"), done.stderr
    assert "installed: embedded,kafka\n" in done.stderr
    done = launch(clone, "plan", "--top", "a b", program="spark-assign", **stubs)
    assert (done.stdout, done.stderr) == (f"embedded {clone}/jobs/plan.py --top a b\n", "")
    done = launch(clone, "report", program="spark-assign", **stubs)
    assert "installed: embedded,kafka,embedded,kafka,report\n" in done.stderr
    done = launch(clone, "--set-up", "embedded", program="spark-assign", **stubs)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_module_of_the_current_folder_is_imported(clone: Path, stubs: dict[str, str], tmp_path: Path) -> None:
    """By a set-up, and for a printed line. The stub of Python starts Python as it was called, too."""
    imported = plant_modules(tmp_path)
    program = clone / "bin" / "python"
    as_called = f'[[ "$1" != -* ]] || {sys.executable} "${{@:1:3}}" >/dev/null 2>&1 </dev/null || true\n'
    program.write_text(program.read_text().replace("case", as_called + "case", 1))
    stubs["JAVA_HOME"] = str(clone / "java")
    for launcher in ("spark-assign", "spark-submit.sh"):
        launch(clone, "--dry-run", "plan", program=launcher, cwd=tmp_path, **stubs)
        done = launch(clone, "--dry-run", "history", "--reader", "spark", program=launcher, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert not imported.exists(), imported.read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["--env", "local", "plan"],
        ["--dry-run", "--conf=a=b", "plan"],
        ["--packages", "x:y:1", "plan"],
        ["--jars=x.jar", "plan"],
        ["--py-files", "x.py", "--set-up"],
        ["mine.py"],
    ],
)
def test_options_of_spark_choose_spark(clone: Path, stubs: dict[str, str], words: list[str]) -> None:
    """./spark-submit.sh gets the same words."""
    executable(clone / "spark-submit.sh", "#!/bin/bash\nprintf '<%s>' \"$@\"\n")
    done = launch(clone, *words, program="spark-assign", **stubs)
    assert (done.stdout, done.stderr) == ("".join(f"<{word}>" for word in words), "")


def test_a_machine_without_a_wheel_of_the_engine_runs_spark(clone: Path, stubs: dict[str, str]) -> None:
    """It says so; so does a user who names Spark in the environment, without a word."""
    executable(clone / "spark-submit.sh", "#!/bin/bash\nprintf '<%s>' \"$@\"\n")
    done = launch(clone, "plan", "--sample", program="spark-assign", MACHINE="aarch64", **stubs)
    assert done.stdout == "<plan><--sample>"
    assert done.stderr == "spark-assign: Sail has no wheel for Linux aarch64, so Spark of this machine runs.\n"
    done = launch(clone, "plan", program="spark-assign", SPARK_ASSIGN_ENGINE="spark", **stubs)
    assert (done.stdout, done.stderr) == ("<plan>", "")


def test_spark_takes_the_place_of_the_embedded_engines_client(clone: Path, stubs: dict[str, str]) -> None:
    """In the same environment; ./spark-assign then runs on it without another set-up."""
    launch(clone, "plan", program="spark-assign", **stubs)
    with_java = {**stubs, "JAVA_HOME": str(clone / "java")}
    done = launch(clone, "--set-up", **with_java)
    assert "installed: embedded,kafka,spark,kafka\n" in done.stderr
    done = launch(clone, "plan", program="spark-assign", **stubs)
    assert (done.stdout, done.stderr) == (f"embedded {clone}/jobs/plan.py\n", "")


@pytest.mark.parametrize(
    ("words", "message"), [(["plann"], "there is no job 'plann'"), (["--nonsense"], "unknown option --nonsense")]
)
def test_wrong_words_of_spark_assign(clone: Path, stubs: dict[str, str], words: list[str], message: str) -> None:
    """Exit code 2 before the set-up."""
    done = launch(clone, *words, program="spark-assign", **stubs)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"spark-assign: {message}" in done.stderr
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize("program", ["spark-assign", "spark-submit.sh"])
def test_a_folder_with_a_colon(clone: Path, program: str) -> None:
    """One line: PYTHONPATH would take it for two folders."""
    done = launch(clone.rename(clone.parent / "c:d"), "plan", "--sample", program=program)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"{program}: the folder {clone.parent}/c:d has a colon in its path" in done.stderr


@pytest.mark.parametrize("program", ["spark-assign", "spark-submit.sh"])
def test_an_equals_sign_and_links(clone: Path, stubs: dict[str, str], program: str, tmp_path: Path) -> None:
    """A path with = isn't a variable, also in a printed line; a relative link to an absolute link is followed."""
    moved = clone.rename(clone.parent / "a=b")
    environment = {name: value.replace(str(clone), str(moved)) for name, value in stubs.items()}
    environment["JAVA_HOME"] = str(moved / "java")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "one").symlink_to(moved / program)
    (tmp_path / "two").symlink_to("links/one")
    words, ran = ("config", "--check", "x"), f"{moved}/jobs/config.py --check x\n"
    done = launch(tmp_path, *words, program="two", **environment)
    assert (done.returncode, done.stdout.partition(" ")[2]) == (0, ran), done.stderr
    (moved / "venv").symlink_to(ROOT / ".venv")
    words = ("--dry-run", "config", "--show", "plan")
    line = launch(moved, *words, program=program, SPARK_ASSIGN_VENV=str(moved / "venv")).stdout
    pasted = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (pasted.returncode, pasted.stdout != "") == (0, True), pasted.stderr


def test_missing_tables_are_exit_code_2(submit: Submit, tmp_path: Path) -> None:
    """Every missing table with where it was looked for; no traceback."""
    done = submit("plan", "--fleet", str(tmp_path), "--output", str(tmp_path / "out"), program="spark-assign")
    assert done.returncode == 2, done.stderr
    assert "members: looked for members.parquet, members.csv" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_rejected_groups_are_exit_code_1_where_the_user_asks(
    planned_here: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    """The plan is written all the same, by pattern, under the name given, and only what was asked for."""
    done, output = planned_here
    assert done.returncode == 1, done.stderr
    assert "2 groups planned, 1 rejected" in done.stdout
    assert "twice:" in done.stdout
    rows = ds.dataset(output / "assignments" / "run_id=r", format="parquet").to_table().to_pylist()
    assert len(rows) == 14
    assert {row["topic"] for row in rows if row["member_id"] == "p1"} == {"orders", "clicks"}
    assert not (output / "assignment_slices").exists()


def test_a_failure_is_exit_code_3(submit: Submit, fleet: str, tmp_path: Path) -> None:
    """What nobody can plan for: one clear line."""
    done = submit(*NO_RESULTS, "plan", "--fleet", fleet, "--output", str(tmp_path))
    assert done.returncode == 3, done.stderr
    assert "plan failed: " in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


NO_RESULTS = ("--conf", "spark.driver.maxResultSize=1")


def test_an_interrupt_and_the_end_of_the_job(submit: Submit, tmp_path: Path) -> None:
    """While Spark runs: one line, the exit code of a shell, an outcome, and no run."""
    if JAVA.program is None:
        lacks(JAVA)
    output, outcome = tmp_path / "out", tmp_path / "outcome.json"
    command = [str(ROOT / "spark-submit.sh"), "plan", "--sample", "--output", str(output), "--outcome", str(outcome)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "now writing" in line:
            break
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    out, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (out, error.splitlines()[-1][9:]) == ("", "plan: interrupted")
    assert json.loads(outcome.read_text())["error"] == {"kind": "KeyboardInterrupt", "message": "interrupted"}
    assert not list(output.glob("manifest/*"))


def printed(done: subprocess.CompletedProcess[str]) -> str:
    """Returns both streams."""
    return done.stdout + done.stderr
