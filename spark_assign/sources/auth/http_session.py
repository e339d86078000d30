"""HTTP sessions by `requests`: our own TLS context, proxies from the environment, no cookies, and no .netrc."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from http.client import HTTPException, RemoteDisconnected
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3 import Retry
from urllib3.exceptions import DecodeError, InvalidHeader, LocationValueError, ProtocolError

from spark_assign.sources.auth.secret import Secret

MAX_RESPONSE_BYTES = 128 << 20
"""Maximum size of a response in bytes. A Connect cluster with 10,000 connectors responds with about 100 MB."""
MAX_RESPONSE_S = 300.0
"""Maximum time from the first to the last byte of a response, in seconds."""
_CHUNK_BYTES = 1 << 16

MAX_PAUSE_S = 8.0
MAX_RETRY_AFTER_S = 60
PASSING = frozenset({408, 409, 429, 500, 502, 503, 504})
"""Status codes that are retried. Connect returns 409 during a rebalance, and 500 if a request times out behind one."""


_thread = threading.local()


def _is_not_ours(record: logging.LogRecord) -> bool:
    """Checks whether a log message of urllib3 is about a request of another package. About ours, it would repeat what
    the server answers, which can be the password that was sent. Our errors report what fails.
    """
    return not getattr(_thread, "sends", False)


for _name in ("connection", "connectionpool", "response", "util.retry"):
    logging.getLogger(f"urllib3.{_name}").addFilter(_is_not_ours)


class _Session(requests.Session):
    """Sends requests of which urllib3 logs nothing. Doesn't look where a redirect leads: requests would read its whole
    body, and parse the address.
    """

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        _thread.sends = True
        try:
            return super().send(request, **kwargs)
        finally:
            _thread.sends = False

    def get_redirect_target(self, resp: requests.Response) -> None:
        return None


class TooLargeError(Exception):
    """Raised for a response of too many bytes."""


class Patience(Retry):
    """Retries after 0.5, 1, 2, … s, or after the time of Retry-After. urllib3's own policy doesn't wait before the
    first retry.
    """

    def get_backoff_time(self) -> float:
        """Returns the seconds before the next attempt, from the number of previous attempts."""
        return float(min(self.backoff_max, self.backoff_factor * 2 ** (len(self.history) - 1)))

    def parse_retry_after(self, retry_after: str) -> float:
        """Returns the seconds that a header asks for; 0 if it isn't a number or a time, or none that Python has."""
        try:
            return super().parse_retry_after(retry_after)
        except (InvalidHeader, ValueError, OverflowError):  # thousands of digits, or a year after 9999
            return 0.0


def patience(attempts: int, method: str) -> Patience:
    """Returns the retry policy for a number of attempts, including the first. Redirects aren't followed; responses
    never raise.
    """
    return Patience(
        attempts - 1,
        redirect=False,
        allowed_methods={method},
        status_forcelist=PASSING,
        backoff_factor=0.5,
        backoff_max=MAX_PAUSE_S,
        raise_on_status=False,
        retry_after_max=MAX_RETRY_AFTER_S,
    )


class Authorization(AuthBase):
    """Sets the Authorization header, if any. Without an auth object, requests would read ~/.netrc."""

    def __init__(self, header: Secret | None) -> None:
        self._header = header

    def __call__(self, request: Any) -> Any:
        if self._header is not None:
            request.headers["Authorization"] = str.__str__(self._header)
        return request


class _OwnTls(HTTPAdapter):
    """Uses our TLS context alone. requests would add its own list of certificate authorities."""

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
    """Returns a session that sends `Authorization: header`. `retries` is 0 if the caller retries."""
    http = _Session()
    http.auth = Authorization(header)
    http.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))
    for scheme in ("http://", "https://"):
        http.mount(scheme, _OwnTls(context, retries))
    return http


def body(response: requests.Response, max_bytes: int | None = None) -> bytes:
    """Returns the content of a response that was requested with stream=True.

    Raises TooLargeError for more than `max_bytes` (default: `MAX_RESPONSE_BYTES`), and TimeoutError after
    `MAX_RESPONSE_S`.
    """
    most = MAX_RESPONSE_BYTES if max_bytes is None else max_bytes
    content, end = bytearray(), time.monotonic() + MAX_RESPONSE_S
    try:
        for chunk in response.iter_content(_CHUNK_BYTES):
            content += chunk
            if len(content) > most:
                raise TooLargeError
            if time.monotonic() > end:
                raise TimeoutError
    except ValueError:  # a chunk of negative length
        raise ProtocolError from None
    return bytes(content)


_MALFORMED = (HTTPException, DecodeError, InvalidHeader)


def cause(error: BaseException) -> BaseException:
    """Returns the root cause of an error of requests: the error of the socket or of TLS; or, for an answer that can't
    be read, one in plain words.

    The error of a URL that can't be parsed doesn't repeat it. It is that of a proxy, because all others were checked.
    """
    while True:
        is_cut = isinstance(error, ProtocolError) and len(error.args) < 2  # without an error of the socket
        if is_cut or (isinstance(error, _MALFORMED) and not isinstance(error, RemoteDisconnected)):
            return ValueError("the answer is malformed or incomplete HTTP")
        reason = getattr(error, "reason", None)
        deeper = reason if isinstance(reason, BaseException) else error.__cause__ or error.__context__
        deeper = deeper or next((each for each in error.args if isinstance(each, BaseException)), None)
        if deeper is None:
            break
        error = deeper
    if isinstance(error, LocationValueError):
        return ValueError("the URL of the proxy can't be parsed; its password needs %2F for / and %40 for @")
    return error
