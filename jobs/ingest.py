"""Turn the text of kafka-topics.sh and kafka-consumer-groups.sh --describe into the tables of a fleet."""

from __future__ import annotations

import sys

import click

from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import store_snapshot
from spark_assign.cli.options import REPEATABLE, one_snapshot_place, writes_snapshot
from spark_assign.sources.files import snapshot_files
from spark_assign.sources.kafka import describe_text
from spark_assign.tables.errors import ConfigError, SourceError

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
    store_snapshot("ingest", options, snapshot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
