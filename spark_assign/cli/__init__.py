"""What the jobs share: how they are called and end, their options and their settings."""

import sys
from pathlib import Path
from types import TracebackType

_before = sys.excepthook


def _hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Ends a job at Ctrl-C while it still imports modules, which takes a second, as `cli.job.run_job` does later."""
    if kind is KeyboardInterrupt and not hasattr(sys, "ps1"):
        print(f"{Path(sys.argv[0]).stem}: interrupted", file=sys.stderr)
        sys.exit(130)
    _before(kind, error, trace)


sys.excepthook = _hook
