"""This process, the JVM and all Python workers, looked at while they run; from /proc, so on Linux only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def family(process: int) -> list[int]:
    """A process and all that descend from it."""
    try:
        children = [
            int(child)
            for task in Path(f"/proc/{process}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return []
    return [process, *(one for child in children for one in family(child))]


@contextmanager
def watched(look: Callable[[], None]) -> Iterator[None]:
    """Look again and again, and once at the end: what a process has had is lost with it."""
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.1):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        look()
