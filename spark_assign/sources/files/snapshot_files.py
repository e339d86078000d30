"""A snapshot as files: the folder of its cluster in a fleet's folder, with a file per table and `snapshot.json`.

What is written where, and why a snapshot that dies leaves the one before, is in `cluster_folders`. Tables of a catalog
are in `snapshot_catalog`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.stores.cluster_folders import KEYS, SUMMARY, TAKEN, folder_name, is_cluster, newest, taken_name
from spark_assign.stores.locations import local_path
from spark_assign.tables.errors import ConfigError, SourceError

FORMATS = ("parquet", "csv", "json")

_TIME = "%Y%m%dT%H%M%S%fZ"
_ABANDONED_S = 24 * 3600


def write_folder(snapshot: Snapshot, fleet: str | Path, format: str = "parquet") -> list[Path]:
    """Replace the snapshot's cluster in the folder of a fleet, and leave every other cluster as it is.

    Writes `<table>.<format>` for each table and the summary; json: a row a line, csv: lists as `1,2,3`, of structs as
    JSON. Of a Connect cluster that could not be read the rows stay as they were, but for the reason in `unreadable`.
    The snapshot before stays beside the new one until the next, for whoever is reading it.

    Returns:
        the folders of the clusters that were written.

    Raises:
        ConfigError: the folder holds something else, or another cluster under this name.
        SourceError: it cannot be written; the cluster is as it was.
    """
    if format not in FORMATS:
        raise ConfigError(f"format {format}: expected one of {', '.join(FORMATS)}")
    target = _fleet(fleet, snapshot)
    homes = []
    try:
        for part in snapshot.read():
            home = target / folder_name(snapshot.key, part.cluster)
            _check(home, part)
            _replace(home, partial(_write_all, part, format))
            homes.append(Path(fleet) / home.name)
        for part in snapshot.unread():
            home = target / folder_name(snapshot.key, part.cluster)
            _check(home, part)
            _replace(home, partial(_write_unread, part, format, home))
    except OSError as error:
        raise SourceError(f"{target} cannot be written: {error.strerror or error}") from error
    return homes


def _fleet(given: str | Path, snapshot: Snapshot) -> Path:
    """The folder of the fleet, looked over."""
    local = local_path(str(given))
    if local is None:
        raise ConfigError(f"{given}: a snapshot writes files to a folder of this machine, or tables to a catalog")
    fleet = Path(local)
    if is_cluster(fleet.name):
        raise ConfigError(f"{fleet} is the folder of one cluster of a fleet. Name the fleet's: {fleet.parent}")
    if fleet.is_file():
        raise ConfigError(f"{fleet} is a file. Name a folder.")
    names = _visible(fleet)
    if own := [name for name in names if name == SUMMARY or name.split(".")[0] in snapshot.tables]:
        there = _summary(fleet).get("cluster")
        home = fleet / folder_name(KEYS[0], there if isinstance(there, str) and there else "NAME")
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
    """The same Kafka cluster under two names would be planned twice."""
    own = snapshot.source.get("kafka_cluster_id")
    for home in fleet.glob(f"{KEYS[0]}=*") if own else ():
        there = _summary(home / newest(_names(home)))
        if _id(there) == own and there.get("cluster") != snapshot.cluster:
            raise ConfigError(
                f"{fleet} has this Kafka cluster (id {own}) already, as {there.get('cluster')}. "
                f"Give that name by --cluster, or remove {home} first."
            )


def _check(home: Path, part: Snapshot) -> None:
    """Whether the folder of a cluster is free, or holds an earlier snapshot of the same cluster."""
    names = _names(home)
    there = _summary(home / newest(names))
    if not there and any(not name.startswith(TAKEN) for name in names):
        raise ConfigError(f"{home} is there already and holds no {SUMMARY}. Remove it, or give another --cluster.")
    if there and there.get("cluster") != part.cluster:
        raise ConfigError(
            f"{home} holds the cluster {there.get('cluster')}; this one is called {part.cluster}. "
            "Give another name by --cluster, or name another folder."
        )
    known, own = _id(there), part.source.get("kafka_cluster_id")
    if known and own and known != own:
        raise ConfigError(
            f"{home} holds another Kafka cluster (id {known}; this one has {own}). Give this one a name of its own by "
            "--cluster; where it was set up anew and the old one is gone, remove that folder first."
        )


def _id(summary: Mapping[str, Any]) -> Any:
    source = summary.get("source")
    return source.get("kafka_cluster_id") if isinstance(source, dict) else None


def _summary(folder: Path) -> dict[str, Any]:
    """What the snapshot in a folder says of itself; nothing where there is none."""
    try:
        found = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _visible(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name[0] not in "._")
    except (FileNotFoundError, NotADirectoryError):
        return []


def _names(home: Path) -> list[str]:
    """The files of a cluster's folder, and those of the snapshots in it."""
    names = _visible(home)
    inside = [f"{name}/{file}" for name in names if name.startswith(TAKEN) for file in _visible(home / name)]
    return [name for name in names if not name.startswith(TAKEN)] + inside


def _replace(home: Path, write: Callable[[Path], None]) -> None:
    """Have a snapshot written beside the others of its cluster, and make it the one that counts by one rename."""
    home.mkdir(parents=True, exist_ok=True)
    fresh = home / f".{TAKEN}{secrets.token_hex(6)}"
    fresh.mkdir()
    try:
        write(fresh)
        before = newest(_names(home)).rstrip("/")
        fresh.rename(home / _next(before))
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    for name in os.listdir(home):
        if name.startswith(f".{TAKEN}"):
            _remove(home / name, unless_younger_s=_ABANDONED_S)  # of a process that was killed, not of one that writes
        elif name.startswith(TAKEN) and name < before:
            _remove(home / name)
        elif before and name.endswith(FORMATS):  # tables in the folder itself, which count no longer
            (home / name).unlink(missing_ok=True)


def _remove(folder: Path, *, unless_younger_s: float = 0) -> None:
    """Never fails: somebody else may be doing the same, and what stays does not count."""
    with contextlib.suppress(OSError):
        if time.time() - folder.stat().st_mtime >= unless_younger_s:
            shutil.rmtree(folder, ignore_errors=True)


def _next(before: str) -> str:
    """The name of a snapshot that is taken now, behind that of the one before whatever the clock says."""
    now = datetime.now(UTC)
    if before:
        try:
            last = datetime.strptime(before.removeprefix(TAKEN).partition("-")[0], _TIME).replace(tzinfo=UTC)
        except ValueError:
            raise ConfigError(f"{before}: not the name of a snapshot of ours. Remove that folder.") from None
        now = max(now, last + timedelta(microseconds=1))
    return taken_name(f"{now.strftime(_TIME)}-{secrets.token_hex(3)}")


def _write_all(part: Snapshot, format: str, fresh: Path) -> None:
    for name, table in part.tables.items():
        _write(table, fresh / f"{name}.{format}", format)
    summary = json.dumps(part.summary(), indent=2, ensure_ascii=False)
    (fresh / SUMMARY).write_text(f"{summary}\n", encoding="utf-8")


def _write_unread(part: Snapshot, format: str, home: Path, fresh: Path) -> None:
    """The tables as they were, and why they are no newer."""
    before = home / newest(_names(home))
    if not (before / SUMMARY).is_file():
        _write_all(part, format, fresh)
        return
    for file in before.iterdir():
        if file.is_file() and file.stem != "unreadable":
            shutil.copyfile(file, fresh / file.name)
    _write(part.tables["unreadable"], fresh / f"unreadable.{format}", format)


def _write(table: pa.Table, file: Path, format: str) -> None:
    if format == "parquet":
        pq.write_table(table, file)
    elif format == "json":
        with file.open("w", encoding="utf-8") as lines:
            lines.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in table.to_pylist())
    else:
        pa_csv.write_csv(_flat(table), file)


def _flat(table: pa.Table) -> pa.Table:
    """Lists as text, `1,2,3`, and lists of structs as JSON: csv has neither."""
    for position, column in enumerate(table.schema):
        if not pa.types.is_list(column.type):
            continue
        if pa.types.is_struct(column.type.value_type):
            rows = table[column.name].to_pylist()
            texts = pa.array(
                [None if row is None else json.dumps(row, ensure_ascii=False) for row in rows], pa.string()
            )
        else:
            texts = pc.binary_join(table[column.name].cast(pa.list_(pa.string())), ",")
        table = table.set_column(position, column.name, texts)
    return table
