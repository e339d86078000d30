"""The leader's part of a rebalance: who gets what, for the leaders of many groups at once.

By the same kernels that `plan` uses. An assignor is a function from asks to answers; another one is another entry of
`ASSIGNORS`:

    ASSIGNORS["mine"] = lambda asks: [AssignmentResponse([[] for _ in ask.members]) for ask in asks]

No answer depends on the asks beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spark_assign.simulation.kernel.assignment_request import (
    AssignmentRequest,
    AssignmentResponse,
    JoinedMember,
    Topics,
    code,
)
from spark_assign.simulation.kernel.leader_range_roundrobin import assign_range, assign_roundrobin
from spark_assign.simulation.kernel.leader_sticky import assign_cooperative_sticky, assign_sticky
from spark_assign.tables.errors import UnknownAssignorError

__all__ = [
    "ASSIGNORS",
    "AssignmentRequest",
    "AssignmentResponse",
    "Assignor",
    "JoinedMember",
    "Topics",
    "assign",
    "code",
]

Assignor = Callable[[Sequence[AssignmentRequest]], list[AssignmentResponse]]
"""Answers asks that have at least one member each, one by one or together."""

ASSIGNORS: dict[str, Assignor] = {
    "range": assign_range,
    "roundrobin": assign_roundrobin,
    "sticky": assign_sticky,
    "cooperative-sticky": assign_cooperative_sticky,
}
"""By Kafka's own names."""


def assign(asks: Sequence[AssignmentRequest]) -> list[AssignmentResponse]:
    """Answer all asks, each by the assignor that it names.

    Returns:
        an answer for each ask, in their order.

    Raises:
        UnknownAssignorError: an ask names an assignor that is not in `ASSIGNORS`.
    """
    answers = [AssignmentResponse([])] * len(asks)
    of_assignor: dict[str, list[int]] = {}
    for number, ask in enumerate(asks):
        if ask.members:
            of_assignor.setdefault(ask.assignor, []).append(number)
        else:
            answers[number] = AssignmentResponse([])
    for name, numbers in of_assignor.items():
        if name not in ASSIGNORS:
            known = ", ".join(sorted(ASSIGNORS))
            raise UnknownAssignorError(f"no assignor of the simulation is called {name!r}. There are: {known}")
        for number, found in zip(numbers, ASSIGNORS[name]([asks[each] for each in numbers]), strict=True):
            answers[number] = found
    return answers
