"""Detects client libraries, and determines how a group can switch to another assignor.

A group can change its assignor by rolling restarts only if at any moment all members share one assignor. That takes two
restarts of each member: the first with both assignors in its list, the second with only the new one. If one of them is
eager and the other cooperative (KIP-429), the list of the first restart mixes both protocols, and most libraries reject
that: the consumer doesn't start. In this case all members must stop before the first one starts with the new assignor.
That is safe for every library, and is the recommendation if a library is unknown.

Libraries that can mix protocols, with sources:
    Java        yes, since 2.4: KIP-429, and the upgrade notes of Kafka 2.4 ("two rolling bounces")
    franz-go    yes: the comment of kgo.CooperativeStickyBalancer ("two rolling bounce deploys")
    librdkafka  no: "All partition.assignment.strategy assignors must have the same protocol type, online migration
                between assignors with different protocol types is not supported"; confluentinc/librdkafka#3589, #4368,
                confluentinc/confluent-kafka-go#605. Under confluent-kafka (Python, Go, .NET, JavaScript), node-rdkafka,
                rdkafka for Rust and Ruby
    kafka-python  no: since 3.0 it has cooperative-sticky (dpkp/kafka-python#2143) and raises on a list that mixes
    Sarama      since September 2026 (IBM/sarama#3696); before, it had no cooperative assignor (#1858): counts as no
    aiokafka, kafkajs, segmentio's kafka-go  have no cooperative assignor: aio-libs/aiokafka#1126, tulios/kafkajs#1156,
                segmentio/kafka-go#985

Libraries that support the consumer protocol (KIP-848, group.protocol=consumer), with sources:
    Java        since 4.0: Kafka's operations page "Consumer Rebalance Protocol"
    librdkafka  since 2.12.0, its release notes ("production-ready"); confluent-kafka 2.12 for Python, Go and .NET is
                built on it, as is confluent-kafka-javascript 1.6
    franz-go    by kgo.ServerSideBalancer: twmb/franz-go#1460, merged in September 2026
    kafka-python  not yet: dpkp/kafka-python#3000. Sarama describes such groups (IBM/sarama#3748), no more. Of aiokafka,
                kafkajs and segmentio's kafka-go nothing is known that says so

Confidence: clients report only `client.id`, which users can set. A default client id is strong evidence; a client id
that merely contains the name of a library is weaker. `RoundRobinAssigner` (kafkajs) and `stream`
(Kafka Streams, Java) are assignors that only one library has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from spark_assign.groups.assignors.server import RACK_SERVER_ASSIGNORS, SERVER_ASSIGNORS
from spark_assign.groups.assignors.weighted import WEIGHTED_STICKY
from spark_assign.groups.kernel.group_specs import GroupSpecs

COOPERATIVE = "cooperative-sticky"

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Library:
    """Capabilities of a client library.

    Attributes:
        name: display name.
        assignors: the assignors that it includes.
        mixes: whether a consumer can list eager and cooperative assignors together.
        default: pattern of the complete default `client.id`; `<group>` stands for the group id.
        names: pattern of client ids that users derived from the name of the library.
        consumer_protocol: first release with the consumer protocol (KIP-848); None: no release.
    """

    name: str
    assignors: frozenset[str]
    mixes: bool
    default: re.Pattern[str]
    names: re.Pattern[str] | None = None
    consumer_protocol: str | None = None


_JAVA = frozenset({"range", "roundrobin", "sticky", COOPERATIVE})
_EAGER = frozenset({"range", "roundrobin", "sticky"})
_RDKAFKA = frozenset({"range", "roundrobin", COOPERATIVE})


def _like(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


LIBRARIES = {
    each.name: each
    for each in (
        Library(
            "Java",
            _JAVA,
            True,
            _like(r"consumer-<group>-\S+|connector-consumer-\S+-\d+|.+-StreamThread-\d+-consumer"),
            consumer_protocol="4.0 or later",
        ),
        Library(
            "librdkafka",
            _RDKAFKA,
            False,
            _like("rdkafka"),
            _like("rdkafka|confluent"),
            "2.12 or later (confluent-kafka 2.12, confluent-kafka-javascript 1.6)",
        ),
        Library(
            "franz-go",
            _JAVA,
            True,
            _like("kgo"),
            _like(r"\bkgo\b|franz-go"),
            "with kgo.ServerSideBalancer (September 2026)",
        ),
        Library("Sarama", _JAVA, False, _like("sarama"), _like("sarama")),
        Library("kafka-python", _JAVA, False, _like(r"kafka-python-\d\S*"), _like("kafka-python")),
        Library("aiokafka", _EAGER, False, _like(r"aiokafka-\d\S*"), _like("aiokafka")),
        Library("kafkajs", frozenset({"RoundRobinAssigner"}), False, _like("kafkajs"), _like("kafkajs")),
        Library("kafka-go", _EAGER - {"sticky"}, False, _like(r".*\(github\.com/segmentio/kafka-go\)")),
    )
}
"""Libraries by name. Clients based on librdkafka have its default client id."""

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


def read_client_libraries(
    specs: GroupSpecs, current_assignors: Sequence[str | None], assumed: Sequence[str | None]
) -> list[str]:
    """Returns the libraries of the members of each group (`count_clients`).

    `assumed` is the library of members whose library can't be detected.
    """
    clients: list[list[Client]] = [[] for _ in range(specs.num_groups)]
    group_id, rows = specs.group_id.to_pylist(), specs.members.row
    ids = zip(specs.facts.column("client_id", rows).to_pylist(), specs.member_id.to_pylist(), strict=True)
    for group, (client_id, member_id) in zip(specs.members.group.tolist(), ids, strict=True):
        client = detect_library(group_id[group], client_id, member_id, current_assignors[group])
        assumed_library = assumed[group]
        clients[group].append(Client(assumed_library, True) if client.library is None and assumed_library else client)
    return [count_clients(each) for each in clients]


def read_clients(text: str | None) -> dict[str, int]:
    """Parses a text of `count_clients` into the number of members by library; empty if nothing is known."""
    pairs = (entry.rstrip("?").rpartition(" ") for entry in (text or "").split(", ") if entry)
    return {name: int(count) for name, _, count in pairs}


STOP_ALL, ROLLING, NOT_THERE, SERVER = "stop all", "two rolling restarts", "not in this library", "server side"


@dataclass(frozen=True)
class AssignorSwitch:
    """How a group switches its assignor: one of the kinds above, and its description."""

    kind: str
    text: str


def plan_switch(now: str | None, to: str, clients: str | None = None) -> AssignorSwitch:
    """Returns how a group can switch from one assignor to another.

    Args:
        now: the current assignor; None: unknown.
        to: the new assignor.
        clients: libraries of the members, as formatted by `count_clients`; None: unknown.
    """
    counted = read_clients(clients)
    known = [name for name in counted if name != UNKNOWN]
    if to in RACK_SERVER_ASSIGNORS:
        return AssignorSwitch(
            NOT_THERE,
            f"Kafka has no {to}, it shows what racks would save: the broker would need a class of yours "
            "(group.consumer.assignors).",
        )
    if to == WEIGHTED_STICKY:
        return AssignorSwitch(
            NOT_THERE,
            f"No client brings {to}: members take its plan as an explicit assignment (docs/weighted.md).",
        )
    if now in SERVER_ASSIGNORS:
        return AssignorSwitch(
            SERVER,
            "The broker assigns (KIP-848) and does not read partition.assignment.strategy: keep that protocol, and "
            "change group.remote.assignor if at all.",
        )
    if to in SERVER_ASSIGNORS and now != STREAMS:
        name = to.removeprefix("server-")
        return AssignorSwitch(
            SERVER,
            f"To the broker's protocol (KIP-848): group.protocol=consumer and group.remote.assignor={name} in every "
            "member, if its client library has that protocol.",
        )
    if now == STREAMS:
        return AssignorSwitch(NOT_THERE, "Kafka Streams brings its own assignor, which cannot be changed: keep it.")
    if lacking := [name for name in known if to not in LIBRARIES[name].assignors]:
        has = "has" if len(lacking) == 1 else "have"
        return AssignorSwitch(NOT_THERE, f"{_listed(lacking)} {has} no {to}: keep what the group runs with.")
    stop = f"Stop all members, then start them with {to} alone"
    if now is None:
        return AssignorSwitch(STOP_ALL, f"{stop}: what the group runs with is not known.")
    if (now == COOPERATIVE) == (to == COOPERATIVE):
        check = "" if _all_known(counted) else f" First make sure that your client library has {to}."
        return AssignorSwitch(
            ROLLING,
            f"Two rolling restarts: first with {to} added behind {now}, then with {to} alone. Both follow one "
            f"protocol, so every client library allows it.{check}",
        )
    if now == COOPERATIVE:
        return AssignorSwitch(STOP_ALL, f"{stop}: from cooperative back to eager no rolling restart is safe.")
    if refusing := [name for name in known if not LIBRARIES[name].mixes]:
        does = "does" if len(refusing) == 1 else "do"
        return AssignorSwitch(
            STOP_ALL,
            f"{stop}. No rolling restart: {_listed(refusing)} {does} not start with {now} and {to} in one list.",
        )
    if _all_known(counted):
        allow = "allows" if len(known) == 1 else "allow"
        return AssignorSwitch(
            ROLLING,
            f"Two rolling restarts: first with {to} added to {now}, then with {to} alone. {_listed(known)} {allow} "
            "that.",
        )
    return AssignorSwitch(
        STOP_ALL,
        f"{stop}: that is safe for every client. Two rolling restarts, the first with {now} and {to} in one list, work "
        "with Java and franz-go only; librdkafka (Python, Go, .NET, Node) doesn't start with such a list.",
    )


def format_known_clients(clients: str | None) -> str:
    """Describes what is known of a group's clients; `clients` is a text of `count_clients`."""
    counted = read_clients(clients)
    if not counted:
        return "The clients are unknown."
    if set(counted) == {UNKNOWN}:
        return "The client IDs don't show which library the members use."
    guess = "; ? is a guess from part of the name" if "?" in (clients or "") else ""
    return f"The clients, by their client IDs: {clients}{guess}."


def _listed(names: list[str]) -> str:
    return " and ".join(names)


def _all_known(counted: Mapping[str, int]) -> bool:
    return bool(counted) and UNKNOWN not in counted
