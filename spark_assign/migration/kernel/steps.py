"""The steps that take a group over, each with what it costs.

Online
    1 prepare         the settings of every member change; nothing else yet
    2 first-member    the first member restarts; the coordinator converts the group
    3 other-members   the others, one by one
    4 last-member     the last one; from now on nobody waits for the whole group
    5 settle          groups with static members: what the broker's assignor changes at the next occasion
Where the broker does not convert the group while it runs
    1 prepare, 2 stop-all, 3 start-all
And in both (Kafka Streams has a protocol of its own, and no steps to this one)
    last   way-back   how the group becomes a classic one again, and what moves then
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from spark_assign.groups.kernel.client_libraries import STREAMS
from spark_assign.migration.kernel import words
from spark_assign.migration.kernel.migration_verdict import MigrationCandidate

COSTS = ("moved", "revoked", "stopped")

Step = dict[str, Any]


def steps_of(
    case: MigrationCandidate, figures: Mapping[str, Any], restarts: Sequence[Mapping[str, int]]
) -> Iterator[Step]:
    """The steps of one group, in order.

    Args:
        case: the group.
        figures: of the group (`figures.Figures.of`).
        restarts: what each restart that was played costs, in order.
    """
    if case.now == STREAMS:
        return
    told = [
        _step("prepare", words.prepare(case), {}),
        *(_online(case, figures, restarts) if case.online else _offline(case, figures)),
        _step("way-back", words.way_back(case), _moved(figures["moved_back"]), case.members),
    ]
    for number, step in enumerate(told, 1):
        yield {"step": number, **step}


def _online(
    case: MigrationCandidate, figures: Mapping[str, Any], restarts: Sequence[Mapping[str, int]]
) -> Iterator[Step]:
    last = case.members - 1
    parts: tuple[tuple[str, Callable[[MigrationCandidate], str], int, int], ...] = (
        ("first-member", words.first, 0, 1),
        ("other-members", words.others, 1, last),
        ("last-member", words.last, max(last, 1), case.members),
    )
    for what, action, begin, end in parts:
        if end > begin:
            some = restarts[begin:end]
            yield _step(what, action(case), _total(some) if some else {}, end - begin, len(some))
    if case.static == case.members:
        yield _step("settle", words.settle(case), _moved(figures["moved"]))


def _offline(case: MigrationCandidate, figures: Mapping[str, Any]) -> Iterator[Step]:
    had = figures["owned"]
    yield _step("stop-all", words.stop_all(case), {"revoked": had, "stopped": had}, case.members)
    yield _step("start-all", words.start_all(case), _moved(figures["moved"]))


def _total(restarts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(each[name] for each in restarts) for name in COSTS}


def _moved(number: int | None) -> dict[str, int | None]:
    return {"moved": number}


def _step(
    what: str, action: str, costs: Mapping[str, int | None], restarts: int = 0, played: int | None = None
) -> Step:
    return {"what": what, "action": action, **costs, "restarts": restarts, "played": played}
