"""User data of Kafka Streams: written by its own classes for random clients, fresh at every run, and read by us."""

from __future__ import annotations

import base64
import random
from collections import Counter

import pytest

from tests.kafka import maven
from tests.kafka.group_records import differing
from tests.kafka.streams_user_data import ours, read, says, theirs, written

pytestmark = pytest.mark.kafka

EACH, DAMAGED = 25, 5_000


def test_streams_user_data(kafka_jars: str, seed: int) -> None:
    """Of every version: what is written is what we read, and so do its classes; damaged, both refuse or read alike."""
    assert kafka_jars, "skips where there is no Java"
    class_path = maven.applications_classpath()
    draw = random.Random(f"streams-{seed}")
    rows = written(draw, EACH, class_path)
    wrong = [row for row in rows if not says(row, base64.b64decode(row["written"]))]
    assert not wrong, differing(wrong)
    answers = read(draw, rows, DAMAGED, class_path)
    different = [row | {"ours": ours(row)} for row in answers if ours(row) != theirs(row)]
    assert not different, differing(different)
    seen = Counter("refused" in row for row in answers)
    assert min(seen[False], seen[True]) > DAMAGED // 10, seen
