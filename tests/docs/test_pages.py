"""How pages are read, and what holds for all of them without running anything."""

from __future__ import annotations

import ast
import itertools
import logging
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.cases import cases
from tests.docs import homes, shown
from tests.docs.pages import ROOT, Step, blocks, claims_of, name_of, others, pages, steps
from tests.docs.terminal import Line, terminal
from tests.help_texts import texts

COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
OF_OTHERS = (
    *("--engine", "--repeats", "--resume", "--quick", "--page"),  # of the benchmarks
    *("--alter", "--replica-assignment", "--members", "--state", "--type", "--verify"),  # of Kafka's tools
    *("--replica-alter-log-dirs-throttle", "--describe", "--topic-list"),  # of Kafka's tools
    *("--no-deps", "--wheel-dir", "--spark"),
    *("--var", "--params"),  # of databricks bundle
    *("--sample", "--seed", "--budget", "--page"),  # of mutation/mutants
)

SOURCE = re.compile(r"(KIP|KAFKA)-\d+|#\d+|tests/[\w/.-]+\.(py|md)|[A-Z][a-z]+[A-Z]\w+")

NOT_FOR_USERS = {
    *("architecture", "benchmarks", "mutants", "rules-index", "threat-model"),
    *("commands", "reference", "tables"),  # generated
}
"""Pages for contributors, and references."""

PAGE = """
# A page
```sh
./spark-submit.sh plan     # says so
./spark-submit.sh compare --fleet ./fleet \\
    --what-if 'a b=leave:*:1'
```
```
$ cat x.csv
a,b
1,2
$ spark-assign plan --config x.toml
Plan 20260101T000000Z: 3 groups
  …
```
```
what no command prints
```
```toml
a = 1
```
```python
x = 1
x
```

```
1
```
Words.
```
2
```
1. In a list:
   ```
   pip install x
   ```
"""


def test_what_is_found_on_a_page(tmp_path: Path) -> None:
    """Commands with their continuation and their outcome, Python blocks with theirs, each with its line."""
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    found = steps(page)
    lines = {(step.line, step.language) for step in found}
    assert lines == {*((line, "sh") for line in (4, 5, 9, 12, 36)), (23, "python")}
    assert [each.lines for each in others(page)] == [["what no command prints"], ["a = 1"], ["2"]]
    plan, compare, cat, script, python, listed = found
    assert listed.text == "pip install x"
    assert plan.words == ["./spark-submit.sh", "plan"]
    assert compare.words[2:] == ["--fleet", "./fleet", "--what-if", "a b=leave:*:1"]
    assert (cat.text, cat.shown) == ("cat x.csv", ("a,b", "1,2"))
    assert (homes.job(script), homes.arguments(script)) == ("plan", ["--config", "x.toml"])
    assert (python.text, python.shown) == ("x = 1\nx", ("1",))


@cases(
    "text message",
    ("```fortran\nend\n```\n", r"page.md:2: a block of 'fortran'"),
    ("```sh\n", "begins in line 1 does not end"),
    ("```\nwhat is this\n$ ls\n```\n", "page.md:2: lines before the first command"),
)
def test_a_page_that_cannot_be_read(tmp_path: Path, text: str, message: str) -> None:
    """Nothing is passed over in silence."""
    (tmp_path / "page.md").write_text(text)
    with pytest.raises(ValueError, match=message):
        steps(tmp_path / "page.md")


def test_where_a_step_runs(tmp_path: Path) -> None:
    """By its program; nowhere with a reason; and what nobody knows is told apart."""
    page = tmp_path / "page.md"
    lines = ["./spark-submit.sh plan", "kafka-topics.sh --describe", "./spark-submit.sh --env yarn plan"]
    lines += ["databricks bundle run plan", "./spark-submit.sh plann", "curl http://x"]
    page.write_text("\n".join(["```sh", *lines, "```"]))
    places = [homes.HERE, homes.KAFKA, homes.LAUNCHER, homes.NOWHERE, "", ""]
    assert [homes.home(step) for step in steps(page)] == places


PRINTED = ["Plan 20270202T111111Z: 3", "", "Groups:", "  a  1", "  b  2", "  c  3", "written to /tmp/x/plan in 3.0 s"]
WHOLE = ["Plan 20260101T000000Z: 3", "Groups:", "  a  1", "  b  2", "  c  3", "written to /…/plan in 12.4 s"]


@pytest.mark.parametrize(
    "lines",
    [WHOLE, [*WHOLE[:3], "", "  …", *WHOLE[4:]], [*WHOLE[:2], "…"], ["…", *WHOLE[4:]], ["…", "  b  2", "…"]],
    ids=str,
)
def test_what_counts_as_shown(lines: list[str]) -> None:
    """Times may differ, a line `…` is any lines, one within a line is any text; empty lines do not count."""
    assert shown.lost(lines, map(Line, PRINTED)) is None


@pytest.mark.parametrize(
    ("lines", "parts_at"),
    [
        (WHOLE[:-1], "nothing more"),
        (WHOLE[1:], "'Groups:'"),
        ([*WHOLE[:3], *WHOLE[4:]], "'  c  3'"),
        ([*WHOLE[:2], "  b  2", "  a  1", *WHOLE[4:]], "'  b  2'"),
        ([*WHOLE[:3], *WHOLE[2:]], "'  a  1'"),
        ([*WHOLE[:3], " b  2", *WHOLE[4:]], "' b  2'"),
        (["Plan 20260101T000000Z: 13", "…"], "'Plan 20260101T000000Z: 13'"),
        ([*WHOLE, "…"], "more is left out"),
        ([*WHOLE, "more"], "'more'"),
        (["…", "  a  2", "…"], "'  a  2'"),
        (["…", "  b  2", "  a  1", "…"], "'  b  2'"),
        (["…", "  c  3"], "'  c  3'"),
    ],
    ids=str,
)
def test_what_does_not(lines: list[str], parts_at: str) -> None:
    """Whatever else is missing, is there besides, stands elsewhere or twice, or differs in a sign."""
    wrong = shown.lost(lines, map(Line, PRINTED))
    assert wrong is not None
    assert wrong.startswith(parts_at)


@cases(
    "line same", ("02:31:53 read 3 brokers in 2.1 s", True), ("02:31:53 read 4 brokers in 2.1 s", False), ("done", True)
)
def test_progress(line: str, same: bool) -> None:
    """It counts where a page shows it, all of it and but for the time; else only what is printed does."""
    with terminal() as seen:
        logging.getLogger("of.a.job").error("read %d brokers in %.1f s", 3, 17.3)
        print("done")
    assert (shown.lost([line, *(["done"] if line != "done" else [])], seen.lines) is None) is same
    assert str(seen).endswith(" read 3 brokers in 17.3 s\ndone")


class Table:
    """As much of a DataFrame as a page needs."""

    def __init__(self, *rows: tuple[object, ...]) -> None:
        self.columns = ["a", "b"]
        self.rows = rows

    def collect(self) -> list[tuple[object, ...]]:
        return list(self.rows)


BORDER, HEADER, X1, Y2, REST = "+-+----+", "|a|b   |", "|x|true|", "|y|NULL|", "…"
TABLE = Table(("x", True), ("y", None), ("y", None))


@pytest.mark.parametrize(
    ("lines", "unordered", "ordered"),
    [
        ([BORDER, HEADER, BORDER, X1, Y2, Y2, BORDER], True, True),
        ([HEADER, X1, REST], True, True),
        ([HEADER, Y2, X1, Y2], True, False),
        ([HEADER, Y2, REST], True, False),
        ([HEADER, X1, Y2], False, False),
        ([HEADER, X1, X1, Y2, Y2], False, False),
        ([HEADER, X1, Y2, Y2, REST], False, False),
        (["|a|", "|x|", "|y|", "|y|"], False, False),
        (["|b|a|", "|true|x|", "|NULL|y|", "|NULL|y|"], False, False),
        ([HEADER, X1, Y2, Y2, "only showing top 3 rows"], False, False),
        ([], False, False),
    ],
    ids=str,
)
def test_rows_that_are_shown(lines: list[str], unordered: bool, ordered: bool) -> None:
    """All columns and all rows, each as often as it is there; in their order where the block sorts them."""
    assert (shown.differs(lines, TABLE) is None) is unordered
    assert (shown.differs(lines, TABLE, ordered=True) is None) is ordered


def test_a_text_that_is_shown() -> None:
    """The page may break its lines, and nothing else."""
    assert shown.differs(["moves from a", "to b …"], "moves from a to b at last") is None
    assert shown.differs(["moves from a"], "moves from a to b") is not None


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_block_is_compared(page: Path) -> None:
    """Each is a step, what a step gives that runs here, or read by a test by name; a Python block shows something."""
    there = [(name_of(page), each.lines[0]) for each in others(page)]
    unread = [(page, first) for page, first in there if not reader(page, first)]
    assert not unread, f"nothing compares these blocks; say in BLOCKS of tests/docs/homes.py what does: {unread}"
    found = steps(page)
    assert not [str(step) for step in found if step.shown and homes.home(step) != homes.HERE], "nothing compares them"
    blind = [step for step in found if step.language == "python" and not _shows(step)]
    assert not blind, f"these end without an expression or do not show what it gives: {list(map(str, blind))}"


def reader(page: str, first: str) -> str:
    """The test that reads a block that is no step; "" if none does."""
    found = (test for (of, pattern), test in homes.BLOCKS.items() if of == page and fnmatchcase(first, pattern))
    return next(found, "")


def _shows(step: Step) -> bool:
    return bool(step.shown) and isinstance(ast.parse(step.text).body[-1], ast.Expr)


def test_who_reads_a_block_does() -> None:
    """No entry without a block, and the test is there and names the page."""
    there = [(name_of(page), each.lines[0]) for page in pages() for each in others(page)]
    for (page, pattern), test in homes.BLOCKS.items():
        assert [first for of, first in there if of == page and fnmatchcase(first, pattern)], (page, pattern)
        assert page in (ROOT / test).read_text(), f"{test} does not read {page}"


def test_a_command_has_one_outcome() -> None:
    """It runs on one page, so that no other page may show another one."""
    outcomes: dict[str, set[tuple[str, ...]]] = {}
    for step in (step for page in pages() for step in steps(page) if step.language == "sh" and step.shown):
        if homes.job(step):
            outcomes.setdefault(step.text, set()).add(step.shown)
    got = {text: found for text, found in outcomes.items() if len(found) > 1}
    assert got == {text: found for text, found in outcomes.items() if "faulty" in text and len(found) == 2}


def test_user_pages_are_short() -> None:
    """Without comments, README has at most 80 lines, and each of at most 40 user pages 250 of 120 characters."""
    bodies = {page.stem: COMMENT.sub("", page.read_text()) for page in pages() if page.stem not in NOT_FOR_USERS}
    lengths = {name: len(text.splitlines()) for name, text in bodies.items()}
    assert lengths.pop("README") <= 80
    assert {name: lines for name, lines in lengths.items() if lines > 250} == {}
    assert len(lengths) <= 40
    shown = re.compile(r"^ *```.*?^ *```|^ *[|!].*?$|<[^>]*>|\]\(\S*\)", re.MULTILINE | re.DOTALL)
    prose = ((name, line) for name, text in bodies.items() for line in shown.sub("", text).splitlines())
    assert [each for each in prose if len(each[1]) > 120] == []


def test_rows_of_tables_are_whole() -> None:
    """Each has as many cells as the row above it: a merge can leave half of a row."""
    wrong = []
    for page in pages():
        text = re.sub(r"^ *```.*?^ *```|`[^`\n]*`|\\\|", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        lines = [line.strip() for line in text.splitlines()]
        rows = [(above, line) for above, line in itertools.pairwise(lines) if above[:1] == line[:1] == "|"]
        wrong += [(page.name, line) for above, line in rows if above.count("|") != line.count("|")]
    assert wrong == []


def test_claims_about_kafka_have_sources() -> None:
    """At least 80 claims, each as `claim: its KIP, ticket, class, or record` in a comment of its page.

    tests/kafka/classes/test_defaults.py looks the classes up, and has the defaults of settings besides.
    """
    claims = [(page.name, *claim.split(": ", 1)) for page in pages() for claim in claims_of(page)]
    unproven = [claim for claim in claims if len(claim) < 3 or not SOURCE.search(claim[2])]
    assert not unproven
    assert len(claims) >= 80


def test_tables_are_aligned() -> None:
    """The comparison with what is printed ignores widths, so a table that was edited by hand is found here."""
    for page in pages():
        for block in blocks(page.read_text()):
            drawn = [line for line in block.lines if line.startswith(("+-", "|"))]
            if drawn and drawn[0].startswith("+-"):
                assert len({len(line) for line in drawn if line != "|"}) == 1, f"{page.name}:{block.line}"


def test_each_table_has_a_header() -> None:
    """A blank line between its rows would end it."""
    for page in pages():
        text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert re.findall(r"(?:\A|\n)\n(\|.*\n)(?!\| *:?-)", text) == [], page.name


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_step_is_run_or_has_a_reason(page: Path) -> None:
    """A new command runs by itself, unless nothing here knows its program."""
    unknown = [str(step) for step in steps(page) if not homes.home(step)]
    assert not unknown, f"run it, or say in NOT_RUN of tests/docs/homes.py why it cannot run: {unknown}"
    assert not [str(step) for step in steps(page) if step.language == "sh" and "…" in step.text]


def test_no_reason_without_a_step() -> None:
    """What is not documented any more needs no excuse."""
    firsts = [step.text.partition("\n")[0] for page in pages() for step in steps(page)]
    assert [pattern for pattern in homes.NOT_RUN if not homes.matches(firsts, pattern)] == []


def test_commands_in_a_sentence_only_ask_for_help() -> None:
    """All others stand in a block of their own, where they are found and run."""
    text = "\n".join(re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL) for page in pages())
    inline = re.findall(r"`(\./spark-(?:submit\.sh|assign) [^`]+)`", text)
    assert [each for each in inline if not each.endswith(("--help", "…", "JOB", "my_job.py"))] == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Files are there, and headings, by the name that they have in a link."""
    for target in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", page.read_text()):
        place, _, anchor = "".join(target).partition("#")
        if "://" in place:
            continue
        file = page.parent / place if place else page
        assert file.exists(), f"{page.name}: {place}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.M)
            assert anchor in {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}, target


def test_options_of_the_jobs_and_of_the_pages() -> None:
    """An option in a sentence or a table is a job's, the launcher's, or of another tool; each of a job is in one."""
    helped = "\n".join(text for _, text in texts())
    known = {*OF_OTHERS, *OPTION.findall(helped), *OPTION.findall((ROOT / "spark-submit.sh").read_text())}
    named: dict[str, set[str]] = {}
    for page in pages():
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        named[page.stem] = {option for code in re.findall(r"`([^`]+)`", text) for option in OPTION.findall(code)}
    assert {page: options - known for page, options in named.items() if options - known} == {}
    explained = set().union(*(options for page, options in named.items() if page not in NOT_FOR_USERS))
    assert set(re.findall(r"^  (?:-\w, )?(--[a-z][a-z-]*[a-z])", helped, re.M)) - explained == set()
