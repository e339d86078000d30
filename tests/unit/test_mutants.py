"""What the mutation runs count and know; the runs themselves are made by hand (docs/mutants.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mutation import figures, known, page

RULES = '[[rule]]\nname = "n"\nchange = "(?P<a>.*)min(?P<b>.*) => (?P=a)max(?P=b)"\nwhy = "w"\n'
ONE = '[[known]]\nfile = "f"\nfunction = "g"\nwas = "a < b"\nbecomes = "a <= b"\nkind = "{}"\nwhy = "{}"\n'


def test_the_page_says_what_is_known() -> None:
    """It is written, not kept by hand; every file it names is there."""
    register = known.read()
    assert page.FILE.read_text(encoding="utf-8") == page.rendered(register), "mutation/mutants --page"
    root = Path(__file__).parents[2]
    assert [each.key for each in register.known if not (root / each.key[0]).exists()] == []


def test_known_mutants_are_of_code_that_is_there() -> None:
    """A mutant of lines that have changed isn't known any more. Line breaks, and commas before them, don't matter."""

    def compact(text: str) -> str:
        return re.sub(r"[\s,]", "", text)

    for file, function, was, *_ in (each.key for each in known.read().known):
        text = (Path(__file__).parents[2] / file).read_text(encoding="utf-8")
        assert compact(was) in compact(text), (file, was)
        assert all(re.search(rf"\b(class|def) {name}\b", text) for name in function.split(".") if name), (
            file,
            function,
        )


def test_the_interval_is_wilsons() -> None:
    """As tables have it; equivalent mutants are in neither count."""
    counted = figures.of(["killed"] * 81 + ["survived"] * 13 + ["not reached"] * 6 + ["equivalent"] * 50)
    assert (counted.counted, counted.share) == (100, 0.81)
    assert counted.interval() == pytest.approx((0.7222, 0.8749), abs=1e-4)
    assert figures.of([]).interval() == (0.0, 1.0)
    low, high = figures.of(["killed"] * 10).interval()
    assert (low, high) == pytest.approx((0.7225, 1.0), abs=1e-4)


def test_a_mutant_is_known_by_its_lines(tmp_path: Path) -> None:
    """One by one, or by a rule; the second that reads the same is another."""
    file = tmp_path / "known.toml"
    file.write_text(RULES + ONE.format("left", "why not"))
    register = known.read(file)
    assert register.about(("f", "g", "a < b", "a <= b", 0)) == ("left", "why not")
    assert register.about(("f", "g", "a < b", "a <= b", 1)) is None
    assert register.about(("f", "", "x = min(1, y)", "x = max(1, y)", 3)) == ("equivalent", "w")
    assert register.about(("f", "", "x = min(1, y)", "x = max(2, y)", 3)) is None


@pytest.mark.parametrize("spoiled", [ONE.format("left", " "), ONE.format("unknown", "w"), ONE.format("left", "w") * 2])
def test_a_survivor_without_a_reason_is_refused(tmp_path: Path, spoiled: str) -> None:
    """Nothing is set aside silently, nor twice."""
    file = tmp_path / "known.toml"
    file.write_text(spoiled)
    with pytest.raises(ValueError, match=r"known\.toml"):
        known.read(file)
