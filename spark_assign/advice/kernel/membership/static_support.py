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
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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
