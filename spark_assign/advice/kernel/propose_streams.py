"""Proposes settings of a classic Streams application, from what `streams_settings` measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from glob import escape
from typing import Any

from spark_assign.advice.kernel.advice_items import AdviceItem, AdviceParams, Adviser, Category, Code, declined
from spark_assign.advice.kernel.cross_zone_traffic import GB
from spark_assign.advice.kernel.streams_settings import RECOVERY_LAG, STANDBYS
from spark_assign.tables.quoting import shell_word

Row = Mapping[str, Any]

FEWER_STANDBYS = "fewer-standbys"
TASK_SECONDS = "task-seconds"
_RESTART = "Instances restart once, one after the other."


def propose_streams(rows: Sequence[Row], params: AdviceParams) -> list[AdviceItem]:
    """Returns the proposals for an application, whether or not they save enough.

    Args:
        rows: rows of the application (`streams_settings.STREAMS_ROWS`).
        params: the rate at which an instance restores.
    """
    pairs = _pairs(rows)
    items = []
    if (pair := pairs.get(STANDBYS)) is not None and not _saves_already(*pair):
        items.append(_propose_standbys(*pair, params))
    if (pair := pairs.get(RECOVERY_LAG)) is not None:
        items.append(_propose_lag(*pair, params))
    return items


def list_kept_settings(rows: Sequence[Row], params: AdviceParams) -> Iterator[dict[str, Any]]:
    """Yields a row for each setting for which nothing is proposed, with the reason."""
    for row in sorted(rows, key=lambda row: str(row["setting"])):
        if row["code"] is not None:
            yield declined(Adviser.STREAMS, row["code"], row["detail"])
    if (pair := _pairs(rows).get(STANDBYS)) is not None and _saves_already(*pair):
        with_standbys, without = pair
        detail = f"Keep {STANDBYS}={with_standbys['value']}. {_loss(without, 'without standbys', params)} "
        yield declined(Adviser.STREAMS, Code.NOTHING, f"{detail}With them, {_loss_figures(with_standbys)}")


def _pairs(rows: Sequence[Row]) -> dict[str, tuple[Row, Row]]:
    """Returns the row of the current value and that of the other value, by setting, if both are measured."""
    measured = {(row["setting"], row["is_current"]): row for row in rows if row["code"] is None}
    return {
        setting: (measured[setting, True], measured[setting, False])
        for setting in (STANDBYS, RECOVERY_LAG)
        if (setting, True) in measured and (setting, False) in measured
    }


def _saves_already(current: Row, other: Row) -> bool:
    """Checks whether the other number of standbys is only there to compare the current one with it."""
    return current["value"] > other["value"] and current["unassigned_standby"] is None


def _propose_standbys(current: Row, other: Row, params: AdviceParams) -> AdviceItem:
    command = (
        f"plan --standby-replicas {other['value']} --restore-bytes-per-second {params.restore_bytes_per_second:.0f}"
    )
    setting = f"{STANDBYS}={other['value']}"
    if current["value"] > other["value"]:
        if current["stateful_tasks"]:
            reason = f"The application has {current['instances']:,} instances, and a task has at most one copy in each"
        else:
            reason = "No task has state"
        return AdviceItem(
            Category.PAUSE,
            Adviser.STREAMS,
            FEWER_STANDBYS,
            f"Set {setting}: with {current['value']:,}, no instance gets {current['unassigned_standby']:,} of the "
            f"standbys. {reason}.",
            f"{_RESTART} If the application gets more instances or state, it has no more standbys than before.",
            command,
            setting,
        )
    size, per_day = other["standby_bytes"] / GB, other["standby_bytes_per_day"]
    writes = "all that is written to the changelogs" if per_day is None else f"{per_day / GB:,.2f} GB a day"
    return AdviceItem(
        Category.PAUSE,
        Adviser.STREAMS,
        "standbys",
        f"Keep a standby of each task with state. {_loss(current, 'without standbys', params)} With "
        f"standbys, {_loss_figures(other)}.",
        f"Standbys need {size:,.2f} GB of disk. They read this from brokers once, and then {writes}. {_RESTART}",
        command,
        setting,
        gain=current["stopped_task_seconds"] - other["stopped_task_seconds"],
        gain_unit=f"{TASK_SECONDS} per lost instance",
        cost=size,
        cost_unit="GB of disk",
    )


def _loss(row: Row, condition: str, params: AdviceParams) -> str:
    """Returns a sentence with the figures of the loss of an instance."""
    return (
        f"If the instance with the most state fails or is removed {condition}, {_loss_figures(row)}, at "
        f"{params.restore_bytes_per_second / 1e6:,.0f} MB/s per instance."
    )


def _loss_figures(row: Row) -> str:
    return (
        f"{row['moved_without_state']:,} tasks move without their state, {row['restored_bytes'] / GB:,.2f} GB are "
        f"restored, and tasks stop for {row['stopped_task_seconds']:,.0f} task-seconds"
    )


def _propose_lag(current: Row, other: Row, params: AdviceParams) -> AdviceItem:
    now, proposed = current["value"], other["value"]
    setting = f"{RECOVERY_LAG}={proposed}"
    command = f"plan --restore-bytes-per-second {params.restore_bytes_per_second:.0f}"
    takes = f"up to {current['restore_seconds']:,.0f} s to restore it per task, and {other['restore_seconds']:,.0f} s"
    if proposed < now:
        stopped, less = current["stopped_task_seconds"], other["stopped_task_seconds"]
        return AdviceItem(
            Category.PAUSE,
            Adviser.STREAMS,
            "recovery-lag",
            f"Lower {RECOVERY_LAG} from {now:,} to {proposed:,}: an instance takes {takes} with {proposed:,}, at "
            f"{params.restore_bytes_per_second / 1e6:,.0f} MB/s per instance. If an instance joins, tasks stop for "
            f"{stopped:,.0f} task-seconds now, and for {less:,.0f} with {proposed:,}.",
            f"More tasks wait for warmups, and so for probing rebalances, before they move. {_RESTART}",
            f"{command} --what-if {shell_word('join:' + escape(current['group_id']) + ':1')}",
            setting,
            gain=stopped - less,
            gain_unit=f"{TASK_SECONDS} per new instance",
        )
    waiting = current["pending_moves"] - other["pending_moves"]
    return AdviceItem(
        Category.PAUSE,
        Adviser.STREAMS,
        "recovery-lag",
        f"Raise {RECOVERY_LAG} from {now:,} to {proposed:,}: {current['pending_moves']:,} moves wait for a probing "
        f"rebalance, and {other['pending_moves']:,} with {proposed:,}, because instances with a higher lag than "
        f"{now:,} don't count as caught up. An instance takes {takes} with {proposed:,}.",
        "The lags are those that members reported at the last rebalance, against the end offsets of the snapshot. "
        f"{_RESTART}",
        command,
        setting,
        gain=float(waiting),
        gain_unit="moves without waiting",
        cost=max(0.0, other["stopped_task_seconds"] - current["stopped_task_seconds"]),
        cost_unit=f"{TASK_SECONDS} once",
    )
