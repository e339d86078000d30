"""Runs recorded calls of Kafka's `ClassicGroup` on the group of the simulation.

A step names the call in `op`, with its arguments beside it: `{"op": "remove", "id": "m1"}`. The result has what the
call returns (`returned`), or the error that Kafka throws (`error`, with `class` and `message`), and the state of the
group after the step. `members` are in Java's order; everything else is sorted as Java sorts strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from spark_assign.java.hash_map import java_key
from spark_assign.simulation.kernel.classic_group import ClassicGroup
from spark_assign.simulation.kernel.classic_group_member import ClassicGroupMember, IllegalArgument, IllegalState, State

RECORDED_GROUP_ID = "group-1"
"""The group ID in recorded sequences. Steps lack it, but a few of Kafka's errors contain it."""

_PACKAGE = "org.apache.kafka.coordinator.group.classic"

Result = dict[str, Any]


class NullPointer(Exception):
    """Kafka throws `NullPointerException` with this message, because the step names an unknown member."""


_THROWN: dict[type[Exception], str] = {
    IllegalState: "IllegalStateException",
    IllegalArgument: "IllegalArgumentException",
    NullPointer: "NullPointerException",
}


def run_calls(rows: Iterable[Result]) -> Iterator[Result]:
    """The result of each step (sequence, op), in order; each sequence has a group that starts empty."""
    for _, steps in groupby(rows, key=lambda row: row["sequence"]):
        group = ClassicGroup(RECORDED_GROUP_ID)
        yield from (run_call(group, **row["op"]) for row in steps)


def run_call(group: ClassicGroup, op: str, **arguments: Any) -> Result:
    """Runs one step, which changes the group, and returns its result."""
    try:
        outcome: Result = {"returned": _CALLS[op](group, **arguments)}
    except tuple(_THROWN) as thrown:
        outcome = {"error": {"class": _THROWN[type(thrown)], "message": str(thrown)}}
    return outcome | _state(group)


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


def _add(group: ClassicGroup, id: str, awaiting_join: bool, instance: str | None = None, **joined: Any) -> None:
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


_CALLS: dict[str, Callable[..., object]] = {
    "add": _add,
    "update": _update,
    "remove": lambda group, id: group.remove(id),
    "replace_static": _replace_static,
    "transition": lambda group, to: group.transition_to(State[to]),
    "init_next_generation": lambda group: group.init_next_generation(),
    "maybe_elect_new_joined_leader": lambda group: group.maybe_elect_new_joined_leader(),
    "select_protocol": lambda group: group.select_protocol(),
    "supports_protocols": ClassicGroup.supports_protocols,
    "complete_join": lambda group, id: group.complete_join(_member(group, id, "isAwaitingJoin")),
    "await_sync": _await_sync,
    "complete_sync": lambda group, id: group.complete_sync(_member(group, id, "isAwaitingSync")),
    "add_pending_join": lambda group, id: group.add_pending_member(id),
    "add_pending_sync": lambda group, id: group.add_pending_sync_member(id),
}
