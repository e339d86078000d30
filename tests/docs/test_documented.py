"""Every command and every Python block of the README and of docs/ runs, in the order of its page, as is shown there.

A page has a folder of its own, with what `given.fill` puts there. What no page can run here is named in `homes`.
"""

from __future__ import annotations

import ast
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import plan as plan_job
from spark_assign import Fleet
from spark_assign.assignors import registry
from tests.docs import given, homes, shown
from tests.docs.pages import Step, pages, steps

pytestmark = [pytest.mark.spark, pytest.mark.once, pytest.mark.keeps_cached]

SAMPLE_PLAN = "./spark-submit.sh plan"
"""The first command of all; tests/e2e runs it as it stands. Here it runs once for all pages."""


@dataclass(frozen=True)
class Sample:
    """The sample fleet planned: the folder it was written to, and what was printed."""

    output: Path
    printed: str


@pytest.fixture(scope="module")
def sample(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """SAMPLE_PLAN, as if the clone were another folder."""
    folder = tmp_path_factory.mktemp("clone")
    given.fill(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_job, "SETTINGS", folder / "conf" / "plan.toml")
        said: list[str] = []
        patch.setattr("builtins.print", lambda *words, **_: said.append(" ".join(map(str, words))))
        assert plan_job.main([]) == 0
    return Sample(folder / "output", "\n".join(said))


@pytest.fixture(scope="module")
def fleet(spark: SparkSession) -> Fleet:
    """The sample fleet, looked over once for all pages."""
    return given.sample_fleet(spark)


def run_here(page: Path) -> list[Step]:
    """The steps of a page that run here; a command that several pages have runs on one of them."""
    here = [step for step in steps(page) if homes.home(step) == homes.HERE]
    return [step for step in here if step.language != "sh" or homes.page_of(step.text) == step.page]


@pytest.mark.parametrize("page", [page for page in pages() if run_here(page)], ids=lambda page: page.name)
def test_what_a_page_tells_to_run(
    page: Path,
    spark: SparkSession,
    sample: Sample,
    fleet: Fleet,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One step after the other, in one folder and one namespace."""
    given.fill(tmp_path)
    shutil.copytree(sample.output, tmp_path / "output")
    monkeypatch.chdir(tmp_path)
    request.addfinalizer(partial(work_in, spark, work_in(spark, str(tmp_path))))
    monkeypatch.setattr(registry, "_registered", {})
    found = run_here(page)
    if any(given.in_catalog(line) != line for step in found for line in (step.text, *step.shown)):
        given.catalog(spark, fleet)
    names = given.names(spark, found[0].page, fleet) if any(step.language == "python" for step in found) else {}
    for step in found:
        caplog.clear()
        if step.language == "python":
            run_python(step, names)
        elif step.language == "mermaid":
            assert step.text in [file.read_text().strip() for file in tmp_path.glob("*/*.mmd")], f"{step} was not drawn"
        elif step.words[0] == "cat":
            Path(step.words[1]).write_text("\n".join(map(given.in_catalog, step.shown)) + "\n")
        else:
            printed = sample.printed if step.text == SAMPLE_PLAN else run_job(step, capsys, caplog)
            gone = shown.lost(step.shown, printed)
            assert gone is None, f"{step}\nthis is not printed, or not in this place:\n{gone}\nprinted:\n{printed}"
        capsys.readouterr()


def work_in(spark: SparkSession, folder: str) -> str:
    """Let the JVM take relative paths from there, as one does that is started there; where it took them from before."""
    hadoop = spark._jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(spark._jsc.hadoopConfiguration())
    before = files.getWorkingDirectory().toString()
    files.setWorkingDirectory(hadoop.Path(folder))
    return str(before)


def run_job(step: Step, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> str:
    """What the job prints; it ends with exit code 0."""
    arguments = [given.in_catalog(word) for word in homes.arguments(step)]
    try:
        code = homes.import_main(homes.job(step))(arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    said = capsys.readouterr()
    assert code == 0, f"{step}\nexit code {code}\n{said.out}{said.err}{caplog.text}"
    return said.out


def run_python(step: Step, names: dict[str, Any]) -> None:
    """Run a block; its last expression gives what the page shows."""
    tree = ast.parse(given.in_catalog(step.text), str(step))
    last = tree.body.pop() if step.shown and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(step), "exec"), names)
    if last is not None:
        assert isinstance(last, ast.Expr)
        value = eval(compile(ast.Expression(last.value), str(step), "eval"), names)
        wrong = shown.differs(step.shown, value)
        assert wrong is None, f"{step}\n{wrong}"
