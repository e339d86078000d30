"""Records what `tests/unit/test_group_records.py` reads: `python -m tests.kafka.record_group_records`.

The seed stands fixed, so that the same bytes are asked about again; on another release any difference would show.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path

from tests.kafka import group_records, maven, random_group_records, streams_user_data
from tests.kafka.group_records import ONLY_BEFORE_4_1, SINCE_4_1, Row, refused_since_4_4

SEED, EACH, DAMAGED = 17, 4, 300


def main() -> None:
    """Write the files anew."""
    releases = [(SINCE_4_1, maven.kafka_classpath()), (ONLY_BEFORE_4_1, maven.group_coordinator_classpath("4.0.0"))]
    rows = []
    for types, class_path in releases:
        sound = [pair for _, _, pair in random_group_records.records(SEED, EACH, types)]
        damaged = random_group_records.damaged(SEED, sound, DAMAGED)
        sound += [pair for pair in damaged if int.from_bytes(pair[0][:2]) in types and not refused_since_4_4(*pair)]
        rows += group_records.answered(sound, class_path)
    _write(group_records.RECORDED, rows)

    draw = random.Random(SEED)
    applications = maven.applications_classpath()
    written = streams_user_data.written(draw, 2, applications)
    _write(streams_user_data.RECORDED, streams_user_data.read(draw, written, DAMAGED, applications))


def _write(file: Path, rows: Sequence[Row]) -> None:
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    file.write_bytes(gzip.compress(lines.encode(), mtime=0))


if __name__ == "__main__":
    main()
