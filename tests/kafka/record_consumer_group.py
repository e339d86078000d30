"""Record `tests/golden/consumer-group.jsonl.gz` anew: `python -m tests.kafka.record_consumer_group SEED`."""

from __future__ import annotations

import gzip
import json
import sys

from tests.golden.consumer_group_rows import FILE
from tests.kafka import maven, random_heartbeats
from tests.kafka.group_steps import answered

SEQUENCES, STEPS = 300, 30


def main(seed: int) -> None:
    """Random sequences, answered by Kafka."""
    rows = [
        {"sequence": name, "step": number, "op": op}
        for name, steps in random_heartbeats.sequences(seed, SEQUENCES, STEPS)
        for number, (op, _) in enumerate(steps)
    ]
    found = answered(rows, maven.kafka_classpath(), "ConsumerGroupSteps")
    # The same bytes for the same rows: without a time.
    with open(FILE, "wb") as file, gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as lines:
        lines.write("".join(f"{json.dumps(row)}\n" for row in found).encode())


if __name__ == "__main__":
    main(int(sys.argv[1]))
