"""Reads a Connect cluster through its REST interface: connectors and tasks, with their workers and states.

Three requests per cluster of any size: `/`, `/connectors`, `/connectors?expand=status&expand=info`. The expanded
listing omits a connector without a status (ConnectorsResource.listConnectors skips it), and releases before 2.3 don't
expand at all. Those connectors are read one by one.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    TypeAdapter,
    ValidationError,
    WrapValidator,
)
from pydantic_core import PydanticCustomError, from_json

from spark_assign.sources.auth.secret import MAX_TEXT, Secret, hidden, repeats
from spark_assign.sources.connect.http_settings import CREDENTIALS_VARIABLE, HttpSettings
from spark_assign.stores.locations import split_url
from spark_assign.stores.time_limit import within
from spark_assign.tables.errors import SourceError, needs_extra
from spark_assign.tables.schema_fields import MAX_ID_BYTES, is_too_long

MAX_VALUES = 5_000_000
"""Maximum number of commas and brackets of an answer. A parsed value takes more memory than its text."""
MAX_OBJECTS = 500_000
"""Maximum number of objects of an answer: each takes about 1 kB. 10,000 connectors of 10 tasks have about 260,000."""
MAX_CLUSTER_BYTES = 512 << 20
"""Maximum size of all answers of a cluster."""
ANSWER_TIMEOUTS, CLUSTER_TIMEOUTS = 10, 30
"""Maximum time of one answer, and of all requests to a cluster, in units of the timeout."""
_parsing = threading.Lock()
"""Answers are parsed one at a time, because large ones of several clusters would need their memory together."""
_MAX_ERROR_BYTES = 1 << 20
"""Maximum size of an answer with an error that is parsed."""
UNASSIGNED = "UNASSIGNED"
"""AbstractStatus.State: the named worker has released it, and no other worker has it."""


_TaskNumber = Annotated[int, Field(ge=0, lt=1 << 31)]


def _of_bounded_size(text: str) -> str:
    """Returns a text. Raises PydanticCustomError if it has too many bytes."""
    if is_too_long(text, MAX_ID_BYTES):
        raise PydanticCustomError("too_long", "Text should have at most {most} bytes", {"most": MAX_ID_BYTES})
    return text


_Text = Annotated[str, AfterValidator(_of_bounded_size)]
"""A text of an answer. Tables have the name of a connector and its states and workers once for each task."""


class _Answer(BaseModel):
    """A part of an answer. Fields that aren't read are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")


class Status(_Answer):
    """The last written state (RUNNING, FAILED, PAUSED, STOPPED, RESTARTING, UNASSIGNED), and the worker that wrote
    it."""

    state: _Text
    worker_id: _Text


@dataclass(frozen=True)
class Connector:
    """One connector. `tasks` are the configured ones. `task_statuses` can lack some and have others (to be stopped)."""

    name: str
    type: str | None
    tasks: tuple[int, ...]
    status: Status | None
    task_statuses: Mapping[int, Status]


@dataclass(frozen=True)
class RestView:
    """A cluster as one of its workers reports it."""

    version: str | None
    kafka_cluster_id: str | None
    connectors: tuple[Connector, ...]

    def statuses(self) -> dict[tuple[str, int | None], Status]:
        """Returns the statuses by connector and task. A task of None is the connector itself."""
        statuses: dict[tuple[str, int | None], Status] = {}
        for connector in self.connectors:
            if connector.status is not None:
                statuses[connector.name, None] = connector.status
            statuses |= {(connector.name, number): status for number, status in connector.task_statuses.items()}
        return statuses


class _Root(_Answer):
    version: _Text
    kafka_cluster_id: _Text | None = None


class _TaskId(_Answer):
    task: _TaskNumber


class _Task(_Answer):
    id: _TaskId


class _TaskState(Status):
    id: _TaskNumber


class _ConnectorInfo(_Answer):
    type: _Text | None = None


class _ConnectorStatus(_Answer):
    type: _Text | None = None
    connector: Status | None = None
    tasks: Annotated[list[_TaskState], FailFast()] = []


class _InfoWithTasks(_ConnectorInfo):
    tasks: Annotated[list[_TaskId], FailFast()]


class _Expanded(_Answer):
    info: _InfoWithTasks
    status: _ConnectorStatus


class _FirstFault(Exception):
    """Raised at the first fault of a listing. Otherwise, pydantic would keep one for each of millions of connectors."""

    def __init__(self, name: str, cause: ValidationError) -> None:
        self.names, self.cause = (name,), cause


def _noted(name: str, info: Any) -> str:
    """Notes the name of the connector that is validated next."""
    info.context[:] = [name]
    return name


def _until_fault(connector: Any, validate: Callable[[Any], _Expanded], info: Any) -> _Expanded:
    """Validates a connector of the listing. A fault ends the validation of the whole listing."""
    try:
        return validate(connector)
    except ValidationError as error:
        raise _FirstFault(info.context[0], error) from None


_JSON: TypeAdapter[Any] = TypeAdapter(Any)
_ROOT = TypeAdapter(_Root)
_NAMES = TypeAdapter(Annotated[list[_Text], FailFast()])
_Listing = dict[Annotated[_Text, AfterValidator(_noted)], Annotated[_Expanded, WrapValidator(_until_fault)]]
_LISTING = TypeAdapter(Annotated[_Listing | list[Any], Field(union_mode="left_to_right")])
_INFO = TypeAdapter(_ConnectorInfo)
_TASKS = TypeAdapter(Annotated[list[_Task], FailFast()])
_STATUS = TypeAdapter(_ConnectorStatus)


def read(http: ConnectHttp) -> RestView:
    """Reads one cluster. Raises SourceError."""
    try:
        root: _Root = http.get("/", _ROOT)
    except _ShapeError:
        raise SourceError(
            f"{http.url}/ answers, but not as a Connect worker. Give the root of its REST interface."
        ) from None
    names: list[str] = http.get("/connectors", _NAMES)
    listing = http.get("/connectors?expand=status&expand=info", _LISTING)
    # Releases before 2.3 return the plain list again.
    expanded: dict[str, _Expanded] = listing if isinstance(listing, dict) else {}
    connectors = [
        _connector(name, expanded[name].info, expanded[name].info.tasks, expanded[name].status)
        if name in expanded
        else _read_connector(http, name)
        for name in sorted({*names, *expanded})
    ]
    return RestView(
        root.version, root.kafka_cluster_id, tuple(connector for connector in connectors if connector is not None)
    )


def _connector(name: str, info: _ConnectorInfo, task_ids: Sequence[_TaskId], status: _ConnectorStatus) -> Connector:
    """Returns a connector from Connect's responses. `status` is empty if the connector has none."""
    tasks = tuple(sorted(task_id.task for task_id in task_ids))
    return Connector(name, info.type or status.type, tasks, status.connector, {task.id: task for task in status.tasks})


def _read_connector(http: ConnectHttp, name: str) -> Connector | None:
    """Reads a connector that isn't in the expanded listing. Returns None if it was deleted meanwhile."""
    path = f"/connectors/{quote(name, safe='')}"
    try:
        info = http.get(path, _INFO)
        task_ids = [task.id for task in http.get(f"{path}/tasks", _TASKS)]
    except NotFoundError:
        return None
    try:
        status = http.get(f"{path}/status", _STATUS)
    except NotFoundError:
        status = _ConnectorStatus()
    return _connector(name, info, task_ids, status)


if TYPE_CHECKING:
    import requests

_REMEDIES = {
    401: f"Give user:password in {CREDENTIALS_VARIABLE} or by --connect-auth FILE, a token by --connect-config FILE",
    403: "The user may not read this; ask for GET on /connectors",
    404: "Is it the root of a Connect worker's REST interface?",
    407: "The proxy wants a user: give proxy.url with it in --connect-config FILE, or in HTTPS_PROXY",
    409: "The cluster is rebalancing; try again when it has settled",
}


class NotFoundError(SourceError):
    """Raised for 404: the resource doesn't exist (anymore)."""


class _ShapeError(SourceError):
    """Raised for JSON that isn't as Connect gives it."""


class ConnectHttp:
    """Sends requests to one Connect cluster. Several URLs are workers of the same cluster, used in turn if one fails.

    Raises ConfigError if requests is missing or a store can't be opened, and SourceError if the token endpoint denies
    a bearer token.
    """

    def __init__(self, urls: Sequence[str], settings: HttpSettings) -> None:
        with needs_extra("reading Connect clusters needs requests", "kafka"):
            from spark_assign.sources.auth import http_session
        self._urls = [url.rstrip("/") for url in urls]
        self._settings = settings
        self._http = http_session
        header = settings.authorization()
        token = str.__str__(header or "").partition(" ")[2]
        self._secrets = (*settings.secrets(), Secret(token))
        self._session = http_session.session(settings.tls_context(), header)
        self._end = time.monotonic() + CLUSTER_TIMEOUTS * settings.timeout_s
        self._left_bytes = MAX_CLUSTER_BYTES
        self._session.headers.update({"Accept": "application/json", "User-Agent": "spark-assign-snapshot"})

    @property
    def url(self) -> str:
        """Returns the URL of the worker that gets the next request."""
        return self._urls[0]

    def get(self, path: str, answer: TypeAdapter[Any] = _JSON) -> Any:
        """Returns the answer at a path. Raises NotFoundError for 404, and SourceError for every other failure.

        Failures that can pass (no connection, a rebalance, an overloaded proxy) are retried, with doubling pauses or
        after the time of Retry-After, at most a minute.
        """
        from urllib3.exceptions import MaxRetryError

        retry: Any = self._http.patience(self._settings.attempts, "GET")
        for attempt in range(1, self._settings.attempts + 1):
            url = f"{self._urls[0]}{path}"
            try:
                return self._parsed(url, self._once(url), answer)
            except _PassingError as error:
                passing = error
            try:
                retry = retry.increment("GET", url, error=passing)
            except MaxRetryError:
                tries = f", {attempt} attempts" if attempt > 1 else ""
                raise SourceError(f"GET {url}: {passing.reason}{tries}. {passing.remedy}.") from None
            if len(self._urls) == 1 or attempt % len(self._urls) == 0:
                # `is not None`, because a response with an error status is falsy.
                pause_s = retry.get_retry_after(passing.response) if passing.response is not None else None
                wait(pause_s or retry.get_backoff_time())
            self._urls.append(self._urls.pop(0))
        raise AssertionError("unreachable")

    def _once(self, url: str) -> bytes:
        """Sends a request once, and returns the body of the response."""
        import requests
        from urllib3.exceptions import HTTPError

        limit_s = CLUSTER_TIMEOUTS * self._settings.timeout_s
        too_slow = SourceError(f"GET {url}: the cluster took more than {limit_s:,g} s. Raise --connect-timeout.")
        left_s = self._end - time.monotonic()
        if left_s <= 0:
            raise too_slow

        # A configured proxy overrides those of the environment only if each request names it.
        proxy = self._settings.proxy
        proxies = {scheme: str.__str__(proxy) for scheme in ("http", "https")} if proxy else None

        def respond() -> tuple[requests.Response, bytes]:
            with self._session.get(
                url, timeout=self._settings.timeout_s, allow_redirects=False, stream=True, proxies=proxies
            ) as response:
                return response, self._http.body(response)

        try:
            response, body = within(min(left_s, ANSWER_TIMEOUTS * self._settings.timeout_s), respond)
        except self._http.TooLargeError:
            raise SourceError(
                f"GET {url}: the answer has more than {self._http.MAX_RESPONSE_BYTES >> 20} MB. "
                "Is it a Connect worker's REST address?"
            ) from None
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            if time.monotonic() >= self._end:
                raise too_slow from None
            raise self._unreachable(url, error) from None
        self._left_bytes -= len(body)
        if self._left_bytes < 0:
            raise SourceError(f"GET {url}: the answers of the cluster have more than {MAX_CLUSTER_BYTES >> 20} MB.")
        if response.status_code != 200:
            raise self._error_of_status(url, response, body)
        return body

    def _error_of_status(self, url: str, response: requests.Response, body: bytes) -> Exception:
        """Returns the error of a response with a status other than 200. Secrets are removed."""
        try:
            # Cut, because the values of a JSON document take up to 30 times its size.
            message = self._shown(str(from_json(body[:_MAX_ERROR_BYTES])["message"]), 1000)
        except (ValueError, KeyError, TypeError):
            message = self._shown(body)
        code = response.status_code
        reason = f"{code} {self._shown(response.reason or '')}" + (f" ({message})" if message else "")
        remedy = _REMEDIES.get(code, "Look into the log of that worker")
        if code in self._http.PASSING:
            return _PassingError(reason, remedy, response)
        if 300 <= code < 400:
            return SourceError(
                f"GET {url}: {reason}: leads to {self._shown(response.headers.get('Location', ''), 1000)}. "
                "Give that URL instead."
            )
        kind = NotFoundError if code == 404 else SourceError
        return kind(f"GET {url}: {reason}. {remedy}.")

    def _unreachable(self, url: str, error: Exception) -> Exception:
        """Returns the error of a failed connection. Secrets are removed."""
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
        text = self._shown(str(reason) or type(reason).__name__, 200)
        if isinstance(error, requests.Timeout) or isinstance(reason, TimeoutError):
            text = "no answer in time"
        if isinstance(error, requests.exceptions.ProxyError):
            return _PassingError(f"the proxy does not let us through ({text})", "Check proxy.url, or HTTPS_PROXY")
        remedy = "Check the address, and that the worker runs"
        if (
            isinstance(reason, ssl.SSLEOFError | ConnectionResetError | BrokenPipeError)
            and self._settings.tls.key is None
        ):
            # In TLS 1.3, the alert about a missing certificate comes after the handshake and can be lost with the
            # connection.
            remedy += ". Where it wants a client's certificate, give ssl.keystore.location in --connect-config FILE"
        return _PassingError(text, remedy)

    def _parsed(self, url: str, body: bytes, answer: TypeAdapter[Any]) -> Any:
        """Returns the answer in a body. Raises SourceError, also if a field that is read repeats a secret, and
        _ShapeError for JSON that isn't as Connect gives it.
        """
        num_values, num_objects = sum(map(body.count, (b",", b"[", b"{"))), body.count(b"{")
        if num_values > MAX_VALUES or num_objects > MAX_OBJECTS:
            most = f"{MAX_VALUES:,} values" if num_values > MAX_VALUES else f"{MAX_OBJECTS:,} objects"
            raise SourceError(f"GET {url}: the answer has more than {most}. Is it a Connect worker's?")
        try:
            with _parsing:
                parsed = answer.validate_json(body, context=[])
                is_secret = repeats(answer.dump_json(parsed).decode(), self._secrets)
            if not is_secret:
                return parsed
            raise SourceError(
                f"GET {url}: the answer repeats the password or the token that was sent, which no table may have. "
                "Is it a Connect worker's REST address?"
            )
        except (ValidationError, _FirstFault) as error:
            names, faults = ((), error) if isinstance(error, ValidationError) else (error.names, error.cause)
            fault = faults.errors(include_url=False, include_input=False, include_context=False)[0]
        if fault["type"] == "json_invalid":
            raise SourceError(
                f"GET {url}: the answer isn't JSON ({self._shown(body)}). Is it a Connect worker's REST address?"
            )
        where = self._shown(".".join(map(str, (*names, *fault["loc"]))))
        problem = "Input should be an object" if fault["type"] == "model_type" else fault["msg"]
        raise _ShapeError(
            f"GET {url}: the answer is not as Connect gives it ({where}: {problem}). Is there a proxy that "
            "changes answers?"
        )

    def _shown(self, text: bytes | str, width: int = 100) -> str:
        """Returns the first characters of what the other side has sent, in one line and without secrets."""
        if isinstance(text, bytes):
            text = text[: 4 * MAX_TEXT + 4].decode("utf-8", errors="replace")  # a character has at most 4 bytes
        text = " ".join(hidden(text, self._secrets).split())
        return text if len(text) <= width else f"{text[:width]}…"


class _PassingError(Exception):
    """Raised for a failure that can pass, so that the request is retried."""

    def __init__(self, reason: str, remedy: str, response: requests.Response | None = None) -> None:
        super().__init__(reason)
        self.reason, self.remedy, self.response = reason, remedy, response


def host_and_port(url: str) -> str:
    """Returns the name of a worker in REST, `host:port` of its URL (the advertised host and port of WorkerConfig). A
    text that isn't a URL, which any member of the group can send, is returned unchanged.
    """
    return split_url(url).netloc.rpartition("@")[2] or url


def wait(seconds: float) -> None:
    """Waits between two attempts. A separate function, so that tests don't wait."""
    time.sleep(seconds)
