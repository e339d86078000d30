"""Plan every group of a fleet, store the plan, and print a summary."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

import click
from pyspark.sql import SparkSession

from spark_assign import plan
from spark_assign.cli import plan_settings
from spark_assign.cli.job import Options, job, spark_session
from spark_assign.cli.options import (
    config_option,
    exit_codes,
    input_options,
    is_sample,
    leader_client_option,
    named_values,
    openmetrics_option,
    output_options,
    packaged_conf,
    sample,
    top,
)
from spark_assign.cli.owners import fleet_of_owners, owners_options, read_owners, run_with_owners
from spark_assign.report.openmetrics import write_metrics
from spark_assign.report.text.plan_summary import summarize
from spark_assign.sources.files.tables import interpreted, read_fleet
from spark_assign.stores.locations import time_as_run_id
from spark_assign.stores.run_store import check_output, stored_run, write_run

SETTINGS = packaged_conf(__file__) / "plan.toml"
EXIT_CODES = (
    f"Without options, the job plans the bundled sample fleet with the settings in conf/plan.toml. {exit_codes()}"
)
SAMPLE = "No options given, so the bundled sample fleet is planned. To plan your own fleet, use --fleet LOCATION."
ASSIGNOR = """Assignor for all other groups: range, roundrobin, sticky, cooperative-sticky, …, or "configured" for the
current assignor of each group (default: configured)."""
GROUP_ASSIGNOR = "Assignor for groups whose ID matches a shell pattern. The first matching pattern wins."

log = logging.getLogger("spark_assign.plan")


@job(__doc__, EXIT_CODES, name="plan", config=config_option(lambda *_: {}))  # a file with keys of its own
@input_options()
@click.option("--assignor", metavar="NAME", help=ASSIGNOR)
@named_values("--group-assignor", "GLOB=NAME", GROUP_ASSIGNOR)
@leader_client_option()
@output_options("Folder, URI, or catalog prefix for the plan (default: output/plan).", default_run_id=False)
@click.option(
    "--output-tables", metavar="A,B,…", help="Tables to write in addition to metrics and rejected (default: all)."
)
@owners_options()
@openmetrics_option()
@click.option("--fail-on", metavar="CONDITION", multiple=True, help='Exit with code 1 if groups are "rejected".')
@top(default=None)
def main(options: Options) -> int:
    """Parses, loads, plans, writes, and prints."""
    if not plan_settings.is_given(options):
        options.config = SETTINGS if SETTINGS.exists() else None
        options.sample = options.config is None
        print(SAMPLE, flush=True)
    settings = plan_settings.load(options.config, flags(options))
    spark = spark_session("plan", options)
    with interpreted(spark, [settings.fleet.location, *settings.fleet.tables.values()]):
        return _run(options, settings, spark)


def flags(options: Options) -> dict[str, Any]:
    """Returns the options in the shape of the settings file. Options take precedence over keys of the file."""
    location = sample(__file__, "fleet") if is_sample(options) else options.fleet
    fleet = {"location": location, "format": options.format}
    output = {"location": options.output, "format": options.output_format, "options": options.output_option}
    return {
        "fleet": fleet | {"options": options.option, "tables": options.table},
        "output": output | {"tables": options.output_tables.split(",") if options.output_tables else None},
        "assignor": options.assignor,
        "group_assignor": [{"groups": glob, "assignor": name} for glob, name in (options.group_assignor or {}).items()],
        "leader_client": [_leader_client(*pair) for pair in (options.leader_client or {}).items()],
        "run_id": options.run_id,
        "fail_on": list(options.fail_on) or None,
        "owners": options.owners,
        "owner": list(options.owner) or None,
        "top": options.top,
    }


def _leader_client(glob: str, client: str) -> dict[str, str | None]:
    library, _, version = client.partition("@")
    return {"groups": glob, "library": library, "version": version or None}


def _run(options: Options, settings: plan_settings.PlanSettings, spark: SparkSession) -> int:
    started = time.monotonic()
    input, output = settings.fleet, settings.output
    check_output(output.location)
    fleet = read_fleet(spark, input.location, format=input.format, options=input.options, tables=input.tables)
    owners = read_owners(spark, settings.owners, settings.owner)
    fleet = fleet_of_owners(fleet, owners, settings.owner)
    log.info("read the fleet's tables in %.1f s", time.monotonic() - started)
    for client in reversed(settings.leader_client):  # the first matching pattern wins
        fleet = fleet.with_leader_client(client.library, client.version, group_id=client.groups)
    planned = plan(fleet, settings.choice)
    log.info("checked and planned by %.1f s; now writing", time.monotonic() - started)
    fails = "rejected" in settings.fail_on
    manifest = write_run(
        planned,
        output.location,
        run_id=settings.run_id or time_as_run_id(),
        format=output.format,
        tables=output.tables,
        options=output.options,
        inputs={"fleet": input.location, "tables": dict(input.tables), "assignor": settings.choice},
        outcome=options.outcome.of_run("rejected" if fails else None),
    )
    options.outcome.wrote(manifest, output.location)
    options.outcome.counts = {"groups": manifest.rows["metrics"], "rejected": manifest.rows["rejected"]}
    stored = stored_run(spark, output.location, manifest, options=output.options)
    if options.openmetrics:
        write_metrics(stored, options.openmetrics)
    print(summarize(run_with_owners(stored, owners), output.location, settings.top), flush=True)
    return int(fails and manifest.rows["rejected"] > 0)


if __name__ == "__main__":
    sys.exit(main())
