"""Consumers of every library that run with pasted lines: properties, statements, or source, as advice prints them.

A program for each library reads the lines from a file, except those of Go, which are compiled into one program. Each
consumer is a process, which closes it when its standard input ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.kafka import client_libraries, fetched, java_programs, maven
from tests.kafka.client_libraries import Running

PROGRAMS = Path(__file__).parent / "pasted"
GO = ("franz-go", "Sarama", "kafka-go")
_GO_CASES = {
    "franz-go": "end = franz([]kgo.Opt{{\n{}\n}})",
    "Sarama": "config := sarama.NewConfig()\n{}\nend = ibm(config)",
    "kafka-go": "end = segmentio(kafka.ReaderConfig{{\n{}\n}})",
}

Lines = tuple[str, ...]


def key_of(library: str, lines: Sequence[str]) -> str:
    """Returns the key of lines in the program in Go."""
    return hashlib.sha256("\n".join([library, *lines]).encode()).hexdigest()[:12]


def go_program(pasted: Iterable[tuple[str, Lines]]) -> Path:
    """Returns the program in Go with these lines of libraries; builds it. Raises UnavailableError."""
    cases = []
    for library, lines in dict.fromkeys(pasted):
        is_option = library == "franz-go"
        body = "\n".join(line if line.startswith("//") or not is_option else f"{line}," for line in lines)
        cases.append(f'case "{key_of(library, lines)}":\n{_GO_CASES[library].format(body)}')
    with tempfile.TemporaryDirectory() as folder:
        for name in ("go.mod", "go.sum"):
            shutil.copy(client_libraries.PROGRAMS / "go" / name, folder)
        source = (PROGRAMS / "pasted.go.txt").read_text().replace("CASES", "\n".join(cases))
        (Path(folder) / "main.go").write_text(source)
        return client_libraries.go_program(Path(folder), "pasted")


def command(by: Running, lines: Lines, folder: Path, go: Path | None) -> list[str]:
    """Returns the command that runs a consumer with these lines, without servers, group, and topic."""
    (folder / f"{key_of(by.library, lines)}.txt").write_text("\n".join(lines))
    if by.library in GO:
        return [str(go), key_of(by.library, lines)]
    if by.library == "Java":
        options = ("-Xms32m", "-Xmx96m", *java_programs.SHORT_LIVED)
        return java_programs.command("Pasted", maven.clients_classpath(by.release), options=options)
    if by.library == "kafkajs":
        return ["env", f"NODE_PATH={client_libraries.npm(by.release)}", "node", str(PROGRAMS / "pasted.js")]
    package = fetched.python_package(by.package, by.release)
    return ["env", f"PYTHONPATH={package}", sys.executable, str(PROGRAMS / "pasted.py"), by.package]


class Member:
    """One consumer in a process of its own."""

    def __init__(self, command: list[str], servers: str, group: str, topic: str, file: Path | None) -> None:
        words = [*command, servers, group, topic, *([str(file)] if file else [])]
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 closed with the object
        stdout = subprocess.DEVNULL
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=stdout, stderr=self.errors, text=True)

    def close(self) -> None:
        """Closes the consumer, and waits for its end."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def refused(self) -> str | None:
        """Returns what the consumer printed before it ended by itself; None while it runs."""
        if self.process.poll() is None:
            return None
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")[-2000:] or "ended"


def start(
    by: Running, lines: Lines, servers: str, group: str, topic: str, folder: Path, go: Path | None = None
) -> Member:
    """Starts a consumer with pasted lines."""
    words = command(by, lines, folder, go)
    file = None if by.library in GO else folder / f"{key_of(by.library, lines)}.txt"
    return Member(words, servers, group, topic, file)


@contextlib.contextmanager
def closing(members: list[Member]) -> Iterator[list[Member]]:
    """Closes all members at the end."""
    try:
        yield members
    finally:
        for member in members:
            member.close()
