# Databricks notebook source
# MAGIC %md
# MAGIC # Plan every group of a fleet
# MAGIC This notebook reads a fleet from the Unity Catalog tables `catalog.schema.topics`, `.members`, `.subscriptions`,
# MAGIC and, if they exist, `.owned_slices`, `.groups`, `.replicas`, `.brokers`, `.subtopologies`, `.tasks`, and the
# MAGIC tables of Connect clusters. It plans consumer groups, share groups, Streams groups, and Connect clusters exactly
# MAGIC as Kafka would, and writes the plan to the tables of `catalog.output_schema`. It changes nothing in Kafka.
# MAGIC
# MAGIC The path below is that of the bundle's wheel. Outside the bundle, use the path of your wheel, such as
# MAGIC `/Volumes/…/spark_assign-….whl`.

# COMMAND ----------

# MAGIC %pip install ../../dist/spark_assign-0.2.0-py3-none-any.whl

# COMMAND ----------

dbutils.library.restartPython()

# COMMAND ----------

from spark_assign.tables.streams import TASK_ASSIGNORS

dbutils.widgets.text("catalog", "main", "Catalog")
dbutils.widgets.text("schema", "kafka", "Schema of the fleet")
dbutils.widgets.text("output_schema", "kafka_plans", "Schema for the plan")
dbutils.widgets.dropdown(
    "assignor", "configured", ["configured", "range", "roundrobin", "sticky", "cooperative-sticky"], "Assignor"
)
dbutils.widgets.dropdown("streams_assignor", TASK_ASSIGNORS[0], [*TASK_ASSIGNORS], "Assignor of Streams groups")
dbutils.widgets.text("run_id", "", "Run ID (an existing run of that name is replaced; empty: the current time)")

# COMMAND ----------

import html

from spark_assign import plan
from spark_assign.cli.plan_kinds import plan_other_kinds, read_fleets, write_plans
from spark_assign.report.plan_summary import plan_html, summarize
from spark_assign.report.results import summary
from spark_assign.stores.run_store import stored_run

catalog = dbutils.widgets.get("catalog")
fleet_place = f"{catalog}.{dbutils.widgets.get('schema')}"
plan_place = f"{catalog}.{dbutils.widgets.get('output_schema')}"
assignor = dbutils.widgets.get("assignor")
run_id = dbutils.widgets.get("run_id") or None

# COMMAND ----------

# MAGIC %md
# MAGIC The next cell fails if a table is missing, or a column has the wrong type or an invalid value; the message names
# MAGIC it. A group that can't be planned doesn't stop the others: it is in the table `rejected`.

# COMMAND ----------

fleet, clusters = read_fleets(spark, fleet_place)
planned = None if fleet is None else plan(fleet, assignor)
other_plans = plan_other_kinds(
    fleet, clusters, streams_assignor=dbutils.widgets.get("streams_assignor"), standby_replicas=None
)

# COMMAND ----------

# Readers see the plan once its row is in the table manifest, and nothing of it before.
inputs = {"fleet": fleet_place, "assignor": assignor}
manifest = write_plans(spark, planned, other_plans, plan_place, run_id=run_id, inputs=inputs)
stored = stored_run(spark, plan_place, manifest)

# COMMAND ----------

summaries = [summary(each) for each in other_plans]
if planned is None or summaries:
    displayHTML(f"<pre>{html.escape(summarize(stored, plan_place, 10, summaries))}</pre>")
if planned is not None:
    displayHTML(plan_html(planned))
    planned.fleet.unpersist()
for each in other_plans:
    each.unpersist()
