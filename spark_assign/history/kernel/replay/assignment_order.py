"""Who stands where in the line of an assignor that looks at nobody's past."""

from __future__ import annotations

from collections.abc import Mapping

from spark_assign.history.kernel.replay.replay_member import Seats
from spark_assign.simulation.kernel.assignment_request import java_order


class AssignmentOrder:
    """Who stands where in an assignor's line, and what each place in it gets.

    Range and round robin look at nobody's past. Where all members subscribe to the same, lines of one length are asked
    for once.
    """

    def __init__(self, given: Seats, partitions: Mapping[int, int]) -> None:
        seats = list(given.values())
        self.topics = seats[0].topics
        self.alike = all(each.topics == self.topics for each in seats)
        order = java_order([each.instance or each.member_id for each in seats])
        self.ids = [seats[at].member_id for at in order]
        self.shape = len(seats), self.topics, frozenset(partitions.items())

    def places(self, given: Mapping[int, str]) -> list[list[int]]:
        """What each place gets."""
        mine: dict[str, list[int]] = {each: [] for each in self.ids}
        for code, each in given.items():
            mine[each].append(code)
        return list(mine.values())

    def given(self, places: list[list[int]]) -> dict[int, str]:
        """Who gets what, by places."""
        return {code: each for each, codes in zip(self.ids, places, strict=True) for code in codes}
