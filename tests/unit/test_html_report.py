"""The report from plain rows: complete in itself, sound as HTML, harmless whatever things are called."""

from __future__ import annotations

import errno
import html
import json
import math
import os
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

from spark_assign.report import charts
from spark_assign.report import plan_summary as notebook
from spark_assign.report import section_charts as drawings
from spark_assign.report.formatting import number, share, short_names, visible
from spark_assign.report.group_members import GroupMembers
from spark_assign.report.group_pictures import GroupPictureData, draw_group
from spark_assign.report.group_view import view
from spark_assign.report.html import PlanRows, render_report
from spark_assign.report.html.page import _file
from spark_assign.report.listed_groups import SUMS, num_unowned, over_share
from spark_assign.report.plan_page import _loads
from spark_assign.report.report_data import OTHERS
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.groups import GROUP_KEY
from tests.cases import keyed
from tests.unit import report_rows

pytestmark = pytest.mark.skipif(
    not (find_spec("jinja2") and find_spec("vl_convert")),  # not imported: every worker process imports every test file
    reason="reports are an extra",
)
VOID = {"col", "meta", "link", "input", "br", "hr", "img"}
CLOSED = {"rect", "line", "path"}
HOSTILE = """<script>alert(1)</script>"'&</td></style><img src=x onerror=alert(2)>{{ 7 * 7 }}"""


class Page(HTMLParser):
    """What a parser sees: elements are closed in the order in which they are opened."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self.headings: list[int] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]
        if re.fullmatch(r"h\d", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in CLOSED, f"<{tag}/> is no HTML"
        self.elements[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> of nothing"
        assert self.open.pop() == tag, f"</{tag}> in {self.open}"

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def values(self, name: str) -> list[str]:
        """All values of an attribute."""
        return [value or "" for _, each, value in self.attributes if each == name]


@pytest.fixture(scope="module")
def full() -> str:
    """A page with every section, rendered once: drawing its charts takes long."""
    return render_report(**report_rows.everything())


def test_every_section_is_there_and_sound(full: str) -> None:
    """Elements are closed, ids are unique, links and labels lead somewhere, headings skip no level."""
    page = Page(full)
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {href.removeprefix("#") for href in page.values("href")} <= set(ids)
    for name in ("aria-labelledby", "aria-describedby", "aria-controls", "for"):
        assert {word for value in page.values(name) for word in value.split()} <= set(ids)
    sections = {"summary", "worst", "balance", "members", "reasons", "comparison", "time", "connect", "replicas"}
    assert sections | {"streams", "drift", "history", "rejected"} <= set(ids)
    assert re.search(r"join:\*:1\s+2\s.*?4\.00 GB \(8\.00 GB\)\s+52 \(–\)", " ".join(page.texts), re.DOTALL)
    assert page.elements["h1"] == page.elements["main"] == page.elements["nav"] == page.elements["header"] == 1
    assert all(next_ - last <= 1 for last, next_ in zip(page.headings, page.headings[1:], strict=False))


def test_tables_say_what_heads_what(full: str) -> None:
    """Every table has a caption, every header cell a scope; every drawing a title and a description."""
    page = Page(full)
    assert page.elements["caption"] == page.elements["table"]
    assert len([1 for tag, name, _ in page.attributes if (tag, name) == ("th", "scope")]) == page.elements["th"]
    drawings = len([1 for tag, name, value in page.attributes if (tag, name, value) == ("svg", "role", "img")])
    assert page.elements["desc"] == drawings >= 2


def test_rows_that_recur_are_short() -> None:
    """A page of 5,000 groups has at most 3 MB: half of it are their rows, and half the members of the worst ones."""
    assert len(render_report(report_rows.plan(60)).encode()) < 950_000


def test_long_names_are_short_on_a_page() -> None:
    """Anyone can join a group with an ID of 32 kB; a page would repeat it until no browser opens it."""
    plan, ids = report_rows.plan(60), ("group_id", "member_id", "from_member_id", "to_member_id")
    rows = {
        name: [row | {each: "z" * 30_000 + row[each] for each in ids if row.get(each)} for row in map(dict, given)]
        for name, given in {"groups": plan.groups, "members": plan.members, "moves": plan.moves}.items()
    }
    who = replace(report_rows.who("z" * 30_000, {name: rows["groups"][0][name] for name in GROUP_KEY}), notes=())
    page = render_report(replace(plan, **rows, who=who))
    assert len(page.encode()) < 4_000_000
    assert "z" * 301 not in page
    assert re.search("z{150}…[0-9a-f]{6}…z{100}", page)
    assert {row["group_id"] for row in plan.groups} <= set(re.findall(r"team-\d+\.service-\d+-consumer", page))


def test_the_page_asks_for_nothing(full: str) -> None:
    """No address of anything, and a policy that forbids it; only the script that is meant to run may run."""
    assert re.findall(r"https?://|//\w+\.|@import|url\(", full) == []
    page = Page(full)
    assert page.values("src") == []
    assert page.elements["link"] == 0
    assert page.elements["script"] == 1
    (policy,) = (value for value in page.values("content") if "default-src" in value)
    assert policy.startswith("default-src 'none'; ")
    assert "script-src 'sha256-" in policy


def test_hostile_names_stay_text() -> None:
    """Whatever a group, member, topic, cluster or message is called, it is shown and does nothing."""
    page = Page(render_report(**report_rows.everything(HOSTILE)))
    assert page.elements["script"] == 1
    assert page.elements["img"] == 0
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    shown = "".join(page.texts)
    assert shown.count(HOSTILE) > 20
    assert "{49" not in shown


def test_the_page_begins_with_advice(full: str) -> None:
    """Its first section; a table for each category, the most pressing first; a line for each setting."""
    assert re.findall(r'<section aria-labelledby="(\w+)"', full)[:2] == ["advice", "summary"]
    shown = " ".join(Page(full).texts)
    titles = [shown.index(title) for title in ("Groups that fall behind", "Cost", "Missing data")]
    assert titles == sorted(titles)
    assert "9 recommendations" in shown
    assert "Shown are 1 of 7; the table advice has all." in shown
    assert "pays for itself after 15 days" in shown
    assert "\nminReplicaCount: 9" in shown
    assert "No change is worth its cost." in " ".join(
        Page(render_report(advice={"advice": [], "categories": []})).texts
    )


def test_five_thousand_groups_are_below_three_megabytes() -> None:
    """And every group is in the page."""
    text = render_report(report_rows.plan(5_000))
    assert len(text.encode()) < 3_000_000
    assert text.count("<tr") > 5_000
    assert "service-04999-consumer" in text


@pytest.mark.parametrize("empty", [PlanRows(classes=[], groups=[]), None])
def test_nothing_to_show_is_a_page_too(empty: PlanRows | None) -> None:
    """A fleet without groups; a report without a plan."""
    page = Page(render_report(empty))
    assert page.elements["main"] == 1
    assert ("All groups were planned." in "".join(page.texts)) == (empty is not None)


def test_a_group_that_has_nothing() -> None:
    """No members, no partitions: listed, and no division by zero."""
    row = report_rows.group(1, 0, 0, 0, 0)
    text = render_report(PlanRows(classes=report_rows.classes_of([row]), groups=[row]))
    assert row["group_id"] in text
    assert ">none<" in text


def test_omitted_rows_are_counted() -> None:
    """A fleet beyond the bound, and rejected groups beyond theirs."""
    rows = report_rows.plan(3)
    more = [{**row, "groups": row["groups"] + 1_000} for row in rows.classes]
    refused = [{"cluster": "c", "group_id": "g", "code": "x", "detail": "y"}]
    text = render_report(PlanRows(classes=more, groups=rows.groups, rejected=refused, rejected_total=1_234))
    assert re.search(r"Shows the first 3 of \d,003 groups", text)
    assert "Shown are 1 of 1,234; the table rejected has all." in text


def test_members_and_movement_of_a_group() -> None:
    """Bars in the order of what members have afterwards; the matrix with others and nobody last."""
    row = report_rows.group(1, 4, 10, 5, 5)
    members = [
        {"member_id": name, "before": before, "after": after, "waiting": waiting, "gone": gone, "listed": 3}
        for name, before, after, waiting, gone in (
            ("a", 5, 2, 0, False),
            ("b", 0, 3, 2, False),
            ("c", 4, 3, 0, False),
            ("gone", 1, 0, 0, True),
        )
    ]
    moves = [
        {"from_member_id": from_member, "to_member_id": to_member, "reason": reason, "partitions": partitions}
        for from_member, to_member, reason, partitions in (
            ("a", "b", "over-quota", 2),
            ("a", "b", "rack-mismatch", 1),
            (OTHERS, "b", "over-quota", 1),
            ("gone", None, "topic-gone", 1),
        )
    ]
    seen = view("g1", row, members, moves)
    assert [(bar.name, bar.change) for bar in seen["bars"]] == [("b", "+5"), ("c", "-1"), ("a", "-3"), ("gone", "-1")]
    assert [bar.wide["after"] + bar.wide["waiting"] for bar in seen["bars"]] == [100, 60, 40, 0]
    assert seen["hidden"] == "1 more member has none, before and after."
    assert seen["reasons"] == "3 over-quota, 1 rack-mismatch, 1 topic-gone"
    assert seen["matrix"].columns == [("1", "b"), ("nobody", "nobody")]
    assert seen["matrix"].rows == [("3", "a", [3, 0], 3), ("4", "gone", [0, 1], 1), ("", "all others", [1, 0], 1)]


def test_loads_and_lags_by_group() -> None:
    """Groups with a known load, or a known lag of all partitions; a column of which nothing is known is left out."""
    plan = report_rows.plan(3)
    first, second, _ = plan.groups
    lags = [
        {"cluster": of["cluster"], "group_id": of["group_id"], "lag": lag, "lag_known": known, "partitions": partitions}
        for of, lag, known, partitions in ((first, 3, 2, 2), (first, 4, 1, 1), (first, None, 0, 0), (second, 5, 1, 2))
    ]
    table = _loads(replace(plan, who=GroupMembers(lags)))
    assert [name for name, _ in table.columns] == ["Group", "Assignor", "By count", "Lag"]
    assert [row[-1] for row in table.rows] == ["7"]
    loaded = dict.fromkeys(("load", "max_load_per_member", "drain_seconds"), 2.0) | {"load_max_over_mean": 1.5}
    table = _loads(replace(plan, groups=[first, second | loaded]))
    assert [name for name, _ in table.columns] == [
        *("Group", "Assignor", "Load/s", "Max/s", "Max/mean", "By count", "Drained in"),
    ]
    assert len(table.rows) == 1
    unknown = first | dict.fromkeys(loaded)
    table = _loads(replace(plan, groups=[unknown, second | loaded], who=GroupMembers(lags[:2])))
    assert [(row[2], row[-1]) for row in table.rows] == [("2", "–"), ("–", "7")]


def test_a_drawing_keeps_its_scale() -> None:
    """Half of the most that is not consumed is half as high, in every panel; the scale ends at a whole number."""
    panels = [drawings.TimePanel(name, [(0, 1000, level)], [(0, 500)], "x") for name, level in (("a", 3.5), ("b", 2.0))]
    drawn = str(drawings.draw_pauses(panels, "t", "Title", 9)).partition('<svg class="narrow"')[0]
    shapes = re.findall(r'd="M[\d.]+,[\d.]+h[\d.]+v([\d.]+)h-[\d.]+Z" fill="var\(--(\w+)\)"', drawn)
    assert [float(high) for high, kind in shapes if kind == "problem"] == pytest.approx([76 * 3.5 / 4, 38], abs=0.1)
    assert drawn.count(">4</text>") == 2
    assert [kind for _, kind in shapes].count("round") == 2
    assert drawn.index("a: x") < drawn.index("b: x")


def test_a_heat_map_has_whole_names() -> None:
    """In several lines, also on a phone; beyond five, a name ends with dots."""
    names = ["short", "prod-eu/team-checkout.payments-settlement-v2", "x" * 1_000, "v1.23456"]
    cells = [drawings.Cell(at, 0, 1, "1") for at in range(4)]
    for drawn in drawings.draw_heat_map(names, ["10:00"], cells, "h", "T", "r").split('<svg class="narrow"'):
        lines = re.findall(r">([^<>]+)</t(?:ext|span)>", drawn.partition("</desc>")[2])
        assert names[1] in "".join(lines)
        assert sum(set(line) == {"x"} for line in lines) == 4
        assert {"…", "v1.23456"} <= set(lines)


def test_charts_of_hostile_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """vl-convert ends the process for a character that XML can't have. Names that differ stay different."""
    import vl_convert

    render, specs = vl_convert.vegalite_to_svg, list[str]()

    def checked(spec: object) -> str:
        specs.append(json.dumps(spec, ensure_ascii=False))
        for found in re.findall(r'"labelExpr": ("\[.*?)\[datum.value\]"', specs[-1]):
            specs[-1] += json.dumps(json.loads(json.loads(f'{found}"')), ensure_ascii=False)
        assert not re.search("[^ -\ud7ff\ue000-\ufffd]|\\\\u00", specs[-1].replace("\\\\", ""))
        return str(render(spec))

    monkeypatch.setattr(vl_convert, "vegalite_to_svg", checked)
    names = ["\x00", "a\x07", "a\x08", "\x0b", "\x0c", "\x1b[2J", "\x7f", "\ufffe", "\uffff", "\ud800"]
    drawn = drawings.draw_heat_map(names, ["10:00"], [drawings.Cell(0, 0, 1, "1")], "h", "T", "r")
    assert all(f">{visible(name)}</t" in drawn for name in names)
    drawings.draw_line_series([drawings.LineSeries(name, [(0, 10)], name) for name in names], "l", "T", "u")
    drawings.draw_pauses([drawings.TimePanel(name, [(0, 9, 1)], [], name) for name in names], "t", "T", 9)
    drawings.draw_histogram([drawings.Bar(name, 1, 1) for name in names], "i", "T", "u")
    owned = {"partition": 0, "state": "consumed", "start_ms": 0, "end_ms": 9}
    rows = [{"topic": name, "member_id": name, "first_member_id": name, **owned} for name in names]
    data = GroupPictureData({"v": []}, {"v": 0}, {"v": []}, {"v": rows})
    draw_group(data, {"group_id": names[1], "partitions": len(rows)}, tmp_path, "a", "png")


def test_charts_follow_the_page() -> None:
    """No colour of their own, no font, no name space; and sound as HTML."""
    bars = [drawings.Bar("1.00", 3, 0), drawings.Bar("to 2.00", 1, 2)]
    lines = [drawings.LineSeries(name, [(0, 10), (9e6, 20)], "x") for name in ("a<b", "c")]
    for drawn in (
        drawings.draw_histogram(bars, "one", "T<", "groups"),
        drawings.draw_histogram([], "none", "T", "groups"),
        drawings.draw_line_series(lines, "two", "T", "time"),
        drawings.draw_line_series([], "three", "T", "time"),
        drawings.draw_pauses([], "four", "T", 0),
    ):
        assert not re.search(r"#[0-9a-f]{6}|xmlns|font-family|https?:", drawn)
        Page(drawn)
    assert "a&lt;b 20" in drawings.draw_line_series(lines, "two", "T", "time")


def test_charts_as_files(tmp_path: Path) -> None:
    """On white paper, in every format; another one is refused."""
    chart = charts.chart_of([{"x": 1}]).mark("bar", fill=charts.color("problem")).encode(x="x:Q")
    for kind, begins in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
        file = tmp_path / f"chart.{kind}"
        charts.write_chart(chart, str(file))
        assert file.read_bytes().startswith(begins)
    assert charts.ON_PAPER["problem"] in (tmp_path / "chart.svg").read_text()
    assert f"fill:{charts.IN_THE_DARK['problem']}" in (tmp_path / "chart.svg").read_text()
    assert "#fe00" not in (tmp_path / "chart.svg").read_text()
    with pytest.raises(ConfigError, match="svg, png or pdf"):
        charts.write_chart(chart, "chart.gif")


def test_a_picture_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file, and nothing of it stays. An earlier picture stays whole."""

    def fill(file: Path, content: bytes) -> int:
        file.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", fill)
    chart = charts.chart_of([{"x": 1}]).mark("bar").encode(x="x:Q")
    for kind in ("svg", "png", "pdf"):
        with pytest.raises(OSError, match=rf"No space left on device: '{tmp_path}/a.{kind}'"):
            charts.write_chart(chart, str(tmp_path / f"a.{kind}"))
    with pytest.raises(OSError, match=rf"No space left on device: '{tmp_path}/a.v.mmd'"):
        draw_group(GroupPictureData({"v": []}, {"v": 0}, {}, {}), {"group_id": "g"}, tmp_path, "a")
    assert not [*tmp_path.iterdir()]


def test_what_is_recommended_stands_beside_what_runs_now(full: str) -> None:
    """And not beside what was planned; that has a column only where it is another one."""
    planned_otherwise = '<td>range</td><td class="to">sticky</td><td>sticky</td><td>Java 3.4+'
    assert planned_otherwise in full, "runs with range, planned with sticky"
    everything = report_rows.everything()
    plan = everything["plan"]
    same = PlanRows(classes=plan.classes, groups=[{**plan.groups[0], "assignor": "range"}])
    text = render_report(same, comparison=everything["comparison"])
    assert '<td>range</td><td class="to">sticky</td><td>3</td>' in text
    assert ">Planned</th>" not in text


def test_by_whose_rules() -> None:
    """Of each group, and how surely; how many groups on the first page, with the remedy where a name would help."""
    one = report_rows.group(1, 2, 4, 0, 2)
    leaders = {
        "sticky@3.3": "Java 2.8-3.3 (likely)",
        **keyed("range='Java 3.4+ (sure)' sticky='kafka-python (likely)' roundrobin=None uniform=None"),
    }
    groups = [one | {"group_id": name, "assignor": name, "leader_client": leader} for name, leader in leaders.items()]
    rows = PlanRows(classes=report_rows.classes_of(groups), groups=groups, ruled=report_rows.ruled_of(groups))
    text = html.unescape(render_report(rows))
    assert "<td>sticky@3.3</td><td>Java 2.8-3.3 (likely), as 3.3</td>" in text
    assert "<td>sticky</td><td>today's Java, but led by kafka-python (likely)</td>" in text
    assert "<td>roundrobin</td><td>today's Java, leader not known</td>" in text
    assert "<td>uniform</td><td>the broker</td>" in text
    for kind in ("their leader, sure", "their leader, likely", "others than their leader", "the broker"):
        assert f'<tr><th scope="row">{kind}</th><td class="n">1</td><td class="n">4</td>' in text
    assert "plan --leader-client" in text
    known = [row for row in groups if row["assignor"] == "range"]
    rows = PlanRows(classes=report_rows.classes_of(known), groups=known, ruled=report_rows.ruled_of(known))
    assert "plan --leader-client" not in render_report(rows)
    assert "By the rules of" not in render_report(report_rows.plan(3)).partition("Rules that the plan follows")[0], (
        "none is known"
    )


def test_moved_and_revoked_are_one_number_if_equal() -> None:
    """Otherwise, the report has both numbers."""
    rows = report_rows.plan(3)
    assert "all are revoked from remaining members" in render_report(rows)
    classes = [{**row, "revoked": 1} for row in rows.classes]
    text = render_report(PlanRows(classes=classes, groups=[{**row, "revoked": 7} for row in rows.groups]))
    assert f"{len(classes)} are revoked from remaining members" in text
    assert "7 revoked" in text


def test_clusters_are_rolled_up() -> None:
    """A line each, with a filter; of one cluster neither."""
    rows = report_rows.plan(12)
    text = render_report(rows)
    assert 'id="clusters"' in text
    assert Page(text).elements["tr"] > 12
    assert text.count("<option>") == 5
    assert 'id="cluster' not in render_report(PlanRows(classes=rows.classes[:1], groups=rows.groups[:1]))


def test_rejected_groups_without_a_cluster_are_rolled_up() -> None:
    """They count under a dash, also if their line ties with that of a named cluster."""
    refused = [{"cluster": name, "group_id": "g", "code": "x", "detail": "y"} for name in ("c", None)]
    text = render_report(PlanRows(classes=[], groups=[], rejected=refused, rejected_total=2))
    table = text[text.index("By cluster") :].partition("</table>")[0]
    assert re.findall(r'<th scope="row"[^>]*>([^<]*)</th>', table) == ["–", "c"]


def test_partitions_without_traffic(full: str) -> None:
    """Told of the group and of each member, where offsets are known; else nothing is said of it."""
    assert "3 without traffic" in full
    assert "3 partitions without traffic" in full
    assert '<span class="silent"' in full
    assert "without traffic" not in render_report(report_rows.plan(3))


def test_mixing_assignors_is_advised_only_with_a_word_on_clients(full: str) -> None:
    """The way is the one of `groups.kernel.client_libraries`, and what holds for every client stands above it."""
    text = html.unescape(full)
    assert "work with Java and franz-go clients only" in text
    assert report_rows.WAY.text in text
    assert "The clients, by their client IDs: Java 3." in text


def test_what_hurts() -> None:
    """Partitions without owner, and what the fullest member has too much; not what cannot be more even."""
    row = report_rows.group(1, 8, 5, 0, 1)
    assert row["max_over_mean"] == 1.6
    assert (over_share(row), num_unowned(row)) == (0, 0)
    row = report_rows.group(1, 5, 85, 58, 26, unassigned=4, withheld=3)
    assert (over_share(row), num_unowned(row)) == (9, 1)


def test_notes_are_on_the_page() -> None:
    """Of the plan, of a comparison, of Connect, and of advice; beside them the balance of both rounds and per topic."""
    page = Page(render_report(**report_rows.everything()))
    texts = " ".join(page.texts)
    assert texts.count("one member has 5 of 6 of orders-service") == 2
    assert "orders-service waits" in texts
    assert texts.count("Now idle because of orders-service.") == 3
    assert {"1.67 → 1.00", "2.50"} <= {text.strip() for text in page.texts}


def test_a_plan_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals and the worst groups; names do nothing."""
    rows = report_rows.plan(3).groups
    totals = {name: sum(row[name] for row in rows) for name in SUMS} | {"groups": 3}
    refused = [{"cluster": "c", "group_id": name, "code": "x", "detail": f"{HOSTILE}\u202e\ny"} for name in ("f", "g")]
    monkeypatch.setattr(notebook, "_read_worst", lambda plan, top: (totals, rows[:top], refused))
    view_ = notebook.plan_html(None, 2)  # type: ignore[arg-type]
    assert Page(view_).elements["tr"] == 3
    assert Page(view_).elements["script"] == 0
    assert "\u202e" not in view_


def test_numbers_in_words() -> None:
    """A part is not rounded to nothing or all."""
    parts = {0: "0 %", 1: "under 1 %", 5: "under 1 %", 6: "1 %", 500: "50 %", 999: "over 99 %", 1000: "100 %"}
    assert {part: share(part, 1000) for part in parts} == parts
    assert (number(1234), number(None)) == ("1,234", "–")
    uuid = "0e621b46-9289-4bb2-b7a7-d7dc7636cd19"
    assert short_names({f"a-{uuid}", "b"}) == {f"a-{uuid}": "a", "b": "b"}
    assert short_names({f"a-{uuid}", "a"}) == {f"a-{uuid}": f"a-{uuid}", "a": "a"}
    unchanged = {"a", f"a-{uuid}", f"a-{uuid}-{uuid}"}
    assert short_names(unchanged) == {each: each for each in unchanged}, "two of them became one"


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else math.pow((part + 0.055) / 1.055, 2.4) for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """As WCAG defines it."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def mixed(colour: str, ground: str, part: float) -> str:
    """`color-mix(in srgb, …)` of a colour on its ground."""
    pairs = [(int(colour[at : at + 2], 16), int(ground[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(a * part + b * (1 - part)):02x}" for a, b in pairs)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_contrast_is_enough(scheme: int) -> None:
    """WCAG AA: 4.5 for text on every ground that it stands on, 3 for what drawings consist of."""
    block = re.findall(r":root \{(.*?)\}", _file("style.css"), re.DOTALL)[scheme]
    colour = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
    for ground in ("page", "raised"):
        for text in ("text", "quiet", "link"):
            assert contrast(colour[text], colour[ground]) >= 4.5, (text, ground)
    hottest = mixed(colour["heat-of"], colour["page"], 0.48)
    assert contrast(colour["text"], hottest) >= 4.5
    if scheme == 0:
        assert colour | charts.ON_PAPER == colour, "a picture on paper has the page's colours"
    assert charts.ON_PAPER.keys() <= colour.keys()
    hottest = mixed(colour["problem"], colour["page"], 0.42)
    assert contrast(colour["text"], hottest) >= 4.5
    assert contrast(colour["problem"], colour["raised"]) >= 3, "a large number"
    for drawn in ("is", "was", "waits", "calm-edge", "problem", "round", "second", "quiet"):
        assert contrast(colour[drawn], colour["page"]) >= 3, drawn
