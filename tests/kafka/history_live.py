"""A live story, and the tables that the history makes of it; times are in milliseconds since 1970."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spark_assign import Fleet
from spark_assign.history.history import History, HistoryThresholds, read_history
from spark_assign.history.past_variants import replay
from spark_assign.sources.kafka.records_folder import copy_records
from spark_assign.tables.history import HISTORY_TABLES
from tests.kafka import broker, history_stage, history_truth
from tests.kafka.broker import Cluster
from tests.kafka.coordinator_log import repeated
from tests.kafka.history_story import BROKERS_SESSION_MS, CONNECT, DYNAMIC, STATIC, STOPPED, Item, Row, Story
from tests.slices import partitions

CLASSIC = [members[0].group for members in DYNAMIC if members[0].protocol == "classic"]
CONSUMER = [members[0].group for members in DYNAMIC if members[0].protocol == "consumer"]
CONSUMERS = [*CLASSIC, *CONSUMER, STATIC, STOPPED]
FLEETS = 2

Committed = dict[str, dict[tuple[str, int], int]]
"""The committed offsets of each group, by partition."""


@dataclass(frozen=True)
class Live:
    """What happened, and what the history says.

    Attributes:
        tables: rows by table.
        fleets: the tables of the fleet by moment.
        committed: for each group, the committed offset of each partition, as the coordinator describes it.
        written: for each classic group, the generations of its GroupMetadata records, as Kafka's tool prints them.
    """

    story: Story
    tables: dict[str, list[Row]]
    fleets: dict[int, dict[str, list[Row]]]
    committed: Committed
    written: dict[str, list[int]]

    def of(self, table: str, group: str) -> list[Row]:
        """The rows of a group."""
        return [row for row in self.tables[table] if row["group_id"] == group]

    def owners_at(self, group: str, at_ms: int) -> history_truth.Owners:
        """Who has what at a moment, by client; without standbys and warmups, which the story doesn't have."""
        clients = {row["member_id"]: client(group, row) for row in self.of("memberships", group)}
        found: defaultdict[str, set[Item]] = defaultdict(set)
        for row in self.of("memberships", group):
            if lasts(row, at_ms):
                found[clients[row["member_id"]]] |= set()
        for row in self.of("ownership", group):
            if lasts(row, at_ms) and row["role"] != "standby":
                found[clients[row["member_id"]]] |= set(items(row))
        return {name: frozenset(owned) for name, owned in found.items()}


def client(group: str, row: Row) -> str:
    """The member as the story names it."""
    name = str(row["client_id"])
    if group == CONNECT:
        return name.removeprefix("connect-")
    return name.split("-StreamThread-")[0]


def lasts(row: Row, at_ms: int) -> bool:
    """Whether something is so at a moment."""
    return bool(row["start_time"] <= at_ms and (row["end_time"] is None or at_ms < row["end_time"]))


def items(row: Row) -> Iterator[Item]:
    """What a run has."""
    for partition in partitions(row):
        yield row["role"], row["topic"], partition


def collected(table: DataFrame) -> list[Row]:
    """A table, its times in milliseconds."""
    rows = table.toArrow().to_pylist()
    return [{name: ms(value) if isinstance(value, datetime) else value for name, value in row.items()} for row in rows]


def ms(moment: datetime) -> int:
    """Since 1970."""
    return round(moment.timestamp() * 1000)


def played(spark: SparkSession, class_path: str, folder: Path, seed: int) -> Live:
    """Plays the story on a broker of its own, and reads its history.

    Nothing else writes to the `__consumer_offsets` that is read. If the machine is too busy for the members' sessions,
    the story starts again.
    """

    def attempted(attempt: int) -> tuple[Path, Story, dict[str, list[int]], Committed]:
        home = folder / f"attempt-{attempt}"
        home.mkdir()
        with broker.cluster(class_path) as cluster:
            with history_stage.played(cluster, home) as story:
                copy_records(cluster.bootstrap_servers, "live", home / "records")
                written = history_truth.written_generations(cluster)
            return home, story, written, _committed(cluster)

    home, story, written, committed = repeated(attempted)
    records = spark.read.parquet(str(home / "records"))
    past = read_history(records, HistoryThresholds(session_timeout_ms=BROKERS_SESSION_MS))
    past.tagged_rows().write.parquet(str(home / "tagged_rows"))
    past = past.with_tagged_rows(spark.read.parquet(str(home / "tagged_rows")))
    again = replay(records, assignors=[])
    tables = {name: collected(getattr(past, name)) for name in HISTORY_TABLES}
    tables |= {name: collected(getattr(again, name)) for name in ("replay_summary", "replay_rejected")}
    return Live(story, tables, _fleets(past, fleet_moments(story, random.Random(seed))), committed, written)


def _fleets(past: History, moments: list[int]) -> dict[int, dict[str, list[Row]]]:
    of_moment = {at: Fleet.as_of(past, datetime.fromtimestamp(at / 1000, UTC).isoformat()) for at in moments}
    names = ("groups", "members", "subscriptions", "owned_slices", "topics")
    return {at: {name: collected(getattr(fleet, name)) for name in names} for at, fleet in of_moment.items()}


def _committed(cluster: Cluster) -> Committed:
    committed: Committed = {}
    with cluster.admin() as admin:
        for group in CONSUMERS:
            offsets = admin.list_group_offsets([group])
            offsets = offsets.get(group, offsets)
            committed[group] = {(each.topic, each.partition): at.offset for each, at in offsets.items()}
    return committed


def fleet_moments(story: Story, chance: random.Random) -> list[int]:
    """Moments at which no group of consumers is on the move."""
    windows = chance.sample(story.settled, len(story.settled)) * 50
    drawn = (chance.randint(since, until) for since, until in windows)
    quiet = (at for at in drawn if all(history_truth.owners_at(story, group, at) is not None for group in CONSUMERS))
    return list(islice(quiet, FLEETS))
