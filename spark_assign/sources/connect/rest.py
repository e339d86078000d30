"""What the REST interface of a Connect cluster says: connectors, tasks, where each runs, in which state.

`/`, `/connectors`, `/connectors?expand=status&expand=info`: three requests a cluster, whatever its size. The expanded
listing leaves out a connector that has no status yet (ConnectorsResource.listConnectors skips it), and releases before
2.3 do not expand at all; those connectors are asked for one by one.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from spark_assign.sources.auth.secret import Secret, hidden
from spark_assign.sources.connect.http_settings import CREDENTIALS_VARIABLE, HttpSettings
from spark_assign.tables.errors import SourceError, missing_extra

UNASSIGNED = "UNASSIGNED"
"""AbstractStatus.State: its worker has given it up and no other has it; the worker named is the former one."""


@dataclass(frozen=True)
class Status:
    """The last state written (RUNNING, FAILED, PAUSED, STOPPED, RESTARTING, UNASSIGNED), and by which worker."""

    state: str
    worker_id: str


@dataclass(frozen=True)
class Connector:
    """One connector. `tasks` are those configured; `task_statuses` may have others (to be stopped) and lack some."""

    name: str
    type: str | None
    tasks: tuple[int, ...]
    status: Status | None
    task_statuses: Mapping[int, Status]


@dataclass(frozen=True)
class RestView:
    """A cluster, as one of its workers sees it."""

    version: str | None
    kafka_cluster_id: str | None
    connectors: tuple[Connector, ...]

    def statuses(self) -> dict[tuple[str, int | None], Status]:
        """By connector and task; None is the connector itself."""
        found: dict[tuple[str, int | None], Status] = {}
        for connector in self.connectors:
            if connector.status is not None:
                found[connector.name, None] = connector.status
            found |= {(connector.name, number): status for number, status in connector.task_statuses.items()}
        return found


def read(http: ConnectHttp) -> RestView:
    """Everything that is read of one cluster. Raises SourceError."""
    root = http.get("/")
    if not isinstance(root, dict) or "version" not in root:
        raise SourceError(f"{http.url}/ answers, but not as a Connect worker. Give the root of its REST interface.")
    names = http.get("/connectors")
    expanded = http.get("/connectors?expand=status&expand=info")
    # Before 2.3 the answer is the plain list again.
    expanded = expanded if isinstance(expanded, dict) else {}
    try:
        connectors = [
            _connector(name, expanded[name]) if name in expanded else _one_by_one(http, name)
            for name in sorted({*names, *expanded})
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SourceError(
            f"{http.url}/connectors: the answer is not as Connect gives it ({type(error).__name__}: {error}). "
            "Is there a proxy that changes answers?"
        ) from None
    return RestView(
        root.get("version"), root.get("kafka_cluster_id"), tuple(each for each in connectors if each is not None)
    )


def _connector(name: str, entry: Mapping[str, Any]) -> Connector:
    info, status = entry["info"], entry["status"]
    return Connector(
        name,
        info.get("type") or status.get("type"),
        _task_numbers(info["tasks"]),
        *_statuses(status),
    )


def _one_by_one(http: ConnectHttp, name: str) -> Connector | None:
    """A connector that the expanded listing does not have; None where it is gone meanwhile."""
    path = f"/connectors/{quote(name, safe='')}"
    try:
        info = http.get(path)
        tasks = _task_numbers([task["id"] for task in http.get(f"{path}/tasks")])
    except NotThereError:
        return None
    try:
        status = http.get(f"{path}/status")
    except NotThereError:
        return Connector(name, info.get("type"), tasks, None, {})
    return Connector(name, info.get("type") or status.get("type"), tasks, *_statuses(status))


def _task_numbers(ids: list[Mapping[str, Any]]) -> tuple[int, ...]:
    return tuple(sorted(int(each["task"]) for each in ids))


def _statuses(status: Mapping[str, Any]) -> tuple[Status | None, dict[int, Status]]:
    own = status.get("connector")
    return (
        None if own is None else Status(own["state"], own["worker_id"]),
        {int(task["id"]): Status(task["state"], task["worker_id"]) for task in status.get("tasks", [])},
    )


if TYPE_CHECKING:
    import requests

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
