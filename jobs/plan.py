"""Plan every group of a fleet, write the plan and print a summary."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession

from spark_assign import plan
from spark_assign.cli import plan_settings
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.options import named_values, reads, sample_fleet, shipped, top, writes
from spark_assign.report.openmetrics import write_metrics
from spark_assign.report.text.plan_summary import summarize
from spark_assign.sources.files.tables import interpreted, read_fleet
from spark_assign.stores.locations import time_as_run_id
from spark_assign.stores.run_store import check_output, stored_run, write_run
from spark_assign.tables.errors import ConfigError

SETTINGS = shipped(__file__) / "plan.toml"
EXIT_CODES = """Exit codes: 0 planned and written; 1 the plan has what --fail-on names; 2 wrong usage, settings or
tables; 3 failure. Without arguments the sample fleet is planned, as conf/plan.toml says."""
SAMPLE = "This is the sample fleet that comes with spark_assign; --fleet PLACE plans your own."
RENAMED = {"--tables": "--output-tables"}

METRICS = "figures of every group in OpenMetrics, for the node exporter"

log = logging.getLogger("spark_assign.plan")


def settings_file(function: Any) -> Any:
    """`--config`: with keys of its own (conf/plan.toml)."""
    return click.option(
        "--config", metavar="FILE", type=click.Path(path_type=Path), help="settings in TOML, as conf/plan.toml"
    )(function)


@job(__doc__, EXIT_CODES, name="plan", renamed=RENAMED, config=settings_file)
@reads()
@click.option(
    "--assignor",
    metavar="NAME",
    help='range, roundrobin, sticky, cooperative-sticky, …; or "configured" (default): what each group runs with now',
)
@named_values("--assign", "GLOB=NAME", "the assignor of groups by pattern; first match wins")
@named_values("--clients", "GLOB=LIB[@V]", "who leads groups by pattern, such as Java@2.8; first match wins")
@writes("folder, URI or catalog prefix for the plan (default: output/plan)", now=False)
@click.option(
    "--output-tables", metavar="A,B,…", help="what to write besides metrics and rejected (default: everything)"
)
@click.option("--metrics", metavar="FILE", type=click.Path(path_type=Path), help=METRICS)
@click.option("--fail-on", metavar="WHAT", multiple=True, help='exit code 1 for: "rejected" groups')
@top(default=None)
def main(options: Options) -> int:
    """Load, call, write, print."""
    if not options.given:
        options.config = SETTINGS if SETTINGS.exists() else None
        options.sample = options.config is None
        print(SAMPLE, flush=True)
    settings = plan_settings.load(options.config, flags(options))
    spark = spark_session("plan", options)
    with interpreted(spark, [settings.fleet.location, *settings.fleet.tables.values()]):
        return _run(options, settings, spark)


def flags(options: Options) -> dict[str, Any]:
    """The command line in the shape of the settings file; every flag wins over the key that it stands for."""
    if options.fleet and options.sample:
        raise ConfigError("--fleet and --sample are both given; give one of the two")
    fleet = {"location": sample_fleet(__file__) if options.sample else options.fleet, "format": options.format}
    output = {"location": options.output, "format": options.output_format, "options": options.output_option}
    return {
        "fleet": fleet | {"options": options.option, "tables": options.table},
        "output": output | {"tables": options.output_tables.split(",") if options.output_tables else None},
        "assignor": options.assignor,
        "assign": [{"groups": glob, "assignor": name} for glob, name in (options.assign or {}).items()],
        "clients": [_clients(glob, client) for glob, client in (options.clients or {}).items()],
        "run_id": options.run_id,
        "fail_on": list(options.fail_on) or None,
        "top": options.top,
    }


def _clients(glob: str, client: str) -> dict[str, str | None]:
    library, _, version = client.partition("@")
    return {"groups": glob, "library": library, "version": version or None}


def _run(options: Options, settings: plan_settings.PlanSettings, spark: SparkSession) -> int:
    started = time.monotonic()
    fleet, output = settings.fleet, settings.output
    check_output(output.location)
    found = read_fleet(spark, fleet.location, format=fleet.format, options=fleet.options, tables=fleet.tables)
    log.info("read the fleet's tables in %.1f s", time.monotonic() - started)
    for led in reversed(settings.clients):  # the first one wins
        found = found.with_leader_client(led.library, led.version, group_id=led.groups)
    planned = plan(found, settings.choice)
    log.info("checked and planned by %.1f s; now writing", time.monotonic() - started)
    manifest = write_run(
        planned,
        output.location,
        run_id=settings.run_id or time_as_run_id(),
        format=output.format,
        tables=output.tables,
        options=output.options,
        inputs={"fleet": fleet.location, "tables": dict(fleet.tables), "assignor": settings.choice},
        outcome=options.outcome.of_run("rejected" if "rejected" in settings.fail_on else None),
    )
    options.outcome.wrote(manifest, output.location)
    options.outcome.counts = {"groups": manifest.rows["metrics"], "rejected": manifest.rows["rejected"]}
    stored = stored_run(spark, output.location, manifest, options=output.options)
    if options.metrics:
        write_metrics(stored, options.metrics)
    print(summarize(stored, output.location, settings.top), flush=True)
    failed = "rejected" in settings.fail_on and manifest.rows["rejected"] > 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
