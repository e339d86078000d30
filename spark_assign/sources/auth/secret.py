"""Keeps secrets out of texts and logs, and reads Databricks secrets as temporary files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spark_assign.tables.errors import ConfigError, reason


class Secret(str):
    """A string whose `repr` is hidden, and thereby also in every printed dict, dataclass, or traceback of locals."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'[hidden]'"


def hidden(text: str, secrets: Iterable[object]) -> str:
    """Returns the text with every Secret in `secrets` replaced by [hidden]; the longest first."""
    secret_texts = {str.__str__(value) for value in secrets if isinstance(value, Secret)}
    for secret in sorted(secret_texts - {""}, key=len, reverse=True):
        text = text.replace(secret, "[hidden]")
    return text


SECRET_PREFIX = "secret://"


@contextmanager
def secret_as_file(location: str) -> Iterator[str]:
    """Yields the file that a location names. A Databricks secret is a temporary file that only this user can read.

    Args:
        location: a path, which is returned; or `secret://SCOPE/KEY`.

    Raises:
        ConfigError: not a valid secret name, not on Databricks, or the secret can't be read.
    """
    if not location.startswith(SECRET_PREFIX):
        yield location
        return
    descriptor, file = tempfile.mkstemp(prefix="spark-assign-")  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write(_read(location))
        yield file
    finally:
        Path(file).unlink(missing_ok=True)


def _read(location: str) -> str:
    """Returns the text of a Databricks secret. Raises ConfigError."""
    scope, _, key = location.removeprefix(SECRET_PREFIX).partition("/")
    if not scope or not key or "/" in key:
        raise ConfigError(
            f"{location}: expected {SECRET_PREFIX}SCOPE/KEY, such as {SECRET_PREFIX}kafka/client.properties"
        )
    try:
        secret_text: str = _secrets().get(scope=scope, key=key)
    except ImportError:
        raise ConfigError(f"{location}: secrets are read on Databricks only; elsewhere give a file") from None
    except Exception as error:  # raised by py4j or by the Databricks SDK
        remedy = f"databricks secrets put-secret {scope} {key}, and READ on the scope for who runs the job"
        raise ConfigError(f"{location}: cannot be read: {reason(error)}. It needs {remedy}") from None
    return secret_text


def _secrets() -> Any:
    """Returns `dbutils.secrets`, as a wheel gets it in every Databricks runtime."""
    from databricks.sdk.runtime import dbutils  # type: ignore

    return dbutils.secrets
