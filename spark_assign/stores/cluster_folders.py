"""Lays out a fleet of many clusters as one folder: `FLEET/cluster=NAME/taken=TIME/`, one folder per cluster.

Each snapshot is written to a new `taken=…` folder beside the previous one, gets its name by one rename when it is
complete, and then removes the folders that are older than the previous one. Hence a killed snapshot leaves the
previous one intact, several can be written at once, and the last one that finished counts. Tables of Connect
clusters are in `connect_cluster=NAME` in the same way. Files that belong to no cluster, such as the events of a
simulation, can be beside the folders of the clusters.

Files directly in `FLEET/cluster=NAME` count until there is a `taken=…` folder. A folder that directly contains the
files is a fleet too: one that was made by hand, or the snapshot of one cluster.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote, urlparse

from pyspark.sql.types import StructType

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
