"""Verdicts and descriptions of client upgrades, and how each library switches from eager to cooperative (KIP-429).

Verdicts:
    go                the change of rules moves no partition, or the rules are the same
    go-with-warning   the new rules move partitions that the old rules would keep, or the group has to be stopped
    stay              the library has no such assignor
    there             the release of the leader is the requested one already, or a newer one
    unknown           the leader isn't a Java client, or its release is unknown

Two rolling restarts are safe if a consumer can list an eager and a cooperative assignor together, and is eager as long
as it does. In the first restart, all members get both; the vote elects the old one, because it comes first. In the
second restart, the old one is removed; as soon as one member has removed it, the new one is the only assignor that all
members have. With other libraries, the group must be empty for a moment: all members stop before the first one starts
with the new list, or the new members start with another group id and the offsets of the old group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from spark_assign.groups.assignors.release_rules import CLIENT_ASSIGNORS, parse_release_assignor
from spark_assign.groups.kernel.client_libraries import (
    NOT_THERE,
    ROLLING,
    UNKNOWN,
    AssignorSwitch,
    plan_switch,
    read_clients,
)
from spark_assign.migration.kernel.group_membership import (
    COOPERATIVE,
    SETTLE,
    Assignors,
    UpgradeStep,
    rules_of_release,
)

TWO_RESTARTS, STOP_ALL, IMPOSSIBLE = "two rolling restarts", "stop all", "not in this library"


@dataclass(frozen=True)
class CooperativeSwitch:
    """How one library can switch from eager to cooperative rebalancing.

    Attributes:
        library: the library, as in `groups.kernel.client_libraries`.
        safe_method: the safe method: `TWO_RESTARTS`, `STOP_ALL`, or `IMPOSSIBLE`.
        reason: the reason, in a sentence.
        source: the file and function that the reason comes from.
    """

    library: str
    safe_method: str
    reason: str
    source: str


COOPERATIVE_SWITCHES = (
    CooperativeSwitch(
        "Java",
        TWO_RESTARTS,
        "A list that mixes makes the consumer eager until the eager assignor is dropped.",
        "kafka-clients ConsumerCoordinator (constructor), CooperativeStickyAssignor.supportedProtocols",
    ),
    CooperativeSwitch(
        "franz-go",
        TWO_RESTARTS,
        "It may mix, but must not go back: an eager member downgrades the group, and its members read again from what "
        "was committed.",
        "pkg/kgo/group_balancer.go CooperativeStickyBalancer, config.go Balancers",
    ),
    CooperativeSwitch(
        "librdkafka",
        STOP_ALL,
        "A consumer does not start with a list that mixes.",
        "src/rdkafka.c rd_kafka_new, src/rdkafka_assignor.c rd_kafka_assignor_rebalance_protocol_check",
    ),
    CooperativeSwitch(
        "kafka-python",
        STOP_ALL,
        "Since 3.0 it has cooperative-sticky, as cooperative only, and raises KafkaConfigurationError on a list that "
        "mixes.",
        "kafka/coordinator/consumer.py _validate_rebalance_protocol, assignors/cooperative_sticky.py",
    ),
    CooperativeSwitch(
        "Sarama",
        STOP_ALL,
        "Cooperative rebalancing is of September 2026; since then a list that mixes is eager as in Java. Older "
        "releases have no cooperative assignor, so that who does not know the release stops all.",
        "balance_strategy_cooperative_sticky.go SupportedProtocols, selectRebalanceProtocol (IBM/sarama#3696)",
    ),
    CooperativeSwitch(
        "aiokafka",
        IMPOSSIBLE,
        "It has range, roundrobin and sticky.",
        "aiokafka/coordinator/assignors (aio-libs/aiokafka#1126)",
    ),
    CooperativeSwitch(
        "kafkajs",
        IMPOSSIBLE,
        "It has RoundRobinAssigner alone.",
        "src/consumer/assigners (tulios/kafkajs#1156)",
    ),
    CooperativeSwitch(
        "kafka-go",
        IMPOSSIBLE,
        "It has range and roundrobin.",
        "groupbalancer.go (segmentio/kafka-go#985)",
    ),
)
"""One entry per library."""

SWITCH_BY_LIBRARY = {switch.library: switch for switch in COOPERATIVE_SWITCHES}

GO, WARN, STAY, DONE, NOT_KNOWN = "go", "go-with-warning", "stay", "there", "unknown"

_NEWEST_RELEASE = re.compile(r"(?:<=|.*-)?(\d+\.\d+(?:\.\d+)?)", re.ASCII)


@dataclass(frozen=True)
class UpgradeCandidate:
    """One classic group.

    Attributes:
        assignor: its assignor; `None` if unknown.
        library, releases: library and releases of its leader (`groups.leader_library` and `leader_version`).
        clients: the libraries of its members, in the format of `groups.kernel.client_libraries.count_clients`.
        to: the release of its members afterward.
        to_assignor: the assignor of its members afterward; `None` if it stays the same.
    """

    assignor: str | None
    library: str | None
    releases: str | None
    clients: str
    to: str
    to_assignor: str | None

    @property
    def release(self) -> str | None:
        """The release of its members now: the newest one of a range; `None` if unknown."""
        match = _NEWEST_RELEASE.fullmatch(self.releases or "")
        if match is None or parse_release_assignor(f"{CLIENT_ASSIGNORS[0]}@{match[1]}") is None:
            return None
        return match[1]

    @property
    def switch(self) -> AssignorSwitch | None:
        """How its members switch to another assignor; `None` if they don't."""
        if self.to_assignor is None or self.to_assignor == self.assignor:
            return None
        return plan_switch(self.assignor, self.to_assignor, self.clients)

    @property
    def is_rolling(self) -> bool:
        """Whether its members restart one at a time."""
        return self.switch is None or self.switch.kind == ROLLING

    @property
    def has_same_rules(self) -> bool:
        """Whether its assignor decides the same in both releases."""
        current, new = rules_of_release(str(self.release)), rules_of_release(self.to)
        if self.assignor == "roundrobin":
            return True
        return current.uses_racks == new.uses_racks if self.assignor == "range" else current == new

    @property
    def assignor_lists(self) -> tuple[Assignors, ...]:
        """The list of assignors of the members after each rolling restart."""
        current = str(self.assignor)
        if self.to_assignor is None or self.to_assignor == current:
            return ((current,),)
        return (current, self.to_assignor), (self.to_assignor,)

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do: the release is the same or newer, and the assignor stays."""
        assert self.release is not None
        return self.switch is None and _parse_version(self.release) >= _parse_version(self.to)


def explain_unknown(candidate: UpgradeCandidate) -> str | None:
    """Returns the reason why a group can't be analyzed; `None` if it can."""
    if candidate.assignor not in CLIENT_ASSIGNORS:
        runs = "What it runs with is not known" if candidate.assignor is None else f"It runs with {candidate.assignor}"
        return f"{runs}: only {', '.join(CLIENT_ASSIGNORS)} are known by release."
    if candidate.library is None:
        return "Who leads it is not known; say so: --leader-client 'GROUP=Java@2.8'."
    if candidate.library != "Java":
        text = f"Its leader runs {candidate.library}, whose releases are not those of Java's clients."
        switch = SWITCH_BY_LIBRARY.get(candidate.library)
        if candidate.to_assignor != COOPERATIVE or candidate.assignor == COOPERATIVE or switch is None:
            return text
        return f"{text} To {COOPERATIVE}: {switch.safe_method}. {switch.reason}"
    if candidate.release is None:
        client = f"Java {candidate.releases}" if candidate.releases else "Java"
        return f"Its leader's release is not known ({client}); say so: --leader-client 'GROUP=Java@2.8'."
    return None


def judge(candidate: UpgradeCandidate, moved_by_rule_change: int | None, is_complete: bool) -> tuple[str, str]:
    """Returns the verdict and the note of a group that can be analyzed.

    Args:
        candidate: the group.
        moved_by_rule_change: partitions that move because of the change of rules; `None` if not simulated.
        is_complete: whether all restarts were simulated.
    """
    notes = []
    if candidate.releases != candidate.release:
        notes.append(f"Its release is one of {candidate.releases}: taken as {candidate.release}.")
    if candidate.switch is not None:
        notes.append(candidate.switch.text)
    other_libraries = [name for name in read_clients(candidate.clients) if name not in (UNKNOWN, "Java")]
    if other_libraries:
        notes.append(f"Members on {' and '.join(other_libraries)} are played as Java's.")
    if candidate.switch is not None and candidate.switch.kind == NOT_THERE:
        return STAY, " ".join(notes)
    verdict = WARN if other_libraries or not candidate.is_rolling else GO
    if candidate.is_done:
        return DONE, " ".join([*notes, f"Its leader is of {candidate.release} already."])
    if candidate.has_same_rules:
        notes.append(f"{candidate.assignor} of {candidate.to} decides as that of {candidate.release}.")
    elif moved_by_rule_change:
        verdict = WARN
        notes.append(
            f"{moved_by_rule_change:,} of the moves would not be, had the rules stayed those of {candidate.release}."
        )
    elif moved_by_rule_change == 0 and is_complete:
        notes.append(f"The rules of {candidate.to} differ, and move nothing here.")
    if not is_complete and candidate.is_rolling:
        notes.append("Not all restarts were played.")
    return verdict, " ".join(notes)


def _parse_version(release: str) -> tuple[int, ...]:
    """Returns the version as three numbers; a missing third one counts as the latest."""
    numbers = [int(number) for number in release.split(".")]
    return tuple([*numbers, 1_000_000][:3])


# --- descriptions -------------------------------------------------------------------------------------------------


def describe_step(candidate: UpgradeCandidate, step: UpgradeStep) -> str:
    """Describes one restart, or the rebalance after all restarts."""
    if step.step_type == SETTLE:
        return "At the next rebalance, whatever it is for, the leader decides by its new rules."
    assignors = ",".join(candidate.assignor_lists[step.bounce - 1])
    setting = f" and partition.assignment.strategy={assignors}" if candidate.switch is not None else ""
    return f"Restart it with {candidate.to}{setting}."


def describe_stop_all() -> str:
    """Describes how the group becomes empty."""
    return (
        "Stop all members: the group has to be empty. (Or start the new ones under another group id, with its offsets.)"
    )


def describe_start_all(candidate: UpgradeCandidate) -> str:
    """Describes how the members start again."""
    assignor = candidate.assignor_lists[-1][0]
    return f"Start all members with {candidate.to} and partition.assignment.strategy={assignor}."
