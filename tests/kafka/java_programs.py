"""The programs of tests/kafka/java: compiled once for each class path, kept in the cache folder, then run."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.kafka import fetched
from tests.runner import tools

SOURCES = Path(__file__).parent / "java"
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a JVM that answers some questions and ends: it takes a third less of a processor."""
KEYTOOL = ("keytool", *(f"-J{option}" for option in SHORT_LIVED))
"""The program keytool, with the options of a JVM that lives shortly."""
_COMPILER = ("-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn", "-proc:none")
"""By its module and not by `javac`, so that the compiler is that of the `java` which runs the program."""
_HANGS = 600


def command(program: str, class_path: str, *arguments: object, options: Sequence[str] = SHORT_LIVED) -> list[str]:
    """Returns the command that runs a program, which is compiled unless an earlier run has compiled it."""
    path = f"{_compiled(program, class_path)}{os.pathsep}{class_path}"
    package = re.match(r"package (.+);", (SOURCES / f"{program}.java").read_text())
    return ["java", *options, "-cp", path, f"{package[1]}.{program}" if package else program, *map(str, arguments)]


# Without the last option Java leaves out the messages of exceptions that it throws often.
_ANSWERING = (*SHORT_LIVED, "-XX:-OmitStackTraceInFastThrow")


def answers(program: str, questions: Iterable[Any], class_path: str, options: Sequence[str] = _ANSWERING) -> list[Any]:
    """Returns what a program answers to each question, all as JSON.

    Raises RuntimeError with Java's own words if the program fails or does not answer every question.
    """
    # Python's JSON escapes all that is not ASCII, so that texts reach Java whatever the locale is.
    lines = [json.dumps(question) for question in questions]
    with tempfile.TemporaryFile() as standard_input:
        standard_input.write("".join(f"{line}\n" for line in lines).encode())
        standard_input.seek(0)
        done = subprocess.run(
            command(program, class_path, options=options),
            stdin=standard_input,
            capture_output=True,
            check=False,
            timeout=_HANGS,
        )
    answered = [json.loads(line) for line in done.stdout.decode().splitlines()]
    if done.returncode != 0 or len(answered) != len(lines):
        errors = done.stderr.decode(errors="replace")[-2000:]
        raise RuntimeError(f"{program} answered {len(answered)} of {len(lines)} questions:\n{errors}")
    return answered


@cache
def _compiled(program: str, class_path: str) -> Path:
    source = SOURCES / f"{program}.java"
    java = Path(fetched.need(tools.JAVA)).resolve()
    mark = hashlib.sha256(b"\0".join([source.read_bytes(), class_path.encode(), bytes(java)])).hexdigest()[:16]
    folder = fetched.cache() / "programs" / f"{program}-{mark}"
    with fetched.filling(folder) as classes:
        if classes:
            _compile(source, class_path, classes)
    return folder


def _expanded(class_path: str) -> Iterator[str]:
    for part in class_path.split(os.pathsep):
        yield from sorted(glob.glob(f"{part}.jar")) if part.endswith("*") else [part]


def _compile(source: Path, class_path: str, classes: Path) -> None:
    # Only the launchers `java` and `javac` know "folder/*".
    jars = os.pathsep.join(_expanded(class_path))
    compiler = ["java", *SHORT_LIVED, *_COMPILER, "-cp", jars, "-d", str(classes), str(source)]
    done = subprocess.run(compiler, capture_output=True, text=True, check=False)
    if "jdk.compiler not found" in done.stderr + done.stdout:
        raise fetched.UnavailableError("it has no compiler (it isn't a JDK)", tools.JAVA)
    if done.returncode != 0:
        raise RuntimeError(f"{source.name} does not compile:\n{done.stderr[-2000:]}")
