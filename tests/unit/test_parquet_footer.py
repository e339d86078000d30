"""`stores.parquet_footer` says of columns what pyarrow says, and refuses footers at which pyarrow would end."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql.types import StringType

from spark_assign.spark.dataframes import spark_type
from spark_assign.stores.local_tables import LocalFile, TextCheck, batches, parquet_pieces, schema_of
from spark_assign.stores.parquet_footer import ColumnFacts, row_groups
from spark_assign.stores.targets import count_rows

FOLDER = Path(__file__).parents[1] / "fuzz" / "corpus" / "parquet"
COLUMNS = {
    "name": ["a", None, "ä"],
    "number": [1, None, 1 << 60],
    "topics": [["a", None], None, []],
    "inner": [{"x": 1}, {"x": None}, None],
    "rate": [0.5, None, 1.0],
    "flag": [True, None, False],
}


def facts(file: Path) -> list[list[ColumnFacts]]:
    """The columns of a file's row groups."""
    return row_groups(file, parquet.read_metadata(file))


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
    assert [[(c.name, c.num_values, c.null_count) for c in group] for group in facts(tmp_path / "t")] == expected


@pytest.mark.parametrize("kind", ["definition", "repetition"])
def test_a_damaged_histogram_is_passed_over(kind: str) -> None:
    """pyarrow's object of the column would end the process."""
    ((name, count),) = facts(FOLDER / f"histogram-of-{kind}-levels")
    assert (name.name, name.num_values, count.num_values) == ("name", 40, 40)


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("more-columns-than-the-schema", "the numbers of columns differ"),
        ("fewer-rows-in-a-group", "the numbers of rows differ"),
        ("no-values", "0 values of name in 40 rows"),
        ("negative-sizes", "-1 values of name in 40 rows"),
        ("nothing-compressed", "row group 0 has 0 of 40 rows"),
    ],
)
def test_no_row_is_lost(file: str, problem: str) -> None:
    """pyarrow would end the process, or read fewer rows without a word."""
    with pytest.raises(ValueError, match=problem):
        list(batches(str(FOLDER / file), ["name", "count"]))


def test_each_byte_of_a_footer(tmp_path: Path) -> None:
    """One changed byte is an error, or changes no number of rows; a stored table has the same number."""
    parquet.write_table(pa.table({"name": ["a", "b"] * 20}), tmp_path / "t", store_schema=False)
    data = (tmp_path / "t").read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    (tmp_path / "table").mkdir()
    for at in range(start, len(data) - 8):
        changed = bytearray(data)
        changed[at] ^= 0x50
        (tmp_path / "table" / "t").write_bytes(changed)
        with suppress(ValueError, OSError, pa.ArrowException):
            names = parquet.ParquetFile(tmp_path / "table" / "t").schema_arrow.names
            assert sum(map(len, batches(str(tmp_path / "table" / "t"), names))) == 40
        assert count_rows(tmp_path / "table") in (40, None)


def test_encodings_without_dictionaries(tmp_path: Path) -> None:
    """They are named, as pyarrow reads them only in a way that has no limit of memory."""
    for encoding in ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"):
        table = pa.table({"name": ["a"]})
        parquet.write_table(table, tmp_path / "t", use_dictionary=False, column_encoding={"name": encoding})
        with pytest.raises(ValueError, match=f"name has the encoding {encoding}, use a dictionary or PLAIN"):
            list(batches(str(tmp_path / "t"), ["name"]))


def test_columns_of_other_writers(tmp_path: Path) -> None:
    """Maps are read, nanoseconds are cut as in Spark, and text that isn't UTF-8 is named with its column and rows."""
    pairs = pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string()))
    times = pa.array([1_700_000_000_123_456_789], pa.timestamp("ns"))
    views = pa.array(["g"], pa.string_view())
    parquet.write_table(pa.table({"labels": pairs, "at": times, "name": views}), tmp_path / "t")
    assert spark_type(schema_of(str(tmp_path / "t")).field("name").type) == StringType()
    schema = pa.schema([("at", pa.timestamp("us")), ("name", pa.string())])
    (piece,) = parquet_pieces(LocalFile(str(tmp_path / "t")), schema)
    integers = piece.cast(pa.schema([("at", pa.int64()), ("name", pa.string())]))
    assert integers.to_pydict() == {"at": [1_700_000_000_123_456], "name": ["g"]}
    dates = pa.table({"at": pa.array([20_000], pa.date32()), "name": ["g"]})
    parquet.write_table(dates.append_column("labels", pairs), tmp_path / "t")
    (piece,) = parquet_pieces(LocalFile(str(tmp_path / "t")), schema)
    assert piece["at"].cast(pa.int64()).to_pylist() == [20_000 * 86_400_000_000]
    (rows,) = batches(str(tmp_path / "t"), ["labels"], TextCheck(0, ""))
    assert rows.to_pylist() == [{"labels": [("a", "b")]}]
    wrong = pa.array([b"a", b"\xff"]).view(pa.string())
    parquet.write_table(pa.table({"name": wrong}), tmp_path / "t")
    with pytest.raises(ValueError, match=r"name, rows 1 to 2 of row group 0: .*UTF"):
        list(batches(str(tmp_path / "t"), ["name"]))


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
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "t")
    metadata = parquet.read_metadata(tmp_path / "t")
    (tmp_path / "t").write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match="its footer "):
        row_groups(tmp_path / "t", metadata)
