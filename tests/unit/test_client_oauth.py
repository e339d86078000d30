"""Tokens of an endpoint, from a stub: what is asked, when again, what is said where none comes, and no secret in it."""

from __future__ import annotations

import logging
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_assign.sources.auth import oauth as client_oauth
from spark_assign.sources.auth import properties as client_properties
from spark_assign.sources.auth import settings as client_settings
from spark_assign.sources.auth.oauth import TokenEndpoint, Tokens
from spark_assign.sources.auth.properties import Login, parse_login
from spark_assign.sources.auth.secret import Secret
from spark_assign.sources.connect import http_settings
from spark_assign.tables.errors import ConfigError, SourceError
from tests.cases import cases
from tests.unit.connect_stub import serving

SECRET = "s:ä/4711"


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that urllib3 would have made; no proxy stands before loopback."""
    made: list[float] = []
    monkeypatch.setattr(time, "sleep", made.append)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return made


def _endpoint(url: str, **settings: Any) -> TokenEndpoint:
    return TokenEndpoint(f"{url}/token", "me", Secret(SECRET), **settings)


def test_the_token_request() -> None:
    """POST with client credentials and the scope; id and secret in the header, URL-encoded where asked for."""
    with serving({"/token": {"access_token": "a.b.c", "expires_in": 3600}}) as stub:
        assert Tokens(_endpoint(stub.url, scope="a b")).token() == "a.b.c"
        assert Tokens(_endpoint(stub.url, url_encoded=True)).token() == "a.b.c"
    assert stub.bodies == ["grant_type=client_credentials&scope=a+b", "grant_type=client_credentials"]
    assert [headers["Authorization"] for headers in stub.headers] == [
        "Basic bWU6czrDpC80NzEx",
        "Basic bWU6cyUzQSVDMyVBNCUyRjQ3MTE=",
    ]
    assert {headers["Content-Type"] for headers in stub.headers} == {"application/x-www-form-urlencoded"}


def test_a_token_is_kept_for_most_of_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 %, as sasl.login.refresh.window.factor has it."""
    now = 1000.0
    monkeypatch.setattr(client_oauth.time, "monotonic", lambda: now)
    with serving({"/token": lambda before: {"access_token": f"t{before}", "expires_in": 100}}) as stub:
        tokens = Tokens(_endpoint(stub.url))
        assert tokens.token() == "t0"
        now += 79
        assert tokens.token() == "t0"
        now += 2
        assert tokens.token() == "t1"


def test_temporary_errors_are_retried(pauses: list[float]) -> None:
    """After half a second, then after what Retry-After says."""
    moods: list[Any] = [(500, b""), (503, b"", {"Retry-After": "3"}), {"access_token": "t"}]
    with serving({"/token": lambda before: moods[before]}) as stub:
        assert Tokens(_endpoint(stub.url)).token() == "t"
    assert pauses == [0.5, 3]


def test_no_retry_after_ends_the_retries(pauses: list[float]) -> None:
    """One with more digits than Python parses, and one in a year that it doesn't have."""
    moods: list[Any] = [(503, b"", {"Retry-After": text}) for text in ("9" * 5_000, "Mon, 01 Jan 20255 00:00:00 GMT")]
    moods += [(503, b"", {"Retry-After": "soon"}), {"access_token": "t"}]
    with serving({"/token": lambda before: moods[before]}) as stub:
        assert Tokens(_endpoint(stub.url)).token() == "t"
    assert pauses == [0.5, 1, 2]


@cases(
    "answer message",
    ((401, {"error": "invalid_client"}), r"no token \(401 Unauthorized, invalid_client\)\. Check the client's id"),
    ((400, {"error": "invalid_scope", "error_description": f"for {SECRET}"}), r"invalid_scope for \[hidden\]\)"),
    ((400, {"error": "x" * 995 + SECRET}), r"x{995}\[hidd…\)"),
    ((400, {"error": b64encode(f"me:{SECRET}".encode()).decode()}), r"Bad Request, \[hidden\]\)"),
    ((302, b"", {"Location": "http://login/"}), r"no token \(302 Found\)"),
    ((503, b"<html>"), r"no token \(503 Service Unavailable\)"),
    ({"token": "x"}, "the answer has no access_token"),
    ((200, b"<html>"), "the answer has no access_token"),
    ({"access_token": "a b\x01c"}, "it doesn't return a bearer token"),
    ((200, b"[" * 100_000), "the answer has no access_token"),
    ((400, {"error": "x" * 100_000}), r"Bad Request, x{1000}…\)"),
    ((400, b'{"error": "bad \\ud800 \\ud83d\\ude00"}'), r"Bad Request, bad \? \U0001F600\)"),
    ((200, {"access_token": "\x01", "expires_in": 10**400}), "it doesn't return a bearer token"),
    ((200, b"[" + b"[]," * 400_000 + b"[]]"), "the answer is too large"),
)
def test_no_token(answer: Any, message: str) -> None:
    """The endpoint is named, what it said, and what to do."""
    with serving({"/token": answer}) as stub, pytest.raises(SourceError, match=message) as error:
        Tokens(_endpoint(stub.url)).token()
    assert "4711" not in str(error.value)
    assert str(error.value).encode()  # half of a surrogate pair can't be written


@cases("host", "a..b", "a" * 64, "a b", "a%b", "a\u00a0b", "a\\b", "")
def test_a_host_that_is_none(host: str) -> None:
    """Wrong input, before a request is sent."""
    with pytest.raises(ConfigError, match="expected the URL of a token endpoint"):
        client_oauth.endpoint({client_oauth.URL: f"http://{host}/t"}, Login())
    with pytest.raises(ConfigError, match="expected the URL of a token endpoint"):
        client_oauth.endpoint({client_oauth.URL: "file://host/t"}, Login())


@cases(
    "url message",
    ("http://u:a4711/z@127.0.0.1:1", "the URL of the proxy can't be parsed"),
    ("u:a4711/z@127.0.0.1:1", "check proxy URL"),
    ("http://u:a4711z@a..b:1", "label empty or too long"),
)
def test_a_proxy_that_cannot_be_one(url: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its URL has a password, and isn't repeated."""
    monkeypatch.setenv("http_proxy", url)
    with pytest.raises(SourceError, match=message) as error:
        Tokens(_endpoint("http://idp.example")).token()
    assert "4711" not in str(error.value)


@contextmanager
def _answering(content: bytes) -> Iterator[str]:
    """A server that sends these bytes to each connection, twice."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            for _ in range(2):
                with server.accept()[0] as connection:
                    connection.recv(1 << 16)
                    connection.sendall(content)

        threading.Thread(target=answer, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@cases(
    "content",
    b"HTTP/1.1 4x0 s-4711-x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ns-4711-x\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabcde",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nabcde",
    b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nabcde",
)
def test_an_answer_that_is_no_http(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Plain words and the setting that the user has set; urllib3, which retries some, doesn't log what was sent."""
    caplog.set_level(logging.DEBUG, logger="urllib3")
    kafka = {client_oauth.URL: "", "sasl.oauthbearer.client.id": "me", "sasl.oauthbearer.client.secret": "s-4711-x"}
    connect = {"bearer.auth.issuer.endpoint.url": "", "bearer.auth.client.id": "me"}
    connect["bearer.auth.client.secret"] = "s-4711-x"
    for properties, setting, trust in (
        (kafka, client_oauth.URL, "the options ssl.truststore.… of sasl.jaas.config."),
        (connect, "bearer.auth.issuer.endpoint.url", "ssl.truststore.location in --connect-config FILE."),
    ):
        with _answering(content) as url:
            given = properties | {next(iter(properties)): f"{url}/t"}
            endpoint = client_oauth.endpoint(given, Login()) if properties is kafka else http_settings._endpoint(given)
            assert endpoint is not None
            with pytest.raises(SourceError) as error:
                Tokens(replace(endpoint, attempts=2)).token()
        assert str(error.value) == (
            f"{url}/t: no token (the answer is malformed or incomplete HTTP). "
            f"Check {setting}, proxies, and for its certificate {trust}"
        )
    assert caplog.text == ""


def test_one_byte_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time-out of a socket is never over, so the answer as a whole has one, too."""
    monkeypatch.setattr("spark_assign.sources.auth.http_session.MAX_RESPONSE_S", 0.2)
    over = threading.Event()
    with serving({"/token": lambda _: over.wait(10)}) as stub:
        with pytest.raises(SourceError, match=r"no token \(TimeoutError\)"):
            Tokens(_endpoint(stub.url)).token()
        over.set()


def test_nobody_there() -> None:
    """What the socket says."""
    with serving({}) as stub:
        pass
    with pytest.raises(SourceError, match="Connection refused"):
        Tokens(_endpoint(stub.url, attempts=2)).token()


def test_a_file(tmp_path: Path) -> None:
    """Read anew each time; a missing one is named."""
    file = tmp_path / "token"
    tokens = Tokens(TokenEndpoint(f"file://{file}"))
    for text in ("one", "two\n"):
        file.write_text(text)
        assert tokens.token() == text.strip()
    file.unlink()
    with pytest.raises(ConfigError, match="token: No such file"):
        tokens.token()
    with pytest.raises(ConfigError, match="zero: is a pipe or a device"):
        Tokens(TokenEndpoint("file:///dev/zero")).token()
    with pytest.raises(ConfigError, match="token%00: no text"):
        Tokens(TokenEndpoint(f"file://{file}%00")).token()


def test_the_settings() -> None:
    """Kafka 4.1's go before the login module's options; extensions are those of the module, or librdkafka's."""
    url = {client_oauth.URL: "https://idp/token"}
    module = parse_login('x.M required clientId="i" clientSecret="s" scope="c" extension_logicalCluster="lkc-1";')
    old = client_oauth.endpoint(url, module)
    assert (old.client_id, old.client_secret, old.scope, old.extensions) == ("i", "s", "c", {"logicalCluster": "lkc-1"})
    names = "sasl.oauthbearer.client.credentials.client"
    new = client_oauth.endpoint(
        url | {f"{names}.id": "I", f"{names}.secret": "S", "sasl.oauthbearer.scope": "C"}, module
    )
    assert (new.client_id, new.client_secret, new.scope) == ("I", "S", "C")
    rdkafka = url | {"sasl.oauthbearer.client.id": "i", "sasl.oauthbearer.client.secret": "s"}
    rdkafka["sasl.oauthbearer.extensions"] = "logicalCluster=lkc-1, identityPoolId=pool-1"
    assert client_oauth.endpoint(rdkafka, Login()).extensions == {"logicalCluster": "lkc-1", "identityPoolId": "pool-1"}
    assert "S" not in repr(new.client_secret)


def test_what_kafka_python_is_given() -> None:
    """A provider of its own class, with the extensions."""
    with serving({"/token": {"access_token": "t"}}) as stub:
        found = client_settings.settings(
            client_properties.parse(
                f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n{client_oauth.URL}={stub.url}/token\n"
                'sasl.jaas.config=x.M required clientId="i" clientSecret="4711" extension_a="b";'
            )
        )
        provider = found["sasl_oauth_token_provider"]
        assert (provider.token(), provider.extensions()) == ("t", {"a": "b"})
    assert "4711" not in repr(found)
