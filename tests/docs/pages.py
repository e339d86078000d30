"""What the README and docs/*.md tell a reader to run: shell commands and Python blocks, with what is shown under them.

In a block marked `sh` every line is a command. In one without a mark those lines are that begin with `$ ` or with the
name of a program; the lines below a command are what it prints. A backslash continues a command. A block without
commands that follows a Python block at once is what the last expression of that gives, or prints. All other blocks are
`others`: they belong to no step, and tests/docs/homes.py says what reads them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

SHELL = ("sh", "bash", "shell", "console")
DATA = ("diff", "toml", "json", "yaml", "ini", "csv", "properties", "text")
"""Marks of blocks that hold nothing to run."""

PROGRAM = re.compile(
    r"\$ |\.{1,2}/\S+(\s|$)|tests/run\.sh|spark-assign |kafka-[a-z-]+\.sh|(\S*/)?python[0-9.]* |"
    r"databricks |airflow |pip |git |export "
)
COMMENT = re.compile(r"\s+#.*$")
FENCE = re.compile(r"( *)```(\S*)\s*$")


@dataclass(frozen=True)
class Step:
    """Something to run, or to look for.

    `language` says what `text` is: a command without its comment (sh), or a Python block. `shown` is what the page
    shows as the outcome.
    """

    page: str
    line: int
    language: str
    text: str
    shown: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text if self.language == 'sh' else self.text.splitlines()[0]}"

    @property
    def words(self) -> list[str]:
        """Of a command, as the shell takes it apart."""
        return shlex.split(self.text)


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, its mark, its lines; and whether only empty lines part it from one before."""

    line: int
    mark: str
    lines: list[str]
    follows_another: bool


def pages() -> list[Path]:
    """The README, then docs/ by name."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def steps(page: Path) -> list[Step]:
    """What there is to run on a page, in order.

    Raises ValueError for a block whose mark is not known here: it might hold commands.
    """
    return _read(page)[0]


def others(page: Path) -> list[Block]:
    """The blocks of a page that are no step and no step's outcome."""
    return _read(page)[1]


def block(page: str, begins: str) -> list[str]:
    """The lines of the one block of a page, by its name, that is no step and whose first line begins so."""
    (found,) = [each for each in others(ROOT / page) if each.lines[0].startswith(begins)]
    return found.lines


def claims_of(page: Path) -> list[str]:
    """The claims about Kafka in the comments of a page, each with its source: `claim: source`."""
    found = re.findall(r"<!-- source:(.*?)-->", page.read_text(encoding="utf-8"), re.DOTALL)
    return [" ".join(claim.split()) for comment in found for claim in comment.split(";")]


def name_of(page: Path) -> str:
    """The name of a page in a message."""
    return page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name


def _read(page: Path) -> tuple[list[Step], list[Block]]:
    name = name_of(page)
    found: list[Step] = []
    unread: list[Block] = []
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.mark == "python":
            found.append(Step(name, block.line, block.mark, "\n".join(block.lines)))
        elif block.mark in SHELL or not block.mark:
            commands = list(_commands(name, block))
            if not commands and block.follows_another and found and found[-1].language == "python":
                last = found.pop()
                commands = [Step(last.page, last.line, "python", last.text, tuple(block.lines))]
            elif not commands:
                unread.append(block)
            found += commands
        elif block.mark in DATA:
            unread.append(block)
        else:
            raise ValueError(f"{name}:{block.line}: a block of {block.mark!r}: say in {__name__} what that is")
    return found, unread


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page; in lists without the indentation. Raises ValueError where one has no end."""
    lines = text.splitlines()
    at, ended = 0, False
    while at < len(lines):
        fence = FENCE.match(lines[at])
        if fence is None:
            ended = ended and not lines[at].strip()
            at += 1
            continue
        end = next((n for n in range(at + 1, len(lines)) if lines[n].strip() == "```"), None)
        if end is None:
            raise ValueError(f"the block that begins in line {at + 1} does not end")
        yield Block(at + 2, fence[2], [line.removeprefix(fence[1]) for line in lines[at + 1 : end]], ended)
        at, ended = end + 1, True


def _commands(page: str, block: Block) -> Iterator[Step]:
    """The commands of a block, each with the lines up to the next one."""
    begun: tuple[int, str] | None = None
    shown: list[str] = []
    lines = iter(enumerate(block.lines, block.line))
    for number, line in lines:
        if not _is_command(line, block.mark):
            shown.append(line)
            continue
        if begun is not None:
            yield Step(page, begun[0], "sh", begun[1], tuple(shown))
        elif any(each.strip() for each in shown) and block.mark not in SHELL:
            raise ValueError(f"{page}:{block.line}: lines before the first command are nobody's outcome: {shown}")
        text = line.removeprefix("$ ")
        while text.endswith("\\"):
            text = f"{text[:-1].rstrip()} {next(lines, (0, ''))[1].strip()}"
        begun, shown = (number, COMMENT.sub("", text)), []
    if begun is not None:
        yield Step(page, begun[0], "sh", begun[1], tuple(shown))


def _is_command(line: str, mark: str) -> bool:
    if mark in SHELL:
        return bool(line.strip()) and not line.startswith("#")
    return PROGRAM.match(line) is not None
