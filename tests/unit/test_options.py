"""The options that several jobs have: one meaning each, what is said of wrong ones, and the settings file."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import click
import pytest
from click.core import ParameterSource
from click.testing import CliRunner

from jobs import _entry
from spark_assign.cli.job import Command, Job, Options, job
from spark_assign.cli.options import (
    DURATION,
    check_rule,
    fleet_or_sample,
    given_parameters,
    input_options,
    output_options,
    packaged_conf,
    pairs,
    parameter_options,
    patterns,
    top,
)
from spark_assign.groups.alerts import AlertLimits
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.parameters import Param, find_fault
from spark_assign.tables.streams import StreamsParams
from tests.cases import cases

ROOT = Path(__file__).parents[2]
NAMES = sorted(file.stem for file in (ROOT / "jobs").glob("*.py") if not file.stem.startswith("_"))
SNAPSHOTS = ("snapshot",)


def commands() -> dict[str, Job]:
    """Every job by its words."""
    found: dict[str, Job] = {}
    for name in NAMES:
        main = importlib.import_module(f"jobs.{name}").main
        found |= {name: main} if isinstance(main, Job) else {}
        found |= {f"{name} {each}": made for each, made in main.commands.items()}
    return found


def options_of(command: click.Command) -> dict[str, click.Option]:
    """By their flag."""
    return {each.opts[0]: each for each in command.params if isinstance(each, click.Option)}


@pytest.mark.parametrize("name", commands())
def test_what_every_job_has(name: str) -> None:
    """A settings file, --verbose, a line of help for each option, and the exit codes at the end."""
    found = commands()[name]
    flags = options_of(found)
    assert list(flags)[-2:] == ["--config", "--verbose"]
    assert [flag for flag, each in flags.items() if not each.help or flag.endswith("-ms")] == []
    rules = [rule.partition(": ")[0] for rule in found.usage if isinstance(rule, str)]
    assert {flag for rule in rules for flag in re.findall(r"--[a-z-]+", rule)} <= {*flags}
    done = CliRunner().invoke(found, ["--help"], terminal_width=200)
    assert done.exit_code == 0
    assert "Exit codes: 0 " in done.output


def test_one_flag_has_one_meaning() -> None:
    """The same kind of value, and repeatable or not, wherever it is; what is written has its own flags."""
    kinds: dict[str, set[tuple[Any, ...]]] = {}
    for name, each in commands().items():
        for flag, option in options_of(each).items():
            kinds.setdefault(flag, set()).add((option.type.name, option.multiple, option.is_flag))
            assert flag not in ("--groups", "--topics", "--plans", "--tables"), name
    several = {flag for flag, found in kinds.items() if len(found) > 1}
    # Conditions of a settings file are a list, and a snapshot has fewer formats.
    assert several <= {"--fail-on", "--output-format"}
    for name, each in commands().items():
        flags = options_of(each)
        assert ("--format" in flags) is ("--fleet" in flags or name == "diff"), name
        if name != "daily":  # its steps have these flags
            assert ("--output-format" in flags) is ("--run-id" in flags or name in SNAPSHOTS), name
            assert ("--sample" in flags) <= ("--fleet" in flags or name in ("check", "diff", "mcp")), name


def example(run: Any = lambda options: 0) -> Job:
    """A job with the options that most have."""
    streams: Any = parameter_options(StreamsParams)(parameter_options(AlertLimits, "max_restore_ms")(run))
    made: Any = input_options()(output_options()(patterns("--group", "only those")(top()(streams))))
    return job("An example.", "Exit codes: 0 done.", name="example")(made)


def test_a_job_is_called_with_its_options() -> None:
    """A value for each, and the names of those that were given."""
    seen: list[Options] = []
    code = example(lambda options: seen.append(options) or 1)(
        ["--fleet", "./f", "--option", "sep=;", "--option", "a=b=c", "--group", "a*", "--group", "b", "--run-id", "r"]
    )
    (options,) = seen
    assert code == 1
    assert (options.fleet, options.option, options.table, options.group) == (
        "./f",
        {"sep": ";", "a": "b=c"},
        None,
        ("a*", "b"),
    )
    assert (options.run_id, options.top, options.verbose) == ("r", 10, False)
    assert set(options.given) == {"fleet", "option", "group", "run_id"}
    assert len(example().parse([]).run_id) == len("20261121T050000Z")


@cases(
    "words message",
    (["--nonsense"], "example: No such option"),
    (["--option", "sep"], "example: --option sep: expected NAME=VALUE"),
    (["--top", "many"], "'many' is not a valid integer"),
    (["--top", "-1"], "-1 is not in the range"),
    (["--top", "2147483647"], "2147483647 isn't a number of at most 1,000,000,000"),
    (["--standby-replicas", "9" * 400], f"{'9' * 40} isn't a number of at most 1,000,000,000"),
    (["--restore-bytes-per-second", "nan"], "expected at least 1"),
    (["--restore-bytes-per-second", "1e400"], "expected at least 1"),
    (["--restore-bytes-per-second", "1e-300"], "x>=1"),
    (["--restore-bytes-per-second", "1e300"], "1e+300 isn't a number of at most 9,007,199,254,740,992"),
    (["--max-restore-time", "36501d"], "'36501d' isn't a valid duration"),
    (["--max-restore-time", "1e400s"], "'1e400s' isn't a valid duration"),
    (["--max-restore-time", "-0s"], "'-0s' isn't a valid duration"),
    (["words"], "unexpected extra argument"),
    (["--config", "/nothing.toml"], "/nothing.toml: can't be read: No such file"),
)
def test_wrong_usage(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One message with the remedy, exit code 2, and the job has not begun."""

    def begun(options: Options) -> int:
        raise AssertionError(options)

    assert example(begun)(words) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.endswith("For its options, run: example --help\n")
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [["--output", "./plans"], ["--fleet", "./fleet"]])
def test_a_current_folder_that_is_not_utf_8(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No engine reads or writes there. A name in a catalog, or another folder, has nothing to do with it."""
    folder = tmp_path / "\udcff"
    (folder / "fleet").mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert example(lambda options: 0)(words) == 2
    assert f"Invalid value for '{words[0]}': the path of the current folder isn't UTF-8." in capsys.readouterr().err
    assert example(lambda options: 0)([words[0], str(tmp_path)]) == 0


@cases(
    "name words number",
    ("replicas operate", ["--restart", "1,3000000000"], "3000000000"),
    ("replicas reassign", ["--add", "3000000000=a"], "3000000000"),
    ("replicas reassign", ["--partitions", f"*={10**20}"], str(10**20)),
    ("replicas reassign", ["--balance", "disk=inf"], "inf"),
    ("advise size", ["--capacity", "*=1e308"], "1e+308"),
)
def test_numbers_of_lists_and_names(
    name: str, words: list[str], number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Have the limits of other numbers."""
    assert commands()[name](["--sample", *words]) == 2
    assert f"{number} isn't a number of at most " in capsys.readouterr().err


@cases("flag value", ("--add", "0=a,1,0"), ("--rack", "0=a,1=b,0=a"), ("--balance", "disk,in,disk=0.1"))
def test_a_key_of_a_list_occurs_once(flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The last one would win without a word."""
    assert commands()["replicas reassign"](["--sample", flag, value]) == 2
    assert f"Invalid value for '{flag}': {value.partition('=')[0].partition(',')[0]} is listed twice." in (
        capsys.readouterr().err
    )


def test_an_interrupted_job(capsys: pytest.CaptureFixture[str]) -> None:
    """As the shell has it."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    assert Command("x", callback=interrupted)([]) == 130


def test_a_settings_file_says_what_the_flags_say(tmp_path: Path) -> None:
    """By the flags' names; its places start from its folder; flags win over it."""
    file = tmp_path / "example.toml"
    file.write_text(
        'top = 3\ngroup = "a*"\nrun-id = "nightly"\n[fleet]\nlocation = "./f"\nformat = "csv"\n'
        'options = { sep = ";" }\ntables = { owned = "../x" }\n[output]\nlocation = "main.kafka"\n'
    )
    options = example().parse(["--config", str(file), "--run-id", "now"])
    assert (options.top, options.group, options.run_id) == (3, ("a*",), "now")
    assert (options.fleet, options.format, options.option) == (str(tmp_path / "f"), "csv", {"sep": ";"})
    assert (options.table, options.output) == ({"owned": str(tmp_path.parent / "x")}, "main.kafka")
    by_flag = {name for name, source in options.given.items() if source is ParameterSource.COMMANDLINE}
    assert by_flag == {"config", "run_id"}


def test_flags_then_environment_then_file_then_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each value, the first source that has it. `spark-assign.toml` is read from the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("spark-assign.toml").write_text('[example]\ntop = 3\ngroup = "a"\nrun_id = "file"\n[other]\ntop = 4\n')
    for name, value in {"TOP": "5", "RUN_ID": "environment", "OPTION": "a=1 b=2", "VERBOSE": "true"}.items():
        monkeypatch.setenv(f"SPARK_ASSIGN_EXAMPLE_{name}", value)
    monkeypatch.setenv("SPARK_ASSIGN_FORMAT", "csv")
    options = example().parse(["--run-id", "flag"])
    assert (options.run_id, options.top, options.group, options.format) == ("flag", 5, ("a",), None)
    assert (options.option, options.verbose, options.config) == ({"a": "1", "b": "2"}, True, Path("spark-assign.toml"))
    monkeypatch.setenv("SPARK_ASSIGN_EXAMPLE_FLEET", "./f")
    beside = str(ROOT / "jobs" / "compare.py")
    assert fleet_or_sample(example().parse([]), beside) == "./f"
    assert fleet_or_sample(example().parse(["--sample"]), beside) == str(ROOT / "conf" / "sample-fleet")


def test_plan_without_options_plans_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless a fleet comes from the environment or from a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARK_ASSIGN_SEED", "1")
    Path("f").mkdir()
    Path("spark-assign.toml").write_text("[compare]\ntop = 4\n")
    plan = commands()["plan"]

    def fleet(*words: str) -> str | None:
        options = plan.parse(words)
        plan.check(options)
        found: str | None = options.fleet
        return found

    sample = str(ROOT / "conf" / "sample-fleet")
    assert fleet() == sample
    with pytest.raises(ConfigError, match="No fleet given"):
        fleet("--assignor", "range")
    monkeypatch.setenv("SPARK_ASSIGN_PLAN_TOP", "5")
    assert fleet() == sample
    monkeypatch.setenv("SPARK_ASSIGN_PLAN_FLEET", "./f")
    assert fleet() == "./f"
    monkeypatch.delenv("SPARK_ASSIGN_PLAN_FLEET")
    Path("spark-assign.toml").write_text('[plan.fleet]\nlocation = "./f"\n')
    assert fleet() == str(tmp_path / "f")


def test_only_sparks_reader_of_the_topic_gets_the_kafka_source() -> None:
    """In the version of the installed Spark; the client that is the default needs nothing of Maven."""
    package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"
    for words in ("--reader spark", "--reader=spark --follow"):
        assert _entry.kafka_source(["history", "--bootstrap-server", "x:1", *words.split()]) == ["--packages", package]
    for words in ("history --bootstrap-server x:1 --reader client", "daily --clusters x", "history --sample", ""):
        assert _entry.kafka_source(words.split() or [""]) == []
    assert _entry.kafka_source(["history", "--group", "a --reader spark b"]) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_options_and_files(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By click's own means."""

    def completed(*words: str) -> str:
        monkeypatch.setenv("_SPARK_ASSIGN_COMPLETE", f"{shell}_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(["spark-assign", *words]))
        monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words)))
        with pytest.raises(SystemExit):
            _entry.main()
        out, err = capsys.readouterr()
        assert not err
        return out

    monkeypatch.setattr(sys, "argv", ["spark-assign"])
    assert "compare" in completed("comp")
    assert "plan" not in completed("comp")
    assert "--what-if" in completed("compare", "--wh")
    assert "file" in completed("compare", "--fleet", "./x")


@cases(
    "text message",
    ("tpo = 3", "unknown key tpo. Did you mean top?"),
    ("[fleet]\nplace = 'x'", "unknown key fleet.place. Known: location, format, options, tables"),
    ("[output]\ntables = ['assignment_slices']", "unknown key output.tables. Known: location, format, options"),
    ("top = 'ten'", "top is 'ten' (str), expected a whole number"),
    ("top = -1", "top is -1, expected 0 or more"),
    ("group = [{}]", "group is [{}] (list), expected a string or a list of strings"),
    ("tpo = 3\ntop = 'ten'", "x.toml: 2 faults:\n  - top is 'ten' (str), expected a whole number\n  - unknown key tpo"),
    ("config = 'x.toml'", "unknown key config"),
    ("top = ", "isn't valid TOML"),
)
def test_what_is_wrong_in_a_settings_file(
    tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key, and the nearest right one."""
    (tmp_path / "x.toml").write_text(text)
    assert example()(["--config", str(tmp_path / "x.toml")]) == 2
    assert message in capsys.readouterr().err


def test_lists_of_a_settings_file_and_runs(tmp_path: Path) -> None:
    """`--assignors A,B` is a list there; a run has its place's folder."""
    (tmp_path / "x.toml").write_text('assignors = ["range", "sticky"]\nwhat_if = ["leave:*:1"]\nsample = true\n')
    compare = commands()["compare"].parse(["--config", str(tmp_path / "x.toml")])
    assert (compare.assignors, compare.what_if, compare.sample) == (("range", "sticky"), ("leave:*:1",), True)
    (tmp_path / "x.toml").write_text('plan = "./plans@2026-11-21"\nfail-on = "alerts"\n')
    check = commands()["check"].parse(["--config", str(tmp_path / "x.toml")])
    assert (check.plan, check.fail_on) == (f"{tmp_path}/plans@2026-11-21", "alerts")


def test_the_fleet_or_the_sample(tmp_path: Path) -> None:
    """One of the two; what is on the command line wins over a settings file; never the sample by itself."""
    beside = str(ROOT / "jobs" / "compare.py")
    made = example()
    sample = str(ROOT / "conf" / "sample-fleet")
    assert fleet_or_sample(made.parse(["--fleet", "./f"]), beside) == "./f"
    assert fleet_or_sample(made.parse(["--sample"]), beside) == sample
    assert fleet_or_sample(made.parse(["--table", "a=./b"]), beside) is None
    (tmp_path / "x.toml").write_text("[fleet]\nlocation = './f'\n")
    assert fleet_or_sample(made.parse(["--config", str(tmp_path / "x.toml"), "--sample"]), beside) == sample
    with pytest.raises(ConfigError, match="Use --fleet LOCATION, or --sample"):
        fleet_or_sample(made.parse([]), beside)
    with pytest.raises(ConfigError, match="are both given"):
        fleet_or_sample(made.parse(["--sample", "--fleet", "./x"]), beside)
    with pytest.raises(ConfigError, match="The sample fleet doesn't exist at"):
        fleet_or_sample(made.parse(["--sample"]), str(tmp_path / "jobs" / "compare.py"))


def test_where_the_settings_are(tmp_path: Path) -> None:
    """Beside the jobs in a wheel, beside their folder in a clone."""
    (tmp_path / "site" / "conf").mkdir(parents=True)
    assert packaged_conf(str(tmp_path / "site" / "plan.py")) == tmp_path / "site" / "conf"
    assert packaged_conf(str(ROOT / "jobs" / "plan.py")) == ROOT / "conf"


def test_times() -> None:
    """Every unit in milliseconds."""
    found = [DURATION.convert(word, None, None) for word in ("500ms", "30s", "2m", "2min", "1.5h", "1d")]
    assert found == [500, 30_000, 120_000, 120_000, 5_400_000, 86_400_000]


@dataclass(frozen=True)
class Example:
    """Parameters.

    Attributes:
        wait_ms: time to wait (`wait.ms`).
        pause_s: how long to rest,
            in sum.
        shares: shares of each. All are
            needed.
        kind: group.kind of the group (default: none).
        is_quick: be quick.
    """

    wait_ms: Annotated[int, Param(least=1)] = 90_000
    pause_s: Annotated[float, Param(above=0, flag="rest_time")] = 0.5
    shares: Annotated[Sequence[float], Param(least=0, below=1)] = (0.5, 0.25)
    kind: Annotated[str | None, Param(choices=("a", "b"))] = None
    is_quick: Annotated[bool, Param()] = False
    other: str = "no option"


def test_options_of_parameters() -> None:
    """Name, type, help, default, and bounds are those of the field; what isn't given stays the dataclass's."""
    made: Any = job("An example.", "Exit codes: 0 done.", name="example")(parameter_options(Example)(lambda options: 0))
    assert {each.opts[0]: each.help for each in made.params[:5]} == {
        "--wait": "Time to wait (wait.ms; default: 90s).",
        "--rest-time": "How long to rest, in sum (default: 500ms).",
        "--shares": "Shares of each. All are needed (default: 0.5,0.25).",
        "--kind": "group.kind of the group (default: none).",
        "--is-quick": "Be quick.",
    }
    assert given_parameters(made.parse([]), Example) == {}
    words = ["--wait", "1m", "--rest-time", "2s", "--shares", "0, 0.9", "--is-quick"]
    given = given_parameters(made.parse(words), Example)
    assert given == {"wait_ms": 60_000, "pause_s": 2, "shares": (0, 0.9), "is_quick": True}
    for wrong in (["--wait", "0s"], ["--rest-time", "0s"], ["--shares", "0.5,1"], ["--shares", "nan"], ["--kind", "c"]):
        with pytest.raises(click.BadParameter):
            made.parse(wrong)
    assert find_fault(Example()) is None
    assert find_fault(Example(wait_ms=0)) == "wait_ms is 0; expected at least 1 ms"
    assert find_fault(Example(shares=[1.0])) == "shares is [1.0]; expected at least 0 and below 1"


@cases(
    "rule given problem",
    ("--a, --b needs --c, --d", "b d", ""),
    ("--a, --b needs --c, --d", "b", "--b needs --c or --d."),
    ("--a needs --b: it is why", "a", "--a needs --b: it is why."),
    ("--a excludes --b, --c", "a d", ""),
    ("--a excludes --b, --c", "a c", "--c can't be used with --a."),
    ("one of --a, --b", "b", ""),
    ("one of --a, --b", "", "Use exactly one of --a, --b."),
    ("one of --a, --b", "a b", "--b can't be used with --a. Use exactly one of --a, --b."),
    ("any of --a, --b, --c", "a b", ""),
    ("any of --a, --b, --c", "d", "Use --a, --b, or --c."),
)
def test_rules_of_usage(rule: str, given: str, problem: str) -> None:
    """Zero is a value; an empty list and a flag that isn't set are none."""
    values = {"a": None, "b": None, "c": (), "d": False} | dict.fromkeys(given.split(), 0)
    with pytest.raises(ConfigError, match=f"^{re.escape(problem)}$") if problem else nullcontext():
        check_rule(SimpleNamespace(**values), rule)


def test_pairs() -> None:
    """Values may hold further signs; null where nothing is given."""
    assert pairs("--table", None) is None
    assert pairs("--table", []) == {}
    assert pairs("--table", ["a=b=c", "d="]) == {"a": "b=c", "d": ""}
    with pytest.raises(ConfigError, match="--table owned: expected NAME=VALUE"):
        pairs("--table", ["a=b", "owned"])


def test_the_command_of_the_wheel(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without words it lists the jobs; a word that is none is named."""
    monkeypatch.setenv(_entry.ENGINE, "embedded")
    assert _entry.command([]) == 0
    listed = capsys.readouterr().out
    assert [name for name in NAMES if f"\n  {name} " not in listed] == []
    assert _entry.command(["plann"]) == 2
    assert "spark-assign: No such command 'plann'" in capsys.readouterr().err
    assert _entry.command(["check", "--plane", "x"]) == 2
    assert "spark-assign check: No such option '--plane'" in capsys.readouterr().err
    assert _entry.command(["advise", "siez", "--sample"]) == 2
    wrong = "spark-assign advise: No such command 'siez'. Did you mean size? Known: size, membership, zones, unused."
    assert wrong in capsys.readouterr().err


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without variables that choose an engine or a Spark; what a test sets is taken back."""
    for name in (*_entry.CONFIGURES_SPARK, _entry.ENGINE, _entry.LOCAL_FILES, "JAVA_HOME", "SPARK_ASSIGN_JAVA"):
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)
    return monkeypatch


@pytest.mark.parametrize("given", [*_entry.CONFIGURES_SPARK, None])
def test_which_spark(given: str | None, bare: pytest.MonkeyPatch) -> None:
    """The installed one with the settings of a clone, unless the environment configures one; options are added."""
    if given:
        bare.setenv(given, "x")
    _entry._configure_spark(["plan"], [], is_local=False)
    words = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    assert (str(ROOT / "conf" / "spark" / "local.conf") in words) is (given is None)
    assert words in ("", "x") or words.endswith(" pyspark-shell")
    _entry._configure_spark(["plan"], ["--conf", "a=b c"], is_local=False)
    assert os.environ["PYSPARK_SUBMIT_ARGS"].startswith("--conf 'a=b c' ")
    _entry._configure_spark(["history", "--bootstrap-server=x:1", "--reader", "spark"], [], is_local=True)
    assert "local.conf" in os.environ["PYSPARK_SUBMIT_ARGS"]
    assert " --packages org.apache.spark:" in os.environ["PYSPARK_SUBMIT_ARGS"]


def test_the_java_of_an_installed_spark(bare: pytest.MonkeyPatch) -> None:
    """It leaves out the module of which the JVM warns, also if the command calls itself, and runs the given Java."""
    bare.setenv("JAVA_HOME", "/java")
    for _ in range(2):
        _entry._configure_spark(["plan"], [], is_local=True)
        assert os.environ["JAVA_HOME"] == str(ROOT / "conf" / "spark" / "java")
        assert os.environ["SPARK_ASSIGN_JAVA"] == "/java/bin/java"


def test_which_engine(bare: pytest.MonkeyPatch) -> None:
    """The embedded one where it is installed and neither options, nor a variable, nor the environment choose Spark."""
    bare.setattr(_entry, "find_spec", lambda _: None)
    assert _entry._engine(forced=False) == "spark"
    bare.setattr(_entry, "find_spec", lambda name: name)
    bare.setattr(_entry, "distributions", lambda **_: ["pyspark"])
    assert _entry._engine(forced=False) == "embedded"
    assert _entry._engine(forced=True) == "spark"
    bare.setattr(_entry, "distributions", lambda **_: [])
    with pytest.raises(click.UsageError, match="isn't installed: run pip install"):
        _entry._engine(forced=True)
    bare.setenv("SPARK_HOME", "/opt/spark")
    assert _entry._engine(forced=False) == _entry._engine(forced=True) == "spark"
    bare.setenv(_entry.ENGINE, "embedded")
    assert _entry._engine(forced=False) == "embedded"


@cases(
    "job words message",
    ("advise", ["size", "--keda"], "advise: --keda needs --details."),
    ("advise", ["--keda"], "advise: No such option '--keda'"),
    ("advise", ["size", "--min-members", "1"], "advise size: No such option '--min-members'"),
    ("advise", ["--only", "picnic"], "'picnic' is not one of 'size'"),
    ("advise", ["--config", "FILE"], "advise: --only size is now a command: advise size"),
)
def test_commands_below_a_job(
    job: str, words: list[str], message: str, tmp_path: Path, caplog: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has its own options. The option that it was is wrong usage that names it, also in a settings file."""
    (tmp_path / "old.toml").write_text('[advise]\nonly = "size"\n[advise.size]\nkeda = true\n')
    words = [str(tmp_path / "old.toml") if word == "FILE" else word for word in words]
    assert importlib.import_module(f"jobs.{job}").main([*words, "--sample"]) == 2
    assert message in f"{caplog.text} {capsys.readouterr().err}"


@cases(
    "job words command operand",
    ("advise", ["--sample", "--only", "size", "--top", "3"], "size", {}),
    ("simulate", ["--scenario=crash"], "crash", {}),
    ("migrate", ["--to-release", "3.9", "--sample"], "to-release", {"release": "3.9"}),
    ("migrate", ["--sample", "--to-cooperative=c/g"], "to-cooperative", {}),
)
def test_options_that_are_now_commands(
    job: str, words: list[str], command: str, operand: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """They run the command, and name it."""
    ctx = commands()[job].make_context(job, words)
    assert ctx.command.name == command
    assert bool(ctx.params.get("sample")) is ("--sample" in words)
    assert operand.items() <= ctx.params.items()
    assert f"is now a command: {job} {command}" in capsys.readouterr().err


def test_settings_of_commands_below_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A section inside that of the job, and variables with the words of the command."""
    file = tmp_path / "settings.toml"
    file.write_text("[advise]\nmin_members = 3\n[advise.size]\nthreads_per_pod = 2\n")
    advise = importlib.import_module("jobs.advise").main
    monkeypatch.setenv("SPARK_ASSIGN_ADVISE_SIZE_HEADROOM", "0.5")
    options = advise.parse(["size", "--config", str(file)])
    assert (options.threads_per_pod, options.headroom) == (2, 0.5)
    assert advise.parse(["--config", str(file)]).min_members == 3
