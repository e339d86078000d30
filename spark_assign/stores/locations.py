"""Where tables are: a folder of any file system, or a catalog.

A *place* is what a user writes: `./fleet`, `/data/fleet`, `s3a://bucket/fleet` are folders; `main.kafka` or
`kafka` are catalog prefixes. Spark opens both; this module only tells them apart, so it works where the
files are out of the driver's sight (Spark Connect, an object store).
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
    """Whether a place is a folder or file: a slash or a scheme in it, or a folder here. Else a catalog."""
    return "/" in place or place in (".", "..") or bool(_SCHEME.match(place)) or os.path.isdir(place)


def local_path(place: str) -> str | None:
    """The place as an absolute path of this machine; None where its scheme is not `file:`.

    A path without a scheme may also mean the cluster's default file system. Whoever uses the local path has
    to see for himself that it is the same folder.
    """
    if place.startswith("file:"):
        return "/" + place.removeprefix("file:").lstrip("/")
    if _SCHEME.match(place):
        return None
    return os.path.abspath(os.path.expanduser(place))


def file_system(place: str) -> tuple[fs.FileSystem, str]:
    """Where a small file is written without Spark: the file system, and the place in it.

    Args:
        place: of this machine, or a URI that pyarrow knows (`s3a://` is its `s3://`).

    Raises:
        pyarrow.ArrowException: it knows no such file system.
    """
    from pyarrow import fs

    local = local_path(place)
    if local is not None:
        return fs.LocalFileSystem(), local
    return fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", place))  # type: ignore[no-any-return]


def for_spark(place: str) -> str:
    """The place as Spark should open it: a folder that exists on this machine gets its `file:` scheme.

    A volume of Databricks is mounted on the driver too, but there Spark knows it by its bare path.
    """
    if place.startswith("/Volumes/"):
        return place
    local = local_path(place)
    return f"file://{local}" if local is not None and os.path.exists(local) else place


def join(place: str, *names: str) -> str:
    """A place inside a folder."""
    return "/".join([place.rstrip("/"), *names])


def resolve(place: str, folder: str) -> str:
    """A relative path made relative to `folder`; anything else is as it was."""
    if not is_path(place) or _SCHEME.match(place):
        return place
    return os.path.normpath(os.path.join(folder, os.path.expanduser(place)))


def place_and_run(text: str) -> tuple[str, str | None]:
    """`PLACE@RUN` taken apart; no run is None. What has a slash behind the @ is none (`abfss://box@host/plans`)."""
    place, at, run_id = text.rpartition("@")
    return (place, run_id) if at and run_id and "/" not in run_id else (text, None)


def time_as_run_id() -> str:
    """What a run is called that nobody has named: the time of now in UTC; such names sort by time."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
