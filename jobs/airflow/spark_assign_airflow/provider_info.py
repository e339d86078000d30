"""What Airflow's list of providers says of this one (entry point `apache_airflow_provider`)."""

from __future__ import annotations

from importlib import metadata
from typing import Any

PACKAGE = "spark-assign-airflow"


def get_provider_info() -> dict[str, Any]:
    """In the form of Airflow's `provider_info.schema.json`."""
    about = "Plans of Kafka's group assignment on a schedule: the jobs of spark_assign on Spark and on Databricks."
    integration = "spark_assign"
    return {
        "package-name": PACKAGE,
        "name": "spark_assign",
        "description": about,
        "versions": [metadata.version(PACKAGE)],
        "operators": [{"integration-name": integration, "python-modules": ["spark_assign_airflow.operators"]}],
    }
