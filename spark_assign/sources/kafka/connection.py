"""Many requests to many brokers of one cluster at once, over kafka-python's connections.

The public admin client asks one broker after the other and lacks ConsumerGroupDescribe, so this goes one
layer down, to `kafka.net` (connections, TLS, SASL, versions stay the library's). All of that is in this one
file.
"""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from kafka import errors
from kafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import DescribeClusterRequest

from spark_assign.sources.auth.secret import Secret, hidden
from spark_assign.tables.errors import SourceError, SparkAssignError

T = TypeVar("T")

LANES = 4
"""Requests in flight to one broker at a time."""

_CONNECT_ATTEMPTS = 5
_BACKOFF_S = 0.5
_TURN_S = 5
_SASL = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError)
_OF_TLS = "[SSL"
"""What OpenSSL's messages begin with."""
_REMEDIES = {
    "CERTIFICATE_VERIFY_FAILED": "Name the authority of the brokers' certificates in ssl.truststore.location",
    "WRONG_VERSION_NUMBER": "Is this a listener with TLS? Otherwise security.protocol is PLAINTEXT or SASL_PLAINTEXT",
    "CERTIFICATE_REQUIRED": "The brokers want a client's certificate: give ssl.keystore.location",
    "ALERT_UNKNOWN_CA": "The brokers do not trust the client's certificate in ssl.keystore.location",
    "ALERT_CERTIFICATE_UNKNOWN": "The brokers do not trust the client's certificate in ssl.keystore.location",
    "ALERT_BAD_CERTIFICATE": "The brokers want a client's certificate that they trust: give ssl.keystore.location",
    "UnsupportedSaslMechanism": "The brokers do not have this sasl.mechanism; ask their operator which they have",
    "invalid_token": "The brokers do not take the token: check its issuer, audience and scope, and the clock here",
}
_OVER_AND_OVER = re.compile(r"\b(\w+Error)(?:: (?:\[Error \d+\] )?\1\b)+")
"""An error's name, as the library's layers each put it before what was said."""
_REMEDY = "Check --bootstrap-server and the security settings of the properties file"


class ClusterConnection:
    """A bootstrapped connection to a cluster; close it, or use it as a context manager.

    Raises SourceError where no bootstrap server answers or refuses the credentials; secrets are taken out of
    every message.
    """

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, Any], timeout_s: float = 30) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._secrets = [settings.get("secrets", ()), *settings.values()]
        known = {
            "client_id": "spark-assign-snapshot",
            "receive_message_max_bytes": 1 << 30,
            # Above the lanes, so that a connection never refuses a request as too many.
            "max_in_flight_requests_per_connection": 2 * LANES,
            **{key: value for key, value in settings.items() if key != "secrets"},
            "bootstrap_servers": bootstrap_servers.split(","),
        }
        self._quiet = _NoDebug()
        self._hush(known)
        if known.get("sasl_mechanism") == "OAUTHBEARER" and "sasl_oauth_token_provider" in known:
            # The first token here, where its error is ours; the library's thread finds it made.
            self._secrets.append(Secret(known["sasl_oauth_token_provider"].token()))
        self._net: Any = NetworkSelector(**known)
        self._manager: Any = _LastWords(self._net, **known)
        self._net.start()
        self._hush(known)
        try:
            self._bootstrap(time.monotonic() + timeout_s)
        except KafkaError as error:
            self.close()
            raise self.failed("no connection", error) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ClusterConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._manager.close()
        self._net.stop()
        for logger in _client_loggers():
            logger.removeFilter(self._quiet)

    def _hush(self, settings: Mapping[str, Any]) -> None:
        if str(settings.get("security_protocol")).startswith("SASL_"):
            for logger in _client_loggers():
                logger.addFilter(self._quiet)

    def _bootstrap(self, deadline: float) -> None:
        """Bootstrap in short turns: the library keeps a refused password to itself and goes on trying."""
        while True:
            try:
                self._manager.bootstrap(min(_TURN_S, max(deadline - time.monotonic(), 1)) * 1000)
                return
            except KafkaTimeoutError as error:
                reason = self._manager.run(self._why_not) or error
                if isinstance(reason, _SASL) or _OF_TLS in str(reason) or time.monotonic() > deadline:
                    raise reason from None

    async def _why_not(self) -> KafkaError | None:
        """What the first bootstrap server says now, None if it lets us in."""
        node = self._manager.cluster.bootstrap_brokers()[0].node_id
        self._manager.reset_backoff(node)
        try:
            await self._manager.get_connection(node, timeout_ms=_TURN_S * 1000, refresh_metadata_on_err=False)
        except KafkaError as error:
            return error
        except SparkAssignError:
            raise
        except Exception as error:  # a mechanism's own, as of a SCRAM answer with a wrong signature
            return SaslAuthenticationFailedError(f"{type(error).__name__}: {error}")
        return None

    def failed(self, what: str, error: BaseException) -> SourceError:
        """An error that names the cluster, without secrets."""
        said = hidden(_OVER_AND_OVER.sub(r"\1", f"{type(error).__name__}: {error}"), self._secrets)
        remedy = next((text for sign, text in _REMEDIES.items() if sign in said), _REMEDY)
        return SourceError(f"Kafka at {self._bootstrap_servers}: {what} ({said}). {remedy}.")

    def brokers(self) -> list[int]:
        """The ids of the brokers that are there, ascending."""
        return sorted(broker.node_id for broker in self._manager.cluster.brokers())

    def newest(self, request: type) -> int:
        """The newest version of an API that both sides know."""
        return int(self._manager.broker_version_data.api_version(request))

    def ask_any(self, request: Any) -> Any:
        """One request to whichever broker is least busy. Raises SourceError."""
        answer = self.ask([(None, request)])[0]
        if isinstance(answer, Exception):
            raise self.failed(f"{type(request).__name__} failed", answer)
        return answer

    def ask(
        self, requests: Sequence[tuple[int | None, Any]], answered: Callable[[int], None] = lambda _: None
    ) -> list[Any]:
        """Send (broker, request) pairs, `LANES` at a time to each broker; the answers in the same order.

        A request that failed has its exception in place of the answer. `answered` is called with the position
        of each request that is done.
        """
        answers: list[Any] = [None] * len(requests)
        lanes: dict[tuple[int | None, int], list[int]] = defaultdict(list)
        seen: dict[int | None, int] = defaultdict(int)
        for position, (broker, _) in enumerate(requests):
            lanes[broker, seen[broker] % LANES].append(position)
            seen[broker] += 1

        async def lane(positions: list[int]) -> None:
            for position in positions:
                broker, request = requests[position]
                try:
                    answers[position] = await self._send(broker, request)
                except Exception as error:
                    answers[position] = error
                answered(position)

        async def all_lanes() -> None:
            for done in [self._manager.call_soon(lane, positions) for positions in lanes.values()]:
                await done

        try:
            self._manager.run(all_lanes)
        except KafkaError as error:
            raise self.failed("connection lost", error) from None
        return answers

    async def _send(self, broker: int | None, request: Any) -> Any:
        for attempt in range(1, _CONNECT_ATTEMPTS + 1):
            try:
                return await self._manager.send(request, node_id=broker)
            except (NodeNotReadyError, KafkaConnectionError):
                if attempt == _CONNECT_ATTEMPTS:
                    raise
                await self._net.sleep(_BACKOFF_S * attempt)
        raise AssertionError("unreachable")


class _LastWords(KafkaConnectionManager):  # type: ignore[misc]  # the library has no types
    """Reads what a broker said before it hung up.

    A broker answers a refused login and closes at once. Where both arrive together the library drops the
    answer for the end of the stream, and a wrong password looks like a lost connection.
    """

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await super()._build_transport(node, timeout_at=timeout_at)
        transport._sock_recv = _answer_before_end(transport._sock_recv)
        return transport


def _answer_before_end(receive: Callable[[], tuple[bytes, Any]]) -> Callable[[], tuple[bytes, Any]]:
    """Bytes first; the error that came with them comes again by itself at the next read."""

    def answer_before_end() -> tuple[bytes, Any]:
        received, error = receive()
        return received, None if received else error

    return answer_before_end


class _NoDebug(logging.Filter):
    """At DEBUG the client logs every request with its bytes, the SASL token (for PLAIN: the password) too.

    botocore logs what it signs, with the token of the session.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno > logging.DEBUG


def _client_loggers() -> list[logging.Logger]:
    names = list(logging.root.manager.loggerDict)
    return [logging.getLogger(name) for name in names if name.startswith(("kafka.", "botocore."))]


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in order, at most `size` at a time."""
    return (items[start : start + size] for start in range(0, len(items), size))


def wait(seconds: float) -> None:
    """Between two attempts; a function of its own so that tests need not wait."""
    time.sleep(seconds)


_SHOWN = 5

NO_SIZES = "bytes are not known of what these brokers lead"


def missing_permission(connection: ClusterConnection) -> str | None:
    """What is said where the user may not describe the cluster; None if he may, or the brokers are before 2.8."""
    try:
        connection.newest(DescribeClusterRequest)
    except errors.IncompatibleBrokerVersion:
        return None
    answer = connection.ask_any(DescribeClusterRequest(include_cluster_authorized_operations=True))
    if answer.error_code == 0 and answer.authorized_operations:
        return None
    return (
        "no permission DESCRIBE on the cluster: groups that this user may not describe are missing without a trace. "
        "Grant DESCRIBE on the cluster"
    )


def unseen_topics_text(topics: Collection[str]) -> str:
    """What is said about topics that groups own, and that are not among those shown to the user."""
    more = f" and {len(topics) - _SHOWN} more" if len(topics) > _SHOWN else ""
    some = ", ".join(sorted(topics)[:_SHOWN]) + more
    return (
        f"topics that groups own are not shown to this user, and plans will lack them: {some}. "
        "Grant DESCRIBE on topics (or they are just deleted)"
    )


def error_text(error: Exception) -> str:
    """An error of one group, and the permission that it lacks if that is what it says."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, errors.GroupAuthorizationFailedError):
        return f"{text}. Grant DESCRIBE on this group"
    return text


def no_sizes_reason(answer: Any) -> str | None:
    """Why a broker does not tell the sizes of its logs; None if it does.

    Without DESCRIBE on the cluster brokers before 3.2 (DescribeLogDirs v3) answer with no folder and no error.
    """
    if isinstance(answer, Exception):
        return f"{type(answer).__name__}: {answer}"
    code = getattr(answer, "error_code", 0) or 0
    if code == errors.ClusterAuthorizationFailedError.errno or (not code and not answer.results):
        return "no permission DESCRIBE on the cluster. Grant DESCRIBE on the cluster"
    return errors.for_code(code).__name__ if code else None
