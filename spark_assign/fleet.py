"""The Fleet: what is known of clusters, topics, groups and members, as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from spark_assign.spark.fleet_check import Sizes, check_fleet
from spark_assign.spark.partition_slices import compress
from spark_assign.tables.errors import Fault, FleetError
from spark_assign.tables.groups import ASSIGNMENT_SLICES, GROUP_KEY, REQUIRED_TABLES
from spark_assign.tables.schema_check import conform

if TYPE_CHECKING:
    from spark_assign.groups.planning import Plan
    from spark_assign.history.history import History


@dataclass(frozen=True)
class Fleet:
    """Clusters, topics, consumer groups and who owns what, each a DataFrame (columns: `tables.groups.INPUT_TABLES`).

    Constructing a fleet checks columns and types and reads no row. The values are checked once, by `check`, when the
    first plan is made. A fleet is immutable: every `with_…` returns a new one.

    Args:
        topics: one row per topic, with its partition count.
        members: one row per group member.
        subscriptions: one row per member and topic it subscribes to. Topics that `topics` lacks are legal.
        owned: one row per partition that a member owns now.
        owned_slices: the same as runs `first, first + step, …`; give either this or `owned`.
        replicas: broker ids of each partition's replicas, preferred leader first.
        brokers: each broker's rack.
        groups: the assignor that each group is configured with.
        subtopologies: of streams groups (KIP-1071), one row per subtopology, with the number of its tasks.
        tasks: of streams groups, one row per task that a member has reached, or has state of on its disk.
        initialized: of share groups (KIP-932), the partitions that their coordinator can assign; null: all.
        loads: what goes through each partition: rates, lag, bytes.
        departed: ownership (as `owned_slices`) of members that have left; see `with_members_left`.
        departed_tasks: the same of streams groups (as `tasks`).

    Raises:
        FleetError: a missing table or column, or a wrong type; lists everything found.

    Examples:
        >>> same = Fleet(topics=fleet.topics, members=fleet.members, subscriptions=fleet.subscriptions)
    """

    topics: DataFrame
    members: DataFrame
    subscriptions: DataFrame
    owned: DataFrame | None = None
    owned_slices: DataFrame | None = None
    replicas: DataFrame | None = None
    brokers: DataFrame | None = None
    groups: DataFrame | None = None
    subtopologies: DataFrame | None = None
    tasks: DataFrame | None = None
    initialized: DataFrame | None = None
    loads: DataFrame | None = None
    departed: DataFrame | None = None
    departed_tasks: DataFrame | None = None

    def __post_init__(self) -> None:
        faults: list[Fault] = []
        for field in fields(self):
            table = getattr(self, field.name)
            if table is None:
                if field.name in REQUIRED_TABLES:
                    faults.append(Fault(field.name, "*", "the table is missing", "Give it as a DataFrame"))
                continue
            shape = {"departed": "owned_slices", "departed_tasks": "tasks"}.get(field.name, field.name)
            shaped, found = conform(shape, table)
            faults += found
            object.__setattr__(self, field.name, shaped)
        if self.owned is not None and self.owned_slices is not None:
            faults.append(Fault("owned", "*", "owned and owned_slices are both given", "Give one of the two"))
        if self.tasks is not None and self.subtopologies is None:
            problem = "the table is missing, and tasks is given"
            faults.append(Fault("subtopologies", "*", problem, "Give it: tasks belong to a subtopology"))
        if faults:
            raise FleetError(faults)

    @classmethod
    def read(
        cls,
        spark: SparkSession,
        place: str | None,
        *,
        format: str | None = None,
        options: Mapping[str, str] | None = None,
        tables: Mapping[str, str] | None = None,
    ) -> Fleet:
        """The fleet whose tables are in a place: `Fleet.read(spark, "./fleet")`, `Fleet.read(spark, "main.kafka")`.

        Args:
            spark: the session to read with, classic or Connect.
            place: a folder, a URI or a catalog prefix; null where `tables` names everything.
            format, options, tables: as `sources.files.tables.read_fleet` has them, which this calls.

        Raises:
            SourceError: a required table is not there, a file cannot be read, or a value does not parse.
            FleetError: a column is missing or has a wrong type.
        """
        from spark_assign.sources.files.tables import read_fleet  # which makes the fleet, and so needs this class

        return read_fleet(spark, place, format=format, options=options, tables=tables)

    @classmethod
    def at(cls, history: History, timestamp: datetime | str, *, topics: DataFrame | None = None) -> Fleet:
        """The fleet of a moment of the past, from where `plan`, `compare` and `drift` go on.

        It has the members, with the generation of their group, their subscriptions, what they own, and of groups the
        assignor, type and state: of groups of consumers and of share groups. Connect clusters and Streams groups of the
        broker's protocol are left out, as are clusters whose records do not reach over that moment. What a group was
        before its first record is not known. Outside of share groups no partition has two owners.

        Args:
            history: what records of the coordinators tell.
            timestamp: a datetime with a time zone, or a text such as `2026-11-23T08:00:00Z`. What was written in that
                very moment has happened.
            topics: cluster, topic, partitions. Without it topics have so many partitions as somebody had owned or
                committed until then: the largest number seen, and one.

        Raises:
            ConfigError: a timestamp that is none, has no time zone, or that no records reach over.

        Examples:
            >>> history = History.read(spark.read.parquet("conf/sample-history/records.parquet"))
            >>> then = Fleet.at(history, "2026-11-23T08:03:16Z").members.where("group_id = 'payments-ledger'")
            >>> then.select("group_instance_id", "client_id").orderBy("client_id").show()
            +-----------------+-----------------+
            |group_instance_id|        client_id|
            +-----------------+-----------------+
            |         ledger-0|payments-ledger-0|
            |         ledger-1|payments-ledger-1|
            |         ledger-2|payments-ledger-2|
            +-----------------+-----------------+
        """
        from spark_assign.history.fleet_as_of import fleet_at  # which makes the fleet, and so needs this class

        return fleet_at(history, timestamp, topics=topics)

    @cached_property
    def sizes(self) -> Sizes:
        """Rows of the tables, counted and checked by Spark once per fleet.

        Raises:
            FleetError: rows that belong to no group and cannot be planned around; lists everything found.
        """
        return check_fleet({each.name: getattr(self, each.name) for each in fields(self)})

    @cached_property
    def rejected(self) -> DataFrame:
        """Groups that no plan can be made for: cluster, group_id, code, detail; found by Spark once per fleet.

        Raises:
            FleetError: as `sizes`.
        """
        from spark_assign.groups.faulty_groups import faulty_groups

        return faulty_groups(self)

    def ownership_slices(self) -> DataFrame | None:
        """What living members own, as runs (columns as in `owned_slices`); null where nobody knows."""
        if self.owned is not None:
            return compress(self.owned)
        return None if self.owned_slices is None else self.owned_slices.select(*ASSIGNMENT_SLICES.names)

    def release(self) -> None:
        """Forget what was counted, so that tables that have changed since are looked over again."""
        for name in ("sizes", "rejected"):
            self.__dict__.pop(name, None)

    def with_members_left(
        self,
        leavers: DataFrame | None = None,
        *,
        cluster: str = "*",
        group_id: str = "*",
        member_id: str | None = None,
        number: int | None = None,
    ) -> Fleet:
        """The same fleet after some members have left their groups.

        What they owned is owned by nobody now; `Plan.moves` reports it as `member-left`. Leavers that the fleet does
        not know change nothing. A group whose members have all left is no longer planned. Of streams groups their tasks
        go with them, and the state on their disks.

        Args:
            leavers: cluster, group_id, member_id; a row per leaving member. In place of it, shell patterns:
            cluster, group_id, member_id: the members that match leave.
            number: maximum number of them in each group, the first ones by id.

        Raises:
            FleetError: a column is missing, or it is not said who leaves.

        Examples:
            >>> fleet.with_members_left(group_id="payments-*", number=1).members.count()
            3
        """
        from spark_assign.comparison import what_if as fleet_changes

        by_pattern = member_id is not None or number is not None
        fleet_changes.either("leavers", leavers, by_pattern)
        if leavers is None:
            leavers = fleet_changes.leavers(
                self, cluster=cluster, group_id=group_id, member_id=member_id or "*", number=number
            )
        return fleet_changes.without_members(self, leavers)

    def with_members_joined(
        self,
        joiners: DataFrame | None = None,
        *,
        cluster: str = "*",
        group_id: str = "*",
        number: int | None = None,
        member_id: str = "joiner-",
        topics: list[str] | None = None,
    ) -> Fleet:
        """The same fleet after new members have joined, who own nothing.

        Ids decide ties between members: a real client's id, which has a random part, may decide them otherwise. In a
        streams group a joiner without `process_id` is a process of its own, called like the member.

        Args:
            joiners: cluster, group_id, member_id and, as far as known, the other columns of `members`. In place of it:
            cluster, group_id: shell patterns; every group that matches is joined by
            number: so many members, called
            member_id: that and a number of two digits.
            topics: what they subscribe to; by default all that some member of their group does.

        Raises:
            FleetError: a column is missing, or it is not said who joins.

        Examples:
            >>> joined = fleet.with_members_joined(group_id="encoder-a", number=1).members
            >>> joined.where("group_id = 'encoder-a'").select("member_id").orderBy("member_id").show()
            +-----------+
            |  member_id|
            +-----------+
            |encoder-a-0|
            |encoder-a-1|
            |  joiner-01|
            +-----------+
        """
        from spark_assign.comparison import what_if as fleet_changes

        fleet_changes.either("joiners", joiners, number is not None)
        if joiners is None:
            assert number is not None
            joiners = fleet_changes.joiners(
                self, cluster=cluster, group_id=group_id, number=number, member_id=member_id
            )
        return fleet_changes.with_joiners(self, joiners, topics)

    def with_partitions(
        self,
        partitions: DataFrame | None = None,
        *,
        cluster: str = "*",
        topic: str | None = None,
        factor: float | None = None,
        to: int | None = None,
    ) -> Fleet:
        """The same fleet after topics have got another number of partitions.

        The racks of partitions that `replicas` does not have are unknown.

        Args:
            partitions: cluster, topic, partitions (the new count); unknown topics are added. In place of it:
            cluster, topic: shell patterns; the topics that match get
            factor: multiplies the number of partitions, rounded up; or
            to: the new number of partitions.

        Raises:
            FleetError: a column is missing, or it is not said what changes.

        Examples:
            >>> fleet.with_partitions(topic="t", factor=2).topics.select("topic", "partitions").show()
            +-----+----------+
            |topic|partitions|
            +-----+----------+
            |    t|         6|
            +-----+----------+
        """
        from spark_assign.comparison import what_if as fleet_changes

        fleet_changes.either("partitions", partitions, topic is not None)
        if partitions is None:
            assert topic is not None
            partitions = fleet_changes.grown(self, cluster=cluster, topic=topic, factor=factor, to=to)
        return fleet_changes.with_counts(self, partitions)

    def with_clients(
        self, library: str, release: str | None = None, *, cluster: str = "*", group_id: str = "*"
    ) -> Fleet:
        """The same fleet with this client library in the lead of groups, whose rules a plan as `configured` follows.

        Args:
            library: as `groups.leader_library` has it: Java, librdkafka, franz-go, …
            release: of the library; of Java's clients one that `groups.assignors.release_rules` knows. Null: as of
                today.
            cluster, group_id: shell patterns; the groups that match.

        Raises:
            FleetError: the library or its release is not known.

        Examples:
            >>> old = fleet.with_clients("Java", "2.8", group_id="payments-*")
            >>> metrics = plan(old).metrics.select("group_id", "assignor", "leader_client").orderBy("group_id")
            >>> metrics.show(truncate=False)
            +-----------+---------+----------------+
            |group_id   |assignor |leader_client   |
            +-----------+---------+----------------+
            |encoder-a  |range    |NULL            |
            |payments-eu|range@2.8|Java 2.8 (given)|
            +-----------+---------+----------------+
        """
        from spark_assign.comparison import what_if as fleet_changes

        return fleet_changes.leader_client(self, cluster=cluster, group_id=group_id, library=library, release=release)

    def with_capacity(
        self,
        capacity: float | None = None,
        *,
        load_bound: float | None = None,
        cluster: str = "*",
        group_id: str = "*",
    ) -> Fleet:
        """The same fleet with what a member can handle, in groups that match; what is not given stays as it is.

        Args:
            capacity: messages a second that one member of such a group can handle.
            load_bound: how many times the mean load of its group a member may have at most (`weighted-sticky`).
            cluster, group_id: shell patterns; the groups that match.

        Raises:
            FleetError: neither is given; a capacity is not above 0, or a bound below 1.

        Examples:
            >>> fast = fleet.with_capacity(5_000, group_id="payments-*")
            >>> fast.groups.where("group_id = 'payments-eu'").select("group_id", "capacity").show()
            +-----------+--------+
            |   group_id|capacity|
            +-----------+--------+
            |payments-eu|  5000.0|
            +-----------+--------+
        """
        from spark_assign.comparison import what_if as fleet_changes

        return fleet_changes.with_capacity(self, capacity, load_bound, cluster=cluster, group_id=group_id)

    def after(self, plan: Plan) -> Fleet:
        """The same fleet once every member has what a plan of it assigns, and has given up the rest.

        The members join the next round with that, in their group's next generation. Groups that the plan rejects own
        nothing afterwards.

        Examples:
            >>> settled = fleet.after(plan(fleet, "range"))
            >>> plan(settled, "range").moves.count()
            0
        """
        group = Window.partitionBy(*GROUP_KEY)
        latest = F.max(F.greatest(F.col("generation_id"), F.col("user_data_generation_id"), F.lit(0))).over(group)
        members = self.members.withColumn("generation_id", (latest + 1).cast("int")).withColumn(
            "user_data_generation_id", F.lit(None).cast("int")
        )
        return replace(self, members=members, owned=None, owned_slices=plan.assignment_slices, departed=None)

    def only(self, groups: DataFrame) -> Fleet:
        """The same fleet with only these groups (cluster, group_id)."""
        chosen = groups.select(*GROUP_KEY).distinct()
        of_groups = (
            "members",
            "subscriptions",
            "owned",
            "owned_slices",
            "groups",
            "subtopologies",
            "tasks",
            "initialized",
        )
        tables = (*of_groups, "departed", "departed_tasks")
        present = {name: getattr(self, name) for name in tables if getattr(self, name) is not None}
        return replace(self, **{name: table.join(chosen, GROUP_KEY, "left_semi") for name, table in present.items()})

    @property
    def racks_known(self) -> bool:
        """Whether the fleet has what rack awareness needs: replicas and brokers."""
        return self.replicas is not None and self.brokers is not None
