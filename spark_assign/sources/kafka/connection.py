"""Sends many requests to many brokers of one cluster at a time, over kafka-python's connections.

The public admin client contacts one broker after the other and lacks ConsumerGroupDescribe. This module uses the
layer below, `kafka.net`; connections, TLS, SASL, and versions remain the library's. Only this module and
`client_limits` depend on that layer.

It also explains missing permissions. Kafka silently omits from its lists what the user can't describe. Missing
groups are detectable: with DESCRIBE on the cluster, every group is listed (KafkaApis.handleListGroupsRequest), and
DescribeCluster reports whether the user has it.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from kafka import errors
from kafka.net.selector import NetworkSelector
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    ListGroupsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import MetadataRequest

from spark_assign.numeric.arrays import MAX_REPLICAS
from spark_assign.sources.auth.secret import MAX_TEXT, Secret, hidden
from spark_assign.sources.auth.settings import check_servers
from spark_assign.sources.kafka.client_limits import (
    MAX_DECODED_BYTES,
    MAX_LISTED_BYTES,
    MAX_RESPONSE_BYTES,
    LimitedManager,
)
from spark_assign.stores.locations import shortened
from spark_assign.tables.errors import ConfigError, SourceError, SparkAssignError
from spark_assign.tables.schema_fields import MAX_NAME_BYTES, MAX_RACK_BYTES, is_too_long
from spark_assign.wire.reader import WireError

if sys.platform != "win32":
    import resource

T = TypeVar("T")

LANES = 4
"""Requests in flight to one broker at a time."""

MAX_UNANSWERED = 3
"""Times in a row that a broker doesn't answer requests of a kind before it gets no more of them. In each, a cluster is
waited for as long as request.timeout.ms, whatever its number of groups; Fetch has a limit of its own."""

MIN_LIMIT_S, LIMIT_TIMEOUTS = 600.0, 60
"""Time that all requests of a kind to a broker may take together: this many seconds, or this many times
request.timeout.ms if that is more. A broker that answers each request late would otherwise take days."""

MAX_BROKERS = 2_000
"""Maximum number of brokers of a cluster."""

MAX_OPEN_FILES = 65_536
"""Number of files and connections that the process may open, unless its hard limit is lower."""

_MAX_ERROR_CHARACTERS = 2_000
_CONNECT_ATTEMPTS = 5
_BACKOFF_S = 0.5
_TURN_S = 5
_SASL = (errors.SaslAuthenticationFailedError, errors.UnsupportedSaslMechanismError)
_TLS_MESSAGE_PREFIX = "[SSL"
"""The prefix of OpenSSL's messages."""
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
_REPEATED_ERROR_NAME = re.compile(r"\b(\w+Error)(?:: (?:\[Error \d+\] )?\1\b)+")
"""The name of an error that each layer of the library repeats before the message."""
_REMEDY = "Check --bootstrap-server and the security settings of the properties file"


def _contradiction(metadata: Any) -> str | None:
    """Returns what contradicts itself in a Metadata response, or None."""
    ids = [broker.node_id for broker in metadata.brokers]
    if len(set(ids)) < len(ids) or min(ids, default=0) < 0:
        return "lists a broker twice, or a negative ID"
    if is_too_long(metadata.cluster_id):
        return f"has a cluster ID of more than {MAX_NAME_BYTES:,} bytes"
    if any(is_too_long(broker.rack, MAX_RACK_BYTES) for broker in metadata.brokers):
        return f"has a rack of more than {MAX_RACK_BYTES} bytes"
    names = Counter(topic.name for topic in metadata.topics if topic.name)
    if any(number > 1 for number in names.values()):
        return f"lists the topic {names.most_common(1)[0][0]!r:.260} twice"
    for topic in metadata.topics:
        numbers = sorted(partition.partition_index for partition in topic.partitions)
        if topic.error_code == 0 and (
            not topic.name or is_too_long(topic.name) or numbers != list(range(len(numbers)))
        ):
            return f"lacks a partition of the topic {topic.name!r:.260}, or lists one twice"
        if any(len(partition.replica_nodes) > MAX_REPLICAS for partition in topic.partitions):
            return f"has more than {MAX_REPLICAS:,} replicas of a partition of the topic {topic.name!r:.260}"
    return None


def null_field(message: Any) -> str | None:
    """Returns the name of a field of a response that is null although its schema forbids that, or None. Kafka's clients
    don't accept it, and kafka-python does.
    """
    for field in _checked_fields(message.__class__, message.version):
        value = getattr(message, field.name)
        if value is None:
            if not field.nullable_for_version_q(message.version):
                return str(field.name)
        elif (field.is_struct() or field.is_struct_array()) and _checked_fields(field.data_class, message.version):
            found = next(filter(None, map(null_field, value if field.is_array() else [value])), None)
            if found is not None:
                return f"{field.name}.{found}"
        elif field.type_str == "[]string" and None in value:
            return str(field.name)
    return None


@cache
def _checked_fields(message: Any, version: int) -> list[Any]:
    """Returns the fields that a null can be in although it must not, without numbers, which are never null."""
    fields = [field for field in message.fields.values() if field.for_version_q(version) and field.tag is None]
    texts = [field for field in fields if field.type_str in ("string", "bytes")]
    required = [field for field in texts if not field.nullable_for_version_q(version)]
    return required + [field for field in fields if field.is_array() or field.is_struct()]


def _open_files() -> int:
    """Returns how many files and connections the process may open, after it has raised its limit."""
    if sys.platform == "win32":
        return MAX_OPEN_FILES
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, most = (MAX_OPEN_FILES if n == resource.RLIM_INFINITY else min(n, MAX_OPEN_FILES) for n in limits)
    if soft < most:
        with suppress(ValueError, OSError):  # macOS has another limit below the hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, limits[1]))
            return most
    return soft


_NO_ANSWER = (
    errors.RequestTimedOutError,
    errors.KafkaTimeoutError,
    errors.KafkaConnectionError,
    errors.NodeNotReadyError,
)


class SilentBrokerError(Exception):
    """Raised for a request that isn't sent, because the broker has answered none of its kind, or too slowly."""


@dataclass
class _Waited:
    """How long and how often a broker was waited for, in requests of a kind."""

    unanswered: int = 0
    """Times in a row without an answer, the last at `unanswered_s`."""
    unanswered_s: float = 0.0
    total_s: float = 0.0
    """Time in which at least one request was sent and not finished, until `finished_s`."""
    finished_s: float = 0.0


class ClusterConnection:
    """A bootstrapped connection to a cluster. Close it, or use it as a context manager.

    Raises SourceError if no bootstrap server responds or if the credentials are denied. Secrets are removed from
    every message.
    """

    at_once = 1
    """Number of snapshots that are taken at the same time. They share the files that the process may open."""
    _limit_s = MIN_LIMIT_S

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, Any], timeout_s: float = 30) -> None:
        check_servers(bootstrap_servers)
        self._bootstrap_servers = bootstrap_servers
        self._waited: dict[tuple[int | None, type], _Waited] = defaultdict(_Waited)
        self._secrets = [*settings.get("secrets", ()), *settings.values()]
        known = {
            "client_id": "spark-assign-snapshot",
            "receive_message_max_bytes": MAX_RESPONSE_BYTES,
            # Above the lanes, so that a connection never refuses a request as too many.
            "max_in_flight_requests_per_connection": 2 * LANES,
            "slow_task_threshold_secs": 0,  # otherwise a large response on a busy machine is a warning
            **{key: value for key, value in settings.items() if key != "secrets"},
            "bootstrap_servers": bootstrap_servers.split(","),
        }
        self._quiet = _Redacted(self._secrets)
        self._hush(known)
        if known.get("sasl_mechanism") == "OAUTHBEARER" and "sasl_oauth_token_provider" in known:
            # The first token here, where its error is ours; the library's thread finds it made.
            self._secrets.append(Secret(known["sasl_oauth_token_provider"].token()))
        self._net: Any = NetworkSelector(**known)
        try:
            self._manager: Any = LimitedManager(self._net, **known)
        except ValueError as error:
            for logger in _client_loggers():
                logger.removeFilter(self._quiet)
            text = f"Kafka at {bootstrap_servers:.1000}: expected HOST:PORT,… ({error})"
            raise ConfigError(f"{text}. Correct --bootstrap-server.") from None
        self._limit_s = max(MIN_LIMIT_S, LIMIT_TIMEOUTS * self._manager.config["request_timeout_ms"] / 1000)
        self._net.start()
        self._hush(known)
        try:
            self._bootstrap(time.monotonic() + timeout_s)
        except errors.KafkaError as error:
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
        """Closes every connection."""
        self._manager.close()
        self._net.close()  # also ends what waits for a connection, which complains at the end of the process otherwise
        for logger in _client_loggers():
            logger.removeFilter(self._quiet)

    def _hush(self, settings: Mapping[str, Any]) -> None:
        if str(settings.get("security_protocol")).startswith("SASL_"):
            for logger in _client_loggers():
                logger.addFilter(self._quiet)

    def _bootstrap(self, deadline: float) -> None:
        """Bootstraps in short attempts: the library doesn't report a denied password and keeps trying."""
        while True:
            try:
                self._manager.bootstrap(min(_TURN_S, max(deadline - time.monotonic(), 1)) * 1000)
                return
            except errors.KafkaTimeoutError as error:
                reason = self._manager.run(self._connection_error) or error
                if isinstance(reason, _SASL) or _TLS_MESSAGE_PREFIX in str(reason) or time.monotonic() > deadline:
                    raise reason from None

    async def _connection_error(self) -> errors.KafkaError | None:
        """Returns the error of a connection to the first bootstrap server, or None if it succeeds."""
        node = self._manager.cluster.bootstrap_brokers()[0].node_id
        self._manager.reset_backoff(node)
        try:
            await self._manager.get_connection(node, timeout_ms=_TURN_S * 1000, refresh_metadata_on_err=False)
        except errors.KafkaError as error:
            return error
        except SparkAssignError:
            raise
        except Exception as error:  # raised by a SASL mechanism, for example for a wrong SCRAM signature
            return errors.SaslAuthenticationFailedError(f"{type(error).__name__}: {error}")
        return None

    def failed(self, problem: str, error: BaseException) -> SourceError:
        """Returns an error that names the cluster, without secrets."""
        error_text = _REPEATED_ERROR_NAME.sub(r"\1", f"{type(error).__name__}: {error}")
        error_text = self.without_secrets(error_text)
        remedy = next((text for sign, text in _REMEDIES.items() if sign in error_text), _REMEDY)
        return SourceError(f"Kafka at {self._bootstrap_servers}: {problem} ({error_text}). {remedy}.")

    def without_secrets(self, text: str, limit: int = _MAX_ERROR_CHARACTERS) -> str:
        """Returns a text of a broker, which knows the login, in one line of bounded length."""
        return shortened(" ".join(hidden(text, self._secrets).split()), limit)

    def brokers(self) -> list[int]:
        """Returns the IDs of the live brokers, ascending. Raises SourceError if they are too many."""
        brokers = sorted(broker.node_id for broker in self._manager.cluster.brokers())
        self._check_number(len(brokers))
        return brokers

    def _check_number(self, brokers: int) -> None:
        """Raises SourceError if the process can't open a connection to each of this number of brokers."""
        files = _open_files()
        if brokers > min(MAX_BROKERS, files // 2 // self.at_once):
            raise SourceError(
                f"Kafka at {self._bootstrap_servers}: it has {brokers:,} brokers. At most {MAX_BROKERS:,} can be read, "
                f"and half of the {files:,} files that the process may open, divided by the {self.at_once} snapshots "
                "at a time. Raise the limit of open files (ulimit -n), or lower --parallel."
            )

    def newest(self, request: type) -> int:
        """Returns the newest version of an API that both sides support; -1 if the brokers don't have the API."""
        try:
            return int(self._manager.broker_version_data.api_version(request))
        except errors.IncompatibleBrokerVersion:
            return -1

    def metadata(self, topics: Collection[str] | None) -> Any:
        """Returns the Metadata response with these topics; None means all topics.

        Raises:
            SourceError: no broker responds; or a broker, topic, or partition is listed twice, or a topic or partition
                is missing, with which no table of the fleet could be planned.
        """
        requested = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in sorted(topics or ())]
        topic_list = None if topics is None else requested
        response = self.send_any(MetadataRequest(topics=topic_list, allow_auto_topic_creation=False))
        if problem := _contradiction(response):
            raise SourceError(f"Kafka at {self._bootstrap_servers}: the metadata {problem}. Try again.")
        self._check_number(len(response.brokers))
        return response

    def send_any(self, request: Any) -> Any:
        """Sends a request to the least busy broker. Raises SourceError."""
        response = self.send_all([(None, request)])[0]
        if isinstance(response, Exception):
            raise self.failed(f"{type(request).__name__} failed", response)
        return response

    def send_all(
        self, requests: Sequence[tuple[int | None, Any]], answered: Callable[[int], None] = lambda _: None
    ) -> list[Any]:
        """Sends (broker, request) pairs, `LANES` at a time per broker. Returns the responses in the same order.

        A failed request has its exception instead of a response. `answered` is called with the position of each
        finished request. If a broker hasn't answered requests of a kind `MAX_UNANSWERED` times in a row, or those of a
        kind have taken too long together, it gets no more of them.
        """
        responses: list[Any] = [None] * len(requests)
        lanes: dict[tuple[int | None, int], list[int]] = defaultdict(list)
        seen: dict[int | None, int] = defaultdict(int)
        for position, (broker, _) in enumerate(requests):
            lanes[broker, seen[broker] % LANES].append(position)
            seen[broker] += 1

        async def lane(positions: list[int]) -> None:
            for position in positions:
                broker, request = requests[position]
                waited, sent_s = self._waited[broker, type(request)], time.monotonic()
                times = waited.unanswered
                try:
                    if times >= MAX_UNANSWERED and not isinstance(request, FetchRequest):
                        raise SilentBrokerError(f"broker {broker} has not answered {times} requests like this in a row")
                    if waited.total_s > self._limit_s and not isinstance(request, FetchRequest):
                        raise SilentBrokerError(
                            f"broker {broker} took more than {self._limit_s:,g} s for requests like this; raise "
                            f"request.timeout.ms to wait {LIMIT_TIMEOUTS} times as long"
                        )
                    responses[position] = await self._send(broker, request)
                    waited.unanswered, waited.unanswered_s = 0, 0.0
                    if name := null_field(responses[position]):
                        raise WireError(f"malformed response of the broker: {name} is null")
                except Exception as error:
                    responses[position] = error
                    # Requests of other lanes count once.
                    if isinstance(error, _NO_ANSWER) and sent_s >= waited.unanswered_s:
                        waited.unanswered, waited.unanswered_s = waited.unanswered + 1, time.monotonic()
                now_s = time.monotonic()
                waited.total_s += now_s - max(sent_s, waited.finished_s)
                waited.finished_s = now_s
                answered(position)

        async def all_lanes() -> None:
            for done in [self._manager.call_soon(lane, positions) for positions in lanes.values()]:
                await done

        few = {type(request) for _, request in requests} <= {ListGroupsRequest, ListPartitionReassignmentsRequest}
        self._manager.start_budgets(MAX_LISTED_BYTES if few else MAX_DECODED_BYTES)
        try:
            self._manager.run(all_lanes)
        except errors.KafkaError as error:
            raise self.failed("connection lost", error) from None
        return responses

    async def _send(self, broker: int | None, request: Any) -> Any:
        for attempt in range(1, _CONNECT_ATTEMPTS + 1):
            try:
                return await self._manager.send(request, node_id=broker)
            except (errors.NodeNotReadyError, errors.KafkaConnectionError):
                received = self._manager.received
                if attempt == _CONNECT_ATTEMPTS or received.used[broker] > received.limit(broker):
                    raise
                await self._net.sleep(_BACKOFF_S * attempt)
        raise AssertionError("unreachable")


class _Redacted(logging.Filter):
    """Drops DEBUG records: the client logs every request with its bytes, including the SASL token (for PLAIN, the
    password). In others, which repeat errors of brokers, secrets are hidden, and tracebacks are left out.

    botocore logs the content that it signs, with the session token.
    """

    def __init__(self, secrets: Sequence[object]) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args, record.exc_info = hidden(record.getMessage(), self._secrets), (), None
        return record.levelno > logging.DEBUG


def _client_loggers() -> list[logging.Logger]:
    """Returns the loggers of kafka-python and botocore."""
    names = list(logging.root.manager.loggerDict)
    return [logging.getLogger(name) for name in names if name.startswith(("kafka.", "botocore."))]


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Returns the items in order, in batches of at most `size`."""
    return (items[start : start + size] for start in range(0, len(items), size))


def wait(seconds: float) -> None:
    """Waits between two attempts. A separate function, so that tests don't wait."""
    time.sleep(seconds)


_MAX_DISPLAYED = 5
_REASSIGNMENTS_TIMEOUT_MS = 30_000
_TOPIC_RESOURCE, _TOPICS_PER_REQUEST, _CLEANUP_POLICY = 2, 1_000, "cleanup.policy"

NO_SIZES = "bytes are not known of what these brokers lead"


def missing_permission(connection: ClusterConnection) -> str | None:
    """Returns a text if the user can't describe the cluster, or if no broker says whether they can. None if they can,
    or if the brokers are older than 2.8.
    """
    if connection.newest(DescribeClusterRequest) < 0:
        return None
    (response,) = connection.send_all([(None, DescribeClusterRequest(include_cluster_authorized_operations=True))])
    if isinstance(response, Exception):
        return connection.without_secrets(
            "groups that this user may not describe are missing without a trace, and whether there are any isn't "
            f"known: {error_text(response)}"
        )
    if response.error_code == 0 and response.authorized_operations:
        return None
    return (
        "no permission DESCRIBE on the cluster: groups that this user may not describe are missing without a trace. "
        "Grant DESCRIBE on the cluster"
    )


def reassignments(
    connection: ClusterConnection, report: Callable[[str], None]
) -> dict[tuple[str, int], dict[str, list[int]]]:
    """Returns the brokers that each partition being reassigned gets and loses, as columns of `replicas`. Empty if that
    is unknown; a failed request is reported.
    """
    if connection.newest(ListPartitionReassignmentsRequest) < 0:
        return {}
    request = ListPartitionReassignmentsRequest(timeout_ms=_REASSIGNMENTS_TIMEOUT_MS, topics=None)
    (response,) = connection.send_all([(None, request)])
    if isinstance(response, Exception):
        report(f"which partitions are being reassigned isn't known: {error_text(response)}")
        return {}
    if response.error_code:
        return {}
    return {
        (topic.name, partition.partition_index): {
            "adding_replicas": list(partition.adding_replicas),
            "removing_replicas": list(partition.removing_replicas),
        }
        for topic in response.topics
        for partition in topic.partitions
    }


def cleanup_policies(connection: ClusterConnection, topics: Collection[str]) -> dict[str, str]:
    """Returns `cleanup.policy` of each topic whose settings the user may read (DESCRIBE_CONFIGS on the topic), without
    those after `MAX_UNANSWERED` failed requests in a row.
    """
    if connection.newest(DescribeConfigsRequest) < 0:
        return {}
    found: dict[str, str] = {}
    failures = 0
    for names in batches(sorted(topics), _TOPICS_PER_REQUEST):
        keys = {"resource_type": _TOPIC_RESOURCE, "configuration_keys": [_CLEANUP_POLICY]}
        resources = [DescribeConfigsRequest.DescribeConfigsResource(resource_name=name, **keys) for name in names]
        (response,) = connection.send_all([(None, DescribeConfigsRequest(resources=resources))])
        failures = failures + 1 if isinstance(response, Exception) else 0
        if failures == MAX_UNANSWERED:
            break
        described = response.results if not failures else []
        configs = ((topic.resource_name, each) for topic in described for each in topic.configs or ())
        policies = {topic: each.value for topic, each in configs if each.name == _CLEANUP_POLICY}
        found |= {name: policies[name] for name in names if name in policies}  # a broker can list others
    return found


def unseen_topics_text(topics: Collection[str]) -> str:
    """Returns the text about topics that groups own but that aren't visible to the user."""
    return (
        f"topics that groups own are not shown to this user, and plans treat them as deleted: {_displayed(topics)}. "
        "Grant DESCRIBE on topics (or they are just deleted)"
    )


def topic_errors(metadata: Any) -> dict[str, str]:
    """Returns the error of each topic in a Metadata response that has one, without topics that don't exist."""
    harmless = (0, errors.UnknownTopicOrPartitionError.errno)
    with_errors = [topic for topic in metadata.topics if topic.name and topic.error_code not in harmless]
    return {topic.name: errors.for_code(topic.error_code).__name__ for topic in with_errors}


def topic_errors_text(topics: Mapping[str, str]) -> str:
    """Returns the text about topics with an error."""
    displayed = _displayed([f"{topic} ({error})" for topic, error in topics.items()])
    return (
        f"topics whose partitions are not known, because the metadata has an error for them: {displayed}. Grant "
        "DESCRIBE on topics, or take another snapshot. Until then, groups that use them are undescribed"
    )


def _displayed(topics: Collection[str]) -> str:
    more = f" and {len(topics) - _MAX_DISPLAYED} more" if len(topics) > _MAX_DISPLAYED else ""
    return ", ".join(sorted(topics)[:_MAX_DISPLAYED]) + more


def error_text(error: Exception) -> str:
    """Returns the text of a group's error in one line, with the missing permission if that is the cause. It can have
    secrets.
    """
    text = _REPEATED_ERROR_NAME.sub(r"\1", f"{type(error).__name__}: {error}")
    text = " ".join(text.split())[: MAX_TEXT + 1]
    if isinstance(error, errors.GroupAuthorizationFailedError):
        return f"{text}. Grant DESCRIBE on this group"
    return text


def no_sizes_reason(response: Any) -> str | None:
    """Returns the reason why a broker doesn't report the sizes of its logs, or None if it does.

    Without DESCRIBE on the cluster, brokers before 3.2 (DescribeLogDirs v3) return no folder and no error.
    """
    if isinstance(response, Exception):
        return error_text(response)
    code = getattr(response, "error_code", 0) or 0
    if code == errors.ClusterAuthorizationFailedError.errno or (not code and not response.results):
        return "no permission DESCRIBE on the cluster. Grant DESCRIBE on the cluster"
    return errors.for_code(code).__name__ if code else None
