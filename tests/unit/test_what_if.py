"""Text forms of what-if changes."""

from __future__ import annotations

import pytest

from spark_assign.comparison.what_if import AS_IS, members_joined, members_left, parse_what_if, partitions_added
from spark_assign.tables.errors import ConfigError
from tests.cases import cases


@cases(
    "text name",
    ("as-is", "as-is"),
    ("leave:payments-*:1", "leave:payments-*:1"),
    ("leave:a:b=c:2", "leave:a:b=c:2"),
    ("one less=leave:*:1", "one less"),
    ("host down=leave-members:consumer-10.2.*", "host down"),
    ("join:search-*:2", "join:search-*:2"),
    ("partitions:orders*:x1.5", "partitions:orders*:x1.5"),
    ("partitions:orders*:64", "partitions:orders*:64"),
)
def test_a_change_in_words(text: str, name: str) -> None:
    """A change is called by its words unless it is given a name."""
    assert parse_what_if(text).name == name


@cases(
    "text message",
    ("", "Use one of as-is, leave:GROUPS:COUNT"),
    ("shrink:a:1", "Use one of"),
    ("leave:payments-*", "Use one of"),
    ("leave:payments-*:", "'' isn't a valid count"),
    ("leave:payments-*:one", "'one' isn't a valid count. Use a whole number from 1 to 100,000."),
    ("join:*:1000000", "'1000000' isn't a valid count"),
    ("partitions:t:xtwo", "xtwo isn't a valid factor. Use a positive number, for example x2 or x1.5."),
    ("partitions:t:x0", "x0 isn't a valid factor"),
    ("partitions:t:xnan", "xnan isn't a valid factor"),
    ("=leave:a:1", "the name before = is empty"),
    ("as-is:now", "Use one of"),
)
def test_what_is_no_change(text: str, message: str) -> None:
    """The words, and what was expected."""
    with pytest.raises(ConfigError) as raised:
        parse_what_if(text)
    assert message in str(raised.value)
    assert f"What-if {text}: " in str(raised.value)


def test_names_of_changes() -> None:
    """A constructor names its change as the words do."""
    assert AS_IS.name == "as-is"
    assert members_left(group_id="a", count=1).name == "leave:a:1"
    assert members_left(member_id="host-*").name == "leave-members:host-*"
    assert members_joined(count=2).name == "join:*:2"
    assert partitions_added(topic="t", factor=2).name == "partitions:t:x2"
    assert partitions_added(topic="t", count=64, name="grown").name == "grown"
