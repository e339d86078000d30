"""A Connect cluster read by REST alone, from a stub: nothing is lost, faults say what to do, secrets stay secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobs import snapshot as job
from spark_assign.sources.connect import cluster_snapshot as connect
from spark_assign.sources.connect import http_settings
from spark_assign.sources.connect import rest as connect_http
from spark_assign.sources.connect import rest as connect_rest
from spark_assign.sources.connect.cluster_snapshot import ConnectTarget, parse_targets
from spark_assign.sources.connect.http_settings import HttpSettings
from spark_assign.sources.connect.rest import ConnectHttp
from spark_assign.tables.errors import ConfigError, SourceError
from tests.cases import cases, tuples
from tests.unit import connect_stub, tls_stub
from tests.unit.connect_stub import EXPANDED, ROOT, Stub, serving

FILES = connect_stub.connector(
    "files", {None: "w1:8083", 0: "w1:8083 FAILED", 1: "w2:8083 PAUSED", 2: "w2:8083 UNASSIGNED"}
)
SINK = connect_stub.connector("to s3/eu", {None: "w2:8083 STOPPED"}, "sink")


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that would have been made; no proxy stands before loopback."""
    made: list[float] = []
    monkeypatch.setattr(connect_http, "wait", made.append)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv(http_settings.CREDENTIALS_VARIABLE, raising=False)
    return made


def _read(stub: Stub, **settings: Any) -> connect_rest.RestView:
    return connect_rest.read(ConnectHttp([stub.url], HttpSettings(**settings)))


def _rows(tables: dict[str, Any], table: str, *columns: str) -> list[Any]:
    rows = [tuple(row[column] for column in columns) for row in tables[table].to_pylist()]
    return [row[0] for row in rows] if len(columns) == 1 else rows


def test_tables() -> None:
    """FAILED, PAUSED and STOPPED ones belong to their workers, UNASSIGNED ones to nobody; each with its state."""
    with serving(connect_stub.cluster({"files": FILES, "to s3/eu": SINK})) as stub:
        tables = connect.snapshot(parse_targets([f"prod={stub.url}"], ["w2:8083,w3:8083"]), max_delay_ms=5).tables
    found = _rows(tables, "connectors", "connect_cluster", "connector", "type", "state")
    assert found == tuples("prod files source RUNNING; prod 'to s3/eu' sink STOPPED")
    got = _rows(tables, "tasks", "connector", "task", "state")
    assert got == tuples("files 0 FAILED; files 1 PAUSED; files 2 UNASSIGNED")
    assert _rows(tables, "workers", "worker_id", "position") == tuples("w1:8083 None; w2:8083 None; w3:8083 None")
    assert _rows(tables, "reported", "worker_id", "kind", "connector", "task", "state") == tuples(
        "w1:8083 connector files None RUNNING; w1:8083 task files 0 FAILED; "
        "w2:8083 task files 1 PAUSED; w2:8083 connector 'to s3/eu' None STOPPED"
    )
    columns = ("protocol", "generation_id", "last_completed_generation_id", "max_delay_ms", "leader", "version")
    assert _rows(tables, "clusters", *columns) == [("sessioned", 1, 0, 5, None, "4.1.2")]
    assert tables["state"].num_rows == tables["unreadable"].num_rows == 0


def test_three_requests_whatever_its_size() -> None:
    """Not one a connector."""
    listing = {f"c{n}": connect_stub.connector(f"c{n}", {None: "w:1", 0: "w:1"}) for n in range(50)}
    with serving(connect_stub.cluster(listing)) as stub:
        assert len(_read(stub).connectors) == 50
        assert stub.requested == ["/", "/connectors", EXPANDED]


def test_a_connector_without_a_status_is_not_lost() -> None:
    """The expanded listing leaves it out; it is asked for by its own path. One that is gone meanwhile is left out."""
    answers = connect_stub.cluster({"files": FILES}) | {
        "/connectors": ["files", "new one", "deleted"],
        "/connectors/new%20one": {"name": "new one", "type": "sink", "tasks": []},
        "/connectors/new%20one/tasks": [{"id": {"connector": "new one", "task": 0}, "config": {}}],
    }
    with serving(answers) as stub:
        view = _read(stub)
    assert [(each.name, each.tasks, each.status) for each in view.connectors][1:] == [("new one", (0,), None)]


def test_releases_that_do_not_expand() -> None:
    """Before 2.3 the listing is a plain list whatever is asked; each connector is read by itself."""
    answers = {
        "/": ROOT,
        "/connectors": ["files"],
        EXPANDED: ["files"],
        "/connectors/files": FILES["info"],
        "/connectors/files/tasks": [{"id": task} for task in FILES["info"]["tasks"]],
        "/connectors/files/status": FILES["status"],
    }
    with serving(answers) as stub, serving(connect_stub.cluster({"files": FILES})) as newer:
        assert _read(stub) == _read(newer)


def test_temporary_errors_are_retried(pauses: list[float]) -> None:
    """409 in a rebalance, 503 from a proxy; pauses double."""
    answers = connect_stub.cluster({"files": FILES})
    moods = [(409, {"message": "rebalance expected"}), (503, b"<html>"), (500, {"message": "Request timed out"})]
    answers[EXPANDED] = lambda before: moods[before] if before < 3 else {"files": FILES}
    with serving(answers) as stub:
        assert len(_read(stub).connectors) == 1
    assert pauses == [0.5, 1, 2]


def test_what_does_not_pass_names_url_status_and_remedy(pauses: list[float]) -> None:
    """After the last attempt."""
    with serving({"/": (409, {"error_code": 409, "message": "rebalance expected"})}) as stub:
        with pytest.raises(SourceError, match=r"GET .*/: 409 Conflict \(rebalance expected\), 3 attempts\. .*settled"):
            _read(stub, attempts=3)
        assert len(pauses) == 2


@cases(
    "answer message",
    ((401, b""), "401 Unauthorized. Give user:password in SPARK_ASSIGN_CONNECT_AUTH"),
    ((403, {"message": "no"}), r"403 Forbidden \(no\). The user may not"),
    ((404, b"<html>not here"), "404 Not Found .*root of a Connect worker"),
    ((302, b"", {"Location": "http://login/"}), "302 Found: leads to http://login/. Give that URL"),
    ((200, b"<html>hello"), r"isn't JSON \(<html>hello\)"),
    ((200, {"name": "elasticsearch"}), "not as a Connect worker"),
    ((200, ["x"]), "not as a Connect worker"),
)
def test_what_is_no_connect_worker(answer: Any, message: str, pauses: list[float]) -> None:
    """Said at once."""
    with serving({"/": answer}) as stub:
        with pytest.raises(SourceError, match=message):
            _read(stub)
        assert (len(stub.requested), pauses) == (1, [])


def test_an_answer_out_of_shape() -> None:
    """No traceback, no guess."""
    answers = connect_stub.cluster({"files": {"info": FILES["info"], "status": {"tasks": [{"id": 0}]}}})
    with serving(answers) as stub, pytest.raises(SourceError, match="not as Connect gives it"):
        _read(stub)


def test_nobody_there(pauses: list[float]) -> None:
    """Refused connections and answers that do not come."""
    with serving({}) as stub:
        pass
    with pytest.raises(SourceError, match=r"Connection refused, 2 attempts\. Check the address"):
        _read(stub, attempts=2)


def test_the_next_worker_of_the_same_cluster_gets_the_request(pauses: list[float]) -> None:
    """Without a pause, and from then on."""
    with serving({}) as gone:
        pass
    with serving(connect_stub.cluster({"files": FILES})) as stub:
        http = ConnectHttp([gone.url, stub.url], HttpSettings())
        assert len(connect_rest.read(http).connectors) == 1
        assert http.url == stub.url
    assert pauses == []


def test_basic_auth_from_file_or_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The header is sent and shown nowhere."""
    file = tmp_path / "auth"
    file.write_text("reader:pä:ss 4711\n")
    monkeypatch.setenv(http_settings.CREDENTIALS_VARIABLE, "env:pw")
    secret = http_settings.credentials(str(file))
    with serving(connect_stub.cluster({})) as stub:
        http = ConnectHttp([stub.url], HttpSettings(credentials=secret))
        connect_rest.read(http)
        assert {headers["Authorization"] for headers in stub.headers} == {"Basic cmVhZGVyOnDDpDpzcyA0NzEx"}
    assert "4711" not in repr((secret, HttpSettings(credentials=secret), vars(http)))
    assert http_settings.credentials(None) == "env:pw"
    monkeypatch.delenv(http_settings.CREDENTIALS_VARIABLE)
    assert http_settings.credentials(None) is None
    with pytest.raises(ConfigError, match="readable file"):
        http_settings.credentials(str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="--connect-auth: expected a readable file") as error:
        http_settings.credentials("/etc/reader:pw-4711")
    assert "4711" not in str(error.value)
    file.write_text("no colon")
    with pytest.raises(ConfigError, match="expected user:password"):
        http_settings.credentials(str(file))


def test_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    """TLS is verified; --connect-ca names whom to trust."""
    with tls_stub.guarded(tmp_path, clients=False) as url:
        with pytest.raises(SourceError, match=r"not trusted .*--connect-ca"):
            ConnectHttp([url], HttpSettings()).get("/")
        assert ConnectHttp([url], HttpSettings(ca_file=str(tmp_path / "stub.pem"))).get("/") == ROOT
    with pytest.raises(ConfigError, match="PEM"):
        ConnectHttp([url], HttpSettings(ca_file=str(tmp_path / "none.pem")))


def test_targets() -> None:
    """Names, several workers of a cluster, what belongs to which."""
    assert parse_targets(["https://a:1/,http://b:2", "eu=http://c:3/connect"], ["a:1=w:1,w:2"], ["eu=connect-eu"]) == [
        ConnectTarget("a:1", ("https://a:1/", "http://b:2"), ("w:1", "w:2")),
        ConnectTarget("eu", ("http://c:3/connect",), (), "connect-eu"),
    ]
    for url in ("http://[fe80::1%25eth0]:1", "http://a_b.:1", "http://b\u00fccher:1", f"http://{'a' * 63}:1/\u00fc b"):
        assert parse_targets([url])[0].urls == (url,)
    assert parse_targets(["http://a:1"], ["w:1"], ["g"]) == [ConnectTarget("a:1", ("http://a:1",), ("w:1",), "g")]


@cases(
    "urls workers message",
    (["a:8083"], [], "expected .*http"),
    (["ftp://a"], [], "expected .*http"),
    (["http://[::1"], [], "expected .*http"),
    (["http://a:65536"], [], "expected .*http"),
    (["http://a..b:1"], [], "expected .*http"),
    (["http://a b:1"], [], "expected .*http"),
    ([f"http://{'a' * 70}:1"], [], "expected .*http"),
    (["http://" + "\u00e9" * 70], [], "expected .*http"),
    (["http://u:pw-4711@a"], [], "does not belong on the command line"),
    (["p=http://u:pw-4711@[::1"], [], "found no URL"),
    (["p=http://a/?token=pw-4711"], [], "found http://a with a query"),
    (["u:pw-4711"], [], "found no URL"),
    (["http://a:1,"], [], "found nothing"),
    (["http://a:1", "http://a:1/"], [], "called a:1 already"),
    (["http://a:1", "http://b:1"], ["w:1"], "of which cluster"),
    (["x=http://a:1"], ["y=w:1"], "the clusters are x"),
    (["x=http://a:1"], ["w:1", "x=w:2"], "has one already"),
)
def test_targets_that_make_no_sense(urls: list[str], workers: list[str], message: str) -> None:
    """Named with the option; a password is not repeated."""
    with pytest.raises(ConfigError, match=message) as error:
        parse_targets(urls, workers)
    assert "4711" not in str(error.value)


def test_one_cluster_of_several_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row of `unreadable` and a line; the others are written. With none left, nothing is, and the code is 3.

    What was known of it before stays.
    """
    out = tmp_path / "out"
    hostile = {"/": (404, b'{"message": "\\u001b[2J"}')}
    with serving(hostile) as bad, serving(connect_stub.cluster({"files": FILES})) as good:
        arguments = ["--connect-url", f"bad={bad.url}", "--connect-url", f"good={good.url}", "--output-format", "json"]
        assert job.main([*arguments, "--fleet-dir", str(out)]) == 0
        [of_bad] = out.glob("connect_cluster=bad/taken=*")
        assert json.loads((of_bad / "unreadable.json").read_text())["connect_cluster"] == "bad"
        assert (of_bad / "tasks.json").read_text() == ""
        printed = capsys.readouterr().err
        assert "not read: GET" in printed
        assert r"\x1b[2J" in printed
        assert job.main([*arguments[:2], "--fleet-dir", str(tmp_path / "none")]) == 3
        now_bad = ["--connect-url", f"good={bad.url}", "--connect-url", f"third={good.url}", "--output-format", "json"]
        assert job.main([*now_bad, "--fleet-dir", str(out)]) == 0
    whole, kept = sorted(out.glob("connect_cluster=good/taken=*"))
    for folder in (whole, kept):
        summary = json.loads((folder / "snapshot.json").read_text())
        assert (summary["cluster"], summary["rows"]["tasks"]) == ("good", 3)
        assert list(summary["source"]["urls"]) == ["good"]
        assert len((folder / "tasks.json").read_text().splitlines()) == 3
    assert [(folder / "unreadable.json").read_text() == "" for folder in (whole, kept)] == [True, False]
    assert not (tmp_path / "none").exists()


def test_the_same_cluster_twice(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A worker that copies the answers of another cluster doesn't cost that cluster its snapshot, in any order."""
    answers = connect_stub.cluster({"files": FILES})
    with serving(answers) as one, serving(answers) as other:
        with serving(connect_stub.cluster({"files": FILES, "to s3/eu": SINK})) as third:
            found = connect.snapshot(parse_targets([f"a={one.url}", f"b={other.url}", f"c={third.url}"]))
            urls = [f"--connect-url=b={other.url}", f"--connect-url=a={one.url}", f"--connect-url=c={third.url}"]
            assert job.main([*urls, "--fleet-dir", str(tmp_path), "--output-format", "json"]) == 0
        assert _rows(found.tables, "clusters", "connect_cluster") == ["a", "b", "c"]
        assert _rows(found.tables, "unreadable", "connect_cluster") == []
        assert {*_rows(found.tables, "tasks", "connect_cluster")} == {"a", "b", "c"}
        [text] = found.source["same_clusters"]
        assert text.startswith("a and b seem to be the same Connect cluster: both have the worker w1:8083")
        assert "b and a seem to be the same Connect cluster" in caplog.text
        tasks = {path.parts[-3]: path.read_text() for path in tmp_path.glob("*/*/tasks.json")}
        assert tasks["connect_cluster=a"].replace('"a"', '"b"') == tasks["connect_cluster=b"] != ""
        with serving(answers | {"/": ROOT | {"kafka_cluster_id": "kafka-2"}}) as elsewhere:
            assert connect.snapshot(parse_targets([one.url, elsewhere.url])).rows()["clusters"] == 2


@cases(
    "arguments",
    [],
    ["--bootstrap-server", "b:1", "--connect-auth", "f"],
    ["--bootstrap-server", "b:1", "--connect-protocol", "eager"],
    ["--connect-url", "http://a:1", "--group", "x"],
    ["--connect-url", "http://a:1", "--connect-protocol", "lazy"],
    ["--connect-url", "http://a:1", "--connect-attempts", "0"],
    ["--connect-url", "http://a:1", "--command-config", "f"],
    ["--connect-url", "http://a:1", "--connect-group", "g"],
    ["--connect-url", "http://a:1", "--connect-workers", "w:1", "--bootstrap-server", "b:1"],
)
def test_options_that_do_not_go_together(arguments: list[str], tmp_path: Path) -> None:
    """Code 2, nothing ignored."""
    assert job.main([*arguments, "--fleet-dir", str(tmp_path / "out")]) == 2
