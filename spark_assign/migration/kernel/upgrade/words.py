"""What is done at each step, in sentences."""

from __future__ import annotations

from spark_assign.migration.kernel.upgrade.upgrade_path import SETTLE, UpgradeStep
from spark_assign.migration.kernel.upgrade.upgrade_verdict import UpgradeCandidate


def action(case: UpgradeCandidate, step: UpgradeStep) -> str:
    """One restart, or what comes after all of them."""
    if step.what == SETTLE:
        return "At the next rebalance, whatever it is for, the leader decides by its new rules."
    listed = case.lists[step.bounce - 1]
    setting = f" and partition.assignment.strategy={','.join(listed)}" if case.way is not None else ""
    return f"Restart it with {case.to}{setting}."


def stop_all(case: UpgradeCandidate) -> str:
    """The group becomes empty."""
    return (
        "Stop all members: the group has to be empty. (Or start the new ones under another group id, with its offsets.)"
    )


def start_all(case: UpgradeCandidate) -> str:
    """The group begins anew."""
    return f"Start all members with {case.to} and partition.assignment.strategy={case.lists[-1][0]}."
