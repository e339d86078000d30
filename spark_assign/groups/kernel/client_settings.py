"""Writes every recommended setting of a group's members: in the syntax of their library, with the restarts that they
survive.

Principles, in order of priority:
    1. A library never gets a setting that it refuses: an assignor that it doesn't have, a list that it doesn't start
       with, a protocol that it doesn't support.
    2. The members always have an assignor in common. A group can change it by rolling restarts only if at any moment
       all members share one: two restarts of each member, the first with both assignors in its list, the second with
       only the new one. If one of them is eager and the other cooperative (KIP-429), the list of the first restart
       mixes both protocols, which most libraries refuse (`Library.mixes`). Then all members must stop before the first
       one starts with the new assignor. That is safe for every library, and recommended if a library is unknown.
    3. Several libraries in a group get lines each, of which only those of the first one aren't comments.

Example: a group of librdkafka members with range, to cooperative-sticky.
    # Stop all members, then start them with:
    partition.assignment.strategy=cooperative-sticky
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_assign.assignors.server import RACK_SERVER_ASSIGNORS, SERVER_ASSIGNORS
from spark_assign.assignors.weighted import WEIGHTED_STICKY
from spark_assign.groups.kernel.client_libraries import (
    COOPERATIVE,
    LIBRARIES,
    OR,
    STREAMS,
    UNKNOWN,
    Library,
    candidates,
    read_clients,
)
from spark_assign.tables.quoting import in_text, shell_word

ONE, ROLLING, STOP_ALL = "one rolling restart", "two rolling restarts", "stop all"
NOT_THERE, SERVER = "not in this library", "server side"

FIRST_RESTART = "Restart the members one at a time with:"
SECOND_RESTART = "When all members have restarted, restart them one at a time with:"
STOPPED = "Stop all members, then start them with:"
NO_RESTART = "No member restarts:"
"""What precedes the settings of a step, as a comment."""

FORBIDDEN = {
    "partition.assignment.strategy": "group.remote.assignor in the client, one of group.consumer.assignors of the "
    "broker",
    "session.timeout.ms": "group.consumer.session.timeout.ms of the broker (45 s), or consumer.session.timeout.ms of "
    "the group: 45 to 60 s, unless the broker's limits differ",
    "heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms of the broker (5 s), or "
    "consumer.heartbeat.interval.ms of the group: 5 to 15 s, unless the broker's limits differ",
}
"""Client settings that group.protocol=consumer forbids, with their replacements. The Java client and librdkafka don't
start with them."""

UNSEEN_BY_LEADER = ("range", "roundrobin")
"""Assignors of librdkafka with which a leader learns of new partitions only of topics that it subscribes to itself: the
other members rejoin with the same subscription, which the coordinator answers without a rebalance."""

UNSEEN = (
    "A leader of librdkafka doesn't see new partitions of a topic that it doesn't subscribe to: they stay unassigned "
    "until the next rebalance, so restart a member."
)

_INSTANCE_ID = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True)
class AssignorSwitch:
    """How a group switches its assignor.

    Attributes:
        kind: one of the kinds above.
        text: its description.
        assignors: the list of assignors of each restart, by Kafka's names; empty if members can't set it.
        keeps_protocol: whether the members have the broker's protocol (KIP-848) already.
    """

    kind: str
    text: str
    assignors: tuple[tuple[str, ...], ...] = ()
    keeps_protocol: bool = False


def find_refusal(name: str, assignors: Sequence[str]) -> str | None:
    """Returns why a consumer doesn't start with a list of assignors; `None` if it does.

    Args:
        name: its library (`candidates`).
        assignors: the list, by Kafka's names.
    """
    libraries = candidates(name)
    if missing := [each for each in assignors if not any(each in library.assignors for library in libraries)]:
        return f"{name} has no {', '.join(missing)}"
    mixes = all(library.mixes for library in libraries if COOPERATIVE in library.assignors)
    if COOPERATIVE in assignors and len(set(assignors)) > 1 and not mixes:
        return (
            f"{name} doesn't start with eager and cooperative assignors in one list. Stop all members, then start "
            f"them with only {COOPERATIVE}"
        )
    return None


def find_refusals(clients: str | None, assignor: str, *, is_static: bool = False) -> str | None:
    """Returns why the members can't use an assignor: which of their libraries don't have it; `None` if they can.

    Args:
        clients: libraries of the members, as formatted by `count_clients`; None: unknown.
        assignor: the assignor, of the clients or of the broker.
        is_static: whether all members are static.
    """
    if is_static and (dynamic := without_static_members(clients)):
        issues = ", ".join(str(each.no_static) for name in dynamic for each in candidates(name))
        return f"{_listed(dynamic)} can't be static members ({issues})"
    if assignor in SERVER_ASSIGNORS:
        lacking = without_consumer_protocol(clients)
        return f"{_listed(lacking)} can't use the consumer protocol (KIP-848)" if lacking else None
    lacking = [name for name in _known_libraries(clients)[0] if find_refusal(name, (assignor,))]
    return f"{_listed(lacking)} {'has' if len(lacking) == 1 else 'have'} no {assignor}" if lacking else None


def plan_switch(now: str | None, to: str, clients: str | None = None) -> AssignorSwitch:
    """Returns how a group can switch from one assignor to another.

    Args:
        now: the current assignor; None: unknown.
        to: the new assignor.
        clients: libraries of the members, as formatted by `count_clients`; None: unknown.
    """
    known, is_all_known = _known_libraries(clients)
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
            ((to,),) if to in SERVER_ASSIGNORS else (),
            keeps_protocol=True,
        )
    if to in SERVER_ASSIGNORS and now != STREAMS:
        if refusal := find_refusals(clients, to):
            return AssignorSwitch(NOT_THERE, f"{refusal}.")
        name = to.removeprefix("server-")
        return AssignorSwitch(
            SERVER,
            f"To the broker's protocol (KIP-848): group.protocol=consumer and group.remote.assignor={name} in every "
            "member, if its client library has that protocol.",
            ((to,),),
        )
    if now == STREAMS:
        return AssignorSwitch(NOT_THERE, "Kafka Streams brings its own assignor, which cannot be changed: keep it.")
    if refusal := find_refusals(clients, to):
        return AssignorSwitch(NOT_THERE, f"{refusal}: keep what the group runs with.")
    stop, alone = f"Stop all members, then start them with {to} alone", ((to,),)
    own = now and in_text(now)
    if now is None:
        return AssignorSwitch(STOP_ALL, f"{stop}: what the group runs with is not known.", alone)
    if now == to:
        return AssignorSwitch(
            ROLLING,
            f"The group runs with {to} already: nothing is to be done, unless members list other assignors, too "
            f"(partition.assignment.strategy). Then one rolling restart with {to} alone is enough.",
            alone,
        )
    both = ((now, to), (to,))
    if (now == COOPERATIVE) == (to == COOPERATIVE):
        check = "" if is_all_known else f" First make sure that your client library has {to}."
        return AssignorSwitch(
            ROLLING,
            f"Two rolling restarts: first with {to} added behind {own}, then with {to} alone. Both follow one "
            f"protocol, so every client library allows it.{check}",
            both,
        )
    if now == COOPERATIVE:
        return AssignorSwitch(STOP_ALL, f"{stop}: from cooperative back to eager no rolling restart is safe.", alone)
    names = [each.name for name in known for each in candidates(name)]
    releases = [f"{name} {release} or later" for name, release in _COOPERATIVE_SINCE.items() if name in names]
    since = f" That needs {_listed(releases)}." if releases else ""
    if lacking := [name for name in names if to not in LIBRARIES[name].assignors]:  # one of several candidates
        since += f" {_listed(lacking)} {'has' if len(lacking) == 1 else 'have'} no {to}: find out the library first."
    if refusing := [name for name in known if find_refusal(name, (now, to))]:
        does = "does" if len(refusing) == 1 else "do"
        return AssignorSwitch(
            STOP_ALL,
            f"{stop}. No rolling restart: {_listed(refusing)} {does} not start with {own} and {to} in one list.{since}",
            alone,
        )
    if is_all_known:
        allow = "allows" if len(known) == 1 else "allow"
        default = (
            " Members on Java 3.0 or later with the default list have both already: the second restart is enough."
            if known == ["Java"] and now == "range"
            else ""
        )
        return AssignorSwitch(
            ROLLING,
            f"Two rolling restarts: first with {to} added to {own}, then with {to} alone. {_listed(known)} {allow} "
            f"that.{since}{default}",
            both,
        )
    return AssignorSwitch(
        STOP_ALL,
        f"{stop}: that is safe for every client. Two rolling restarts, the first with {own} and {to} in one list, work "
        f"with {MIXING} only; librdkafka (Python, Go, .NET, Node) doesn't start with such a list.",
        alone,
    )


_COOPERATIVE_SINCE = {"librdkafka": "2.6.1", "franz-go": "1.17", "Sarama": "1.61", "kafka-python": "3.0"}
"""First release with which a switch to a cooperative assignor works, of libraries that got it lately, or whose leader
could compute forever before (confluentinc/librdkafka#4783)."""


def without_consumer_protocol(clients: str | None) -> list[str]:
    """Returns the libraries of the members, of `count_clients`, that have no consumer protocol (KIP-848)."""
    names = _known_libraries(clients)[0]
    return [name for name in names if all(each.consumer_protocol is None for each in candidates(name))]


def without_static_members(clients: str | None) -> list[str]:
    """Returns the libraries of the members, of `count_clients`, that have no `group.instance.id`."""
    return [name for name in _known_libraries(clients)[0] if all(each.no_static for each in candidates(name))]


def _known_libraries(clients: str | None) -> tuple[list[str], bool]:
    """Returns the known libraries of the members, and whether all members have one, which isn't one of several."""
    counted = read_clients(clients)
    known = [name for name in counted if name != UNKNOWN]
    return known, bool(counted) and known == list(counted) and not any(OR in name for name in known)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])}, and {names[-1]}"


MIXING = _listed([each.name for each in LIBRARIES.values() if each.mixes])
"""The libraries that start with eager and cooperative assignors in one list."""

# --- settings ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemberChange:
    """What changes in the settings of the members of a group; `None` for what stays.

    Attributes:
        group_id: id of the group.
        clients: libraries of the members, as formatted by `count_clients`; None: unknown.
        switch: the switch of the assignor.
        is_static: whether the members become static, or dynamic.
        session_ms: the session timeout.
        is_server_side: whether the broker assigns the group (KIP-848), and has its session timeout.
    """

    group_id: str
    clients: str | None
    switch: AssignorSwitch | None = None
    is_static: bool | None = None
    session_ms: int | None = None
    is_server_side: bool = False


def member_settings(change: MemberChange) -> list[str]:
    """Returns the steps of a change as lines to paste: comments, and settings in the syntax of the members' library."""
    known, _ = _known_libraries(change.clients)
    libraries = [library for name in known or ["Java", "librdkafka"] for library in candidates(name)]
    lists = change.switch.assignors if change.switch else ((),)
    headings = [FIRST_RESTART, SECOND_RESTART]
    if change.switch and change.switch.kind == STOP_ALL:
        headings = [STOPPED]
    lines: list[str] = []
    mark = libraries[0].templates.comment
    for heading, assignors in zip(headings, lists, strict=False):
        if settings := _of_libraries(libraries, change, assignors):
            lines += [f"{mark} {heading}", *settings]
    if change.session_ms is not None and change.is_server_side:
        command = "kafka-configs.sh --bootstrap-server $BOOTSTRAP_SERVERS --alter --entity-type groups --entity-name "
        command += f"{shell_word(change.group_id)} --add-config consumer.session.timeout.ms={change.session_ms}"
        lines += [command] if lines else [f"# {NO_RESTART}", command]
    return lines


def has_forbidden_settings(library: Library) -> bool:
    """Checks whether a consumer of a library doesn't start with `FORBIDDEN`, which are its own names."""
    return "partition.assignment.strategy" in library.templates.assignors


def assignor_lines(library: Library, assignors: Sequence[str]) -> list[str]:
    """Returns the lines that set the list of assignors of a library, by Kafka's names."""
    if assignors and assignors[0] in SERVER_ASSIGNORS:
        return list(library.templates.protocol.get(assignors[0].removeprefix("server-"), ()))
    names = [library.assignors[each] for each in assignors]
    if not library.templates.package:
        return [library.templates.assignors.format(",".join(names))]
    pairs = [name.rpartition(".") for name in names]
    package = f"{library.templates.package}.coordinator.assignors"
    imports = [f"from {package}.{module} import {name}" for module, _, name in pairs]
    return [*imports, library.templates.assignors.format(", ".join(name for _, _, name in pairs))]


def _of_libraries(libraries: Sequence[Library], change: MemberChange, assignors: Sequence[str]) -> list[str]:
    """Returns the settings of one step: those of the first library, and those of the others as comments."""
    by_library = {
        library.name: list(_settings(library, change, assignors))
        for library in libraries
        if not any(find_refusal(library.name, (each,)) for each in assignors if each not in SERVER_ASSIGNORS)
    }
    if not by_library:
        return []
    (first, lines), *others = by_library.items()
    mark = LIBRARIES[first].templates.comment
    different = [(name, settings) for name, settings in others if settings != lines]
    named = [f"{mark} {first}:"] if different or len(by_library) < len(libraries) else []
    return [*named, *lines, *(f"{mark} {name}: {line}" for name, settings in different for line in settings)]


def _settings(library: Library, change: MemberChange, assignors: Sequence[str]) -> Iterator[str]:
    """Yields the settings of one library: membership, session timeout, assignors."""
    templates = library.templates
    if change.is_static and templates.instance:
        prefix = _INSTANCE_ID.sub("-", change.group_id)[:240]  # Topic.validate: at most 249 characters
        yield f"{templates.comment} {prefix}-0, {prefix}-1, …: a fixed id for each member"
        yield templates.instance.format(templates.quote(f"{prefix}-0"))
    elif change.is_static is False:
        yield f"{templates.comment} remove {templates.instance.format('…')}"
    if change.session_ms is not None and not change.is_server_side:
        yield templates.session.format(change.session_ms)
        if templates.long_session is not None and change.session_ms > templates.long_session[0]:
            yield templates.long_session[1].format(change.session_ms)
    if change.switch is not None and change.switch.keeps_protocol:
        yield from assignor_lines(library, assignors)[-1:]
    elif assignors:
        if assignors[0] in SERVER_ASSIGNORS and has_forbidden_settings(library):
            yield f"{templates.comment} remove {', '.join(FORBIDDEN)}: a client doesn't start with them"
        yield from assignor_lines(library, assignors)


def undo_lines(settings: Sequence[str]) -> list[str]:
    """Returns how a change is undone, as comments; `settings` are the lines of `member_settings`."""
    mark = "//" if settings and settings[0].startswith("//") else "#"
    if any(SECOND_RESTART in line or STOPPED in line for line in settings):
        return [
            f"{mark} Restore the previous assignor by the same steps in the opposite order. From cooperative-sticky "
            "back to another assignor, stop all members first."
        ]
    return [f"{mark} Restore the previous values of the settings above in the same way."]
