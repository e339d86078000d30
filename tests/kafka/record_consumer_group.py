"""Record `tests/golden/consumer-group.jsonl.gz` anew: `python -m tests.kafka.record_consumer_group SEED`."""

from __future__ import annotations

import sys

from tests.golden.consumer_group_rows import FILE
from tests.kafka import maven, random_heartbeats
from tests.kafka.group_steps import answered
from tests.recorded_lines import write_rows

SEQUENCES, STEPS = 300, 30


def main(seed: int) -> None:
    """Random sequences, answered by Kafka."""
    pairs = random_heartbeats.sequences(seed, SEQUENCES, STEPS)
    rows = [{"sequence": name, "step": n, "op": op} for name, steps in pairs for n, (op, _) in enumerate(steps)]
    write_rows(FILE, answered(rows, maven.kafka_classpath(), "ConsumerGroupSteps"))


if __name__ == "__main__":
    main(int(sys.argv[1]))
