"""Every command and every Python block of the README and of docs/ runs, in the order of its page, as is shown there.

A page has a folder of its own, with what `given.fill` puts there. What no page can run here is named in `homes`.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs import plan as plan_job
from spark_assign import Fleet
from spark_assign.groups import planning
from spark_assign.report import charts
from spark_assign.spark.engine import is_embedded
from spark_assign.tables.groups import INPUT_TABLES
from tests.docs import given, homes, rewrite, shown
from tests.docs.pages import ROOT, Step, pages, steps
from tests.docs.pictures import PICTURES, of_report
from tests.docs.recalled import recalled
from tests.docs.terminal import Line, terminal

pytestmark = [pytest.mark.spark, pytest.mark.once, pytest.mark.keeps_cached]

SAMPLE_PLAN = ("./spark-assign plan", "./spark-submit.sh plan")
"""The first command of all; tests/e2e runs it as it stands. Here it runs once for all pages."""


@dataclass(frozen=True)
class Sample:
    """The sample fleet planned: the folder it was written to, and what was printed."""

    output: Path
    printed: list[Line]


@pytest.fixture(scope="module", autouse=True)
def _computed_once() -> Iterator[None]:
    with recalled():
        yield


@pytest.fixture(scope="module")
def sample(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """SAMPLE_PLAN, as if the clone were another folder."""
    folder = tmp_path_factory.mktemp("clone")
    given.fill(folder)
    with pytest.MonkeyPatch.context() as patch, terminal() as seen:
        patch.setattr(plan_job, "SETTINGS", folder / "conf" / "plan.toml")
        patch.chdir(folder)
        before = work_in(spark, str(folder))
        code = plan_job.main([])
        work_in(spark, before)
    assert code == 0, str(seen)
    return Sample(folder / "output", seen.lines)


@pytest.fixture(scope="module")
def fleet(spark: SparkSession) -> Fleet:
    """The sample fleet, looked over once for all pages."""
    return given.sample_fleet(spark)


def run_here(page: Path) -> list[Step]:
    """The steps of a page that run here; a command that several pages have runs on one of them."""
    here = [step for step in steps(page) if homes.home(step) == homes.HERE]
    everywhere = [step.language != "sh" or step.text == homes.ENDED for step in here]
    return [step for step, its in zip(here, everywhere, strict=True) if its or homes.page_of(step.text) == step.page]


@pytest.mark.parametrize("page", [page for page in pages() if run_here(page)], ids=lambda page: page.name)
def test_what_a_page_tells_to_run(
    page: Path,
    spark: SparkSession,
    fleet: Fleet,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One step after the other, in one folder and one namespace."""
    given.fill(tmp_path)
    monkeypatch.chdir(tmp_path)
    request.addfinalizer(partial(work_in, spark, work_in(spark, str(tmp_path))))
    monkeypatch.setattr(planning, "_registered", {})
    found = run_here(page)
    sample: Sample | None = None
    if any("output/" in step.text or step.text in SAMPLE_PLAN for step in found) or found[0].page in given.STORED:
        sample = request.getfixturevalue("sample")
        shutil.copytree(sample.output, tmp_path / "output")
    names = given.names(spark, found[0].page, fleet) if any(step.language == "python" for step in found) else {}
    code, parted = 0, []
    for step in found:
        assert code == 0 or step.text == homes.ENDED, f"{step}\nthe command before it ended with exit code {code}"
        if step.language == "python":
            parted += run_python(step, names)
        elif step.text == homes.ENDED:
            assert step.shown == (str(code),), f"{step}\nexit code {code}"
            code = 0
        elif step.words[0] == "cat":
            Path(step.words[1]).write_text("\n".join(step.shown) + "\n")
        else:
            code, printed = (0, sample.printed) if sample and step.text in SAMPLE_PLAN else run_command(step)
            wrong = shown.lost(step.shown, printed) if step.shown else None
            all_of_it = "\n".join(line.text for line in printed)
            if wrong:
                rewrite.rewrite(step, rewrite.printed_lines(step.shown, printed))
                parted.append(f"{step}\nthe page has: {wrong}\nall of it:\n{all_of_it}")
            assert code == 0 or step.shown, f"{step}\nexit code {code}\n{all_of_it}"
    assert code == 0, f"the last command of {page.name} ended with exit code {code}"
    assert not parted, "\n\n".join(parted)
    for name in re.findall(r"!\[[^]]*\]\(([\w.-]+\.svg)\)", page.read_text()):
        if name in PICTURES:
            continue
        drawn = [file.read_text(encoding="utf-8") for file in tmp_path.glob(f"*/{name}")]
        ident = name.removesuffix(".svg").rpartition("-")[2]
        reports = [file.read_text(encoding="utf-8") for file in sorted(tmp_path.rglob("*.html"))]
        drawn = drawn or [of_report(text, ident) for text in reports if f'"{ident}-t"' in text]
        if os.environ.get(rewrite.VARIABLE):
            (page.parent / name).write_text(drawn[0], encoding="utf-8")
        shown_there = (page.parent / name).read_text(encoding="utf-8")
        assert labels(drawn[0]) == labels(shown_there), f"{name} isn't what the commands of {page.name} draw"


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_of_what_pages_say(name: str, tmp_path: Path) -> None:
    """They are what `python -m tests.docs.pictures` draws."""
    charts.write_chart(PICTURES[name](), str(tmp_path / name))
    drawn, there = (labels((folder / name).read_text(encoding="utf-8")) for folder in (tmp_path, ROOT / "docs"))
    assert drawn == there


def labels(drawing: str) -> list[tuple[str, ...]]:
    """The texts and the shapes of a drawing; their places depend on the fonts of a machine."""
    return re.findall(r'aria-label="([^"]*)"|<text[^>]*>([^<]*)|<(path|rect) ', drawing)


def work_in(spark: SparkSession, folder: str) -> str:
    """Let the JVM take relative paths from there, as one does that is started there; where it took them from before.

    The embedded engine takes them from the folder of this process.
    """
    if is_embedded(spark):
        return folder
    hadoop = spark._jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(spark._jsc.hadoopConfiguration())
    before = files.getWorkingDirectory().toString()
    files.setWorkingDirectory(hadoop.Path(folder))
    return str(before)


def run_command(step: Step) -> tuple[int, list[Line]]:
    """Exit code of a job or a command of the shell, and what a terminal has then."""
    if step.words[0] in homes.LOOKS:
        done = subprocess.run(["bash", "-c", step.text], capture_output=True, text=True, check=False)
        return done.returncode, [Line(line) for line in (done.stdout + done.stderr).splitlines()]
    with terminal() as seen:
        code = homes.import_main(homes.job(step))(homes.arguments(step))
    return code, seen.lines


COLUMNS = re.compile(r"#\s+([a-z_]+(?:, [a-z_]+)+)$")
"""A comment that is nothing but names: the columns of what stands before it."""


def run_python(step: Step, names: dict[str, Any]) -> list[str]:
    """Run a block, and compute each table that it speaks of; its last expression gives or prints what the page shows.

    Returns:
        where page and block part.
    """
    parted = []
    tree = ast.parse(step.text, str(step))
    for statement in tree.body:
        alone = ast.Module([statement], [])
        if not isinstance(statement, ast.Expr):
            exec(compile(alone, str(step), "exec"), names)
            continue
        with terminal() as seen:
            value = eval(compile(ast.Expression(statement.value), str(step), "eval"), names)
        columns = COLUMNS.search(step.text.splitlines()[statement.end_lineno - 1])
        if columns:
            same = value.columns == columns[1].split(", ")
            parted += [] if same else [f"{step}\n{ast.unparse(statement)}: the columns are {value.columns}"]
        if statement is not tree.body[-1]:
            compute(value)
            continue
        ordered = re.search(r"\.(orderBy|sort)\(", ast.unparse(statement)) is not None
        wrong = (
            shown.lost(step.shown, seen.lines) if value is None else shown.differs(step.shown, value, ordered=ordered)
        )
        if wrong:
            rewrite.rewrite(step, shown_lines(step.shown, value, seen.lines))
            parted.append(f"{step}\n{wrong}")
    return parted


def shown_lines(before: Sequence[str], value: Any, printed: Sequence[Line]) -> list[str]:
    """Returns what a page should show under a Python block."""
    if value is None:
        return rewrite.printed_lines(before, printed)
    if hasattr(value, "collect"):
        rows = [[shown.cell_text(each) for each in row] for row in value.collect()]
        return rewrite.table_lines(before, value.columns, rows)
    return str(value).split("\n")


def compute(value: Any) -> None:
    """Compute what a block speaks of and does not show: a table, several, or those of a fleet."""
    if isinstance(value, tuple):
        for each in value:
            compute(each)
    elif isinstance(value, DataFrame) or hasattr(value, "collect"):
        value.collect()
    elif isinstance(value, Fleet):
        tables = [getattr(value, name) for name in INPUT_TABLES if getattr(value, name) is not None]
        reduce(DataFrame.union, [table.select(F.count(F.lit(1))) for table in tables]).collect()
