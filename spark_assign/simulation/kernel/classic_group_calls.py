"""Runs recorded calls of `ClassicGroup`, as JSON, and returns their results as JSON.

A step names the call in `op`, with its arguments beside it: `{"op": "remove", "id": "m1"}`. The result has what the
call returns (`returned`), or the error that Kafka throws (`error`, with `class` and `message`), and the state of the
group after the step. `members` are in Java's order; everything else is sorted as Java sorts strings.

A step that can't be read changes nothing. Its result is `{"error": "reason"}`: a text, where Kafka's errors are
objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from spark_assign.java.hash_map import java_key
from spark_assign.simulation.kernel.classic_group import ClassicGroup
from spark_assign.simulation.kernel.classic_group_member import ClassicGroupMember, IllegalArgument, IllegalState, State

_LARGEST_INT = (1 << 31) - 1
_PACKAGE = "org.apache.kafka.coordinator.group.classic"

Result = dict[str, Any]
Step = tuple[str, str, int, str | None]
"""cluster, group_id, step, op."""


class UnreadableStep(Exception):
    """The step can't be read. The message states the reason."""


class NullPointer(Exception):
    """Kafka throws `NullPointerException` with this message, because the step names an unknown member."""


_THROWN: dict[type[Exception], str] = {
    IllegalState: "IllegalStateException",
    IllegalArgument: "IllegalArgumentException",
    NullPointer: "NullPointerException",
}


def run_calls(steps: Iterable[Step], name: str | None) -> Iterator[tuple[str, str, int, str]]:
    """Runs the steps of many groups, each of which starts empty.

    Args:
        steps: the steps of a group together, by number.
        name: the group ID in errors. None: that of the group.

    Yields:
        cluster, group_id, step, and result (JSON), in the same order. Steps with the same number aren't run, because
        their order is unknown.
    """
    for (cluster, group_id), group_steps in groupby(steps, key=lambda row: row[:2]):
        group = ClassicGroup(group_id if name is None else name)
        for number, rows in groupby(group_steps, key=lambda row: row[2]):
            ops = [op for *_, op in rows]
            for op in ops:
                is_unique, repeated = len(ops) == 1, f"step {number} occurs {len(ops)} times, expected once"
                yield cluster, group_id, number, run_call(group, op) if is_unique else json.dumps({"error": repeated})


def run_call(group: ClassicGroup, text: str | None) -> str:
    """Runs one step, a JSON object, which changes the group. Returns its result as JSON."""
    try:
        call, arguments = read_call(text)
    except UnreadableStep as error:
        return json.dumps({"error": str(error)})
    except RecursionError:
        return json.dumps({"error": "op is nested too deeply"})
    return json.dumps(_outcome(group, call, arguments) | _state(group))


def _outcome(group: ClassicGroup, call: Callable[..., object], arguments: dict[str, Any]) -> Result:
    try:
        return {"returned": call(group, **arguments)}
    except tuple(_THROWN) as thrown:
        return {"error": {"class": _THROWN[type(thrown)], "message": str(thrown)}}


def _state(group: ClassicGroup) -> Result:
    """Returns the state of the group in the form of the recorded steps."""
    members = group.all_members()
    topics = group.subscribed_topics
    return {
        "state": group.state.name,
        "generation": group.generation_id,
        "leader": group.leader_id,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "members": [member.member_id for member in members],
        "static_members": {name: group.static_members[name] for name in _sorted(group.static_members)},
        "pending_join": _sorted(group.pending_join_members),
        "pending_sync": _sorted(group.pending_sync_members),
        "awaiting_join": _sorted(member.member_id for member in members if member.awaiting_join),
        "awaiting_sync": _sorted(member.member_id for member in members if member.awaiting_sync),
        "num_awaiting_join": group.num_members_awaiting_join_response,
        "all_members_joined": group.has_all_members_joined(),
        "supported_protocols": {name: group.supported_protocols[name] for name in _sorted(group.supported_protocols)},
        "subscribed_topics": None if topics is None else _sorted(topics),
        "rebalance_timeout_ms": group.rebalance_timeout_ms(),
    }


def _sorted(texts: Iterable[str]) -> list[str]:
    """Sorts as `String.compareTo`, by UTF-16 code units."""
    return sorted(texts, key=java_key)


# --- reading a step -----------------------------------------------------------------------------------------


def read_call(text: str | None) -> tuple[Callable[..., object], dict[str, Any]]:
    """Returns the call and its arguments.

    Raises:
        UnreadableStep: the text isn't JSON, the call is unknown, or an argument is missing or has a wrong type.
    """
    if text is None:
        raise UnreadableStep("op is null, expected a JSON object")
    try:
        op = json.loads(text)
    except ValueError as error:
        raise UnreadableStep(f"op isn't JSON: {error}") from error
    if not isinstance(op, dict):
        raise UnreadableStep(f"op is {_shown(op)}, expected a JSON object")
    name = op.get("op")
    if not isinstance(name, str) or name not in _CALLS:
        raise UnreadableStep(f"op {_shown(name)} is unknown, expected one of {', '.join(_CALLS)}")
    call, arguments = _CALLS[name]
    return call, {argument: _argument(op, name, argument, kind) for argument, kind in arguments.items()}


Kind = tuple[str, Callable[[Any], bool]]
"""Text of the expected type of an argument, and its check."""


def _argument(op: dict[str, Any], name: str, argument: str, kind: Kind) -> Any:
    expected, fits = kind
    if argument not in op and kind is not _TEXT_OR_NULL:
        raise UnreadableStep(f"{name} has no {argument}, expected {expected}")
    value = op.get(argument)
    if not fits(value):
        raise UnreadableStep(f"{argument} of {name} is {_shown(value)}, expected {expected}")
    return value


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_milliseconds(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST_INT


_TEXT: Kind = ("a string", _is_text)
_TEXT_OR_NULL: Kind = ("a string or null", lambda value: value is None or _is_text(value))
_TEXTS: Kind = ("a list of strings", lambda value: isinstance(value, list) and all(map(_is_text, value)))
_YES_NO: Kind = ("true or false", lambda value: isinstance(value, bool))
_MILLISECONDS: Kind = ("a whole number of milliseconds", _is_milliseconds)
_STATE: Kind = (f"one of {', '.join(State.__members__)}", lambda value: _is_text(value) and value in State.__members__)


# --- the calls ----------------------------------------------------------------------------------------------


def _add(group: ClassicGroup, id: str, instance: str | None, awaiting_join: bool, **joined: Any) -> None:
    protocols, topics = tuple(joined.pop("protocols")), tuple(joined.pop("topics"))
    member = ClassicGroupMember(id, group_instance_id=instance, protocols=protocols, topics=topics, **joined)
    group.add(member, awaiting_join=awaiting_join)


def _update(group: ClassicGroup, id: str, **joined: Any) -> None:
    group.update(_member(group, id, "supportedProtocols"), **joined)


def _replace_static(group: ClassicGroup, instance: str, old: str, new: str) -> None:
    group.replace_static_member(instance, old, new)


def _await_sync(group: ClassicGroup, id: str) -> None:
    """Makes the member wait, and then removes it from the pending members, as the coordinator does."""
    if id not in group.members:
        raise NullPointer(
            f'Cannot invoke "{_PACKAGE}.ClassicGroupMember.setAwaitingSyncFuture'
            '(java.util.concurrent.CompletableFuture)"'
            f' because the return value of "{_PACKAGE}.ClassicGroup.member(String)" is null'
        )
    group.members[id].awaiting_sync = True
    group.remove_pending_sync_member(id)


def _member(group: ClassicGroup, id: str, method: str) -> ClassicGroupMember:
    """Returns a member, on which Kafka calls this method first."""
    if id not in group.members:
        raise NullPointer(f'Cannot invoke "{_PACKAGE}.ClassicGroupMember.{method}()" because "member" is null')
    return group.members[id]


_ID = {"id": _TEXT}
_JOINED = {"protocols": _TEXTS, "topics": _TEXTS, "rebalance_timeout_ms": _MILLISECONDS, "awaiting_join": _YES_NO}
_CALLS: dict[str, tuple[Callable[..., object], dict[str, Kind]]] = {
    "add": (_add, {**_ID, "instance": _TEXT_OR_NULL, "protocol_type": _TEXT, **_JOINED}),
    "update": (_update, _ID | _JOINED),
    "remove": (lambda group, id: group.remove(id), _ID),
    "replace_static": (_replace_static, {"instance": _TEXT, "old": _TEXT, "new": _TEXT}),
    "transition": (lambda group, to: group.transition_to(State[to]), {"to": _STATE}),
    "init_next_generation": (lambda group: group.init_next_generation(), {}),
    "maybe_elect_new_joined_leader": (lambda group: group.maybe_elect_new_joined_leader(), {}),
    "select_protocol": (lambda group: group.select_protocol(), {}),
    "supports_protocols": (ClassicGroup.supports_protocols, {"protocol_type": _TEXT, "protocols": _TEXTS}),
    "complete_join": (lambda group, id: group.complete_join(_member(group, id, "isAwaitingJoin")), _ID),
    "await_sync": (_await_sync, _ID),
    "complete_sync": (lambda group, id: group.complete_sync(_member(group, id, "isAwaitingSync")), _ID),
    "add_pending_join": (lambda group, id: group.add_pending_member(id), _ID),
    "add_pending_sync": (lambda group, id: group.add_pending_sync_member(id), _ID),
}
