"""Settings of the plan job: what is accepted, what wins, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from jobs import plan
from spark_assign.cli.job import Options
from tests.cases import cases

MINIMAL = '[fleet]\nlocation = "./fleet"\n[output]\nlocation = "cat.schema"\n'


def settings(tmp_path: Path, text: str, *words: str) -> Options:
    """Options of the job with a settings file of this text, and with flags."""
    file = tmp_path / "plan.toml"
    file.write_text(text)
    return plan.main.parse(["--config", str(file), *words])


def test_the_shipped_file_is_valid_and_plans_every_group_of_the_sample() -> None:
    """conf/plan.toml is the documentation, so it must load."""
    root = Path(__file__).parents[2]
    shipped = vars(plan.main.parse(["--config", str(root / "conf" / "plan.toml")]))
    assert shipped["fleet"] == str(root / "conf" / "sample-fleet")
    bare = vars(plan.main.parse(["--fleet", str(shipped["fleet"])]))
    same = set(bare) - {"config", "outcome", "given"}
    assert {name for name in same if shipped[name] != bare[name]} == set(), "it says the defaults"


def test_the_commented_examples_of_the_shipped_file_are_valid(tmp_path: Path) -> None:
    """Every key that the comments show is taken once its comment sign is away."""
    text = (Path(__file__).parents[2] / "conf" / "plan.toml").read_text()
    top = [
        line
        for line in [
            i[2:] if i.startswith("# ") and (" = " in i or i.startswith("# [[")) else i for i in text.splitlines()
        ]
        if not line.startswith("[[") and not line.startswith(("groups", "assignor", "library", "version"))
    ]
    (tmp_path / "clusters.toml").touch()
    (tmp_path / "sample-fleet").mkdir()
    shown = settings(tmp_path, "\n".join(top))
    assert shown.fail_on == ("rejected",)
    assert set(shown.output_tables) == {"assignment_slices", "moves", "metrics", "rejected"}
    assert shown.option == {"sep": ";"}


def test_paths_start_from_the_file_and_catalog_names_stay(tmp_path: Path) -> None:
    """A settings file works wherever it is called from."""
    loaded = settings(tmp_path, MINIMAL.replace("[output]", 'tables = { owned = "../x", brokers = "a.b" }\n[output]'))
    assert loaded.fleet == str(tmp_path / "fleet")
    assert loaded.table == {"owned": str(tmp_path.parent / "x"), "brokers": "a.b"}
    assert loaded.output == "cat.schema"


def test_flags_win_and_a_location_takes_its_table_along(tmp_path: Path) -> None:
    """Format and options belong to a location: they go with it."""
    text = MINIMAL.replace("[output]", 'format = "delta"\n[output]') + 'format = "json"\n'
    kept = settings(tmp_path, "top = 3\n" + text, "--top", "5", "--format", "csv")
    assert (kept.top, kept.format, kept.fleet) == (5, "csv", str(tmp_path / "fleet"))
    moved = settings(tmp_path, text, "--fleet", "x/y")
    assert (moved.fleet, moved.format) == ("x/y", None)
    assert moved.output_format == "json"


def test_patterns_keep_their_order_and_end_with_the_assignor(tmp_path: Path) -> None:
    """The command line's first, then the file's, then everything else."""
    text = 'assignor = "configured"\n[[group_assignor]]\ngroups = "a-*"\nassignor = "range"\n' + MINIMAL
    loaded = plan._choice(settings(tmp_path, text, "--group-assignor", "b-*=roundrobin"))
    assert isinstance(loaded, dict)
    assert list(loaded.items()) == [("b-*", "roundrobin"), ("a-*", "range"), ("*", "configured")]


def test_entries_are_tables_or_values(tmp_path: Path) -> None:
    """`[[leader_client]]`, or the values of the flag, as in the files of other jobs."""
    table = '[[leader_client]]\ngroups = "a-*"\nlibrary = "Java"\nversion = "2.8"\n'
    for text in (table, 'leader_client = "a-*=Java@2.8"\n', '[leader_client]\n"a-*" = "Java@2.8"\n'):
        assert settings(tmp_path, text + MINIMAL).leader_client == {"a-*": "Java@2.8"}


@cases(
    "text message",
    ("assignr = 'range'\n" + MINIMAL, "unknown key assignr. Did you mean assignor"),
    (MINIMAL + "formt = 'csv'\n", r"unknown key output\.formt. Did you mean format"),
    ("top = 'ten'\n" + MINIMAL, r"top is 'ten' \(str\), expected a whole number"),
    ("top = true\n" + MINIMAL, "top is True"),
    ("top = -1\n" + MINIMAL, "top is -1, expected 0 or more"),
    ("fleet = 3\n[output]\nlocation = 'a.b'", "fleet is 3 .*expected a table"),
    (MINIMAL + "tables = ['assignment']\n", "output.tables 1 is 'assignment'. Did you mean assignments"),
    ("fail_on = ['reject']\n" + MINIMAL, "fail_on 1 is 'reject'. Did you mean rejected"),
    ("[[group_assignor]]\ngroups = 'x'\n" + MINIMAL, "group_assignor 1: assignor is missing"),
    ("[[group_assignor]]\ngroup = 'x'\n" + MINIMAL, "group_assignor 1: unknown key group. Did you mean groups"),
    (
        MINIMAL.replace("[output]", "tables = { own = 'x.y' }\n[output]"),
        r"unknown key fleet\.tables\.own. Did you mean owned",
    ),
    ("a = ", "isn't valid TOML"),
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    """The key, what was expected, and the nearest right one."""
    with pytest.raises(click.UsageError, match=message):
        settings(tmp_path, text)


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    """A line each, with its place; what is right beside it is not mentioned."""
    text = """
top = "ten"
asignor = "range"
fail_on = ["reject"]
[[group_assignor]]
groups = "a-*"
assignor = "range"
[[group_assignor]]
group = "b-*"
assignor = 3
[fleet]
location = "./fleet"
tables = { own = "x.y" }
[output]
tables = ["assignment_slices", "move"]
"""
    with pytest.raises(click.UsageError) as raised:
        settings(tmp_path, text)
    first, *lines = str(raised.value).splitlines()
    assert first == f"{tmp_path / 'plan.toml'}: 8 faults:"
    assert sorted(line.removeprefix("  - ").partition(". Known")[0] for line in lines) == sorted(
        [
            "group_assignor 2: groups is missing",
            "group_assignor 2: assignor is 3 (int), expected a string",
            "group_assignor 2: unknown key group. Did you mean groups? Known: groups, assignor",
            "fail_on 1 is 'reject'. Did you mean rejected? Known: rejected",
            "top is 'ten' (str), expected a whole number",
            next(line[4:] for line in lines if "fleet.tables.own" in line),
            next(line[4:] for line in lines if "output.tables 2" in line),
            next(line[4:] for line in lines if "unknown key asignor. Did you mean assignor?" in line),
        ]
    )


def test_a_wrong_flag_is_reported_for_the_command_line(tmp_path: Path) -> None:
    """And not of the file."""
    with pytest.raises(click.BadParameter, match="'move' is not one of"):
        settings(tmp_path, MINIMAL, "--output-tables", "move")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Named with the reason."""
    with pytest.raises(click.UsageError, match=r"nothing\.toml: can't be read: No such file"):
        plan.main.parse(["--config", str(tmp_path / "nothing.toml")])
