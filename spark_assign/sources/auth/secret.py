"""Keeps secrets out of texts and logs, and reads Databricks secrets as temporary files."""

from __future__ import annotations

import base64
import html
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from spark_assign.tables.errors import ConfigError, reason


class Secret(str):
    """A string whose `repr` is hidden, and thereby also in every printed dict, dataclass, or traceback of locals."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'[hidden]'"


MAX_TEXT = 1 << 15
"""Maximum number of characters that `hidden` returns."""
_MIN_ENCODED, _MAX_FORM = 4, 16
"""Minimum length of a secret that is also found in encoded forms; maximum number of characters for each of its own."""
_NO_PROOF = re.compile(r".{0,7}|(?:[^\W\d]|[ .-])*", re.DOTALL)
"""A password that names can have in them by chance: it is short, or has letters and what separates words only."""
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|([\"'/\\]))")
"""A character as JSON and Python escape it."""
_RUN = re.compile(r"[A-Za-z0-9+/_=-]+")
"""Base64, also of URLs, or hexadecimal digits."""
_SCHEME = re.compile(r"\A(?:[\w+.-]*:)?//")


def secrets_of_proxy(url: str) -> set[Secret]:
    """Returns the user and the password in the URL of a proxy, also as the header Proxy-Authorization has them.

    The URL can lack its scheme, and its password can have characters that should be escaped. A short user with a
    password isn't a secret: it would be hidden in many other words.
    """
    login = _SCHEME.sub("", url.rpartition("@")[0])
    user, _, password = login.partition(":")
    texts = [password, unquote(password)]
    if len(user) >= _MIN_ENCODED or not password:
        texts += [user, unquote(user)]
    if login:
        header = f"{unquote(user)}:{unquote(password)}"
        texts += [base64.b64encode(header.encode(code, "replace")).decode() for code in ("latin-1", "utf-8")]
    return {Secret(text) for text in texts if text}


def hidden(text: str, secrets: Iterable[object]) -> str:
    """Returns the text with every Secret in `secrets` replaced by [hidden]; the longest first. What the proxies of the
    environment need to log in is hidden, too, and half of a surrogate pair, which no file can have, becomes `?`.

    A secret that is escaped for HTML, URLs, or JSON is found, too; the text is then returned without its escapes. Of
    base64 and of hexadecimal digits that contain a secret, everything is replaced. Of a text with more than `MAX_TEXT`
    characters, the start is returned, without what can be a part of a secret at its end.
    """
    proxies = [value for name, value in os.environ.items() if name.lower().endswith("_proxy") and "@" in value]
    secrets = [*secrets, *(secret for proxy in proxies for secret in secrets_of_proxy(proxy))]
    plain = sorted({str.__str__(value) for value in secrets if isinstance(value, Secret)} - {""}, key=len, reverse=True)
    forms = [_forms(secret) for secret in plain if len(secret) >= _MIN_ENCODED]
    names = sorted((name for names, _ in forms for name in names), key=len, reverse=True)
    codes = [code for _, codes in forms for code in codes]

    def replaced(text: str) -> str:
        for name in names:
            text = text.replace(name, "[hidden]")
        if not any(code in text for code in codes):
            return text
        return _RUN.sub(lambda run: "[hidden]" if any(code in run[0] for code in codes) else run[0], text)

    result = view = replaced(text[:MAX_TEXT])
    for _ in range(2):  # escaped once, and twice
        if (view := _unescaped(view)) != (cleaned := replaced(view)):
            result = view = cleaned
    for secret in plain[len(forms) :]:
        result = result.replace(secret, "[hidden]")
    result = result.encode(errors="replace").decode()
    return result if len(text) <= MAX_TEXT or not plain else result[: -_MAX_FORM * len(plain[0])]


def repeats(text: str, secrets: Iterable[Secret]) -> bool:
    """Checks whether a text that will be stored has a secret in it, also escaped, in base64 or in hexadecimal digits.

    Secrets that can be parts of valid names, such as the password `connect`, aren't looked for.
    """
    sure = [plain for secret in secrets if not _NO_PROOF.fullmatch(plain := str.__str__(secret))]
    forms = [form for plain in sure for forms in _forms(plain) for form in forms]
    return bool(forms) and any(form in view for view in (text, _unescaped(text)) for form in forms)


@lru_cache(256)
def _forms(secret: str) -> tuple[list[str], list[str]]:
    """Returns the texts that are a secret, and the parts of base64 and of hexadecimal digits that have it in them."""
    once = _unescaped(secret)
    names = {secret, once, _unescaped(once), " ".join(secret.split()), secret.replace(" ", "+")}
    names = {name for name in names if len(name) >= _MIN_ENCODED}
    codes = set()
    for content in [name.encode(errors="replace") for name in names]:
        names.add(repr(content)[2:-1])
        codes |= {content.hex(), content.hex().upper()}
        for before in range(3):  # number of bytes before it, modulo 3
            code = base64.b64encode(bytes(before) + content)[-(-8 * before // 6) : 8 * (before + len(content)) // 6]
            codes |= {code.decode(), code.translate(bytes.maketrans(b"+/", b"-_")).decode()}
    return [*names], [*codes]


def _unescaped(text: str) -> str:
    """Returns a text without the escapes of HTML, URLs, and JSON."""
    text = _ESCAPE.sub(lambda found: found[3] or chr(int(found[1] or found[2], 16)), unquote(html.unescape(text)))
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two escapes can be one character


SECRET_PREFIX = "secret://"


@contextmanager
def secret_as_file(location: str) -> Iterator[str]:
    """Yields the file that a location names. A Databricks secret is a temporary file that only this user can read.

    Args:
        location: a path, which is returned; or `secret://SCOPE/KEY`.

    Raises:
        ConfigError: not a valid secret name, not on Databricks, or the secret can't be read.
    """
    if not location.startswith(SECRET_PREFIX):
        yield location
        return
    descriptor, file = tempfile.mkstemp(prefix="spark-assign-")  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write(_read(location))
        yield file
    finally:
        Path(file).unlink(missing_ok=True)


def _read(location: str) -> str:
    """Returns the text of a Databricks secret. Raises ConfigError."""
    scope, _, key = location.removeprefix(SECRET_PREFIX).partition("/")
    if not scope or not key or "/" in key:
        raise ConfigError(
            f"{location}: expected {SECRET_PREFIX}SCOPE/KEY, such as {SECRET_PREFIX}kafka/client.properties"
        )
    try:
        secret_text: str = _secrets().get(scope=scope, key=key)
    except ImportError:
        raise ConfigError(f"{location}: secrets are read on Databricks only; elsewhere give a file") from None
    except Exception as error:  # raised by py4j or by the Databricks SDK
        remedy = f"databricks secrets put-secret {scope} {key}, and READ on the scope for who runs the job"
        raise ConfigError(f"{location}: cannot be read: {reason(error)}. It needs {remedy}") from None
    return secret_text


def _secrets() -> Any:
    """Returns `dbutils.secrets`, as a wheel gets it in every Databricks runtime."""
    from databricks.sdk.runtime import dbutils  # type: ignore

    return dbutils.secrets
