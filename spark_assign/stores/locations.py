"""Locations of tables: a folder of any file system, or a catalog prefix; and the files in the folder of a fleet.

A *location* is what a user writes: `./fleet`, `/data/fleet`, and `s3a://bucket/fleet` are folders; `main.kafka` and
`kafka` are catalog prefixes. Spark opens both. This module only distinguishes them, so that it works if the driver
can't access the files (Spark Connect, an object store).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, unquote, urlparse, urlsplit

from spark_assign.stores.time_limit import within
from spark_assign.tables.errors import DISK_FAILURES, ConfigError, SourceError, in_one_line, reason

if TYPE_CHECKING:
    from pyarrow import fs
    from pyspark.sql.types import StructType


_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:")
_FILE_URI = re.compile("file:/(?!/[^/])")
SUFFIX = re.compile(r"\.(parquet|csv|json|jsonl|ndjson)(\.(gz|bz2|zst|lz4|snappy|deflate))?$")
_DENIED = re.compile("denied|forbidden|permission|unauthorized", re.IGNORECASE)
ANSWER_SECONDS = 30.0
"""Maximum time until a file system of another machine answers the first call of `file_system`."""
MAX_DEPTH = 16
"""Maximum number of folders in each other below a location."""


def is_path(location: str) -> bool:
    """Checks whether a location is a folder or file: it has a slash or a scheme, or is an existing folder, or an
    existing file with a suffix of a table (`SUFFIX`). Else it is a catalog prefix.
    """
    is_place = "/" in location or location in (".", "..") or bool(_SCHEME.match(location)) or os.path.isdir(location)
    return is_place or (bool(SUFFIX.search(location)) and os.path.isfile(location))


def local_path(location: str) -> str | None:
    """Returns the location as an absolute local path, or None if its scheme isn't `file:`.

    A path without a scheme can also mean the cluster's default file system. The caller must ensure that the local
    path is the same folder.

    Raises:
        ConfigError: a URI with the scheme `file:` has a host, or a relative path.
    """
    if location.startswith("file:"):
        if not _FILE_URI.match(location):
            raise ConfigError(f"{location} isn't a path of this machine. Give file:///PATH, without a host, or /PATH")
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
        ConfigError: see `local_path`.
        OSError: it can't be reached, or hasn't answered in `ANSWER_SECONDS`. A call of pyarrow can't be interrupted, so
            another thread makes the first one.
    """
    from pyarrow import ArrowException, fs

    local = local_path(location)
    if local is not None:
        return fs.LocalFileSystem(), local
    uri = re.sub(r"^s3[an]://", "s3://", location)
    if re.match("gc?s://[^?]*$", uri):  # by default, pyarrow tries again for 15 minutes
        uri += f"?retry_limit_seconds={ANSWER_SECONDS / 2}"

    def reached() -> tuple[fs.FileSystem, str]:
        system, path = fs.FileSystem.from_uri(uri)
        try:
            system.get_file_info(path)
        except (OSError, ArrowException) as error:
            if not _DENIED.search(str(error)):  # credentials can be for writing only
                raise
        return system, path

    try:
        return within(ANSWER_SECONDS, reached)
    except TimeoutError as error:
        raise TimeoutError(f"{location} hasn't answered in {ANSWER_SECONDS:.0f} s") from error
    except ImportError as error:
        raise OSError(f"{location}: {error}") from error


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


def write_in_place(content: bytes, path: str) -> None:
    """Writes to a special file (`is_special`). Raises OSError, also if nobody reads a pipe: it isn't waited for."""
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    with open(descriptor, "wb") as file:
        file.write(content)


def write_to_disk(file: Path, content: bytes) -> None:
    """Writes a file that is renamed next. Without this, the new name can be on the disk before the content is, and a
    machine that stops leaves an empty file.
    """
    file.write_bytes(content)
    with file.open("ab") as opened:
        os.fsync(opened.fileno())


def publish(text: bytes, file: Path) -> None:
    """Replaces a file atomically: readers see the old or the new content. A device or a pipe is written in place.

    Raises:
        SourceError: the file can't be written there.
        OSError: the disk is full, or fails.
    """
    partial = file.absolute().parent / f".{secrets.token_hex(6)}.partial"  # two runs at once have files of their own
    try:
        if is_special(str(file)):
            write_in_place(text, str(file))
            return
        write_to_disk(partial, text)
        partial.replace(file)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        if error.errno in DISK_FAILURES:
            raise OSError(error.errno, error.strerror, str(file)) from error
        raise SourceError(f"Can't write {file}: {error.strerror}. The parent folder must exist.") from error


MAX_FILE_BYTES = 1 << 20
"""Maximum size of a file of settings or of a token."""
_STREAMS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/", "/dev/null")
"""Pipes that a shell passes, and the empty file."""


def check_file(file: str | Path, max_bytes: int = MAX_FILE_BYTES) -> None:
    """Raises OSError for a device, a pipe that isn't of a shell, or a large file; ValueError for a path with NUL."""
    status = os.stat(file)
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or str(file).startswith(_STREAMS)):
        raise OSError(errno.EINVAL, "is a pipe or a device")
    if status.st_size > max_bytes:
        raise OSError(errno.EFBIG, f"has more than {max_bytes:,} bytes")


def read_file(file: str | Path, max_bytes: int = MAX_FILE_BYTES) -> bytes:
    """Returns the content of a file. Raises OSError and ValueError, as `check_file` does."""
    check_file(file, max_bytes)
    with open(file, "rb") as opened:
        content = opened.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"has more than {max_bytes:,} bytes")
    return content


def text_of(content: bytes, encoding: str = "utf-8-sig") -> str:
    """Returns the text of a file. Raises ValueError with the line that has other bytes."""
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line:,} isn't {encoding.removesuffix('-sig').upper()}") from None


def for_spark(location: str) -> str:
    """Returns the location in the form that Spark must open: an existing local folder gets the scheme `file:`.

    A Databricks volume is mounted on the driver too, but Spark knows it by its bare path.
    """
    if location.startswith("/Volumes/"):
        return location
    local = local_path(location)
    return f"file://{local}" if local is not None and os.path.exists(local) else location


_WITH_PORT = ("sc", "spark", "hdfs", "viewfs", "http", "https", "file", "ofs", "o3fs", "alluxio")
"""Schemes whose host can have a port, or be left out. With another one, such as s3, a colon is before a password."""
_USER = re.compile(r"(:/+)(\[?)[^/?#@:\s]*(?=:(\d+(?:,[^/@:\s]*:\d+)*[/?#])?)")
"""The start of a URI up to its first colon: slashes, `[` of an IPv6 address, and the port that a path follows."""
_PARAMETER = re.compile(r"([?&;#])([^=&;?#\s]+)=(?:(?![?;][^=&;?#\s]+=)[^&#\s])+")
_SECRET = re.compile(
    "secret|pass|pwd|token|key(?!space)|sas$|sig$|signature|credential(?!_kind)|auth(orization)?$", re.IGNORECASE
)
"""A part of the name of a parameter whose value is a secret, such as `secret_key`, `sig`, or `X-Amz-Signature`."""


def without_credentials(text: str) -> str:
    """Returns a text with `[hidden]` for passwords in URIs, and for the values of their parameters that are secrets."""

    def replaced(found: re.Match[str]) -> str:
        return f"{found[1]}{found[2]}=[hidden]" if _SECRET.search(unquote(found[2])) else found[0]

    return _PARAMETER.sub(replaced, re.sub(r"\S+", _without_password, text))


def _without_password(word: re.Match[str]) -> str:
    """Returns a word without what is between the start of a URI with `USER:PASSWORD@` and the last @: a password can
    have any character. `hdfs://HOST:PORT/…@RUN_ID` has none.
    """
    text, end = word[0], word[0].rfind("@")
    for found in _USER.finditer(text, 0, max(end, 0)):
        is_host = text.endswith(_WITH_PORT, 0, found.start()) and (len(found[1]) > 3 or found[2] or found[3])
        if not is_host and text[found.end()] == ":":
            return f"{text[: found.end(1)]}[hidden]{text[end:]}"
    return text


_NO_HOST = re.compile(rb'[\0- "<>\\^`{|}\x7f]|^[^:]*%')
"""A character that no host has. IPv6 has % before a zone."""


def split_url(url: str) -> SplitResult:
    """Returns the parts of a URL; of one that isn't valid, such as `http://[::1` or `http://host:99999`, none.

    A host that can't be one isn't valid either: `http://a..b`, `http://a b`, or 64 characters without a dot.
    """
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        return parts if parts.port != 0 and not _NO_HOST.search(host) else urlsplit("")
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


# --- the layout of a fleet of many clusters in one folder ----------------------------------------------------------
#
# `FLEET/cluster=NAME/taken=TIME/`, one folder per cluster. Each snapshot is written to a new `taken=…` folder beside
# the previous one, gets its name by one rename when it is complete, and then removes the folders that are older than
# the previous one. Hence a killed snapshot leaves the previous one intact, several can be written at once, and the
# last one that finished counts. Tables of Connect clusters are in `connect_cluster=NAME` in the same way. Files that
# belong to no cluster, such as the events of a simulation, can be beside the folders of the clusters.
#
# Files directly in `FLEET/cluster=NAME` count until there is a `taken=…` folder. A folder that directly contains the
# files is a fleet too: one that was made by hand, or the snapshot of one cluster.


KEYS = ("cluster", "connect_cluster")
"""The columns that name the cluster of a row, one of them in every table. The folders have the same names."""

SUMMARY = "snapshot.json"
"""The summary file of a snapshot. A snapshot without it is incomplete."""

TAKEN = "taken="
"""The prefix of the name of a snapshot's folder."""

_MAX_NAME_LENGTH, _MAX_SUMMARY_BYTES = 200, 64 << 20


def key_of(schema: StructType) -> str:
    """Returns the column of KEYS that a table has. Tables without one belong to Kafka clusters."""
    return KEYS[1] if KEYS[1] in schema.names else KEYS[0]


def folder_name(key: str, cluster: str) -> str:
    """Returns the folder name of a cluster: `cluster=NAME`, with `%XX` for all characters but letters, digits, and
    `_.-~`.

    A name that is too long for a file system is cut and ends with a part of its hash.
    """
    return f"{key}={_encoded(cluster)}"


def one_folder(cluster: str, safe: str = "") -> str:
    """Returns the name of a cluster's folder without the prefix `cluster=`; `.` and `..` are encoded, too. Characters
    in `safe` aren't."""
    name = _encoded(cluster, safe)
    return name.replace(".", "%2E") if name in (".", "..") else name


def _encoded(cluster: str, safe: str = "") -> str:
    name = quote(cluster, safe=safe)
    if len(name) > _MAX_NAME_LENGTH:
        name = f"{name[:_MAX_NAME_LENGTH]}-{hashlib.sha256(cluster.encode()).hexdigest()[:12]}"
    return name


def is_cluster(name: str) -> bool:
    """Checks whether a folder of this name contains a cluster of a fleet."""
    key, equals, _ = name.partition("=")
    return bool(equals) and key in KEYS


def name_of(uri: str) -> str:
    """Returns the name of a file for messages: its name, preceded by the folder of its cluster if it is in one."""
    *folders, name = urlparse(uri).path.split("/")
    cluster_path = next((folders[index:] for index, folder in enumerate(folders) if is_cluster(folder)), [])
    return "/".join([*map(unquote, cluster_path), unquote(name)])


def read_summary(file: str) -> Any:
    """Returns the content of a summary; None if it isn't JSON, is too large, or has half of a surrogate pair.

    Raises OSError.
    """
    with open(file, "rb") as opened:
        text = opened.read(_MAX_SUMMARY_BYTES + 1)
    with suppress(ValueError, RecursionError):
        content = json.loads(text.decode()) if len(text) <= _MAX_SUMMARY_BYTES else None
        json.dumps(content, ensure_ascii=False).encode()
        return content
    return None


def newest(names: Sequence[str]) -> str:
    """Returns the prefix of the tables of the newest complete snapshot (`taken=…/`), or "" if there is none.

    `names` are file names relative to the folder of a cluster.
    """
    complete = [
        folder
        for folder, slash, file in (name.partition("/") for name in names)
        if slash and folder.startswith(TAKEN) and file == SUMMARY
    ]
    return f"{max(complete)}/" if complete else ""


def split_by_cluster(names: Sequence[str], key: str) -> dict[str, list[str]]:
    """Returns the files of a fleet's folder, grouped by the folder of each cluster's tables.

    Args:
        names: file names relative to the folder.
        key: one of KEYS.

    Returns:
        the file names by prefix (`cluster=prod/taken=…/`), relative to the prefix; only "" if there are no folders of
            clusters.
    """
    files_by_folder: dict[str, list[str]] = defaultdict(list)
    for name in names:
        folder, slash, file = name.partition("/")
        if slash and folder.startswith(f"{key}="):
            files_by_folder[f"{folder}/"].append(file)
    files_by_prefix: dict[str, list[str]] = {}
    for prefix, cluster_files in (files_by_folder or {"": list(names)}).items():
        taken = newest(cluster_files)
        files_by_prefix[prefix + taken] = [name.removeprefix(taken) for name in cluster_files if name.startswith(taken)]
    return dict(sorted(files_by_prefix.items()))


# --- what is wrong with the files of tables, so that one error names all of it -------------------------------------


MAX_DISPLAYED = 5
"""Number of faults of a table that a message displays."""
MAX_RECORD_CHARACTERS = 500


class FileFaults:
    """The faults of tables that are read from files."""

    def __init__(self) -> None:
        self._lines: dict[str, list[tuple[str, int, str]]] = {}
        self._has_values = False
        self.num_rows: dict[str, int] = {}
        """Number of rows of each file that was read, by its path."""

    def add_value(self, table: str, problem: str, path: str, record: str, row: int) -> None:
        """Adds a value or row that doesn't parse.

        Args:
            table: the table.
            problem: names the table, the column, and the value.
            path: the file.
            record: the row, as text.
            row: its number; the first row after a header has number 1.
        """
        self._has_values = True
        line = f"{problem}, in {name_of_path(path)}: {shortened(record, MAX_RECORD_CHARACTERS)} (row {row:,})"
        self._add(table, path, row, line)

    def add_file(self, table: str, path: str, problem: str, remedy: str) -> None:
        """Adds a file that can't be read at all."""
        line = f"{table}: file://{path} cannot be read: {shortened(problem, MAX_RECORD_CHARACTERS)}. {remedy}"
        self._add(table, path, 0, line)

    def add_same_names(self, table: str, paths: Mapping[str, str]) -> bool:
        """Adds files with a column that differs from another one only in case, which engines ignore. `paths`: a file by
        column. Returns whether there are any."""
        first: dict[str, str] = {}
        for name, path in sorted(paths.items(), key=lambda item: item[0] != item[0].lower()):
            if (other := first.setdefault(name.lower(), name)) != name:
                self.add_file(table, path, f"the column {name} is also called {other}", "Remove or rename one of them")
        return len(first) < len(paths)

    def _add(self, table: str, path: str, row: int, line: str) -> None:
        self._lines.setdefault(table, []).append((path, row, in_one_line(line)))

    def is_full(self, table: str) -> bool:
        """Checks whether the faults of a table suffice for the message."""
        return len(self._lines.get(table, ())) > MAX_DISPLAYED

    def has(self, table: str) -> bool:
        """Checks whether a table has a fault."""
        return table in self._lines

    def verify(self) -> None:
        """Raises SourceError if there is a fault. The message displays the first few of each table."""
        if not self._lines:
            return
        shown = [line for lines in self._lines.values() for *_, line in sorted(lines)[:MAX_DISPLAYED]]
        more = ["… and more"] if any(len(lines) > MAX_DISPLAYED for lines in self._lines.values()) else []
        title = "values that do not parse" if self._has_values else "files that cannot be read"
        raise SourceError(f"{title}:\n" + "\n".join(f"  - {line}" for line in [*shown, *more]))


def shortened(text: str, limit: int = 100) -> str:
    """Returns at most `limit` characters of a value, with `…` if it has more."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def name_of_path(path: str) -> str:
    """Returns the name of a local file for messages."""
    return name_of(quote(path, safe="/="))


def problem_of(error: Exception) -> str:
    """Returns why a file can't be opened or decoded, in a few words that start with a small letter."""
    number = getattr(error, "errno", None)
    problem: str = os.strerror(number) if number else reason(error).rstrip(".")
    return problem[:1].lower() + problem[1:]


class UnreadableFileError(Exception):
    """A file can't be read: the problem, and the remedy."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy
