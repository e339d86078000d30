"""The workers of a Connect cluster through their Kafka group: ids, idle ones, orders, leader, the leader's memory."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import GroupAuthorizationFailedError

from spark_assign.sources.connect import cluster_snapshot as connect
from spark_assign.sources.connect import group as connect_group
from spark_assign.sources.connect import rest as connect_http
from spark_assign.sources.connect.cluster_snapshot import parse_targets
from spark_assign.sources.connect.group import ConnectGroup, ConnectGroups
from spark_assign.sources.files import snapshot_files
from spark_assign.sources.kafka.groups import UnsettledError
from spark_assign.tables.errors import SourceError
from spark_assign.wire.reader import WireError
from tests.unit import connect_stub
from tests.unit.connect_stub import serving
from tests.unit.test_connect_wire import Items, assignment, metadata

A, B, C = "connect-w1:8083-a", "connect-w2:8083-b", "connect-w3:8083-c"
LISTING = {
    "files": connect_stub.connector("files", {None: "w1:8083", 0: "w2:8083", 1: "w1:8083 FAILED", 2: "w9:8083"}),
    "sink": connect_stub.connector("sink", {None: "w2:8083"}),
}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(connect_http, "wait", lambda _: None)


def _member(member_id: str, assignment: bytes, running: bytes | None = None, url: str | None = None) -> Any:
    url = url or f"http://{member_id.split('-')[1]}/"
    return SimpleNamespace(member_id=member_id, member_metadata=metadata(url, running), member_assignment=assignment)


def _group(*members: Any, state: str = "Stable", protocol: str = "sessioned", error: int = 0) -> Any:
    return SimpleNamespace(
        group_id="connect", error_code=error, group_state=state, protocol_data=protocol, members=list(members)
    )


def _settled(delay_ms: int = 0, revoked: Items | None = None) -> Any:
    return _group(
        _member(C, assignment([], delay_ms=delay_ms, leader=B)),
        _member(B, assignment([("files", [0])], delay_ms=delay_ms, leader=B), assignment([("sink", [-1])])),
        _member(A, assignment([("files", [-1, 1, 2])], revoked or [], delay_ms=delay_ms, leader=B)),
    )


def _described(group: Any) -> ConnectGroup:
    found = connect_group.read_group(group)
    assert isinstance(found, ConnectGroup)
    return found


def _groups(*groups: Any, faults: dict[str, str] | None = None) -> ConnectGroups:
    described = [_described(group) for group in groups]
    return ConnectGroups("kafka-1", {group.group_id: group for group in described}, faults or {})


def _taken(groups: ConnectGroups, *options: Any) -> dict[str, Any]:
    with serving(connect_stub.cluster(LISTING)) as stub:
        return connect.snapshot(parse_targets([f"prod={stub.url}"], *options), groups=groups).tables


def test_workers_by_member_id_with_idle_ones() -> None:
    """In the order in which the leader's HashMap has them, not in that of the coordinator."""
    tables = _taken(_groups(_settled()))
    workers = tables["workers"].to_pylist()
    assert [(row["worker_id"], row["position"], row["rest_worker_id"]) for row in workers] == [
        (each.member_id, position, each.rest_worker_id) for position, each in enumerate(_described(_settled()).workers)
    ]
    assert {row["worker_id"]: row["rest_worker_id"] for row in workers} == {A: "w1:8083", B: "w2:8083", C: "w3:8083"}
    [cluster] = tables["clusters"].to_pylist()
    assert (cluster["leader"], cluster["group_id"], cluster["group_state"]) == (B, "connect", "Stable")
    assert (cluster["protocol"], cluster["delay_ms"]) == ("sessioned", 0)


def test_who_reports_what_is_what_the_group_says() -> None:
    """The state is REST's where it names the same worker; a last word of a worker that is gone is no state."""
    rows = _taken(_groups(_settled()))["reported"].to_pylist()
    assert {(r["worker_id"], r["kind"], r["connector"], r["task"], r["position"], r["state"]) for r in rows} == {
        (A, "connector", "files", None, 0, "RUNNING"),
        (A, "task", "files", 1, 0, "FAILED"),
        (A, "task", "files", 2, 1, None),
        (B, "connector", "sink", None, 0, "RUNNING"),
        (B, "task", "files", 0, 0, "RUNNING"),
    }


def test_the_leaders_memory_at_rest() -> None:
    """Everything that runs, everybody who is there, nothing pending."""
    [row] = _taken(_groups(_settled()))["state"].to_pylist()
    assert {(item["kind"], item["connector"], item["task"]) for item in row["assignment"]} == {
        ("connector", "files", None),
        ("connector", "sink", None),
        *(("task", "files", number) for number in range(3)),
    }
    assert row["members"] == sorted([A, B, C])
    assert (row["revocation"], row["candidates"], row["scheduled_rebalance_ms"], row["delay_ms"]) == ([], [], 0, 0)
    assert row["generation_id"] == connect.LAST_GENERATION


@pytest.mark.parametrize("group", [_settled(delay_ms=3000), _settled(revoked=[("sink", [-1])]), _group()])
def test_a_memory_that_cannot_be_known(group: Any) -> None:
    """A delay that runs, a revocation that is not yet through, nobody there: no row, rather than a guess."""
    tables = _taken(_groups(group), [], ["connect"])
    assert tables["state"].num_rows == 0
    assert tables["clusters"]["delay_ms"].to_pylist() == [_described(group).delay_ms]


def test_a_group_in_a_rebalance_is_requested_again_and_a_damaged_one_is_not() -> None:
    """Both are exceptions in the place of the group."""
    assert isinstance(connect_group.read_group(_group(state="PreparingRebalance")), UnsettledError)
    damaged = connect_group.read_group(
        _group(SimpleNamespace(member_id="m", member_metadata=b"x", member_assignment=b""))
    )
    assert isinstance(damaged, WireError)
    assert "member m: " in str(damaged)
    assert isinstance(connect_group.read_group(_group(error=30)), GroupAuthorizationFailedError)


def test_a_value_that_its_column_cannot_hold_costs_its_own_cluster() -> None:
    """The rows of all clusters become one table."""
    good, bad = _described(_settled()), _described(_settled())
    bad = replace(bad, group_id="bad", workers=(replace(bad.workers[0], tasks=(("files", 1 << 32),)),))
    groups = ConnectGroups("kafka-1", {"connect": good, "bad": bad}, {})
    with serving(connect_stub.cluster(LISTING)) as stub, serving(connect_stub.cluster(LISTING)) as other:
        targets = parse_targets([f"prod={stub.url}", f"b={other.url}"], (), ["prod=connect", "b=bad"])
        tables = connect.snapshot(targets, groups=groups).tables
    assert [set(tables[name]["connect_cluster"].to_pylist()) for name in ("clusters", "tasks")] == [{"prod"}] * 2
    [row] = tables["unreadable"].to_pylist()
    assert row["error"].startswith("b: a worker sent a value that no column can hold (Value 4294967296 ")


def test_eager_groups() -> None:
    """The protocol's name on the wire is `default`; a worker runs what it was told."""
    member_metadata = metadata("http://w1:8083/", version=0)
    member = SimpleNamespace(member_id=A, member_metadata=member_metadata, member_assignment=assignment([("x", [-1])]))
    found = _described(_group(member, protocol="default"))
    assert (found.protocol, found.workers[0].connectors) == ("eager", ("x",))


def test_the_group_is_found_by_its_workers() -> None:
    """By those REST names or by the URL that was given; where none or two fit, the caller says."""
    other = _group(_member("connect-x:1-d", assignment([])))
    other.group_id = "other"
    twin = _group(_member("connect-w1:8083-e", assignment([])))
    twin.group_id = "twin"
    assert _taken(_groups(_settled(), other))["clusters"]["group_id"].to_pylist() == ["connect"]
    with pytest.raises(SourceError, match=r"groups connect, twin have workers .*w1:8083.*--connect-group"):
        _taken(_groups(_settled(), twin))
    assert _taken(_groups(_settled(), twin), [], ["twin"])["clusters"]["group_id"].to_pylist() == ["twin"]
    with pytest.raises(SourceError, match=r"no Connect group .* has workers .* hidden: GroupAuth"):
        _taken(_groups(other, faults={"hidden": "GroupAuthorizationFailedError"}))
    with pytest.raises(SourceError, match=r"group none cannot be read .*no Connect group of this name"):
        _taken(_groups(other), [], ["none"])


def test_a_member_whose_url_is_none() -> None:
    """Anyone can join a group of this type: it is not the group of the workers, and the cluster is read."""
    other = _group(*(_member(f"connect-{n}", assignment([]), url=url) for n, url in enumerate(("http://[", "x"))))
    other.group_id = "other"
    assert _taken(_groups(_settled(), other))["clusters"]["group_id"].to_pylist() == ["connect"]
    assert {worker.rest_worker_id for worker in _described(other).workers} == {"http://[", "x"}


def test_an_error_is_short() -> None:
    """Names are those of strangers."""
    with serving(connect_stub.cluster({}) | {"/": connect_stub.ROOT | {"kafka_cluster_id": "x" * 8_000}}) as stub:
        targets, groups = parse_targets([f"prod={stub.url}"]), ConnectGroups("kafka-1", {}, {})
        with pytest.raises(SourceError, match="meet in Kafka cluster xxx") as error:
            connect.snapshot(targets, groups=groups)
    assert len(str(error.value)) < 3_000


def test_a_new_cluster_is_found_by_its_url() -> None:
    """REST names no worker where nothing runs."""
    with serving(connect_stub.cluster({})) as stub:
        group = _group(_member(A, assignment([]), url=f"{stub.url}/"), _member(B, assignment([])))
        tables = connect.snapshot(parse_targets([stub.url]), groups=_groups(group)).tables
    assert tables["workers"]["worker_id"].to_pylist() == [worker.member_id for worker in _described(group).workers]
    assert (tables["reported"].num_rows, tables["state"].num_rows) == (0, 1)


def test_another_kafka_cluster() -> None:
    """Group names repeat; the id of the Kafka cluster does not."""
    with pytest.raises(SourceError, match="meet in Kafka cluster kafka-1, --bootstrap-server leads to kafka-2"):
        _taken(ConnectGroups("kafka-2", {}, {}))


@pytest.mark.parametrize("format", snapshot_files.FORMATS)
def test_as_files(format: str, tmp_path: Path) -> None:
    """A file for every table in every format; lists of structs are JSON in csv."""
    with serving(connect_stub.cluster(LISTING)) as stub:
        taken = connect.snapshot(parse_targets([f"prod={stub.url}"]), groups=_groups(_settled()))
    snapshot_files.write_folder(taken, tmp_path / "out", format)
    [folder] = tmp_path.glob("out/connect_cluster=prod/taken=*")
    assert {file.stem for file in folder.iterdir()} == {*taken.tables, "snapshot"}
    if format == "csv":
        with (folder / "state.csv").open(newline="") as file:
            [row] = csv.DictReader(file)
        assert len(json.loads(row["assignment"])) == 5
        assert json.loads(row["revocation"]) == []
        assert row["members"] == ",".join(sorted([A, B, C]))
