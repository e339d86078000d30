"""The tables of the advisers, declared once."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, BooleanType, DoubleType, IntegerType, LongType, StringType, StructType

from spark_assign.fields import nullable, required
from spark_assign.kernels.zones import zones
from spark_assign.schemas import REJECTED

_STRING, _INT, _LONG, _DOUBLE = StringType(), IntegerType(), LongType(), DoubleType()

# --- size: how many consumers ------------------------------------------------------------------------------

# --- membership: static or not, and how long a session -----------------------------------------------------

# --- zones: what crosses a zone -----------------------------------------------------------------------------

_FLAG = BooleanType()

ZONES = StructType(
    [
        *required(
            cluster=_STRING,
            group_id=_STRING,
            assignor=_STRING,
            follower_fetching=_FLAG,
            members=_LONG,
            members_without_rack=_LONG,
        ),
        *nullable(
            partitions=_LONG,
            partitions_without_bytes=_LONG,
            partitions_without_rack=_LONG,
            moved=_LONG,
            bytes_per_day=_LONG,
            cross_zone_bytes_per_day=_LONG,
            cross_zone_bytes_at_least=_LONG,
            cross_zone_bytes_at_most=_LONG,
            cross_zone_share=_DOUBLE,
            cost_per_day=_DOUBLE,
            cost_at_least=_DOUBLE,
            cost_at_most=_DOUBLE,
            saved_per_day=_DOUBLE,
        ),
        *required(currency=_STRING, recommended=_FLAG, reason=_STRING),
    ]
)
"""A row per group and way in which it may read. `assignor`: `today` (who has what now), or one that knows racks;
`follower_fetching`: whether members read from a replica in their rack. `partitions` have a member that reads them,
`moved` of these another one than today. Bytes are those of a day, of partitions whose bytes are known
(`partitions_without_bytes`: the others). `cross_zone_…`: what of them crosses a zone, and `cost_…` in `currency`; null
where it hangs on a rack that nobody knows (`partitions_without_rack`, `members_without_rack`): then it is between
`…_at_least` and `…_at_most`. `saved_per_day`: against today, negative where it costs more. Without members or bytes,
and where Kafka's class throws (`reason`), figures are null. At most one way is `recommended` per group."""

REPLICA_MOVES = StructType(
    [
        *required(cluster=_STRING, topic=_STRING, partition=_INT, follower_fetching=_FLAG, kind=_STRING),
        *nullable(from_rack=_STRING),
        *required(
            to_rack=_STRING,
            previous=ArrayType(_INT),
            replicas=ArrayType(_INT),
            groups=_LONG,
            bytes_per_day=_LONG,
            cross_zone_bytes_per_day=_LONG,
            saved_bytes_per_day=_LONG,
            saved_per_day=_DOUBLE,
            currency=_STRING,
        ),
    ]
)
"""A row per partition and change of its replicas that saves something, as all groups own it today, with and without
follower fetching. `kind`: `reorder` (another of its replicas leads, which copies nothing) or `move` (a replica goes to
another rack, which copies the log once); of the two, take one. `previous` and `replicas`: brokers, the preferred leader
first. `bytes_per_day` are read of it, `cross_zone_bytes_per_day` of them cross a zone for sure, and
`saved_bytes_per_day` less would, whatever the racks are that nobody knows."""

ZONED = from_arrow_schema(zones.ZONED)
"""All of it but where replicas are, a row per way, read or refusal; `kind` says which columns a row uses
(`kernels.zones.zones`)."""

ZONES_TABLES: dict[str, StructType] = {"zones": ZONES, "replica_moves": REPLICA_MOVES, "rejected": REJECTED}

# --- advise: all of it, ranked ------------------------------------------------------------------------------
