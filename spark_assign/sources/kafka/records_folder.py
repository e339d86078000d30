"""A local folder of Parquet files with the records of one cluster's `__consumer_offsets`, to which runs append.

A file appears by one rename, and its metadata has the offset of each partition at which the next file continues. So
each record is stored exactly once, wherever a run is stopped or killed. At most one file's records are in memory.

A folder that Spark's stream has written (`offsets_topic.follow`) is continued at its last stored offsets.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from spark_assign.history.kernel.log_segments import to_records
from spark_assign.history.kernel.redact import redact_records
from spark_assign.sources.auth.settings import settings
from spark_assign.sources.kafka.connection import ClusterConnection
from spark_assign.sources.kafka.offsets_topic import CHECKPOINT, CLIENT_FILES
from spark_assign.sources.kafka.record_fetcher import FetchedRecords, fetch_records
from spark_assign.spark.dataframes import to_arrow_schema
from spark_assign.stores.local_tables import refuse_pipe
from spark_assign.stores.locations import problem_of
from spark_assign.tables.errors import ConfigError, SourceError, writing_to
from spark_assign.tables.history import RECORDS

_FILE_BYTES = 64 << 20
"""Size of the records of a file in memory, if no single response is larger."""
_DAMAGE = (OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
_METADATA = b"spark_assign.positions"
_SPARK_LOG = "_spark_metadata"
_SCHEMA: pa.Schema = to_arrow_schema(RECORDS)


def copy_records(
    bootstrap_servers: str,
    cluster: str,
    folder: Path,
    *,
    properties: Mapping[str, str] | None = None,
    without_hosts: bool = False,
    without_metadata: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> int:
    """Appends the records that were written since the last run to a folder, and returns their number.

    Args:
        bootstrap_servers: `host:port`, comma-separated.
        cluster: the name of the cluster in the history.
        folder: a local folder, for the records of one cluster.
        properties: client properties with Kafka's names (`auth.properties.read`).
        without_hosts: omits the hosts of members.
        without_metadata: omits the metadata that clients added to committed offsets.
        report: is called with a text if records were deleted before they were read.

    Raises:
        ConfigError: the folder has records of another cluster, or the client can't apply a property.
        SourceError: no connection, or the topic can't be read (`record_fetcher.fetch_records`). What was read until
            then is stored.
    """
    stored = RecordsFolder(folder, cluster, without_hosts=without_hosts, without_metadata=without_metadata)
    with ClusterConnection(bootstrap_servers, settings(properties or {})) as connection:
        return stored.append(fetch_records(connection, dict(stored.positions), report))


class RecordsFolder:
    """The records of one cluster in a folder, which is created if it doesn't exist.

    Attributes:
        positions: the offset at which each partition continues.
    """

    def __init__(
        self, folder: Path, cluster: str, *, without_hosts: bool = False, without_metadata: bool = False
    ) -> None:
        """Reads where the folder ends.

        Args:
            folder: the folder.
            cluster: the name of the cluster in its rows.
            without_hosts: omits the hosts of members.
            without_metadata: omits the metadata that clients added to committed offsets.

        Raises:
            ConfigError: the folder has records of another cluster, or a file that isn't complete.
        """
        self._folder, self._cluster = folder, cluster
        self._redacted = {"hosts": without_hosts, "metadata": without_metadata}
        folder.mkdir(parents=True, exist_ok=True)
        try:
            found = self._end()
        except (*_DAMAGE, pa.ArrowException) as error:
            cause = "" if isinstance(error, (LookupError, TypeError, AttributeError)) else f": {problem_of(error)}"
            problem = f"{folder} has a file that this job didn't write, or that is damaged{cause}"
            raise ConfigError(f"{problem}. Remove it, or use another location.") from error
        if others := [name for name in found if name != cluster]:
            raise ConfigError(
                f"{folder} has records of the cluster {others[0]!r}, not of {cluster!r}. "
                "Use another location for each cluster."
            )
        if (folder / _SPARK_LOG).is_dir():
            self._forget_stream()

    def append(self, fetched: Iterable[FetchedRecords]) -> int:
        """Stores records as they come, in files of bounded size, and returns their number.

        Raises:
            SourceError: another run has appended to the folder, or `fetched` ends with this error. What came until
                then is stored, as with any other error.
        """
        pending: list[pa.Table] = []
        num_records = num_bytes = 0
        try:
            for part in fetched:
                if len(part.records):
                    table = to_records(part.records, self._cluster, part.partition, _SCHEMA)
                    redacted = [
                        redact_records(batch, **self._redacted) for batch in table.combine_chunks().to_batches()
                    ]
                    pending.append(pa.Table.from_batches(redacted, _SCHEMA))
                    num_records, num_bytes = num_records + len(table), num_bytes + table.nbytes
                self.positions[part.partition] = part.next_offset
                if num_bytes >= _FILE_BYTES:
                    self._write(pending)
                    pending, num_bytes = [], 0
        except Exception:
            if pending:
                self._write(pending)
            raise
        if pending or not self._num_files:
            self._write(pending)
        return num_records

    def _write(self, tables: list[pa.Table]) -> None:
        """Writes the next file: all of it appears, or nothing."""
        end = json.dumps({"cluster": self._cluster, "positions": self.positions})
        schema = _SCHEMA.with_metadata({_METADATA: end.encode()})
        target = self._folder / f"records-{self._num_files + 1:09}.parquet"
        # Spark and pyarrow ignore names that start with a dot.
        partial = self._folder / f".records-{secrets.token_hex(6)}"
        try:
            with writing_to(str(self._folder)), partial.open("wb") as file:
                pq.write_table(pa.concat_tables([_SCHEMA.empty_table(), *tables]).cast(schema), file)
                file.flush()
                os.fsync(file.fileno())
            _publish(partial, target)
        except FileExistsError:
            raise SourceError(
                f"{target} exists: another run appends to this folder. Wait for its end, and run this one again."
            ) from None
        finally:
            partial.unlink(missing_ok=True)
        self._num_files += 1

    def _end(self) -> list[str]:
        """Sets where the folder ends, and returns the clusters of its files."""
        for file in (*self._folder.glob("*.parquet"), *(self._folder / _SPARK_LOG).glob("[0-9]*")):
            refuse_pipe(str(file))
        own = sorted(self._folder.glob(CLIENT_FILES))
        self._num_files = int(own[-1].stem.rpartition("-")[2]) if own else 0
        if not own:
            found, self.positions = self._end_of_stream()
            return found
        end = json.loads(pq.read_metadata(own[-1]).metadata[_METADATA])
        self.positions = {int(key): int(offset) for key, offset in end["positions"].items()}
        return [str(end["cluster"])]

    # --- folders that Spark's stream has written ------------------------------------------------------------------

    def _end_of_stream(self) -> tuple[list[str], dict[int, int]]:
        """Returns the clusters and the next offsets of the files that Spark's stream has stored."""
        clusters: set[str] = set()
        positions: dict[int, int] = {}
        for file in self._stored_by_stream():
            table = pq.read_table(file, columns=["cluster", "partition", "offset"])
            clusters.update(pc.unique(table["cluster"]).to_pylist())
            for row in table.group_by("partition").aggregate([("offset", "max")]).to_pylist():
                positions[row["partition"]] = max(row["offset_max"] + 1, positions.get(row["partition"], 0))
        return sorted(clusters), positions

    def _stored_by_stream(self) -> list[Path]:
        """Returns the files that count: those in the log of the stream, or all if there is none."""
        files = sorted(self._folder.glob("*.parquet"))
        if not (self._folder / _SPARK_LOG).is_dir():
            return files
        logged = [line for file in (self._folder / _SPARK_LOG).glob("[0-9]*") for line in file.read_text().splitlines()]
        names = {json.loads(line)["path"].rpartition("/")[2] for line in logged if line.startswith("{")}
        return [file for file in files if file.name in names]

    def _forget_stream(self) -> None:
        """Makes all readers see the files of the folder, not only those in the stream's log. Files that don't count get
        names that readers ignore.
        """
        counted = set(self._stored_by_stream())
        for file in set(self._folder.glob("*.parquet")) - counted:
            file.rename(file.with_name(f"_{file.name}"))
        for name in (_SPARK_LOG, CHECKPOINT):
            if (self._folder / name).is_dir():
                (self._folder / name).rename(self._folder / f"{name}.replaced")


def _publish(partial: Path, target: Path) -> None:
    """Renames a file. Raises FileExistsError if the target exists."""
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if target.exists():
            raise FileExistsError(target) from None
        partial.rename(target)
