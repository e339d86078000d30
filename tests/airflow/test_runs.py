"""Runs of a DAG whose jobs are a shell script: what is tried again, who is told, what ends green.

Real Airflow, in this process; only the clone of the project is a stub, whose jobs end as they are told to.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from spark_assign_airflow.operators import launched

from tests.airflow.conftest import NOTIFIER, Airflow, imported

LAUNCHER = """#!/usr/bin/env bash
echo "asked: $*" >>{folder}/asked
echo "env SPARK_HOME=/spark {folder}/submit --name x --properties-file {folder}/p.conf --py-files {folder}/z.zip \
--conf spark.pyspark.python=/python --conf 'spark.master=of the connection' --driver-java-options '-Da=b c' r.py"
"""
SUBMIT = """#!/usr/bin/env bash
for word in "$@"; do case "$word" in *.py) job="$(basename "$word" .py)" ;; esac; done
printf '%s %s %s\\n' "$job" "$SPARK_HOME" "$*" >>{folder}/submitted
echo "$job says why"
[[ "$job" == check ]] && echo "check: 1 alerts in r"
code="$(cat {folder}/$job.exit 2>/dev/null)"
[[ "$*" != *"--cluster down "* ]] || code=3
while (($#)); do [[ "$1" != --outcome ]] || outcome="$2"; shift; done
if [[ "$code" != 137 ]]; then  # killed: it says nothing more
  mkdir -p "$(dirname "$outcome")"
  said='"summary": "check says why\\ncheck: 1 alerts in r"'
  printf '{{"exit_code": %s, %s, "error": {{"message": "%s says why"}}}}' "${{code:-0}}" "$said" "$job" >"$outcome"
fi
exit "$(cat {folder}/submit.exit 2>/dev/null || echo "${{code:-0}}")"
"""

JOBS = ["plan", "compare", "diff", "report", "check"]
Run = Callable[..., SimpleNamespace]


@pytest.fixture
def run(airflow: Airflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A function: exit codes by job (0 unless given), source and params, to what became of the run."""
    project = tmp_path / "clone"
    (project / "jobs").mkdir(parents=True)
    for name, text in (("spark-submit.sh", LAUNCHER), ("submit", SUBMIT)):
        (project / name).write_text(text.format(folder=project))
        (project / name).chmod(0o755)
    alerts = tmp_path / "told"

    def call(
        *,
        logical_date: datetime | None = datetime(2026, 11, 21, 5, tzinfo=UTC),
        source: str = 'fleet = "main.kafka"',
        params: dict[str, object] | None = None,
        **ends: int,
    ) -> SimpleNamespace:
        for job, code in ends.items():
            (project / f"{job}.exit").write_text(str(code))
        dag_id = f"stub_{tmp_path.name}"
        settings = tmp_path / "airflow.toml"
        settings.write_text(
            f'[[dag]]\ndag_id = "{dag_id}"\n{source}\noutput = "{tmp_path}/out"\nproject = "{project}"\n'
            f'retries = 2\nretry_delay_s = 0\nnotify = {{ class = "{NOTIFIER}.Line", to = "{alerts}" }}\n'
        )
        monkeypatch.setenv("SPARK_ASSIGN_AIRFLOW", str(settings))
        made = imported(settings)[dag_id].test(logical_date=logical_date, run_conf=params)
        submitted = (project / "submitted").read_text().splitlines()
        states = {ti.task_id: str(ti.state) for ti in made.get_task_instances()}
        text = alerts.read_text() if alerts.exists() else ""
        return SimpleNamespace(
            state=str(made.state),
            states=states,
            submitted=submitted,
            jobs=[line.split()[0] for line in submitted],
            alerts=text,
        )

    return call


def test_all_is_well(run: Run, tmp_path: Path) -> None:
    """Every job once, as the launcher says: its binary, package, settings and interpreter; the connection's master."""
    done = run()
    assert (done.state, done.jobs) == ("success", JOBS)
    job, spark_home, line = done.submitted[0].split(" ", 2)
    assert (job, spark_home) == ("plan", "/spark")
    for part in ("--master local[2]", "--deploy-mode client", "--conf spark.pyspark.python=/python", "/z.zip"):
        assert part in line
    assert "--conf spark.driver.extraJavaOptions=-Da=b c" in line
    assert "of the connection" not in line
    assert (
        f"/clone/jobs/plan.py --fleet main.kafka --assignor configured --output {tmp_path}/out/plans"
        " --run-id 20261121T050000Z --outcome /"
    ) in line
    outcomes = [each.rpartition("--outcome ")[2] for each in done.submitted]
    assert len(set(outcomes)) == len(JOBS)
    assert not any(Path(each).exists() for each in outcomes), "read, and removed"
    assert (tmp_path / "out" / "reports").is_dir(), "which the job report wants to be there"
    assert done.alerts == ""


def test_a_cluster_is_read_first(run: Run, tmp_path: Path) -> None:
    """Into a folder of the date, which the plan then reads; a cluster that does not answer is asked again."""
    done = run(source='bootstrap_server = "b:9092"\narguments = { snapshot = ["--group", "pay*"] }', snapshot=3)
    assert (done.state, done.jobs) == ("failed", ["snapshot"] * 3)
    arguments = f"--bootstrap-server b:9092 --fleet-dir {tmp_path}/out/snapshots/20261121T050000Z --group pay*"
    assert f"/clone/jobs/snapshot.py {arguments} --outcome /" in done.submitted[0]


@pytest.mark.parametrize("steps", ["watch", "daily"])
def test_a_cluster_that_is_down_does_not_stop_the_others(run: Run, tmp_path: Path, steps: str) -> None:
    """A mapped task takes a snapshot of each; the one that fails is retried and reported, and the rest runs."""
    file = tmp_path / "clusters.toml"
    servers = "".join(f"[clusters.{name}]\nbootstrap_server = '{name}:9092'\n" for name in ("a", "down", "b"))
    file.write_text(servers + "[[owners]]\nteam = 'platform'\n")
    done = run(source=f'clusters = "{file}"\nsteps = "{steps}"')
    watch = steps == "watch"
    assert (done.state, done.jobs) == ("success", ["snapshot"] * 5 + (JOBS if watch else ["daily"]))
    read = [re.findall(r"--cluster (\w+) --clusters \S+ --fleet-dir (\S+)", line) for line in done.submitted[:5]]
    snapshots = f"{tmp_path}/out/snapshots"
    assert sorted(pair for (pair,) in read) == [("a", snapshots), ("b", snapshots), *[("down", snapshots)] * 3]
    assert "snapshot try 3: snapshot failed: snapshot says why" in done.alerts
    if watch:
        with_owners = [job for job, line in zip(done.jobs, done.submitted, strict=True) if f"--owners {file}" in line]
        assert with_owners == ["plan", "report", "check"]
        assert f"--fleet {snapshots} " in done.submitted[5]
    else:
        assert f"--no-snapshot --fleet-dir {snapshots} --clusters {file} --max-growth 1.25" in done.submitted[5]
        assert f"--fail-on alerts --output {tmp_path}/out --run-id 20261121T050000Z" in done.submitted[5]


def test_an_alert_of_the_day(run: Run) -> None:
    """The page is written; the task fails with the summary, once."""
    done = run(source='fleet = "/fleet"\nsteps = "daily"', daily=1)
    assert (done.state, done.jobs, done.states) == ("failed", ["daily"], {"daily.page": "failed"})
    assert "daily.page try 1: beyond the thresholds:\ncheck says why" in done.alerts


def test_wrong_input_is_not_tried_again(run: Run) -> None:
    """Exit code 2: once; what follows does not run; somebody is told, in the job's words."""
    done = run(plan=2)
    assert (done.state, done.jobs) == ("failed", ["plan"])
    assert done.states["compare"] == "upstream_failed"
    assert "plan try 1: plan: wrong usage or input (exit code 2), not retried:\nplan: plan says why" in done.alerts


def test_a_failure_is_tried_again(run: Run) -> None:
    """Exit code 3: as often as the DAG says; somebody is told at the end."""
    done = run(compare=3)
    assert (done.state, done.jobs) == ("failed", ["plan", "compare", "compare", "compare"])
    assert done.alerts.count("compare try") == 1
    assert "compare try 3: compare failed: compare says why" in done.alerts


def test_a_job_that_is_killed_is_tried_again(run: Run) -> None:
    """It has left no outcome; what spark-submit says is kept."""
    done = run(plan=137)
    assert (done.state, done.jobs) == ("failed", ["plan"] * 3)
    assert "Error code is: 137" in done.alerts


@pytest.mark.parametrize(("code", "jobs"), [(2, ["plan"]), (3, ["plan"] * 3)])
def test_a_driver_in_the_cluster(run: Run, tmp_path: Path, code: int, jobs: list[str]) -> None:
    """spark-submit knows nothing of its end: 0 here. The job says it, in the place that both see."""
    done = run(source='fleet = "main.kafka"\ndeploy_mode = "cluster"', plan=code, submit=0)
    assert (done.state, done.jobs) == ("failed", jobs)
    assert "--deploy-mode cluster" in done.submitted[0]
    assert (f"--outcome {tmp_path}/out/outcomes/20261121T050000Z/plan-try1-") in done.submitted[0]
    assert "plan says why" in done.alerts
    assert len(list((tmp_path / "out" / "outcomes" / "20261121T050000Z").iterdir())) == len(jobs)


def test_an_outcome_that_is_nowhere(run: Run) -> None:
    """All is well, says spark-submit, and the job has said nothing: the task does not pass for done."""
    done = run(source='fleet = "main.kafka"\ndeploy_mode = "cluster"', plan=137, submit=0)
    assert done.state == "failed"
    assert "plan: it wrote no outcome" in done.alerts
    assert "The expected outcome file is " in done.alerts


def test_an_alert_fails_the_run(run: Run) -> None:
    """Exit code 1 of check: not retried; everything before it is done."""
    done = run(check=1)
    assert (done.state, done.jobs.count("check")) == ("failed", 1)
    assert (done.states["report"], done.states["check"]) == ("success", "failed")
    assert "check try 1: beyond the thresholds:\ncheck says why\ncheck: 1 alerts in r" in done.alerts


def test_an_alert_that_is_to_warn(run: Run) -> None:
    """The run is a success, its last task skipped, and somebody is told all the same."""
    done = run(check=1, params={"alert": "warn"})
    assert (done.state, done.states["check"]) == ("success", "skipped")
    assert "check says why\ncheck: 1 alerts in r" in done.alerts


def test_a_run_by_hand_without_a_date(run: Run) -> None:
    """Its id is that of the dag run, in characters that the jobs take."""
    done = run(logical_date=None)
    assert done.state == "success"
    (run_id,) = {line.split("--run-id ")[1].split()[0] for line in done.submitted if "--run-id" in line}
    assert re.fullmatch(r"manual__2[A-Za-z0-9._-]+-[0-9a-f]{6}", run_id)


def test_no_clone(run: Run, tmp_path: Path) -> None:
    """A folder that is none is said once, and not retried."""
    (tmp_path / "clone" / "spark-submit.sh").rename(tmp_path / "elsewhere")
    (tmp_path / "clone" / "submitted").touch()
    done = run()
    assert (done.state, done.jobs) == ("failed", [])
    assert "no spark-submit.sh found; specify the folder of a clone" in done.alerts
    assert json.dumps(done.alerts).count("plan try") == 1


def test_a_set_up_that_fails_shows_no_setting_of_spark(airflow: Airflow, tmp_path: Path) -> None:
    """The log of a task and its notifier would have the passwords of Hadoop's file systems."""
    (tmp_path / "spark-submit.sh").write_text("#!/usr/bin/env bash\necho no such environment >&2\nexit 2\n")
    (tmp_path / "spark-submit.sh").chmod(0o755)
    with pytest.raises(Exception, match="ended with 2") as error:
        launched(str(tmp_path), "nope", {"spark.hadoop.fs.s3a.secret.key": "hunter2=x", "spark.master": "local"})
    assert "--conf 'spark.hadoop.fs.s3a.secret.key=…' --conf 'spark.master=…'" in str(error.value)
    assert "hunter2" not in str(error.value)


PRINTS = """#!{python}
import shlex, sys
print("set up")
print(shlex.join(["env", "A=b", "/submit", *sys.argv[3:-2], "r.py"]))
"""


def test_settings_of_spark_with_line_ends(tmp_path: Path) -> None:
    """They arrive as given. A NUL, which no program can be given, is wrong input that is named and not retried."""
    (tmp_path / "spark-submit.sh").write_text(PRINTS.format(python=sys.executable))
    (tmp_path / "spark-submit.sh").chmod(0o755)
    ends = ("\n", "\r\n", "\r", "\f", "\u2028", "\x85", "\nenv ")
    conf = {f"spark.{at}": f"a{end}b{end}" for at, end in enumerate(ends)}
    conf["spark.\nx"] = ""
    found = launched(str(tmp_path), "local", conf)
    assert (found.binary, found.environment) == ("/submit", {"A": "b"})
    assert found.of("--conf") == [f"{key}={value}" for key, value in conf.items()]
    with pytest.raises(AirflowFailException, match=r"'spark\.x' has a NUL character"):
        launched(str(tmp_path), "local", {"spark.x": "a\0b"})


def test_a_param_with_a_nul(run: Run, tmp_path: Path) -> None:
    """It is said once, and not retried."""
    (tmp_path / "clone" / "submitted").touch()
    done = run(params={"assignor": "a\0b"})
    assert (done.state, done.jobs) == ("failed", [])
    assert "'argument 4' has a NUL character" in done.alerts
    assert json.dumps(done.alerts).count("plan try") == 1
