"""Exceptions of spark_assign, and the words of messages.

A fault of one group isn't an exception, but a row of `Plan.rejected`. These exceptions are for input that can't be
planned at all.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


class SparkAssignError(Exception):
    """Base class of the exceptions that spark_assign raises."""


@dataclass(frozen=True)
class Fault:
    """A fault of an input table, and how to fix it."""

    table: str
    column: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return in_one_line(f"{self.table}.{self.column}: {self.problem}. {self.remedy}")


def in_one_line(text: str) -> str:
    """Returns a text with line ends as `\\n` and `\\r`, so that no value looks like another fault."""
    return text.replace("\n", "\\n").replace("\r", "\\r")


class FleetError(SparkAssignError):
    """The tables of a fleet are faulty. The message lists every fault."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        noun = "fault" if len(self.faults) == 1 else "faults"
        lines = "\n".join(f"  - {fault}" for fault in self.faults)
        super().__init__(f"{len(self.faults)} {noun} in the fleet's tables:\n{lines}")


class SourceError(SparkAssignError):
    """A table, file, or cluster can't be read. The message says which one, and what to do."""


_MAX_REASON = 300
"""Maximum number of characters of an engine's reason."""
ROW_REMEDY = "Correct it, or remove the row"
_ROW_FAULT = re.compile(
    rf"""^(?:[^\n'"]*[:\]] )?faulty row of (\w+)\.(\w+): (.+?)\. ({ROW_REMEDY})""", re.DOTALL | re.MULTILINE
)
"""Message of a query that fails because of one row, as the engine reports it: table, column, problem, and remedy. In
the plan that another error of the engine has, the text is part of an expression."""
_FILE_FAULT = re.compile(
    r"SourceError: (file:[^\n]{1,3000})"
    r"|FAILED_READ_FILE\.(?!FILE_NOT_EXIST)\S{1,60} [^\n]{1,60} reading file (\S{1,3000})"
)
"""Message of a query that fails because of one file: our own, and that of Spark."""


def find_row_fault(error: BaseException) -> FleetError | None:
    """Returns the error for the row that made a query fail; None if the query failed for another reason."""
    found = _ROW_FAULT.search(str(error))
    return None if found is None else FleetError([Fault(*found.groups())])


_scans: dict[str, Callable[[], object]] = {}


def forget_tables() -> None:
    """Forgets the tables of an earlier job or question (`remember_table`)."""
    _scans.clear()


def remember_table(name: str, scan: Callable[[], object]) -> None:
    """Remembers a table that the engine reads in a query whose error doesn't name it.

    Args:
        name: table and location.
        scan: reads all its rows, and raises the error if that isn't possible.
    """
    _scans[name] = scan


def find_unreadable(error: BaseException) -> SourceError | None:
    """Returns the error for a table (`remember_table`) that can't be read; None if a query failed for another reason.

    Only a table that can't be read alone is faulty; otherwise, the query is.
    """
    if not type(error).__module__.startswith("pyspark") or is_engine_failure(error):
        return None
    for name, scan in _scans.items():
        try:
            scan()
        except Exception as fault:
            return None if is_engine_failure(fault) else SourceError(unreadable(name, fault))
    return None


def unreadable(name: str, error: BaseException) -> str:
    """Returns the message about a table that the engine can't read; an engine can repeat a file in its reason."""
    why = reason(error).rstrip(".")
    return f"{name} cannot be read: {why[:_MAX_REASON]}{'…' if len(why) > _MAX_REASON else ''}. Write or copy it again"


def find_fault(error: BaseException) -> FleetError | SourceError | None:
    """Returns the error for the row, file, or table that made a query fail; None if it failed for another reason."""
    found = _FILE_FAULT.search(str(error))
    file_fault = found and SourceError(found[1] or f"{found[2].rstrip('.')} cannot be read. Write or copy it again")
    return find_row_fault(error) or file_fault or find_unreadable(error)


CODE_FAILURES = (Exception, SystemExit, GeneratorExit)
"""What code of the user can raise, such as an assignor, without an end of the process as its reason."""


def failure_of_code(error: BaseException) -> str:
    """Returns the class and the message of one of `CODE_FAILURES`, as a text that a table can have."""
    try:
        message = str(error)
    except CODE_FAILURES:
        message = "its message can't be read"
    return f"{type(error).__name__}: {message}".encode(errors="backslashreplace").decode()


DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ESTALE)
"""Numbers of the errors of a disk that is full, has a limit, or fails: no other input would help."""


def find_disk_failure(location: str, error: BaseException) -> OSError | None:
    """Returns the error for a disk that is full or fails (`DISK_FAILURES`), in the words of any engine; or None."""
    found = next((number for number in DISK_FAILURES if os.strerror(number) in str(error)), None)
    where = "there or where the engine keeps temporary files"
    return None if found is None else OSError(f"{location} can't be written: {os.strerror(found)}, {where}")


@contextmanager
def writing_to(location: str) -> Iterator[None]:
    """Makes an error of a disk in this context the one that `find_disk_failure` returns."""
    try:
        yield
    except Exception as error:
        if failure := find_disk_failure(location, error):
            raise failure from error
        raise


class ConfigError(SparkAssignError):
    """An argument, an option, or a key of a settings file is invalid. The message names it, and what was expected."""


KAFKA_SOURCE = "org.apache.spark:spark-sql-kafka-0-10_2.13"
"""Maven coordinate of Spark's Kafka source, for the Scala version of every Spark 4, without the version of Spark."""


def missing_extra(need: str, extra: str) -> ConfigError:
    """Returns the error for a package that isn't installed.

    Args:
        need: what needs which package, for example "a report needs jinja2".
        extra: the extra of spark_assign that has the package.
    """
    is_embedded = os.environ.get("SPARK_ASSIGN_ENGINE") == "embedded"  # an environment without Spark
    do = "run ./spark-assign --set-up embedded" if is_embedded else "run ./spark-submit.sh --set-up spark"
    return ConfigError(f"{need}, which isn't installed: {do},{extra} in a clone, or pip install '.[{extra}]' elsewhere")


@contextmanager
def needs_extra(need: str, name: str) -> Iterator[None]:
    """Makes an import that fails in this context the error that `missing_extra` returns."""
    try:
        yield
    except ImportError as error:
        raise missing_extra(need, name) from error


_ENGINE_FAILURE = re.compile(
    r"Py4JNetworkError|Connection(Refused|Reset)Error|StatusCode.UNAVAILABLE|SparkContext was shut down|"
    r"stopped SparkContext"
)


def is_engine_failure(error: BaseException) -> bool:
    """Checks whether an error means that Spark or the embedded engine doesn't run any more, whatever it was reading."""
    text = f"{type(error).__name__}: {error}"
    return bool(_ENGINE_FAILURE.search(text)) or ("Job aborted" in text and "Caused by: " not in text)


_CUT = re.compile(r"\[truncated\]\n(?:.*\n)?")
"""Where Sail cuts a long text in its middle, and the rest of the line in which the text goes on."""


def reason(error: BaseException) -> str:
    """Returns the cause of an error in one line: its first line or, for an error inside Spark, the innermost cause."""
    text = str(error).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    if "Traceback (most recent call last):" in text:  # a Python worker failed
        _, _, frames = text.partition("Traceback (most recent call last):\n")
        return next((line for line in _CUT.sub("", frames).splitlines() if line and not line[0].isspace()), lines[0])
    if causes := [line for line in lines if line.startswith("Caused by: ")]:
        return causes[-1].removeprefix("Caused by: ")
    if found := re.search(r'^\s*details = "(.*)"$', text, re.MULTILINE):  # an error of gRPC
        return found[1]
    if lines[0].startswith("An error occurred while calling") and len(lines) > 1:  # an exception of Java
        return lines[1].removeprefix(": ")
    is_limit = isinstance(error, OSError | RuntimeError) and re.search("start new thread|Too many open files", text)
    return lines[0] + " (raise the limits of the process: ulimit -n, -u, -v)" * bool(is_limit)


# --- counts with their nouns and verbs, the same in every text -----------------------------------------------------


def count(value: int | None, noun: str, one: str = "", many: str = "") -> str:
    """Returns a count with its noun, and optionally a verb: `1 group`, `2,000 groups`, `1 partition has`.

    Args:
        value: the count; None if it isn't known, as in a damaged stored run.
        noun: the noun in the singular; an `s` makes its plural.
        one, many: the verb that follows, for one and for any other number.
    """
    number = "an unknown number of" if value is None else f"{value:,}"
    words = f"{number} {noun} {one}" if value == 1 else f"{number} {noun}s {many}"
    return words.rstrip()
