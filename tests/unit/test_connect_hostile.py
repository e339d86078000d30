"""A Connect worker that answers to do harm: it costs its own row of `unreadable`, and no other cluster."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("requests", reason="reading Connect clusters is an extra")

from spark_assign.sources.auth import http_session
from spark_assign.sources.auth.secret import Secret
from spark_assign.sources.connect import cluster_snapshot, rest
from spark_assign.sources.connect.cluster_snapshot import parse_targets
from spark_assign.sources.connect.http_settings import HttpSettings
from spark_assign.stores import time_limit
from spark_assign.tables.errors import SourceError
from tests.unit import connect_stub
from tests.unit.connect_stub import EXPANDED, ROOT, serving

FILES = connect_stub.connector("files", {None: "w1:8083", 0: "w1:8083"})
GOOD = connect_stub.cluster({"files": FILES})


def changed(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """The answers of a good cluster with another value in its expanded listing."""
    listing = json.loads(json.dumps({"files": FILES}))
    at = listing["files"]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return GOOD | {EXPANDED: listing}


def raw(path: str, text: str | bytes) -> dict[str, Any]:
    """The answers of a good cluster with a body that json.dumps wouldn't write."""
    return GOOD | {path: (200, text.encode() if isinstance(text, str) else text)}


def redirect(to: str) -> dict[str, Any]:
    """A redirect as the first answer."""
    return GOOD | {"/": (302, b"x", {"Location": to})}


HOSTILE: dict[str, dict[str, Any]] = {
    "version is a number": GOOD | {"/": ROOT | {"version": 4}},
    "version is null": GOOD | {"/": ROOT | {"version": None}},
    "Kafka cluster is a list": GOOD | {"/": ROOT | {"kafka_cluster_id": ["x"]}},
    "root is null": GOOD | {"/": None},
    "deep root": raw("/", "[" * 200_000),
    "deep version": raw("/", '{"version": ' + "[" * 5_000 + "]" * 5_000 + "}"),
    "deep listing": raw(EXPANDED, '{"a":' * 100_000),
    "deep message": GOOD | {"/": (400, b'{"message": ' + b"[" * 100_000)},
    "names are a number": GOOD | {"/connectors": 7},
    "a name is an object": GOOD | {"/connectors": [{}]},
    "a name is null": GOOD | {"/connectors": ["files", None]},
    "names are an object": GOOD | {"/connectors": {"files": 1}},
    "state is a number": changed(("status", "connector", "state"), 7),
    "state is an object": changed(("status", "tasks", 0, "state"), {}),
    "worker is null": changed(("status", "connector", "worker_id"), None),
    "worker is a number": changed(("status", "tasks", 0, "worker_id"), 8083),
    "a long worker": changed(("status", "connector", "worker_id"), "w" * 40_000),
    "a long state": changed(("status", "tasks", 0, "state"), "S" * 40_000),
    "a long Kafka cluster": GOOD | {"/": ROOT | {"kafka_cluster_id": "k" * 40_000}},
    "a long name": GOOD | {"/connectors": ["n" * 40_000], EXPANDED: {"n" * 40_000: FILES}},
    "a worker of 1,002 bytes": changed(("status", "tasks", 0, "worker_id"), "\u00e4" * 501),
    "a state of 1,002 bytes": changed(("status", "connector", "state"), "\u00e4" * 501),
    "a type of 1,002 bytes": changed(("info", "type"), "\u00e4" * 501),
    "a version of 1,002 bytes": GOOD | {"/": ROOT | {"version": "\u00e4" * 501}},
    "a Kafka cluster of 1,002 bytes": GOOD | {"/": ROOT | {"kafka_cluster_id": "\u00e4" * 501}},
    "a name of 1,002 bytes": GOOD | {"/connectors": ["\u00e4" * 501], EXPANDED: {}},
    "a name of 1,002 bytes in the listing": GOOD | {EXPANDED: {"\u00e4" * 501: FILES}},
    "type is an object": changed(("info", "type"), {"a": 1}),
    "type is a number": changed(("info", "type"), 3),
    "task 2^40": changed(("info", "tasks", 0, "task"), 1 << 40),
    "task -1": changed(("info", "tasks", 0, "task"), -1),
    "task 1.5": changed(("status", "tasks", 0, "id"), 1.5),
    "task is true": changed(("info", "tasks", 0, "task"), True),
    "task infinity": changed(("info", "tasks", 0, "task"), float("inf")),
    "task NaN": changed(("status", "tasks", 0, "id"), float("nan")),
    "task of 5,000 digits": raw(EXPANDED, json.dumps({"files": FILES}).replace('"id": 0', '"id": ' + "9" * 5_000)),
    "tasks are an object": changed(("info", "tasks"), {"a": 1}),
    "status is null": changed(("status",), None),
    "a lone surrogate in a worker": raw(EXPANDED, json.dumps({"files": FILES}).replace("w1:8083", "\\ud800")),
    "a lone surrogate in a name": raw("/connectors", '["\\udfff"]'),
    "a lone surrogate in a version": raw("/", '{"version": "\\ud800"}'),
    "a lone surrogate in a message": GOOD | {"/": (400, b'{"message": "\\ud800"}')},
    "no UTF-8": raw("/", b'{"version": "\xff\xfe"}'),
    "a redirect to no address": redirect("http://[::1"),
    "a redirect to no port": redirect("http://a:99999999/"),
    "a redirect to no name": redirect("http://" + "a" * 70 + "." * 3 + "\xe4/"),
    "a redirect without end": redirect("/"),
    "an unknown encoding": GOOD | {"/": (200, b"x", {"Content-Encoding": "gzip"})},
    "a reason of 60 KB": GOOD | {"/": (400, json.dumps({"message": "x" * 60_000}).encode())},
    "too many values": raw("/", "[" + "[]," * 300_000 + "[]]"),
    "too many objects": raw(EXPANDED, json.dumps({f"c{n}": FILES for n in range(100)})),
}


def take(hostile: str, good: str) -> tuple[list[str], list[str], list[str]]:
    """The clusters that were read, those that weren't, and why."""
    targets = parse_targets([f"hostile={hostile}", f"good={good}"])
    tables = cluster_snapshot.snapshot(targets, http=HttpSettings(attempts=1)).tables
    faults = tables["unreadable"].to_pylist()
    read = tables["clusters"]["connect_cluster"].to_pylist()
    return read, [row["connect_cluster"] for row in faults], [row["error"] for row in faults]


@pytest.mark.parametrize("name", HOSTILE)
def test_it_costs_its_own_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever one cluster answers, the other one is read, and the error is short and names the address."""
    monkeypatch.setattr(rest, "MAX_VALUES", 500_000)
    monkeypatch.setattr(rest, "MAX_OBJECTS", 500)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(HOSTILE[name]) as hostile, serving(GOOD) as good:
        read, unreadable, errors = take(hostile.url, good.url)
    assert (read, unreadable) == (["good"], ["hostile"])
    assert errors[0].startswith((f"GET {hostile.url}", f"{hostile.url}/ answers"))
    assert len(errors[0]) < 1_500


def test_texts_up_to_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand bytes are read."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    name = "\u00e4" * 500
    files = connect_stub.connector(name, {None: name, 0: f"{name} {name}"}, type=name)
    answers = connect_stub.cluster({name: files}) | {"/": ROOT | {"version": name, "kafka_cluster_id": name}}
    with serving(answers) as stub:
        tables = cluster_snapshot.snapshot(parse_targets([stub.url]), http=HttpSettings(attempts=1)).tables
    assert tables["reported"]["state"].to_pylist() == ["RUNNING", name]
    assert {table: tables[table].num_rows for table in ("tasks", "unreadable")} == {"tasks": 1, "unreadable": 0}


@pytest.mark.parametrize("after", ["9" * 5_000, "Mon, 01 Jan 20255 00:00:00 GMT", "soon"])
def test_no_retry_after_ends_the_snapshot(after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with more digits than Python parses, and one in a year that it doesn't have: the next attempt is as usual."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    pauses: list[float] = []
    monkeypatch.setattr(rest, "wait", pauses.append)
    moods = [(503, b"", {"Retry-After": after}), ROOT]
    with serving(GOOD | {"/": lambda before: moods[before]}) as stub:
        tables = cluster_snapshot.snapshot(parse_targets([f"hostile={stub.url}"]), http=HttpSettings()).tables
    assert (tables["clusters"].num_rows, pauses) == (1, [0.5])


def test_a_large_answer_with_an_error_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million lists take 30 times the memory of their text."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    large = b'{"message": "x", "y": [' + b"[]," * 1_000_000 + b"[]]}"
    with serving(GOOD | {"/": (400, large)}) as hostile, serving(GOOD) as good:
        _, _, errors = take(hostile.url, good.url)
    assert "400 Bad Request ({" in errors[0]


@contextmanager
def dripping(write: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that writes as it likes to each connection, in threads that end with it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer(connection: socket.socket) -> None:
            with connection:
                try:
                    connection.recv(1 << 16)
                    write(connection)
                except OSError:
                    pass

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def _drip(connection: socket.socket, head: bytes) -> None:
    connection.sendall(head)
    for _ in range(200):
        time.sleep(0.02)
        connection.sendall(b"x")


def _endless(connection: socket.socket, head: bytes) -> None:
    connection.sendall(head)
    while True:
        connection.sendall(b"1" * (1 << 16))


OK = b"HTTP/1.1 200 OK\r\n"
REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: /x\r\n"


@pytest.mark.parametrize("head", [OK + b"Content-Length: 1000000\r\n\r\n", OK + b"X: ", b"HTTP/1.1 2"])
def test_one_byte_at_a_time(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the body, in a header, and in the first line: the time for one answer is limited as a whole."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(rest, "ANSWER_TIMEOUTS", 0.03)
    with serving(GOOD) as good, dripping(lambda connection: _drip(connection, head)) as url:
        read, unreadable, errors = take(url, good.url)
    assert (read, unreadable) == (["good"], ["hostile"])
    assert "no answer in time" in errors[0]


@pytest.mark.parametrize("head", [OK + b"\r\n", REDIRECT + b"\r\n"])
def test_a_body_without_end(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an answer, and of a redirect, which requests would read to its end."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(http_session, "MAX_RESPONSE_BYTES", 4 << 20)
    with serving(GOOD) as good, dripping(lambda connection: _endless(connection, head)) as url:
        read, unreadable, errors = take(url, good.url)
    assert (read, unreadable) == (["good"], ["hostile"])
    assert "more than 4 MB" in errors[0]


def test_answers_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is small, and all of a cluster together have a limit."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(rest, "MAX_CLUSTER_BYTES", 4 << 20)
    with serving(GOOD | {"/": ROOT | {"more": "x" * (5 << 20)}}) as hostile, serving(GOOD) as good:
        read, unreadable, errors = take(hostile.url, good.url)
    assert (read, unreadable) == (["good"], ["hostile"])
    assert "the answers of the cluster have more than 4 MB" in errors[0]


def test_a_first_line_that_is_no_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60 kB with line ends: the error has a part of it, in one line."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    line = b"HTTP/1.1 99999 " + b"x\r" * 30_000 + b"\r\n\r\n"
    with serving(GOOD) as good, dripping(lambda connection: connection.sendall(line)) as url:
        read, unreadable, errors = take(url, good.url)
    assert (read, unreadable) == (["good"], ["hostile"])
    assert len(errors[0]) < 400
    assert len(errors[0].splitlines()) == 1


@pytest.mark.parametrize("line", [b"foo me:S3cr3t-Pa55", b"a\0b: S3cr3t-Pa55", b"S3cr3t-Pa55" * 5_000])
def test_a_header_that_is_none(line: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """urllib3 logs nothing about our request, and still logs what it does for others."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    caplog.set_level(logging.DEBUG, logger="urllib3")
    answer = b"HTTP/1.1 400 Bad\r\n" + line + b"\r\nContent-Length: 2\r\n\r\n{}"
    http = HttpSettings(attempts=1, credentials=Secret("me:S3cr3t-Pa55"))
    with dripping(lambda connection: connection.sendall(answer)) as url, pytest.raises(SourceError, match="400 Bad"):
        rest.ConnectHttp([url], http).get("/")
    assert caplog.text == ""
    import requests

    with dripping(lambda connection: connection.sendall(answer)) as url:
        requests.get(url, timeout=30)
    assert "Failed to parse headers" in caplog.text


@pytest.mark.parametrize(
    "answers",
    [
        GOOD | {"/": ROOT | {"version": "S3cr3t-Pa55"}},
        GOOD | {"/": ROOT | {"kafka_cluster_id": "x-bWU6UzNjcjN0LVBhNTU="}},
        GOOD | {"/connectors": ["S3cr3t%2DPa55"], EXPANDED: {}},
        changed(("status", "connector", "worker_id"), "Basic bWU6UzNjcjN0LVBhNTU="),
        changed(("status", "tasks", 0, "state"), "me:S3cr3t-Pa55"),
        changed(("info", "type"), "S3cr3t-Pa55"),
        raw("/", '{"version": "S3cr3t\\u002dPa55"}'),
    ],
)
def test_an_answer_that_repeats_the_password(answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Isn't stored, and isn't part of the address of another request."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    http = HttpSettings(attempts=1, credentials=Secret("me:S3cr3t-Pa55"))
    with serving(answers) as stub, pytest.raises(SourceError, match="the answer repeats the password") as error:
        cluster_snapshot.snapshot(parse_targets([stub.url]), http=http)
    assert "Pa55" not in str(error.value)
    assert not any("Pa55" in path for path in stub.requested)


@pytest.mark.parametrize("password", ["files", "w1:8083", "kafka", "s-p4ssword"])
def test_a_password_that_is_a_name(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A valid answer can have it by chance, or in the configuration of a connector, which isn't stored."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    http = HttpSettings(attempts=1, credentials=Secret(f"me:{password}"))
    with serving(changed(("info", "config"), {"password": "s-p4ssword"})) as stub:
        tables = cluster_snapshot.snapshot(parse_targets([stub.url]), http=http).tables
    assert tables["clusters"].num_rows == 1


@pytest.mark.parametrize(
    ("connector", "where"),
    [(b"0", "0: Input should be an object"), (b'{"info":0,"status":0}', "0.info: Input should be an object")],
)
def test_a_listing_of_which_everything_is_wrong(connector: bytes, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first fault is enough: pydantic takes 1 kB for each, which were gigabytes."""
    listing = {"0": b'"0":' + connector} | {str(n): b'"%d":%s' % (n, connector) for n in range(1, 100_000)}
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(raw(EXPANDED, b"{" + b",".join(listing.values()) + b"}")) as stub:
        tracemalloc.start()
        with pytest.raises(SourceError, match=where) as error:
            cluster_snapshot.snapshot(parse_targets([stub.url]), http=HttpSettings(attempts=1))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert "pydantic" not in str(error.value)
    assert peak < 30 << 20


def test_answers_are_parsed_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of several clusters, which would need their memory together."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    root, at_once, most = rest._ROOT, list[None](), list[int]()

    class Slow:
        dump_json = root.dump_json

        def validate_json(self, body: bytes, **options: Any) -> Any:
            at_once.append(None)
            time.sleep(0.1)
            most.append(len(at_once))
            at_once.pop()
            return root.validate_json(body, **options)

    monkeypatch.setattr(rest, "_ROOT", Slow())
    with serving(GOOD) as one, serving(GOOD) as other:
        assert take(one.url, other.url)[1] == []
    assert most == [1, 1]


def test_names_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each connector that isn't in the listing takes requests of its own; the time of a cluster is limited, too."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(rest, "CLUSTER_TIMEOUTS", 0.02)
    slow = GOOD | {"/connectors": [f"c{n}" for n in range(10_000)], EXPANDED: {}}
    with serving(slow) as hostile, serving(GOOD) as good:
        read, unreadable, errors = take(hostile.url, good.url)
    assert (read, unreadable) == (["good"], ["hostile"])
    assert "the cluster took more than 0.6 s" in errors[0]


def test_requests_that_hang_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process ends while they hang, and starts no more than it may; what has ended doesn't count."""
    monkeypatch.setattr(time_limit, "MAX_HANGING", 3)
    monkeypatch.setattr(time_limit, "_hanging", [])
    ends, started = threading.Event(), []

    def hang() -> None:
        started.append(threading.current_thread())
        ends.wait(60)

    for _ in range(5):
        with pytest.raises(TimeoutError):
            time_limit.within(0.01, hang)
    assert len(started) == 3
    assert all(thread.daemon for thread in started)
    ends.set()
    for thread in started:
        thread.join(60)
    assert time_limit.within(60, lambda: 1) == 1
