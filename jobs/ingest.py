"""Turn the text of kafka-topics.sh and kafka-consumer-groups.sh --describe into the tables of a fleet."""

from __future__ import annotations

import sys

import click

from spark_assign.command import Options, job, spark_session
from spark_assign.errors import ConfigError, SourceError
from spark_assign.options import REPEATABLE, one_snapshot_place, writes_snapshot
from spark_assign.sources import describe_text, snapshot_catalog, snapshot_files

EXIT_CODES = """Exit codes: 0 written; 2 wrong usage, or text that is not what these tools print; 3 it cannot be
written."""
RENAMED = {"--topics": "--topics-file", "--groups": "--groups-file", "--format": "--output-format"}


@job(__doc__, EXIT_CODES, name="ingest", wrong=(ConfigError,), renamed=RENAMED)
@click.option("--cluster", required=True, help="name for the cluster column")
@click.option(
    "--topics-file", metavar="FILE", multiple=True, required=True, help=f"kafka-topics.sh --describe{REPEATABLE}"
)
@click.option(
    "--groups-file",
    metavar="FILE",
    multiple=True,
    required=True,
    help=f"kafka-consumer-groups.sh --describe --all-groups{REPEATABLE}",
)
@writes_snapshot(snapshot_files.FORMATS)
def main(options: Options) -> int:
    """Read, write, print."""
    one_snapshot_place(options)
    try:
        snapshot = describe_text.read(options.topics_file, options.groups_file, options.cluster)
    except SourceError as error:
        raise ConfigError(str(error)) from error
    if options.output:
        folders = snapshot_files.write_folder(snapshot, options.output, options.output_format)
        written = ", ".join(str(folder) for folder in folders)
    else:
        snapshot_catalog.write_tables(snapshot, spark_session("ingest", options), options.table_prefix)
        written = options.table_prefix
    options.outcome.rows = snapshot.rows()
    options.outcome.places["output"] = options.output or options.table_prefix
    print(f"{snapshot.cluster}: " + ", ".join(f"{n} {table}" for table, n in snapshot.rows().items()))
    print(f"written to {written}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
