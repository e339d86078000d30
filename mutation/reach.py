"""Which tests execute which line of the kernels, and how long they take: measured once, kept until a file changes."""

from __future__ import annotations

import ast
import functools
import gc
import hashlib
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mutation.session import FOLDERS, KERNELS, QUIET, ROOT, WithoutSpark, calm


@dataclass(frozen=True)
class Reach:
    """Tests by line.

    Attributes:
        seconds: of each test that executes a kernel, how long it took.
        tests: file (from the root) to line to the tests that execute it.
        at_import: file to the lines that run when it is imported.
    """

    seconds: dict[str, float]
    tests: dict[str, dict[int, list[str]]]
    at_import: dict[str, set[int]]

    def of_lines(self, file: str, lines: range) -> list[str]:
        """Tests that execute one of these lines, cheapest first."""
        return self._cheapest(test for line in lines for test in self.tests.get(file, {}).get(line, ()))

    def of_module(self, file: str) -> list[str]:
        """Tests that execute any function of a file or of one that imports it: a constant may show in either."""
        files = [file, *_importers(file)]
        return self._cheapest(test for each in files for tests in self.tests.get(each, {}).values() for test in tests)

    def _cheapest(self, tests: Iterator[str]) -> list[str]:
        return sorted(set(tests), key=lambda test: (self.seconds[test], test))


def fingerprint() -> str:
    """Of all that a verdict depends on: the code of the package, and the tests with what they read."""
    digest = hashlib.sha256()
    folders = [ROOT / "spark_assign", *(ROOT / folder for folder in (*FOLDERS, "tests/oracle")), ROOT / "tests"]
    for folder in folders:
        deep = folder != ROOT / "tests"
        for file in sorted(folder.rglob("*") if deep else folder.glob("*.py")):
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def measured(folder: Path) -> Reach:
    """What was measured for the files as they are; now, in a process of its own, if nothing was."""
    kept = folder / f"reach-{fingerprint()}.json"
    if not kept.exists():
        print("measuring which test executes which line (once, minutes) …", flush=True)
        child = os.fork()
        if not child:
            try:
                os._exit(_measure(kept))
            finally:
                os._exit(70)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            again = f"pytest {' '.join(FOLDERS)} -m 'not spark'"
            raise SystemExit(f"the tests fail without any mutant (exit {code}): {again}")
    content = json.loads(kept.read_text())
    return Reach(
        content["seconds"],
        {file: {int(line): tests for line, tests in lines.items()} for file, lines in content["tests"].items()},
        {file: set(lines) for file, lines in content["at_import"].items()},
    )


def _measure(kept: Path) -> int:
    import coverage

    calm()
    cover = coverage.Coverage(
        data_file=None, include=[f"{folder}/*" for folder in KERNELS], config_file=False, context="import"
    )
    cover.start()
    plugin = _Contexts(cover)
    code = pytest.main([*QUIET, *FOLDERS], plugins=[WithoutSpark(), plugin])
    cover.stop()
    if code:
        return int(code)
    data = cover.get_data()
    tests: dict[str, dict[int, list[str]]] = {}
    at_import: dict[str, list[int]] = {}
    for path in data.measured_files():
        file = str(Path(path).relative_to(ROOT))
        lines = data.contexts_by_lineno(path)
        # A context that coverage keeps is the static one and the test's name, with a bar between.
        named = {line: sorted({each.partition("|")[2] for each in those} - {""}) for line, those in lines.items()}
        tests[file] = {line: those for line, those in named.items() if those}
        at_import[file] = [line for line, those in lines.items() if "import" in those]
    reaching = {test for lines in tests.values() for those in lines.values() for test in those}
    seconds = {test: round(took, 4) for test, took in plugin.seconds.items() if test in reaching}
    content = {"seconds": seconds, "tests": tests, "at_import": at_import}
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(content))
    return 0


class _Contexts:
    """Names the running test to coverage; answers that were kept from an earlier test are thrown away."""

    def __init__(self, cover: object) -> None:
        self.cover, self.seconds, self._caches = cover, dict[str, float](), list[functools._lru_cache_wrapper]()

    def pytest_collection_finish(self) -> None:
        of_ours = (each for each in gc.get_objects() if isinstance(each, functools._lru_cache_wrapper))
        self._caches = [each for each in of_ours if each.__module__.split(".")[0] in ("tests", "spark_assign")]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        for cache in self._caches:
            cache.cache_clear()
        self.cover.switch_context(item.nodeid)  # type: ignore[attr-defined]
        begun = time.process_time()
        yield
        self.seconds[item.nodeid] = time.process_time() - begun
        self.cover.switch_context("")  # type: ignore[attr-defined]


@functools.cache
def _importers(file: str) -> tuple[str, ...]:
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return tuple(sorted(_imports_of_kernels()[module]))


@functools.cache
def _imports_of_kernels() -> dict[str, set[str]]:
    importers: dict[str, set[str]] = defaultdict(set)
    for path in sorted(path for folder in KERNELS for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{each.name}" for each in node.names)):
                    importers[name].add(str(path.relative_to(ROOT)))
    return importers


if __name__ == "__main__":
    measured(Path(sys.argv[1]))
