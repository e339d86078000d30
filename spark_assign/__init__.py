"""Plans Apache Kafka assignment for complete fleets on Spark, exactly as Kafka's own classes do.

A public name is imported when it is first used, so that commands without Spark don't load it.
"""

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from spark_assign.tables.views import VIEWS

if TYPE_CHECKING:
    from spark_assign.advice.advise import Advice, advise
    from spark_assign.advice.kernel.advice_items import AdviceParams
    from spark_assign.api import Fleet
    from spark_assign.comparison.compare import Comparison, compare
    from spark_assign.comparison.drift import Drift, find_drift
    from spark_assign.comparison.what_if import WhatIf
    from spark_assign.groups.convergence import converge, heartbeats_to_target
    from spark_assign.groups.explaining import explain
    from spark_assign.groups.planning import Plan, plan, register
    from spark_assign.migration.kernel.migration_metrics import MigrationParams
    from spark_assign.migration.migrate import Migration, plan_migration
    from spark_assign.migration.upgrade import Upgrade, plan_upgrade
    from spark_assign.spark.engine import embedded_session
    from spark_assign.tables.errors import ConfigError, FleetError, SourceError, SparkAssignError

__version__ = "0.2.0"

__all__ = [
    "Advice",
    "AdviceParams",
    "Comparison",
    "ConfigError",
    "Drift",
    "Fleet",
    "FleetError",
    "Migration",
    "MigrationParams",
    "Plan",
    "SourceError",
    "SparkAssignError",
    "Upgrade",
    "WhatIf",
    "__version__",
    "advise",
    "compare",
    "converge",
    "embedded_session",
    "explain",
    "find_drift",
    "heartbeats_to_target",
    "plan",
    "plan_migration",
    "plan_upgrade",
    "register",
]

_HOMES = {
    "advice.advise": ("Advice", "advise"),
    "advice.kernel.advice_items": ("AdviceParams",),
    "comparison.compare": ("Comparison", "compare"),
    "comparison.drift": ("Drift", "find_drift"),
    "migration.kernel.migration_metrics": ("MigrationParams",),
    "migration.migrate": ("Migration", "plan_migration"),
    "migration.upgrade": ("Upgrade", "plan_upgrade"),
    "comparison.what_if": ("WhatIf",),
    "spark.engine": ("embedded_session",),
    "tables.errors": ("ConfigError", "FleetError", "SourceError", "SparkAssignError"),
    "groups.explaining": ("explain",),
    "api": ("Fleet",),
    "groups.planning": ("Plan", "plan", "register"),
    "groups.convergence": ("converge", "heartbeats_to_target"),
}


def __getattr__(name: str) -> Any:
    """Imports the module of a public name."""
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _view(name: str, *arguments: Any) -> str:
    """Returns a view of a result. Imports the views when the first one is needed."""
    from spark_assign.report import results

    text: str = getattr(results, name)(*arguments)
    return text


VIEWS.update({name: partial(_view, name) for name in ("summary", "page", "notebook_view")})


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
