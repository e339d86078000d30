"""Detects client libraries, and lists what each of them can do and how its settings are written.

Libraries that can list eager and cooperative assignors together (KIP-429), tried with the releases in parentheses:
    Java (2.4, 3.9, 4.4), franz-go (1.22; before 1.17, partitions could get stuck), Sarama (1.61, its first release with
    cooperative rebalancing)
    librdkafka (2.16) and kafka-python (3.0) don't start with such a list; the others have no cooperative assignor:
    aio-libs/aiokafka#1126, tulios/kafkajs#1156, segmentio/kafka-go#985
librdkafka is under confluent-kafka (Python, Go, .NET, JavaScript), node-rdkafka, rdkafka for Rust and Ruby.

Libraries that support the consumer protocol (KIP-848, group.protocol=consumer), with sources:
    Java        since 4.0: Kafka's operations page "Consumer Rebalance Protocol"
    librdkafka  since 2.12.0, its release notes ("production-ready"); confluent-kafka 2.12 for Python, Go and .NET is
                built on it, as is confluent-kafka-javascript 1.6
    franz-go    by kgo.ServerSideBalancer: twmb/franz-go#1460, since 1.22.0
    kafka-python  not yet: dpkp/kafka-python#3000. Sarama describes such groups (IBM/sarama#3748), no more. Of aiokafka,
                kafkajs and segmentio's kafka-go nothing is known that says so

Libraries that can be static members (`group.instance.id`, KIP-345), and then don't send LeaveGroup when they close:
    Java        since 2.3: KIP-345
    librdkafka  since 1.4.0: confluentinc/librdkafka#2525, #2475; confluentinc/confluent-kafka-javascript#319
    franz-go    kgo.InstanceID, with its comment on leaving a group
    Sarama      config.Consumer.Group.InstanceId: IBM/sarama#2230, May 2022
    kafka-python, aiokafka  group_instance_id: dpkp/kafka-python#2625, May 2025
    kafkajs, kafka-go  no: see `Library.no_static`

Confidence: clients report only `client.id`, which users can set. A default client id is strong evidence; a client id
that merely contains the name of a library is weaker. `RoundRobinAssigner` (kafkajs) and `stream`
(Kafka Streams, Java) are assignors that only one library has.

Some libraries write the same bytes. `aiokafka or kafka-python` is a name of what is one of both (`candidates`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from spark_assign.assignors.group_specs import GroupSpecs
from spark_assign.tables.quoting import properties_value, string_literal

COOPERATIVE = "cooperative-sticky"

UNKNOWN = "unknown"


@dataclass(frozen=True)
class SettingTemplates:
    """How a library's settings are written: a line each, `{}` stands for the value.

    Attributes:
        assignors: the list of assignors.
        session: the session timeout, in milliseconds.
        instance: the instance id of a static member.
        protocol: lines that select the broker's protocol and its assignor (KIP-848), by the broker's name of it.
        package: of Python: the package of the assignors, which are imported from their modules.
        long_session: a longer session timeout, in milliseconds, needs the setting of this line as well, or the consumer
            doesn't start.
        comment: what starts a comment.
        quote: writes an instance id.
    """

    assignors: str
    session: str
    instance: str = ""
    protocol: Mapping[str, Sequence[str]] = field(default_factory=dict)
    package: str = ""
    long_session: tuple[int, str] | None = None
    comment: str = "#"
    quote: Callable[[str], str] = string_literal


@dataclass(frozen=True)
class Library:
    """A client library.

    Attributes:
        name: display name.
        assignors: the assignors that it includes, by Kafka's names, as its settings name them.
        default: pattern of the complete default `client.id`; `<group>` stands for the group id.
        templates: how its settings are written.
        switching: how it switches from eager to cooperative, as a sentence.
        names: pattern of client ids that users derived from the name of the library.
        mixes: whether a consumer can list eager and cooperative assignors together.
        consumer_protocol: first release with the consumer protocol (KIP-848); None: no release.
        no_static: the issue that says that it has no static membership; None: it has.
    """

    name: str
    assignors: Mapping[str, str]
    default: re.Pattern[str]
    templates: SettingTemplates
    switching: str
    names: re.Pattern[str] | None = None
    mixes: bool = False
    consumer_protocol: str | None = None
    no_static: str | None = None


def _like(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_JAVA_PACKAGE = "org.apache.kafka.clients.consumer."
_RANGE, _ROUNDROBIN, _STICKY = ("range", "roundrobin", "sticky")
_PYTHON = {
    _RANGE: "range.RangePartitionAssignor",
    _ROUNDROBIN: "roundrobin.RoundRobinPartitionAssignor",
    _STICKY: "sticky.sticky_assignor.StickyPartitionAssignor",
}
_PROPERTIES = SettingTemplates(
    "partition.assignment.strategy={}",
    "session.timeout.ms={}",
    "group.instance.id={}",
    {name: ("group.protocol=consumer", f"group.remote.assignor={name}") for name in ("uniform", "range")},
    quote=properties_value,
)
_KEYWORDS = SettingTemplates(
    "partition_assignment_strategy=[{}]", "session_timeout_ms={}", "group_instance_id={}", package="kafka"
)

LIBRARIES = {
    each.name: each
    for each in (
        Library(
            "Java",
            {
                _RANGE: f"{_JAVA_PACKAGE}RangeAssignor",
                _ROUNDROBIN: f"{_JAVA_PACKAGE}RoundRobinAssignor",
                _STICKY: f"{_JAVA_PACKAGE}StickyAssignor",
                COOPERATIVE: f"{_JAVA_PACKAGE}CooperativeStickyAssignor",
            },
            _like(r"consumer-<group>-\S+|connector-consumer-\S+-\d+|.+-StreamThread-\d+-consumer"),
            _PROPERTIES,
            # kafka-clients ConsumerCoordinator (constructor), CooperativeStickyAssignor.supportedProtocols
            "A consumer with a mixed list is eager until the eager assignor is removed from its list.",
            mixes=True,
            consumer_protocol="4.0 or later",
        ),
        Library(
            "librdkafka",
            {name: name for name in (_RANGE, _ROUNDROBIN, COOPERATIVE)},
            _like("rdkafka"),
            # src/rdkafka_conf.c rd_kafka_conf_finalize: max.poll.interval.ms is at least session.timeout.ms
            replace(_PROPERTIES, long_session=(300_000, "max.poll.interval.ms={}")),
            # src/rdkafka.c rd_kafka_new, src/rdkafka_assignor.c rd_kafka_assignor_rebalance_protocol_check
            "A consumer doesn't start with a mixed list.",
            _like("rdkafka|confluent"),
            consumer_protocol="2.12 or later (confluent-kafka 2.12, confluent-kafka-javascript 1.6)",
        ),
        Library(
            "franz-go",
            {
                _RANGE: "kgo.RangeBalancer()",
                _ROUNDROBIN: "kgo.RoundRobinBalancer()",
                _STICKY: "kgo.StickyBalancer()",
                COOPERATIVE: "kgo.CooperativeStickyBalancer()",
            },
            _like("kgo"),
            SettingTemplates(
                "kgo.Balancers({})",
                "kgo.SessionTimeout({} * time.Millisecond)",
                "kgo.InstanceID({})",
                {
                    name: ("kgo.ServerSideBalancer()", f"kgo.Balancers(kgo.{balancer}Balancer())")
                    for name, balancer in (("uniform", "Sticky"), ("range", "Range"))
                },
                comment="//",
            ),
            # pkg/kgo/consumer_group.go handleJoinResp, diffAssigned; CHANGELOG.md of 1.17.0
            "A member becomes cooperative as soon as the vote elects cooperative-sticky, even with a mixed list. That "
            "needs 1.17 or later: before, partitions could get stuck. A downgrade isn't supported: after an eager "
            "member downgrades the group, the members consume again from the committed offsets.",
            _like(r"\bkgo\b|franz-go"),
            mixes=True,
            consumer_protocol="1.22 or later, with kgo.ServerSideBalancer",
        ),
        Library(
            "Sarama",
            {
                _RANGE: "sarama.NewBalanceStrategyRange()",
                _ROUNDROBIN: "sarama.NewBalanceStrategyRoundRobin()",
                _STICKY: "sarama.NewBalanceStrategySticky()",
                COOPERATIVE: "sarama.NewBalanceStrategyCooperativeSticky()",
            },
            _like("sarama"),
            SettingTemplates(
                "config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{{{}}}",
                "config.Consumer.Group.Session.Timeout = {} * time.Millisecond",
                "config.Consumer.Group.InstanceId = {}",
                comment="//",
            ),
            # balance_strategy_cooperative_sticky.go SupportedProtocols, selectRebalanceProtocol (IBM/sarama#3696)
            "A consumer with a mixed list is eager, as in Java. That needs 1.61 or later: older releases have no "
            "cooperative rebalancing.",
            _like("sarama"),
            mixes=True,
        ),
        Library(
            "kafka-python",
            {**_PYTHON, COOPERATIVE: "cooperative_sticky.CooperativeStickyAssignor"},
            _like(r"kafka-python-\d\S*"),
            _KEYWORDS,
            # kafka/coordinator/consumer.py _validate_rebalance_protocol, assignors/cooperative_sticky.py
            "Since 3.0 it has cooperative-sticky, and raises KafkaConfigurationError for a mixed list.",
            _like("kafka-python"),
        ),
        Library(
            "aiokafka",
            _PYTHON,
            _like(r"aiokafka-\d\S*"),
            replace(_KEYWORDS, package="aiokafka"),
            "It has only range, roundrobin, and sticky.",  # aiokafka/coordinator/assignors (aio-libs/aiokafka#1126)
            _like("aiokafka"),
        ),
        Library(
            "kafkajs",
            {"RoundRobinAssigner": "PartitionAssigners.roundRobin"},
            _like("kafkajs"),
            SettingTemplates("partitionAssigners: [{}]", "sessionTimeout: {}", comment="//"),
            "It has only RoundRobinAssigner.",  # src/consumer/assigners (tulios/kafkajs#1156)
            _like("kafkajs"),
            no_static="tulios/kafkajs#884",
        ),
        Library(
            "kafka-go",
            {_RANGE: "kafka.RangeGroupBalancer{}", _ROUNDROBIN: "kafka.RoundRobinGroupBalancer{}"},
            _like(r".*\(github\.com/segmentio/kafka-go\)"),
            SettingTemplates(
                "GroupBalancers: []kafka.GroupBalancer{{{}}},",
                "SessionTimeout: {} * time.Millisecond,",
                comment="//",
            ),
            "It has only range and roundrobin.",  # groupbalancer.go (segmentio/kafka-go#985)
            no_static="segmentio/kafka-go#493",
        ),
    )
}
"""Libraries by name. Clients based on librdkafka have its default client id."""


def candidates(name: str) -> list[Library]:
    """Returns the libraries that a name stands for: one, or several that write the same bytes (`A or B`)."""
    return [LIBRARIES[each] for each in name.split(OR) if each in LIBRARIES]


OR = " or "
"""Separates the names of libraries of which one is in use."""

STREAMS = "stream"
_OF_ASSIGNOR = {"RoundRobinAssigner": "kafkajs", STREAMS: "Java"}
_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)


@dataclass(frozen=True)
class Client:
    """A member's library (None: unknown), and whether the evidence is more than a user-defined name."""

    library: str | None
    is_certain: bool = False


@lru_cache(maxsize=4_096)
def detect_library(group_id: str, client_id: str | None, member_id: str | None, assignor: str | None = None) -> Client:
    """Detects the library of a member.

    Args:
        group_id: id of its group, which is part of Java's default client id.
        client_id: its client id; None: unknown. The member id of a dynamic member starts with it as well.
        member_id: its member id; None in a faulty fleet.
        assignor: the assignor of the group, if known.
    """
    if assignor in _OF_ASSIGNOR:
        return Client(_OF_ASSIGNOR[assignor], True)
    name = client_id or _UUID.sub("", member_id or "")
    generic_name = name.replace(group_id, "<group>") if group_id else name
    for library in LIBRARIES.values():
        if library.default.fullmatch(name) or library.default.fullmatch(generic_name):
            return Client(library.name, True)
    for library in LIBRARIES.values():
        if library.names is not None and library.names.search(name):
            return Client(library.name, False)
    return Client(None)


def count_clients(clients: Iterable[Client]) -> str:
    """Formats the libraries of a group: `librdkafka 3, Java 1?, unknown 2`; `?` marks a count that contains a guess."""
    counts: Counter[str] = Counter()
    guesses = set()
    for client in clients:
        counts[client.library or UNKNOWN] += 1
        if client.library and not client.is_certain:
            guesses.add(client.library)
    ordered = sorted(counts.items(), key=lambda item: (item[0] == UNKNOWN, -item[1], item[0]))
    return ", ".join(f"{name} {count}{'?' if name in guesses else ''}" for name, count in ordered)


def leader_client(library: str | None, confidence: str | None) -> Client:
    """Returns what the bytes show of members whose client ids show nothing: they have the library of their leader.

    Args:
        library: `groups.leader_library`, which can name several libraries that write the same bytes.
        confidence: `groups.leader_confidence`.
    """
    is_known = library is not None and all(each in LIBRARIES for each in library.split(OR))
    return Client(library, confidence != "guess") if is_known else Client(None)


def detect_libraries(
    group_id: str, members: Iterable[tuple[str | None, str | None]], assignor: str | None, otherwise: Client
) -> list[Client]:
    """Detects the libraries of a group's members.

    Args:
        group_id: id of the group.
        members: client id and member id of each member.
        assignor: the assignor of the group, if known.
        otherwise: the library of members whose client ids don't show it.
    """
    found = (detect_library(group_id, client_id, member_id, assignor) for client_id, member_id in members)
    return [client if client.library else otherwise for client in found]


def read_client_libraries(
    specs: GroupSpecs, current_assignors: Sequence[str | None], assumed: Sequence[str | None] | None = None
) -> list[str]:
    """Returns the libraries of the members of each group (`count_clients`).

    `assumed` is the library of members whose client ids don't show it, by group; None: that of their leader.
    """
    group_id, rows = specs.group_id.to_pylist(), specs.members.row
    members: list[list[tuple[str | None, str | None]]] = [[] for _ in group_id]
    ids = zip(specs.facts.column("client_id", rows).to_pylist(), specs.member_id.to_pylist(), strict=True)
    for group, pair in zip(specs.members.group.tolist(), ids, strict=True):
        members[group].append(pair)
    leaders = map(leader_client, *(specs.group_values(name) for name in ("leader_library", "leader_confidence")))
    libraries = [
        Client(named, True) if named else leader
        for named, leader in zip(assumed or [None] * specs.num_groups, leaders, strict=True)
    ]
    groups = zip(group_id, members, current_assignors, libraries, strict=True)
    return [count_clients(detect_libraries(*group)) for group in groups]


def read_clients(text: str | None) -> dict[str, int]:
    """Parses a text of `count_clients` into the number of members by library; empty if nothing is known."""
    pairs = (entry.rstrip("?").rpartition(" ") for entry in (text or "").split(", ") if entry)
    return {name: int(count) for name, _, count in pairs if count.isdecimal() and len(count) < 10}  # as we write them


def format_known_clients(clients: str | None) -> str:
    """Describes what is known of a group's clients; `clients` is a text of `count_clients`."""
    counted = read_clients(clients)
    if not counted:
        return "The clients are unknown."
    if set(counted) == {UNKNOWN}:
        return "The client IDs don't show which library the members use."
    guess = "; ? is a guess from part of the name" if "?" in (clients or "") else ""
    return f"The clients, by their client IDs: {clients}{guess}."
