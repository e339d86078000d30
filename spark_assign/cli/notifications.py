"""Sends an alert when it begins and when it ends, and not with every run between (`--notify`).

The alerts that were sent are in a file, which is written after the receiver has accepted a message. If a job is killed
between the two, the next run sends the same message again. A message is a JSON object:

    {"version": 1, "job": "check", "run_id": "20261127", "text": "1 alert began, …", "begun": [{…}], "ended": [{…}]}

`text` is what Slack, Mattermost, and Teams show. `begun` and `ended` have cluster, group_id, alert, detail, and since,
of the alerts that fit in `MAX_BYTES` each: receivers refuse a message that is too large. In the file, long names are
cut, with a hash of the whole ones as `key`, so that no name makes the file too large to be read. Alerts that don't fit
in it are sent again.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import click

from spark_assign.cli.job import Outcome, write_text
from spark_assign.cli.options import LOCATION, CheckedType, location_option
from spark_assign.report.formatting import Rows
from spark_assign.stores.locations import file_system, is_special, problem_of, shortened, split_url
from spark_assign.stores.time_limit import within
from spark_assign.tables.errors import ConfigError, SourceError
from spark_assign.tables.quoting import chat_text

VERSION = 1
"""Version of the message and of the file. New keys don't change it."""
TIMEOUT_SECONDS, _MAX_STATE_BYTES, _MAX_NAME = 30, 64 << 20, 250
MAX_LINES = 20
"""Maximum number of alerts that the text lists."""
MAX_BYTES = 1 << 20
"""Maximum size of the alerts that begin, and of those that end, in a message, in bytes."""

_NAMES = ("cluster", "group_id", "alert")
Alert = Mapping[str, Any]


def notify_options(state: str) -> Callable[[Any], Any]:
    """Returns a decorator that adds `--notify` and `--notify-state`.

    Args:
        state: where the file is by default, in words.
    """
    about = "Send alerts that begin or end to URL: JSON by HTTP POST (such as Slack's)."
    url = click.option("--notify", metavar="URL", type=CheckedType(check_url), help=about)
    about = f"JSON file with the alerts that were sent ({state})."
    file = location_option("--notify-state", about, type=LOCATION, metavar="FILE")  # it need not exist
    return lambda run: url(file(run))


def check_url(url: str) -> None:
    """Raises ConfigError, without the URL, if it isn't one to which alerts can be sent."""
    parts = split_url(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ConfigError("--notify needs a URL that starts with https:// or http://, and a host without a user name.")
    if re.search(r"[\0- \x7f]", url) or not (parts.path + parts.query).isascii():
        raise ConfigError("--notify has a URL with a space, a control character, or a path that isn't ASCII: use %XX.")


def notify(url: str, file: str, outcome: Outcome, alerts: Rows, *, is_complete: bool = True) -> None:
    """Sends the alerts that have begun or ended since the last call, if there are any.

    Args:
        url: address that accepts a POST with JSON; it might contain a secret, and is in no message.
        file: location of the file with the alerts that were sent; it need not exist.
        outcome: the outcome of the job, which has started.
        alerts: rows with cluster, group_id, alert, and detail.
        is_complete: whether an alert that isn't in `alerts` has ended.

    Raises:
        ConfigError: the URL isn't a valid one of http or https, or the file isn't of this kind.
        OSError: the message wasn't accepted, or the file can't be read or written.
    """
    check_url(url)
    sent = _read(file)
    rows = ({name: row[name] for name in ("cluster", "group_id", "alert", "detail")} for row in alerts)
    found = {_key(row): {**row, "since": outcome.started_at} for row in rows}
    begun = [row for key, row in found.items() if key not in sent]
    ended = [row for key, row in sent.items() if key not in found] if is_complete else []
    if begun or ended:
        _post(url, {"version": VERSION, "job": outcome.job, "run_id": outcome.run_id, **_message(begun, ended)})
    kept = {key: row for key, row in sent.items() if key in found or not is_complete}
    stored = _fitting(
        [_short(key, row) for key, row in (found | kept).items()], _MAX_STATE_BYTES // 2
    )  # for the indent
    write_text(json.dumps({"version": VERSION, "alerts": [*stored]}, indent=2) + "\n", file)


def _key(alert: Alert) -> str:
    return hashlib.sha256(json.dumps([str(alert[name]) for name in _NAMES]).encode()).hexdigest()


def _short(key: str, alert: Alert) -> Alert:
    """Returns an alert with names of bounded length, and with its key if they don't give it."""
    short = {name: shortened(value, _MAX_NAME) if isinstance(value, str) else value for name, value in alert.items()}
    return short if _key(short) == key else {**short, "key": key}


def _message(begun: Sequence[Alert], ended: Sequence[Alert]) -> dict[str, Any]:
    lines = [f"{len(begun)} began, {len(ended)} ended"]
    changed = [*(("began", row) for row in begun), *(("ended", row) for row in ended)]
    for change, row in changed[:MAX_LINES]:
        detail = f": {row['detail']}" if change == "began" and row["detail"] else ""
        group = "/".join(str(row[name]) for name in _NAMES[:2] if str(row[name]))
        lines.append(chat_text(f"{change}: {row['alert']}, {group}{detail}"))
    lines += [f"… and {len(changed) - MAX_LINES:,} more"] if len(changed) > MAX_LINES else []
    return {"text": "Alerts: " + "\n".join(lines), "begun": [*_fitting(begun)], "ended": [*_fitting(ended)]}


def _fitting(alerts: Sequence[Alert], left: int = MAX_BYTES) -> Iterator[Alert]:
    """Yields the alerts that fit in a number of bytes together, without those for which no room is left."""
    for alert in alerts:
        size = len(json.dumps(alert))
        if size <= left:
            left -= size
            yield alert


def _read(file: str) -> dict[str, Alert]:
    try:
        system, path = file_system(file)
        if system.type_name == "local" and is_special(path):  # a pipe would be read forever
            raise ValueError(file)
        with system.open_input_stream(path, compression=None) as stream:
            content = json.loads(stream.read(_MAX_STATE_BYTES))
        if content["version"] != VERSION:
            raise KeyError("version")
        found = [(_key(row), dict(row)) for row in content["alerts"]]
        return {str(row.pop("key", key)): row for key, row in found}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SourceError(f"--notify-state {file} can't be read: {problem_of(error)}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"--notify-state {file} isn't a file of alerts. Remove it: all alerts are sent again."
        ) from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: the message isn't sent where it leads, and Python would read all of its body."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _post(url: str, message: Mapping[str, Any]) -> None:
    request = urllib.request.Request(
        url, json.dumps(message).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        within(TIMEOUT_SECONDS, lambda: opener.open(request, timeout=TIMEOUT_SECONDS).close())
    except (OSError, ValueError, http.client.HTTPException) as error:  # the last ones repeat the URL
        reason = f"status {error.code}" if isinstance(error, urllib.error.HTTPError) else type(error).__name__
        raise OSError(f"--notify: {urlsplit(url).hostname} didn't accept the alerts: {reason}") from None
