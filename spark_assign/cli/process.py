"""How the process of a job ends: by a signal, or because standard output, which has the result and nothing else, is
closed or can't be written."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TextIO

from spark_assign.report.formatting import visible

INTERRUPTED, TERMINATED, CLOSED = 130, 143, 141
"""Exit codes after SIGINT (Ctrl-C), SIGTERM, and SIGPIPE, as shells report them."""
EXIT_SECONDS = 30.0
"""Maximum time for the functions that Python calls at the end of a process (`atexit`), if it ends at once."""


class Terminated(BaseException):
    """The process got SIGTERM. Like `KeyboardInterrupt`, it isn't an error of the job."""


class OutputClosed(BaseException):
    """The reader of standard output has closed it, as `head` does. Python ignores SIGPIPE, for the sake of sockets."""


CLOSED_ERRORS = (BrokenPipeError, ConnectionResetError)
"""What Python raises then: for a pipe, and for a socket of which the reader has left something unread."""


class OutputFailed(BaseException):
    """Standard output can't be written, for example because its disk is full. No job takes it for its own disk."""


STOPS: dict[int, tuple[type[BaseException], str]] = {
    INTERRUPTED: (KeyboardInterrupt, "interrupted"),
    TERMINATED: (Terminated, "terminated"),
    CLOSED: (OutputClosed, "standard output was closed"),
}
"""What a signal raises in the main thread, and the words for it in messages, by exit code."""


def stop_behind(error: BaseException | None) -> int | None:
    """Returns the exit code of the signal that led to an error, or None: while a stopped job cleans up, it calls a JVM
    that got the signal as well."""
    while error is not None:
        if code := next((code for code, (kind, _) in STOPS.items() if isinstance(error, kind)), None):
            return code
        error = error.__cause__ or error.__context__
    return None


_lock = threading.Lock()
_session_started = False


def _terminate(number: int, frame: Any) -> NoReturn:
    raise Terminated


@contextlib.contextmanager
def sigterm_raises() -> Iterator[None]:
    """Makes SIGTERM raise `Terminated` in the main thread, so that a job can report its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def starting_session() -> Iterator[None]:
    """Protects this process from the session that the first call starts.

    A JVM inherits standard error as its standard output, where it prints warnings. SIGINT raises `KeyboardInterrupt`
    afterward: Spark's handler calls the JVM, which can be in the middle of another call.
    """
    global _session_started
    with _lock:
        if _session_started:
            yield
            return
        sys.stdout.flush()
        out, on_interrupt = os.dup(1), signal.getsignal(signal.SIGINT)
        os.dup2(2, 1)
        try:
            yield
            _session_started = True
        finally:
            os.dup2(out, 1)
            os.close(out)
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, on_interrupt)


def take_any_text() -> None:
    """Makes standard output write characters that its encoding lacks as codes (`\\u2026`), as standard error does.

    If one of the two is closed when the process starts (`>&-`), what is written there is lost. A closed standard input
    is empty.
    """
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    while closed and os.open(os.devnull, os.O_RDWR) < 2:  # so that no other file gets the number of a closed one
        pass
    for name in (*closed, *(f"__{name}__" for name in closed)):
        setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def with_output_written(run: Callable[[], int], name: str) -> int:
    """Runs a command, flushes standard output, and returns the exit code: 3 if standard output can't be written; 141,
    without a message, if its reader has closed it."""
    exit_code = 0
    take_any_text()
    try:
        exit_code = run()
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes again when it ends
        if isinstance(error, CLOSED_ERRORS):
            return exit_code if exit_code in STOPS else CLOSED
        if exit_code != 3:  # otherwise, the job has reported it
            print(f"{name}: standard output can't be written: {error.strerror}", file=sys.stderr)
        return 3
    return exit_code


def leave(exit_code: int) -> None:
    """Ends the process at once after a signal, if other threads would keep it alive until their jobs end; and after an
    error, if the embedded engine runs: Python aborts a process at whose end a thread of the engine runs a function.

    Temporary files are removed before. The end of the session has a limit in time, because Ctrl-C can leave a lock held
    in a client of Spark Connect, and then it would wait forever.
    """
    alive = [each for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()]
    if (exit_code in STOPS and alive) or (exit_code and "pysail" in sys.modules):
        at_end = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
        with contextlib.suppress(RuntimeError):  # the system allows no further thread
            at_end.start()
            at_end.join(EXIT_SECONDS)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


@contextlib.contextmanager
def _output_raises() -> Iterator[None]:
    """Makes a closed standard output raise `OutputClosed`, which no job takes for a connection that was closed, and any
    other failure of it `OutputFailed`."""
    try:
        yield
    except CLOSED_ERRORS as error:
        raise OutputClosed from error
    except OSError as error:
        raise OutputFailed(f"standard output can't be written: {error.strerror}") from error


def failure_of_transport(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Returns what made the tasks of a server fail that reads standard input and writes standard output: its client
    has closed its end, or a file of the two can't be read or written."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, CLOSED_ERRORS):
        return OutputClosed()
    if isinstance(error, OSError):
        return OutputFailed(f"standard input or standard output failed: {error.strerror}")
    return error


class VisibleOutput(io.TextIOBase):
    """Standard output on which nothing that is printed can control the terminal."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        """Writes a text in its visible form."""
        with _output_raises():
            return self._out.write(visible(text))

    def flush(self) -> None:
        """Flushes standard output."""
        with _output_raises():
            self._out.flush()

    def isatty(self) -> bool:
        """Returns whether standard output is a terminal."""
        return self._out.isatty()
