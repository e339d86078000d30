"""Who can be a static member: which client libraries know `group.instance.id`, and whose name outlives a restart.

A static member (KIP-345, Kafka 2.3) has to have the same `group.instance.id` after a restart, and no other member may
have it. Which libraries let it be set, and do not say LeaveGroup then, and where that is written:

    Java         since 2.3: KIP-345
    librdkafka   since 1.4.0: confluentinc/librdkafka#2525, #2475; confluent-kafka for Python, Go, .NET and JavaScript
                 (confluentinc/confluent-kafka-javascript#319) is built on it
    franz-go     kgo.InstanceID, with its comment on what leaving a group means then
    Sarama       config.Consumer.Group.InstanceId: IBM/sarama#2230, May 2022
    kafka-python group_instance_id: dpkp/kafka-python#2625, May 2025
    aiokafka     group_instance_id of AIOKafkaConsumer
    kafkajs      no: tulios/kafkajs#884 and #1594 are open; groupInstanceId cannot be set
    kafka-go     no: segmentio/kafka-go#493 and #939 are open

Whether a name is the same after a restart, Kubernetes tells by its form. The pods of a StatefulSet are called `name-0`,
`name-1`, …, and keep it. A pod of a Deployment is called after its ReplicaSet and five characters that are drawn anew
each time; a rollout changes the ReplicaSet's hash, too. Both are drawn from 27 letters and digits, without vowels
(`k8s.io/apimachinery/pkg/util/rand`), so that no words come out. A client that takes its host's name for
`group.instance.id` is then another static member after each restart, and the one that it was before is waited for.

What is advised, in words: a sentence with its figures, the settings to paste, and warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_assign.advice.kernel.membership_modes import DYNAMIC, EAGER, MIXED, SERVED, STATIC, MembershipParams
from spark_assign.advice.kernel.membership_options import KEEP, MembershipChoice, MembershipOption
from spark_assign.groups.kernel.client_libraries import COOPERATIVE, LIBRARIES, read_clients

_DRAWN = "[bcdfghjklmnpqrstvwxz2456789]"
_OF_DEPLOYMENT = re.compile(rf"(?<![a-z0-9])[a-z0-9][a-z0-9-]*-{_DRAWN}{{6,10}}-{_DRAWN}{{5}}(?![a-z0-9])")

CANNOT = {"kafkajs": "tulios/kafkajs#884", "kafka-go": "segmentio/kafka-go#493"}
"""Libraries without static membership, and where that is written."""


@dataclass(frozen=True)
class LibrarySettings:
    """How a library is told its settings: the instance id, the session timeout, and the assignor."""

    instance: str
    session: str
    assignor: str
    comment: str = "#"


_PROPERTIES = LibrarySettings("group.instance.id={}", "session.timeout.ms={}", "partition.assignment.strategy={}")
_JAVA = LibrarySettings(
    _PROPERTIES.instance,
    _PROPERTIES.session,
    "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
)
SAYS: Mapping[str, LibrarySettings] = {
    "Java": _JAVA,
    "librdkafka": _PROPERTIES,
    "franz-go": LibrarySettings(
        'kgo.InstanceID("{}")',
        "kgo.SessionTimeout({} * time.Millisecond)",
        "kgo.Balancers(kgo.CooperativeStickyBalancer())",
        "//",
    ),
    "Sarama": LibrarySettings(
        'config.Consumer.Group.InstanceId = "{}"',
        "config.Consumer.Group.Session.Timeout = {} * time.Millisecond",
        "",
        "//",
    ),
    "kafka-python": LibrarySettings("group_instance_id='{}'", "session_timeout_ms={}", ""),
    "aiokafka": LibrarySettings("group_instance_id='{}'", "session_timeout_ms={}", ""),
}
"""By library; those that are not here are told as Java is."""


def says(library: str | None) -> LibrarySettings:
    """How a library is told; null: it is not known which one."""
    return SAYS.get(library or "", _JAVA)


def of_deployment(names: Iterable[str | None]) -> str | None:
    """The first name, in order, that a pod of a Deployment has; null: none looks so."""
    found = (_OF_DEPLOYMENT.search(name) for name in sorted({each for each in names if each}))
    return next((each[0] for each in found if each), None)


_HOW = {EAGER: "eager", "cooperative": "cooperative", SERVED: "assigned by the broker"}


@dataclass(frozen=True)
class ClientFacts:
    """What is known of a group's members.

    Attributes:
        group_id: of the group.
        clients: their libraries, as `clients.count_clients` writes them.
        pod: a name of a pod of a Deployment among theirs; null: none.
        members: how many.
        static: how many of these have an instance id.
    """

    group_id: str
    clients: str
    pod: str | None
    members: int
    static: int

    @property
    def libraries(self) -> list[str]:
        """Those that are known."""
        return [name for name in read_clients(self.clients) if name in LIBRARIES]

    @property
    def cannot(self) -> list[str]:
        """Those without static membership."""
        return [name for name in self.libraries if name in CANNOT]

    def forbidden(self) -> list[str]:
        """What is not to be recommended: `static`, `cooperative`."""
        lacking = [name for name in self.libraries if COOPERATIVE not in LIBRARIES[name].assignors]
        return (["static"] if self.pod or self.cannot else []) + (["cooperative"] if lacking else [])


def sentence(advice: MembershipChoice, params: MembershipParams, known: ClientFacts) -> str:
    """What to do, and what that costs and saves."""
    now, then = advice.now, advice.then
    away = f"A rolling restart of {_count(known.members, 'member')}, each away for {time(params.restart_ms)},"
    if advice.code == KEEP:
        crash = "" if now.crash is None else f", a crash {_seconds(now.crash.partition_ms)}"
        return (
            f"Keep it {_as(now)}: nothing that is open to it saves enough. {away} pauses {_paused(now)} "
            f"(a partition for {time(now.restart.longest_ms)} at most){crash}."
        )
    return (
        f"Make it {_change(now, then)}. {away} then pauses {_paused(then)} in place of "
        f"{_seconds(now.restart.partition_ms)} (a partition for {time(then.restart.longest_ms)} at most, was "
        f"{time(now.restart.longest_ms)}){_crash(now, then)}: it saves "
        f"{_seconds(now.expected_ms - then.expected_ms)} per deploy."
    )


def _change(now: MembershipOption, then: MembershipOption) -> str:
    """What is to be otherwise."""
    changed = [then.way.membership] if then.way.membership != now.way.membership else []
    changed += [then.way.protocol] if not then.way.own else []
    what = " and ".join(changed) or then.way.membership
    if then.session_ms == now.session_ms:
        return what
    return f"{what} with a session of {time(then.session_ms)} in place of {time(now.session_ms)}"


def _crash(now: MembershipOption, then: MembershipOption) -> str:
    if then.crash is None or now.crash is None:
        return ""
    before, after = (_seconds(each.partition_ms) for each in (now.crash, then.crash))
    return f", a crash {after} as now" if before == after else f", a crash {after} in place of {before}"


def settings(advice: MembershipChoice, known: ClientFacts) -> str | None:
    """The settings of every member that change, a line each, as the group's library takes them; null: none does."""
    now, then = advice.now, advice.then
    library = known.libraries[0] if len(known.libraries) == 1 else None
    told, lines = says(library), []
    if then.way.membership != now.way.membership:
        if then.way.membership == STATIC:
            lines += [f"{told.comment} {known.group_id}-0, {known.group_id}-1, …: one for each member, kept for good"]
            lines += [told.instance.format(f"{known.group_id}-0")]
        else:
            lines += [f"{told.comment} remove {told.instance.format('…')}"]
    if then.session_ms != now.session_ms:
        lines += [_broker(known, then)] if then.way.protocol == SERVED else [told.session.format(then.session_ms)]
    if not then.way.own:
        lines += [told.assignor.format(COOPERATIVE) or f"{told.comment} the assignor {COOPERATIVE}"]
    return "\n".join(lines) or None


def warnings(advice: MembershipChoice, params: MembershipParams, known: ClientFacts) -> list[tuple[str, str]]:
    """Codes and sentences, of what may go wrong."""
    return [*_of_names(advice, known), *_of_sessions(advice, params), *_of_libraries(advice, known)]


def _of_names(advice: MembershipChoice, known: ClientFacts) -> list[tuple[str, str]]:
    found = []
    if known.pod is not None:
        why = f"{known.pod} looks like a pod of a Deployment, whose name is another one after each restart."
        if known.static:
            why += " An instance id made of it is another member each time: the old one is waited for."
        else:
            why += " Static needs names that stay: a StatefulSet's (name-0, name-1, …)."
        found.append(("unstable-names", why))
    if advice.now.way.membership == MIXED:
        why = f"{known.static} of {_count(known.members, 'member')} are static, the others dynamic."
        found.append(("mixed", why))
    return found


def _of_sessions(advice: MembershipChoice, params: MembershipParams) -> list[tuple[str, str]]:
    then = advice.then
    if then.way.membership == DYNAMIC or then.session_ms > params.restart_ms:
        return []
    why = f"The session, {time(then.session_ms)}, is over before a member is back: it is missed in every restart."
    return [("short-session", why)]


def _of_libraries(advice: MembershipChoice, known: ClientFacts) -> list[tuple[str, str]]:
    found = []
    if known.cannot:
        where = ", ".join(CANNOT[name] for name in known.cannot)
        found.append(("cannot-be-static", f"{' and '.join(known.cannot)} cannot be static ({where})."))
    elif advice.then.way.membership == STATIC != advice.now.way.membership and "unknown" in known.clients:
        why = "Not all client ids tell which library it is: make sure that each has group.instance.id."
        found.append(("library-unknown", why))
    if advice.forgone is not None:
        saved = _seconds(advice.now.expected_ms - advice.forgone.expected_ms)
        found.append(("forgone", f"{_as(advice.forgone).capitalize()} would save {saved} per deploy, and cannot be."))
    return found


def _as(option: MembershipOption) -> str:
    return f"{option.way.membership}, {_HOW[option.way.protocol]}, with a session of {time(option.session_ms)}"


def _paused(option: MembershipOption) -> str:
    return f"{_seconds(option.restart.partition_ms)} in {_count(option.restart.rebalances, 'rebalance')}"


def _seconds(partition_ms: float) -> str:
    return f"{_number(partition_ms / 1000)} partition-seconds"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:,.1f}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _broker(known: ClientFacts, then: MembershipOption) -> str:
    """The broker sets the session of such a group."""
    to = f"--add-config consumer.session.timeout.ms={then.session_ms}"
    return f"kafka-configs.sh --bootstrap-server … --alter --entity-type groups --entity-name {known.group_id} {to}"


def time(ms: int) -> str:
    """A time in the unit that suits it."""
    if ms % 60_000 == 0 and ms >= 120_000:
        return f"{ms // 60_000} min"
    return f"{ms} ms" if ms < 1000 else f"{_number(ms / 1000)} s"


def codes_and_text(found: Sequence[tuple[str, str]]) -> tuple[str | None, str | None]:
    """Warnings as two texts; null: there is none."""
    return (", ".join(code for code, _ in found) or None, " ".join(text for _, text in found) or None)
