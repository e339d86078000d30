"""docs/play.html in a real browser: it is silent, narrow, dark or light, and obeys the keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from tests.play_page import PAGE

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_person_plays(browser: Browser, scheme: Literal["light", "dark"]) -> None:
    """Keys change what is shown, all of which fits into 400 pixels."""
    messages: list[str] = []
    page = browser.new_page(viewport={"width": 400, "height": 700}, color_scheme=scheme)
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(PAGE.as_uri())
    assert "1 rebalance, 4 moves of a partition" in page.inner_text("#outcome")
    page.focus("#members")
    page.keyboard.press("ArrowLeft")
    assert [page.inner_text(f"#states section:nth-child({nth}) tr:first-child td") for nth in (1, 2)] == [
        "t0-0 t0-1 t0-2 t1-0 t1-1 t1-2",
        "t0-0 t0-1 t1-0 t1-1",
    ]
    page.focus("#assignor")
    page.keyboard.press("End")
    assert page.eval_on_selector("#assignor", "each => each.value") == "range (KIP-848)"
    assert page.locator("span.moved").count() == 4
    page.select_option("#event", "A member leaves")
    assert "has left" in page.inner_text("#states section:nth-child(2)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    style = "['color', 'backgroundColor'].map(each => getComputedStyle(document.body)[each].match(/[0-9]+/)[0])"
    ink, paper = map(int, page.evaluate(style))
    assert (ink < paper) == (scheme == "light")
    page.close()
    assert messages == []
