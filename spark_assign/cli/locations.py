"""Checks locations before a job starts: whether what it reads exists, and whether it may write."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from spark_assign.stores.locations import is_path, local_path, split_run_id
from spark_assign.tables.errors import ConfigError

LOCAL_FILES = "SPARK_ASSIGN_LOCAL_FILES"
"""Environment variable that the launchers set if a path without a scheme is a path of this machine."""


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def require_input(location: str, *, is_folder: bool = False) -> None:
    """Checks whether a location to read exists, if this process can know it: a path of this machine.

    Args:
        location: a folder, file, URI, or catalog prefix, optionally with a run. Its name can have wildcards.
        is_folder: whether it can't be a catalog prefix.

    Raises:
        ConfigError: there is no such file or folder, or the engine has no catalog.
    """
    place = split_run_id(location)[0]
    if not is_folder:
        _require_catalog(place)
    is_local = place.startswith("file:") or bool(os.environ.get(LOCAL_FILES))
    path = local_path(place) if is_local and is_path(place) and not set("*?[{") & set(place) else None
    if path is not None and not os.path.exists(path):
        raise ConfigError(f"there is no file or folder {path}")


def require_output(location: str, *, is_folder: bool = False) -> None:
    """Checks whether a folder can be created and written, if it is on this machine.

    Args:
        location: a folder, URI, or catalog prefix.
        is_folder: whether it can't be a catalog prefix.

    Raises:
        ConfigError: a file or a broken link is where a folder must be, nothing can be created there, the path has
            control characters, or the engine has no catalog.
    """
    if not is_folder:
        _require_catalog(location)
    path = local_path(location) if is_path(location) or os.path.exists(location) else None
    if path is None:
        return
    if _CONTROL.search(path):
        raise ConfigError(f"can't write to {location!r}: the path has a line end or another control character")
    existing = Path(path)
    while not os.path.lexists(existing):
        existing = existing.parent
    if not existing.is_dir():
        raise ConfigError(f"can't write to {location}: {existing} isn't a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ConfigError(f"can't write to {location}: no permission to write to {existing}")
    try:
        with contextlib.suppress(FileNotFoundError):
            os.lstat(path)  # a name can be too long
        os.rmdir(tempfile.mkdtemp(prefix=".spark-assign-", dir=existing))
    except OSError as error:  # /proc
        raise ConfigError(f"can't write to {location}: {error.strerror} in {existing}") from error


def _require_catalog(location: str) -> None:
    """Raises ConfigError if a location is a name in a catalog, but the engine has no catalog."""
    if is_path(location) or os.path.exists(location):
        return
    from spark_assign.spark.engine import choose, needs_spark

    if choose()[0] == "embedded":
        raise needs_spark(f"{location}, a name in a catalog (a folder would be ./{location}),")


def require_format(name: str | None) -> None:
    """Checks whether the engine can read and write a format. Raises ConfigError; not for None, the default."""
    if name in (None, "parquet", "csv", "json"):
        return
    from spark_assign.spark.engine import TABLE_FORMATS, choose, needs_spark

    if name not in TABLE_FORMATS and choose()[0] == "embedded":
        raise needs_spark(f"The format {name}")


class CheckedType(click.types.StringParamType):
    """A text that a function checks before a job starts: it raises ConfigError."""

    def __init__(self, check: Callable[[str], None]) -> None:
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Checks a value."""
        try:
            self._check(value)
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


class LocationType(CheckedType):
    """A folder, URI, or catalog prefix, optionally with a run (`LOCATION@RUN_ID`). In a settings file, a relative path
    starts from the file's folder."""

    name = "location"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Returns a request to the shell to complete the name of a file or folder."""
        return [CompletionItem(incomplete, type="file")]


class PathType(click.Path):
    """A path of this machine, as a `Path`."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuses NUL, which a settings file can have."""
        if "\0" in str(value):
            self.fail("a path has a NUL.", param, ctx)
        return super().convert(value, param, ctx)


PATH = PathType()
FORMAT = CheckedType(require_format)
"""A format of tables, which the engine must have."""
INPUT, OUTPUT, LOCATION = LocationType(require_input), LocationType(require_output), LocationType(lambda _: None)
"""A location that is read, one that is written, and one that isn't checked."""
INPUT_FILES, OUTPUT_FILES = (LocationType(partial(check, is_folder=True)) for check in (require_input, require_output))
"""A file or folder that is read, and one that is written."""
