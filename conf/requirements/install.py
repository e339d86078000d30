"""Installs what pyproject.toml declares into the environment whose Python runs this; ./spark-submit.sh calls it.

The versions are those of the lock beside this file, each by its hash, so that next year's set-up is this year's. uv
installs them where it is on the PATH or the package index has it, else pip does. An index that lacks a locked version
gets what pyproject.toml allows instead, and a line that says so; a package whose hash is another one ends the set-up.

Only Python's own library is here: nothing else is installed yet. What is used of the environment:

    SPARK_ASSIGN_LOCK=no             the newest versions that pyproject.toml allows
    SPARK_ASSIGN_INSTALLER=uv|pip    one of the two, and not the other where it fails
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]

WITH_AIRFLOW = frozenset({"airflow", "kafka"})
"""Extras of Airflow's environment; its lock has both, resolved on their own."""

WRONG_HASH = re.compile(r"DO NOT MATCH THE HASHES|[Hh]ash mismatch")
"""What pip and uv say of a package that is not the one that was locked."""


class SetUpError(Exception):
    """Nothing can be installed; the message says why, and what to do."""


def declared(project: Mapping[str, object], extras: Iterable[str]) -> list[str]:
    """The requirements of pyproject.toml's table `project` and of these extras, as they are written there.

    Raises:
        SetUpError: an extra that the project does not have.
    """
    optional = project["optional-dependencies"]
    assert isinstance(optional, dict)
    unknown = [extra for extra in extras if extra not in optional]
    if unknown:
        raise SetUpError(f"there is no extra {', '.join(unknown)}; there are {', '.join(optional)}")
    core = project["dependencies"]
    assert isinstance(core, list)
    return [*core, *(line for extra in extras for line in optional[extra])]


def locks(extras: Iterable[str], pins: str) -> list[Path]:
    """The files of the lock for these extras; none where no lock has them together.

    Where `pins` name another Spark, the file that locks Spark is left out.
    """
    wanted = list(dict.fromkeys(extras))
    if "airflow" in wanted:
        return [FOLDER / "airflow.txt"] if WITH_AIRFLOW.issuperset(wanted) else []
    if "pyspark" in pins:
        wanted = [extra for extra in wanted if extra != "spark"]
    return [FOLDER / f"{name}.txt" for name in ("core", *wanted)]


def settings_of_pip(listed: str) -> dict[str, str]:
    """What `pip config list` prints, by name of the setting: the environment wins, then `install`, then `global`."""
    found: dict[str, dict[str, str]] = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if value.startswith(("'", '"')):
            found.setdefault(section, {})[name] = str(ast.literal_eval(value))
    return {**found.get("global", {}), **found.get("install", {}), **found.get(":env:", {})}


def environment_of_uv(pip: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment, and in it for uv what pip is told of its index: uv does not read pip's settings.

    What the caller tells uv itself wins.
    """
    told = {
        "UV_DEFAULT_INDEX": pip.get("index-url", ""),
        "UV_INDEX": " ".join(pip.get("extra-index-url", "").split()),
        "UV_FIND_LINKS": ",".join(pip.get("find-links", "").split()),
        "UV_INSECURE_HOST": " ".join(pip.get("trusted-host", "").split()),
        "UV_NO_INDEX": "true" if pip.get("no-index", "").lower() in ("1", "true", "yes", "on") else "",
        "SSL_CERT_FILE": pip.get("cert", ""),
        "SSL_CLIENT_CERT": pip.get("client-cert", ""),
        "HTTPS_PROXY": pip.get("proxy", ""),
    }
    if {"UV_INDEX_URL", "UV_DEFAULT_INDEX"} & given.keys():
        told["UV_DEFAULT_INDEX"] = told["UV_INDEX"] = ""
    return {name: value for name, value in told.items() if value} | dict(given)


Run = Callable[[Sequence[str], Mapping[str, str]], tuple[bool, str]]
"""Runs a command in an environment: has it ended with 0, and what it has printed."""


@dataclass(frozen=True)
class Installer:
    """A command that installs requirements, to which only these are added; and its environment."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]


def installers(run: Run, given: Mapping[str, str]) -> list[Installer]:
    """uv if it is there or can be had, then pip; or the one that the caller names."""
    pip = Installer("pip", (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"), given)
    named = given.get("SPARK_ASSIGN_INSTALLER", "")
    if named not in ("", "uv", "pip"):
        raise SetUpError(f"SPARK_ASSIGN_INSTALLER={named}: expected uv or pip")
    if named == "pip":
        return [pip]
    program = shutil.which("uv", path=given.get("PATH", ""))
    if program is None and run([*pip.command, "--require-hashes", "-r", str(FOLDER / "uv.txt")], given)[0]:
        program = str(Path(sys.executable).with_name("uv"))
    if program is None:
        if named:
            raise SetUpError("uv is neither on the PATH nor to be had from the package index")
        return [pip]
    _, listed = run([sys.executable, "-m", "pip", "config", "list"], given)
    environment = environment_of_uv(settings_of_pip(listed), given)
    uv = Installer("uv", (program, "pip", "install", "--python", sys.executable), environment)
    return [uv] if named else [uv, pip]


def install(
    extras: Sequence[str], pins: str, default_pins: str, run: Run, say: Callable[[str], None], given: Mapping[str, str]
) -> None:
    """Installs the core and these extras.

    Args:
        extras: of pyproject.toml.
        pins: further requirements that the caller asks for, parted by spaces; "" for none.
        default_pins: those of the lock, which count where the caller asks for none and Spark is wanted.
        run: runs a command.
        say: tells the user.
        given: the caller's environment.

    Raises:
        SetUpError: they could not be installed.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    allowed = declared(project, extras)
    pins = "" if pins == default_pins else pins
    files = [] if given.get("SPARK_ASSIGN_LOCK") == "no" else locks(extras, pins)
    there = installers(run, given)
    locked = bool(files) and _first(there, ["--require-hashes", *_each("-r", map(str, files))], run)
    if files and not locked:
        say("The package index does not have the locked versions: installing others that pyproject.toml allows …")
    if locked and not pins:
        return
    if not pins and "spark" in extras:
        pins = default_pins
    if not _first(there, [*allowed, *pins.split()], run):
        raise SetUpError("the dependencies could not be installed")


def _first(there: Iterable[Installer], words: Sequence[str], run: Run) -> bool:
    for installer in there:
        done, said = run([*installer.command, *words], installer.environment)
        if done:
            return True
        if WRONG_HASH.search(said):
            raise SetUpError(
                "a package is not the one that was locked: its hash differs. If your index is known to build its own "
                "packages,\n  SPARK_ASSIGN_LOCK=no installs them without the lock; if not, do not trust it"
            )
    return False


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _run_logged(command: Sequence[str], environment: Mapping[str, str]) -> tuple[bool, str]:
    """Runs; standard output is the log of the set-up."""
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(done.stdout, end="", flush=True)
    return done.returncode == 0, done.stdout


def main(extras: str, pins: str, default_pins: str) -> int:
    """Installs; 0, or 1 with a message on standard error. The arguments are those of `install`, extras by commas."""
    try:
        names = list(dict.fromkeys(extras.split(",")))
        install(
            names, pins, default_pins, _run_logged, lambda line: print(line, file=sys.stderr, flush=True), os.environ
        )
    except SetUpError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
