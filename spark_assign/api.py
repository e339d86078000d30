"""The public Fleet: the input tables, with the conveniences that call the rooms of the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from spark_assign.comparison import what_if
from spark_assign.fleet import FleetTables
from spark_assign.groups.facts import faulty_groups
from spark_assign.groups.planning import Plan
from spark_assign.sources.files.tables import FLEET, read_tables
from spark_assign.tables.groups import GROUP_KEY, OWNERSHIP

if TYPE_CHECKING:
    from spark_assign.history.history import History


class Fleet(FleetTables):
    """Topics, consumer groups, and ownership of many clusters, one DataFrame per table (`tables.groups.INPUT_TABLES`).

    The constructor checks columns and types without reading a row. The values are checked once, when the fleet is first
    planned. A fleet is immutable: every `with_…` method returns a new one.

    Args:
        topics: one row per topic, with its partition count.
        members: one row per group member.
        subscriptions: one row per member and subscribed topic. `topics` need not have the topic.
        subscription_lists: subscriptions as lists of members and topics, instead of `subscriptions` or in addition.
        owned: one row per partition that a member owns.
        owned_slices: the same as slices `first, first + step, …`; an alternative to `owned`.
        owned_lists: the slices as lists; another alternative, much smaller if members own partitions of many topics.
        replicas: broker IDs of the replicas of each partition, preferred leader first.
        brokers: rack of each broker.
        groups: assignor and other settings of each group.
        subtopologies: one row per subtopology of a Streams group, with its number of tasks or its topics.
        tasks: one row per task that a member of a Streams group has, or has state of on disk.
        changelogs: end offsets and sizes of the changelogs of classic Streams applications.
        initialized: partitions of share groups (KIP-932) that the coordinator can assign; None: all partitions.
        loads: rates, lag, and bytes per partition.
        departed: what departed members owned, as in `owned_slices` (`with_members_left`).
        departed_tasks: what departed members of streams groups had, as in `tasks`.
        undescribed: groups that a snapshot or a history couldn't describe: they are rejected, not empty.

    Raises:
        FleetError: a table or column is missing, or has a wrong type. The message lists every fault.

    Examples:
        >>> copy = Fleet(topics=fleet.topics, members=fleet.members, subscriptions=fleet.subscriptions)
    """

    @classmethod
    def read(
        cls,
        spark: SparkSession,
        location: str | None,
        *,
        format: str | None = None,
        options: Mapping[str, str] | None = None,
        tables: Mapping[str, str] | None = None,
    ) -> Self:
        """Reads a fleet: `Fleet.read(spark, "./fleet")`, `Fleet.read(spark, "main.kafka")`.

        Args:
            spark: a classic session, or a session of Spark Connect.
            location: a folder, a URI, or a catalog prefix; None if `tables` names every table.
            format: format of the files; default: as their names say.
            options: reader options of Spark.
            tables: locations of single tables by name (`sources.files.tables.read_tables`).

        Raises:
            SourceError: a required table doesn't exist, or a file or value can't be read.
            FleetError: a column is missing or has a wrong type.
        """
        return cls(**read_tables(spark, FLEET, location, format=format, options=options, tables=tables))

    @classmethod
    def as_of(
        cls,
        history: History,
        timestamp: datetime | str,
        *,
        topics: DataFrame | None = None,
        changelogs: DataFrame | None = None,
        topologies: Mapping[str, str] | None = None,
    ) -> Self:
        """Returns the fleet as it was at a past time, ready for `plan`, `compare`, or `find_drift`.

        It includes consumer groups and share groups, with members, generations, subscriptions, ownership, assignor,
        type, and state. It excludes Connect clusters, streams groups (KIP-1071), and clusters whose records don't cover
        that time. Groups that are too large (`history.rejected`), or whose newest records or members' bytes can't be
        read, are only in `undescribed`. The state of a group before its first record is unknown. Outside of share
        groups, a partition has at most one owner.

        Classic Streams applications have processes, tasks, and topology. `groups` has two more columns for them: why
        an application can't be planned (`problem`), and what is only likely (`caveats`).

        Args:
            history: the decoded records of the coordinators.
            timestamp: a datetime with a time zone, or text such as `2026-11-23T08:00:00Z`, inclusive.
            topics: cluster, topic, partitions. Default: the largest partition committed until then, or owned by a group
                that owned at least half of those up to it, plus one. A group with a larger one is in `undescribed`.
            changelogs: end offsets and sizes of changelogs (`tables.groups.CHANGELOGS`), which aren't on record.
            topologies: texts of `Topology.describe()` by group ID. Default: derived from tasks and names of topics.

        Raises:
            ConfigError: the timestamp is invalid, has no time zone, or no records cover it.

        Examples:
            >>> history = read_history(spark.read.parquet("conf/sample-history/records.parquet"))
            >>> Fleet.as_of(history, "2026-11-23T08:03:16Z").members.where("group_id = 'payments-ledger'").count()
            3
        """
        from spark_assign.history.fleet_as_of import tables_as_of  # a plan needs no history

        return cls(**tables_as_of(history, timestamp, topics=topics, changelogs=changelogs, topologies=topologies))

    @property
    def rejected(self) -> DataFrame:
        """Groups that can't be planned: cluster, group_id, code, detail; found by one Spark query per fleet.

        Raises:
            FleetError: as `sizes`.
        """
        return faulty_groups(self)

    def with_members_left(
        self,
        leavers: DataFrame | None = None,
        *,
        cluster: str = "*",
        group_id: str = "*",
        member_id: str | None = None,
        count: int | None = None,
    ) -> Self:
        """Returns the fleet after members have left their groups.

        Their partitions have no owner, and `Plan.moves` lists them as `member-left`. In streams groups, their tasks and
        the state on their disks are gone. A group without remaining members isn't planned. Unknown members are ignored.

        Args:
            leavers: cluster, group_id, member_id; one row per member. The alternative are shell patterns:
            cluster, group_id, member_id: matching members leave.
            count: maximum number of members per group, the first by ID.

        Raises:
            FleetError: a column is missing, or neither rows nor patterns are given.

        Examples:
            >>> fleet.with_members_left(group_id="payments-*", count=1).members.count()
            3
        """
        by_pattern = member_id is not None or count is not None
        what_if.either("leavers", leavers, by_pattern)
        if leavers is None:
            leavers = what_if.leavers(self, cluster=cluster, group_id=group_id, member_id=member_id or "*", count=count)
        return what_if.without_members(self, leavers)

    def with_members_joined(
        self,
        joiners: DataFrame | None = None,
        *,
        cluster: str = "*",
        group_id: str = "*",
        count: int | None = None,
        member_id: str = what_if.JOINER,
        topics: list[str] | None = None,
    ) -> Self:
        """Returns the fleet after new members, who own nothing, have joined.

        Assignors break ties by member ID, so a real client with a random ID might get other partitions. In a streams
        group, a new member without `process_id` is a process of its own, with the member's name.

        Args:
            joiners: cluster, group_id, member_id, and any other columns of `members`. Without them, the other
                arguments describe the new members.
            cluster, group_id: shell patterns; matching groups get new members.
            count: number of new members per group.
            member_id: prefix of their IDs; a number with two digits follows.
            topics: their subscriptions; default: all topics that a member of the group subscribes to.

        Raises:
            FleetError: a column is missing, or neither rows nor patterns are given.

        Examples:
            >>> joined = fleet.with_members_joined(group_id="encoder-a", count=1).members
            >>> joined.where("group_id = 'encoder-a'").select("member_id").orderBy("member_id").show()
            +-----------+
            |  member_id|
            +-----------+
            |encoder-a-0|
            |encoder-a-1|
            |  joiner-01|
            +-----------+
        """
        what_if.either("joiners", joiners, count is not None)
        if joiners is None:
            assert count is not None
            joiners = what_if.joiners(self, cluster=cluster, group_id=group_id, count=count, member_id=member_id)
        return what_if.with_joiners(self, joiners, topics)

    def with_partitions(
        self,
        partitions: DataFrame | None = None,
        *,
        cluster: str = "*",
        topic: str | None = None,
        factor: float | None = None,
        count: int | None = None,
    ) -> Self:
        """Returns the fleet after the partition counts of topics have changed.

        The racks of partitions that `replicas` doesn't have are unknown.

        Args:
            partitions: cluster, topic, partitions (the new count); unknown topics are added. The alternative are shell
                patterns:
            cluster, topic: matching topics get a new partition count.
            factor: multiplies the partition count, rounded up.
            count: the new partition count.

        Raises:
            FleetError: a column is missing, or neither rows nor patterns are given.

        Examples:
            >>> fleet.with_partitions(topic="t", factor=2).topics.where("topic = 't'").first().partitions
            6
        """
        what_if.either("partitions", partitions, topic is not None)
        if partitions is None:
            assert topic is not None
            partitions = what_if.grown(self, cluster=cluster, topic=topic, factor=factor, count=count)
        return what_if.with_counts(self, partitions)

    def with_leader_client(
        self, library: str, release: str | None = None, *, cluster: str = "*", group_id: str = "*"
    ) -> Self:
        """Returns the fleet with another client library as leader of groups. A plan as `configured` follows its rules.

        Args:
            library: as in `groups.leader_library`: Java, librdkafka, franz-go, …
            release: release of the library; for Java one of `assignors.release_rules`. None: the latest.
            cluster, group_id: shell patterns of the groups.

        Raises:
            FleetError: the library or its release is unknown.

        Examples:
            >>> old = fleet.with_leader_client("Java", "2.8", group_id="payments-*")
            >>> metrics = plan(old).metrics.select("group_id", "assignor", "leader_client").orderBy("group_id")
            >>> metrics.show(truncate=False)
            +-----------+---------+----------------+
            |group_id   |assignor |leader_client   |
            +-----------+---------+----------------+
            |encoder-a  |range    |NULL            |
            |payments-eu|range@2.8|Java 2.8 (given)|
            +-----------+---------+----------------+
        """
        return what_if.with_leader_client(self, library, release, cluster=cluster, group_id=group_id)

    def with_capacity(
        self, capacity: float | None = None, *, load_bound: float | None = None, cluster: str = "*", group_id: str = "*"
    ) -> Self:
        """Returns the fleet with another member capacity in matching groups; None keeps the current value.

        Args:
            capacity: messages/s that one member can handle.
            load_bound: maximum load of a member, as a multiple of the mean load of its group (`weighted-sticky`).
            cluster, group_id: shell patterns of the groups.

        Raises:
            FleetError: both are None, the capacity isn't positive, or the bound is below 1.

        Examples:
            >>> fast = fleet.with_capacity(5_000, group_id="payments-*")
            >>> fast.groups.where("group_id = 'payments-eu'").first().capacity
            5000.0
        """
        return what_if.with_capacity(self, capacity, load_bound, cluster=cluster, group_id=group_id)

    def apply(self, plan: Plan) -> Self:
        """Returns the fleet after every member has got what the plan assigns, and has revoked the rest.

        The members then join the next rebalance with this ownership, in the next generation of their group. Groups that
        the plan rejects own nothing.

        Examples:
            >>> planned = fleet.apply(plan(fleet, "range"))
            >>> plan(planned, "range").moves.count()
            0
        """
        group = Window.partitionBy(*GROUP_KEY)
        latest = F.max(F.greatest(F.col("generation_id"), F.col("user_data_generation_id"), F.lit(0))).over(group)
        generations = {"generation_id": latest + 1, "user_data_generation_id": F.lit(None)}
        members = self.members.withColumns({name: value.cast("int") for name, value in generations.items()})
        planned: dict[str, Any] = dict.fromkeys((*OWNERSHIP, "departed")) | {"owned_slices": plan.assignment_slices}
        return replace(self, members=members, **planned)
