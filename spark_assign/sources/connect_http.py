"""GET on a Connect worker's REST interface: retries, basic auth, TLS, and errors that say what to do.

Python's own HTTP client: a snapshot needs a handful of GETs, and no further library has to be installed for them.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from spark_assign.errors import ConfigError, SourceError
from spark_assign.sources.client_properties import Secret

CREDENTIALS_VARIABLE = "SPARK_ASSIGN_CONNECT_AUTH"
"""Environment variable with `user:password`, where no file is given."""

_BACKOFF_S = 0.5
_LONGEST_PAUSE_S = 8.0
_PASSING = frozenset({408, 409, 429, 500, 502, 503, 504})
"""409: a rebalance is going on; 500: a request that timed out behind one; the others are for a proxy's moods."""

_REMEDIES = {
    401: f"Give user:password in {CREDENTIALS_VARIABLE} or by --connect-auth FILE",
    403: "The user may not read this; ask for GET on /connectors",
    404: "Is it the root of a Connect worker's REST interface?",
    409: "The cluster is rebalancing; try again when it has settled",
}


@dataclass(frozen=True)
class HttpSettings:
    """How to ask. `timeout_s` is for one answer; `attempts` count the first one."""

    timeout_s: float = 30
    attempts: int = 5
    credentials: Secret | None = None
    ca_file: str | None = None


class NotThereError(SourceError):
    """404: what was asked for is not (or no longer) there."""


class ConnectHttp:
    """Asks one Connect cluster; several URLs are workers of the same cluster, asked in turn where one fails."""

    def __init__(self, urls: Sequence[str], settings: HttpSettings) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        self._settings = settings
        self._opener = urllib.request.build_opener(
            _NoRedirect(), urllib.request.HTTPSHandler(context=_tls(settings.ca_file))
        )
        self._headers = {"Accept": "application/json", "User-Agent": "spark-assign-snapshot"}
        if settings.credentials is not None:
            token = base64.b64encode(str.__str__(settings.credentials).encode()).decode()
            self._headers["Authorization"] = Secret(f"Basic {token}")

    @property
    def url(self) -> str:
        """The worker that is asked next."""
        return self._urls[0]

    def get(self, path: str) -> Any:
        """The JSON at a path. Raises NotThereError for 404, SourceError for whatever else is no answer.

        What may pass (no connection, a rebalance, an overloaded proxy) is asked again, with doubling pauses.
        """
        for attempt in range(1, self._settings.attempts + 1):
            url = f"{self._urls[0]}{path}"
            try:
                return self._once(url)
            except _PassingError as error:
                if attempt == self._settings.attempts:
                    tries = f", {attempt} attempts" if attempt > 1 else ""
                    raise SourceError(f"GET {url}: {error.reason}{tries}. {error.remedy}.") from None
            if len(self._urls) == 1 or attempt % len(self._urls) == 0:
                wait(min(_BACKOFF_S * 2 ** (attempt - 1), _LONGEST_PAUSE_S))
            self._urls.append(self._urls.pop(0))
        raise AssertionError("unreachable")

    def _once(self, url: str) -> Any:
        request = urllib.request.Request(url, headers=self._headers)
        try:
            with self._opener.open(request, timeout=self._settings.timeout_s) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(url, error) from None
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(url, error) from None
        try:
            return json.loads(body)
        except ValueError:
            raise SourceError(
                f"GET {url}: the answer is no JSON ({_shortened(body)}). Is it a Connect worker's REST address?"
            ) from None


class _PassingError(Exception):
    """Worth another attempt."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: urllib would send the password along to wherever it leads."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _refused(url: str, error: urllib.error.HTTPError) -> Exception:
    body = error.read()
    try:
        said = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        said = _shortened(body)
    reason = f"{error.code} {error.reason}" + (f" ({said})" if said else "")
    if error.code in _PASSING:
        return _PassingError(reason, _REMEDIES.get(error.code, "Look into the log of that worker"))
    if 300 <= error.code < 400:
        return SourceError(f"GET {url}: {reason}: leads to {error.headers.get('Location')}. Give that URL instead.")
    remedy = _REMEDIES.get(error.code, "Look into the log of that worker")
    kind = NotThereError if error.code == 404 else SourceError
    return kind(f"GET {url}: {reason}. {remedy}.")


def _unreachable(url: str, error: Exception) -> Exception:
    reason = getattr(error, "reason", None) or error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return SourceError(
            f"GET {url}: the server's certificate is not trusted ({reason.verify_message}). "
            "Give the certificate of its authority by --connect-ca FILE."
        )
    text = "no answer in time" if isinstance(reason, TimeoutError) else str(reason) or type(reason).__name__
    return _PassingError(text, "Check the address, and that the worker runs")


def _shortened(body: bytes) -> str:
    text = " ".join(body.decode("utf-8", errors="replace").split())
    return text if len(text) <= 100 else f"{text[:100]}…"


def _tls(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"--connect-ca {ca_file}: {error}. Give a PEM file with certificates.") from None


def credentials(file: str | None) -> Secret | None:
    """`user:password` from a file's first line or from the environment. Raises ConfigError without a colon."""
    if file is not None:
        place = f"--connect-auth {file}"
        try:
            text = next(iter(Path(file).read_text(encoding="utf-8").splitlines()), "")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{place}: {error}. Give a readable file with user:password.") from None
    else:
        place = CREDENTIALS_VARIABLE
        text = os.environ.get(CREDENTIALS_VARIABLE, "")
        if not text:
            return None
    if ":" not in text:
        raise ConfigError(f"{place}: expected user:password in one line")
    return Secret(text)


def host_and_port(url: str) -> str:
    """How REST names the worker that has this URL, WorkerConfig's advertised host and port: `host:port`."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2]


def wait(seconds: float) -> None:
    """Between two attempts; a function of its own so that tests need not wait."""
    time.sleep(seconds)
