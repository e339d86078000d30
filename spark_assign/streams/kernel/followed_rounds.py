"""Follows a classic application, and converts its rebalances and restores to rows of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from spark_assign.assignors.streams.member_tasks import PROBING
from spark_assign.streams.kernel.classic_group_input import ClassicGroupInput
from spark_assign.streams.kernel.classic_rounds import ClassicRounds, Round
from spark_assign.streams.kernel.state_restores import Restore

ROUND, RESTORE = "round", "restore"
"""Kinds of result rows (`plan_groups`)."""


def follow_rounds(
    classic: ClassicGroupInput, bytes_per_second: float | None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Returns the rows of rounds and restores, and their totals: columns of `metrics`."""
    if bytes_per_second is None or not classic.application.members or (sizes := classic.changelogs.sizes) is None:
        return [], {}
    rounds = ClassicRounds(classic.application, sizes, bytes_per_second, classic.changelogs.growth or {})
    followed = list(rounds.run())
    last, state = followed[-1], rounds.state
    ends = [last.start, *(restore.end for restore in state.restores if restore.end is not None)]
    totals = {
        "probing_rebalances": sum(each.cause == PROBING for each in followed),
        "caught_up_seconds": max(ends) if last.assignment.is_stable and not state.num_behind else None,
        "restored_bytes": round(sum(restore.restored for restore in state.restores)),
        "stopped_task_seconds": state.stopped_seconds,
        "never_caught_up": state.num_behind,
        "changelog_bytes_per_second": classic.changelogs.bytes_per_second,
    }
    return list(_round_rows(followed, state.restores)), totals


def _round_rows(rounds: Iterable[Round], restores: Iterable[Restore]) -> Iterator[dict[str, Any]]:
    for at, each in enumerate(rounds, 1):
        columns = {"round": at, "start_seconds": each.start, "cause": each.cause or None, "moved_active": each.moved}
        columns |= {"stopped_active": each.stopped, "restore_bytes": round(each.missing)}
        plan = each.assignment
        columns["withheld"] = sum(len(tasks.withheld) for tasks in plan.members.values())
        columns["warmups"] = sum(map(len, plan.trace.warmups.values())) if plan.trace is not None else 0
        yield {"kind": ROUND, "pending_moves": plan.trace.movements if plan.trace is not None else 0, **columns}
    for restore in restores:
        row = {"kind": RESTORE, "member_id": restore.member_id, "role": restore.role, "bytes": round(restore.bytes)}
        row |= {"subtopology": str(restore.task[0]), "task": restore.task[1], "start_seconds": restore.start}
        yield row | {"restore_seconds": None if restore.end is None else restore.end - restore.start}
