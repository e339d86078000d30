"""Writes a snapshot as files: one folder per cluster in the folder of a fleet, with a file per table and
`snapshot.json`.

`stores.locations` defines the layout, and why a failed snapshot leaves the previous one intact. `snapshot_catalog`
writes tables of a catalog.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.stores.locations import (
    KEYS,
    SUMMARY,
    TAKEN,
    folder_name,
    is_cluster,
    local_path,
    newest,
    read_summary,
)
from spark_assign.tables.errors import ConfigError, SourceError

FORMATS = ("parquet", "csv", "json")

_TIME = "%Y%m%dT%H%M%S%fZ"
_ABANDONED_S = 24 * 3600
_LOCK = threading.Lock()
"""Each thread must see which clusters the others have written, because no cluster may have two names."""


def write_folder(snapshot: Snapshot, fleet: str | Path, format: str = "parquet") -> list[Path]:
    """Replaces the snapshot's cluster in the folder of a fleet, and leaves the other clusters unchanged.

    Writes `<table>.<format>` for each table, and the summary. json has one row per line. csv has lists as `1,2,3`;
    lists of structs, and of names with a comma, are JSON. The rows of an unreadable Connect cluster are kept, except
    for the error in `unreadable`. The previous snapshot is kept until the next one, for concurrent readers.

    Returns:
        The folders of the written clusters.

    Raises:
        ConfigError: the folder has other contents, or another cluster with this name.
        SourceError: the folder can't be written. The cluster is unchanged.
    """
    if format not in FORMATS:
        raise ConfigError(f"format {format}: expected one of {', '.join(FORMATS)}")
    readable = snapshot.readable()
    with _LOCK:
        target = _fleet(fleet, snapshot)
        writes = [(_write_all, each) for each in readable] + [
            (_write_unreadable, each) for each in snapshot.unreadable()
        ]
        try:
            for write, cluster_snapshot in writes:
                home = target / folder_name(snapshot.key, cluster_snapshot.cluster)
                _check(home, cluster_snapshot)
                _replace(home, partial(write, cluster_snapshot, format))
        except OSError as error:
            raise SourceError(f"{target} cannot be written: {error.strerror or error}") from error
    return [Path(fleet) / folder_name(snapshot.key, each.cluster) for each in readable]


def last_taken(fleet: str | Path, key: str, cluster: str) -> datetime | None:
    """Returns the time of a cluster's snapshot in the folder of a fleet, or None if there is none that can be read."""
    return _taken_at(_newest_summary(Path(fleet) / folder_name(key, cluster)))


def summarized(folder: Path) -> tuple[str, datetime | None] | None:
    """Returns the cluster of the snapshot in a folder, and its time; None without a snapshot that can be read."""
    summary = _summary(folder)
    name = summary.get("cluster")
    return (name, _taken_at(summary)) if isinstance(name, str) else None


def _taken_at(summary: Mapping[str, Any]) -> datetime | None:
    """Returns the time of a snapshot; None if its summary has none, or none that is a time with a time zone."""
    try:
        taken = datetime.fromisoformat(summary["taken_at"])
        return taken.astimezone(UTC) if taken.tzinfo else None
    except (KeyError, OverflowError, TypeError, ValueError):
        return None


def _fleet(location: str | Path, snapshot: Snapshot) -> Path:
    """Returns the folder of the fleet. Raises ConfigError if the snapshot can't be written to it."""
    local = local_path(str(location))
    if local is None:
        raise ConfigError(f"{location}: a snapshot writes files to a folder of this machine, or tables to a catalog")
    fleet = Path(local)
    if is_cluster(fleet.name):
        raise ConfigError(f"{fleet} is the folder of one cluster of a fleet. Name the fleet's: {fleet.parent}")
    if fleet.is_file():
        raise ConfigError(f"{fleet} is a file. Name a folder.")
    names = _visible(fleet)
    if own := [name for name in names if name == SUMMARY or name.split(".")[0] in snapshot.tables]:
        name = _summary(fleet).get("cluster")
        home = fleet / folder_name(KEYS[0], name if isinstance(name, str) and name else "NAME")
        raise ConfigError(
            f"{fleet} holds tables of one cluster itself ({own[0]}, …), where a fleet has a folder for each cluster. "
            f"Move them to {home}, or name a new or an empty folder."
        )
    if names and not any(is_cluster(name) for name in names):
        raise ConfigError(
            f"{fleet} is there already and holds {names[0]}, but no folder {KEYS[0]}=… of a fleet. "
            "Name a new or an empty folder."
        )
    _check_other_names(fleet, snapshot)
    return fleet


def _check_other_names(fleet: Path, snapshot: Snapshot) -> None:
    """Raises ConfigError if the fleet has the Kafka cluster under another name, because it would be planned twice."""
    own = snapshot.source.get("kafka_cluster_id")
    for home in fleet.glob(f"{KEYS[0]}=*") if own else ():
        summary = _newest_summary(home)
        if _id(summary) == own and summary.get("cluster") != snapshot.cluster:
            raise ConfigError(
                f"{fleet} has this Kafka cluster (id {own}) already, as {summary.get('cluster')}. "
                f"Use that --cluster-name, or remove {home} first."
            )


def _check(home: Path, cluster_snapshot: Snapshot) -> None:
    """Raises ConfigError unless the folder of a cluster is empty or has an earlier snapshot of the same cluster."""
    names = _names(home)
    summary = _summary(home / newest(names))
    if not summary and any(not name.startswith(TAKEN) for name in names):
        raise ConfigError(f"{home} exists and has no {SUMMARY}. Remove it, or use another --cluster-name.")
    if summary and summary.get("cluster") != cluster_snapshot.cluster:
        raise ConfigError(
            f"{home} holds the cluster {summary.get('cluster')}; this one is called {cluster_snapshot.cluster}. "
            "Use another --cluster-name or folder."
        )
    known, own = _id(summary), cluster_snapshot.source.get("kafka_cluster_id")
    if known and own and known != own:
        raise ConfigError(
            f"{home} holds another Kafka cluster (id {known}; this one has {own}). Use another --cluster-name. "
            "If the cluster was recreated, remove that folder first."
        )


def _id(summary: Mapping[str, Any]) -> Any:
    """Returns the ID of the Kafka cluster, or None."""
    source = summary.get("source")
    return source.get("kafka_cluster_id") if isinstance(source, dict) else None


def _summary(folder: Path) -> dict[str, Any]:
    """Returns the summary of the snapshot in a folder, or {} if there is none."""
    try:
        summary = read_summary(str(folder / SUMMARY)) if (folder / SUMMARY).is_file() else {}
    except OSError:
        return {}
    return summary if isinstance(summary, dict) else {}


def _newest_summary(home: Path) -> dict[str, Any]:
    """Returns the summary of the newest snapshot in the folder of a cluster; {} without one that can be read."""
    try:
        return _summary(home / newest(_names(home)))
    except OSError:  # links in a circle, or a folder of another user
        return {}


def _visible(folder: Path) -> list[str]:
    """Returns the names in a folder, sorted, without hidden ones."""
    try:
        return sorted(name for name in os.listdir(folder) if name[0] not in "._")
    except (FileNotFoundError, NotADirectoryError):
        return []


def _names(home: Path) -> list[str]:
    """Returns the files of a cluster's folder and of the snapshots in it."""
    names = _visible(home)
    inside = [f"{name}/{file}" for name in names if name.startswith(TAKEN) for file in _visible(home / name)]
    return [name for name in names if not name.startswith(TAKEN)] + inside


def _replace(home: Path, write: Callable[[Path], None]) -> None:
    """Writes a snapshot next to the others of its cluster, and makes it the current one by a single rename."""
    home.mkdir(parents=True, exist_ok=True)
    fresh = home / f".{TAKEN}{secrets.token_hex(6)}"
    fresh.mkdir()
    try:
        write(fresh)
        previous = newest(_names(home)).rstrip("/")
        fresh.rename(home / _next(previous))
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    for name in os.listdir(home):
        if name.startswith(f".{TAKEN}"):
            # Left by a killed process. A younger folder might still be written.
            _remove(home / name, unless_younger_s=_ABANDONED_S)
        elif name.startswith(TAKEN) and name < previous:
            _remove(home / name)
        elif previous and name.endswith(FORMATS):  # tables in the folder itself, which are replaced
            with contextlib.suppress(OSError):  # a folder of that name stays, and isn't read
                (home / name).unlink()


def _remove(folder: Path, *, unless_younger_s: float = 0) -> None:
    """Removes a folder. Never fails: another process might remove it too, and remaining files are ignored."""
    with contextlib.suppress(OSError):
        if time.time() - folder.stat().st_mtime >= unless_younger_s:
            shutil.rmtree(folder, ignore_errors=True)


def _next(previous: str) -> str:
    """Returns the name of a new snapshot. It sorts after the previous one, even if the clock is behind."""
    now = datetime.now(UTC)
    if previous:
        try:
            last = datetime.strptime(previous.removeprefix(TAKEN).partition("-")[0], _TIME).replace(tzinfo=UTC)
            now = max(now, last + timedelta(microseconds=1))
        except (ValueError, OverflowError):
            raise ConfigError(f"{previous}: not the name of a snapshot of ours. Remove that folder.") from None
    return f"{TAKEN}{now.strftime(_TIME)}-{secrets.token_hex(3)}"


def _write_all(cluster_snapshot: Snapshot, format: str, fresh: Path) -> None:
    """Writes every table and the summary."""
    for name, table in cluster_snapshot.tables.items():
        _write(table, fresh / f"{name}.{format}", format)
    summary = json.dumps(cluster_snapshot.summary(), indent=2, ensure_ascii=False)
    (fresh / SUMMARY).write_text(f"{summary}\n", encoding="utf-8")


def _write_unreadable(cluster_snapshot: Snapshot, format: str, fresh: Path) -> None:
    """Copies the previous tables, and writes the error of the cluster."""
    previous = fresh.parent / newest(_names(fresh.parent))
    if not (previous / SUMMARY).is_file():
        _write_all(cluster_snapshot, format, fresh)
        return
    for file in previous.iterdir():
        if file.is_file() and file.stem != "unreadable":
            shutil.copyfile(file, fresh / file.name)
    _write(cluster_snapshot.tables["unreadable"], fresh / f"unreadable.{format}", format)


def _write(table: pa.Table, file: Path, format: str) -> None:
    """Writes a table to a file."""
    if format == "parquet":
        pq.write_table(table, file)
    elif format == "json":
        with file.open("w", encoding="utf-8") as lines:
            lines.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in table.to_pylist())
    else:
        pa_csv.write_csv(_flat(table), file)


def _flat(table: pa.Table) -> pa.Table:
    """Converts lists to text, because csv has none: `1,2,3`, or JSON for lists of structs and names with a comma."""
    for position, column in enumerate(table.schema):
        if pa.types.is_list(column.type):
            is_json = pa.types.is_struct(column.type.value_type)
            texts = [
                None if row is None else _list_text(row, is_json=is_json) for row in table[column.name].to_pylist()
            ]
            table = table.set_column(position, column.name, pa.array(texts, pa.string()))
    return table


def _list_text(items: list[Any], *, is_json: bool) -> str:
    texts = [str(item) for item in items]
    is_json |= not all(map(_PLAIN.fullmatch, texts))
    return json.dumps(items, ensure_ascii=False) if is_json else ",".join(texts)


_PLAIN = re.compile(r"[^\s,\[\]\"]+")
"""A number or a name in a list that is not JSON."""
