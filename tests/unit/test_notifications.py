"""Alerts are sent when they begin and when they end."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_assign.cli.job import Outcome
from spark_assign.cli.notifications import MAX_LINES, check_url, notify
from spark_assign.cli.options import LOCAL_FILES
from spark_assign.tables.errors import ConfigError, SourceError
from tests.unit.test_options import commands
from tests.unit.webhook_stub import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A webhook that accepts everything."""
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


def alert(group: str, kind: str = "rejected", detail: str = "duplicate-member") -> dict[str, Any]:
    """A row of tables.groups.ALERTS."""
    return {"cluster": "c", "group_id": group, "alert": kind, "detail": detail, "max_over_mean_after": None}


def send(receiver: Receiver, file: Path, *alerts: dict[str, Any], is_complete: bool = True) -> list[tuple[str, str]]:
    """Calls `notify`, and returns what the receiver got since: what changed, and the group."""
    before = len(receiver.messages)
    notify(receiver.url, str(file), Outcome("check", run_id="r"), alerts, is_complete=is_complete)
    return [(c, row["group_id"]) for m in receiver.messages[before:] for c in ("begun", "ended") for row in m[c]]


def test_an_alert_is_sent_when_it_begins_and_when_it_ends(receiver: Receiver, tmp_path: Path) -> None:
    """Not between, whatever its detail; groups with the same alert, and alerts of one group, are apart."""
    file = tmp_path / "new" / "alerts.json"
    assert send(receiver, file, alert("a"), alert("b")) == [("begun", "a"), ("begun", "b")]
    since = json.loads(file.read_text())["alerts"][0]["since"]
    assert send(receiver, file, alert("b", detail="other"), alert("a")) == []
    assert send(receiver, file, alert("a"), alert("a", "pause")) == [("begun", "a"), ("ended", "b")]
    message = receiver.messages[-1]
    assert (message["version"], message["job"], message["run_id"]) == (1, "check", "r")
    assert message["text"] == "Alerts: 1 began, 1 ended\nbegan: pause, c/a: duplicate-member\nended: rejected, c/b"
    assert message["ended"][0]["since"] == since
    assert send(receiver, file) == [("ended", "a"), ("ended", "a")]
    assert send(receiver, file) == []
    assert len(receiver.messages) == 3


def test_a_run_that_is_not_complete_ends_no_alert(receiver: Receiver, tmp_path: Path) -> None:
    """What it lacks might still hold."""
    file = tmp_path / "alerts.json"
    send(receiver, file, alert("a"))
    assert send(receiver, file, alert("b"), is_complete=False) == [("begun", "b")]
    assert send(receiver, file, alert("b")) == [("ended", "a")]


def test_what_was_not_accepted_is_sent_again(receiver: Receiver, tmp_path: Path) -> None:
    """The error doesn't repeat the URL, which might be a secret."""
    file = tmp_path / "alerts.json"
    receiver.status = 500
    with pytest.raises(OSError, match=r"^--notify: 127\.0\.0\.1 didn't accept the alerts: status 500$"):
        send(receiver, file, alert("a"))
    receiver.status = 302
    with pytest.raises(OSError, match=r"^--notify: 127\.0\.0\.1 didn't accept the alerts: status 302$"):
        send(receiver, file, alert("a"))
    receiver.status = 200
    assert send(receiver, file, alert("a")) == [("begun", "a")]


def test_one_byte_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A time-out of a socket is never over, so the answer as a whole has one, too."""
    monkeypatch.setattr("spark_assign.cli.notifications.TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection = server.accept()[0]
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while True:
                    connection.sendall(b"x")
                    time.sleep(0.05)

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(OSError, match=r"^--notify: 127\.0\.0\.1 didn't accept the alerts: TimeoutError$"):
            notify(url, str(tmp_path / "alerts.json"), Outcome("check"), [alert("a")])


def test_a_redirect_without_end(tmp_path: Path) -> None:
    """It isn't followed, which loses the message, and its body isn't read, which takes all memory."""
    sent = 0
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            nonlocal sent
            connection = server.accept()[0]
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n")
                while sent < 1 << 28:
                    sent += connection.send(bytes(1 << 16))

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        with pytest.raises(OSError, match=r"didn't accept the alerts: status 302$"):
            notify(url, str(tmp_path / "alerts.json"), Outcome("check"), [alert("a")])
    assert sent < 1 << 28


def test_a_long_list_is_cut_in_the_text_only(receiver: Receiver, tmp_path: Path) -> None:
    """A chat has limits."""
    assert len(send(receiver, tmp_path / "a", *(alert(str(number)) for number in range(MAX_LINES + 5)))) == 25
    assert receiver.messages[0]["text"].endswith("\n… and 5 more")


def test_the_file_of_alerts_need_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run makes it. A path that can't be read is wrong input."""
    monkeypatch.setenv(LOCAL_FILES, "yes")
    new = str(tmp_path / "new.json")
    assert commands()["check"].parse(["--plan", str(tmp_path), "--notify-state", new]).notify_state == new
    with pytest.raises(SourceError, match="can't be read: file name too long"):
        notify("http://127.0.0.1:1", str(tmp_path / ("n" * 300)), Outcome("check"), [])


def test_a_pipe_is_no_file_of_alerts(tmp_path: Path) -> None:
    """In a folder that others write to, a job would wait for it forever."""
    os.mkfifo(tmp_path / "alerts.json")
    with pytest.raises(ConfigError, match="isn't a file of alerts"):
        notify("http://127.0.0.1:1", str(tmp_path / "alerts.json"), Outcome("check"), [])


def test_names_without_end_stop_no_alert(receiver: Receiver, tmp_path: Path) -> None:
    """A receiver refuses a message that is too large, so one that all the names are in would never arrive."""
    names = [f"{number}{'z' * 32_000}" for number in range(40)]
    sent = send(receiver, tmp_path / "a", *map(alert, names), alert("payments"))
    assert sent[-1] == ("begun", "payments")
    assert sent[:-1] == [("begun", name) for name in names[:32]]
    assert receiver.messages[0]["text"].startswith("Alerts: 41 began, 0 ended\n")
    assert send(receiver, tmp_path / "a", *map(alert, names), alert("payments")) == []


def test_names_without_end_are_not_stored(receiver: Receiver, tmp_path: Path) -> None:
    """The file was larger than what is read of it, so no alert was sent again. A long name is known by its hash."""
    file, names = tmp_path / "a", [str(number) + "\x01" * 32_000 for number in range(400)]
    rows = [alert(name, detail=name) for name in names]
    notify(receiver.url, str(file), Outcome("check"), rows)
    assert file.stat().st_size < 2 << 20
    assert send(receiver, file, *rows, alert("payments")) == [("begun", "payments")]
    [(change, cut)] = send(receiver, file, *rows[1:], alert("payments"))
    assert (change, cut) == ("ended", f"{names[0][:250]}…")
    assert set(receiver.messages[-1]["ended"][0]) == {"cluster", "group_id", "alert", "detail", "since"}
    assert send(receiver, file, *rows[1:], alert("payments")) == []
    assert send(receiver, file, *rows[1:], alert("payments"), alert(f"{names[0]}x")) == [("begun", f"{names[0]}x")]


def test_no_more_is_written_than_is_read(receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The alerts for which the file has no room are sent again, and each file can be read."""
    monkeypatch.setattr("spark_assign.cli.notifications._MAX_STATE_BYTES", 4_000)
    rows = [alert(str(number)) for number in range(40)]
    assert len(send(receiver, tmp_path / "a", *rows)) == 40
    assert (tmp_path / "a").stat().st_size <= 4_000
    again = send(receiver, tmp_path / "a", *rows)
    assert ("begun", "39") in again
    assert ("begun", "0") not in again


def test_a_file_of_before_has_long_names(receiver: Receiver, tmp_path: Path) -> None:
    """Its alerts are known, though it has no hash."""
    row = {"cluster": "c", "group_id": "z" * 1_000, "alert": "rejected", "detail": "d", "since": "2026-11-27T00:00:00Z"}
    (tmp_path / "a").write_text(json.dumps({"version": 1, "alerts": [row]}))
    assert send(receiver, tmp_path / "a", alert("z" * 1_000)) == []
    assert send(receiver, tmp_path / "a") == [("ended", f"{'z' * 250}…")]


def test_hostile_names_are_text_in_a_chat(receiver: Receiver, tmp_path: Path) -> None:
    """One line each, of bounded length, without mentions and links; the rows have the exact names."""
    names = ("<!channel>&", "[all is well](https://evil.example) @all", "x\nended: rejected, c/y", "z" * 64_000)
    assert send(receiver, tmp_path / "a", *map(alert, names)) == [("begun", name) for name in names]
    lines = receiver.messages[0]["text"].split("\n")[1:]
    assert lines[:3] == [
        "began: rejected, c/&lt;!channel&gt;&amp;: duplicate-member",
        r"began: rejected, c/\x5ball is well\x5d(https://evil.example) \x40all: duplicate-member",
        r"began: rejected, c/x\nended: rejected, c/y: duplicate-member",
    ]
    assert len(lines) == 4
    assert len(lines[3]) < 600


def test_wrong_input(receiver: Receiver, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other schemes could read files of this machine; a file of another kind isn't replaced."""
    refused = ["file:///etc/passwd", "https://[::1", "http://", "http:///x", "http://a..b/", "http://u:pw@a/"]
    refused += ["http://a/b c", "http://a/b\nc", " http://a/", "http://a/\x7f", "http://a/\u00fc", "http://a/?\u00fc"]
    for url in refused:
        with pytest.raises(ConfigError, match=r"--notify (needs|has) a URL"):
            notify(url, str(tmp_path / "a"), Outcome("check"), [])
        assert commands()["check"](["--plan", "./p", "--notify", url, "--notify-state", "./a"]) == 2
        printed = capsys.readouterr().err  # while words are parsed: not after the run, and without the URL
        assert "Invalid value for '--notify': --notify " in printed
        assert url[8:] not in printed or not url[8:]
    for url in ("http://b\u00fccher.example/", "https://[::1]:8443/x?y=%20#z", "http://a_b:/"):
        check_url(url)
    for text in (
        "{",
        "[]",
        "[" * 100_000,
        '{"version": 2, "alerts": []}',
        '{"version": 1, "alerts": [{}]}',
        '{"version": 1, "alerts": [[]]}',
    ):
        (tmp_path / "other").write_text(text)
        with pytest.raises(ConfigError, match="isn't a file of alerts"):
            send(receiver, tmp_path / "other")
