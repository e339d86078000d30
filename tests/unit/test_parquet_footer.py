"""`stores.parquet_footer` says of columns what pyarrow says, and refuses footers at which pyarrow would end."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from spark_assign.stores.parquet_footer import row_groups

FOLDER = Path(__file__).parents[1] / "fuzz" / "corpus" / "parquet"
COLUMNS = {
    "name": ["a", None, "ä"],
    "number": [1, None, 1 << 60],
    "topics": [["a", None], None, []],
    "inner": [{"x": 1}, {"x": None}, None],
    "rate": [0.5, None, 1.0],
    "flag": [True, None, False],
}


@pytest.mark.parametrize(
    "options",
    [{}, {"write_statistics": False}, {"data_page_version": "2.0", "row_group_size": 2}, {"write_page_index": True}],
)
def test_as_pyarrow_says(tmp_path: Path, options: dict[str, object]) -> None:
    """Names, numbers of values, and nulls, with and without statistics."""
    table = pa.table(COLUMNS | {f"c{number}": [number] * 3 for number in range(40)})
    parquet.write_table(table, tmp_path / "t", **options)
    footer = parquet.read_metadata(tmp_path / "t")
    expected = []
    for group in map(footer.row_group, range(footer.num_row_groups)):
        columns = list(map(group.column, range(group.num_columns)))
        nulls = [each.statistics.null_count if each.is_stats_set else None for each in columns]
        names = [each.path_in_schema.partition(".")[0] for each in columns]
        expected.append(list(zip(names, (each.num_values for each in columns), nulls, strict=True)))
    assert [[(c.name, c.num_values, c.null_count) for c in group] for group in row_groups(tmp_path / "t")] == expected


@pytest.mark.parametrize("kind", ["definition", "repetition"])
def test_a_damaged_histogram_is_passed_over(kind: str) -> None:
    """pyarrow's object of the column would end the process."""
    ((name, count),) = row_groups(FOLDER / f"histogram-of-{kind}-levels")
    assert (name.name, name.num_values, count.num_values) == ("name", 40, 40)


@pytest.mark.parametrize(
    "footer",
    [
        b"\x49\xfc\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # a list of 2^63 structs
        b"\x49\xfc" + b"\xff" * 20,  # a number without an end
        b"\x4c" * 5_000,  # structs in each other
        b"\x49\x1c\x19\x1c\x3c\x56\x01",  # -1 values, and no end
        b"\x45\x02\x05\x08\x02\x00",  # one field twice
        b"\x4b\x00\x00",  # a type that Parquet doesn't use
        b"\x45\x02\x00",  # a number for the row groups
        b"",
    ],
)
def test_damaged_footers(tmp_path: Path, footer: bytes) -> None:
    """Each is a ValueError, at once."""
    (tmp_path / "t").write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match="its footer is damaged"):
        row_groups(tmp_path / "t")


def test_other_files(tmp_path: Path) -> None:
    """A file that isn't Parquet."""
    for content in (b"", b"PAR1", b"name,count\n" * 9):
        (tmp_path / "t").write_bytes(content)
        with pytest.raises(ValueError, match="it is not a Parquet file"):
            row_groups(tmp_path / "t")
