"""Fixtures of tests by the clock: they run alone, so that rates and pauses are those of a quiet machine."""

from tests.kafka.live.test_readings import taken

__all__ = ["taken"]
