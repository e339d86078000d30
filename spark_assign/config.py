"""The settings of the plan job: a TOML file, and flags that win over it.

Every key is checked by name and type before Spark is started, so that a typing error costs a second and not
a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_assign.errors import ConfigError
from spark_assign.schemas import INPUT_TABLES, PLAN_TABLES
from spark_assign.settings_file import did_you_mean, from_file

FAIL_ON = ("rejected",)
OUTPUT = "output/plan"
"""Where a plan is written if nothing is said: under the folder in which the job is called."""

_STRINGS = dict[str, str]
_LISTS = list[str]


@dataclass(frozen=True)
class FleetSettings:
    """Where the fleet is read from; the arguments of `sources.tables.read_fleet`."""

    location: str | None = None
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OutputSettings:
    """Where the plan is written; the arguments of `sinks.plan_store.write_plan`."""

    location: str = OUTPUT
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[str, ...] = tuple(PLAN_TABLES)


@dataclass(frozen=True)
class PlanSettings:
    """Everything that the plan job needs to know.

    `assign` holds (glob over group ids, assignor) in order, the first match wins; `assignor` is for the
    other groups. `top` is the number of groups in the printed summary.
    """

    fleet: FleetSettings
    output: OutputSettings
    assignor: str = "configured"
    assign: tuple[tuple[str, str], ...] = ()
    run_id: str | None = None
    fail_on: tuple[str, ...] = ()
    top: int = 10

    @property
    def choice(self) -> str | dict[str, str]:
        """The assignor argument of `spark_assign.plan`."""
        return {**dict(self.assign), "*": self.assignor} if self.assign else self.assignor


# The kind of every key. A flag has the same name as the key that it overrides.
_TOP: dict[str, Any] = {"assignor": str, "assign": list, "run_id": str, "fail_on": _LISTS, "top": int}
_FLEET: dict[str, Any] = {"location": str, "format": str, "options": _STRINGS, "tables": _STRINGS}
_OUTPUT: dict[str, Any] = {"location": str, "format": str, "options": _STRINGS, "tables": _LISTS}
_ASSIGN: dict[str, Any] = {"groups": str, "assignor": str}


def load(path: Path | None, flags: Mapping[str, Any] | None = None) -> PlanSettings:
    """Settings from a TOML file, from flags, or from both.

    Args:
        path: the file; None for none. Its relative paths start from its own folder.
        flags: overrides of the same shape as the file; None values count as not given. A `location` replaces
            the whole table that it stands in, as format and options belong to it. `assign` patterns come
            before the file's.

    Raises:
        ConfigError: the file cannot be read, or a key is unknown, missing or of the wrong kind.
    """
    settings = {} if path is None else from_file(path)
    origin = "the settings" if path is None else str(path)
    _check(settings, {**_TOP, "fleet": dict, "output": dict}, "", origin)
    flags = {key: value for key, value in (flags or {}).items() if value is not None}
    for name, kinds in (("fleet", _FLEET), ("output", _OUTPUT)):
        given = settings.get(name, {})
        _check(given, kinds, f"{name}.", origin)
        over = {key: value for key, value in flags.pop(name, {}).items() if value is not None}
        _check(over, kinds, f"{name}.", "the command line")
        settings[name] = over if "location" in over else {**given, **over}
    for pattern in settings.get("assign", []):
        _check(pattern, _ASSIGN, "assign.", origin)
    flags["assign"] = [*flags.get("assign", []), *settings.get("assign", [])]
    _check(flags, _TOP, "", "the command line")
    return _build({**settings, **flags})


def _check(given: Any, kinds: Mapping[str, Any], prefix: str, origin: str) -> None:
    """Every key is known and every value of its kind."""
    if not isinstance(given, dict):
        raise ConfigError(f"{origin}: {prefix.rstrip('.')} is {_seen(given)}, expected a table of {', '.join(kinds)}")
    for key, value in given.items():
        if key not in kinds:
            raise ConfigError(f"{origin}: unknown key {prefix}{key}. {did_you_mean(key, kinds)}")
        if not _is(value, kinds[key]):
            raise ConfigError(f"{origin}: {prefix}{key} is {_seen(value)}, expected {_EXPECTED[kinds[key]]}")


def _build(settings: Mapping[str, Any]) -> PlanSettings:
    fleet, output = FleetSettings(**settings["fleet"]), settings["output"]
    if fleet.location is None and not fleet.tables:
        raise ConfigError(
            "there is no fleet: give --fleet PLACE (or location under [fleet]), or --sample for the sample fleet"
        )
    for name in fleet.tables:
        if name not in INPUT_TABLES:
            raise ConfigError(f"fleet.tables: no such table {name}. {did_you_mean(name, INPUT_TABLES)}")
    tables = output.get("tables", PLAN_TABLES)
    for name in tables:
        if name not in PLAN_TABLES:
            raise ConfigError(f"output.tables: no such table {name}. {did_you_mean(name, PLAN_TABLES)}")
    for name in settings.get("fail_on", []):
        if name not in FAIL_ON:
            raise ConfigError(f"fail_on: unknown condition {name}. {did_you_mean(name, FAIL_ON)}")
    patterns: dict[str, str] = {}
    for entry in settings["assign"]:
        if set(entry) != set(_ASSIGN):
            raise ConfigError(f"assign: {entry} needs both groups and assignor")
        patterns.setdefault(entry["groups"], entry["assignor"])
    plain = {key: settings[key] for key in ("assignor", "run_id", "top") if key in settings}
    if plain.get("top", 0) < 0:
        raise ConfigError(f"top is {plain['top']}, expected 0 or more")
    return PlanSettings(
        fleet=fleet,
        output=OutputSettings(**{**output, "tables": tuple(name for name in PLAN_TABLES if name in tables)}),
        assign=tuple(patterns.items()),
        fail_on=tuple(settings.get("fail_on", ())),
        **plain,
    )


_EXPECTED = {
    str: "a string",
    int: "a whole number",
    list: 'tables [[assign]] with groups = "…" and assignor = "…"',
    dict: "a table",
    _STRINGS: "a table of strings",
    _LISTS: "a list of strings",
}


def _is(value: Any, kind: Any) -> bool:
    if kind is _STRINGS:
        return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    if kind is _LISTS:
        return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    if kind is list:
        return isinstance(value, list) and all(isinstance(item, dict) for item in value)
    return isinstance(value, kind) and not isinstance(value, bool)


def _seen(value: Any) -> str:
    return f"{value!r} ({type(value).__name__})"
