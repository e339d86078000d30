"""JoinGroup at the coordinator by itself (`classicGroupJoinExistingMember`), with members that only listen."""

from __future__ import annotations

from typing import Any

import pytest

from spark_assign.java.hash_map import string_hash
from spark_assign.simulation.kernel.assignment_request import JoinedMember
from spark_assign.simulation.kernel.classic_group import ClassicGroup
from spark_assign.simulation.kernel.coordinator import Coordinator
from spark_assign.simulation.kernel.events import EventQueue
from spark_assign.simulation.kernel.settings import TimingConfig
from tests.unit.protocol_plays import EAGER


class _Heard:
    """Members that only write down what they are told."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def record(*args: Any, **more: Any) -> object:
            if name == "silent_members":
                return []
            if name != "trace_coordinator":
                self.lines.append((name, *args, *more.values()))
            return None if name == "last_heard" else 0

        return record


def _coordinator() -> tuple[Coordinator, _Heard, dict[str, JoinedMember]]:
    """A stable group of `a`, which leads, and `b`."""
    heard = _Heard()
    coordinator = Coordinator(ClassicGroup("g"), EventQueue(), TimingConfig(), heard)  # type: ignore[arg-type]
    joined = {name: JoinedMember(name, None, None, string_hash(name), frozenset([0]), generation_id=1) for name in "ab"}
    coordinator.restore([(each, EAGER, [number]) for number, each in enumerate(joined.values())], 5)
    return coordinator, heard, joined


def test_a_follower_that_has_nothing_new_to_tell_is_answered() -> None:
    """It has missed the answer, and gets the same again (`classicGroupJoinExistingMember`); a leader never does."""
    coordinator, heard, joined = _coordinator()
    assert (coordinator.group.generation_id, coordinator.group.leader_id) == (5, "a")
    coordinator.join(joined["b"], EAGER, "again")
    assert heard.lines == [("joined", ["b"], False), ("synced", [("b", [1])])]
    coordinator.join(joined["a"], EAGER, "again")
    assert ("rebalance_in_progress", {"b": False}) in heard.lines
    assert coordinator.group.state.value == "PreparingRebalance"


@pytest.mark.parametrize("change", ["metadata", "protocols"])
def test_a_follower_that_tells_something_else_causes_a_rebalance(change: str) -> None:
    """Other metadata of a protocol, or other protocols (`ClassicGroupMember.matches`)."""
    coordinator, heard, joined = _coordinator()
    other = JoinedMember("b", None, None, joined["b"].hash, frozenset([0]), generation_id=2)
    coordinator.join(
        other if change == "metadata" else joined["b"], EAGER if change == "metadata" else ("range", "x"), ""
    )
    assert heard.lines == [("rebalance_in_progress", {"a": False})]


def test_who_supports_nothing_that_all_do_is_refused() -> None:
    """INCONSISTENT_GROUP_PROTOCOL; the group goes on as it was."""
    coordinator, heard, _ = _coordinator()
    coordinator.join(JoinedMember("c", None, None, 7, frozenset([0])), ("sticky",), "")
    assert heard.lines == [("join_rejected", "c")]
    assert coordinator.group.state.value == "Stable"
