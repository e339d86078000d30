"""Convert the output of kafka-topics.sh and kafka-consumer-groups.sh --describe to the tables of a fleet."""

from __future__ import annotations

import sys

import click

from spark_assign.cli.job import Options, job
from spark_assign.cli.job_tables import store_snapshot
from spark_assign.cli.options import REPEATABLE, check_snapshot_output, snapshot_output_options
from spark_assign.sources.files import snapshot_files
from spark_assign.sources.kafka import describe_text
from spark_assign.tables.errors import ConfigError, SourceError

EXIT_CODES = "Exit codes: 0 success; 2 invalid options, or a file isn't the output of these tools; 3 failure."
GROUPS = f"Output of kafka-consumer-groups.sh --describe --all-groups.{REPEATABLE}"
TOPICS = f"Output of kafka-topics.sh --describe.{REPEATABLE}"


@job(__doc__, EXIT_CODES, name="ingest", input_errors=(ConfigError,))
@click.option("--cluster-name", metavar="NAME", required=True, help="Name of the cluster in the column cluster.")
@click.option("--topics-file", metavar="FILE", multiple=True, required=True, help=TOPICS)
@click.option("--groups-file", metavar="FILE", multiple=True, required=True, help=GROUPS)
@snapshot_output_options(snapshot_files.FORMATS)
def main(options: Options) -> int:
    """Parses, reads, writes, and prints."""
    check_snapshot_output(options)
    try:
        snapshot = describe_text.read(options.topics_file, options.groups_file, options.cluster_name)
    except SourceError as error:
        raise ConfigError(str(error)) from error
    store_snapshot("ingest", options, snapshot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
