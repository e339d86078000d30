"""The list of faults that `mutation/faults` runs fits the code: each can be put in, and each named test exists."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from mutation import fault_list
from mutation.fault_list import Fault
from mutation.session import ROOT
from tests.cases import cases

FAULTS = fault_list.read()


@cache
def functions_of(file: Path) -> frozenset[str]:
    """Returns the names of the test functions of a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_fits_the_code(fault: Fault) -> None:
    """The changed text occurs once in its file, the changed file can be compiled, and the named tests exist."""
    assert fault.source != (ROOT / fault.file).read_text(encoding="utf-8")
    compile(fault.source, fault.file, "exec", dont_inherit=True)
    for test in fault.tests:
        file, _, function = test.partition("::")
        assert (ROOT / file).is_file(), test
        assert not function or function.partition("[")[0] in functions_of(ROOT / file), test


def test_every_job_has_a_fault() -> None:
    """So that no job can lose a flag or an exit code unnoticed."""
    jobs = {file.name for file in (ROOT / "jobs").glob("*.py") if not file.name.startswith("_")}
    assert jobs == {Path(fault.file).name for fault in FAULTS if fault.file.startswith("jobs/")}
    assert len(FAULTS) >= 60


@cases(
    "text problem",
    ('file = "f.py"\nold = "a"\nnew = "b"\nseen = ""\ntests = ["t"]', "expected file, name, new, old, seen, tests"),
    (
        'file = "spark_assign/numeric/arrays.py"\nold = "a"\nnew = "b"\nseen = "s"\ntests = ["t"]',
        "changes the kernels",
    ),
)
def test_an_incomplete_fault_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    """A fault without a sentence about what a user sees, and a fault in a kernel."""
    file = tmp_path / "faults.toml"
    file.write_text(f'[[fault]]\nname = "n"\n{text}\n')
    with pytest.raises(ValueError, match=problem):
        fault_list.read(file)
