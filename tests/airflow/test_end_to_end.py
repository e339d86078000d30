"""`airflow dags test` of the DAG with the real jobs: what a scheduler would run, on SQLite, on this machine.

One story, told in the order of the tests: a date, the same date again, the next date, and input that is broken.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.airflow.conftest import NOTIFIER, ROOT, Airflow
from tests.docs import pages, shown
from tests.docs.terminal import Line

SETTINGS = f"""
[[dag]]
dag_id = "fleet"
fleet = "./fleet"
output = "./out"
assignor = "sticky"
assignors = ["range", "sticky"]
max_rejected = 1
retries = 2
retry_delay_s = 0
project = "{ROOT}"
notify = {{ class = "{NOTIFIER}.Line", to = "SENT" }}

# Starting and compiling are what takes the time here.
[dag.conf]
"spark.sql.codegen.wholeStage" = false
"spark.sql.codegen.factoryMode" = "NO_CODEGEN"
"spark.sql.adaptive.enabled" = false
"spark.sql.shuffle.partitions" = 1
"spark.driver.memory" = "1g"
"spark.driver.defaultJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

[[dag]]
dag_id = "broken"
fleet = "./nothing"
output = "./out"
retries = 2
retry_delay_s = 0
project = "{ROOT}"
"""


PAGE = "docs/airflow.md"


@dataclass
class Story:
    """Where it plays, and what has been seen of it so far."""

    airflow: Airflow
    folder: Path
    files: dict[str, set[str]] = field(default_factory=dict)

    def run(self, dag_id: str, date: str, without: str = "", **conf: object) -> subprocess.CompletedProcess[str]:
        """A run of a date; `without` some tasks, each of which would be a start of Spark."""
        more = ["--conf", json.dumps(conf)] if conf else []
        more += ["--mark-success-pattern", without] if without else []
        done = self.airflow("dags", "test", dag_id, date, *more, SPARK_ASSIGN_AIRFLOW=f"{self.folder}/airflow.toml")
        with (self.folder / "said").open("a") as file:
            file.write(done.stdout + done.stderr)
        return done

    def written(self) -> set[str]:
        """Tables and reports, without the names that differ from attempt to attempt."""
        found = set()
        for path in (self.folder / "out").rglob("*"):
            if path.is_dir() and path.name.startswith("attempt="):
                found.add(str(path.parent.relative_to(self.folder / "out")))
                assert len(list(path.parent.iterdir())) == 1, "what was replaced is gone"
            elif path.suffix == ".html":
                found.add(str(path.relative_to(self.folder / "out")))
        return found

    def alerts(self) -> str:
        """What the notifier has been told."""
        file = self.folder / "sent"
        return file.read_text() if file.exists() else ""


def lost(lines: list[str], output: str, story: Story) -> str | None:
    """The first line of the page that Airflow does not say behind the one before it, whatever it says around them."""
    output = output.replace(str(story.folder), ".").replace(str(ROOT), "/opt/spark_assign")
    for line in "\n".join(line for line in lines if line != shown.LEFT_OUT).replace("\n  ", " ").splitlines():
        found = re.search(rf"(?<!\S){shown.pattern(line).pattern}(?!\S)", output)
        if found is None:
            return line
        output = output[found.end() :]
    return None


@pytest.fixture(scope="module")
def story(airflow: Airflow, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The sample fleet, and a group in it that lists a member twice."""
    folder = tmp_path_factory.mktemp("story")
    shutil.copytree(ROOT / "conf" / "sample-fleet", folder / "fleet")
    members = folder / "fleet" / "members.csv"
    with members.open() as file:
        header = next(csv.reader(file))
    twice = {"cluster": "shop-prod", "group_id": "twice", "member_id": "m"}
    with members.open("a") as file:
        csv.DictWriter(file, header, lineterminator="\n").writerows([twice, twice])
    (folder / "nothing").mkdir()
    (folder / "out").mkdir()
    (folder / "airflow.toml").write_text(SETTINGS.replace("SENT", str(folder / "sent")))
    return Story(airflow, folder)


def test_a_date(story: Story) -> None:
    """Every table and the report, under the id of the date; the rejected group is within the threshold."""
    done = story.run("fleet", "2026-11-20T05:00:00")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    output = done.stdout + done.stderr
    assert "groups planned, 1 rejected" in output
    assert "/out/plans@20261120T050000Z" in output.partition("From no earlier run to ")[2].partition("\n")[0]
    assert "check: 0 alerts in 20261120T050000Z" in output
    assert lost(pages.block(PAGE, "[DAG TEST]"), output, story) is None
    story.files["first"] = story.written()
    assert {"plans/assignment_slices/run_id=20261120T050000Z", "reports/20261120T050000Z.html"} < story.files["first"]
    found = {"comparisons/comparison/run_id=20261120T050000Z", "drifts/groups/run_id=20261120T050000Z"}
    assert found < story.files["first"]
    assert all("20261120T050000Z" in name for name in story.files["first"])
    assert story.alerts() == ""


def test_the_same_date_again(story: Story) -> None:
    """Replaces its run and nothing else. This time no rejected group is allowed: the run is green, somebody is told."""
    done = story.run("fleet", "2026-11-20T05:00:00", "compare|diff|report", max_rejected=0, alert="warn")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert story.written() == story.files["first"]
    assert "fleet.check try 1: " in story.alerts()
    assert "twice  rejected" in story.alerts()
    assert "check: 1 alert in 20261120T050000Z" in story.alerts()


def test_the_next_date(story: Story) -> None:
    """Its drift is from the date before. Range deals some groups worse than sticky did: the run fails, once."""
    (story.folder / "sent").unlink()
    done = story.run("fleet", "2026-11-21T05:00:00", "compare|report", assignor="range")
    assert done.returncode != 0
    places = [f"{story.folder}/out/plans@{date}T050000Z" for date in ("20261120", "20261121")]
    assert f"From {places[0]} to {places[1]}" in done.stdout + done.stderr
    assert story.alerts().count("fleet.check try") == 1
    assert "clickstream-archive" in story.alerts()
    assert "imbalance" in story.alerts()
    assert "rejected" not in story.alerts()
    alerts = [line for line in story.alerts().splitlines() if line != "---"]
    assert shown.lost(pages.block(PAGE, "fleet.check try"), map(Line, alerts)) is None
    added = story.written() - story.files["first"]
    again = {name for name in story.files["first"] if not name.startswith(("comparisons", "reports"))}
    assert added == {name.replace("20261120", "20261121") for name in again}


def test_broken_input(story: Story) -> None:
    """A folder without tables: the plan fails once, nothing is written, what follows does not run."""
    before = story.written()
    done = story.run("broken", "2026-11-20T05:00:00")
    assert done.returncode != 0
    output = done.stdout + done.stderr
    assert "plan: wrong usage or input (exit code 2), not retried" in output
    assert "members: looked for members.parquet, members.csv" in output
    assert output.count("Spark-Submit cmd") == 1
    assert story.written() == before
