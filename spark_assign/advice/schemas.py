"""The rows of the passes of this room, as Spark's types: `kind` says of which table a row is."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema

from spark_assign.advice.kernel import advise
from spark_assign.advice.kernel.membership import membership
from spark_assign.advice.kernel.size import size
from spark_assign.advice.kernel.zones import zones

SIZED = from_arrow_schema(size.SIZED)
"""All of it, a row per group, number of members or refusal; `kind` says which columns a row uses
(`advice.kernel.size`)."""

MEMBERSHIP_ANSWER = from_arrow_schema(membership.ANSWER)
"""All of it, a row per group, option or refusal; `kind` says which columns a row uses
(`advice.kernel.membership.membership`)."""

ZONED = from_arrow_schema(zones.ZONED)
"""All of it but where replicas are, a row per way, read or refusal; `kind` says which columns a row uses
(`advice.kernel.zones.zones`)."""

ADVISED = from_arrow_schema(advise.ADVISED)
"""All of it, a row per advice, what is not advised, or refusal; `kind` says which (`advice.kernel.advise`)."""
