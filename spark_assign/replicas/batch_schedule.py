"""Estimates how long each batch of a reassignment takes with a throttle.

Principles
    1. A new replica copies from the leader of its partition, and from no other broker. All partitions of a batch start
       at once (KIP-455).
    2. The throttle bounds what a broker sends and what it receives for the partitions of the batch. New writes count,
       too, and so does what replicas in sync fetch from the leader (`KafkaApis`), so that writes slow a copy down.
    3. The broker with the most bytes for its throttle ends last. A batch starts when the one before is complete.
    4. The throttle is a mean over the last 11 s since the first copy (`ReplicationQuotaManager`, `SimpleRate`). A
       follower that has reached it and has nothing else to fetch waits for 1 s. What it could have copied meanwhile
       is lost once that second leaves the window. So a copy gets from 10/11 of the throttle to all of it, and the
       follower can wait once more before the fetch with which it joins the in-sync replicas. A batch can make up for
       the time since the one before, if the window still has it.
    5. A fetch ends after 1 MiB of a partition, also within a record batch, which is then sent again
       (`replica.fetch.max.bytes`). Both count. Record batches of more than 512 KiB lose up to half of the throttle,
       those of 16 KiB 1 %. Their sizes are unknown here, so times are without this.
    6. A move between log directories of a broker has its own throttle, for all moves of the broker
       (`replica.alter.log.dirs.io.max.bytes.per.second`, KIP-113): the same rate, by the same kind of quota.
    7. A rate that a complete batch measured has all of this. It replaces the throttle in the times of the others.

Example: partition p (100 MB, written with 1 MB/s) has its leader on broker 1, a follower on 2, and moves from 2 to 3.
With 10 MB/s, broker 3 receives 100 MB, at least 10 s. Meanwhile, 1 MB/s of new writes comes in, so broker 3 needs
100 / (10 - 1) = 11.1 s, and broker 1, which also sends 1 MB/s to broker 2, 100 / (10 - 2) = 12.5 s. With waits, this is
12.5 * 11 / 10 + 1 = 14.75 s: 10 s to 14.75 s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Annotated

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_assign.replicas.kafka_tool_files import CHANGED, MAX_PARTITIONS, REASSIGN
from spark_assign.replicas.kernel.reassignment_batches import moved_within, split_batches
from spark_assign.replicas.kernel.reassignment_facts import MAX_RATE
from spark_assign.replicas.reassignment import Reassignment, is_changed
from spark_assign.spark.dataframes import Row, map_sorted_rows
from spark_assign.tables.errors import ConfigError, Fault, FleetError
from spark_assign.tables.parameters import Param, find_fault
from spark_assign.tables.replicas import SCHEDULE

WINDOW_SECONDS = 11
"""The longest time that the rate of a throttle is a mean of (`replication.quota.window.num` samples of 1 s)."""
FETCH_BACKOFF_SECONDS = 1
"""How long a follower waits if it leaves all partitions out of a fetch (`replica.fetch.backoff.ms`)."""
TOOL = "kafka-reassign-partitions.sh --bootstrap-server BROKER:PORT --reassignment-json-file"


@dataclass(frozen=True)
class Bandwidth:
    """What brokers can send and receive, and how much of it a reassignment leaves free.

    Attributes:
        throttle: throttle of the reassignment, in bytes/s, to compute how long each batch takes. Requires the table
            sizes.
        bytes_per_second: what each broker can send, and receive, in bytes/s (network or disk, whichever is less), to
            compute the throttle, too. Requires the tables sizes and loads.
        headroom: with `bytes_per_second`: fraction of it that stays free beside measured rates and the reassignment.
        fan_out: number of consumers of each partition, which its leader serves.
        measured_rate: bytes/s that the slowest broker of a complete batch sent or received, new writes included, for
            the times of the others; the commands keep the throttle (default: the throttle).

    Raises:
        ConfigError: neither or both of `throttle` and `bytes_per_second` are given, or a number is out of range.

    Examples:
        >>> Bandwidth(throttle=50_000_000).headroom
        0.3
    """

    throttle: Annotated[int | None, Param(least=1, metavar="BYTES")] = None
    bytes_per_second: Annotated[int | None, Param(least=1, flag="bandwidth", metavar="BYTES")] = None
    headroom: Annotated[float, Param(least=0, below=1)] = 0.3
    fan_out: float = 1.0
    measured_rate: Annotated[int | None, Param(least=1, metavar="BYTES")] = None

    def __post_init__(self) -> None:
        if (self.throttle is None) == (self.bytes_per_second is None):
            raise ConfigError("expected either throttle or bytes_per_second")
        if fault := find_fault(self):
            raise ConfigError(fault)
        if self.fan_out < 0:
            raise ConfigError("expected a fan-out of 0 or more")


def schedule(
    plan: Reassignment,
    bandwidth: Bandwidth,
    loads: DataFrame | None = None,
    *,
    partitions_per_batch: int | None = None,
    bytes_per_batch: int | None = None,
    finish: datetime | None = None,
) -> DataFrame:
    """Returns how long each batch of `tool_files` takes, and the commands (`tables.replicas.SCHEDULE`).

    Args:
        plan: result of `reassign` for a fleet with `sizes`. With tiered storage, give the sizes of local logs: remote
            segments aren't copied (KIP-405).
        bandwidth: the throttle, or what it is computed from.
        loads: cluster, topic, partition, in_bytes_per_second (`tables.groups.LOADS`); a partition without a rate counts
            as not written.
        partitions_per_batch, bytes_per_batch: as in `tool_files`.
        finish: time by which the last batch must be complete, for `latest_start`.

    Raises:
        FleetError: sizes are missing; rates are missing, or leave nothing, and no throttle is given.
    """
    if plan.fleet.sizes is None:
        remedy = "Give cluster, topic, partition, bytes (the local log) with --table sizes=LOCATION"
        raise FleetError([Fault("sizes", "*", "the table is missing, so times are unknown", remedy)])
    if loads is None and bandwidth.throttle is None:
        remedy = "Take them from two snapshots (diff --loads), or give the throttle (--throttle)"
        raise FleetError([Fault("loads", "*", "the table is missing, so the rates of brokers are unknown", remedy)])
    key = ["cluster", "topic", "partition"]
    placed = plan.placement.withColumn("rate", F.lit(0.0))
    if loads is not None:
        rates = loads.groupBy(*key).agg(F.max("in_bytes_per_second").alias("rate"))
        if wrong := rates.where(~F.col("rate").between(0.0, MAX_RATE)).orderBy(*key).limit(1).collect():
            where = ", ".join(f"{name}={wrong[0][name]}" for name in key)
            problem = f"negative, or not a number up to {MAX_RATE:,.0f}, e.g. {where}"
            raise FleetError([Fault("loads", "in_bytes_per_second", problem, "Correct the row")])
        placed = placed.drop("rate").join(rates, key, "left").fillna(0.0, ["rate"])
    clusters = placed.groupBy("cluster").agg(F.avg("bytes").alias("mean_bytes"))
    clusters = clusters.join(_throttles(placed, bandwidth), "cluster")
    rows = placed.where(F.col("previous_replicas").isNotNull() & is_changed())
    rows = rows.join(F.broadcast(clusters), "cluster").select(*CHANGED, "rate", "throttle", "mean_bytes")
    work = partial(
        schedule_batches,
        partitions=partitions_per_batch,
        limit=bytes_per_batch,
        finish=finish,
        measured_rate=bandwidth.measured_rate,
    )
    return map_sorted_rows(rows, key, work, SCHEDULE)


def _throttles(placed: DataFrame, bandwidth: Bandwidth) -> DataFrame:
    """Returns the throttle of each cluster: what is left at its busiest broker, in the busier direction.

    Raises:
        FleetError: nothing is left.
    """
    clusters = placed.select("cluster").distinct()
    if bandwidth.throttle is not None:
        return clusters.withColumn("throttle", F.lit(float(bandwidth.throttle)))
    usable = F.lit((1 - bandwidth.headroom) * float(bandwidth.bytes_per_second or 0))
    previous = placed.where(F.col("previous_replicas").isNotNull())
    replicas = previous.select("cluster", "rate", "previous_replicas", F.posexplode("previous_replicas"))
    sent = F.when(F.col("pos") == 0, F.col("rate") * (F.size("previous_replicas") - 1 + bandwidth.fan_out)).otherwise(0)
    brokers = replicas.groupBy("cluster", "col").agg(F.sum("rate").alias("received"), F.sum(sent).alias("sent"))
    busiest = brokers.groupBy("cluster").agg(F.max(F.greatest("received", "sent")).alias("busiest"))
    throttles = busiest.select("cluster", (usable - F.col("busiest")).alias("throttle"), "busiest")
    faults = [
        Fault(
            "loads",
            "in_bytes_per_second",
            f"the busiest broker of {row['cluster']} has {row['busiest']:,.0f} bytes/s, so nothing is left",
            "Raise --bandwidth, lower --headroom, or give the throttle (--throttle)",
        )
        for row in throttles.where(F.col("throttle") < 1).orderBy("cluster").limit(10).collect()
    ]
    if faults:
        raise FleetError(faults)
    return throttles.drop("busiest")


@dataclass(frozen=True)
class Ports:
    """What brokers send, receive, and copy between log directories for the partitions of a batch: bytes to copy, and
    bytes/s of writes, by broker."""

    copied: dict[tuple[str, int], float]
    written: dict[tuple[str, int], float]

    @staticmethod
    def of_rows(rows: Iterable[Row], mean_bytes: float) -> Ports:
        """Adds up changed partitions; an unknown size counts as the mean."""
        copied: dict[tuple[str, int], float] = defaultdict(float)
        written: dict[tuple[str, int], float] = defaultdict(float)
        for row in rows:
            added = [broker for broker in row["replicas"] if broker not in row["previous_replicas"]]
            rate, leader = row["rate"] or 0.0, row["previous_replicas"][0]
            for broker, moved in moved_within(row):
                copied["within", broker] += moved
                written["within", broker] += rate
            if not added:
                continue
            size = mean_bytes if row["bytes"] is None else row["bytes"]
            copied["out", leader] += size * len(added)
            written["out", leader] += rate * (len(added) + len(row["previous_replicas"]) - 1)
            for broker in added:
                copied["in", broker] += size
                written["in", broker] += rate
        return Ports(copied, written)

    def seconds(self, total_rate: float, *, writes: bool) -> tuple[float | None, int | None]:
        """Returns the time of the slowest broker, and the broker; no time if writes use up the rate."""
        slowest: tuple[float, int | None] = (0.0, None)
        for port, size in sorted(self.copied.items()):
            rate = total_rate - writes * self.written[port]
            if size and rate <= 0:
                return None, port[1]
            if size and size / rate > slowest[0]:
                slowest = (size / rate, port[1])
        return slowest


def schedule_batches(
    rows: Iterable[Row],
    partitions: int | None,
    limit: int | None,
    finish: datetime | None,
    measured_rate: float | None = None,
) -> Iterator[Row]:
    """Yields the batches of all clusters (`tables.replicas.SCHEDULE`), in the order of their files.

    Args:
        rows: the changed partitions of `kafka_tool_files`, also with `rate` (bytes/s written; None: unknown), and
            `throttle` (bytes/s) and `mean_bytes` of the cluster; sorted by cluster, topic, and partition.
        partitions, limit: maximum number of partitions, and of bytes, in a batch.
        finish: time at which the last batch must be complete.
        measured_rate: bytes/s that replace the throttle in the times.
    """
    for cluster, changed in groupby(rows, key=lambda row: row["cluster"]):
        cluster_rows = list(changed)
        throttle, mean = cluster_rows[0]["throttle"], cluster_rows[0]["mean_bytes"] or 0.0
        bound, _ = Ports.of_rows(cluster_rows, mean).seconds(measured_rate or throttle, writes=False)
        most = min(partitions or MAX_PARTITIONS, MAX_PARTITIONS)
        batches = [
            _batch_row(cluster, ordinal, batch, throttle, measured_rate, mean)
            for ordinal, (batch, _) in enumerate(split_batches(cluster_rows, most, limit), start=1)
        ]
        starts = _latest_starts([batch["max_seconds"] for batch in batches], finish)
        for batch, start in zip(batches, starts, strict=True):
            yield batch | {"lower_bound_seconds": bound, "latest_start": start}


def _batch_row(
    cluster: str, ordinal: int, batch: Sequence[Row], throttle: float, measured_rate: float | None, mean: float
) -> Row:
    ports, name = Ports.of_rows(batch, mean), f"{REASSIGN}-{ordinal:03}.json"
    rates = f"--throttle {int(throttle)}"
    if any(row.get("log_dirs") for row in batch):
        rates += f" --replica-alter-log-dirs-throttle {int(throttle)}"
    fastest, _ = ports.seconds(measured_rate or throttle, writes=False)
    slowest, broker = ports.seconds(measured_rate or throttle, writes=True)
    if slowest and not measured_rate:
        slowest = slowest * WINDOW_SECONDS / (WINDOW_SECONDS - FETCH_BACKOFF_SECONDS) + FETCH_BACKOFF_SECONDS
    return {
        "cluster": cluster,
        "batch": ordinal,
        "name": name,
        "partitions": len(batch),
        "copied_bytes": min(round(sum(size for (side, _), size in ports.copied.items() if side != "out")), 2**63 - 1),
        "throttle": int(throttle),
        "slowest_broker_id": broker,
        "min_seconds": fastest,
        "max_seconds": slowest,
        "execute": f"{TOOL} {name} {rates} --execute",
        "verify": f"{TOOL} {name} --verify",
    }


def _latest_starts(seconds: Sequence[float | None], finish: datetime | None) -> list[datetime | None]:
    """Returns when each batch must start at the latest; None if a batch from there on has no known end."""
    starts: list[datetime | None] = []
    for duration in reversed(seconds):
        try:
            finish = None if finish is None or duration is None else finish - timedelta(seconds=duration)
        except OverflowError:  # before the year 1
            finish = None
        starts.append(finish)
    return starts[::-1]
