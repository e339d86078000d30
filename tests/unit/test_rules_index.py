"""docs/rules-index.md is up to date."""

from __future__ import annotations

from tests.rules_index import PAGE, page


def test_the_page_is_what_the_tests_name() -> None:
    """`python -m tests.rules_index` writes it, after a test names another KIP, ticket, or class of Kafka."""
    assert PAGE.read_text(encoding="utf-8") == page()
