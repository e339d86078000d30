"""Snapshots of all clusters of a file, several at a time: `snapshot --clusters clusters.toml`.

    [clusters.shop-prod]
    bootstrap_server = "broker-1.prod:9092"
    command_config = "prod.properties"
    connect_url = ["http://connect-1.prod:8083"]

    [clusters.shop-prod.labels]
    tier = "1"

    [[owners]]
    group = "payments-*"
    team = "payments"

Each table has the flags of `snapshot` that describe a cluster. Relative paths start from the file's folder. Labels and
`owners` (`cli.owners`) are optional.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from spark_assign.cli.owners import entries
from spark_assign.cli.settings_file import from_file, validated
from spark_assign.report.formatting import visible
from spark_assign.sources.files.snapshot import Snapshot
from spark_assign.stores.locations import KEYS
from spark_assign.tables.errors import ConfigError, SparkAssignError, reason

FILES = ("command_config", "connect_auth", "connect_config", "connect_ca")
"""Flags with paths."""


def read_clusters(path: Path, parameters: Sequence[click.Parameter]) -> dict[str, dict[str, Any]]:
    """Returns the values of the flags of each cluster, by cluster and flag name.

    Args:
        path: the file.
        parameters: the flags that a table can have.

    Raises:
        ConfigError: the file can't be read, has no clusters, a key isn't one of the flags, or a value is invalid.
    """
    from spark_assign.cli.settings_model import model_of

    clusters = _cluster_tables(path)
    model, folder = model_of(parameters), path.absolute().parent
    values: dict[str, dict[str, Any]] = {}
    for name, table in clusters.items():
        flags = {key.replace("-", "_"): value for key, value in table.items() if key != "labels"}
        values[name] = validated(model, flags, f"{path}: [clusters.{name}]").model_dump(exclude_unset=True)
        try:
            values[name] |= {
                flag.name: flag.process_value(click.Context(click.Command("snapshot")), values[name][flag.name])
                for flag in parameters
                if flag.name in values[name] and not flag.multiple
            }
        except click.BadParameter as error:
            raise ConfigError(f"{path}: [clusters.{name}]: {error.format_message()}") from error
        for flag in FILES:
            if "://" not in values[name].get(flag, "://"):
                values[name][flag] = os.path.join(folder, os.path.expanduser(values[name][flag]))
        for at, value in enumerate(values[name].get("topology", ())):
            group_id, equals, file = value.rpartition("=")
            values[name]["topology"][at] = f"{group_id}{equals}{os.path.join(folder, os.path.expanduser(file))}"
    return values


def read_labels(path: Path) -> dict[str, str]:
    """Returns the labels of each cluster that has some, as text (`tier: 1, region: eu`). Raises ConfigError."""
    labels = {name: table["labels"] for name, table in _cluster_tables(path).items() if "labels" in table}
    return {name: ", ".join(f"{key}: {value}" for key, value in pairs.items()) for name, pairs in labels.items()}


def _cluster_tables(path: Path) -> dict[str, dict[str, Any]]:
    """Returns the table of each cluster of the file. Raises ConfigError if the file has another shape."""
    content = from_file(path)
    clusters = content.pop("clusters", None)
    entries(str(path), content.pop("owners", []))
    if content or not isinstance(clusters, dict) or not clusters:
        found = f" Found: {', '.join(content)}." if content else ""
        raise ConfigError(f"{path}: expected a table [clusters.NAME] for each cluster, and [[owners]].{found}")
    for name, table in clusters.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: clusters.{name} isn't a table. Start it with [clusters.{name}].")
        labels = table.get("labels", {})
        if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
            raise ConfigError(f'{path}: clusters.{name}.labels isn\'t a table of strings, such as tier = "1".')
    return clusters


@dataclass(frozen=True)
class Task:
    """A snapshot of a file's cluster: of Kafka, or of its Connect clusters.

    Attributes:
        cluster: name of the cluster in the file.
        key: `cluster`, or `connect_cluster` (`stores.locations.KEYS`).
        read: reads the snapshot.
    """

    cluster: str
    key: str
    read: Callable[[], Snapshot]

    def __str__(self) -> str:
        return shown_name(self.key, self.cluster)


def shown_name(key: str, cluster: str) -> str:
    """Returns the name of a cluster for messages, by which a Connect cluster differs from a Kafka cluster."""
    return cluster if key == KEYS[0] else f"{cluster} (Connect)"


def take_snapshots(
    tasks: Sequence[Task],
    store: Callable[[Snapshot], object],
    last_taken: Callable[[str, str], datetime | None],
    parallel: int,
) -> tuple[list[Snapshot], list[tuple[str, str]]]:
    """Reads and stores snapshots, at most `parallel` at a time, and prints a line for each as it ends.

    Args:
        tasks: the snapshots.
        store: writes a snapshot.
        last_taken: time of the stored snapshot of a cluster, by key and name; None if there is none.
        parallel: maximum number of snapshots at the same time.

    Returns:
        the stored snapshots, and the clusters that could not be read or stored: name and problem, by name.
    """

    def take(task: Task) -> tuple[Snapshot, float]:
        start = time.monotonic()
        snapshot = task.read()
        store(snapshot)
        return snapshot, time.monotonic() - start

    stored, failed = [], []
    with ThreadPoolExecutor(parallel) as pool, ExitStack() as at_end:
        at_end.callback(pool.shutdown, wait=False, cancel_futures=True)  # an interrupt must not start the rest
        running = {pool.submit(take, task): task for task in tasks}
        for ended in as_completed(running):
            task = running[ended]
            try:
                snapshot, seconds = ended.result()
            except Exception as error:  # one cluster must not stop the others
                known = isinstance(error, SparkAssignError)
                problems = {task.cluster: str(error) if known else f"{type(error).__name__}: {reason(error)}"}
            else:
                counts = ", ".join(f"{rows:,} {table}" for table, rows in snapshot.rows().items() if rows)
                print(f"{task}: {counts or 'empty'}, in {seconds:.1f} s", flush=True)
                stored.append(snapshot)
                problems = snapshot.problems()
            for cluster, problem in problems.items():
                failed.append((cluster, problem.rstrip(".")))
                failure = f"{replace(task, cluster=cluster)}: not read: {problem.rstrip('.')}."
                try:
                    age = _age(last_taken(task.key, cluster))
                except Exception as error:  # nor must a store that can't be read now
                    age = f"The last snapshot can't be read: {reason(error)}."
                print(visible(f"{failure} {age}", escaped="\n"), file=sys.stderr, flush=True)
    return stored, sorted(failed)


def _age(taken: datetime | None) -> str:
    if taken is None:
        return "No earlier snapshot."
    hours = (datetime.now(UTC) - taken).total_seconds() / 3600
    return f"Last snapshot: {taken:%Y-%m-%d %H:%M:%S} UTC, {hours:.1f} h old."
