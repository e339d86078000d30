"""Defines an Airflow DAG per table [[dag]] of the settings file. See docs/airflow.md."""

from __future__ import annotations

from spark_assign_airflow.factory import dag
from spark_assign_airflow.settings import load

for settings in load():
    globals()[settings.dag_id] = dag(settings)
