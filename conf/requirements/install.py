"""Installs what pyproject.toml declares into the environment whose Python runs this; conf/launcher.sh calls it.

The versions are those of the lock beside this file, each by its hash, so that next year's set-up is this year's. uv
installs them where it is on the PATH or the package index has it, else pip does. Only wheels are installed, and Spark,
which is published as source and needs no compiler. An index that lacks a locked version gets what pyproject.toml allows
instead, and a line that says what it lacks; a package whose hash is another one ends the set-up, and so does an index
that cannot be reached.

Only Python's own library is here: nothing else is installed yet. What is used of the environment:

    SPARK_ASSIGN_LOCK=no             the newest versions that pyproject.toml allows
    SPARK_ASSIGN_INSTALLER=uv|pip    one of the two, and not the other where it fails
"""

from __future__ import annotations

import ast
import os
import platform
import re
import shutil
import ssl
import subprocess
import sys
import threading
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]

WITH_AIRFLOW = frozenset({"airflow", "kafka", "lineage"})
"""Extras of Airflow's environment; its lock has them all, resolved on their own."""

CLIENT = "pyspark-client"
"""Spark's client as a package. pyspark contains it, and the two packages overwrite each other's files."""

WHEELS = ("--only-binary", ":all:", "--no-binary", "pyspark", "--no-binary", "pyspark-client")
"""For pip and uv: nothing is built from source but Spark, as only its wheels need no compiler to be made."""

PYPI = "https://pypi.org/simple"

PIP = (sys.executable, "-P", "-m", "pip")
"""pip, and no module of the current folder."""

CONTACT_SECONDS = 4
"""How long an index may take to accept a connection: two lost packets are sent again within it."""

WRONG_HASH = re.compile(r"DO NOT MATCH THE HASHES|[Hh]ash mismatch")
"""What pip and uv say of a package that is not the one that was locked."""


HERE = f"Python {sys.version_info[0]}.{sys.version_info[1]} on {platform.system()} {platform.machine()}"

CAUSES = (
    (r"No space left on device", "the disk is full"),
    (r"Because ([\w.-]+(?:\{[^}]*\})?\S*) has no (?:usable )?wheels?", f"{{}} has no wheel for {HERE}"),
    (r"there (?:is no version|are no versions) of (\S+)", "the package index does not have {}"),
    (r"Because (\S+) was not found in the (?:package registry|provided package locations)", "no package index has {}"),
    (r"No matching distribution found for (\S+)", f"the package index has no wheel of {{}} for {HERE}"),
    (r"Failed to build `?([\w.=-]+)", "{} could not be built from source"),
    (r"Failed building wheel for (\S+)", "{} could not be built from source"),
    (r"Failed to (?:fetch|download):? `?([^\s`]+)", "{} could not be fetched"),
    (r"(?i)^\s*error: (.*)$", "{}"),
)
"""What uv and pip say when they fail, and the cause as a user reads it; the first that fits counts."""


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
    lines = [*core, *(line for extra in extras for line in optional[extra])]
    return [line for line in lines if not (line.startswith(CLIENT) and "spark" in extras)]


def locks(extras: Iterable[str], pins: str) -> list[Path]:
    """The files of the lock for these extras; none where no lock has them together.

    Where `pins` name another Spark, the file that locks Spark is left out. Beside Spark, which contains the client of
    the embedded engine, only the engine is installed.
    """
    wanted = list(dict.fromkeys(extras))
    if not {"airflow", "lineage"}.isdisjoint(wanted):
        return [FOLDER / "airflow.txt"] if WITH_AIRFLOW.issuperset(wanted) else []
    if "spark" in wanted:
        wanted = ["sail" if extra == "embedded" else extra for extra in wanted]
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


def cause(said: str) -> str:
    """What a failed installer lacked, from its output: the package and what is wrong with it."""
    for pattern, sentence in CAUSES:
        found = re.search(pattern, said, re.MULTILINE)
        if found:
            # Of a package that is locked for some Pythons uv says so: numpy{python_full_version < '3.12'}==2.4.6
            return sentence.format(*(re.sub(r"\{.*?\}", "", word).rstrip(".,") for word in found.groups()))
    return said.strip().rpartition("\n")[2] or "the installer failed without a word"


def indexes(pip: Mapping[str, str], given: Mapping[str, str]) -> list[str]:
    """The package indexes that uv or pip asks first; none if they may need none, or uv has a settings file."""
    links = [Path(link).exists() or "://" in link for link in pip.get("find-links", "").split()]
    home = Path(given.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    files = (given.get("UV_CONFIG_FILE", ""), home / "uv" / "uv.toml", "/etc/uv/uv.toml")
    uv = environment_of_uv(pip, given)
    if any(links) or {"UV_NO_INDEX", "UV_OFFLINE"} & uv.keys() or any(file and Path(file).exists() for file in files):
        return []
    return list(
        dict.fromkeys((uv.get("UV_DEFAULT_INDEX") or uv.get("UV_INDEX_URL") or PYPI, pip.get("index-url") or PYPI))
    )


def unreachable(index: str, proxy: str = "") -> str | None:
    """Why nothing answers there; None where something does, even if it refuses.

    An answer may be slow: only the connection must be made in time. Certificates are left to the installers, who have
    authorities of their own.
    """
    if not index.startswith(("http://", "https://")):
        return None
    found: list[str | None] = [f"no connection within {CONTACT_SECONDS} s"]

    def ask() -> None:
        handlers = [urllib.request.ProxyHandler({"http": proxy, "https": proxy})] if proxy else []
        try:
            urllib.request.build_opener(*handlers).open(
                urllib.request.Request(re.sub(r"//[^/]*@", "//", index), method="HEAD"), timeout=CONTACT_SECONDS
            ).close()
        except urllib.error.HTTPError:
            found[0] = None
        except urllib.error.URLError as error:
            reason = error.reason
            found[0] = None if isinstance(reason, ssl.SSLError) else getattr(reason, "strerror", None) or str(reason)
        except (OSError, ValueError):  # connected, and then slow or no HTTP
            found[0] = None
        else:
            found[0] = None

    thread = threading.Thread(target=ask, daemon=True)  # the look-up of a name has no time limit of its own
    thread.start()
    thread.join(CONTACT_SECONDS + 1)
    return found[0]


def reach(pip: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Checks that an index answers, before an installer tries for minutes.

    Raises:
        SetUpError: none does.
    """
    reasons = {}
    for index in indexes(pip, given):
        reason = unreachable(index, pip.get("proxy", ""))
        if reason is None:
            return
        reasons[re.sub(r"//[^/]*@", "//", index)] = reason
    if reasons:
        said = ", ".join(f"{index} ({reason})" for index, reason in reasons.items())
        raise SetUpError(
            f"the package index cannot be reached: {said}. Check the network, or name your index by "
            "PIP_INDEX_URL=https://… and a proxy by HTTPS_PROXY=…"
        )


Run = Callable[[Sequence[str], Mapping[str, str]], tuple[bool, str]]
"""Runs a command in an environment: has it ended with 0, and what it has printed."""


@dataclass(frozen=True)
class Installer:
    """A command that installs requirements, to which only these are added; and its environment."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]


def installers(run: Run, settings: Mapping[str, str], given: Mapping[str, str]) -> list[Installer]:
    """uv if it is there or can be had, then pip; or the one that the caller names."""
    words = (*PIP, "install", "--quiet", "--disable-pip-version-check", *WHEELS)
    pip = Installer("pip", words, given)
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
    command = (program, "pip", "install", "--python", sys.executable, *WHEELS)
    uv = Installer("uv", command, environment_of_uv(settings, given))
    return [uv] if named else [uv, pip]


def install(
    extras: Sequence[str],
    pins: str,
    default_pins: str,
    run: Run,
    say: Callable[[str], None],
    given: Mapping[str, str],
    check: Callable[[Mapping[str, str], Mapping[str, str]], None] = reach,
) -> None:
    """Installs the core and these extras.

    Args:
        extras: of pyproject.toml.
        pins: further requirements that the caller asks for, parted by spaces; "" for none.
        default_pins: those of the lock, which count where the caller asks for none and Spark is wanted.
        run: runs a command.
        say: tells the user.
        given: the caller's environment.
        check: raises if no index answers, given pip's settings and the caller's environment.

    Raises:
        SetUpError: they could not be installed.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    allowed = declared(project, extras)
    # pip would take the packages that the caller's PYTHONPATH leads to for installed ones.
    given = {name: value for name, value in given.items() if name != "PYTHONPATH"}
    pins = "" if pins == default_pins else pins
    files = [] if given.get("SPARK_ASSIGN_LOCK") == "no" else locks(extras, pins)
    settings = settings_of_pip(run([*PIP, "config", "list"], given)[1])
    check(settings, given)
    there = installers(run, settings, given)
    if "spark" in extras and is_installed(CLIENT):
        run([*PIP, "uninstall", "--quiet", "--yes", CLIENT, "pyspark"], given)
    lacks = ""
    if files:
        lacks = _first(there, ["--require-hashes", *_each("-r", map(str, files))], run)
        if not lacks and not pins:
            return
        if lacks:
            say(f"{lacks}. Installing other versions that pyproject.toml allows …")
    if not pins and "spark" in extras:
        pins = default_pins
    failed = _first(there, [*allowed, *pins.split()], run)
    if failed:
        also = f"; nor could other versions be installed that pyproject.toml allows: {failed}"
        raise SetUpError((lacks or failed) + (also if lacks and failed != lacks else ""))


def is_installed(package: str) -> bool:
    """Checks whether the environment of this Python has a package."""
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _first(there: Iterable[Installer], words: Sequence[str], run: Run) -> str:
    """Installs by the first installer that can: "", or why the first of them could not."""
    causes = []
    for installer in there:
        done, said = run([*installer.command, *words], installer.environment)
        if done:
            if installer.name == "uv":
                # An index that says nothing of caching makes uv keep Spark's source and wheel (1.4 GB) of every set-up.
                # Where another uv runs, the next set-up removes them.
                run([installer.command[0], "cache", "prune"], {**installer.environment, "UV_LOCK_TIMEOUT": "2"})
            return ""
        if WRONG_HASH.search(said):
            named = re.search(r"Hash mismatch for `(.*?)`|^\s+(\S+==\S+)[^\n]*:$", said, re.MULTILINE)
            raise SetUpError(
                f"{(named[1] or named[2]) if named else 'a package'} is not the one that was locked: its hash differs. "
                "If your index is known to build its own packages,\n  SPARK_ASSIGN_LOCK=no installs them without the "
                "lock; if not, do not trust it"
            )
        causes.append(cause(said))
    return causes[0]


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _run_logged(command: Sequence[str], environment: Mapping[str, str]) -> tuple[bool, str]:
    """Runs; standard output is the log of the set-up."""
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(done.stdout, end="", flush=True)
    return done.returncode == 0, done.stdout


def reach_before() -> None:
    """The check of `install` ahead of it, by a Python that may have no pip and so no settings of pip to go by.

    Raises:
        SetUpError: no index answers.
    """
    words = [*PIP, "config", "list"]
    listed = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    if listed.returncode == 0:
        reach(settings_of_pip(listed.stdout), os.environ)


def main(extras: str = "", pins: str = "", default_pins: str = "") -> int:
    """Installs; 0, or 1 with a message on standard error.

    The arguments are those of `install`, extras by commas; without them only the package index is tried.
    """
    try:
        if not extras:
            reach_before()
            return 0
        names = list(dict.fromkeys(extras.split(",")))
        install(
            names, pins, default_pins, _run_logged, lambda line: print(line, file=sys.stderr, flush=True), os.environ
        )
    except SetUpError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
