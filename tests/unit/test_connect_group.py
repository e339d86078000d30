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
from kafka.protocol.admin import DescribeGroupsRequest

from spark_assign.sources.connect import cluster_snapshot as connect
from spark_assign.sources.connect import group as connect_group
from spark_assign.sources.connect import rest as connect_http
from spark_assign.sources.connect.cluster_snapshot import parse_targets
from spark_assign.sources.connect.group import ConnectGroup, ConnectGroups
from spark_assign.sources.files import snapshot_files
from spark_assign.sources.kafka import connection as kafka_connection
from spark_assign.sources.kafka.groups import UnsettledError
from spark_assign.tables.errors import SourceError
from spark_assign.wire.reader import WireError
from tests.cases import cases
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
    client_id = member_id.rpartition("-")[0]
    return SimpleNamespace(
        member_id=member_id,
        client_id=client_id,
        member_metadata=metadata(url, running),
        member_assignment=assignment,
    )


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


def _read(monkeypatch: pytest.MonkeyPatch, *groups: Any) -> ConnectGroups:
    """The groups as a broker lists and describes them."""
    monkeypatch.setattr(kafka_connection, "wait", lambda _: None)
    listed = [SimpleNamespace(group_id=group.group_id, protocol_type="connect") for group in groups]
    answer = SimpleNamespace(error_code=0, groups=listed)

    def send_all(requests: list[tuple[int, Any]], *_: Any) -> list[Any]:
        return [
            SimpleNamespace(groups=groups) if isinstance(request, DescribeGroupsRequest) else answer
            for _, request in requests
        ]

    connection: Any = SimpleNamespace(
        brokers=lambda: [1],
        metadata=lambda _: SimpleNamespace(cluster_id="kafka-1"),
        send_all=send_all,
        without_secrets=str,
    )
    return connect_group.read(connection, lambda _: None)


def _named(group_id: str, *workers: str, rebalances: bool = False, client_id: str = "connect-{}") -> Any:
    """A group with these workers, and with the client ID of Kafka 4. In a rebalance, it shows nothing they sent."""
    members = [_member(f"connect-{worker}-{group_id}", assignment([])) for worker in workers]
    for member, worker in zip(members, workers, strict=True):
        member.client_id = client_id.format(worker)
        member.member_metadata = b"" if rebalances else member.member_metadata
    group = _group(*members, state="PreparingRebalance" if rebalances else "Stable")
    group.group_id = group_id
    return group


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


W1_W2, ALL = ("w1:8083", "w2:8083"), ("w1:8083", "w2:8083", "w9:8083")
"""Workers of LISTING: two that run, and all, with one that has left and that REST still names."""


@cases(
    "groups found",
    ([_named("connect", *W1_W2)], "connect"),
    ([_named("connect", *W1_W2, "w3:8083"), _named("other", "x:1")], "connect"),
    # Another cluster rebalances. Its workers are known, or this cluster's group has all that REST names.
    ([_named("connect", *W1_W2), _named("other", "x:1", "y:1", rebalances=True)], "connect"),
    ([_named("connect", *ALL), _named("other", "x:1", rebalances=True, client_id="connect-1")], "connect"),
    ([_named("connect", *ALL), _named("other", "x:1", rebalances=True, client_id="{}")], "connect"),
    ([_named("connect", *ALL), _named("other", rebalances=True)], "connect"),
    # The right group rebalances, and a stranger's group has its workers.
    ([_named("connect", *W1_W2, rebalances=True)], "group connect cannot be read .*in state Prep.*--connect-group"),
    (
        [_named("connect", *W1_W2, rebalances=True), _named("twin", *ALL)],
        "groups connect, twin have workers .*w1:8083.* Not read: connect: Unsettled.*--connect-group",
    ),
    *(
        (
            [_named("connect", *W1_W2, rebalances=True, client_id=client_id), _named("twin", "w1:8083")],
            "group twin has only some of the workers .*w1:8083.* Not read: connect: Unsettled.*--connect-group",
        )
        for client_id in ("connect-1", "my-{}", "connect-{}a")
    ),
    # A worker has left, and a stranger still has it.
    ([_named("connect", *W1_W2), _named("twin", *ALL)], "groups connect, twin have workers "),
)
def test_no_group_of_a_stranger_is_taken(groups: list[Any], found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone may join a group of this type with the names of workers of others."""
    read = _read(monkeypatch, *groups)
    if found == "connect":
        assert _taken(read)["clusters"]["group_id"].to_pylist() == ["connect"]
        return
    with pytest.raises(SourceError, match=found):
        _taken(read)


def test_a_damaged_member_leaves_the_others_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its group counts with the workers that can be read."""
    damaged = _named("connect", "w2:8083", "w3:8083")
    damaged.members[1].member_metadata, damaged.members[1].client_id = b"x", "mine"
    read = _read(monkeypatch, damaged, _named("twin", "w1:8083"), _named("x", "x:1", rebalances=True))
    assert read.workers() == {"connect": {"w2:8083", None}, "x": {"x:1"}, "twin": {"w1:8083"}}
    with pytest.raises(
        SourceError, match=r"groups connect, twin have workers .*: connect: WireError: member connect-w3"
    ):
        _taken(read)


LONG = "\ufffd" * 334
"""Of 1,002 bytes, which a member sends as 334."""


@pytest.mark.parametrize(
    "member",
    [
        _member(f"connect-{LONG}-a", assignment([])),
        _member(A, assignment([]), url=LONG),
        _member(A, assignment([], leader=LONG)),
        _member(A, assignment([(LONG, [-1])])),
        _member(A, assignment([(LONG, [*range(10_000)])])),
        _member(A, b"", assignment([(LONG, [-1])])),
        _member(A, assignment([]), assignment([(LONG, [0])])),
    ],
)
def test_names_of_a_member_that_no_table_can_have(member: Any) -> None:
    """A table has them once for each task, and its reader would refuse it for all clusters."""
    found = connect_group.read_group(_group(member))
    assert isinstance(found, WireError)
    assert str(found).endswith("its ID, its URL, its leader, or a connector's name has more than 1,000 bytes")


def test_names_of_a_member_up_to_the_bound() -> None:
    """A thousand bytes are read."""
    name = "\u00e4" * 500
    found = _described(_group(_member(name, assignment([(name, [-1, 0])], leader=name), url=name)))
    assert (found.workers[0].url, found.leader, found.workers[0].tasks) == (name, name, ((name, 0),))


def test_a_member_whose_url_is_none() -> None:
    """Anyone can join a group of this type: it is not the group of the workers, and the cluster is read."""
    other = _group(*(_member(f"connect-{n}", assignment([]), url=url) for n, url in enumerate(("http://[", "x"))))
    other.group_id = "other"
    assert _taken(_groups(_settled(), other))["clusters"]["group_id"].to_pylist() == ["connect"]
    assert {worker.rest_worker_id for worker in _described(other).workers} == {"http://[", "x"}


def test_an_error_is_short() -> None:
    """Names are those of strangers. The remedy stays."""
    workers: dict[int | None, str] = {task: f"{task}:8083" + "w" * 900 for task in range(9)}
    groups = ConnectGroups("kafka-1", {}, {f"g{n}": "x" * 900 for n in range(9)})
    answers = connect_stub.cluster({"files": connect_stub.connector("files", {None: "w1:8083", **workers})})
    with serving(answers) as stub:
        targets = parse_targets([f"prod={stub.url}"])
        with pytest.raises(SourceError, match=r"no Connect group .* Not read: g0: xxx.*--connect-group\.$") as error:
            connect.snapshot(targets, groups=groups)
        assert len(str(error.value)) < 2_000
        stub.answers["/"] = connect_stub.ROOT | {"kafka_cluster_id": "x" * 1_000}
        with pytest.raises(SourceError, match="meet in Kafka cluster xxx"):
            connect.snapshot(targets, groups=groups)


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
