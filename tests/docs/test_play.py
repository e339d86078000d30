"""docs/play.html is what the kernels compute now, and small."""

from __future__ import annotations

from tests import play_page
from tests.cases import cases

MAX_BYTES = 300_000


def test_the_page_is_what_the_kernels_compute() -> None:
    """If this fails: .venv/bin/python -m tests.play_page"""
    found = play_page.PAGE.read_text(encoding="utf-8")
    assert found == play_page.page()
    assert len(found.encode()) < MAX_BYTES


@cases(
    "state text",
    # Range gives the first members one more of each topic; round robin deals both topics in turn.
    ((0, 2, 2, 3), "001001;012012"),
    ((1, 2, 2, 3), "010101;012012"),
    # Cooperative: two rebalances, in which two partitions move to C1, of which each pauses.
    ((3, 1, 1, 4), "0000;0011:2:2:"),
    # The consumer protocol: the new member gets its share, and no other partition moves.
    ((4, 1, 2, 6), "000111;002112:1:2:"),
)
def test_known_states(state: play_page.State, text: str) -> None:
    """As Kafka's documentation says."""
    assert play_page.simulate([state])[state].startswith(text)
