"""The layers of the package: kernels without Spark, assignors without files, jobs without algorithms."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from tests import ratchet

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "spark_assign"
FORBIDDEN_CALLS = {"rdd", "sparkContext", "_jvm", "_jdf", "_jsparkSession", "toPandas"}

BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""The fields of a statement that hold statements: only these are imports looked for in, as expressions hold none."""


def sources(*folders: str) -> list[Path]:
    """All Python files under these folders."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def nodes(path: Path, *words: str) -> list[ast.AST]:
    """All of a file's tree, if it has one of these words."""
    text = path.read_text()
    return list(ast.walk(ast.parse(text, str(path)))) if re.search(rf"\b({'|'.join(words)})\b", text) else []


def imports(path: Path, *, for_types: bool = True) -> tuple[str, ...]:
    """Dotted names that a file imports, `from a import b` as a.b; with or without those that only type checkers see."""
    always, all_of_them = _imports(path)
    return all_of_them if for_types else always


@cache
def _imports(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Without those for type checkers, and with them. Trees are not kept: they would be millions of objects."""
    found: tuple[list[str], list[str]] = ([], [])
    parts: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text(), str(path)), False)]
    while parts:
        node, for_types = parts.pop()
        for_types |= isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        parts += [(child, for_types) for block in BLOCKS for child in getattr(node, block, ())]
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for some in found[for_types:]:
            some.extend(names)
    return tuple(found[0]), tuple(found[1])


def importing(paths: list[Path], *prefixes: str) -> list[str]:
    """Who of these files imports what it should not."""
    return [
        f"{path.relative_to(ROOT)}: {name}"
        for path in paths
        for name in imports(path)
        if any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)
    ]


RETIRED = (
    *("sheet", "giver", "taker", "at_peace", "crowded", "anew", "happenings", "laid", "everyone", "stretches"),
    *("unsure", "told", "asked"),
)
"""Words that names no longer have, in any case and as a part of a name; prose may."""

RETIRED_IN_TESTS = (*RETIRED, "said")
"""The same of the tests."""

LAYERS = (
    {"tables", "numeric"},
    {"java"},
    {"assignors"},
    {"spark", "wire"},
    {"stores"},
    {"fleet"},
    {"groups"},
    {"simulation", "connect", "share", "replicas"},
    {"streams"},
    {"comparison"},
    {"migration"},
    {"history", "advice"},
    {"sources", "report"},
    {"api"},
    {"cli"},
)
"""The rooms of the package, from the bottom up: a room imports only from layers below its own.

`migration` is above `comparison`, as its verdicts use the tolerances by which assignors are compared.
"""


def pure_sources() -> list[Path]:
    """All files that do not import Spark: kernels, assignors, and the rooms of arrays and of Java's orders."""
    rooms = ("numeric", "java", "assignors")
    kernels = [path for path in sources("spark_assign") if "kernel" in path.relative_to(PACKAGE).parts]
    return [*sources(*(f"spark_assign/{room}" for room in rooms)), *kernels]


def test_kernels_know_nothing_of_spark() -> None:
    """Pure NumPy, testable in milliseconds."""
    assert len(pure_sources()) > 100
    assert importing(pure_sources(), "pyspark") == []


def test_rooms_import_downward() -> None:
    """Each room imports only from the layers below, type-only imports included. The package fills `tables.views`."""
    level = {room: number for number, layer in enumerate(LAYERS) for room in layer}
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms == {*level, "__init__"}, "each room of the package has its place in LAYERS"
    modules = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in sources("spark_assign")}
    found = []
    for name, path in modules.items():
        room = name.partition(".")[0]
        for needed in imports(path) if room != "__init__" else ():
            below, _, rest = needed.removeprefix("spark_assign.").partition(".")
            if needed.startswith("spark_assign.") and below != room and level[below] >= level[room]:
                found.append(f"{name} -> {below}.{rest}")
    assert found == []


def test_tables_load_no_kernel() -> None:
    """`import spark_assign.tables.groups` loads pyarrow and Spark's types, and nothing else of the package."""
    check = (
        "import sys, spark_assign.tables.groups; print([name for name in sys.modules if name.startswith('spark_a')])"
    )
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout))
    assert {name for name in loaded if not name.startswith("spark_assign.tables")} == {"spark_assign"}


def test_assignors_know_nothing_of_files() -> None:
    """DataFrames in, DataFrames out."""
    outside = ("spark_assign.sources", "spark_assign.stores", "spark_assign.report", "spark_assign.cli", "jobs")
    assert importing([*pure_sources(), PACKAGE / "groups" / "windows.py"], *outside) == []


def test_the_package_does_not_know_its_jobs() -> None:
    """Jobs call the package, never the other way round."""
    assert importing(sources("spark_assign"), "jobs", "tests", "benchmarks", "mutation") == []


def test_only_jobs_are_commands() -> None:
    """What jobs share stands in the package, where they all find it; nothing of the package needs it."""
    others = [path for path in sources("spark_assign") if "cli" not in path.parts]
    assert importing(others, "spark_assign.cli.job", "spark_assign.cli.options") == []
    # The bar of progress is click's, where there is a terminal.
    assert importing([path for path in others if path.name != "progress.py"], "click") == []


def test_jobs_know_nothing_of_algorithms() -> None:
    """Parse, load, call, write."""
    kernels = sorted({".".join(path.parent.relative_to(ROOT).parts) for path in pure_sources()})
    registry = (
        f"spark_assign.groups.planning.{name}" for name in ("assignor_names", "custom_assignors", "find_assignor")
    )
    assert importing(sources("jobs"), *kernels, *registry) == []


TEXTS = re.compile(
    r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:[^"\\\n]+|\\.)*"|'(?:[^'\\\n]+|\\.)*'|\#[^\n]*""", re.DOTALL | re.VERBOSE
)
"""String literals and comments."""


def test_retired_names() -> None:
    """Kafka's terms took the place of these."""
    found = []
    for path in set(sources(*ratchet.COUNTED)) - {Path(__file__)}:
        retired = RETIRED if path.relative_to(ROOT).parts[0] in ("spark_assign", "jobs") else RETIRED_IN_TESTS
        names = sorted(set(re.findall(r"[^\W\d]\w*", TEXTS.sub(" ", path.read_text()))))
        found += [f"{path.relative_to(ROOT)}: {n}" for n in names if any(word in n.lower() for word in retired)]
    assert sorted(found) == []


def test_nothing_that_spark_connect_lacks() -> None:
    """No RDD, no JVM, no frame pulled to the driver as a whole."""
    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.attr}"
        for path in sources("spark_assign")
        for node in nodes(path, *FORBIDDEN_CALLS)
        if isinstance(node, ast.Attribute) and node.attr in FORBIDDEN_CALLS
    ] == []


def test_imports_run_in_one_direction() -> None:
    """No file imports itself by way of others: not inside of a function, nor for types only."""
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sources("spark_assign")}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    known = {
        name: {each if each in files else each.rpartition(".")[0] for each in imports(path)} & set(files)
        for name, path in files.items()
        if name != "spark_assign"
    }
    TopologicalSorter(known).prepare()


def test_no_module_has_the_name_of_a_public_function() -> None:
    """`import spark_assign.plan` would give the function, and what is patched or pickled by that name would be lost."""
    hidden = []
    for path in sources("spark_assign"):
        if path.name == "__init__.py":
            package = ".".join(path.relative_to(ROOT).parent.parts)
            modules = {each.stem for each in path.parent.iterdir()}
            hidden += [n for n in imports(path) if n.startswith(package) and n.rpartition(".")[2] in modules]
    assert hidden == []


def test_naming_the_package_loads_no_spark() -> None:
    """A command that needs none starts without it; the public names are there all the same."""
    check = "import sys, spark_assign.tables.errors; assert 'pyspark' not in sys.modules; import spark_assign as s; "
    check += "assert all(getattr(s, name).__name__ == name for name in s.__all__ if name != '__version__'), s.__all__"
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_core_does_not_bring_the_report_along() -> None:
    """Who plans loads no report; a plan that is to be shown does."""
    loaded = "[name for name in sys.modules if name.startswith('spark_assign.report')]"
    command = [sys.executable, "-c", f"import sys, spark_assign; print({loaded})"]
    assert subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout == "[]\n"


def test_jobs_start_without_the_extras() -> None:
    """Without libraries of the extras, each job can be called; a snapshot and a page say which extra they need."""
    optional = ["jinja2", "markupsafe", "vl_convert", "prometheus_client", "kafka", "cryptography"]
    check = f"""
import sys
import click
sys.modules.update(dict.fromkeys({optional}))
from jobs._entry import command
context = click.Context(command)
for name in command.list_commands(context):
    try:
        command.get_command(context, name)
    except click.UsageError as error:
        print(error.message)
from spark_assign.report.html import render_report
from spark_assign.tables.errors import ConfigError
try:
    render_report()
except ConfigError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=False)
    needs = [line.partition(", which isn't installed: ")[0] for line in done.stdout.splitlines()]
    assert needs == ["snapshot needs kafka-python", "a report needs jinja2"], done.stderr


def test_no_star_imports() -> None:
    """Every name says where it comes from."""
    star = re.compile(r"^\s*from\b.*\bimport\s*\*", re.MULTILINE)
    assert star.search("if True:\n    from a import *")
    assert [str(path) for path in sources(*ratchet.COUNTED) if star.search(path.read_text())] == []


def test_files_stay_small() -> None:
    """A file holds one idea, in at most 800 lines."""
    assert [str(path) for path in sources("spark_assign", "jobs") if len(path.read_text().splitlines()) > 800] == []


def test_unit_tests_never_start_spark() -> None:
    """Neither a session of their own nor the shared fixture."""
    found = []
    for path in sources("tests/unit"):
        for node in nodes(path, "spark", "SparkSession", "SparkContext"):
            if isinstance(node, ast.FunctionDef) and "spark" in {argument.arg for argument in node.args.args}:
                found.append(f"{path.name}: {node.name} takes the spark fixture")
            if isinstance(node, ast.Name) and node.id in ("SparkSession", "SparkContext"):
                found.append(f"{path.name}:{node.lineno}: {node.id}")
    assert found == []


def test_importing_configures_nothing_and_starts_nothing() -> None:
    """No session, no logging handler, no file."""
    modules = "spark_assign, spark_assign.stores.run_store, spark_assign.sources.files.tables"
    check = (
        f"import logging, sys, {modules}; from pyspark.sql import SparkSession; "
        "assert SparkSession.getActiveSession() is None; "
        "from pyspark import SparkContext; assert SparkContext._active_spark_context is None; "
        "assert logging.getLogger().handlers == []; assert logging.getLogger('spark_assign').handlers == []"
    )
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
