"""Which client library a consumer runs on, and how its group may switch to another assignor.

The rule: a group may change its assignor by rolling restarts only if in every moment all members share one. That takes
two restarts of each member: the first with the old and the new assignor in its list, the second with the new one alone.
Where one of the two is eager and the other cooperative (KIP-429), the list of the first restart mixes both protocols,
and most libraries refuse that: the consumer does not start. Then all members have to stop before the first one starts
with the new assignor. That is safe for every library, so it is what is said where a library is not known.

Who may mix, and where that is written:
    Java        yes, since 2.4: KIP-429, and the upgrade notes of Kafka 2.4 ("two rolling bounces")
    franz-go    yes: the comment of kgo.CooperativeStickyBalancer ("two rolling bounce deploys")
    librdkafka  no: "All partition.assignment.strategy assignors must have the same protocol type, online migration
                between assignors with different protocol types is not supported"; confluentinc/librdkafka#3589, #4368,
                confluentinc/confluent-kafka-go#605. Under confluent-kafka (Python, Go, .NET, JavaScript), node-rdkafka,
                rdkafka for Rust and Ruby
    kafka-python  no: since 3.0 it has cooperative-sticky (dpkp/kafka-python#2143) and raises on a list that mixes
    Sarama      not known: cooperative rebalancing came with IBM/sarama#3696 (2026); before it there was none (#1858)
    aiokafka, kafkajs, segmentio's kafka-go  have no cooperative assignor: aio-libs/aiokafka#1126, tulios/kafkajs#1156,
                segmentio/kafka-go#985

Who speaks the broker's protocol (KIP-848, group.protocol=consumer), and where that is written:
    Java        since 4.0: Kafka's operations page "Consumer Rebalance Protocol"
    librdkafka  since 2.12.0, its release notes ("production-ready"); confluent-kafka 2.12 for Python, Go and .NET is
                built on it, as is confluent-kafka-javascript 1.6
    franz-go    by kgo.ServerSideBalancer: twmb/franz-go#1460, merged in September 2026
    kafka-python  not yet: dpkp/kafka-python#3000. Sarama describes such groups (IBM/sarama#3748), no more. Of aiokafka,
                kafkajs and segmentio's kafka-go nothing is known that says so

How surely: the broker is told no library's name, only `client.id`, which anybody may set. A library's default name is
strong evidence, and a name that merely holds the library's is weaker. `RoundRobinAssigner` (kafkajs) and `stream`
(Kafka Streams, Java) are assignors that only one library has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_assign.groups.assignors.server import RACK_SERVER_ASSIGNORS, SERVER_ASSIGNORS
from spark_assign.groups.assignors.weighted import WEIGHTED_STICKY

COOPERATIVE = "cooperative-sticky"

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Library:
    """What a client library can do.

    Attributes:
        name: as it is shown.
        assignors: those that it brings.
        mixes: whether a consumer may list eager and cooperative assignors together.
        default: a pattern for all of its default `client.id`; `<group>` stands for the group's id.
        names: a pattern for what a client id holds that somebody named after the library.
        consumer_protocol: from which release on it speaks the broker's protocol (KIP-848); null: it does not.
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
"""By name. What is built on librdkafka has its default client id."""

STREAMS = "stream"
_OF_ASSIGNOR = {"RoundRobinAssigner": "kafkajs", STREAMS: "Java"}
_UUID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)


@dataclass(frozen=True)
class Client:
    """A member's library (null: not known), and whether that is more than a guess from a name somebody chose."""

    library: str | None
    is_certain: bool = False


def detect_library(group_id: str, client_id: str | None, member_id: str, assignor: str | None = None) -> Client:
    """The library that a member of a group runs on.

    Args:
        group_id: of its group, which is part of Java's default client id.
        client_id: what it calls itself; null: not known. A dynamic member's id begins with it, too.
        member_id: of the member.
        assignor: what the group runs with, if that is known.
    """
    if assignor in _OF_ASSIGNOR:
        return Client(_OF_ASSIGNOR[assignor], True)
    name = client_id or _UUID.sub("", member_id)
    of_group = name.replace(group_id, "<group>") if group_id else name
    for each in LIBRARIES.values():
        if each.default.fullmatch(name) or each.default.fullmatch(of_group):
            return Client(each.name, True)
    for each in LIBRARIES.values():
        if each.names is not None and each.names.search(name):
            return Client(each.name, False)
    return Client(None)


def count_clients(clients: Iterable[Client]) -> str:
    """The libraries of a group in words: `librdkafka 3, Java 1?, unknown 2`; `?` where a guess is among them."""
    counted: Counter[str] = Counter()
    guessed = set()
    for each in clients:
        counted[each.library or UNKNOWN] += 1
        if each.library and not each.is_certain:
            guessed.add(each.library)
    ordered = sorted(counted.items(), key=lambda one: (one[0] == UNKNOWN, -one[1], one[0]))
    return ", ".join(f"{name} {many}{'?' if name in guessed else ''}" for name, many in ordered)


def read_clients(words: str | None) -> dict[str, int]:
    """How many members of each library, from what `count_clients` wrote; empty where nothing is known."""
    pairs = (part.rstrip("?").rpartition(" ") for part in (words or "").split(", ") if part)
    return {name: int(many) for name, _, many in pairs}


STOP_ALL, ROLLING, NOT_THERE, SERVER = "stop all", "two rolling restarts", "not in this library", "server side"


@dataclass(frozen=True)
class AssignorSwitch:
    """How a group switches: one of the ways above, and the sentences that say so."""

    kind: str
    text: str


def plan_switch(now: str | None, to: str, clients: str | None = None) -> AssignorSwitch:
    """How a group may switch from one assignor to another.

    Args:
        now: what it runs with; null: not known.
        to: what it should run with.
        clients: its members' libraries, as `count_clients` writes them; null: not known.
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
        return AssignorSwitch(NOT_THERE, f"{_listed(lacking)} {_has(lacking)} no {to}: keep what the group runs with.")
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
        "with Java and franz-go only; librdkafka (Python, Go, .NET, Node) does not start with such a list.",
    )


def format_known_clients(clients: str | None) -> str:
    """What is known of a group's clients, in a sentence; `clients` as `count_clients` writes them."""
    counted = read_clients(clients)
    if not counted:
        return "Its clients are not known."
    if set(counted) == {UNKNOWN}:
        return "The client ids do not tell which library its members run on."
    guess = "; ? is a guess from part of the name" if "?" in (clients or "") else ""
    return f"Its clients, by their client ids: {clients}{guess}."


def _listed(names: list[str]) -> str:
    return " and ".join(names)


def _all_known(counted: Mapping[str, int]) -> bool:
    return bool(counted) and UNKNOWN not in counted


def _has(names: list[str]) -> str:
    return "has" if len(names) == 1 else "have"
