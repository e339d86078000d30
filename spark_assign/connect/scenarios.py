"""Stories that come with the package, to be simulated: as rows of a ConnectFleet's tables and of events.

`90x10` is the comparison that was published with KIP-415 (incremental cooperative rebalancing in Kafka Connect): 3
workers; 90 connectors with 10 tasks each, added one at a time; a worker joins, one bounces within the delay, one
leaves for good; all connectors are removed one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from spark_assign.connect.fleet import ConnectFleet
from spark_assign.tables.connect import EVENTS, INPUT_TABLES, REQUIRED_TABLES

CALM_MS = 600_000
"""Between two changes; longer than the delay, so that each change is over when the next one comes."""

BOUNCE_MS = 60_000


@dataclass(frozen=True)
class Scenario:
    """A story.

    Attributes:
        name: of the scenario, and of its Connect cluster.
        events: rows of `tables.connect.EVENTS`.
        phases: from when on each part of the story lasts: at_ms and name, in order.
        max_delay_ms: `scheduled.rebalance.max.delay.ms`.
        protocols: to compare.
    """

    name: str
    events: list[dict[str, Any]]
    phases: list[tuple[int, str]]
    max_delay_ms: int = 300_000
    protocols: tuple[str, ...] = ("eager", "sessioned", "compatible-2.6")

    @property
    def cluster(self) -> dict[str, Any]:
        """The cluster before anything happens, a row of `tables.connect.CLUSTERS`: it has nothing yet."""
        clock = {"protocol": "sessioned", "now_ms": 0, "generation_id": 1, "last_completed_generation_id": -1}
        return {"connect_cluster": self.name, "max_delay_ms": self.max_delay_ms} | clock

    def tables(self, spark: SparkSession) -> tuple[ConnectFleet, DataFrame]:
        """The cluster before anything happens, and the events."""
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in REQUIRED_TABLES}
        rows["clusters"] = [self.cluster]
        fleet = ConnectFleet(**{name: _dataframe(spark, lines, INPUT_TABLES[name]) for name, lines in rows.items()})
        return fleet, _dataframe(spark, self.events, EVENTS)


def ninety_by_ten(connectors: int = 90, tasks: int = 10) -> Scenario:
    """The comparison, in other sizes if wanted."""
    names = [f"c{number:0{len(str(connectors))}d}" for number in range(1, connectors + 1)]
    story: list[tuple[str, list[tuple[int, str, str, int | None]]]] = [
        ("start", [(0, "worker-joined", worker, None) for worker in ("w1", "w2", "w3")]),
        ("add", [(CALM_MS, "connector-added", name, tasks) for name in names]),
        ("join", [(CALM_MS, "worker-joined", "w4", None)]),
        ("bounce", [(CALM_MS, "worker-left", "w2", None), (BOUNCE_MS, "worker-joined", "w2", None)]),
        ("leave", [(CALM_MS, "worker-left", "w3", None)]),
        ("delete", [(CALM_MS, "connector-removed", name, None) for name in names]),
    ]
    events: list[dict[str, Any]] = []
    phases: list[tuple[int, str]] = []
    now = 0
    for phase, steps in story:
        for number, (after, event, subject, count) in enumerate(steps):
            now += after
            if number == 0:
                phases.append((now, phase))
            events.append({"at_ms": now, "event": event, "subject": subject, "tasks": count})
    scenario = Scenario("90x10" if (connectors, tasks) == (90, 10) else f"{connectors}x{tasks}", events, phases)
    for each in events:
        each["connect_cluster"] = scenario.name
    return scenario


SCENARIOS = {"90x10": ninety_by_ten}


def _dataframe(spark: SparkSession, rows: list[dict[str, Any]], schema: StructType) -> DataFrame:
    nullable = StructType([StructField(field.name, field.dataType) for field in schema.fields])
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=to_arrow_schema(nullable)), nullable)
