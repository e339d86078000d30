"""Records the tables of `tests/unit/java_tables.jsonl.gz` from Java: `python -m tests.kafka.record_java_tables`.

The seed stands fixed, so that the same tables are recorded again; on another Java version any difference would show.
"""

from __future__ import annotations

from tests.kafka import java_tables, maven
from tests.recorded_lines import write_rows

SEED, NUMBER = 17, 120


def main() -> None:
    """Write the file anew."""
    rows = java_tables.walked_by_java(java_tables.tables(SEED, NUMBER), maven.kafka_classpath())
    write_rows(java_tables.RECORDED, rows)


if __name__ == "__main__":
    main()
