"""What the owners of groups should do: how many consumers, balanced by what, in which zone, static or
not; and what to remove.
"""

from spark_assign.advice.kernel.membership_modes import MembershipParams
from spark_assign.advice.kernel.unused import UnusedParams
from spark_assign.advice.kernel.zones import ZoneParams
from spark_assign.advice.membership import MembershipAdvice, advise_membership
from spark_assign.advice.size import Sizing, SizingParams, size_groups
from spark_assign.advice.unused import EarlierSnapshot, Unused, UnusedEvidence, find_unused
from spark_assign.advice.zones import ZoneTraffic, measure_zone_traffic

__all__ = [
    "EarlierSnapshot",
    "MembershipAdvice",
    "MembershipParams",
    "Sizing",
    "SizingParams",
    "Unused",
    "UnusedEvidence",
    "UnusedParams",
    "ZoneParams",
    "ZoneTraffic",
    "advise_membership",
    "find_unused",
    "measure_zone_traffic",
    "size_groups",
]
