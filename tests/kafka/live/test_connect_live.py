"""A real Connect cluster: the snapshot shows what its REST interface and its group show, and what plan_connect predicts
from it is what Connect then does when a worker joins and when one leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs import snapshot as snapshot_job
from spark_assign.connect import ConnectFleet, plan_connect
from spark_assign.java import hash_map as java_hash
from spark_assign.sources.connect.cluster_snapshot import TABLES
from spark_assign.tables.connect import INPUT_TABLES
from tests.docs.pages import Step
from tests.kafka import connect_workers, documented, maven
from tests.kafka.broker import Cluster
from tests.kafka.connect_workers import GROUP, MAX_DELAY_MS, ConnectCluster, Placement, Worker
from tests.kafka.live_groups import Row, Tables, create_topics, wait_until, wait_until_stable
from tests.unit import connect_stub

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SINK_TASKS = 3
SOURCES, SINKS = ("orders", "b-files", "Zulu"), ("to-disk", "a", "connector-with-dashes")
ITEMS = 2 * len(SOURCES) + (1 + SINK_TASKS) * len(SINKS)
FILES = "org.apache.kafka.connect.file.FileStream"
STUB = connect_stub.connector("files", {None: "w1:8083", 0: "w1:8083"})
NEWCOMER = "connect-a-worker-to-come"
MOST_ROUNDS = 6
TOPIC = "live-data"

Item = tuple[str, int | None]
Held = dict[str, set[Item]]
"""Worker to connectors and tasks."""


@dataclass(frozen=True)
class Story:
    """What was seen, in this order; placements are REST's own."""

    idle: Tables
    by_rest_alone: Tables
    as_documented: list[Tables]
    before: Tables
    before_placement: Placement
    joined: Tables
    joined_placement: Placement
    delayed: Tables
    left: Tables
    left_placement: Placement


# --- the cluster and its snapshots ------------------------------------------------------------------------------


def _taken(connect: ConnectCluster, folder: Path, *, with_group: bool = True) -> Tables:
    """What the snapshot job writes of the cluster now."""
    urls = ",".join(worker.url for worker in connect.workers[:2])
    arguments = [
        "--connect-url",
        f"live={urls}",
        "--connect-max-delay",
        f"{connect.max_delay_ms}ms",
        "--fleet-dir",
        str(folder),
    ]
    if with_group:
        arguments += ["--bootstrap-server", connect.broker.bootstrap_servers]
    assert snapshot_job.main(arguments) == 0
    return _tables_in(folder)


def _tables_in(fleet: Path) -> Tables:
    """The rows of every Connect cluster, each of the snapshot that was taken last."""
    homes = sorted(fleet.glob("connect_cluster=*"))
    files = [file for home in homes for file in max(home.glob("taken=*")).glob("*.parquet")]
    tables: Tables = {file.stem: [] for file in files}
    for file in files:
        tables[file.stem] += pq.read_table(file, partitioning=None).to_pylist()
    return tables


def _documented(connect: ConnectCluster, step: Step) -> Tables:
    """The same by a command of the pages; where that names a second cluster, it is a stub."""
    folder = connect.folder / "documented"
    with connect_stub.serving(connect_stub.cluster({"files": STUB})) as stub:
        urls = {"http://connect-1:8083": connect.workers[0].url, "https://connect-eu:8083": stub.url}
        documented.run_job(step, connect.broker, {**urls, "./connect-fleet": str(folder)})
    return _tables_in(folder)


def _wait_for(connect: ConnectCluster, folder: Path, workers: int, *, delayed: bool = False) -> Tables:
    """A snapshot of the group with so many workers, at rest, or while a delay runs."""

    def find() -> Tables | None:
        tables = _taken(connect, folder)
        [cluster] = tables["clusters"]
        found = len(tables["workers"]) == workers and (cluster["delay_ms"] > 0 if delayed else tables["state"])
        return tables if found else None

    tables = wait_until(find, f"{workers} workers", connect_workers.TIMEOUT_S)
    assert tables is not None
    return tables


def _create_connectors(connect: ConnectCluster, topic: str, sinks: tuple[str, ...] = SINKS) -> None:
    for name in SOURCES:
        none = {"connector.class": f"{FILES}SourceConnector", "file": str(connect.folder / "none"), "topic": topic}
        connect.create(name, none)
    for name in sinks:
        sink = {"connector.class": f"{FILES}SinkConnector", "file": str(connect.folder / "sink"), "topics": topic}
        connect.create(name, sink | {"tasks.max": str(SINK_TASKS)})


def _follower(connect: ConnectCluster, tables: Tables) -> Worker:
    leader = _rest_ids(tables)[tables["clusters"][0]["leader"]]
    return next(worker for worker in connect.workers if worker.host_and_port != leader)


@pytest.fixture(scope="module")
def story(broker: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Three workers get six connectors; a fourth worker joins; a worker that is not the leader leaves."""
    create_topics(broker, {TOPIC: 3})
    folder = tmp_path_factory.mktemp("connect")
    out = folder / "snapshot"
    with connect_workers.running(broker, folder, 3) as connect:
        idle = _wait_for(connect, out, 3)
        _create_connectors(connect, TOPIC)
        before_placement = connect.wait_until_running(ITEMS)
        before = _wait_for(connect, out, 3)
        by_rest_alone = _taken(connect, folder / "rest-alone", with_group=False)
        as_documented = [_documented(connect, step) for step in documented.steps("test_connect_live")]

        connect.start()
        _wait_for(connect, out, 4)
        joined_placement = connect.wait_until_running(ITEMS)
        joined = _wait_for(connect, out, 4)

        connect.stop(_follower(connect, joined))
        delayed = _wait_for(connect, out, 3, delayed=True)
        left = _wait_for(connect, out, 3)
        left_placement = connect.wait_until_running(ITEMS)
        placements = {"before_placement": before_placement, "joined_placement": joined_placement}
        placements["left_placement"] = left_placement
        states = {"before": before, "joined": joined, "delayed": delayed, "left": left}
        yield Story(idle=idle, by_rest_alone=by_rest_alone, as_documented=as_documented, **states, **placements)


def _rest_ids(tables: Tables) -> dict[str, str]:
    return {row["worker_id"]: row["rest_worker_id"] for row in tables["workers"]}


def _held(tables: Tables) -> Held:
    held: Held = {row["worker_id"]: set() for row in tables["workers"]}
    for row in tables["reported"]:
        held[row["worker_id"]].add((row["connector"], row["task"]))
    return held


def _placement(held: Held, rest_ids: dict[str, str]) -> Placement:
    return {item: rest_ids[worker] for worker, items in held.items() for item in items}


# --- the snapshot -----------------------------------------------------------------------------------------------


def test_idle_workers_are_there(story: Story) -> None:
    """REST does not list them; the group does, with the leader among them and nothing that runs."""
    [cluster] = story.idle["clusters"]
    assert len(story.idle["workers"]) == 3
    assert cluster["leader"] in _rest_ids(story.idle)
    assert (cluster["protocol"], cluster["group_id"]) == ("sessioned", GROUP)
    assert cluster["version"] == maven.APPLICATIONS_VERSION
    assert story.idle["reported"] == story.idle["connectors"] == story.idle["unreadable"] == []


@pytest.mark.parametrize("moment", ["before", "joined", "left"])
def test_the_snapshot_is_what_rest_shows(story: Story, moment: str) -> None:
    """Each connector and task on the worker that REST names, each RUNNING; ids map by host and port of the URL."""
    tables: Tables = getattr(story, moment)
    assert _placement(_held(tables), _rest_ids(tables)) == getattr(story, f"{moment}_placement")
    assert {row["connector"] for row in tables["connectors"]} == {*SOURCES, *SINKS}
    assert len(tables["tasks"]) == len(SOURCES) + SINK_TASKS * len(SINKS)
    assert {row["state"] for table in ("connectors", "tasks", "reported") for row in tables[table]} == {"RUNNING"}
    assert len({row["config_offset"] for row in tables["workers"]}) == 1


def test_by_rest_alone(story: Story) -> None:
    """The same, by REST's own names of the workers; orders, leader and memory are not known."""
    tables = story.by_rest_alone
    assert _placement(_held(tables), _rest_ids(tables)) == story.before_placement
    assert {row["worker_id"] for row in tables["workers"]} == set(_rest_ids(story.before).values())
    assert {row["position"] for table in ("workers", "reported") for row in tables[table]} == {None}
    assert tables["clusters"][0]["leader"] is None
    assert tables["state"] == []


def test_the_documented_commands(story: Story) -> None:
    """With the group, and for two clusters: the same is configured, and it runs."""
    configured = {(row["connector"], row["task"]) for row in story.before["tasks"]}
    for tables in story.as_documented:
        assert tables["unreadable"] == []
        here = [row for table in ("tasks", "reported") for row in tables[table] if row["connect_cluster"] != "eu"]
        assert {(row["connector"], row["task"]) for row in here if row["task"] is not None} == configured
        assert len(here) == len(configured) + ITEMS
    assert [len(tables["clusters"]) for tables in story.as_documented] == [1, 2]


def test_while_a_delay_runs_nothing_is_lost(story: Story) -> None:
    """What the worker that left has given up is configured, UNASSIGNED and nobody's; the memory is not known."""
    tables = story.delayed
    gone = set(_rest_ids(story.joined)) - set(_rest_ids(tables))
    [lost] = [items for worker, items in _held(story.joined).items() if worker in gone]
    assert {item for items in _held(tables).values() for item in items} == set(story.joined_placement) - lost
    configured = {(row["connector"], row["task"]) for row in tables["tasks"]}
    assert configured | {(row["connector"], None) for row in tables["connectors"]} == set(story.joined_placement)
    assert (tables["clusters"][0]["delay_ms"], tables["state"]) == (MAX_DELAY_MS, [])


# --- predicted = actual -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Round:
    """One round of the plan: what each worker gets and gives up, and what it holds afterwards."""

    assigned: Held
    revoked: Held
    held: Held
    delay_ms: int


class Forecast:
    """A snapshot with other workers, planned round after round until nothing is pending."""

    def __init__(self, name: str, tables: Tables, workers: list[str]) -> None:
        """`workers` in the order in which the leader's HashMap has them."""
        self.rounds: list[Round] = []
        self.held = {worker: _held(tables).get(worker, set()) for worker in workers}
        self._name = name
        self.rows: Tables = {table: self._renamed(tables[table]) for table in INPUT_TABLES}
        self.rows["workers"] = self._renamed({"worker_id": id, "position": at} for at, id in enumerate(workers))
        self.rows["reported"] = [row for row in self.rows["reported"] if row["worker_id"] in self.held]

    def _renamed(self, rows: Iterable[Row]) -> list[Row]:
        return [row | {"connect_cluster": self._name} for row in rows]

    @property
    def pending(self) -> bool:
        """Whether another round follows: something was revoked, or a delay runs."""
        return not self.rounds or bool(self.rounds[-1].revoked) or self.rounds[-1].delay_ms > 0

    def add(self, assigned: list[Row], revoked: list[Row], state: list[Row]) -> None:
        """A round of the plan (rows of every forecast): carried out, and the next one prepared."""
        gets, gives, [memory] = self._by_worker(assigned), self._by_worker(revoked), self._own(state)
        self.held = {each: (self.held[each] - gives.get(each, set())) | gets.get(each, set()) for each in self.held}
        self.rounds.append(Round(gets, gives, self.held, memory["delay_ms"]))
        [cluster] = self.rows["clusters"]
        cluster["now_ms"] += memory["delay_ms"]
        cluster["last_completed_generation_id"] = cluster["generation_id"]
        cluster["generation_id"] += 1
        self.rows["state"] = [memory]
        self.rows["reported"] = self._renamed(
            {"worker_id": worker, "kind": "connector" if task is None else "task", "connector": name, "task": task}
            for worker, items in self.held.items()
            for name, task in items
        )

    def _own(self, rows: list[Row]) -> list[Row]:
        return [row for row in rows if row["connect_cluster"] == self._name]

    def _by_worker(self, rows: list[Row]) -> Held:
        found: Held = {}
        for row in self._own(rows):
            found.setdefault(row["worker_id"], set()).add((row["connector"], row["task"]))
        return found


def _with_newcomer(tables: Tables, member_id: str) -> list[str]:
    """Worker ids in the order of a HashMap into which the newcomer is put last."""
    ids = [row["worker_id"] for row in sorted(tables["workers"], key=lambda row: row["position"])] + [member_id]
    return java_hash.texts_in_table_order(java_hash.texts_in_table_order(ids))


@pytest.fixture(scope="module")
def forecasts(spark: SparkSession, story: Story) -> dict[str, list[Round]]:
    """The newcomer by its member id; the newcomer before it has one; the worker that leaves. Planned in one call."""
    [newcomer] = set(_rest_ids(story.joined)) - set(_rest_ids(story.before))
    joined = sorted(story.joined["workers"], key=lambda row: row["position"])
    staying = [row["worker_id"] for row in joined if row["worker_id"] in _rest_ids(story.left)]
    found = {
        "joins": Forecast("joins", story.before, _with_newcomer(story.before, newcomer)),
        "to come": Forecast("to come", story.before, _with_newcomer(story.before, NEWCOMER)),
        "leaves": Forecast("leaves", story.joined, staying),
    }
    return _planned(spark, found)


def _planned(spark: SparkSession, found: dict[str, Forecast]) -> dict[str, list[Round]]:
    """The rounds of each forecast, by name; one plan for the next rounds of all."""
    for _ in range(MOST_ROUNDS):
        pending = [each for each in found.values() if each.pending]
        if not pending:
            return {name: forecast.rounds for name, forecast in found.items()}
        rows = {table: [row for each in pending for row in each.rows[table]] for table in INPUT_TABLES}
        frames = {
            table: spark.createDataFrame(pa.Table.from_pylist(rows[table], schema=TABLES[table])) for table in rows
        }
        plan = plan_connect(ConnectFleet(**frames))
        collected = [_collected(table) for table in (plan.assigned, plan.revoked, plan.state)]
        assert len(collected[-1]) == len(pending), plan.rejected.collect()
        for each in pending:
            each.add(*collected)
    raise AssertionError(f"no rest after {MOST_ROUNDS} rounds")


def _collected(table: DataFrame) -> list[Row]:
    return [row.asDict(recursive=True) for row in table.collect()]


def test_a_worker_joins(story: Story, forecasts: dict[str, list[Round]]) -> None:
    """With the newcomer's member id: every connector and task is where the plan says, none differs."""
    rounds = forecasts["joins"]
    assert _placement(rounds[-1].held, _rest_ids(story.joined)) == story.joined_placement
    assert [bool(each.revoked) for each in rounds] == [True, False]


def test_who_has_to_give_is_known_before_the_worker_is(story: Story, forecasts: dict[str, list[Round]]) -> None:
    """A newcomer has nothing to give: its id, known once it has joined, has no say in what is taken from whom."""
    [revoking, _] = forecasts["to come"]
    rest_ids = _rest_ids(story.before)
    taken = {item: rest_ids[worker] for worker, items in revoking.revoked.items() for item in items}
    before, after = story.before_placement, story.joined_placement
    assert taken == {item: worker for item, worker in before.items() if after[item] != worker}
    assert len(taken) >= ITEMS // 4


def test_a_worker_leaves(story: Story, forecasts: dict[str, list[Round]]) -> None:
    """First the delay, with nothing handed out; then what it ran goes where the plan says."""
    rounds = forecasts["leaves"]
    delays = [(each.delay_ms, bool(each.assigned), bool(each.revoked)) for each in rounds]
    assert delays == [(MAX_DELAY_MS, False, False), (0, True, False)]
    assert _placement(rounds[-1].held, _rest_ids(story.left)) == story.left_placement


# --- workers of older releases ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "max_delay_ms", "others"),
    [("3.3.2", MAX_DELAY_MS, ["3.4.0"]), ("3.4.1", 0, ["3.3.2", "3.5.2"])],
    ids=["3.3.2", "3.4.1"],
)
def test_workers_of_older_releases(
    spark: SparkSession, broker: Cluster, tmp_path: Path, release: str, max_delay_ms: int, others: list[str]
) -> None:
    """The version that REST answers selects the rules by which a worker joins, and one leaves; other rules don't fit.
    3.3 leaves the newcomer without a connector; 3.4 leaves lost items unassigned if there is no delay."""
    topic = f"{TOPIC}-{release}"
    create_topics(broker, {topic: 3})
    items = 2 * len(SOURCES) + 1 + SINK_TASKS
    with connect_workers.running(broker, tmp_path, 2, f"{GROUP}-{release}", release, max_delay_ms) as connect:
        out = tmp_path / "snapshot"
        _create_connectors(connect, topic, SINKS[:1])
        connect.wait_until_running(items)
        before = _wait_for(connect, out, 2)
        connect.start()
        _wait_for(connect, out, 3)
        joined_placement = connect.wait_until_running(items)
        joined = _wait_for(connect, out, 3)

        leaving = _follower(connect, joined)
        rest_ids = _rest_ids(joined)
        [newcomer] = set(rest_ids) - set(_rest_ids(before))
        order = [row["worker_id"] for row in sorted(joined["workers"], key=lambda row: row["position"])]
        staying = [worker for worker in order if rest_ids[worker] != leaving.host_and_port]
        assert {tables["clusters"][0]["version"] for tables in (before, joined)} == {release}
        forecasts: dict[str, Forecast] = {}
        for version in (release, *others):
            for name, tables, workers in (
                ("joins", before, _with_newcomer(before, newcomer)),
                ("leaves", joined, staying),
            ):
                forecast = forecasts[f"{name} {version}"] = Forecast(f"{name} {version}", tables, workers)
                forecast.rows["clusters"][0]["version"] = version
        planned = {name: _placement(rounds[-1].held, rest_ids) for name, rounds in _planned(spark, forecasts).items()}
        expected = planned[f"leaves {release}"]
        assert planned[f"joins {release}"] == joined_placement
        connect.stop(leaving)

        def look() -> tuple[object, Placement]:
            """A worker that had no time to stop its tasks leaves its name in their state."""
            running = {item: at for item, at in connect.placement().items() if at != leaving.host_and_port}
            return running.items() ^ expected.items(), expected

        wait_until_stable(look, quiet_s=2 * MAX_DELAY_MS / 1000)
        assert (len(expected) < items) == (max_delay_ms == 0)
        for other in others:
            assert planned[f"joins {other}"] != joined_placement or planned[f"leaves {other}"] != expected
