"""Plans Apache Kafka assignment for complete fleets on Spark, exactly as Kafka's own classes do.

A public name is imported when it is first used, so that commands without Spark don't load it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_assign.advice.advise import Advice, advise
    from spark_assign.advice.kernel.advice_items import AdviceParams
    from spark_assign.advice.kernel.membership_modes import MembershipParams
    from spark_assign.advice.membership import MembershipAdvice, advise_membership
    from spark_assign.advice.size import Sizing, size_groups
    from spark_assign.advice.zones import ZoneTraffic, measure_zone_traffic
    from spark_assign.comparison.compare import compare
    from spark_assign.comparison.drift import Drift, find_drift
    from spark_assign.comparison.what_if import WhatIf
    from spark_assign.fleet import Fleet
    from spark_assign.groups.assignors.custom import GroupAssignor, GroupSpec, MemberSubscription
    from spark_assign.groups.convergence import converge, heartbeats_to_target
    from spark_assign.groups.explaining import explain
    from spark_assign.groups.planning import Plan, plan
    from spark_assign.groups.registry import register
    from spark_assign.history.history import History
    from spark_assign.history.replay import Replay, replay
    from spark_assign.migration.migrate import Migration, plan_migration
    from spark_assign.migration.upgrade import Upgrade, plan_upgrade
    from spark_assign.sources.files.snapshot_offsets import Offsets, loads_between
    from spark_assign.tables.errors import FleetError, SparkAssignError, UnknownAssignorError

__version__ = "0.1.0"

__all__ = [
    "Advice",
    "AdviceParams",
    "Drift",
    "Fleet",
    "FleetError",
    "GroupAssignor",
    "GroupSpec",
    "History",
    "MemberSubscription",
    "MembershipAdvice",
    "MembershipParams",
    "Migration",
    "Offsets",
    "Plan",
    "Replay",
    "Sizing",
    "SparkAssignError",
    "UnknownAssignorError",
    "Upgrade",
    "WhatIf",
    "ZoneTraffic",
    "__version__",
    "advise",
    "advise_membership",
    "compare",
    "converge",
    "explain",
    "find_drift",
    "heartbeats_to_target",
    "loads_between",
    "measure_zone_traffic",
    "plan",
    "plan_migration",
    "plan_upgrade",
    "register",
    "replay",
    "size_groups",
]

_HOMES = {
    "advice.advise": ("Advice", "advise"),
    "advice.kernel.advice_items": ("AdviceParams",),
    "advice.kernel.membership_modes": ("MembershipParams",),
    "advice.membership": ("MembershipAdvice", "advise_membership"),
    "advice.size": ("Sizing", "size_groups"),
    "advice.zones": ("ZoneTraffic", "measure_zone_traffic"),
    "groups.assignors.custom": ("GroupSpec", "GroupAssignor", "MemberSubscription"),
    "groups.registry": ("register",),
    "comparison.compare": ("compare",),
    "comparison.drift": ("Drift", "find_drift"),
    "migration.migrate": ("Migration", "plan_migration"),
    "migration.upgrade": ("Upgrade", "plan_upgrade"),
    "comparison.what_if": ("WhatIf",),
    "tables.errors": ("FleetError", "SparkAssignError", "UnknownAssignorError"),
    "groups.explaining": ("explain",),
    "fleet": ("Fleet",),
    "history.history": ("History",),
    "history.replay": ("Replay", "replay"),
    "groups.planning": ("Plan", "plan"),
    "groups.convergence": ("converge", "heartbeats_to_target"),
    "sources.files.snapshot_offsets": ("Offsets", "loads_between"),
}


def __getattr__(name: str) -> Any:
    """Imports the module of a public name."""
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
