"""How a job ended, as JSON for whoever started it: a scheduler, which else has only an exit code and text.

    {"job": "check", "exit_code": 1, "counts": {"alerts": 2}, "error": null, …}

A job fills its `Outcome` while it runs; `run_job` writes it at the end, whatever the end is (`--outcome FILE`). Runs in
the plan store have in their manifest what is known when they become readable (`Outcome.of_run`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from spark_assign.stores.locations import file_system, join

if TYPE_CHECKING:
    from spark_assign.stores.run_store import ManifestOutcome, ReadTable, RowCounts

VERSION = 1
"""Of the form of the file: keys may be added to it, none goes or changes its meaning."""

_OBJECT_STORES = ("s3", "gcs", "abfs")


@dataclass
class Outcome:
    """How a job ended.

    Attributes:
        job: its name.
        exit_code: of the job; null while it runs.
        started_at, finished_at: in UTC, ISO 8601.
        run_id: of the run that was written.
        attempt: of that run.
        places: what is where: the run (`output`), a report, pictures, …; as they were given.
        rows: of each table that was written.
        counts: other figures: groups, alerts, rejected, …
        exceeded: thresholds that were: name, limit, and how many groups are beyond it.
        summary: what the job says of what it found, where that is for somebody to read.
        error: kind and message, as on standard error; null where there was none.
    """

    job: str
    exit_code: int | None = None
    started_at: str = field(default_factory=lambda: _now())
    finished_at: str | None = None
    run_id: str | None = None
    attempt: str | None = None
    locations: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    exceeded: list[dict[str, Any]] = field(default_factory=list)
    summary: str | None = None
    error: dict[str, str] | None = None

    def wrote(self, manifest: Any, output: str) -> None:
        """A run of the plan store is there (`plan_store.Manifest`)."""
        self.run_id, self.attempt, self.rows = manifest.run_id, manifest.attempt, dict(manifest.rows)
        self.locations["output"] = output

    def of_run(self, found: str | Callable[[ReadTable], bool] | None = None) -> ManifestOutcome:
        """What the manifest of a run has: job, exit code and rows, known once its tables are written.

        Args:
            found: the table whose rows end the job with exit code 1; or what looks into the tables for that. Null:
                the exit code is 0.
        """

        def said(rows: RowCounts, read: ReadTable) -> Mapping[str, Any]:
            one = found(read) if callable(found) else bool(found and rows[found])
            return {"job": self.job, "exit_code": int(one), "started_at": self.started_at, "rows": dict(rows)}

        return said

    def failed(self, kind: str, message: str) -> None:
        """The job ends with an error."""
        self.error = {"kind": kind, "message": message}

    def ended(self, exit_code: int) -> None:
        """The job is over."""
        self.exit_code, self.finished_at = exit_code, _now()

    def as_json(self) -> str:
        """The file's text."""
        return json.dumps({"version": VERSION, **asdict(self)}, indent=2, ensure_ascii=False) + "\n"


def write(outcome: Outcome, file: str) -> None:
    """Write an outcome, which appears whole or not at all.

    Args:
        outcome: of a job that has ended.
        file: of this machine, whose folder is made; or a URI that pyarrow can write to.

    Raises:
        OSError: it cannot be written.
    """
    import pyarrow as pa

    try:
        system, path = file_system(file)
        above, _, name = path.rpartition("/")
        system.create_dir(above)
        # An object store shows a file once it is closed; elsewhere it gets its name once it is whole.
        partial = path if system.type_name in _OBJECT_STORES else join(above, f".{name}.{os.getpid()}")
        with system.open_output_stream(partial) as stream:
            stream.write(outcome.as_json().encode())
        if partial != path:
            system.move(partial, path)
    except (pa.ArrowException, ValueError) as error:
        raise OSError(f"pyarrow cannot write to {file}: {error}") from error


def find_outcome_file(words: Sequence[str]) -> str | None:
    """The file of `--outcome` on a command line that could not be parsed as a whole."""
    found = None
    for word, following in zip(words, [*words[1:], None], strict=False):
        if word == "--outcome":
            found = following
        elif word.startswith("--outcome="):
            found = word.partition("=")[2]
    return found or None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
