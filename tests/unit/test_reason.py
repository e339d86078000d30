"""One line for whoever reads the log, wherever in Spark an error comes from."""

from __future__ import annotations

import pytest

from spark_assign.tables.errors import find_disk_failure, find_row_fault, reason, writing_to
from tests.cases import cases

JAVA = """An error occurred while calling o42.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2844)
Caused by: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows
\t... 5 more
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""
WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
MemoryError: 3 GB

\tat org.apache.spark.api.python.BasePythonRunner
"""


@cases(
    "text line",
    ("", ""),
    ("[TABLE_NOT_FOUND] no such table\nat line 3", "[TABLE_NOT_FOUND] no such table"),
    (JAVA, "java.io.IOException: No space left on device"),
    ("An error occurred while calling o1.load.\n: java.io.IOException: no\n\tat x", "java.io.IOException: no"),
    (WORKER, "MemoryError: 3 GB"),
    (WORKER.replace("process()", "pro\n[truncated]\nhalf a line of code\n    process()"), "MemoryError: 3 GB"),
    ('<_InactiveRpcError of RPC that ended with:\n\tstatus = X\n\tdetails = "too deep"\n\tdebug = ""\n>', "too deep"),
)
def test_the_cause_is_found(text: str, line: str) -> None:
    """Not "An error occurred while calling o42.save"."""
    assert reason(Exception(text)) == line


ROW = "faulty row of pauses.cluster: null or out of range: cluster=null, group_id=g. Correct it, or remove the row"


@cases(
    "text",
    ROW,
    f"[USER_RAISED_EXCEPTION] {ROW} SQLSTATE: P0001",
    f"(org.apache.spark.SparkRuntimeException) [USER_RAISED_EXCEPTION] {ROW} SQLSTATE: P0001",
    JAVA + f"Caused by: org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] {ROW}",
    WORKER.replace("MemoryError: 3 GB", f"RuntimeError: Execution error: {ROW}"),
)
def test_a_row_fault_is_found(text: str) -> None:
    """In the message of the embedded engine, of each kind of Spark, and of a Python worker."""
    fault = "pauses.cluster: null or out of range: cluster=null, group_id=g. Correct it, or remove the row"
    assert str(find_row_fault(Exception(text))) == f"1 fault in the fleet's tables:\n  - {fault}"


@cases(
    "text",
    f'Error during planning: Plan: ["FilterExec: CASE WHEN c IS NULL THEN raise_error(spark_concat({ROW})) END"]',
    f"[INTERNAL_ERROR] no rule: Project [raise_error(USER_RAISED_EXCEPTION, map(errorMessage, concat({ROW})))]",
    f"Error during planning: Filter: group_id = 'x: {ROW}'",
)
def test_a_query_that_an_engine_refuses_has_no_row_fault(text: str) -> None:
    """The plan in such a message has the expression that would raise the error, or a value that looks like one."""
    assert find_row_fault(Exception(text)) is None


@cases("error", RuntimeError("can't start new thread"), OSError(24, "Too many open files"))
def test_a_limit_of_the_process_has_a_remedy(error: Exception) -> None:
    """Python's words name no cause, or none that a user sets."""
    assert reason(error) == f"{error} (raise the limits of the process: ulimit -n, -u, -v)"


@cases(
    "error problem",
    (Exception(JAVA), "No space left on device"),
    (Exception("Generic LocalFileSystem error: No space left on device (os error 28)"), "No space left on device"),
    (OSError(5, "Input/output error"), "Input/output error"),
    (Exception("Unable to copy data to file: File too large (os error 27)"), "File too large"),
    (Exception("Unable to sync data to file: Stale file handle (os error 116)"), "Stale file handle"),
)
def test_a_disk_that_fails_has_the_location(error: Exception, problem: str) -> None:
    """In the words of Spark, of the embedded engine, and of Python."""
    found = find_disk_failure("./plans", error)
    assert str(found) == f"./plans can't be written: {problem}, there or where the engine keeps temporary files"
    with pytest.raises(OSError, match=r"^\./fleet can't be written: "), writing_to("./fleet"):
        raise error
    with pytest.raises(FileNotFoundError), writing_to("./fleet"):
        raise FileNotFoundError(2, "No such file")
