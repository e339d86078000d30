"""What a reader would see in a terminal: what is printed and what is logged, in one piece and in its order."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from typing import NamedTuple


class Line(NamedTuple):
    """A line of a terminal; `logged` tells progress, which goes to standard error, from what a job prints."""

    text: str
    logged: bool = False


@dataclass
class Terminal:
    """What has been written so far."""

    pieces: list[Line] = field(default_factory=list)

    @property
    def lines(self) -> list[Line]:
        """Line by line."""
        found: list[Line] = []
        printed = ""
        for text, logged in self.pieces:
            if logged:
                found += [Line(line, True) for line in text.splitlines()]
            else:
                *whole, printed = (printed + text).split("\n")
                found += [Line(line) for line in whole]
        return [*found, Line(printed)] if printed else found

    def __str__(self) -> str:
        return "\n".join(line.text for line in self.lines)


class _Stream(io.TextIOBase):
    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal

    def write(self, text: str) -> int:
        self.terminal.pieces.append(Line(text))
        return len(text)


class _Handler(logging.Handler):
    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self.terminal = terminal
        self.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))  # as the jobs have it

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "spark_assign.spark.progress":  # comes only where the machine is slow
            return
        self.terminal.pieces.append(Line(self.format(record), True))


@contextmanager
def terminal() -> Iterator[Terminal]:
    """Within it nothing is printed or logged elsewhere; for jobs that run in this process."""
    seen = Terminal()
    handler = _Handler(seen)
    logging.getLogger().addHandler(handler)
    try:
        with redirect_stdout(_Stream(seen)), redirect_stderr(_Stream(seen)):
            yield seen
    finally:
        logging.getLogger().removeHandler(handler)
