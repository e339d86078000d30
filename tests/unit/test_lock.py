"""conf/requirements: the lock has what pyproject.toml declares, and a set-up installs it, by uv or by pip."""

from __future__ import annotations

import re
import socket
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from conf.requirements import install as set_up
from conf.requirements.install import FOLDER, ROOT, SetUpError, declared, environment_of_uv, locks, settings_of_pip
from tests.cases import cases, keyed
from tests.unit import connect_stub

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
FILES = sorted(FOLDER.glob("*.txt"))
LOCKED = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>.*?))? \\$")
DEFAULT = "pyspark==4.1.*"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def name_of(name: str) -> str:
    """As package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(file: Path, python: str) -> dict[str, Version]:
    """The versions of a file for a Python on Linux."""
    found = {}
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.1",
        **keyed(
            "sys_platform=linux platform_system=Linux os_name=posix platform_machine=x86_64 "
            "platform_python_implementation=CPython implementation_name=cpython extra=''"
        ),
    }
    for line in file.read_text(encoding="utf-8").splitlines():
        match = LOCKED.match(line)
        if match and (not match["marker"] or Requirement(f"x; {match['marker']}").marker.evaluate(environment)):  # type: ignore[union-attr]
            assert name_of(match["name"]) not in found, f"{file.name} has two versions of {match['name']}"
            found[name_of(match["name"])] = Version(match["version"])
    return found


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("extra", EXTRAS)
def test_the_lock_has_every_requirement(extra: str, python: str) -> None:
    """In a version that pyproject.toml allows; if not, conf/requirements/renew.sh makes it so."""
    (file,) = set(locks([extra], "")) - {FOLDER / "core.txt"}
    has = locked(file, python)
    for line in declared(PROJECT, [extra]):
        requirement = Requirement(line)
        assert name_of(requirement.name) in has, f"{file.name} does not have {line}"
        assert has[name_of(requirement.name)] in requirement.specifier, f"{file.name}: {line}"


@pytest.mark.parametrize("python", PYTHONS)
def test_files_agree(python: str) -> None:
    """Extras that are installed together have one version of each package; Airflow's stand alone."""
    seen: dict[str, tuple[Version, str]] = {}
    for file in FILES:
        if file.stem in ("airflow", "uv"):
            continue
        for name, version in locked(file, python).items():
            assert seen.setdefault(name, (version, file.name))[0] == version, (name, seen[name], file.name)
    assert seen["pyspark-client"][0].release[:2] == seen["pyspark"][0].release[:2]
    assert seen["pyspark"][0] in Requirement(f"x{DEFAULT.removeprefix('pyspark')}").specifier
    assert f'\nDEFAULT_PINS="{DEFAULT}"' in (ROOT / "conf" / "launcher.sh").read_text(encoding="utf-8")
    assert "pyspark" not in locked(FOLDER / "airflow.txt", python)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_version_has_its_hash(file: Path) -> None:
    """And no file says where a package was taken from, or anything of the machine that locked it."""
    text = file.read_text(encoding="utf-8")
    entries = text.replace("\\\n", "").splitlines()
    assert [line for line in entries if not line.startswith("#") and "--hash=sha256:" not in line] == []
    assert not re.search(r"://|--(extra-)?index|--find-links|/home/|/tmp/|/root", text)


def test_no_file_without_a_use() -> None:
    """A file for the core, for each extra (Airflow has one), for the embedded engine beside Spark, and for uv."""
    of_extras = {file.stem for extra in EXTRAS for file in locks([extra], "")}
    assert of_extras == {"core", *EXTRAS} - {"lineage"}
    assert {file.stem for file in FILES} == {"sail", "uv", *of_extras}


def test_which_files_a_set_up_takes() -> None:
    """Any extras together; those of Airflow from the file of their own; without Spark's where another is asked for."""
    pairs = (
        (["spark", "kafka", "spark"], ""),
        (["spark", "kafka"], "pyspark==4.0.*"),
        (["kafka", "airflow"], "pytest>=8"),
        (["spark", "airflow"], ""),
        (["embedded", "kafka"], ""),
        (["embedded", "spark"], ""),
    )
    assert [[file.stem for file in locks(extras, pins)] for extras, pins in pairs] == [
        *(["core", "spark", "kafka"], ["core", "kafka"], ["airflow"], []),
        *(["core", "embedded", "kafka"], ["core", "sail", "spark"]),
    ]


def test_an_extra_that_is_not_there() -> None:
    """Named, with those that are."""
    with pytest.raises(SetUpError, match="there is no extra sparc; there are spark, embedded, kafka"):
        declared(PROJECT, ["kafka", "sparc"])


PIP = """\
:env:.find-links='/wheels /more'
global.cert='/ca.pem'
global.index-url='https://global.example/simple'
install.index-url='https://index.example/simple'
install.trusted-host='index.example'
"""


def test_uv_asks_where_pip_would() -> None:
    """A company's index, its certificate, a folder of wheels."""
    assert environment_of_uv(settings_of_pip(PIP), {"PATH": "/bin"}) == keyed(
        "PATH=/bin UV_DEFAULT_INDEX=https://index.example/simple "
        "UV_FIND_LINKS='/wheels,/more' UV_INSECURE_HOST=index.example "
        "SSL_CERT_FILE=/ca.pem"
    )


@pytest.mark.parametrize("name", ["UV_DEFAULT_INDEX", "UV_INDEX_URL"])
def test_settings_of_uv_win(name: str) -> None:
    """Over what pip is told."""
    found = environment_of_uv(settings_of_pip(PIP), {name: "https://mine.example/simple", "SSL_CERT_FILE": "/mine.pem"})
    assert {value for key, value in found.items() if "INDEX" in key} == {"https://mine.example/simple"}
    assert found["SSL_CERT_FILE"] == "/mine.pem"


class Machine:
    """Where commands end as a test says; it writes down those that install, and those that tidy up."""

    def __init__(self, fails: str = "$^", says: str = "") -> None:
        self.fails, self.says = fails, says
        self.ran: list[str] = []
        self.pruned: list[str] = []
        self.messages: list[str] = []

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> tuple[bool, str]:
        words = " ".join(command).replace(f"{FOLDER}/", "").replace(str(Path(sys.executable).parent), "bin")
        words = words.replace(str(Path(sys.executable)), "python").replace("bin/python", "python")
        assert "PYTHONPATH" not in environment, "pip takes the packages there for installed"
        if "config list" in words:
            return True, PIP
        if "cache" in words:
            self.pruned.append(words)
            return False, "another uv runs"
        self.ran.append(words)
        failed = re.search(self.fails, words)
        return not failed, self.says if failed else ""

    def install(self, extras: str, pins: str = "", **given: str) -> list[str]:
        """The requirements of each command that was run, with the program before them."""
        environment = {"PATH": "/nowhere", **given}
        set_up.install(extras.split(","), pins, DEFAULT, self.run, self.messages.append, environment, lambda *_: None)
        short = []
        for words in self.ran:
            if "uninstall" in words:
                short.append(words)
                continue
            program = "pip" if "-P -m pip" in words else "uv"
            assert f" {WHEELS} " in words
            words = words.replace(f" {WHEELS} ", " ")
            short.append(f"{program} {words.split(' --disable-pip-version-check ')[-1].split(' --python python ')[-1]}")
        return short


WHEELS = "--only-binary :all: --no-binary pyspark --no-binary pyspark-client"
LOCK = "--require-hashes -r core.txt -r spark.txt -r kafka.txt"
UV = "pip --require-hashes -r uv.txt"


def test_a_set_up_fetches_uv_and_installs_the_lock() -> None:
    """Nothing else; what earlier set-ups left in uv's cache is removed, if no other uv runs."""
    machine = Machine()
    assert machine.install("spark,kafka", PYTHONPATH="/elsewhere") == [UV, f"uv {LOCK}"]
    assert machine.messages == []
    assert machine.pruned == ["bin/uv cache prune"]


def test_a_uv_that_is_there_is_used(tmp_path: Path) -> None:
    """That of the PATH."""
    (tmp_path / "uv").touch(mode=0o755)
    assert Machine().install("spark,kafka", PATH=str(tmp_path)) == [f"uv {LOCK}"]


def test_pip_where_there_is_no_uv() -> None:
    """Or where the caller wants it, or uv fails."""
    assert Machine(fails="uv.txt").install("spark,kafka") == [UV, f"pip {LOCK}"]
    assert Machine().install("spark,kafka", SPARK_ASSIGN_INSTALLER="pip") == [f"pip {LOCK}"]
    assert Machine(fails="bin/uv ").install("spark,kafka") == [UV, f"uv {LOCK}", f"pip {LOCK}"]
    with pytest.raises(SetUpError, match="uv is neither on the PATH"):
        Machine(fails="uv.txt").install("spark", SPARK_ASSIGN_INSTALLER="uv")
    with pytest.raises(SetUpError, match="expected uv or pip"):
        Machine().install("spark", SPARK_ASSIGN_INSTALLER="conda")


def test_an_index_without_the_locked_versions() -> None:
    """Gets what pyproject.toml allows; the user is told."""
    machine = Machine(fails="core.txt", says="ERROR: No matching distribution found for numpy==2.5.5")
    *locked_ones, free = machine.install("spark,kafka")
    assert locked_ones == [UV, f"uv {LOCK}", f"pip {LOCK}"]
    assert free == f"uv {' '.join([*declared(PROJECT, ['spark', 'kafka']), DEFAULT])}"
    assert machine.messages == [
        f"the package index has no wheel of numpy==2.5.5 for {set_up.HERE}. "
        "Installing other versions that pyproject.toml allows …"
    ]


def test_a_package_that_is_not_the_locked_one_ends_the_set_up() -> None:
    """By whatever installs; nothing is installed in its place."""
    for message in ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM", "error: Hash mismatch for `x==1`"):
        machine = Machine(fails="core.txt", says=message)
        with pytest.raises(SetUpError, match="is not the one that was locked"):
            machine.install("spark,kafka")
        assert len(machine.ran) == 2


def test_another_spark_and_no_lock() -> None:
    """The rest is locked; what is asked for comes after it. Without the lock only the ranges count."""
    allowed = " ".join(declared(PROJECT, ["spark", "kafka"]))
    made = Machine().install("spark,kafka", "pyspark==4.0.*")
    assert made == [UV, "uv --require-hashes -r core.txt -r kafka.txt", f"uv {allowed} pyspark==4.0.*"]
    assert Machine().install("spark,kafka", DEFAULT) == [UV, f"uv {LOCK}"]
    assert Machine().install("spark,kafka", SPARK_ASSIGN_LOCK="no") == [UV, f"uv {allowed} {DEFAULT}"]
    of_airflow = Machine().install("kafka,airflow", "pytest>=8")
    assert of_airflow[1] == "uv --require-hashes -r airflow.txt"
    assert of_airflow[2].endswith(" pytest>=8")
    assert "pyspark" not in of_airflow[2].replace("pyspark-client", "")


def test_spark_takes_the_place_of_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is removed before, with what it leaves of Spark. Beside Spark only the engine is installed."""
    monkeypatch.setattr(set_up, "is_installed", lambda package: package == "pyspark-client")
    removed = "python -P -m pip uninstall --quiet --yes pyspark-client pyspark"
    both = Machine().install("spark,embedded")
    assert both == [UV, removed, "uv --require-hashes -r core.txt -r spark.txt -r sail.txt"]
    assert Machine().install("embedded,kafka") == [UV, "uv --require-hashes -r core.txt -r embedded.txt -r kafka.txt"]
    *_, free = Machine().install("spark,embedded", SPARK_ASSIGN_LOCK="no")
    assert "pysail>=" in free
    assert "pyspark-client" not in free


def test_nothing_can_be_installed() -> None:
    """The first cause is named first, and nothing goes on."""
    machine = Machine(fails="core.txt|pandas", says="error: no route\n")
    with pytest.raises(SetUpError, match=r"^no route$"):
        machine.install("spark,kafka")
    assert len(machine.ran) == 5


@cases(
    "message cause",
    (
        "error: No solution found when resolving dependencies\n  cause: Because cryptography==50.0.2 has no usable "
        "wheels and you require cryptography==50.0.2, we can conclude",
        f"cryptography==50.0.2 has no wheel for {set_up.HERE}",
    ),
    (
        "  cause: Because numpy{python_full_version < '3.12'}==2.4.6 has no usable wheels and you require",
        f"numpy==2.4.6 has no wheel for {set_up.HERE}",
    ),
    (
        "Because there is no version of numpy==9.9 and you require numpy==9.9, we can",
        "the package index does not have numpy==9.9",
    ),
    ("Because numpy was not found in the package registry and you require numpy", "no package index has numpy"),
    (
        "ERROR: Could not find a version that satisfies the requirement twofish==0.3.0 (from versions: none)\n"
        "ERROR: No matching distribution found for twofish==0.3.0",
        f"the package index has no wheel of twofish==0.3.0 for {set_up.HERE}",
    ),
    ("  × Failed to build `pyspark==4.1.4`\n", "pyspark==4.1.4 could not be built from source"),
    ("error: Failed to fetch: `https://i.example/numpy/`", "https://i.example/numpy/ could not be fetched"),
    ("OSError: [Errno 28] No space left on device", "the disk is full"),
    ("a\nsomething else\n", "something else"),
)
def test_the_cause_of_a_failed_set_up(message: str, cause: str) -> None:
    """The package and what it lacked, out of what uv or pip prints."""
    assert set_up.cause(message) == cause


def test_a_hash_that_differs_names_its_package() -> None:
    """In the words of uv, and of pip."""
    for message in (
        "error: Failed to read `x==1`\n  Hash mismatch for `x==1`",
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n    x==1 from https://i/x.whl:\n",
    ):
        with pytest.raises(SetUpError, match=r"^x==1 is not the one that was locked"):
            Machine(fails="core.txt", says=message).install("spark,kafka")


def test_which_indexes_are_requested() -> None:
    """Those of pip's settings and of uv's; none offline, or where uv has settings of its own."""
    assert set_up.indexes({}, {"XDG_CONFIG_HOME": "/nowhere"}) == [set_up.PYPI]
    pip = {"index-url": "https://mine.example/simple"}
    assert set_up.indexes(pip, {"XDG_CONFIG_HOME": "/nowhere"}) == ["https://mine.example/simple"]
    assert set_up.indexes({**pip, "no-index": "true"}, {}) == []
    assert set_up.indexes({**pip, "find-links": str(FOLDER)}, {}) == []
    assert set_up.indexes(pip, {"UV_CONFIG_FILE": __file__}) == []


def test_an_index_that_cannot_be_reached() -> None:
    """Said at once, with what to do and without the password of its address; one that refuses is reached."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        index = f"http://me:hush@127.0.0.1:{nobody.getsockname()[1]}/simple"
        started = time.process_time()
        with pytest.raises(SetUpError, match=r"the package index cannot be reached: .*Check the network, or") as raised:
            set_up.reach({"index-url": index}, {"UV_DEFAULT_INDEX": index, "XDG_CONFIG_HOME": "/nowhere"})
        assert time.process_time() - started < 10
    assert "hush" not in str(raised.value)
    with connect_stub.serving({}) as stub:
        assert set_up.unreachable(f"{stub.url}/simple") is None
