"""Computes the leaders' assignments of many groups in one batch, by the door that `plan` uses (`groups.kernel.assign`).

An assignor is a function from requests to responses. To add one, add an entry to `ASSIGNORS`:

    ASSIGNORS["mine"] = lambda requests: [AssignmentResponse([[] for _ in request.members]) for request in requests]

The response to a request doesn't depend on the other requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from spark_assign.groups.assignors.sticky.assign_sticky import STICKY, exception_text
from spark_assign.groups.kernel.assign import assign as assign_specs
from spark_assign.simulation.kernel.assignment_request import (
    CODE_BITS,
    AssignmentRequest,
    AssignmentResponse,
    JoinedMember,
    Topics,
    code,
    codes_by_member,
)
from spark_assign.simulation.kernel.request_specs import read_requests
from spark_assign.tables.errors import UnknownAssignorError

__all__ = ["ASSIGNORS", "AssignmentRequest", "AssignmentResponse", "JoinedMember", "Topics", "assign", "code"]

Assignor = Callable[[Sequence[AssignmentRequest]], list[AssignmentResponse]]
"""Computes responses to requests that have at least one member each."""


def _assign_by_kafka(assignor: str, requests: Sequence[AssignmentRequest]) -> list[AssignmentResponse]:
    """Computes assignments as a class of Kafka's clients."""
    specs = read_requests(requests, reads_owned=assignor in STICKY)
    assignments = assign_specs(specs, assignor, np.ones(specs.num_groups, bool))
    rows = assignments.assigned_now.expand()
    member, codes = specs.list_index[rows.member], specs.topics.name[rows.topic] << CODE_BITS | rows.first
    assigned = codes_by_member(member, codes, len(specs.listed))
    errors = {group: exception_text(detail) for group, (_, detail) in assignments.rejected.items()}
    bounds = np.cumsum([0, *(len(request.members) for request in requests)]).tolist()
    return [
        AssignmentResponse(assigned[start:end], errors.get(group))
        for group, (start, end) in enumerate(pairwise(bounds))
    ]


ASSIGNORS: dict[str, Assignor] = {
    name: partial(_assign_by_kafka, name) for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
}
"""Assignors by Kafka's names."""


def assign(requests: Sequence[AssignmentRequest]) -> list[AssignmentResponse]:
    """Computes a response to each request, with the assignor that it names.

    Returns:
        the responses, in the order of the requests.

    Raises:
        UnknownAssignorError: a request names an assignor that isn't in `ASSIGNORS`.
    """
    responses = [AssignmentResponse([])] * len(requests)  # the response to requests without members
    by_assignor: dict[str, list[int]] = {}
    for number, request in enumerate(requests):
        if request.members:
            by_assignor.setdefault(request.assignor, []).append(number)
    for name, numbers in by_assignor.items():
        if name not in ASSIGNORS:
            known = ", ".join(sorted(ASSIGNORS))
            raise UnknownAssignorError(f"assignor {name!r} can't be simulated. Assignors: {known}")
        for number, response in zip(numbers, ASSIGNORS[name]([requests[each] for each in numbers]), strict=True):
            responses[number] = response
    return responses
