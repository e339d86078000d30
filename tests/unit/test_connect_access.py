"""The ways into Connect's REST interface: a properties file with certificates, tokens and proxies, and Retry-After."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import snapshot as job
from spark_assign.sources.auth import http_session
from spark_assign.sources.auth.secret import Secret
from spark_assign.sources.connect import http_settings
from spark_assign.sources.connect import rest as connect_http
from spark_assign.sources.connect.http_settings import HttpSettings, configured, credentials
from spark_assign.sources.connect.rest import ConnectHttp
from spark_assign.tables.errors import ConfigError, SourceError
from tests.cases import cases
from tests.unit import connect_stub, tls_stub
from tests.unit.connect_stub import ROOT, serving


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that would have been made; no proxy and no credentials of this machine's environment."""
    made: list[float] = []
    monkeypatch.setattr(connect_http, "wait", made.append)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.delenv(http_settings.CREDENTIALS_VARIABLE, raising=False)
    return made


def _configured(tmp_path: Path, text: str, **settings: Any) -> HttpSettings:
    file = tmp_path / "connect.properties"
    file.write_text(text)
    return configured(HttpSettings(**settings), str(file))


@cases("header pause", ("7", 7), ("100000", 60), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.5), ("soon", 0.5), ("0", 0.5))
def test_retry_after(pauses: list[float], header: str, pause: float) -> None:
    """Seconds or a date, a minute at most; where it makes no sense the usual pause."""
    moods: list[Any] = [(429, b"", {"Retry-After": header}), ROOT]
    with serving({"/": lambda before: moods[before]}) as stub:
        assert ConnectHttp([stub.url], HttpSettings()).get("/") == ROOT
    assert pauses == [pause]


def test_bearer_tokens(tmp_path: Path) -> None:
    """One that is given, and one of a token endpoint; neither shows."""
    with serving(connect_stub.cluster({}) | {"/token": {"access_token": "fetched-t0ken"}}) as stub:
        given = _configured(tmp_path, "bearer.auth.credentials.source=STATIC_TOKEN\nbearer.auth.token=given-t0ken\n")
        endpoint = f"bearer.auth.issuer.endpoint.url={stub.url}/token\nbearer.auth.client.id=i\n"
        fetched = _configured(tmp_path, f"{endpoint}bearer.auth.client.secret=s-t0ken\nbearer.auth.scope=connect\n")
        for settings in (given, fetched):
            ConnectHttp([stub.url], settings).get("/")
    assert stub.requested == ["/", "/token", "/"]
    assert [headers["Authorization"] for headers in stub.headers[::2]] == ["Bearer given-t0ken", "Bearer fetched-t0ken"]
    assert stub.bodies[1] == "grant_type=client_credentials&scope=connect"
    assert "t0ken" not in repr((given, fetched))


def test_no_secret_in_what_a_worker_says(tmp_path: Path) -> None:
    """A proxy that shows what it was sent."""
    with serving({"/": (403, {"message": "no entry for any-t0ken"}), "/token": {"access_token": "any-t0ken"}}) as stub:
        endpoint = f"bearer.auth.issuer.endpoint.url={stub.url}/token\nbearer.auth.client.id=i\n"
        for text in ("bearer.auth.token=any-t0ken\n", f"{endpoint}bearer.auth.client.secret=s\n"):
            http = ConnectHttp([stub.url], _configured(tmp_path, text))
            with pytest.raises(SourceError, match=r"403 Forbidden \(no entry for \[hidden\]\)"):
                http.get("/")


@cases(
    "answer message",
    ((302, b"", {"Location": "http://login/?was=any-t0ken"}), r"leads to http://login/\?was=\[hidden\]"),
    ((200, b"you sent any-t0ken"), r"isn't JSON \(you sent \[hidden\]\)"),
    ((500, b"x" * 90 + b"any-t0ken"), r"x{90}\[hidden\]"),
    ((500, b" " * 4_090 + b"any-t0ken"), r"\(\[hidden\]\)"),
    ((500, b" " * 32_765 + b"any-t0ken"), "500 Internal Server Error"),
    ((401, b"<p>YW55LXQwa2Vu"), r"\(<p>\[hidden\]\)"),
    ((302, b"", {"Location": "http://login/%61ny%2Dt0ken"}), r"leads to http://login/\[hidden\]\."),
)
def test_no_secret_in_any_answer(answer: Any, message: str) -> None:
    """Whatever part of an answer a message repeats."""
    settings = HttpSettings(token=Secret("any-t0ken"), attempts=1)
    with serving({"/": answer}) as stub, pytest.raises(SourceError, match=message) as error:
        ConnectHttp([stub.url], settings).get("/")
    assert "t0ken" not in str(error.value)


def test_basic_auth_in_the_file(tmp_path: Path) -> None:
    """basic.auth.user.info; no .netrc of this machine is looked into."""
    with serving({"/": ROOT}) as stub:
        ConnectHttp([stub.url], _configured(tmp_path, "basic.auth.user.info=reader:t0ken\n")).get("/")
        ConnectHttp([stub.url], HttpSettings()).get("/")
    assert [headers.get("Authorization") for headers in stub.headers] == ["Basic cmVhZGVyOnQwa2Vu", None]


def test_the_first_line_of_a_file(tmp_path: Path) -> None:
    """Only a line feed and a carriage return end it; a byte order mark is no part of the name."""
    file = tmp_path / "auth"
    for end in ("", "\n", "\r\nnext", "\rnext"):
        file.write_bytes(f"\ufeffreader:a\u2028b\x85c\x0cd\x1ee{end}".encode())
        assert credentials(str(file)) == "reader:a\u2028b\x85c\x0cd\x1ee"


def test_proxies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is named, or that of the environment; the named one goes first. A proxy is asked for the whole URL."""
    with serving({"http://connect.internal:8083/": ROOT}) as named, serving({}) as other:
        monkeypatch.setenv("http_proxy", other.url)
        host, port = named.host_and_port.split(":")
        for text in (f"proxy.url=http://me:t0ken@{named.host_and_port}\n", f"proxy.host={host}\nproxy.port={port}\n"):
            assert ConnectHttp(["http://connect.internal:8083"], _configured(tmp_path, text)).get("/") == ROOT
        assert named.headers[0]["Proxy-Authorization"] == "Basic bWU6dDBrZW4="
        assert other.requested == []
        monkeypatch.setenv("http_proxy", named.url)
        assert ConnectHttp(["http://connect.internal:8083"], HttpSettings()).get("/") == ROOT
    settings = _configured(tmp_path, f"proxy.url=http://me:t0ken@{named.host_and_port}\n", attempts=2)
    with pytest.raises(
        SourceError, match=r"the proxy does not let us through \(.*refused\), 2 attempts.*proxy.url"
    ) as error:
        ConnectHttp(["http://connect.internal:8083"], settings).get("/")
    assert "t0ken" not in str(error.value)


def test_no_secret_of_a_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """It repeats what it was sent; and a password with a slash isn't in the error of the URL."""
    message = {"message": "not for me:t0ken, Basic bWU6dDBrZW4="}
    with serving({"http://connect.internal:8083/": (403, message)}) as proxy:
        for address in (f"t0ken@{proxy.host_and_port}", "t0ken/x@127.0.0.1:1"):
            monkeypatch.setenv("http_proxy", f"http://me:{address}")
            with pytest.raises(
                SourceError, match=r"for me:\[hidden\], Basic \[hidden\]|proxy can't be parsed"
            ) as error:
                ConnectHttp(["http://connect.internal:8083"], HttpSettings(attempts=1)).get("/")
            assert "t0ken" not in str(error.value)
    assert proxy.headers[0]["Proxy-Authorization"] == "Basic bWU6dDBrZW4="


def test_an_answer_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is not read to the end."""
    monkeypatch.setattr(http_session, "MAX_RESPONSE_BYTES", 1 << 20)
    with serving({"/": "x" * (3 << 20)}) as stub, pytest.raises(SourceError, match="the answer has more than 1 MB"):
        ConnectHttp([stub.url], HttpSettings()).get("/")


def test_an_answer_that_does_not_come() -> None:
    """Within the time for one answer."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(SourceError, match="no answer in time, 2 attempts"):
            ConnectHttp([url], HttpSettings(timeout_s=0.05, attempts=2)).get("/")


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[str]:
    """A worker that wants the certificate in `stub.pem`, its own."""
    with tls_stub.guarded(tmp_path, clients=True) as url:
        yield url


def test_client_certificates(tmp_path: Path, guarded: str) -> None:
    """ssl.keystore.…, of any kind that Kafka's clients take; without one the error says what to give."""
    (tmp_path / "both.pem").write_text((tmp_path / "stub-key.pem").read_text() + (tmp_path / "stub.pem").read_text())
    trust = f"ssl.truststore.type=PEM\nssl.truststore.location={tmp_path / 'stub.pem'}\n"
    key = f"ssl.keystore.type=PEM\nssl.keystore.location={tmp_path / 'both.pem'}\n"
    assert ConnectHttp([guarded], _configured(tmp_path, trust + key)).get("/") == ROOT
    assert ConnectHttp([guarded], _configured(tmp_path, key, ca_file=str(tmp_path / "stub.pem"))).get("/") == ROOT
    with pytest.raises(SourceError, match=r"wants a client's certificate.*ssl\.keystore\.location"):
        ConnectHttp([guarded], _configured(tmp_path, trust)).get("/")
    with pytest.raises(SourceError, match="certificate is not trusted"):
        ConnectHttp([guarded], _configured(tmp_path, key)).get("/")


@cases(
    "text settings message",
    ("bearer.auth.tokn=hush", {}, "bearer.auth.tokn is not known. Did you mean bearer.auth.token"),
    ("basic.auth.user.info=hush", {}, "expected user:password"),
    ("basic.auth.user.info=a:hush\nbearer.auth.token=hush", {}, "give one of basic.auth.user.info, bearer"),
    ("bearer.auth.token=hush", {"credentials": Secret("a:hush")}, "give one of --connect-auth, bearer.auth.token"),
    ("bearer.auth.issuer.endpoint.url=idp", {}, "bearer.auth.issuer.endpoint.url: expected the URL"),
    ("bearer.auth.issuer.endpoint.url=https://idp", {}, "needs bearer.auth.client.id and bearer.auth.client.secret"),
    ("proxy.url=hush:1", {}, "proxy.url: expected http://HOST:PORT"),
    ("proxy.url=http://[hush", {}, "proxy.url: expected http://HOST:PORT"),
    ("bearer.auth.issuer.endpoint.url=https://[hush", {}, "bearer.auth.issuer.endpoint.url: expected the URL"),
    ("ssl.truststore.location=a", {"ca_file": "b"}, "ssl.truststore.location or --connect-ca, not both"),
    ("ssl.keystore.location=a\nssl.keystore.type=BKS", {}, "ssl.keystore.type: expected one of PEM"),
)
def test_what_makes_no_sense(tmp_path: Path, text: str, settings: dict[str, Any], message: str) -> None:
    """Named by key, and no value that may be secret."""
    with pytest.raises(ConfigError, match=message) as error:
        _configured(tmp_path, text, **settings)
    assert "hush" not in str(error.value)


def test_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """--connect-config is that file; a token over http:// in the clear is warned of, and shows nowhere."""
    file, out = tmp_path / "connect.properties", tmp_path / "out"
    file.write_text("bearer.auth.token=given-t0ken\n")
    with serving(connect_stub.cluster({})) as stub:
        arguments = ["--connect-url", stub.url, "--connect-config", str(file), "--output-format", "json"]
        assert job.main([*arguments, "--fleet-dir", str(out)]) == 0
        assert stub.headers[0]["Authorization"] == "Bearer given-t0ken"
        file.write_text("ssl.keystore.location=nowhere.p12\n")
        assert job.main([*arguments, "--fleet-dir", str(tmp_path / "none")]) == 2
    printed = capsys.readouterr()
    assert "ssl.keystore.location nowhere.p12: No such file" in caplog.text
    assert "without encryption" in caplog.text
    assert "t0ken" not in printed.out + printed.err + caplog.text + "".join(
        each.read_text() for each in out.rglob("*") if each.is_file()
    )
