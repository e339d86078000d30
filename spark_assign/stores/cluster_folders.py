"""A fleet of many clusters as one folder: `FLEET/cluster=NAME/taken=TIME/`, a folder for each cluster.

Whoever takes a snapshot writes a new `taken=…` beside the one before, gives it its name by one rename when it is whole,
and removes those that are older than the one before. So a snapshot that is killed leaves the one before, several may
be written at once, and the last one that was finished counts. Tables of Connect clusters are in `connect_cluster=NAME`
likewise. What is of no cluster, such as the events of a simulation, may stand beside the folders of the clusters.

Files that lie in `FLEET/cluster=NAME` itself count until there is a `taken=…`, and a folder that has its files in
itself is a fleet, too: one that was made by hand, or the snapshot of one cluster.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from urllib.parse import quote, unquote, urlparse

from pyspark.sql.types import StructType

KEYS = ("cluster", "connect_cluster")
"""The columns that say of which cluster a row is, one of them in every table; and what folders are called by."""

SUMMARY = "snapshot.json"
"""The file of every snapshot; what has none was not finished."""

TAKEN = "taken="
"""How the folder of one snapshot begins."""

_LONGEST = 200


def key_of(schema: StructType) -> str:
    """Which of KEYS a table has; tables without one are of Kafka clusters."""
    return KEYS[1] if KEYS[1] in schema.names else KEYS[0]


def folder_name(key: str, cluster: str) -> str:
    """The folder of a cluster: `cluster=NAME`, all but letters, digits and `_.-~` as `%XX`.

    A name that is too long for a file system ends with a part of its hash.
    """
    name = quote(cluster, safe="")
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}-{hashlib.sha256(cluster.encode()).hexdigest()[:12]}"
    return f"{key}={name}"


def is_cluster(name: str) -> bool:
    """Whether a folder of this name holds a cluster of a fleet."""
    key, equals, _ = name.partition("=")
    return bool(equals) and key in KEYS


def name_of(uri: str) -> str:
    """How a file is called in a message: its name, behind the folder of its cluster where it is in one."""
    *folders, name = urlparse(uri).path.split("/")
    inside = next((folders[at:] for at, folder in enumerate(folders) if is_cluster(folder)), [])
    return "/".join([*map(unquote, inside), unquote(name)])


def taken_name(at: str) -> str:
    """The folder of one snapshot, by a text that sorts as time does."""
    return f"{TAKEN}{at}"


def newest(names: Sequence[str]) -> str:
    """Of file names relative to a cluster's folder, where its tables are: `taken=…/` of the last snapshot, or ""."""
    whole = [
        folder
        for folder, slash, file in (name.partition("/") for name in names)
        if slash and folder.startswith(TAKEN) and file == SUMMARY
    ]
    return f"{max(whole)}/" if whole else ""


def parts(names: Sequence[str], key: str) -> dict[str, list[str]]:
    """The files of a fleet's folder by where the tables of each of its clusters are.

    Args:
        names: of the files, relative to the folder.
        key: of KEYS.

    Returns:
        by prefix (`cluster=prod/taken=…/`) the names behind it; only "" where there are no folders of clusters.
    """
    inside: dict[str, list[str]] = defaultdict(list)
    for name in names:
        folder, slash, rest = name.partition("/")
        if slash and folder.startswith(f"{key}="):
            inside[f"{folder}/"].append(rest)
    found: dict[str, list[str]] = {}
    for prefix, mine in (inside or {"": list(names)}).items():
        taken = newest(mine)
        found[prefix + taken] = [name.removeprefix(taken) for name in mine if name.startswith(taken)]
    return dict(sorted(found.items()))
