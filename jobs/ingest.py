"""Turn the text of kafka-topics.sh and kafka-consumer-groups.sh --describe into the tables of a fleet."""

from __future__ import annotations

import argparse
import sys

from spark_assign.errors import ConfigError, SparkAssignError
from spark_assign.sources import describe_text, snapshot_catalog, snapshot_files


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: written; 2: wrong usage, or text that is not what these tools print; 3: it cannot be written."""
    parser = argparse.ArgumentParser(prog="ingest", description=__doc__)
    parser.add_argument("--cluster", required=True, help="name for the cluster column")
    parser.add_argument("--topics", nargs="+", required=True, metavar="FILE", help="kafka-topics.sh --describe")
    parser.add_argument(
        "--groups",
        nargs="+",
        required=True,
        metavar="FILE",
        help="kafka-consumer-groups.sh --describe --all-groups",
    )
    output = parser.add_mutually_exclusive_group(required=True)
    output.add_argument(
        "--output", metavar="DIR", help="folder of the fleet; of it only this cluster's folder is replaced"
    )
    output.add_argument(
        "--table-prefix",
        metavar="CATALOG.SCHEMA",
        help="tables of a catalog instead; of them only this cluster's rows are replaced",
    )
    parser.add_argument("--format", choices=snapshot_files.FORMATS, default="parquet", help="of --output")
    options = parser.parse_args(argv)
    try:
        snapshot = describe_text.read(options.topics, options.groups, options.cluster)
    except SparkAssignError as error:
        print(f"ingest: {error}", file=sys.stderr)
        return 2
    try:
        if options.output:
            folders = snapshot_files.write_folder(snapshot, options.output, options.format)
            written = ", ".join(str(folder) for folder in folders)
        else:
            from pyspark.sql import SparkSession

            snapshot_catalog.write_tables(snapshot, SparkSession.builder.getOrCreate(), options.table_prefix)
            written = options.table_prefix
    except SparkAssignError as error:
        print(f"ingest: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 3
    print(f"{snapshot.cluster}: " + ", ".join(f"{n} {table}" for table, n in snapshot.rows().items()))
    print(f"written to {written}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
