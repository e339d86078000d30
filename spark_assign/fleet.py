"""The input tables of a fleet of clusters: topics, groups, members, and ownership. `api.Fleet` is the public class."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

from pyspark.sql import DataFrame

from spark_assign.spark import subscription_lists
from spark_assign.spark.fleet_check import Sizes, check_fleet
from spark_assign.spark.partition_slices import compress, from_lists
from spark_assign.tables.counted_nouns import count
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.groups import ASSIGNMENT_SLICES, GROUP_KEY, INPUT_TABLES, OWNERSHIP, REQUIRED_TABLES
from spark_assign.tables.schema_check import check_schemas


@dataclass(frozen=True)
class FleetTables:
    """The input tables of a fleet, which `api.Fleet` describes; its columns and types are checked when it is made.

    Raises:
        FleetError: a table or column is missing, or has a wrong type. The message lists every fault.
    """

    topics: DataFrame
    members: DataFrame
    subscriptions: DataFrame | None = None
    owned: DataFrame | None = None
    owned_slices: DataFrame | None = None
    replicas: DataFrame | None = None
    brokers: DataFrame | None = None
    groups: DataFrame | None = None
    subtopologies: DataFrame | None = None
    tasks: DataFrame | None = None
    changelogs: DataFrame | None = None
    initialized: DataFrame | None = None
    loads: DataFrame | None = None
    departed: DataFrame | None = None
    departed_tasks: DataFrame | None = None
    subscription_lists: DataFrame | None = None
    owned_lists: DataFrame | None = None

    def __post_init__(self) -> None:
        faults = check_schemas(self, _SCHEMAS, REQUIRED_TABLES)
        given = [name for name in OWNERSHIP if getattr(self, name) is not None]
        if len(given) > 1:
            faults.append(Fault(given[0], "*", f"{' and '.join(given)} are given", "Give only one of them"))
        if self.tasks is not None and self.subtopologies is None:
            problem = "the table is missing, but tasks is given"
            faults.append(Fault("subtopologies", "*", problem, "Add it: each task belongs to a subtopology"))
        if faults:
            raise FleetError(faults)

    @cached_property
    def sizes(self) -> Sizes:
        """Number of rows per table, counted and checked by one Spark query per fleet.

        Raises:
            FleetError: the fleet has faulty rows that belong to no group. The message lists every fault.
        """
        return check_fleet({name: getattr(self, name) for name in _TABLES})

    @property
    def unknown(self) -> list[str]:
        """What the fleet lacks that can change a plan, in sentences that name the tables and columns.

        A group without a known assignor is rejected, and a leader that isn't known is in `metrics.leader_client`.

        Raises:
            FleetError: as `sizes`.
        """
        sizes, sentences = self.sizes, []
        if all(getattr(self, name) is None for name in (*OWNERSHIP, "tasks")):
            sentences.append(
                f"What members own isn't known ({', '.join(OWNERSHIP)}): every partition counts as moved to its first "
                "owner, and sticky assignors start from nothing."
            )
        missing = [name for name in ("replicas", "brokers") if getattr(self, name) is None]
        if not missing and not sizes.racked_brokers:
            missing = ["brokers.rack_id"]
        if missing and sizes.racked_members:
            racked = f"{count(sizes.racked_members, 'member')} {'has' if sizes.racked_members == 1 else 'have'} a rack"
            sentences.append(
                f"Racks of replicas aren't known ({', '.join(missing)}), but {racked}: planned without racks."
            )
        elif not missing and not sizes.racked_members:
            sentences.append("No member has a rack (members.rack_id), but brokers have: planned without racks.")
        if untyped := sizes.groups - sizes.typed_groups:
            sentences.append(
                f"The type of {count(untyped, 'group')} isn't known (groups.group_type): planned as classic."
            )
        measured = ("in_messages_per_second", "group_id", "out_messages_per_second", "lag")
        absent = [f"loads.{name}" for name in measured if not getattr(sizes, f"loads_{name}")]
        if self.loads is None:
            sentences.append("Loads aren't known (loads): balance is by number of partitions.")
        elif absent:
            effect = "loads of members, and the time in which they read their lag, can be unknown"
            sentences.append(f"Nothing is known of {', '.join(absent)}: {effect}.")
        return sentences

    @cached_property
    def found(self) -> dict[str, DataFrame]:
        """Answers of queries over the whole fleet by name, which are asked once per fleet, until `unpersist`."""
        return {}

    @property
    def subscription_rows(self) -> DataFrame:
        """One row per member and subscribed topic: cluster, group_id, member_id, topic, from both tables."""
        return subscription_lists.all_rows(self.subscriptions, self.subscription_lists)

    @property
    def subscribed_topics(self) -> DataFrame:
        """The topics that members of each group subscribe to: cluster, group_id, topic."""
        return subscription_lists.all_topics(self.subscriptions, self.subscription_lists)

    def ownership_slices(self) -> DataFrame | None:
        """Returns what live members own as slices (columns as in `owned_slices`); None if unknown."""
        if self.owned is not None:
            return compress(self.owned)
        slices = self.owned_slices if self.owned_lists is None else from_lists(self.owned_lists)
        return None if slices is None else slices.select(*ASSIGNMENT_SLICES.names)

    def unpersist(self) -> None:
        """Discards `sizes` and `found`, so that changed tables are checked again."""
        for name in ("sizes", "found"):
            self.__dict__.pop(name, None)

    def filter_groups(self, groups: DataFrame) -> FleetTables:
        """Returns the fleet with only these groups (cluster, group_id)."""
        groups = groups.select(*GROUP_KEY).distinct()
        tables = {name: getattr(self, name) for name in _TABLES if name not in _CLUSTER_TABLES}
        kept = {name: table.join(groups, GROUP_KEY, "left_semi") for name, table in tables.items() if table is not None}
        return replace(self, **kept)

    @property
    def racks_known(self) -> bool:
        """Whether the fleet has the tables that rack awareness needs: replicas and brokers."""
        return self.replicas is not None and self.brokers is not None


_TABLES = tuple(field.name for field in fields(FleetTables))
_SCHEMAS = INPUT_TABLES | {"departed": INPUT_TABLES["owned_slices"], "departed_tasks": INPUT_TABLES["tasks"]}
_CLUSTER_TABLES = ("topics", "replicas", "brokers", "loads")
"""Tables whose rows don't belong to a single group."""
