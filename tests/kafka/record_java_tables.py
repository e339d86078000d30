"""Records the tables of `tests/unit/java_tables.jsonl.gz` from Java: `python -m tests.kafka.record_java_tables`.

The seed stands fixed, so that the same tables are recorded again; on another Java version any difference would show.
"""

from __future__ import annotations

import gzip
import json

from tests.kafka import java_tables, maven

SEED, NUMBER = 17, 120


def main() -> None:
    """Write the file anew."""
    rows = java_tables.walked_by_java(java_tables.tables(SEED, NUMBER), maven.kafka_classpath())
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    java_tables.RECORDED.write_bytes(gzip.compress(lines.encode(), mtime=0))


if __name__ == "__main__":
    main()
