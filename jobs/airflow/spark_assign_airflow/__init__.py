"""Runs the jobs of this project on a schedule, as a DAG of Airflow 3, on Spark or on Databricks."""
