"""A secret of Databricks in place of a file, `secret://SCOPE/KEY`: a file for as long as it is read, and no longer."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spark_assign.tables.errors import ConfigError

PREFIX = "secret://"


@contextmanager
def as_file(place: str) -> Iterator[str]:
    """The file that a place names; a secret as a file that only this user may read, gone afterwards.

    Args:
        place: a path, which is given back; or `secret://SCOPE/KEY`.

    Raises:
        ConfigError: it is no secret's name, this is not Databricks, or the secret cannot be read.
    """
    if not place.startswith(PREFIX):
        yield place
        return
    descriptor, file = tempfile.mkstemp(prefix="spark-assign-")  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write(_read(place))
        yield file
    finally:
        Path(file).unlink(missing_ok=True)


def _read(place: str) -> str:
    scope, _, key = place.removeprefix(PREFIX).partition("/")
    if not scope or not key or "/" in key:
        raise ConfigError(f"{place}: expected {PREFIX}SCOPE/KEY, such as {PREFIX}kafka/client.properties")
    try:
        found: str = _secrets().get(scope=scope, key=key)
    except ImportError:
        raise ConfigError(f"{place}: secrets are read on Databricks only; elsewhere give a file") from None
    except Exception as error:  # py4j's, or that of Databricks' SDK
        remedy = f"databricks secrets put-secret {scope} {key}, and READ on the scope for who runs the job"
        raise ConfigError(f"{place}: cannot be read: {str(error).splitlines()[0]}. It needs {remedy}") from None
    return found


def _secrets() -> Any:
    """`dbutils.secrets`, as a wheel finds it in every runtime."""
    from databricks.sdk.runtime import dbutils  # type: ignore

    return dbutils.secrets
