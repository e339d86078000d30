"""Names that options can have: of assignors and client libraries. Jobs check them before they start Spark."""

from __future__ import annotations

from collections.abc import Iterable

from spark_assign.groups.kernel.plan_groups import CONFIGURED
from spark_assign.groups.planning import find_assignor


def check_assignors(names: Iterable[str], *, or_configured: bool = False) -> None:
    """Raises `ConfigError`, with the most similar name, if a name isn't that of an assignor.

    Args:
        names: names of assignors, also with a release (`sticky@2.8`).
        or_configured: whether `configured`, each group's own assignor, is a valid name.
    """
    for name in names:
        if not or_configured or name != CONFIGURED:
            find_assignor(name)
