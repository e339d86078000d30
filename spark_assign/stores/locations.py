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
from urllib.parse import SplitResult, urlsplit

from spark_assign.tables.errors import SourceError

if TYPE_CHECKING:
    from pyarrow import fs

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
MAX_DEPTH = 16
"""Maximum number of folders in each other below a location."""


def is_path(location: str) -> bool:
    """Checks whether a location is a folder or file: it has a slash or a scheme, or is an existing folder. Else it
    is a catalog prefix.
    """
    return "/" in location or location in (".", "..") or bool(_SCHEME.match(location)) or os.path.isdir(location)


def local_path(location: str) -> str | None:
    """Returns the location as an absolute local path, or None if its scheme isn't `file:`.

    A path without a scheme can also mean the cluster's default file system. The caller must ensure that the local
    path is the same folder.
    """
    if location.startswith("file:"):
        return "/" + location.removeprefix("file:").lstrip("/")
    if _SCHEME.match(location):
        return None
    return os.path.abspath(os.path.expanduser(location))


def file_system(location: str) -> tuple[fs.FileSystem, str]:
    """Returns the file system for writing a small file without Spark, and the path in it.

    Args:
        location: a local path, or a URI that pyarrow knows (`s3a://` is read as `s3://`).

    Raises:
        pyarrow.ArrowException: pyarrow doesn't know the file system.
    """
    from pyarrow import fs

    local = local_path(location)
    if local is not None:
        return fs.LocalFileSystem(), local
    return fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", location))  # type: ignore[no-any-return]


def files_below(system: fs.FileSystem, base: str, *, follow_links: bool) -> list[fs.FileInfo]:
    """Returns the files in a folder and in its folders; none if there is no folder.

    Raises:
        SourceError: links are in a circle, or folders are too deep in each other.
        OSError: a folder can't be listed.
    """
    from pyarrow import fs

    if system.type_name != "local":
        found = system.get_file_info(fs.FileSelector(base, allow_not_found=True, recursive=True))
        return [each for each in found if each.is_file]
    paths: list[str] = []
    errors: list[OSError] = []
    for folder, _, names in os.walk(base, followlinks=follow_links, onerror=errors.append):
        if folder.count(os.sep) > base.count(os.sep) + MAX_DEPTH:
            raise SourceError(f"{base} has more than {MAX_DEPTH} folders in each other. Remove links to folders above")
        paths += [path for path in (os.path.join(folder, name) for name in names) if os.path.isfile(path)]
    for error in errors:
        if not isinstance(error, FileNotFoundError):  # another process has removed it
            raise error
    return list(system.get_file_info(paths))


def is_special(path: str) -> bool:
    """Checks whether a local path is written in place: a device, a pipe, or what a process has open.

    A renamed file would take its place, also that of `/dev/null`.
    """
    is_stream = os.path.abspath(path).startswith(("/dev/std", "/dev/fd/", "/proc/"))  # links to what is open
    return is_stream or (os.path.exists(path) and not os.path.isfile(path))


def for_spark(location: str) -> str:
    """Returns the location in the form that Spark must open: an existing local folder gets the scheme `file:`.

    A Databricks volume is mounted on the driver too, but Spark knows it by its bare path.
    """
    if location.startswith("/Volumes/"):
        return location
    local = local_path(location)
    return f"file://{local}" if local is not None and os.path.exists(local) else location


def split_url(url: str) -> SplitResult:
    """Returns the parts of a URL; of one that isn't valid, such as `http://[::1` or `http://host:99999`, none."""
    try:
        parts = urlsplit(url)
        return parts if parts.port != 0 else urlsplit("")
    except ValueError:
        return urlsplit("")


def join(location: str, *names: str) -> str:
    """Returns a location inside a folder."""
    return "/".join([location.rstrip("/"), *names])


def resolve(location: str, folder: str) -> str:
    """Returns a relative path relative to `folder`. Returns any other location unchanged."""
    if not is_path(location) or _SCHEME.match(location):
        return location
    return os.path.normpath(os.path.join(folder, os.path.expanduser(location)))


def split_run_id(text: str) -> tuple[str, str | None]:
    """Splits `LOCATION@RUN_ID`. The run is None if absent, or if the part after the @ has a slash
    (`abfss://box@host/plans`).
    """
    location, at, run_id = text.rpartition("@")
    return (location, run_id) if at and run_id and "/" not in run_id else (text, None)


def time_as_run_id() -> str:
    """Returns the run_id of an unnamed run: the current time in UTC, so that names sort by time."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
