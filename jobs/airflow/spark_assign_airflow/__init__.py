"""A fleet on a schedule: the jobs of this project as a DAG of Airflow 3, on Spark or on Databricks."""
