"""Records what `tests/unit/test_group_records.py` reads: `python -m tests.kafka.record_group_records`.

The seed stands fixed, so that the same bytes are asked about again; on another release any difference would show.
"""

from __future__ import annotations

import random

from tests.kafka import group_records, maven, random_group_records, streams_user_data
from tests.kafka.group_records import ONLY_BEFORE_4_1, SINCE_4_1, refused_since_4_4
from tests.recorded_lines import write_rows

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
    write_rows(group_records.RECORDED, rows)

    draw = random.Random(SEED)
    applications = maven.applications_classpath()
    written = streams_user_data.written(draw, 2, applications)
    write_rows(streams_user_data.RECORDED, streams_user_data.read(draw, written, DAMAGED, applications))


if __name__ == "__main__":
    main()
