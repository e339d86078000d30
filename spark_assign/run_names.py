"""What a run is called that nobody has named."""

from __future__ import annotations

import time


def time_as_run_id() -> str:
    """The time of now, in UTC, to the second; such names sort by time."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
