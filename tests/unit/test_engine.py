"""Which engine a command runs on, and the line that says so."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
from pyspark.sql.connect.client import DefaultChannelBuilder, SparkConnectClient

from spark_assign.cli import job
from spark_assign.cli.job import Outcome
from spark_assign.spark import engine, interrupts
from spark_assign.spark.interrupts import CallsOfAnotherThread
from spark_assign.tables.errors import ConfigError, SparkAssignError

ROOT = Path(__file__).parents[2]


def fake_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts no JVM."""
    session = SimpleNamespace(version="4.1.4", conf=SimpleNamespace(get=lambda name, _: "local[2]"))
    builder = SimpleNamespace(appName=lambda _: builder, config=lambda *_: builder, getOrCreate=lambda: session)
    monkeypatch.setattr(engine, "SparkSession", SimpleNamespace(builder=builder))


def without_sail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engine.ENGINE, "embedded")
    monkeypatch.setitem(sys.modules, "pysail.spark", None)


def logged(caplog: pytest.LogCaptureFixture, *, calls: int = 1) -> list[str]:
    """What a job logs on INFO that gets its session this number of times."""
    options = SimpleNamespace(verbose=False, outcome=Outcome("plan"))

    def run() -> int:
        for _ in range(calls):
            job.spark_session("plan", options)
        return 0

    caplog.clear()
    assert job.run_job("plan", run, verbose=False, progress=False) == 0
    return [record.message for record in caplog.records if record.levelno >= logging.INFO]


def test_one_line_says_which_engine_runs(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """One for each job, even if it gets its session several times."""
    fake_spark(monkeypatch)
    monkeypatch.setenv(engine.ENGINE, "spark")
    for calls in (1, 3):
        assert logged(caplog, calls=calls) == ["engine: Spark 4.1.4, local[2]"]
    monkeypatch.setenv(engine.ENGINE, "embedded")
    monkeypatch.setattr(engine, "embedded_session", lambda: None)
    assert logged(caplog) == [f"engine: Sail {version('pysail')}, in this process"]


def test_spark_replaces_an_engine_that_cannot_be_imported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The line gives the reason."""
    fake_spark(monkeypatch)
    without_sail(monkeypatch)
    monkeypatch.setattr(engine, "distributions", lambda name: iter([name]))
    (line,) = logged(caplog)
    assert line.startswith("engine: Spark 4.1.4, local[2], since Sail can't be imported (")


def test_no_engine_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    without_sail(monkeypatch)
    monkeypatch.setattr(engine, "distributions", lambda name: iter(()))
    with pytest.raises(ConfigError, match=r"Sail, can't be imported \(.*\), and Spark isn't installed: run "):
        engine.choose()


def test_an_engine_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """It isn't Spark."""
    monkeypatch.setenv(engine.ENGINE, "sial")
    with pytest.raises(ConfigError, match="SPARK_ASSIGN_ENGINE=sial: expected embedded or spark"):
        engine.choose()


INTERRUPTED = """
import os, signal, threading, time
from spark_assign import embedded_session
session = embedded_session()
def slow(batches):
    for batch in batches:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)
        yield batch
try:
    session.range(2).mapInPandas(slow, "id long").collect()
except KeyboardInterrupt:
    print(session.range(5).count())
"""


@pytest.mark.embedded
def test_the_engine_outlives_ctrl_c() -> None:
    """Ctrl-C in a notebook ends the query. The server still runs."""
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "5\n", done.stderr


@pytest.mark.embedded
def test_neither_a_proxy_nor_settings_of_sail_are_used() -> None:
    """The connection to the server of the same process has all rows. A wrong setting of Sail would end the process, as
    would a variable that isn't UTF-8, which others still see."""
    proxies = dict.fromkeys(("grpc_proxy", "https_proxy", "http_proxy"), "http://user:secret@127.0.0.1:1")
    environment = {**os.environ, **proxies, "no_proxy": "", "no_grpc_proxy": "", "SAIL_MODE": "bogus", "SAIL_X": "1"}
    environment |= {"TOKIO_WORKER_THREADS": "0", "PWD": "/\udcff", "\udcff": "x"}
    program = "import os; from spark_assign import embedded_session; print(embedded_session().range(5).count())"
    program += r"; assert os.environ['PWD'] + os.environ['\udcff'] == '/\udcffx'"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == "5\n"
    assert done.stderr == "The embedded engine ignores SAIL_MODE, SAIL_X, TOKIO_WORKER_THREADS.\n"


@pytest.mark.parametrize("listens", [True, False])
def test_an_engine_that_does_not_answer(listens: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client tries again where nobody listens; neither this nor the wait for an answer is without end."""
    monkeypatch.setattr(interrupts, "FIRST_ANSWER_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"sc://127.0.0.1:{silent.getsockname()[1]}"
        if not listens:
            silent.close()
        channel = DefaultChannelBuilder(address)
        channel.add_interceptor(CallsOfAnotherThread())
        with pytest.raises(SparkAssignError, match=r"the embedded engine doesn't answer within 0\.3 s"):
            SparkConnectClient(channel).get_configs("a")


@pytest.mark.parametrize("unreadable", [1, 2])
def test_an_answer_that_grpc_cannot_read(unreadable: int) -> None:
    """The call is made once more: a plan doesn't end because of it."""
    given: list[bytes] = [b"\xff"] * unreadable + [b"good"]

    def read(answer: bytes) -> str:
        return answer.decode()

    handler = grpc.unary_unary_rpc_method_handler(lambda request, context: given.pop(0))
    server = grpc.server(ThreadPoolExecutor(1), [grpc.method_handlers_generic_handler("a", {"b": handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.intercept_channel(grpc.insecure_channel(f"127.0.0.1:{port}"), CallsOfAnotherThread()) as channel:
            call = channel.unary_unary("/a/b", response_deserializer=read)
            if unreadable == 1:
                assert call(b"") == "good"
            else:
                with pytest.raises(grpc.RpcError, match="Exception deserializing response!"):
                    call(b"")
    finally:
        server.stop(None)


def test_no_request_is_kept() -> None:
    """It can have the rows of a table."""
    calls, request = CallsOfAnotherThread(), threading.Event()
    gone = weakref.ref(request)
    assert calls.intercept_unary_unary(lambda *_: 1, "", request) == 1
    del request
    end = time.monotonic() + 10
    while gone() is not None and time.monotonic() < end:
        time.sleep(0.01)
    assert gone() is None


def test_ctrl_c_leaves_no_lock_held() -> None:
    """A call that is interrupted goes on in its thread, and releases the lock that it holds. The next one is made."""
    lock, held = threading.Lock(), threading.Event()

    def call(details: str, request: str) -> str:
        with lock:
            assert threading.current_thread() is not threading.main_thread()
            if request == "first":
                os.kill(os.getpid(), signal.SIGINT)
                held.wait()
            return request

    calls = CallsOfAnotherThread()
    with pytest.raises(KeyboardInterrupt):
        calls.intercept_unary_unary(call, "", "first")
    assert lock.locked()
    held.set()
    assert calls.intercept_unary_unary(call, "", "second") == "second"
    assert list(calls.intercept_unary_stream(lambda _, request: iter(request), "", "third")) == list("third")
    with pytest.raises(ZeroDivisionError):
        calls.intercept_unary_unary(lambda *_: 1 / 0, "", "")  # type: ignore[arg-type, return-value]
