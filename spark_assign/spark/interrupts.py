"""Calls of the embedded engine that Ctrl-C ends without harm.

gRPC's client holds locks in Python code. If Ctrl-C raises `KeyboardInterrupt` there, a lock can stay held, and every
later call on the same connection waits for it forever. Python raises it in the main thread only, so another thread
makes the calls of the main thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import grpc

from spark_assign.tables.errors import SparkAssignError

T = TypeVar("T")
Answers = SimpleQueue[tuple[Any, BaseException | None]]
Calls = SimpleQueue[tuple[Callable[[], Any], Answers] | None]
_WAIT_S = 0.5
"""A signal that arrives just before a wait begins doesn't end it, but is noticed at the next one."""
_UNREADABLE = "Exception deserializing response!"
"""The details of gRPC's error if the bytes of an answer can't be read. The cause is in the log `grpc._common` only."""
FIRST_ANSWER_S = 60.0
"""Maximum time until the first answer. The client itself would try for ten minutes, or wait without end."""


class CallsOfAnotherThread(
    grpc.UnaryUnaryClientInterceptor, grpc.StreamUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor
):
    """Has the calls of the main thread made by another thread."""

    def __init__(self) -> None:
        self._calls: Calls | None = None
        self._due: float | None = None
        self._has_answer = False

    def intercept_stream_unary(self, continuation: Callable[..., T], details: object, request: object) -> T:
        """Makes a call with one answer."""
        return self._make(lambda: continuation(details, request))

    def intercept_unary_unary(self, continuation: Callable[..., T], details: object, request: object) -> T:
        """Makes a call with one answer, again if gRPC can't read it: twice in months of tests, and then it could."""
        answer = self.intercept_stream_unary(continuation, details, request)
        if isinstance(answer, grpc.Call) and answer.details() == _UNREADABLE:
            answer = self.intercept_stream_unary(continuation, details, request)
        return answer

    def intercept_unary_stream(
        self, continuation: Callable[..., Iterator[T]], details: object, request: object
    ) -> Iterator[T]:
        """Makes a call with any number of answers, as a query has."""
        answers = self._make(lambda: continuation(details, request))
        while (answer := self._make(lambda: next(answers, None))) is not None:
            yield answer

    def _make(self, call: Callable[[], T]) -> T:
        if threading.current_thread() is not threading.main_thread():
            return call()
        self._due = self._due or time.monotonic() + FIRST_ANSWER_S
        calls, self._calls = self._calls, None  # if it is interrupted, the next call has a new thread
        if calls is None:
            calls = SimpleQueue()
            threading.Thread(target=_make_calls, args=(calls,), daemon=True).start()
        answers: Answers = SimpleQueue()
        calls.put((call, answers))
        try:
            given = None
            while given is None:
                with suppress(Empty):
                    given = answers.get(timeout=_WAIT_S)
                if given and not isinstance(given[0] or given[1], grpc.RpcError):  # gRPC returns errors, too
                    self._has_answer = True
                if not self._has_answer and time.monotonic() > self._due:
                    raise SparkAssignError(f"the embedded engine doesn't answer within {FIRST_ANSWER_S:g} s")
        except BaseException:
            calls.put(None)
            raise
        self._calls = calls
        answer, error = given
        if error is not None:
            raise error
        made: T = answer
        return made


def _make_calls(calls: Calls) -> None:
    while (each := calls.get()) is not None:
        call, answers = each
        try:
            answers.put((call(), None))
        except BaseException as error:
            answers.put((None, error))
        del each, call, answers  # until the next call, they would keep a request with the rows of a table
