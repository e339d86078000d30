"""A limit for the time of a request as a whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")

MAX_HANGING = 100
"""Maximum number of requests of this process that have exceeded their time and have not ended."""
_hanging: list[threading.Thread] = []


def within(seconds: float, work: Callable[[], Result]) -> Result:
    """Returns the result of a function. Raises TimeoutError if it takes longer.

    A timeout of a socket is the time for each part of a response, so a server that sends one byte at a time is never
    too slow for it. The function runs in a thread that doesn't keep the process alive. A thread that hangs keeps its
    connection, so if `MAX_HANGING` do, further functions aren't run.
    """
    result: Future[Result] = Future()
    _hanging[:] = [thread for thread in _hanging if thread.is_alive()]
    if len(_hanging) >= MAX_HANGING:
        raise TimeoutError(f"{MAX_HANGING} earlier requests still hang")

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        return result.result(max(0.0, seconds))
    except TimeoutError:
        _hanging.append(thread)
        raise
