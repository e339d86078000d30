# Databricks notebook source
# MAGIC %md
# MAGIC # What would every consumer group be assigned?
# MAGIC Reads a fleet from the Unity Catalog tables `catalog.schema.topics`, `.members`, `.subscriptions` (and
# MAGIC `.owned_slices`, `.groups`, `.replicas`, `.brokers` where they are there), plans every group exactly as Kafka's
# MAGIC own assignor would, and writes the plan to the tables of `catalog.output_schema`. Nothing is changed in Kafka.
# MAGIC
# MAGIC The path below is that of the bundle's wheel. Elsewhere, write where yours is: `/Volumes/…/spark_assign-….whl`.

# COMMAND ----------

# MAGIC %pip install ../../dist/spark_assign-0.1.0-py3-none-any.whl

# COMMAND ----------

dbutils.library.restartPython()

# COMMAND ----------

dbutils.widgets.text("catalog", "main", "Catalog")
dbutils.widgets.text("schema", "kafka", "Schema of the fleet")
dbutils.widgets.text("output_schema", "kafka_plans", "Schema for the plan")
dbutils.widgets.dropdown(
    "assignor", "configured", ["configured", "range", "roundrobin", "sticky", "cooperative-sticky"], "Assignor"
)
dbutils.widgets.text("run_id", "", "Run id (the same again replaces it; empty: the time)")

# COMMAND ----------

import html

from spark_assign import Fleet, plan
from spark_assign.report.text.plan_summary import summarize
from spark_assign.stores.run_store import read_run

catalog = dbutils.widgets.get("catalog")
fleet_place = f"{catalog}.{dbutils.widgets.get('schema')}"
plan_place = f"{catalog}.{dbutils.widgets.get('output_schema')}"
assignor = dbutils.widgets.get("assignor")
run_id = dbutils.widgets.get("run_id") or None

# COMMAND ----------

# MAGIC %md
# MAGIC A table that is missing, a column of another type or a value that no plan can be made from stops here, by name.
# MAGIC A group that cannot be planned does not: it comes out in the table `rejected`.

# COMMAND ----------

planned = plan(Fleet.read(spark, fleet_place), assignor)

# COMMAND ----------

# The plan is there once its row is in the table manifest; until then nobody sees a part of it.
manifest = planned.write(plan_place, run_id=run_id, inputs={"fleet": fleet_place, "assignor": assignor})
stored = read_run(spark, plan_place, manifest.run_id)
planned.fleet.unpersist()

# COMMAND ----------

view = getattr(planned, "_repr_html_", None)
displayHTML(view() if view else f"<pre>{html.escape(summarize(stored, plan_place))}</pre>")
