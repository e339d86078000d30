"""Plans Apache Kafka assignment for complete fleets on Spark, exactly as Kafka's own classes do.

A public name is imported when it is first used, so that commands without Spark don't load it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_assign.advice.advise import Advised, advise
    from spark_assign.advice.membership import Membership, membership
    from spark_assign.advice.size import Size, size
    from spark_assign.advice.zones import Zones, zones
    from spark_assign.comparison.compare import compare
    from spark_assign.comparison.drift import Drift, drift
    from spark_assign.comparison.what_if import Change
    from spark_assign.fleet import Fleet
    from spark_assign.groups.assignors.custom import GroupAssignor, GroupSpec, MemberSubscription
    from spark_assign.groups.convergence import converge, heartbeats_to_target
    from spark_assign.groups.explaining import explain
    from spark_assign.groups.planning import Plan, plan
    from spark_assign.groups.registry import register
    from spark_assign.history.history import History
    from spark_assign.history.replay import Replay, replay
    from spark_assign.migration.migrate import Migration, migrate
    from spark_assign.migration.upgrade import Upgrade, upgrade
    from spark_assign.sources.files.snapshot_offsets import Offsets, loads_between
    from spark_assign.tables.errors import FleetError, SparkAssignError, UnknownAssignorError

__version__ = "0.1.0"

__all__ = [
    "Advised",
    "Change",
    "Drift",
    "Fleet",
    "FleetError",
    "GroupAssignor",
    "GroupSpec",
    "History",
    "MemberSubscription",
    "Membership",
    "Migration",
    "Offsets",
    "Plan",
    "Replay",
    "Size",
    "SparkAssignError",
    "UnknownAssignorError",
    "Upgrade",
    "Zones",
    "__version__",
    "advise",
    "compare",
    "converge",
    "drift",
    "explain",
    "heartbeats_to_target",
    "loads_between",
    "membership",
    "migrate",
    "plan",
    "register",
    "replay",
    "size",
    "upgrade",
    "zones",
]

_HOMES = {
    "advice.advise": ("Advised", "advise"),
    "advice.membership": ("Membership", "membership"),
    "advice.size": ("Size", "size"),
    "advice.zones": ("Zones", "zones"),
    "groups.assignors.custom": ("GroupSpec", "GroupAssignor", "MemberSubscription"),
    "groups.registry": ("register",),
    "comparison.compare": ("compare",),
    "comparison.drift": ("Drift", "drift"),
    "migration.migrate": ("Migration", "migrate"),
    "migration.upgrade": ("Upgrade", "upgrade"),
    "comparison.what_if": ("Change",),
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
