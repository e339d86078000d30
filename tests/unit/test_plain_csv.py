"""Which csv files are known to parse without Spark. What is not plain is no fault: Spark is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import ArrayType, BooleanType, DataType, DoubleType, IntegerType, LongType, StringType

from spark_assign.stores.typed_text import is_plain
from spark_assign.tables.groups import INPUT_TABLES

SAMPLE = Path(__file__).parents[2] / "conf" / "sample-fleet"
INTS = ArrayType(IntegerType())


@pytest.mark.parametrize("table", [name for name in INPUT_TABLES if (SAMPLE / f"{name}.csv").exists()])
def test_the_sample_is_plain(table: str) -> None:
    """As snapshots write it."""
    file = SAMPLE / f"{table}.csv"
    types = {field.name: field.dataType for field in INPUT_TABLES[table]}
    header = file.read_text().splitlines()[0].replace('"', "").split(",")
    assert is_plain(str(file), [types.get(name, StringType()) for name in header])


@pytest.mark.parametrize(
    ("kind", "plain", "other"),
    [
        (IntegerType(), ["0", "-5", "999999999", '"7"', "", '""'], ["x", "1.5", " 1", "2147483648", "0x1", "\u0661"]),
        (LongType(), ["999999999999999999"], ["9223372036854775807", "1e3"]),
        (BooleanType(), ["true", '"false"', ""], ["TRUE", "yes", "truefalse"]),
        (INTS, ["1", '"1,2,3"', '"[1, 2]"', "", '""'], ['"1,x"', '"1,,2"', "[]", '"[1"3', "1 2"]),
        (StringType(), ["x", " ", '"a, b"', "ü", '""'], ['"a ""b"""', 'a"b', '"open', "a\rb", "a\0b", "a,b"]),
        (DoubleType(), [], ["1.5", ""]),
    ],
    ids=str,
)
def test_fields(tmp_path: Path, kind: DataType, plain: list[str], other: list[str]) -> None:
    """Between two others, so that a field more or less is seen."""
    file = tmp_path / "table.csv"
    for is_so, fields in ((True, plain), (False, other)):
        for field in fields:
            file.write_text(f"a,b,c\nx,{field},1\n", newline="")
            assert is_plain(str(file), [StringType(), kind, IntegerType()]) is is_so, field


@pytest.mark.parametrize("rows", ["x\n", "x,1,2\n", "x,1\n\ny,2\n", "x,1\r\n", "x,1\n\n"])
def test_rows(tmp_path: Path, rows: str) -> None:
    """A field too few or too many, empty lines, and line ends of other systems."""
    file = tmp_path / "table.csv"
    file.write_text(f"a,b\n{rows}", newline="")
    assert not is_plain(str(file), [StringType(), IntegerType()])


def test_files(tmp_path: Path) -> None:
    """Without rows, without an end of the last line; not there, not UTF-8, large."""
    kinds = [StringType(), IntegerType()]
    file = tmp_path / "table.csv"
    for text in ("a,b", "a,b\n", "a,b\nx,1", "a,b\nx,1\n"):
        file.write_text(text)
        assert is_plain(str(file), kinds), text
    assert not is_plain(str(tmp_path / "none.csv"), kinds)
    file.write_bytes(b"a,b\n\xff,1\n")
    assert not is_plain(str(file), kinds)
    file.write_text("a,b\n" + "x,1\n" * 1_100_000)
    assert not is_plain(str(file), kinds)
