"""How a job ended, as JSON for a scheduler, which otherwise has only an exit code and text.

    {"job": "check", "exit_code": 1, "counts": {"alerts": 2}, "error": null, …}

A job fills its `Outcome` while it runs, and `run_job` always writes it at the end (`--outcome FILE`). The manifest of a
stored run contains the values that are known when its tables are complete (`Outcome.of_run`).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from spark_assign.stores.locations import file_system, is_special, join

if TYPE_CHECKING:
    from spark_assign.stores.run_store import ManifestOutcome, ReadTable, RowCounts

VERSION = 1
"""Version of the file format. New keys don't change it."""

_OBJECT_STORES = ("s3", "gcs", "abfs")


@dataclass
class Outcome:
    """How a job ended.

    Attributes:
        job: name of the job.
        exit_code: exit code of the job; None while it runs.
        started_at, finished_at: UTC times, ISO 8601.
        run_id, attempt: the run that was written, and its attempt.
        locations: where the output is: the run (`output`), a report, pictures, …
        rows: number of rows of each table that was written.
        counts: other counts: groups, alerts, rejected, …
        exceeded: exceeded thresholds: name, limit, and number of groups that exceed it.
        summary: text about the result, for people.
        error: kind and message, as on standard error; None if there was no error.
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
        """Records a stored run (`stores.run_store.Manifest`)."""
        self.run_id, self.attempt, self.rows = manifest.run_id, manifest.attempt, dict(manifest.rows)
        self.locations["output"] = output

    def of_run(self, found: str | Callable[[ReadTable], bool] | None = None) -> ManifestOutcome:
        """Returns a function for the manifest of a run: job, exit code, and rows, from the written tables.

        Args:
            found: condition for exit code 1: a table with rows (of any kind of group), or a function of the tables.
                None: the exit code is 0.
        """

        def manifest_entries(rows: RowCounts, read: ReadTable) -> Mapping[str, Any]:
            from spark_assign.tables.stored_plan import num_rows_of_kinds  # needs Spark's types

            fails = found(read) if callable(found) else bool(found and num_rows_of_kinds(rows, found))
            return {"job": self.job, "exit_code": int(fails), "started_at": self.started_at, "rows": dict(rows)}

        return manifest_entries

    def failed(self, kind: str, message: str) -> None:
        """Records an error."""
        self.error = {"kind": kind, "message": message}

    def ended(self, exit_code: int) -> None:
        """Records the end of the job."""
        self.exit_code, self.finished_at = exit_code, _now()

    def as_json(self) -> str:
        """Returns the text of the file."""
        return json.dumps({"version": VERSION, **asdict(self)}, indent=2, ensure_ascii=False) + "\n"


def write(outcome: Outcome, file: str) -> None:
    """Writes an outcome atomically.

    Args:
        outcome: outcome of a job that has ended.
        file: see `write_text`.

    Raises:
        OSError: the file can't be written.
    """
    write_text(outcome.as_json(), file)


def write_text(text: str, file: str) -> None:
    """Writes a text, atomically except to a device or a pipe.

    Args:
        text: content of the file.
        file: a local path, whose folder is created if necessary, or a URI that pyarrow can write to.

    Raises:
        OSError: the file can't be written.
    """
    import pyarrow as pa

    try:
        system, path = file_system(file)
        above = path.rpartition("/")[0]
        system.create_dir(above)
        # An object store shows a file only when it is closed. Elsewhere, the complete file is renamed.
        in_place = system.type_name in _OBJECT_STORES or (system.type_name == "local" and is_special(path))
        partial = path if in_place else join(above, f".{secrets.token_hex(6)}.partial")
        try:
            with system.open_output_stream(partial, compression=None) as stream:
                stream.write(text.encode())
            if partial != path:
                system.move(partial, path)
        except (OSError, pa.ArrowException):
            with suppress(OSError):
                if partial != path:
                    system.delete_file(partial)
            raise
    except (pa.ArrowException, ValueError) as error:
        raise OSError(f"pyarrow can't write to {file}: {error}") from error


def find_option(words: Sequence[str], flag: str) -> str | None:
    """Returns the value of a flag on a command line that can't be parsed."""
    found = None
    for word, following in zip(words, [*words[1:], None], strict=False):
        if word == flag:
            found = following
        elif word.startswith(f"{flag}="):
            found = word.partition("=")[2]
    return found or None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
