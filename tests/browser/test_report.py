"""The report in a real browser: it loads in silence and without a network, sorts, searches, and obeys the keyboard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("jinja2", reason="reports are an extra")

from spark_assign.report.html import render_report
from tests.unit import report_rows

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Open = Callable[..., "Page"]
MEMBERS, MOVED = 4, 9
"""Columns of the table of groups, where nothing is recommended."""

LIMIT_MS = 60_000
"""Not a measure: machines that test may be busy."""


@pytest.fixture
def page_of(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """A function that opens a report; at the end nothing may have been said on the console or asked of a network."""
    messages: list[str] = []
    requested: set[str] = set()

    def start(text: str, **options: object) -> Page:
        file = tmp_path / "report.html"
        file.write_text(text, encoding="utf-8")
        page = browser.new_page(**options)
        page.set_default_timeout(LIMIT_MS)
        page.on("console", lambda message: messages.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: messages.append(f"error: {error}"))
        page.on("dialog", lambda dialog: messages.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: requested.add(request.url.partition("#")[0]))
        page.goto(file.as_uri())
        return page

    yield start
    for context in browser.contexts:
        context.close()
    assert messages == []
    assert requested == {(tmp_path / "report.html").as_uri()}


def shown(page: Page, column: int) -> list[str]:
    """The cells of a column of the table of groups, of rows that are seen."""
    cells: list[str] = page.locator(f"#groups tbody tr:visible > :nth-child({column})").all_inner_texts()
    return cells


def numbers(page: Page, column: int) -> list[int]:
    """The same as numbers."""
    return [int(cell.replace(",", "")) for cell in shown(page, column)]


@pytest.fixture(scope="module")
def fleet_page() -> str:
    """A thousand groups."""
    return render_report(report_rows.plan(1_000))


def test_searching(page_of: Open) -> None:
    """At first the worst groups; what matches all words; and how many do, said politely."""
    page = page_of(render_report(report_rows.plan(5_000)))
    status = page.get_by_role("status")
    assert status.inner_text() == "5,000 groups; 50 shown."
    assert len(shown(page, 1)) == 50
    page.get_by_label("Search groups").fill("service-0001 sticky")
    status.get_by_text("5 of 5,000 groups match; 5 shown.").wait_for()
    assert all("service-0001" in name for name in shown(page, 1))
    page.get_by_label("Search groups").fill("no such group")
    status.get_by_text("0 of 5,000 groups match; 0 shown.").wait_for()
    assert shown(page, 1) == []
    page.get_by_label("Search groups").fill("")
    page.get_by_role("button", name="Show 100 more").click()
    status.get_by_text("5,000 groups; 150 shown.").wait_for()


def test_one_cluster_is_shown(page_of: Open, fleet_page: str) -> None:
    """By the list beside the search, or from the cluster's line in the summary; and together with words."""
    page = page_of(fleet_page)
    status = page.get_by_role("status")
    page.get_by_label("Cluster", exact=True).select_option("cluster-3")
    assert status.inner_text() == "200 of 1,000 groups match; 50 shown."
    assert set(shown(page, 2)) == {"cluster-3"}
    page.get_by_label("Search groups").fill("service-0000")
    status.get_by_text("2 of 1,000 groups match; 2 shown.").wait_for()
    page.get_by_label("Search groups").fill("")
    page.locator("#clusters").get_by_role("link", name="cluster-1").click()
    status.get_by_text("200 of 1,000 groups match; 50 shown.").wait_for()
    assert set(shown(page, 2)) == {"cluster-1"}
    assert page.evaluate("location.hash") == "#worst"


def test_bars_are_as_long_as_their_numbers(page_of: Open, fleet_page: str) -> None:
    """Below the number; a zero has none. Numbers are on the right, and max/mean of uneven groups has a ground."""
    page = page_of(fleet_page)
    looks = page.locator("#groups tbody tr:visible").evaluate_all(
        "rows => rows.map((row) => [...row.cells].slice(-8).map((cell) => {"
        "const style = getComputedStyle(cell);"
        "return [cell.textContent, style.backgroundImage.includes('gradient'), style.backgroundSize, style.textAlign,"
        "style.backgroundColor]}))"
    )
    assert all(drawn == (text not in ("0", "0 %")) for row in looks for text, drawn, *_ in (row[1], row[4], row[6]))
    assert {cell[3] for row in looks for cell in row} == {"right"}
    assert {row[4][0] == "0" for row in looks if row[2][4] == row[0][4]} == {True}
    wide = {row[1][0]: row[1][2] for row in looks}
    largest = max(wide, key=lambda text: int(text.replace(",", "")))
    assert len(set(wide.values())) > 5
    assert wide[largest].startswith("88%") or "px" in wide[largest]


def test_all_groups_are_shown_where_that_is_wanted(page_of: Open, fleet_page: str) -> None:
    """And then nothing is left to be shown."""
    page = page_of(fleet_page)
    page.get_by_role("button", name="Show all").click()
    page.get_by_role("status").get_by_text("1,000 groups; 1,000 shown.").wait_for()
    assert not page.locator("#more").is_visible()


def test_sorting_by_mouse(page_of: Open, fleet_page: str) -> None:
    """Numbers begin with the largest of all groups; a second click turns them; names begin with a."""
    page = page_of(fleet_page)
    header = page.locator("#groups").get_by_role("columnheader", name="Members")
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "descending"
    largest = numbers(page, MEMBERS)
    assert largest == sorted(largest, reverse=True)
    assert largest[0] == 60
    header.get_by_role("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    assert set(numbers(page, MEMBERS)) <= {1, 2, 3, 4}
    names = page.locator("#groups").get_by_role("columnheader", name="Group", exact=True)
    names.get_by_role("button").click()
    assert names.get_attribute("aria-sort") == "ascending"
    assert header.get_attribute("aria-sort") is None
    assert shown(page, 1) == sorted(shown(page, 1))
    assert page.get_by_role("status").inner_text() == "1,000 groups; 50 shown, sorted by Group, ascending."
    page.locator("#groups").get_by_role("button", name="Moved", exact=True).click()
    moved = numbers(page, MOVED)
    assert moved == sorted(moved, reverse=True)


def test_by_keyboard_alone(page_of: Open, fleet_page: str) -> None:
    """The skip link comes first; search, headers and groups are reached by Tab and work by Enter; focus is seen."""
    page = page_of(fleet_page)
    press = page.keyboard.press
    press("Tab")
    assert focused(page) == "Skip to the report"
    press("Enter")
    tab_to(page, "search")
    page.keyboard.type("service-0000")
    page.get_by_role("status").get_by_text("10 of 1,000 groups match").wait_for()
    tab_to(page, "Members")
    assert page.locator(":focus").evaluate("each => getComputedStyle(each).outlineStyle") == "solid"
    press("Enter")
    assert numbers(page, MEMBERS) == sorted(numbers(page, MEMBERS), reverse=True)
    press("Space")
    assert numbers(page, MEMBERS) == sorted(numbers(page, MEMBERS))


def focused(page: Page) -> str:
    """The id or the text of what has the focus."""
    found: str = page.evaluate("document.activeElement.id || document.activeElement.textContent")
    return found


def tab_to(page: Page, wanted: str) -> None:
    """By Tab, not more than forty times."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if focused(page) == wanted:
            return
    raise AssertionError(f"{wanted} cannot be reached by Tab")


def test_a_group_is_opened_by_its_link(page_of: Open) -> None:
    """From its line in the table to its members; by Enter."""
    page = page_of(render_report(report_rows.plan(60)))
    link = page.locator("#groups tbody a").nth(2)
    name = link.inner_text()
    link.focus()
    page.keyboard.press("Enter")
    opened = page.locator("details.group:target[open]")
    opened.wait_for()
    assert opened.locator("h3").inner_text() == name
    assert opened.locator("table.bars tbody tr").first.is_visible()


UNREADABLE = """() => {
  const parts = (colour) => {
    const found = colour.match(/[\\d.]+/g).map(Number);
    const unit = colour.startsWith("color(srgb") ? 1 : 255;
    return [...found.slice(0, 3).map((each) => each / unit), found.length > 3 ? found[3] : 1];
  };
  const over = ([r, g, b, a], ground) => [r, g, b].map((each, at) => each * a + ground[at] * (1 - a));
  const light = (colour) => {
    const [r, g, b] = colour.map((each) => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (each) => {
    const below = each.parentElement ? ground(each.parentElement) : [1, 1, 1];
    return over(parts(getComputedStyle(each).backgroundColor), below);
  };
  const found = [];
  let looked = 0;
  for (const each of document.body.querySelectorAll("*")) {
    const own = [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !each.checkVisibility() || each.closest("script, title, desc, .hidden, .skip")) continue;
    looked += 1;
    const style = getComputedStyle(each);
    const below = ground(each);
    const text = over(parts(each instanceof SVGElement ? style.fill : style.color), below);
    const [bright, dark] = [light(text), light(below)].sort((a, b) => b - a);
    const ratio = (bright + 0.05) / (dark + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) found.push(`${each.tagName} ${each.textContent.trim()}: ${ratio.toFixed(2)}`);
  }
  return [looked, found];
}"""
"""Texts that stand out too little from what is really below them, by the rules of WCAG AA."""


@pytest.mark.parametrize(("scheme", "ground"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 27)")])
def test_light_and_dark(page_of: Open, scheme: str, ground: str) -> None:
    """The page follows the system; every text keeps apart from what is below it."""
    page = page_of(render_report(**report_rows.everything()), color_scheme=scheme)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    looked, unreadable = page.evaluate(UNREADABLE)
    assert looked > 300
    assert unreadable == []


def test_what_a_screen_reader_hears(page_of: Open) -> None:
    """Landmarks, headings, tables and drawings have their names; nothing that can be pressed is without one."""
    page = page_of(render_report(**report_rows.everything()))
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    heard = page.locator("body").aria_snapshot()
    for expected in (
        'heading "Report of orders-service" [level=1]',
        'navigation "Sections"',
        'searchbox "Search groups"',
        'table "Groups"',
        'columnheader "Recommended"',
        'heading "Recommended assignors" [level=2]',
        'img "Groups by imbalance"',
        'img "Rebalances of c/orders-service in time"',
        'img "Cumulative stops and starts in orders-service-2"',
        'table "Partitions of each member, before and after; the thin line is the mean, 3.00"',
        'rowheader "orders-service/0"',
    ):
        assert expected in heard, expected
    assert [i for i in heard.splitlines() if i.strip(" -:") in ("button", "link", "img", "table", "region")] == []
    assert page.locator("a[href], button, input, summary, [tabindex='0']").count() > 50
    assert heard.count("button ") == page.locator("button:visible").count()


def test_a_narrow_window_scrolls_tables_only(page_of: Open) -> None:
    """The page itself is never wider than a phone; what is, can be reached by keyboard and has a name. Its charts are
    drawn for it, and the type of an event is seen. Nothing is cut on a desk.
    """
    everything = report_rows.everything() | {"plan": report_rows.plan(60)}
    page = page_of(render_report(**everything), viewport={"width": 400, "height": 800})
    page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 400
    assert page.get_by_role("region", name="Groups", exact=True).get_attribute("tabindex") == "0"
    charts = page.locator("figure > svg:visible")
    scales = charts.evaluate_all("all => all.map((svg) => svg.clientWidth / svg.viewBox.baseVal.width)")
    assert len(scales) == len(page.locator("figure").all())
    assert min(scales) > 0.85
    events = page.locator("table", has=page.get_by_text("Deploys, crashes, and flapping", exact=False)).first
    kind = events.get_by_role("columnheader", name="Type").bounding_box()
    assert kind is not None
    assert kind["x"] + kind["width"] <= 400
    page.set_viewport_size({"width": 1400, "height": 800})
    assert page.evaluate("[...document.querySelectorAll('.scroll')].every((box) => box.scrollWidth <= box.clientWidth)")
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 1400


def test_what_is_recommended_can_be_searched_and_sorted(page_of: Open) -> None:
    """In a column of its own, with the reason at the group; from the top of the page there is a way to what to do."""
    page = page_of(render_report(**report_rows.everything()))
    assert (shown(page, 2), shown(page, 3)) == (["range"], ["sticky"])
    page.get_by_label("Search groups").fill("sticky")
    page.get_by_role("status").get_by_text("1 of 1 group match").wait_for()
    assert page.get_by_text("Recommended: sticky: 3 % move (orders-service).").is_visible()
    page.get_by_role("banner").get_by_role("link", name="Recommendations").first.click()
    assert page.evaluate("location.hash") == "#comparison"
    table = page.locator("table", has=page.get_by_text("Groups that gain most", exact=True))
    table.get_by_role("button", name="Moved now").click()
    assert table.get_by_role("columnheader", name="Moved now").get_attribute("aria-sort") == "descending"


def test_hostile_names_do_nothing(page_of: Open) -> None:
    """No dialog, no request, no error."""
    hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'</style></title>"
    page = page_of(render_report(**report_rows.everything(hostile)))
    assert page.locator("h1").inner_text() == f"Report of {hostile}"
    page.get_by_label("Search groups").fill("<script>")
    page.get_by_role("status").get_by_text("1 of 1 group match").wait_for()


def test_without_scripts_everything_is_there(browser: Browser, page_of: Open) -> None:
    """All groups, unsorted; details open by themselves."""
    page = page_of(render_report(report_rows.plan(60)), java_script_enabled=False)
    assert page.locator("#groups tbody tr").count() == 60
    assert page.locator("#groups tbody tr").last.is_visible()
