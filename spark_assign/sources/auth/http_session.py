"""HTTP by `requests`: TLS by our own context, proxies of the environment, no cookies, no .netrc."""

from __future__ import annotations

import ssl
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3 import Retry

from spark_assign.sources.auth.secret import Secret

LARGEST_ANSWER = 512 << 20
"""Bytes; a Connect cluster with 10,000 connectors answers with some 100 MB."""

LONGEST_PAUSE_S = 8.0
LONGEST_RETRY_AFTER_S = 60
PASSING = frozenset({408, 409, 429, 500, 502, 503, 504})
"""Worth asking again. Of Connect, 409: a rebalance is going on; 500: a request that timed out behind one."""


class TooLargeError(Exception):
    """An answer of more than `LARGEST_ANSWER` bytes."""


class Patience(Retry):
    """Pauses of 0.5, 1, 2, … s, or what Retry-After asks for: urllib3 itself asks at once for a second time."""

    def get_backoff_time(self) -> float:
        """Seconds before the next attempt, by the number of those before it."""
        return float(min(self.backoff_max, self.backoff_factor * 2 ** (len(self.history) - 1)))


def patience(attempts: int, method: str) -> Patience:
    """So many attempts, the first one included. Redirects are not followed, and answers are never raised."""
    return Patience(
        attempts - 1,
        redirect=False,
        allowed_methods={method},
        status_forcelist=PASSING,
        backoff_factor=0.5,
        backoff_max=LONGEST_PAUSE_S,
        raise_on_status=False,
        retry_after_max=LONGEST_RETRY_AFTER_S,
    )


class Authorization(AuthBase):
    """The header, if there is one. With none, requests would look into ~/.netrc."""

    def __init__(self, header: Secret | None) -> None:
        self._header = header

    def __call__(self, request: Any) -> Any:
        if self._header is not None:
            request.headers["Authorization"] = str.__str__(self._header)
        return request


class _OwnTls(HTTPAdapter):
    """requests would add its own list of authorities to what the context trusts."""

    def __init__(self, context: ssl.SSLContext, retries: Retry | int) -> None:
        self._context = context
        super().__init__(max_retries=retries)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> Any:
        return super().init_poolmanager(*args, ssl_context=self._context, **kwargs)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=self._context, **kwargs)

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> Any:
        return super().build_connection_pool_key_attributes(request, verify, cert)[0], {}

    def cert_verify(self, *_: Any, **__: Any) -> None:
        return None


def session(context: ssl.SSLContext, header: Secret | None = None, retries: Retry | int = 0) -> requests.Session:
    """A session that sends `Authorization: header`; `retries` is 0 where the caller asks again himself."""
    made = requests.Session()
    made.auth = Authorization(header)
    made.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))
    for scheme in ("http://", "https://"):
        made.mount(scheme, _OwnTls(context, retries))
    return made


def body(answer: requests.Response) -> bytes:
    """All of an answer that was asked for with stream=True. Raises TooLargeError."""
    parts = []
    length = 0
    for part in answer.iter_content(1 << 20):
        length += len(part)
        if length > LARGEST_ANSWER:
            raise TooLargeError
        parts.append(part)
    return b"".join(parts)


def cause(error: BaseException) -> BaseException:
    """What lies at the bottom of an error of requests: the one of the socket, or of TLS."""
    while True:
        inner = getattr(error, "reason", None)
        below = inner if isinstance(inner, BaseException) else error.__cause__ or error.__context__
        if below is None and error.args and isinstance(error.args[0], BaseException):
            below = error.args[0]
        if below is None:
            return error
        error = below
