"""Settings files that are wrong in ways nobody writes: each is answered at once, with the file, the key, and exit
code 2."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest

from jobs.snapshot import clusters_of
from spark_assign.cli.owners import check_owners, read_owners
from spark_assign.cli.settings_file import defaults, from_file
from spark_assign.cli.toml_file import MAX_BYTES
from spark_assign.comparison.what_if import parse_what_if
from spark_assign.tables.errors import ConfigError
from tests.cases import cases
from tests.unit.test_options import commands

DEEP = "a = " + "[" * 5_000
DOTTED = ".".join("a" * 20_000)
LONG = "x" * 100_000

PLAN: dict[str, tuple[bytes | str, str]] = {
    "5,000 digits": ("top = " + "9" * 5_000, "line 1: the number 9999"),
    "a negative number of 5,000 digits": ("\n\ntop = -" + "9" * 5_000, "line 3: the number -9999"),
    "5,000 hexadecimal digits": ("top = 0x" + "f" * 5_000, "line 1: the number 0xff"),
    "999 hexadecimal digits": ("top = 'a'\nstreams_assignor = 0x" + "f" * 990, "2 faults"),
    "a dotted key of 40 KB": (f"{DOTTED} = 1", "line 1: the key a.… has more than 32 parts"),
    "a dotted header of 40 KB": (f"\n[{DOTTED}]", "line 2: the key"),
    "quoted parts": ('"a".' * 9_000 + "a = 1", "has more than 32 parts"),
    "blanks in a dotted key": ("a . " * 9_000 + "a = 1", "has more than 32 parts"),
    "a dotted key in a table": (f"x = {{ {DOTTED} = 1 }}", "has more than 32 parts"),
    "deep lists": (DEEP, "isn't valid TOML"),
    "deep tables": ("a = " + "{a = " * 5_000, "isn't valid TOML"),
    "more than a megabyte": ("#" * (MAX_BYTES + 1), "has more than 1,048,576 bytes"),
    "a text without end": ("a = '''" + "x" * 1_000_000, "isn't valid TOML"),
    "no UTF-8": (b"\n\ntop = '\xff\xfe'", "isn't valid TOML: line 3 isn't UTF-8"),
    "UTF-16": ("top = 3".encode("utf-16"), "isn't valid TOML"),
    "NUL": (b"top = \x00", "isn't valid TOML"),
    "a lone surrogate": ('assignor = "\\ud800"', "isn't valid TOML"),
    "a lone carriage return": (b"top = 3\rtop = 4", "isn't valid TOML"),
    "twice": ("top = 3\ntop = 4", "isn't valid TOML"),
    "a number where a location stands": ("[plan]\ntop = 3\n[check]\n[plan.fleet]\nlocation = 3", "fleet.location"),
    "a list where a table stands": ("fleet = [1]", "fleet is [1]"),
    "a number where a table stands": ("fleet = 3", "fleet is 3"),
    "a table where a number stands": ("assignor = 'range'\ntop = {a = 1}", "top is {'a': 1}"),
    "a table where a list stands": ("assignor = 'range'\ngroup_assignor = {a = 1}", "group_assignor"),
    "a text where tables stand": ("group_assignor = 'x'", "group_assignor"),
    "numbers where tables stand": ("group_assignor = [1, 2]", "group_assignor 1"),
    "a date": ("top = 1979-05-27", "top is datetime.date"),
    "infinity": ("top = inf", "top is inf"),
    "no number": ("top = nan", "top is nan"),
    "a boolean": ("top = true", "top is True"),
    "2^70": ("streams_assignor = 1180591620717411303424", "assignor is 1180591620717411303424"),
    "a long value": (f"top = '{LONG}'", "top is 'xxx"),
    "a long key": (f"{LONG} = 1", "unknown key xxx"),
    "60,000 unknown keys": ("\n".join(f"k{n} = 1" for n in range(60_000)), "more"),
    "a terminal escape": ('"\\u001b[2J" = 1', "unknown key"),
    "a table of unknown tables": ("[fleet.tables]\n" + "\n".join(f"k{n} = 'x'" for n in range(20_000)), "more"),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.toml"


def written(file: Path, text: bytes | str) -> Path:
    """The file with this text."""
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@pytest.mark.parametrize("name", PLAN)
def test_settings_of_a_plan(name: str, file: Path) -> None:
    """With the file and the key, in a message of bounded length, in less than 20 s of processor time."""
    text, message = PLAN[name]
    started = time.process_time()
    with pytest.raises(ConfigError) as error:
        defaults(written(file, text), commands()["plan"])
    assert message in str(error.value)
    assert str(file) in str(error.value)
    assert len(str(error.value)) < 40_000
    assert time.process_time() - started < 20


def test_paths_of_a_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A list of locations starts from the folder of the file. A path with NUL is wrong usage."""
    read = partial(defaults, job=commands()["daily"])
    assert read(written(file, "records = ['a/b', '/c']")) == {"records": [str(file.parent / "a" / "b"), "/c"]}
    assert read(written(file, "records = './a'")) == {"records": [str(file.parent / "a")]}
    assert commands()["plan"](["--config", str(written(file, r'openmetrics = "a\u0000b"'))]) == 2
    assert "a path has a NUL" in capsys.readouterr().err


@cases(
    "text message",
    ("[replicas]\nplace = 3", "replicas.place isn't a table. Start the section with [replicas.place]."),
    ("[replicas]\nplace = ['x']", "replicas.place isn't a table"),
    ("[replicas]\nplace = 2020-01-01", "replicas.place isn't a table"),
    ("[replicas.place]\nrun_id = [{}]", "run_id is [{}]"),
    ("[replicas.place.place]\ntop = 1", "unknown key place"),
)
def test_sections_of_a_job(text: str, message: str, file: Path) -> None:
    """A scalar where a section must stand."""
    with pytest.raises(ConfigError) as error:
        defaults(written(file, text), commands()["replicas place"])
    assert message in str(error.value)


@cases(
    "text",
    "clusters = 3",
    "[clusters]\na = 3",
    "[[clusters]]\na = 3",
    "[clusters.a]\nlabels = 3",
    "[clusters.a.labels]\ntier = 3",
    "[clusters.a]\nbootstrap_server = {a = 1}",
    "[clusters.a]\nbootstrap_server = 3\ncommand_config = 3\nlabels = {}\nx = 0x" + "f" * 900,
    "[clusters.a.b.c]\nd = 1",
    "owners = 3",
    "[owners]\nteam = 'x'",
    "[[owners]]\nteam = 3",
    "[[owners]]\nteam = ['x']",
    "[[owners]]\ngroup = 'x'",
    "owners = [1]",
    f"[clusters.{DOTTED}]",
)
def test_clusters_and_owners(text: str, file: Path) -> None:
    """The same of clusters.toml."""
    with pytest.raises(ConfigError, match=r"x\.toml"):
        clusters_of(written(file, text))
    if text.startswith(("owners", "[owners", "[[owners")):
        with pytest.raises(ConfigError, match=r"x\.toml"):
            read_owners(None, str(file))  # type: ignore[arg-type]


@cases(
    "line problem",
    ("bootstrap_server = 5", r"bootstrap_server is 5 \(int\), expected a string or a list of strings"),
    ("bootstrap_server = ['b:1', true]", r"bootstrap_server is \['b:1', True\] \(list\), expected a string or a list"),
    ("command_config = 5.5", r"command_config is 5.5 \(float\), expected a string"),
    ("connect_url = 5", r"connect_url is 5 \(int\), expected a string"),
    ("connect_url = {etl = 5}", r"connect_url is .* expected a string"),
)
def test_a_number_is_no_file_and_no_server(line: str, problem: str, file: Path) -> None:
    """It was taken for the name of a host, or of a file."""
    with pytest.raises(ConfigError, match=rf"x\.toml: \[clusters\.a\]: {problem}"):
        clusters_of(written(file, f"[clusters.a]\n{line}"))


def test_a_what_if_of_5000_digits() -> None:
    """As a count, which Python doesn't read as a number."""
    with pytest.raises(ConfigError, match="isn't a valid count"):
        parse_what_if(f"leave:*:{'9' * 5_000}")


def test_what_is_allowed_stays_allowed(file: Path) -> None:
    """Long lists of brokers, comments with rulers, and texts with many dots."""
    hosts = ",".join(f"broker-{n}.eu-west-1.internal.example.com:9092" for n in range(300))
    text = (
        f"# {'.' * 200}\nbootstrap = '{hosts}'\npath = \"{'../' * 100}x\"\nnames = [{'1.5, ' * 100}]\na.b.c.d = 1\r\n"
    )
    found = from_file(written(file, text))
    assert (found["bootstrap"], found["a"]) == (hosts, {"b": {"c": {"d": 1}}})


def test_owners_without_end(tmp_path: Path) -> None:
    """Each entry is a condition of every query, so their number is bounded."""
    file = tmp_path / "owners.toml"
    file.write_text("[[owners]]\nteam = 't'\n" * 1_001)
    with pytest.raises(ConfigError, match="more than 1,000 entries"):
        check_owners(str(file))


def test_a_pipe_and_a_byte_order_mark(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody waits for a writer, unless a shell made the pipe. What Windows saves is read."""
    assert from_file(written(file, b"\xef\xbb\xbfa = 1")) == {"a": 1}
    pipe = file.parent / "pipe.toml"
    os.mkfifo(pipe)
    for words in (["plan", "--sample", "--owners"], ["config", "--check"], ["daily", "--day", "x", "--clusters"]):
        assert commands()[words[0]]([*words[1:], str(pipe)]) == 2, words
    with pytest.raises(ConfigError, match=r"pipe.toml: can't be read: is a pipe or a device"):
        defaults(pipe, commands()["plan"])
    reader, writer = os.pipe()
    os.write(writer, b"a = 1")
    os.close(writer)
    assert from_file(Path(f"/dev/fd/{reader}")) == {"a": 1}
    os.close(reader)


@cases(
    "place problem",
    (".", "is a folder. Name a file in it"),
    ("none/x", "Create it first"),
    ("n" * 300, "File name too long"),
)
def test_a_file_to_write_is_checked_before_anything_is_planned(
    place: str, problem: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not after minutes, when the plan is stored and the file can't be."""
    assert commands()["plan"](["--sample", "--openmetrics", str(tmp_path / place)]) == 2
    assert problem in caplog.text
