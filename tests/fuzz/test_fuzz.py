"""Whatever is read, no mutation ends a command but by the errors that its reader declares, in bounded time and memory.

`SPARK_ASSIGN_FUZZ_S` is the processor time of all targets together, in seconds. A failure prints the file to add to
`corpus/TARGET`, from which `test_what_was_found` repeats it.
"""

from __future__ import annotations

import os
import random
import resource
import tempfile
import time
import unicodedata
from pathlib import Path

import pytest

from spark_assign.report.formatting import visible
from tests.fuzz.mutations import mutated
from tests.fuzz.targets import TARGETS
from tests.sizes import drawn

CORPUS = Path(__file__).parent / "corpus"
SECONDS = float(os.environ.get("SPARK_ASSIGN_FUZZ_S") or drawn(15, 3_600)) / len(TARGETS)
"""Processor time of one target, in seconds."""
MAX_SECONDS = 5.0
MAX_BYTES = 1 << 30
"""Bounds of one input of at most a megabyte: processor time, and growth of the process."""
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of characters that a terminal obeys instead of showing them."""
MAX_CHARACTERS = 40_000
"""Maximum length of an error, which can list many faults."""


def check(name: str, data: bytes, folder: Path) -> None:
    """Reads data, and fails if it costs too much, or ends by another error than a declared one."""
    target = TARGETS[name]
    start_s, start_kb = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        texts = [text for text in target.read(data, folder) or () if text is not None]
    except target.errors as error:
        texts = [str(error)]
    assert time.process_time() - start_s < MAX_SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start_kb) << 10 < MAX_BYTES
    for text in texts:
        assert text, "an error without a text"
        assert target.is_trusted or len(text) < MAX_CHARACTERS
        shown = visible(text)
        assert not {unicodedata.category(each) for each in shown if each not in "\n\t"} & HIDDEN
        lines = text.split("\n")[1:]
        assert target.is_trusted or all(line.startswith("  ") for line in lines), "an input fakes a line"


@pytest.mark.parametrize("name", TARGETS)
def test_mutations(name: str, seed: int, tmp_path: Path) -> None:
    """Valid data, changed at random."""
    chance, seeds = random.Random(seed), TARGETS[name].seeds()
    for data in seeds:
        check(name, data, tmp_path)
    end, latest = time.process_time() + SECONDS, time.monotonic() + 1.1 * SECONDS
    while time.process_time() < end and time.monotonic() < latest:
        data = mutated(chance, chance.choice(seeds), seeds)
        try:
            check(name, data, tmp_path)
        except BaseException as error:
            with tempfile.NamedTemporaryFile(prefix=f"{name}-", delete=False) as file:
                file.write(data)
            pytest.fail(f"{file.name}: {type(error).__name__}: {str(error)[:300]}")


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*/*")), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_what_was_found(file: Path, tmp_path: Path) -> None:
    """What mutations have found before."""
    check(file.parent.name, file.read_bytes(), tmp_path)
