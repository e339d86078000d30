"""Plan Apache Kafka assignment for whole fleets on Spark, exactly as Kafka's own classes would decide.

What is named here is loaded when it is first asked for, so that a command which needs no Spark loads none.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_assign.advising.advise import Advised, advise
    from spark_assign.advising.loads import loads_between
    from spark_assign.advising.membership import Membership, membership
    from spark_assign.advising.size import Size, size
    from spark_assign.advising.zones import Zones, zones
    from spark_assign.assignors import Group, GroupAssignor, Member, register
    from spark_assign.comparing.compare import compare
    from spark_assign.comparing.drift import Drift, drift
    from spark_assign.comparing.migrate import Migration, migrate
    from spark_assign.comparing.upgrade import Upgrade, upgrade
    from spark_assign.comparing.what_if import Change
    from spark_assign.errors import FleetError, SparkAssignError, UnknownAssignorError
    from spark_assign.explaining import explain
    from spark_assign.fleet import Fleet
    from spark_assign.history.history import History
    from spark_assign.history.replay import Replay, replay
    from spark_assign.planning import Plan, plan
    from spark_assign.rounds import converge, heartbeats
    from spark_assign.sources.offsets import Offsets

__version__ = "0.1.0"

__all__ = [
    "Advised",
    "Change",
    "Drift",
    "Fleet",
    "FleetError",
    "Group",
    "GroupAssignor",
    "History",
    "Member",
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
    "heartbeats",
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
    "advising.advise": ("Advised", "advise"),
    "advising.loads": ("loads_between",),
    "advising.membership": ("Membership", "membership"),
    "advising.size": ("Size", "size"),
    "advising.zones": ("Zones", "zones"),
    "assignors": ("Group", "GroupAssignor", "Member", "register"),
    "comparing.compare": ("compare",),
    "comparing.drift": ("Drift", "drift"),
    "comparing.migrate": ("Migration", "migrate"),
    "comparing.upgrade": ("Upgrade", "upgrade"),
    "comparing.what_if": ("Change",),
    "errors": ("FleetError", "SparkAssignError", "UnknownAssignorError"),
    "explaining": ("explain",),
    "fleet": ("Fleet",),
    "history.history": ("History",),
    "history.replay": ("Replay", "replay"),
    "planning": ("Plan", "plan"),
    "rounds": ("converge", "heartbeats"),
    "sources.offsets": ("Offsets",),
}


def __getattr__(name: str) -> Any:
    """The module that a public name is in is imported by its first use."""
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
