"""What `mcp` answers about groups that can't be planned, without an engine; the answers: tests/e2e/test_mcp.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from spark_assign.cli import mcp_answers, mcp_questions
from spark_assign.cli.mcp_questions import Questions
from spark_assign.tables.errors import ConfigError
from tests.cases import cases


@cases(
    "question arguments",
    ("plan_group", {}),
    ("plan_group", {"topic": "t", "partitions": 9}),
    ("explain_partition", {"topic": "t", "partition": 0}),
    ("simulate_group", {}),
    ("simulate_group", {"event": "member-starts"}),
    ("advise_group", {}),
)
@cases(
    "members problem",
    (None, "The group is undescribed: it timed out. Its members aren't known"),
    (0, "The group has no members"),
)
def test_a_group_without_known_members(
    monkeypatch: pytest.MonkeyPatch, question: str, arguments: dict[str, Any], members: int | None, problem: str
) -> None:
    """Every question that plans or simulates says why it has no answer."""
    snapshot = Mock(keep=lambda key, compute: compute())
    row = {"cluster": "c", "group_id": "g", "members": members}
    group = mcp_questions._Group(snapshot, row, Mock(), None)
    monkeypatch.setattr(mcp_questions, "collected", lambda _: [{"error": "it timed out"}])
    with pytest.raises(ConfigError, match=problem):
        getattr(Questions, question)(SimpleNamespace(_group=lambda *_: group), "g", **arguments)


def test_a_member_without_an_id() -> None:
    """Its group is rejected by a plan, and described as the snapshot has it."""
    numbers = {"partitions": 0, "lag": None, "lag_known": None, "in_messages_per_second": None}
    assert mcp_answers.MemberFacts(member_id=None, owns=[], **numbers).model_dump()["member_id"] is None


def test_rows_of_no_group_are_wrong_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are found when the server reads the snapshot, not when a question about something else meets them."""
    checked = Mock(side_effect=ConfigError("a null"))
    monkeypatch.setattr(mcp_questions.Fleet, "read", lambda *_: type("F", (), {"checked": property(checked)})())
    with pytest.raises(ConfigError, match="a null"):
        Questions(Mock(), {"s": "/nowhere"})
