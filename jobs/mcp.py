"""Answer an assistant's questions about snapshots: a read-only server of the Model Context Protocol (MCP).

The server lists and describes groups, plans and explains them, also after changes, simulates events, tells the history
of groups, and gives advice. It reads the given tables only. It can't change a cluster, and doesn't connect to one.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.options import INPUT, exit_codes, named_values, sample, sample_option, stored_run
from spark_assign.tables.errors import ConfigError, missing_extra


@job(__doc__, exit_codes(""), name="mcp", progress=False)
@named_values(
    "--snapshot",
    "NAME=LOCATION",
    "Snapshot to answer questions about: its name, and the folder, URI, or catalog prefix of its tables.",
    INPUT,
)
@sample_option()
@stored_run("--history", "Stored history of groups (job history).")
@click.option(
    "--http",
    metavar="PORT",
    type=click.IntRange(1, 65_535),
    help="Serve HTTP on this port of 127.0.0.1, to every user of this machine (default: standard input and output).",
)
def main(options: Options) -> int:
    """Parses, loads, and serves until the client is gone."""
    if options.print_format != "table":
        raise ConfigError("-o can't be used with mcp: standard output has the messages of the protocol.")
    locations = {**({"sample": sample(__file__, "fleet")} if options.sample else {}), **(options.snapshot or {})}
    if not locations:
        raise ConfigError("No snapshot given. Use --snapshot NAME=LOCATION, or --sample for the bundled sample fleet.")
    # The folder of a script is the first on the path: `import mcp` would find this file.
    sys.path[:] = [each for each in sys.path if Path(each).resolve() != Path(__file__).resolve().parent]
    try:
        from spark_assign.cli.mcp_questions import Questions, serve
    except ModuleNotFoundError as error:
        raise missing_extra("the server needs the package mcp", "mcp") from error
    spark = spark_session("mcp", options)
    serve(Questions(spark, locations, options.history), options.http)
    return 0


if __name__ == "__main__":
    main()
