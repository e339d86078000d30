"""Read a running Kafka cluster into the tables of a fleet: topics, groups, members, ownership, offsets."""

from __future__ import annotations

import argparse
import logging
import sys

from spark_assign.errors import ConfigError, SparkAssignError
from spark_assign.sources import client_properties, kafka, snapshot_files

log = logging.getLogger("spark_assign.snapshot")


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: written; 2: wrong usage or settings; 3: the cluster could not be read."""
    parser = argparse.ArgumentParser(prog="snapshot", description=__doc__)
    parser.add_argument("--bootstrap-server", required=True, help="host:port[,host:port…]")
    parser.add_argument("--command-config", metavar="FILE", help="a Kafka client's properties file: SASL, TLS")
    parser.add_argument("--cluster", help="name for the cluster column (default: the cluster's own id)")
    parser.add_argument("--groups", metavar="GLOB", help="only groups whose id matches")
    parser.add_argument("--topics", metavar="GLOB", help="only topics that match, and those that the groups use")
    output = parser.add_mutually_exclusive_group(required=True)
    output.add_argument("--output", metavar="DIR", help="folder for a file per table; replaced as a whole")
    output.add_argument("--table-prefix", metavar="CATALOG.SCHEMA", help="write tables with Spark instead")
    parser.add_argument("--format", choices=snapshot_files.FORMATS, default="parquet", help="of --output")
    options = parser.parse_args(argv)
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    log.setLevel(logging.INFO)
    # The client retries on its own and says so at length; what fails for good comes back as our error.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    try:
        properties = client_properties.read(options.command_config) if options.command_config else {}
        snapshot = kafka.snapshot(
            options.bootstrap_server,
            cluster=options.cluster,
            properties=properties,
            groups=options.groups,
            topics=options.topics,
            progress=log.info,
        )
        if options.output:
            snapshot_files.write_folder(snapshot, options.output, options.format)
        else:
            from pyspark.sql import SparkSession

            snapshot_files.write_tables(snapshot, SparkSession.builder.getOrCreate(), options.table_prefix)
    except SparkAssignError as error:
        print(f"snapshot: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 3
    print(f"{snapshot.cluster}: " + ", ".join(f"{n} {table}" for table, n in snapshot.rows().items()))
    print(f"written to {options.output or options.table_prefix}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
