"""Which Connect clusters to read, from the options of the snapshot job: `[NAME=]URL[,URL…]`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from spark_assign.sources.connect.connect_http import CREDENTIALS_VARIABLE, host_and_port
from spark_assign.tables.errors import ConfigError

_NAMED = re.compile(r"([^=/,]+)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class ConnectTarget:
    """One Connect cluster: its name in the tables, URLs of its workers, and what the caller knows beside."""

    name: str
    urls: tuple[str, ...]
    idle_workers: tuple[str, ...] = ()
    """Workers (`host:port`) that may run nothing, which REST does not list."""
    group_id: str | None = None


def targets(urls: Sequence[str], workers: Sequence[str] = (), groups: Sequence[str] = ()) -> list[ConnectTarget]:
    """The clusters that the options name.

    Args:
        urls: `[NAME=]URL[,URL…]` each; several URLs are workers of one cluster. Without a name the cluster is called by
            `host:port` of the first URL.
        workers: `[NAME=]HOST:PORT[,HOST:PORT…]` each.
        groups: `[NAME=]GROUP` each, the workers' group.id. The name may be left out where there is one cluster.

    Raises:
        ConfigError: no http URL, a password in it, a name twice or one that no cluster has.
    """
    found: dict[str, ConnectTarget] = {}
    for text in urls:
        name, places = _split(text)
        listed = tuple(_checked(place, text) for place in places.split(","))
        name = name or host_and_port(listed[0])
        if name in found:
            raise ConfigError(f"--connect-url {text}: a cluster is called {name} already. Give each a name: NAME=URL")
        found[name] = ConnectTarget(name, listed)
    idle = {name: tuple(value.split(",")) for name, value in _by_name("--connect-workers", workers, found)}
    group_ids = dict(_by_name("--connect-group", groups, found))
    return [ConnectTarget(name, target.urls, idle.get(name, ()), group_ids.get(name)) for name, target in found.items()]


def _split(text: str) -> tuple[str | None, str]:
    named = _NAMED.fullmatch(text)
    return (named[1], named[2]) if named else (None, text)


def _checked(url: str, text: str) -> str:
    url = url.strip()
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ConfigError(
            f"--connect-url: a password does not belong on the command line. Give it in {CREDENTIALS_VARIABLE} "
            "or by --connect-auth FILE"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"--connect-url {text}: expected [NAME=]http[s]://HOST:PORT[,…], found {url or 'nothing'}")
    return url


def _by_name(option: str, texts: Sequence[str], found: dict[str, ConnectTarget]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for text in texts:
        name, value = _split(text)
        if name is None and len(found) == 1:
            name = next(iter(found))
        if name not in found:
            names = ", ".join(found)
            raise ConfigError(f"{option} {text}: say of which cluster, NAME=…; the clusters are {names}")
        if name in dict(pairs):
            raise ConfigError(f"{option} {text}: {name} has one already; give all in one list")
        pairs.append((name, value))
    return pairs
