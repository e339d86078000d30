"""How the jobs end when what they are given is wrong: exit code, message, and what else gets through."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import spark_assign
from jobs import history, plan, replicas, simulate
from spark_assign import Fleet, FleetError
from spark_assign.stores.run_store import read_run
from tests.spark import engine_commands
from tests.spark.fleets import tuples

pytestmark = [pytest.mark.spark, pytest.mark.once]

Job = Callable[[list[str]], int]

GROUPS, BROKERS = (
    {name.removesuffix(".csv"): text for name, text in tables.items()}
    for tables in (engine_commands.GROUPS | engine_commands.EVENTS, engine_commands.BROKERS)
)
CONNECT = {
    "clusters": "connect_cluster,protocol,now_ms,generation_id,last_completed_generation_id,max_delay_ms\n"
    "prod,sessioned,0,2,1,300000\n",
    "connectors": "connect_cluster,connector\nprod,files\n",
    "tasks": "connect_cluster,connector,task\nprod,files,0\nprod,files,1\n",
    "workers": "connect_cluster,worker_id\nprod,w1\nprod,w2\n",
    "reported": "connect_cluster,worker_id,kind,connector,task\nprod,w1,task,files,0\n",
}


@dataclass(frozen=True)
class Case:
    """A job, and a fleet that it can do something with."""

    job: Job
    tables: dict[str, str]
    command: tuple[str, ...] = ()

    def run(self, fleet: Path, *arguments: str) -> int:
        return self.job([*self.command, "--fleet", str(fleet), *arguments])


CASES = {
    "plan": Case(plan.main, {name: text for name, text in GROUPS.items() if name != "events"}, ()),
    "simulate": Case(simulate.main, GROUPS),
    "connect": Case(plan.main, CONNECT),
    "replicas": Case(replicas.main, BROKERS, ("check",)),
}
every_job = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def written(folder: Path, tables: dict[str, str]) -> Path:
    """A folder with a csv file per table."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def output(case: Case, folder: Path) -> list[str]:
    """Plan wants a place to write to; an earlier plan is not what is tested here."""
    return ["--output", str(folder / "out")] if case.job is plan.main else []


@every_job
def test_files_that_are_not_what_their_name_says(
    spark: SparkSession, case: Case, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Exit code 2 with the table and the file."""
    for name in case.tables:
        (tmp_path / f"{name}.parquet").write_bytes(b"PAR1 but no more than that PAR1")
    assert case.run(tmp_path, *output(case, tmp_path)) == 2
    first = next(iter(case.tables))
    assert f"{first}: file://{tmp_path}/{first}.parquet cannot be read: " in caplog.text
    assert "An error occurred while calling" not in caplog.text
    assert not (tmp_path / "out").exists()


@every_job
def test_csv_with_wrong_columns(
    spark: SparkSession, case: Case, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Exit code 2 with the table, the column that is missing, and those that are there."""
    first, text = next(iter(case.tables.items()))
    header, _, rows = text.partition("\n")
    last = header.split(",")[-1]
    wrong = {**case.tables, first: header.removesuffix(last) + "number\n" + rows}
    assert case.run(written(tmp_path, wrong), *output(case, tmp_path)) == 2
    assert f"{first}.{last}: the column is missing" in caplog.text
    assert not (tmp_path / "out").exists()


@every_job
def test_tables_without_rows(spark: SparkSession, case: Case, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Exit code 2, not a plan of nothing: a wrong folder is likelier than a fleet without anything."""
    empty = {name: text.partition("\n")[0] + "\n" for name, text in case.tables.items()}
    assert case.run(written(tmp_path, empty), *output(case, tmp_path)) == 2
    assert "the fleet is empty: there are no " in caplog.text
    assert not (tmp_path / "out").exists()


def test_groups_without_members(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are in the plan's metrics with no member; the others are planned as ever."""
    groups = "cluster,group_id,assignor\nc,g,range\nc,nobody,range\n"
    fleet = written(tmp_path, {**GROUPS, "groups": groups})
    arguments = ["--output", str(tmp_path / "out"), "--assignor", "configured", "--output-tables", "assignment_slices"]
    assert plan.main(["--fleet", str(fleet), *arguments]) == 0
    assert "2 groups planned, 0 rejected, 2 members, 4 partitions assigned" in capsys.readouterr().out
    metrics = read_run(spark, str(tmp_path / "out")).tables["metrics"]
    assert tuples(metrics, "group_id", "members", "partitions") == [("g", 2, 4), ("nobody", 0, 0)]


def test_a_cluster_without_workers_and_one_without_brokers(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is rejected by name, beside a sound one."""
    more = {
        **CONNECT,
        "clusters": CONNECT["clusters"] + "idle,sessioned,0,2,1,300000\n",
        "tasks": CONNECT["tasks"] + "idle,files,0\n",
        "connectors": CONNECT["connectors"] + "idle,files\n",
    }
    plan.main(["--fleet", str(written(tmp_path / "connect", more)), "--output", str(tmp_path / "out")])
    output = capsys.readouterr().out
    assert "idle" in output
    lost = {**BROKERS, "replicas": BROKERS["replicas"] + "lost,orders,0,1\n"}
    assert replicas.main(["reassign", "--fleet", str(written(tmp_path / "kafka", lost)), "--fail-on", "rejected"]) == 1
    assert "lost" in capsys.readouterr().out


@pytest.fixture
def fleet(spark: SparkSession, tmp_path: Path) -> Fleet:
    """The two members of GROUPS."""
    return Fleet.read(spark, str(written(tmp_path / "fleet", GROUPS)))


def test_numbers_with_too_many_zeros(fleet: Fleet) -> None:
    """Joiners, and partitions beyond Kafka's int: a given count is wrong input, a factor rejects the topic's groups."""
    with pytest.raises(FleetError, match=r"joiners\.count: 1,000,000 members per group is out of range"):
        fleet.with_members_joined(count=1_000_000)
    with pytest.raises(FleetError, match=r"topics\.partitions: null, negative or beyond int: .*topic=orders"):
        _ = fleet.with_partitions(topic="orders", count=3_000_000_000).sizes
    planned = spark_assign.plan(fleet.with_partitions(topic="orders", factor=1e9), "range")
    assert {row.code for row in planned.rejected.collect()} == {"too-many-partitions"}


@pytest.mark.parametrize(
    ("flag", "value", "code", "message"),
    [
        ("--partitions", "*=3000000000", 2, "3000000000 isn't a number of at most 1,000,000,000"),
        ("--partitions", "*=1000000000", 0, "too-many-partitions: "),
    ],
)
def test_replicas_with_too_many_zeros(
    spark: SparkSession,
    tmp_path: Path,
    flag: str,
    value: str,
    code: int,
    message: str,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A cluster that is rejected, or an option that is refused."""
    assert replicas.main(["reassign", "--fleet", str(written(tmp_path, BROKERS)), flag, value]) == code
    assert message in "".join((caplog.text, *capsys.readouterr()))


def test_an_event_with_too_many_zeros(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The group is rejected, beside one that has no members; the other one is played."""
    tables = {
        **GROUPS,
        "members": GROUPS["members"] + "c,other,m\n",
        "subscriptions": GROUPS["subscriptions"] + "c,other,m,orders\n",
        "groups": "cluster,group_id,assignor\nc,g,range\nc,other,range\nc,nobody,range\n",
        "events": "cluster,group_id,at_ms,event,member_id,topic,partitions\n"
        "c,g,5000,partitions-added,,orders,1000000000\nc,other,5000,member-leaves,m,,\n",
    }
    assert simulate.main(["--fleet", str(written(tmp_path, tables)), "--fail-on", "rejected"]) == 1
    output = capsys.readouterr().out
    assert "g: " in output
    assert "1,000,000,000" in output
    assert "configured       1 " in output


def test_filters_of_tables_that_lack_columns(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Events without the column group_id, which can be missing, happen to all groups of the cluster. Required columns
    are named."""
    fleet = written(tmp_path / "fleet", {name: text for name, text in GROUPS.items() if name != "events"})
    events, owners, offsets = (tmp_path / f"{name}.csv" for name in ("events", "owners", "offsets"))
    words = ["--fleet", str(fleet), "--events", str(events)]
    owners.write_text("team\na\n")
    filters: list[list[str]] = [["--group", "*"], ["--owners", str(owners), "--owner", "a"]]
    for only in filters:
        events.write_text("cluster,at_ms,event\nc,1000,rolling-restart\n")
        assert simulate.main([*words, *only]) == 0
        events.write_text("group_id,at_ms,event\ng,1000,rolling-restart\n")
        assert simulate.main([*words, *only]) == 2
        assert caplog.messages[-1].endswith(
            "- events.cluster: the column is missing. Add it as string; the table has group_id, at_ms, event"
        )
    pq.write_table(pa.table({"team": [["a"]]}), tmp_path / "owners.parquet")
    assert plan.main(["--fleet", str(fleet), "--owners", str(tmp_path / "owners.parquet"), "--owner", "a"]) == 2
    assert "owners.team: the type is array<string>, expected string. Cast the column to string" in caplog.text
    offsets.write_text("topic,partition,end_offset\na,0,1\n")
    assert history.main(["--sample", "--table", f"offsets={offsets}"]) == 2
    assert "offsets.cluster: the column is missing" in caplog.text
    (fleet / "offsets.csv").write_text(offsets.read_text())
    caplog.clear()
    assert plan.main(["--fleet", str(fleet), "--details", "*"]) == 2
    assert "offsets.cluster: the column is missing" in caplog.text


@pytest.mark.parametrize("name", ["members.csv", "snapshot.json"])
def test_a_pipe_is_not_a_table(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """A job doesn't wait for what nobody writes to it."""
    fleet = written(tmp_path, CASES["plan"].tables)
    (fleet / name).unlink(missing_ok=True)
    os.mkfifo(fleet / name)
    assert plan.main(["--fleet", str(fleet), "--output", str(tmp_path / "out")]) == 2
    assert f"{name} is a pipe or a device. Replace it with a file" in caplog.text


def test_a_place_that_cannot_be_written(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 with the place and the reason, before anything is computed."""
    case = CASES["plan"]
    fleet = written(tmp_path / "fleet", case.tables)
    assert case.run(fleet, "--output", "/proc/spark_assign") == 2
    assert "can't write to /proc/spark_assign: No such file or directory in /proc" in capsys.readouterr().err
    assert case.run(fleet, "--output", str(fleet / "topics.csv")) == 2
    assert "topics.csv isn't a folder" in capsys.readouterr().err
