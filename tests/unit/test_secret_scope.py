"""`secret://SCOPE/KEY`: a stub of dbutils in place of Databricks."""

from __future__ import annotations

import base64
import html
import json
import os
import stat
import time
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote, quote_plus

import pytest

from spark_assign.sources.auth import secret as secret_scope
from spark_assign.sources.auth.secret import Secret, hidden
from spark_assign.stores.locations import MAX_FILE_BYTES, read_file
from spark_assign.tables.errors import ConfigError
from tests.cases import cases

PASSWORD = "p\u00e4 &ss\"w<'%41"
ESCAPED = {
    "exact": PASSWORD,
    "HTML": html.escape(PASSWORD),
    "HTML without quotes": html.escape(PASSWORD, quote=False),
    "XML, by numbers": "".join(f"&#{ord(each)};" for each in PASSWORD),
    "URL": quote(PASSWORD),
    "URL, small letters": quote(PASSWORD).lower(),
    "URL, twice": quote(quote(PASSWORD)),
    "form": quote_plus(PASSWORD),
    "JSON": json.dumps(PASSWORD)[1:-1],
    "JSON, UTF-8": json.dumps(PASSWORD, ensure_ascii=False)[1:-1],
    "JSON, all": "".join(f"\\u{ord(each):04X}" for each in PASSWORD),
    "JSON in JSON": json.dumps(json.dumps(PASSWORD)[1:-1])[1:-1],
    "JSON in HTML": html.escape(json.dumps(PASSWORD)[1:-1]),
    "Python": repr(PASSWORD.encode())[2:-1],
    "one line": " ".join(PASSWORD.split()),
}
ENCODED = [
    encode(f"{before}{PASSWORD}{after}".encode())
    for before in ("", "u:", "\0user\0", "me:")
    for after in ("", "1", "12")
    for encode in (base64.b64encode, base64.urlsafe_b64encode, bytes.hex, lambda content: content.hex().upper())
]


@cases(
    "url hides",
    ("http://me:p%2Fss@h:1", ["p/ss", "p%2Fss", "Basic bWU6cC9zcw=="]),
    ("me:p@ss@h:1", ["p@ss"]),
    ("https://me:a//b@h", ["a//b"]),
    ("socks5h://t0ken@h", ["t0ken"]),
    ("http://me:p\u00e4ss@h", ["Basic bWU6cORzcw==", "Basic bWU6cMOkc3M="]),
)
@cases("name", "http_proxy", "HTTPS_PROXY", "All_Proxy")
def test_what_a_proxy_needs_is_hidden(url: str, hides: list[str], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy can repeat it in its answer. A short user would be hidden in other words."""
    monkeypatch.setenv(name, url)
    for text in hides:
        assert hidden(f"not for me: {text}", ()).removeprefix("not for me: ") in ("[hidden]", "Basic [hidden]")
    monkeypatch.setenv(name, "http://h:1/@")
    assert hidden("http://h:8", ()) == "http://h:8"


def test_half_of_a_surrogate_pair() -> None:
    """No file can have it."""
    assert hidden("a\ud800b\udc00", [Secret("b4711")]) == "a?b?"


def test_a_path_stays_as_it_is() -> None:
    """Whatever is there."""
    with secret_scope.secret_as_file("/etc/kafka/client.properties") as file:
        assert file == "/etc/kafka/client.properties"


def test_a_secret_is_a_file_for_as_long_as_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this user may read it; it is gone afterwards, also where reading fails."""
    text = "sasl.password=geheim\n"
    requests = []
    get = lambda scope, key: requests.append((scope, key)) or text  # noqa: E731
    monkeypatch.setattr(secret_scope, "_secrets", lambda: SimpleNamespace(get=get))
    with secret_scope.secret_as_file("secret://kafka/client.properties") as file:
        assert Path(file).read_text() == text
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert requests == [("kafka", "client.properties")]
    assert not Path(file).exists()
    with pytest.raises(ValueError, match="odd"), secret_scope.secret_as_file("secret://kafka/k") as file:
        raise ValueError("odd")
    assert not Path(file).exists()


@pytest.mark.parametrize("place", ["secret://", "secret://kafka", "secret:///key", "secret://a/b/c"])
def test_a_name_that_is_none(place: str) -> None:
    """Said with an example."""
    with pytest.raises(ConfigError, match="expected secret://SCOPE/KEY"), secret_scope.secret_as_file(place):
        pass


def test_elsewhere_than_on_databricks() -> None:
    """There is nothing to ask."""
    with (
        pytest.raises(ConfigError, match="on Databricks only; elsewhere give a file"),
        secret_scope.secret_as_file("secret://a/b"),
    ):
        pass


def test_a_secret_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the remedy, and without the traceback of Databricks."""

    def get(scope: str, key: str) -> str:
        raise RuntimeError(f"Secret does not exist with scope: {scope} and key: {key}\nat com.databricks …")

    monkeypatch.setattr(secret_scope, "_secrets", lambda: SimpleNamespace(get=get))
    with (
        pytest.raises(ConfigError, match=r"does not exist .*\. It needs databricks secrets put-secret a b"),
        secret_scope.secret_as_file("secret://a/b"),
    ):
        pass


@pytest.mark.parametrize("form", ESCAPED)
def test_an_escaped_secret_is_hidden(form: str) -> None:
    """A server that knows it can write it in any form; the text around it stays."""
    assert hidden(f"no {ESCAPED[form]}, 100% wrong &c", [Secret(PASSWORD)]) == "no [hidden], 100% wrong &c"


@pytest.mark.parametrize("code", ENCODED)
def test_an_encoded_secret_is_hidden(code: str | bytes) -> None:
    """Whatever is encoded with it, such as a user name."""
    text = code if isinstance(code, str) else code.decode()
    assert hidden(f"no '{text}'", [Secret(PASSWORD)]) == "no '[hidden]'"


def test_what_is_no_secret_stays() -> None:
    """Escapes and base64 without one; of a short secret, only the exact text is found."""
    text = "a&amp;b %41 \\u0041 eHl6eHl6 [1]"
    assert hidden(text, [Secret(PASSWORD), Secret("pw")]) == text
    assert hidden("pw cHc= &#112;w", [Secret("pw")]) == "[hidden] cHc= &#112;w"


def test_no_half_of_a_secret_stays_where_a_text_is_cut() -> None:
    """What is hidden before the cut doesn't bring it into sight."""
    for secret in ("0123456789" * 50, "s3cr3t"):
        for shift in range(0, len(secret), 3):
            text = (" " * shift + secret * 10_000)[: secret_scope.MAX_TEXT + 1]
            assert secret[:3] not in hidden(text, [Secret(secret)])


@cases("text", "&amp;" * 10**6, "%41" * 10**6, "\\" * 10**6, "\\u0041" * 10**6, "a" * 10**7, "&" * 10**6)
def test_a_long_text_takes_no_time(text: str) -> None:
    """It is cut before."""
    started = time.process_time()
    hidden(text, [Secret(PASSWORD), Secret("key" * 1_000)])
    assert time.process_time() - started < 1


def test_files_that_are_none(tmp_path: Path) -> None:
    """A device would be read without end, and a pipe be waited for; the pipes of a shell can be read."""
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    large.write_bytes(bytes(MAX_FILE_BYTES + 1))
    for file in ("/dev/zero", pipe):
        with pytest.raises(OSError, match="is a pipe or a device"):
            read_file(file)
    with pytest.raises(OSError, match="has more than 1,048,576 bytes"):
        read_file(large)
    assert read_file("/dev/null") == b""
    reader, writer = os.pipe()
    os.write(writer, b"user:password")
    os.close(writer)
    assert read_file(f"/dev/fd/{reader}") == b"user:password"
    os.close(reader)
