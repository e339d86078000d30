"""Members of KIP-848 groups as brokers of 4.1 reconcile them: KAFKA-19449 is in 4.1.2, but not in 4.1.0 and 4.1.1."""

from __future__ import annotations

import pytest

from tests.golden import reconciliation_rows
from tests.recorded_lines import read_rows


@pytest.mark.once
def test_members_are_reconciled_as_recorded() -> None:
    """Zero differences by the rules of the row's release, and the recorded number by those of the others."""
    rows = read_rows(reconciliation_rows.FILE)
    different = {
        (r, e): sum(reconciliation_rows.answered(o, e) != o["expect"] for o in rows if o["release"] == r)
        for r in ("4.1.1", "4.1.2")
        for e in ("4.1.0", "4.1.1", "4.1.2", "4.1", "4.2.0", "4.4")
    }
    first, later = (different[each, "4.4"] for each in ("4.1.1", "4.1.2"))
    assert list(different.values()) == [0, 0, 40, 40, first, first, 40, 40, 0, 0, later, later]
    assert len(rows) == 200
    assert min(first, later) > 20
