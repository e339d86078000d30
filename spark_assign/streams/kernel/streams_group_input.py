"""One streams group made of its facts: what its assignor sees, and what changes are measured against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_assign.java.hash_map import java_key
from spark_assign.streams.kernel.grouped_facts import GROUP, LEFT, MEMBER, SUBTOPOLOGY, TASK, Row, StreamsFacts
from spark_assign.streams.kernel.hash_order import member_order, process_walk
from spark_assign.streams.kernel.task_assignor_api import Group, Member, Task

Held = dict[str, dict[Task, list[str]]]
"""By role and task the members that have it, in the order of the members."""


@dataclass(frozen=True)
class StreamsGroupInput:
    """A group without a fault.

    Attributes:
        group: what its assignor sees.
        names: of subtopologies: those of the group, and those that only tasks name.
        has, had: what living members have, and what those had that have left.
        process: of each member its process.
        own: members with tasks that they have in some role, or report state of.
        state: processes with tasks of which the same is true of one of their members, and the highest offset that is
            reported of them, null where none is.
    """

    group: Group
    names: Sequence[str]
    has: Held
    had: Held
    process: dict[str, str]
    own: set[tuple[str, Task]]
    state: dict[tuple[str, Task], int | None]


def read_group_input(told: StreamsFacts, *, release_4_3: bool, standby_replicas: int | None) -> StreamsGroupInput:
    """Number the names of a group.

    Args:
        told: its facts, without a fault.
        release_4_3: as the assignor's class was in 4.2 and 4.3.
        standby_replicas: in place of what the group is configured with.
    """
    topology = sorted(told.rows[SUBTOPOLOGY], key=lambda row: java_key(row["name"]))
    ids = [row["name"] for row in topology]
    names = ids + sorted({row["name"] for kind in (TASK, LEFT) for row in told.rows[kind]} - set(ids))
    number = {name: at for at, name in enumerate(names)}
    of_member: dict[str, list[tuple[Task, Row]]] = {}
    for row in told.rows[TASK]:
        of_member.setdefault(row["member_id"], []).append(((number[row["name"]], row["number"]), row))
    rows = told.rows[MEMBER]
    walk = member_order([row["member_id"] for row in rows], [row["number"] for row in rows])
    members = [_member(rows[at], of_member.get(rows[at]["member_id"], [])) for at in walk]
    configured = next((row["number"] for row in told.rows[GROUP]), None) or 0
    group = Group(
        members,
        process_walk([each.member_id for each in members], [each.process for each in members], release_4_3=release_4_3),
        ids,
        [row["number"] for row in topology],
        [row["stateful"] for row in topology],
        configured if standby_replicas is None else standby_replicas,
    )
    has, had = _nothing(), _nothing()
    own, state = set[tuple[str, Task]](), dict[tuple[str, Task], int | None]()
    for member in members:
        for task, row in of_member.get(member.member_id, ()):
            if row["text"] is not None:
                has[row["text"]].setdefault(task, []).append(member.member_id)
            own.add((member.member_id, task))
            known = state.setdefault((member.process, task), row["offset"])
            if row["offset"] is not None and (known is None or known < row["offset"]):
                state[member.process, task] = row["offset"]
    for row in told.rows[LEFT]:
        if row["text"] is not None:
            had[row["text"]].setdefault((number[row["name"]], row["number"]), []).append(row["member_id"])
    return StreamsGroupInput(group, names, has, had, {each.member_id: each.process for each in members}, own, state)


def _nothing() -> Held:
    return {"active": {}, "standby": {}, "warmup": {}}


def _member(told: Row, tasks: Sequence[tuple[Task, Row]]) -> Member:
    return Member(
        told["member_id"],
        told["member_id"] if told["name"] is None else told["name"],
        active=[task for task, row in tasks if row["text"] == "active"],
        standby=[task for task, row in tasks if row["text"] == "standby"],
        offsets={task: row["offset"] for task, row in tasks if row["offset"] is not None},
    )
