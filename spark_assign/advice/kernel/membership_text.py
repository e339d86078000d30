"""Writes membership advice as text (a sentence with figures, settings to paste, warnings), and checks which groups can
be static.

A static member (KIP-345, Kafka 2.3) must keep its `group.instance.id` across restarts, and no other member may have it.
For the libraries that can set it, see `groups.kernel.client_libraries`.

The form of a Kubernetes pod name shows whether it survives a restart. Pods of a StatefulSet are named `name-0`,
`name-1`, …, and keep their names. The name of a Deployment's pod is that of its ReplicaSet plus five random characters;
a rollout also changes the ReplicaSet's hash. Both use 27 letters and digits without vowels
(`k8s.io/apimachinery/pkg/util/rand`), so that they don't form words. A client that uses its host name as
`group.instance.id` is then a new static member after each restart, and the group waits for the old one until its
session expires.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spark_assign.advice.kernel.membership_modes import CONSUMER, DYNAMIC, EAGER, MIXED, STATIC, MembershipParams
from spark_assign.advice.kernel.membership_options import KEEP, MembershipChoice, MembershipOption, changed_modes
from spark_assign.groups.kernel.client_libraries import COOPERATIVE, UNKNOWN, candidates, read_clients
from spark_assign.groups.kernel.client_settings import (
    MemberChange,
    find_refusal,
    member_settings,
    plan_switch,
    without_static_members,
)

_RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"
_DEPLOYMENT_POD = re.compile(
    rf"(?<![a-z0-9-])-*+([a-z0-9][a-z0-9-]*-{_RANDOM}{{6,10}}-{_RANDOM}{{5}})(?![a-z0-9])"  # starts once per name
)


def find_deployment_pod(names: Iterable[str | None]) -> str | None:
    """Returns the first name, in order, that looks like a pod of a Deployment; `None` if there is none."""
    matches = (_DEPLOYMENT_POD.search(name) for name in sorted({name for name in names if name}))
    return next((match[1] for match in matches if match), None)


_PROTOCOLS = {EAGER: "eager", "cooperative": "cooperative", CONSUMER: "assigned by the broker"}


@dataclass(frozen=True)
class ClientFacts:
    """Facts about the members of a group.

    Attributes:
        group_id: the group.
        clients: client libraries, in the format of `client_libraries.count_clients`.
        pod: a name that looks like a pod of a Deployment; `None` if there is none.
        members: number of members.
        static: number of members with an instance id.
    """

    group_id: str
    clients: str
    pod: str | None
    members: int
    static: int

    @property
    def libraries(self) -> list[str]:
        """The libraries that are known."""
        return [name for name in read_clients(self.clients) if name != UNKNOWN]

    @property
    def not_static(self) -> list[str]:
        """The libraries without static membership."""
        return without_static_members(self.clients)

    def forbidden(self) -> list[str]:
        """Returns what must not be recommended: `static`, `cooperative`."""
        lacking = any(find_refusal(name, (COOPERATIVE,)) for name in self.libraries)
        return (["static"] if self.pod or self.not_static else []) + (["cooperative"] if lacking else [])


def summary(choice: MembershipChoice, params: MembershipParams, clients: ClientFacts) -> str:
    """Returns the recommendation with its cost and savings, as sentences."""
    current, new = choice.current, choice.recommended
    restart = f"A rolling restart of {_count(clients.members, 'member')}, each away for {time(params.restart_time_ms)},"
    rebalances = f"in {_count(new.restart.rebalances, 'rebalance')}"
    if choice.code == KEEP:
        crash = "" if current.crash is None else f", and a crash {_seconds(current.crash.partition_ms)}"
        return (
            f"Keep the group {_option_text(current)}: no change saves enough. {restart} pauses "
            f"{_seconds(new.restart.partition_ms)} {rebalances} (at most {time(new.restart.longest_ms)} per partition)"
            f"{crash}."
        )
    return (
        f"Change to {_change_text(current, new)}. {restart} then pauses {_seconds(new.restart.partition_ms)} "
        f"{rebalances} instead of {_seconds(current.restart.partition_ms)} (at most {time(new.restart.longest_ms)} per "
        f"partition instead of {time(current.restart.longest_ms)}){_crash_text(current, new)}. The change saves "
        f"{_seconds(current.expected_ms - new.expected_ms)} per deploy."
    )


def _change_text(current: MembershipOption, new: MembershipOption) -> str:
    """Returns what changes, as text."""
    text = " and ".join(changed_modes(current, new)) or new.mode.membership
    if new.session_ms == current.session_ms:
        return text
    return f"{text} with a session timeout of {time(new.session_ms)} instead of {time(current.session_ms)}"


def _crash_text(current: MembershipOption, new: MembershipOption) -> str:
    if new.crash is None or current.crash is None:
        return ""
    before, after = _seconds(current.crash.partition_ms), _seconds(new.crash.partition_ms)
    return f", and a crash {after}" + (" as before" if before == after else f" instead of {before}")


def settings(choice: MembershipChoice, clients: ClientFacts, assignor: str | None) -> str | None:
    """Returns the steps of the recommended change as lines to paste (`member_settings`); `None` if nothing changes.

    Args:
        choice: the recommendation.
        clients: facts about the members.
        assignor: the current assignor; `None`: unknown.
    """
    current, new = choice.current, choice.recommended
    change = MemberChange(
        clients.group_id,
        clients.clients,
        None if new.mode.own else plan_switch(assignor, COOPERATIVE, clients.clients),
        None if new.mode.membership == current.mode.membership else new.mode.membership == STATIC,
        None if new.session_ms == current.session_ms else new.session_ms,
        new.mode.protocol == CONSUMER,
    )
    return "\n".join(member_settings(change)) or None


def warnings(choice: MembershipChoice, params: MembershipParams, clients: ClientFacts) -> Iterator[tuple[str, str]]:
    """Yields code and text of each risk."""
    if clients.pod is not None:
        text = f"{clients.pod} looks like a pod of a Deployment, whose name changes with each restart."
        if clients.static:
            text += " If the instance id contains it, each restart adds a member, and the old one expires late."
        else:
            text += " Static membership needs fixed names, such as those of a StatefulSet (name-0, name-1, …)."
        yield "unstable-names", text
    if choice.current.mode.membership == MIXED:
        text = f"{clients.static} of {_count(clients.members, 'member')} are static, and the other members are dynamic."
        yield "mixed", text
    new = choice.recommended
    if new.mode.membership != DYNAMIC and new.session_ms <= params.restart_time_ms:
        session = f"The session timeout, {time(new.session_ms)}, is shorter than a restart"
        yield "short-session", f"{session}, so each restart removes the member."
    yield from _risks_of_libraries(choice, clients)


def _risks_of_libraries(choice: MembershipChoice, clients: ClientFacts) -> Iterator[tuple[str, str]]:
    """Yields the risks that come from the client libraries, as codes and texts."""
    if clients.not_static:
        issues = ", ".join(str(each.no_static) for name in clients.not_static for each in candidates(name))
        yield "cannot-be-static", f"{' and '.join(clients.not_static)} doesn't support static membership ({issues})."
    elif (
        choice.recommended.mode.membership == STATIC != choice.current.mode.membership and "unknown" in clients.clients
    ):
        text = "Some client ids don't reveal the library. Check that each library supports group.instance.id."
        yield "library-unknown", text
    if choice.unrestricted is not None:
        saved = _seconds(choice.current.expected_ms - choice.unrestricted.expected_ms)
        text = f"{_option_text(choice.unrestricted).capitalize()} would save {saved} per deploy, but isn't possible."
        yield "forgone", text


def _option_text(option: MembershipOption) -> str:
    mode = f"{option.mode.membership}, {_PROTOCOLS[option.mode.protocol]}"
    return f"{mode}, with a session timeout of {time(option.session_ms)}"


def _seconds(partition_ms: float) -> str:
    return f"{_number(partition_ms / 1000)} partition-seconds"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:,.1f}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def time(ms: int) -> str:
    """Returns a duration as text in a suitable unit."""
    if ms % 60_000 == 0 and ms >= 120_000:
        return f"{ms // 60_000} min"
    return f"{ms} ms" if ms < 1000 else f"{_number(ms / 1000)} s"
