"""Settings of the plan job: what is accepted, what wins, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_assign.cli import plan_settings
from spark_assign.tables.errors import ConfigError
from spark_assign.tables.stored_plan import STORED_PLAN_TABLES
from tests.cases import cases

MINIMAL = '[fleet]\nlocation = "./fleet"\n[output]\nlocation = "cat.schema"\n'


def settings(tmp_path: Path, text: str, **flags: object) -> plan_settings.PlanSettings:
    """Settings from a file with this text."""
    file = tmp_path / "plan.toml"
    file.write_text(text)
    return plan_settings.load(file, flags)


def test_the_shipped_file_is_valid_and_plans_every_group_of_the_sample() -> None:
    """conf/plan.toml is the documentation, so it must load."""
    root = Path(__file__).parents[2]
    shipped = plan_settings.load(root / "conf" / "plan.toml")
    assert shipped.fleet.location == str(root / "conf" / "sample-fleet")
    assert shipped == plan_settings.load(None, {"fleet": {"location": shipped.fleet.location}}), "it says the defaults"
    assert (shipped.output.location, shipped.choice) == ("output/plan", "configured")
    assert set(shipped.output.tables) == set(STORED_PLAN_TABLES)


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
    shown = settings(tmp_path, "\n".join(top))
    assert shown.fail_on == ("rejected",)
    assert set(shown.output.tables) == {"assignment_slices", "moves", "metrics", "rejected"}
    assert shown.fleet.options == {"sep": ";"}


def test_paths_start_from_the_file_and_catalog_names_stay(tmp_path: Path) -> None:
    """A settings file works wherever it is called from."""
    loaded = settings(tmp_path, MINIMAL.replace("[output]", 'tables = { owned = "../x", brokers = "a.b" }\n[output]'))
    assert loaded.fleet.location == str(tmp_path / "fleet")
    assert loaded.fleet.tables == {"owned": str(tmp_path.parent / "x"), "brokers": "a.b"}
    assert loaded.output.location == "cat.schema"


def test_flags_win_and_a_location_takes_its_table_along(tmp_path: Path) -> None:
    """Format and options belong to a location: they go with it."""
    text = MINIMAL.replace("[output]", 'format = "delta"\n[output]') + 'format = "json"\n'
    kept = settings(tmp_path, "top = 3\n" + text, top=5, fleet={"location": None, "format": "csv"})
    assert (kept.top, kept.fleet.format, kept.fleet.location) == (5, "csv", str(tmp_path / "fleet"))
    moved = settings(tmp_path, text, fleet={"location": "x/y"}, output={"location": None})
    assert (moved.fleet.location, moved.fleet.format) == ("x/y", None)
    assert moved.output.format == "json"


def test_patterns_keep_their_order_and_end_with_the_assignor(tmp_path: Path) -> None:
    """The command line's first, then the file's, then everything else."""
    text = 'assignor = "configured"\n[[group_assignor]]\ngroups = "a-*"\nassignor = "range"\n' + MINIMAL
    loaded = settings(tmp_path, text, group_assignor=[{"groups": "b-*", "assignor": "roundrobin"}])
    assert isinstance(loaded.choice, dict)
    assert list(loaded.choice.items()) == [("b-*", "roundrobin"), ("a-*", "range"), ("*", "configured")]


@cases(
    "text message",
    ("assignr = 'range'\n" + MINIMAL, "unknown key assignr. Did you mean assignor"),
    (MINIMAL + "formt = 'csv'\n", r"unknown key output\.formt. Did you mean format"),
    ("top = 'ten'\n" + MINIMAL, r"top is 'ten' \(str\), expected a whole number"),
    ("top = true\n" + MINIMAL, "top is True"),
    ("top = -1\n" + MINIMAL, "top is -1, expected 0 or more"),
    ("fleet = 3\n[output]\nlocation = 'a.b'", "fleet is 3 .*expected a table"),
    ("[output]\nlocation = 'a.b'", "No fleet given. Use --fleet"),
    (MINIMAL + "tables = ['assignment']\n", "output.tables 1 is 'assignment'. Did you mean assignments"),
    (MINIMAL + "tables = 'assignment_slices'\n", "expected a list of strings"),
    ("fail_on = ['reject']\n" + MINIMAL, "fail_on 1 is 'reject'. Did you mean rejected"),
    ("[[group_assignor]]\ngroups = 'x'\n" + MINIMAL, "group_assignor 1: assignor is missing"),
    ("[[group_assignor]]\ngroup = 'x'\n" + MINIMAL, "group_assignor 1: unknown key group. Did you mean groups"),
    (
        MINIMAL.replace("[output]", "options = { n = 1 }\n[output]"),
        r"fleet\.options\.n is 1 \(int\), expected a string",
    ),
    (
        MINIMAL.replace("[output]", "tables = { own = 'x.y' }\n[output]"),
        r"unknown key fleet\.tables\.own. Did you mean owned",
    ),
    ("a = ", "isn't valid TOML"),
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    """The key, what was expected, and the nearest right one."""
    with pytest.raises(ConfigError, match=message):
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
    with pytest.raises(ConfigError) as raised:
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
    with pytest.raises(ConfigError, match=r"^the command line: output.tables 1 is 'move'. Did you mean moves"):
        settings(tmp_path, MINIMAL, output={"tables": ["move"]})


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Named with the reason."""
    with pytest.raises(ConfigError, match=r"nothing\.toml: can't be read: No such file"):
        plan_settings.load(tmp_path / "nothing.toml")
