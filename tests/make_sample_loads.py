"""Make conf/sample-loads/ again, made-up and skewed rates for the sample fleet: `python -m tests.make_sample_loads`."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from pathlib import Path

CONF = Path(__file__).parents[1] / "conf"
SAMPLE, TARGET = CONF / "sample-fleet", CONF / "sample-loads" / "loads.csv"

COLUMNS = (
    *("cluster", "topic", "partition", "group_id", "in_messages_per_second", "in_messages_per_second_stddev"),
    *("out_messages_per_second", "lag", "in_bytes_per_second"),
)
BEHIND = {"fraud-detection": 0.8, "clickstream-sessionizer": 0.9, "orders-service": 0.95}
"""Groups that do not keep up, and what share of their messages they read."""


def rows(name: str) -> list[dict[str, str]]:
    """A table of the sample."""
    with (SAMPLE / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def made_up() -> Iterator[dict[str, object]]:
    """First what holds for all groups, a row per partition; then what a group reads, a row per group and partition."""
    rates: dict[tuple[str, int], float] = {}
    for topic in rows("topics"):
        draw = random.Random(topic["topic"])
        mean, size, skew = draw.lognormvariate(3.5, 1.2), draw.randrange(150, 4_000), draw.uniform(1.5, 6)
        for partition in range(int(topic["partitions"])):
            if topic["topic"].startswith("__"):
                continue
            rate = round(mean * draw.paretovariate(skew), 1)
            rates[topic["topic"], partition] = rate
            yield {
                "cluster": topic["cluster"],
                "topic": topic["topic"],
                "partition": partition,
                "in_messages_per_second": rate,
                "in_messages_per_second_stddev": round(rate * draw.uniform(0.05, 0.3), 1),
                "in_bytes_per_second": round(rate * size),
            }
    for run in rows("owned_slices"):
        reads = BEHIND.get(run["group_id"], 1.0)
        draw = random.Random(f"{run['member_id']}{run['topic']}{run['first']}")
        for nth in range(int(run["count"])):
            partition = int(run["first"]) + nth * int(run["step"])
            rate = rates[run["topic"], partition]
            yield {
                "cluster": run["cluster"],
                "topic": run["topic"],
                "partition": partition,
                "group_id": run["group_id"],
                "out_messages_per_second": round(rate * reads, 1),
                "lag": round(rate * (draw.uniform(600, 900) if reads < 1 else draw.uniform(0, 0.5))),
            }


def main() -> None:
    """Write the table."""
    TARGET.parent.mkdir(exist_ok=True)
    with TARGET.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        out.writeheader()
        out.writerows(sorted(made_up(), key=lambda row: (row.get("group_id", ""), row["topic"], row["partition"])))


if __name__ == "__main__":
    main()
