"""Distinguishes the locations of tables: a folder of any file system, or a catalog prefix.

A *location* is what a user writes: `./fleet`, `/data/fleet`, and `s3a://bucket/fleet` are folders; `main.kafka` and
`kafka` are catalog prefixes. Spark opens both. This module only distinguishes them, so that it works if the driver
can't access the files (Spark Connect, an object store).
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow import fs

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")


def is_path(place: str) -> bool:
    """Checks whether a location is a folder or file: it has a slash or a scheme, or is an existing folder. Else it
    is a catalog prefix.
    """
    return "/" in place or place in (".", "..") or bool(_SCHEME.match(place)) or os.path.isdir(place)


def local_path(place: str) -> str | None:
    """Returns the location as an absolute local path, or None if its scheme isn't `file:`.

    A path without a scheme can also mean the cluster's default file system. The caller must ensure that the local
    path is the same folder.
    """
    if place.startswith("file:"):
        return "/" + place.removeprefix("file:").lstrip("/")
    if _SCHEME.match(place):
        return None
    return os.path.abspath(os.path.expanduser(place))


def file_system(place: str) -> tuple[fs.FileSystem, str]:
    """Returns the file system for writing a small file without Spark, and the path in it.

    Args:
        place: a local path, or a URI that pyarrow knows (`s3a://` is read as `s3://`).

    Raises:
        pyarrow.ArrowException: pyarrow doesn't know the file system.
    """
    from pyarrow import fs

    local = local_path(place)
    if local is not None:
        return fs.LocalFileSystem(), local
    return fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", place))  # type: ignore[no-any-return]


def for_spark(place: str) -> str:
    """Returns the location in the form that Spark must open: an existing local folder gets the scheme `file:`.

    A Databricks volume is mounted on the driver too, but Spark knows it by its bare path.
    """
    if place.startswith("/Volumes/"):
        return place
    local = local_path(place)
    return f"file://{local}" if local is not None and os.path.exists(local) else place


def join(place: str, *names: str) -> str:
    """Returns a location inside a folder."""
    return "/".join([place.rstrip("/"), *names])


def resolve(place: str, folder: str) -> str:
    """Returns a relative path relative to `folder`. Returns any other location unchanged."""
    if not is_path(place) or _SCHEME.match(place):
        return place
    return os.path.normpath(os.path.join(folder, os.path.expanduser(place)))


def place_and_run(text: str) -> tuple[str, str | None]:
    """Splits `LOCATION@RUN_ID`. The run is None if absent, or if the part after the @ has a slash
    (`abfss://box@host/plans`).
    """
    place, at, run_id = text.rpartition("@")
    return (place, run_id) if at and run_id and "/" not in run_id else (text, None)


def time_as_run_id() -> str:
    """Returns the run_id of an unnamed run: the current time in UTC, so that names sort by time."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
