"""Groups planned as client libraries other than Kafka's own plan them (`groups.assignors.library_assignors`)."""

from __future__ import annotations

from spark_assign.groups.kernel.franz_go_assignors import assign_by_franz_go
from spark_assign.groups.kernel.librdkafka_assignors import assign_by_librdkafka

KERNELS = {
    ("sticky", "franz-go"): assign_by_franz_go,
    ("cooperative-sticky", "franz-go"): assign_by_franz_go,
    ("range", "librdkafka"): assign_by_librdkafka,
    ("roundrobin", "librdkafka"): assign_by_librdkafka,
    ("cooperative-sticky", "librdkafka"): assign_by_librdkafka,
}
"""By assignor and library, where no rules of Kafka's own clients are the same."""
