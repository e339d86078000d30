"""GET on a Connect worker's REST interface: retries, credentials, TLS, proxies, and errors that say what to do.

HTTP is that of `requests`, when to ask again and after which pause that of `urllib3.Retry`.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from spark_assign.sources.auth.secret import Secret, hidden
from spark_assign.sources.connect.connect_http_settings import (
    CREDENTIALS_VARIABLE,
    HttpSettings,
    credentials,
)
from spark_assign.tables.errors import SourceError, missing_extra

if TYPE_CHECKING:
    import requests

__all__ = ["CREDENTIALS_VARIABLE", "ConnectHttp", "HttpSettings", "NotThereError", "credentials", "host_and_port"]

_REMEDIES = {
    401: f"Give user:password in {CREDENTIALS_VARIABLE} or by --connect-auth FILE, a token by --connect-config FILE",
    403: "The user may not read this; ask for GET on /connectors",
    404: "Is it the root of a Connect worker's REST interface?",
    407: "The proxy wants a user: give proxy.url with it in --connect-config FILE, or in HTTPS_PROXY",
    409: "The cluster is rebalancing; try again when it has settled",
}


class NotThereError(SourceError):
    """404: what was asked for is not (or no longer) there."""


class ConnectHttp:
    """Asks one Connect cluster; several URLs are workers of the same cluster, asked in turn where one fails.

    Raises ConfigError where requests is missing or a store does not open, SourceError where a bearer token that has to
    be fetched first is refused.
    """

    def __init__(self, urls: Sequence[str], settings: HttpSettings) -> None:
        try:
            from spark_assign.sources.auth import http_session
        except ImportError as error:
            raise missing_extra("reading Connect clusters needs requests", "kafka") from error
        self._urls = [url.rstrip("/") for url in urls]
        self._settings = settings
        self._http = http_session
        header = settings.authorization()
        token = str.__str__(header or "").partition(" ")[2]
        self._secrets = (*settings.secrets(), Secret(token))
        self._session = http_session.session(settings.tls_context(), header)
        self._session.headers.update({"Accept": "application/json", "User-Agent": "spark-assign-snapshot"})

    @property
    def url(self) -> str:
        """The worker that is asked next."""
        return self._urls[0]

    def get(self, path: str) -> Any:
        """The JSON at a path. Raises NotThereError for 404, SourceError for whatever else is no answer.

        What may pass (no connection, a rebalance, an overloaded proxy) is asked again, with doubling pauses or after
        the one that Retry-After asks for, a minute at most.
        """
        from urllib3.exceptions import InvalidHeader, MaxRetryError

        retry: Any = self._http.patience(self._settings.attempts, "GET")
        for attempt in range(1, self._settings.attempts + 1):
            url = f"{self._urls[0]}{path}"
            try:
                return self._once(url)
            except _PassingError as error:
                passing = error
            try:
                retry = retry.increment("GET", url, error=passing)
            except MaxRetryError:
                tries = f", {attempt} attempts" if attempt > 1 else ""
                raise SourceError(f"GET {url}: {passing.reason}{tries}. {passing.remedy}.") from None
            if len(self._urls) == 1 or attempt % len(self._urls) == 0:
                try:
                    # An answer that is a refusal counts as false.
                    asked = retry.get_retry_after(passing.answer) if passing.answer is not None else None
                except InvalidHeader:
                    asked = None
                wait(asked or retry.get_backoff_time())
            self._urls.append(self._urls.pop(0))
        raise AssertionError("unreachable")

    def _once(self, url: str) -> Any:
        import requests

        # Proxies that are named go before those of the environment only if each request names them.
        proxy = self._settings.proxy
        proxies = {scheme: str.__str__(proxy) for scheme in ("http", "https")} if proxy else None
        try:
            with self._session.get(
                url, timeout=self._settings.timeout_s, allow_redirects=False, stream=True, proxies=proxies
            ) as answer:
                body = self._http.body(answer)
        except self._http.TooLargeError:
            raise SourceError(
                f"GET {url}: the answer has more than {self._http.LARGEST_ANSWER >> 20} MB. "
                "Is it a Connect worker's REST address?"
            ) from None
        except (requests.RequestException, OSError) as error:
            raise self._unreachable(url, error) from None
        if answer.status_code != 200:
            raise self._refused(url, answer, body)
        try:
            return json.loads(body)
        except ValueError:
            raise SourceError(
                f"GET {url}: the answer is no JSON ({_shortened(body)}). Is it a Connect worker's REST address?"
            ) from None

    def _refused(self, url: str, answer: requests.Response, body: bytes) -> Exception:
        try:
            said = str(json.loads(body)["message"])
        except (ValueError, KeyError, TypeError):
            said = _shortened(body)
        said = hidden(said, self._secrets)
        code = answer.status_code
        reason = f"{code} {answer.reason}" + (f" ({said})" if said else "")
        remedy = _REMEDIES.get(code, "Look into the log of that worker")
        if code in self._http.PASSING:
            return _PassingError(reason, remedy, answer)
        if 300 <= code < 400:
            return SourceError(
                f"GET {url}: {reason}: leads to {answer.headers.get('Location')}. Give that URL instead."
            )
        kind = NotThereError if code == 404 else SourceError
        return kind(f"GET {url}: {reason}. {remedy}.")

    def _unreachable(self, url: str, error: Exception) -> Exception:
        import requests

        reason = self._http.cause(error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            return SourceError(
                f"GET {url}: the server's certificate is not trusted ({reason.verify_message}). "
                "Give the certificate of its authority by --connect-ca FILE."
            )
        if "CERTIFICATE_REQUIRED" in str(reason) or "ALERT_BAD_CERTIFICATE" in str(reason):
            return SourceError(
                f"GET {url}: the server wants a client's certificate that it trusts. "
                "Give it by ssl.keystore.location in --connect-config FILE."
            )
        text = hidden(str(reason) or type(reason).__name__, self._secrets)
        if isinstance(error, requests.Timeout) or isinstance(reason, TimeoutError):
            text = "no answer in time"
        if isinstance(error, requests.exceptions.ProxyError):
            return _PassingError(f"the proxy does not let us through ({text})", "Check proxy.url, or HTTPS_PROXY")
        remedy = "Check the address, and that the worker runs"
        if (
            isinstance(reason, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError)
            and self._settings.tls.key is None
        ):
            # What TLS 1.3 says of a missing certificate comes after the handshake, and may be lost with the connection.
            remedy += ". Where it wants a client's certificate, give ssl.keystore.location in --connect-config FILE"
        return _PassingError(text, remedy)


class _PassingError(Exception):
    """Worth another attempt."""

    def __init__(self, reason: str, remedy: str, answer: requests.Response | None = None) -> None:
        super().__init__(reason)
        self.reason, self.remedy, self.answer = reason, remedy, answer


def _shortened(body: bytes) -> str:
    text = " ".join(body.decode("utf-8", errors="replace").split())
    return text if len(text) <= 100 else f"{text[:100]}…"


def host_and_port(url: str) -> str:
    """How REST names the worker that has this URL, WorkerConfig's advertised host and port: `host:port`."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2]


def wait(seconds: float) -> None:
    """Between two attempts; a function of its own so that tests need not wait."""
    time.sleep(seconds)
