"""How pages are read, and what holds for all of them without running anything."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import homes, shown
from tests.docs.pages import ROOT, pages, steps

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
OF_OTHERS = (
    "--alter",
    "--replica-assignment",
    "--members",
    "--state",
    "--no-deps",
    "--wheel-dir",
    "--spark",
    "--repeats",
)

PAGE = """
# A page
```sh
./spark-submit.sh plan     # says so
./spark-submit.sh compare --fleet ./fleet \\
    --change 'a b=leave:*:1'
```
```
$ cat x.csv
a,b
1,2
$ spark-assign-plan --config x.toml
Plan 20260101T000000Z: 3 groups
  …
```
```
what no command prints
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
    assert lines == {*((line, "sh") for line in (4, 5, 9, 12, 33)), (20, "python")}
    plan, compare, cat, script, python, listed = found
    assert listed.text == "pip install x"
    assert plan.words == ["./spark-submit.sh", "plan"]
    assert compare.words[2:] == ["--fleet", "./fleet", "--change", "a b=leave:*:1"]
    assert (cat.text, cat.shown) == ("cat x.csv", ("a,b", "1,2"))
    assert (homes.job(script), homes.arguments(script)) == ("plan", ["--config", "x.toml"])
    assert (python.text, python.shown) == ("x = 1\nx", ("1",))


@pytest.mark.parametrize(
    ("text", "message"),
    [("```fortran\nend\n```\n", r"page.md:2: a block of 'fortran'"), ("```sh\n", "begins in line 1 does not end")],
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


@pytest.mark.parametrize(
    ("line", "printed", "same"),
    [
        ("Plan 20260101T000000Z: 3", "before\nPlan 20270202T111111Z: 3\n", True),
        ("written to /…/plan in 12.4 s", "written to /tmp/x/plan in 3.0 s", True),
        ("3 groups", "13 groups", False),
        ("02:31:53 read 3 brokers", "", True),
    ],
)
def test_what_counts_as_shown(line: str, printed: str, same: bool) -> None:
    """Times may differ, `…` is anything, progress does not count; all else has to be there."""
    assert shown.lost((line,), printed) == (None if same else line)


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
    inline = re.findall(r"`(\./spark-submit\.sh [^`]+)`", text)
    assert [each for each in inline if not each.endswith(("--help", "…", "my_job.py"))] == []


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


def test_options_that_the_pages_name_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """An option in a sentence or a table is a job's, the launcher's, or one of a tool that is not ours."""
    known = set(OF_OTHERS)
    for job in (file.stem for file in (ROOT / "jobs").glob("[!_]*.py")):
        for command in ([], ["place"], ["reassign"], ["check"]) if job == "replicas" else ([],):
            with pytest.raises(SystemExit):
                homes.import_main(job)([*command, "--help"])
            known |= set(OPTION.findall(capsys.readouterr().out))
    known |= set(OPTION.findall((ROOT / "spark-submit.sh").read_text()))
    for page in pages():
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        named = {option for code in re.findall(r"`([^`]+)`", text) for option in OPTION.findall(code)}
        assert named <= known, f"{page.name}: {sorted(named - known)}"
