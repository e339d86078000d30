"""Reading csv and JSON-lines files without Spark: what a value is, and what is a fault with table, file and row."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import os
import random
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_assign.sources.files import tables
from spark_assign.spark.dataframes import union
from spark_assign.stores import local_tables, local_text
from spark_assign.stores.local_text import parse_column, read_csv_file, read_header, read_json_document, read_json_file
from spark_assign.stores.locations import FileFaults, UnreadableFileError
from spark_assign.stores.targets import count_rows, has_no_null
from spark_assign.tables.connect import STATE
from spark_assign.tables.errors import SourceError
from spark_assign.tables.schema_fields import schema
from tests.cases import cases

SCHEMA = StructType(
    [
        StructField("name", StringType()),
        StructField("count", IntegerType()),
        StructField("replicas", ArrayType(IntegerType())),
        StructField("rate", DoubleType()),
    ]
)
INVALID = object()
QUOTE = "t: a quote that isn't closed, or isn't doubled (\"\"), or is in a field without quotes"


def read(folder: Path, content: bytes, file: str = "t.csv", schema: StructType = SCHEMA) -> list[dict[str, object]]:
    """Returns the rows of a file with this content; raises what its faults are."""
    path = folder / file
    path.write_bytes(content)
    faults = FileFaults()
    if ".csv" in file:
        tables = list(read_csv_file("t", str(path), read_header(str(path)), schema, faults))
    else:
        tables = list(read_json_file("t", str(path), schema, faults))
    faults.verify()
    return [row for table in tables for row in table.to_pylist()]


def faults_of(folder: Path, content: bytes, file: str = "t.csv") -> list[str]:
    """Returns the faults of a file, one each line."""
    with pytest.raises(SourceError) as error:
        read(folder, content, file)
    return [line.removeprefix("  - ") for line in str(error.value).split("\n")[1:]]


def parsed(texts: list[str | None], kind: DataType) -> list[object]:
    """Returns values of a column, or INVALID."""
    values, is_bad = parse_column(pa.array(texts, pa.string()), kind)
    bad = [False] * len(texts) if is_bad is None else is_bad.to_pylist()
    return [INVALID if wrong else value for value, wrong in zip(values.to_pylist(), bad, strict=True)]


# --- values --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "valid", "invalid"),
    [
        (
            IntegerType(),
            {
                "0": 0,
                "-5": -5,
                "+7": 7,
                " 8\t": 8,
                "007": 7,
                "2147483647": 2147483647,
                "-2147483648": -(2**31),
                "": None,
            },
            ["x", "1.5", "1e3", "2147483648", "0x1", "\u0661", "1 2", "-", "9" * 5000, "\t"],
        ),
        (LongType(), {"9223372036854775807": 2**63 - 1, " ": None}, ["9223372036854775808", "1.0", "1_000"]),
        (BooleanType(), {"true": True, "FALSE": False, " yes": True, "0": False, "": None}, ["2", "truefalse", "on"]),
        (DoubleType(), {"1.5": 1.5, "1e3": 1000.0, "-.5": -0.5, "inf": float("inf"), "2f": 2.0}, ["1,5", "0x1", "1_0"]),
        (
            ArrayType(IntegerType()),
            {"1": [1], "1,2,3": [1, 2, 3], "[1, 2]": [1, 2], "": [], "[]": [], " [ ] ": [], None: None},
            ["1,x", "1,,2", "1;2", "99999999999"],
        ),
        (
            ArrayType(StringType()),
            {"a,b": ["a", "b"], '["a","b,c"]': ["a", "b,c"], "[]": [], '["x", 5]': ["x", "5"], ' \t["a"] ': ["a"]},
            ['["a', "[null]", " [a]"],
        ),
        (TimestampType(), {}, ["2026-11-23T12:00:00", "yesterday"]),
    ],
    ids=str,
)
def test_values(kind: DataType, valid: dict[str | None, object], invalid: list[str]) -> None:
    """Alone, and in one column, so that neither parser has a chance to differ from the other."""
    for text, value in valid.items():
        assert parsed([text], kind) == [value], text
    for text in invalid:
        assert parsed([text], kind) == [INVALID], text
    both = [*valid, *invalid]
    assert parsed(both, kind) == [*valid.values(), *([INVALID] * len(invalid))]


def test_times() -> None:
    """With an offset from UTC; a time without one could mean any."""
    [found] = parsed(["2026-11-23T12:00:00.5+02:00"], TimestampType())
    assert found.isoformat() == "2026-11-23T10:00:00.500000+00:00"  # type: ignore[attr-defined]


# --- csv -----------------------------------------------------------------------------------------------------------


def test_the_dialect(tmp_path: Path) -> None:
    """Columns in any order, others as text; nulls and empty strings; quotes; line ends in quotes; a byte order mark."""
    text = '\ufeffcount,"note",name\r\n1,"said ""hi"", left",a\r\n\r\n,,""\r\n 2 ,"two\nlines", b\n'
    assert read(tmp_path, text.encode()) == [
        {"count": 1, "note": 'said "hi", left', "name": "a"},
        {"count": None, "note": None, "name": ""},
        {"count": 2, "note": "two\nlines", "name": " b"},
    ]
    assert read(tmp_path, b"name,count\rx,1\ry,2") == [{"name": "x", "count": 1}, {"name": "y", "count": 2}]
    assert read(tmp_path, b"name") == read(tmp_path, b"name\n\n") == []


@pytest.mark.parametrize("size", [1, 7, 64, 1 << 20])
def test_pieces_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, seed: int) -> None:
    """As Python's reader reads it, wherever a piece of the file ends."""
    monkeypatch.setattr(local_text.pieces, "__kwdefaults__", {"size": size})
    random_ = random.Random(seed)
    rows = [["".join(random_.choices('ab,"\n\r é', k=random_.randrange(1, 6))) for _ in range(3)] for _ in range(40)]
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_MINIMAL).writerows([["x", "y", "z"], *rows])
    found = read(tmp_path, text.getvalue().encode())
    assert [list(row.values()) for row in found] == rows


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"name,count\na,1\nb,two\n", 't.count: "two" is not a valid int, in t.csv: name=b, count=two (row 2)'),
        (b"name,count\na,1\nb\n", "t: the row does not have 2 fields, in t.csv: b (row 2)"),
        (b"name,count\na,1,2\n", "t: the row does not have 2 fields, in t.csv: a,1,2 (row 1)"),
        (
            b"name,count\na,1\ncaf\xe9,2\n",
            r't.name: "caf\xe9" is not UTF-8. Save the file as UTF-8, in t.csv: name=caf\xe9, count=2 (row 2)',
        ),
        (
            b'name,count\na,1\nx"y,2\n',
            f'{QUOTE}, in t.csv: x"y,2 (row 2)',
        ),
        (
            b'name,count\n"x"y,2\n',
            f'{QUOTE}, in t.csv: "x"y,2 (row 1)',
        ),
        (
            b'name,count\n"a""b",1\n"x,2\ny,3\n',
            f'{QUOTE}, in t.csv: "x,2 (row 2)',
        ),
    ],
)
def test_faults_of_csv(tmp_path: Path, content: bytes, fault: str) -> None:
    """Each with its table, value, file, and row."""
    assert faults_of(tmp_path, content) == [fault]


def test_a_few_faults_are_displayed(tmp_path: Path) -> None:
    """In the order of the rows; long ones are cut."""
    found = faults_of(tmp_path, b"name,count\n" + b"a,x\n" * 30_000)
    assert len(found) == 6
    assert [line[-7:] for line in found[:5]] == [f"(row {row})" for row in range(1, 6)]
    assert found[5] == "… and more"
    [line] = faults_of(tmp_path, b"name,count\n" + b"a" * 100_000 + b"," + b"x" * 100_000 + b"\n")
    assert len(line) < 1000


def unreadable(folder: Path, content: bytes, file: str = "t.csv") -> str:
    """Returns why a file can't be read at all."""
    with pytest.raises(UnreadableFileError) as error:
        read(folder, content, file)
    return f"{error.value.problem}. {error.value.remedy}"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Compressed ones that end early or aren't; two columns of one name; another encoding; no end of a row."""
    long = "\n".join(map(str, range(10_000))).encode()
    for suffix, compress in ((".gz", gzip.compress), (".bz2", bz2.compress)):
        whole = compress(b"name\n" + long)
        assert len(read(tmp_path, whole, f"t.csv{suffix}")) == 10_000
        assert len(read(tmp_path, whole + compress(b"\nx\n"), f"t.csv{suffix}")) == 10_001
        assert unreadable(tmp_path, whole[:-100], f"t.csv{suffix}").startswith("truncated compressed stream. Copy")
        assert "fix its name" in unreadable(tmp_path, b"name\nx\n", f"t.csv{suffix}")
    assert unreadable(tmp_path, b"name,Name\n") == "the header has the column Name twice. Remove or rename one of them"
    for marked in ("\ufeffname\nx\n".encode(encoding) for encoding in ("utf-32-le", "utf-32-be")):
        assert unreadable(tmp_path, marked) == "it is UTF-32. Save the file as UTF-8"
    assert unreadable(tmp_path, "name\nx\n".encode("utf-16")) == "it is UTF-16. Save the file as UTF-8"
    assert unreadable(tmp_path, b"caf\xe9\nx\n") == "the header is not UTF-8. Save the file as UTF-8"
    assert unreadable(tmp_path, b'"name\nx\n').startswith("the header isn't csv")
    assert unreadable(tmp_path, b"," * 1_000_000).startswith("the header has more than 1,000 columns.")
    with pytest.raises(UnreadableFileError, match="no such file or directory"):
        read_header(str(tmp_path / "none.csv"))


def test_a_row_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded."""
    monkeypatch.setattr(local_text, "_MAX_RECORD_BYTES", 1000)
    monkeypatch.setattr(local_text.pieces, "__kwdefaults__", {"size": 100})
    assert unreadable(tmp_path, b'name\n"' + b"x\n" * 1000) == "a row has more than 1,000 bytes. Close the quote"
    monkeypatch.setattr(local_text, "_MAX_DOCUMENT_BYTES", 1000)
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(b"[\n" * 1000))
    with pytest.raises(UnreadableFileError, match="a document has more than 1,000 bytes"):
        list(read_json_document("t", str(tmp_path / "t.json.gz"), SCHEMA, FileFaults()))


@pytest.mark.parametrize("name", ["t.csv", "t.json"])
def test_a_small_file_of_blank_lines_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It ends before it takes long; a file that isn't compressed has the size that it shows."""
    blank = (b"name\n" if name == "t.csv" else b'{"name":"a"}\n') + b"\n" * 30_000
    monkeypatch.setattr(local_text, "_MIN_DECOMPRESSED", 20_000)
    assert len(read(tmp_path, blank, name)) == (name == "t.json")
    problem = "decompressed, it has more than 64,000 bytes, 1,000 times its size or more. Remove blank"
    monkeypatch.setattr(local_text.pieces, "__kwdefaults__", {"size": 1000})
    assert len(read(tmp_path, gzip.compress(blank), f"{name}.gz")) == (name == "t.json")
    content = bz2.compress(blank * 40)
    limit = f"{max(20_000, 1_000 * len(content)):,}"
    assert unreadable(tmp_path, content, f"{name}.bz2").startswith(problem.replace("64,000", limit))


def test_a_file_that_starts_with_pieces_of_blank_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its header is the first line with text; its rows aren't dropped as those of an empty file would be."""
    monkeypatch.setattr(local_text, "_HEADER_BYTES", 1000)
    monkeypatch.setattr(local_text.pieces, "__kwdefaults__", {"size": 1000})
    blank = b"\r\n" * 5_000
    assert [row["name"] for row in read(tmp_path, blank + b"name\nx\n" + blank + b"y\n")] == ["x", "y"]
    assert read(tmp_path, blank + b"name") == []


def test_a_small_file_that_becomes_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows are read when the table is computed, not at once."""
    parquet.write_table(pa.table({"name": ["x" * 1_000] * 10}), tmp_path / "t.parquet")
    made = Mock()
    monkeypatch.setattr(local_tables, "dataframe_of", made)
    for most, column in ((1 << 20, "name"), (5_000, "number")):
        monkeypatch.setattr(local_tables, "MAX_EXPANDED_BYTES", most)
        local_tables._read_files(Mock(), local_tables.list_files([str(tmp_path)]), StructType(SCHEMA.fields[:1]))
        assert made.call_args.args[1].column_names == [column]


# --- JSON ----------------------------------------------------------------------------------------------------------


def test_json_lines(tmp_path: Path) -> None:
    """Missing and unknown fields, empty lines; and with a value that Arrow leaves to Python."""
    lines = b'\xef\xbb\xbf{"name":"a","count":-1,"replicas":[1,2],"rate":1,"more":{"x":[1,{}]}}\r\n\n  \n{"rate":1e3}\n'
    expected = [
        {"name": "a", "count": -1, "replicas": [1, 2], "rate": 1.0},
        {"name": None, "count": None, "replicas": None, "rate": 1000.0},
    ]
    assert read(tmp_path, lines, "t.json") == expected
    with_number = lines + b'{"name":1.10,"rate":"Infinity"}'
    more = {"name": "1.10", "count": None, "replicas": None, "rate": float("inf")}
    assert read(tmp_path, with_number, "t.json") == [*expected, more]
    assert read(tmp_path, b"", "t.json") == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'{"count":"3"}', 't.count: "3" is not a valid int'),
        (b'{"count":2.0}', "t.count: 2.0 is not a valid int"),
        (b'{"count":2147483648}', "t.count: 2147483648 is not a valid int"),
        (b'{"count":true}', "t.count: true is not a valid int"),
        (b'{"rate":"5"}', 't.rate: "5" is not a valid double'),
        (b'{"replicas":[1,"x"]}', 't.replicas: [1,"x"] is not a list of ints (1,2,3)'),
        (b'{"replicas":3}', "t.replicas: 3 is not a list of ints (1,2,3)"),
        (b'{"count":1,"count":2}', "t.count: the row has it more than once. Leave one"),
        (rb'{"name":"\ud800"}', "t.name: half of a surrogate pair isn't a character. Save the file as UTF-8"),
        (b'{"name":"caf\xe9"}', "t: the row is not UTF-8. Save the file as UTF-8"),
        (b"not json", "t: not a json object"),
        (b"null", "t: not a json object"),
        (b'{"count":1}null', "t: not a json object"),
        (b'{"count":1}{"count":2}', "t: not a json object"),
        (b'[{"count":1}]', "t: not a json object. Write one object per line, without an array around them"),
        *(
            (
                b'{"%s":%s}' % (name, b"[" * 600 + b"]" * 600),
                f"t.{name.decode()}: what is nested too deeply is not {text}",
            )
            for name, text in ((b"name", "a valid string"), (b"count", "a valid int"))
        ),
        (b'{"name":' + b"[" * 100_000, "t: the row is nested too deeply. Write one JSON object per line"),
    ],
)
def test_faults_of_json(tmp_path: Path, line: bytes, fault: str) -> None:
    """Of the second row, with its table, value, file, and row."""
    [found] = faults_of(tmp_path, b'{"name":"a"}\n' + line + b"\n", "t.json")
    assert found.startswith(f"{fault}, in t.json: ")
    assert found.endswith(" (row 2)")


def test_both_json_parsers_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Arrow's, for plain rows, and Python's, for all others."""
    random_ = random.Random(seed)
    values = {
        "name": [None, "", "a", "é\u2028", "😀", '"\\/\b'],
        "count": [None, 0, -1, 2**31 - 1],
        "replicas": [None, [], [1, None, 3]],
        "rate": [None, 0, 1.5, 1e300, -0.0, 0.1],
        "other": [None, {"a": [1]}, "x"],
    }
    rows = [{name: random_.choice(each) for name, each in values.items() if random_.random() < 0.8} for _ in range(300)]
    content = "\n".join(json.dumps(row, ensure_ascii=random_.random() < 0.5) for row in rows).encode()
    by_arrow = read(tmp_path, content, "t.json")
    assert by_arrow == [{name: row.get(name) for name in SCHEMA.names} for row in rows]
    monkeypatch.setattr(local_text, "_parse_plain_json", lambda *_: None)
    assert read(tmp_path, content, "t.json") == by_arrow


def test_lists_of_structs(tmp_path: Path) -> None:
    """As a snapshot of Connect writes them, in csv and in JSON."""
    items = '[{"kind":"task","connector":"files","task":0},{"kind":"connector","connector":"a, b"}]'
    expected = [
        {"kind": "task", "connector": "files", "task": 0},
        {"kind": "connector", "connector": "a, b", "task": None},
    ]
    quoted = items.replace('"', '""')
    [row] = read(tmp_path, f'connect_cluster,assignment\nc,"{quoted}"\n'.encode(), schema=STATE)
    assert row["assignment"] == expected
    [row] = read(tmp_path, f'{{"connect_cluster":"c","assignment":{items}}}'.encode(), "t.json", STATE)
    assert row["assignment"] == expected


def test_documents(tmp_path: Path) -> None:
    """An object in several lines, or an array of objects."""
    path = tmp_path / "snapshot.json"
    for text, counts in (('{\n "count": 1\n}\n', [1]), ('[{"count": 1},\n{"count": 2}]', [1, 2])):
        path.write_text(text)
        [rows] = read_json_document("t", str(path), SCHEMA, FileFaults())
        assert rows["count"].to_pylist() == counts
    for content, message in (
        (b"{", "it isn't JSON"),
        (b'{"count":"x"}', '"x" is not a valid int'),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"name":"\xff"}', "not UTF-8"),
    ):
        path.write_bytes(content)
        faults = FileFaults()
        assert list(read_json_document("t", str(path), SCHEMA, faults)) == []
        with pytest.raises(SourceError, match=message):
            faults.verify()


@cases("name most", ("a=1/b=2", 1_000_000), ("a=1/../a=1/c", 1_000_000), ("", 0))
def test_a_folder_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    """Links in a circle, as in /proc/self, and too many files are wrong input in every folder that is listed."""
    (tmp_path / "a=1").mkdir()
    (tmp_path / "a=1" / "x.csv").touch()
    assert list(local_tables.walk(str(tmp_path))) == ["a=1/x.csv"]
    monkeypatch.setattr(local_tables, "MAX_ENTRIES", most)
    if name:
        (tmp_path / name).symlink_to(tmp_path)
    for listed in (local_tables.walk, lambda folder: local_tables.list_files([folder])):
        with pytest.raises(SourceError, match=r"has more than [\d,]+ files and folders, or more than 16 in each other"):
            list(listed(str(tmp_path)))


def test_a_folder_in_a_table_is_not_passed_over(tmp_path: Path) -> None:
    """Spark, and this package before, read only the files beside it."""
    (tmp_path / "a=1" / "2026").mkdir(parents=True)
    (tmp_path / "a=1" / "x.csv").touch()
    assert [file.partition for file in local_tables.list_files([str(tmp_path)])] == [{"a": "1"}]
    (tmp_path / "a=1" / "2026" / "y.csv").touch()
    with pytest.raises(SourceError, match=r"has files in 2026, a folder that isn't one of a partition \(name=value\)"):
        local_tables.list_files([str(tmp_path)])


@cases(
    "name problem",
    ("a=%ff", "a=%ff, whose name isn't UTF-8. Rename it"),
    ("a=%ED%A0%80", "a=%ED%A0%80, whose name isn't UTF-8. Rename it"),
    ("a=\udcff", r"a=\udcff, whose name isn't UTF-8. Rename it"),
    ("\udcff=a", r"\udcff=a, whose name isn't UTF-8. Rename it"),
    ("a=%zz", "a=%zz, in which % isn't the start of %XX. Write %25 for %"),
    ("a=1/a=2", "a=2 in another one of a. Remove or rename one of them"),
)
def test_two_folders_are_never_one_value(tmp_path: Path, name: str, problem: str) -> None:
    """A name that can't be decoded would have become U+FFFD, and two clusters one."""
    (tmp_path / name).mkdir(parents=True)
    (tmp_path / name / "x.csv").touch()
    with pytest.raises(SourceError) as error:
        local_tables.list_files([str(tmp_path)])
    assert str(error.value).encode(errors="backslashreplace").decode() == f"{tmp_path} has the folder {problem}"


def test_spark_decodes_folders_in_another_way(tmp_path: Path) -> None:
    """Spark reads the two bytes of %C3%A4 as two characters, and every other reader as one."""
    assert local_tables.partition_of("t", "a=%C3%A4/b=%25/x.csv") == {"a": "ä", "b": "%"}
    assert local_tables.partition_of("t", "a=ä/b=%25/x.csv", by_spark=True) == {"a": "ä", "b": "%"}
    with pytest.raises(SourceError, match=r"^t has the folder a=%C3%A4, which Spark reads as other characters, since"):
        local_tables.partition_of("t", "a=%C3%A4/b=%25/x.csv", by_spark=True)


def test_folders_that_only_spark_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of another machine are listed, so that their folders are checked as well."""
    shape = tables.Shape("A fleet", {"topics": SCHEMA}, ())
    monkeypatch.setattr(tables, "_files", lambda spark, location: ["topics/a=%C3%A4/x.csv"])
    with pytest.raises(SourceError, match=r"^s3://b/topics has the folder a=%C3%A4, which Spark reads as other"):
        tables.find_tables(Mock(), shape, "s3://b")
    monkeypatch.setattr(tables, "_files", lambda spark, location: ["a=%ff/x.csv"])
    with pytest.raises(SourceError, match=r"^s3://b/t has the folder a=%ff, "):
        tables.find_tables(Mock(), shape, None, tables={"topics": "s3://b/t"})


def test_tables_in_another_case() -> None:
    """Files of several formats, or that only Spark reads, are one table only then."""
    with pytest.raises(SourceError, match=r"^topics: the column Note differs from another one only in case. Rename"):
        union([Mock(columns=["note"]), Mock(columns=["Note"])], "topics")


@cases(
    "one other problem",
    ("name=a", "NAME=b", "the column NAME is also called name"),
    ("b=1/a=1", "b=1/A=2", "the column A is also called a"),
    ("a=1", "a=1/A=2", "the column A is also called a"),
    ("a=1", "a=2/MEMBER_ID=b", "the column MEMBER_ID is also called member_id"),
)
@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_folders_in_another_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, one: str, other: str, problem: str
) -> None:
    """An engine would end the job with an error of its own, since it ignores case."""
    monkeypatch.setattr(local_tables, "is_embedded", lambda spark: True)
    for folder in (one, other):
        path = tmp_path / folder / f"x.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "parquet":
            parquet.write_table(pa.table({"member_id": ["a"]}), path)
        else:
            path.write_text("member_id\na\n" if kind == "csv" else '{"member_id": "a"}\n')
    faults, columns = FileFaults(), schema("name string?, member_id string")
    if kind == "parquet":
        assert local_tables.read_parquet(Mock(), "t", [str(tmp_path)], faults) is None
    else:
        assert local_tables.read_text(Mock(), "t", columns, kind, [str(tmp_path)], faults) is None
    with pytest.raises(SourceError, match=f"{other}/x.{kind} cannot be read: {problem}. Remove or rename one of them"):
        faults.verify()


def test_columns_of_two_files_in_another_case(tmp_path: Path) -> None:
    """Also of columns that no schema has, and of those beyond the first 50."""
    faults, columns = FileFaults(), schema("name string?, member_id string")
    (tmp_path / "a.csv").write_text("member_id,note\n")
    (tmp_path / "b.csv").write_text("member_id,Note\n")
    (tmp_path / "c.csv").write_text(",".join([*map(str, range(60)), "MEMBER_ID"]) + "\n")
    assert local_tables.read_text(Mock(), "t", columns, "csv", [str(tmp_path)], faults) is None
    with pytest.raises(SourceError) as error:
        faults.verify()
    assert "b.csv cannot be read: the column Note is also called note" in str(error.value)
    assert "c.csv cannot be read: the column MEMBER_ID is also called member_id" in str(error.value)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_has_a_maximum_of_columns(tmp_path: Path, kind: str) -> None:
    """All files together, since the rows of each file get the columns of the others."""
    faults = FileFaults()
    for number in range(3):
        names, path = [f"c{number}_{column}" for column in range(900)], tmp_path / f"{number}.{kind}"
        if kind == "csv":
            path.write_text(",".join(names) + "\n")
        else:
            parquet.write_table(pa.table({name: pa.array([], pa.int8()) for name in names}), path)
    if kind == "csv":
        assert local_tables.read_text(Mock(), "t", StructType(), kind, [str(tmp_path)], faults) is None
    else:
        assert local_tables.read_parquet(Mock(), "t", [str(tmp_path)], faults) is None
    problem = "it and the files before it have more than 2,000 different columns. Write them with"
    with pytest.raises(SourceError, match=rf"2\.{kind} cannot be read: {problem}"):
        faults.verify()


def test_a_key_in_another_case_is_not_passed_over(tmp_path: Path) -> None:
    """Engines ignore the case of a column, readers of JSON don't."""
    problem = "the key Name differs in case from the column name. Rename it"
    assert unreadable(tmp_path, b'{"Name": "a"}\n', "t.json") == problem
    (tmp_path / "t.json").write_bytes(b'[\n{"Name": "a"}]')
    with pytest.raises(UnreadableFileError, match="the key Name differs in case from the column name"):
        list(read_json_document("t", str(tmp_path / "t.json"), SCHEMA, FileFaults()))
    assert read(tmp_path, b'{"Other": "a"}\n', "t.json")[0]["name"] is None


def test_a_long_text_in_a_dictionary_is_not_multiplied_by_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file is read in pieces that are bounded by bytes; what it holds stays the same."""
    text, file = "x" * 10_000, local_tables.LocalFile(str(tmp_path / "t.parquet"))
    structs = [None, [], [{"a": text, "b": 1}], [{"a": None, "b": 2}, {"a": "é", "b": None}]]
    columns = {
        "name": [text, None, "a", "b"] * 1_000,
        "names": [[text, "a"], None, [], [None, ""]] * 1_000,
        "structs": structs * 1_000,
        "bytes": [b"x", None, b"", b"\xff"] * 1_000,
    }
    rows = pa.table(columns)
    parquet.write_table(rows, file.path, row_group_size=1_500, compression="zstd")
    assert Path(file.path).stat().st_size < 100_000
    monkeypatch.setattr(local_tables, "_MAX_BATCH_BYTES", 1_000_000)
    pieces = list(local_tables.parquet_pieces(file, rows.schema))
    assert max(piece.nbytes for piece in pieces) < 1_200_000
    assert pa.concat_tables(pieces).equals(rows)
    monkeypatch.setattr(local_tables, "MAX_EXPANDED_BYTES", 9_999)
    with pytest.raises(SourceError, match=r"t\.parquet cannot be read: a row has more than 9,999 bytes"):
        list(local_tables.parquet_pieces(file, rows.schema))


def test_a_long_text_in_lists_of_a_fixed_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as in other lists."""
    file, texts = local_tables.LocalFile(str(tmp_path / "t.parquet")), ["x" * 10_000, "a"]
    rows = pa.table({"pairs": pa.array([texts, None, ["b", None]] * 100, pa.list_(pa.string(), 2))})
    parquet.write_table(rows, file.path)
    monkeypatch.setattr(local_tables, "_MAX_BATCH_BYTES", 200_000)
    pieces = list(local_tables.parquet_pieces(file, rows.schema))
    assert max(piece.nbytes for piece in pieces) < 220_000
    assert pa.concat_tables(pieces).equals(rows)


def _dictionary(text: str, rows: int = 10) -> pa.Array:
    """Returns a column with one text in every row, of which a Parquet file has one."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"topic": ["t", "x" * 32_767], "n": [1, 2]}, None),
        ({"topic": ["t", "x" * 32_768]}, r"topic of t has 32,768 bytes, and a name has at most 32,767"),
        ({"topics": [["\ufffd" * 32_767]]}, r"topics of t has 98,301 bytes"),
        ({"error": ["x" * 40_000]}, None),
        ({"cleanup_policy": ["x" * (1 << 20)]}, None),
        ({"cleanup_policy": ["x" * 600_000, None, "y" * 600_000]}, "in t have more than 1,048,576 bytes together"),
        ({"error": ["x" * 600_000], "cleanup_policy": ["x" * 600_000]}, "texts of more than 1,000 bytes in t"),
        ({"member_id": ["x" * 1_001], "topics": [["a"] * 1_047]}, None),
        ({"member_id": ["x" * 1_001], "topics": [["a"] * 1_048]}, "1,048,576 bytes together"),
        ({"id": ["x" * 1_000] * 2_000}, None),
    ],
)
def test_texts_that_a_cluster_stores(columns: dict[str, Any], fault: str | None) -> None:
    """As its reader counts them, and so few of each cluster that all together can be read."""
    stored = {"other": pa.table({"topic": [None, "t"]}), "t": pa.table(columns)}
    if fault is None:
        assert local_tables.check_texts("c", stored) is stored
    else:
        with pytest.raises(SourceError, match=rf"c can't be stored: .*{fault}"):
            local_tables.check_texts("c", stored)


NAME_FAULT = r"{} of row {} has 32,768 bytes. A name has at most 32,767: shorten it, or remove the row"
LONG_FAULT = (
    r"texts of more than 1,000 bytes have more than 9,999, those beside lists for each element, "
    r"in all files of the table, at \w+ near row 1\. Shorten"
)


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"member_id": ["a" * 32_767, "é" * 16_384]}, NAME_FAULT.format("member_id", 2)),
        ({"topics": [None, [], ["a", None], ["a", "x" * 32_768]]}, NAME_FAULT.format("topics", 4)),
        ({"topic": _dictionary("x" * 32_768)}, NAME_FAULT.format("topic", 1)),
        ({"assignor": ["range", "x" * 32_768]}, NAME_FAULT.format("assignor", 2)),
        ({"error": _dictionary("x" * 1_001)}, LONG_FAULT),
        ({"states": [[{"connector": "x" * 1_001}] * 10]}, LONG_FAULT),
        ({"member_id": ["m", "x" * 1_001], "topics": [None, ["a"] * 10]}, LONG_FAULT),
        ({"member_ids": [[], ["x" * 1_001]], "topics": [["a"], ["a"] * 10]}, LONG_FAULT),
        ({"member_id": ["x" * 1_001], "topics": pa.array([["a"] * 10], pa.list_(pa.string(), 10))}, LONG_FAULT),
        ({"member_id": ["m", "x" * 1_001], "topics": [["a"] * 10, None], "firsts": [[0] * 9, [0] * 9]}, None),
        ({"error": _dictionary("x" * 1_000, 50), "member_id": ["y" * 9_999] + [None] * 49}, None),
        ({"value": [b"x" * 40_000]}, None),  # less than 64 times the size of the file
        ({"value": [bytes(1_001)] * 1_000}, LONG_FAULT.replace("texts", "binary values")),
        ({"key": [bytes(1_001)] * 4}, None),
    ],
)
def test_texts_that_are_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any], fault: str | None
) -> None:
    """Names of more than 32,767 bytes, also in dictionaries, and long texts of all files of a table together."""
    monkeypatch.setattr(local_tables, "_MAX_LONG_TEXT_BYTES", 9_999)
    number, rows, file = (
        next(local_tables._tables),
        pa.table(columns),
        local_tables.LocalFile(str(tmp_path / "t.parquet")),
    )
    parquet.write_table(rows, file.path)
    assert sum(map(len, local_tables.parquet_pieces(file, rows.schema))) == len(rows)  # a run has stored it
    if fault is None:
        assert sum(map(len, local_tables.parquet_pieces(file, rows.schema, number))) == len(rows)
    else:
        with pytest.raises(SourceError, match=rf"t\.parquet cannot be read: {fault}"):
            list(local_tables.parquet_pieces(file, rows.schema, number))


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view(), pa.binary(1_001), pa.large_string()], ids=str)
def test_texts_of_each_type_are_measured(kind: pa.DataType) -> None:
    """Without a dictionary, as batches of short texts are read, alone and inside of each nested type."""
    text = bytes(1_001) if "binary" in str(kind) else "x" * 1_001
    for value, nested in (
        (text, kind),
        ([text], pa.list_(kind)),
        ([text], pa.list_(kind, 1)),
        ({"a": text}, pa.struct({"a": kind})),
        ([(1, text)], pa.map_(pa.int8(), kind)),
    ):
        column = pa.array([None, value], nested)
        assert [max(filter(None, each.to_pylist())) for each in local_tables._long_lengths(column)] == [1_001], nested


@cases("file text", ("t.csv.gz", "member_id,error\n{0},{1}\n"), ("t.json.gz", '{{"member_id":"{0}","error":"{1}"}}\n'))
def test_long_texts_in_csv_and_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str) -> None:
    """The same, with table, file, column, and row; the long texts of two files count together."""
    monkeypatch.setattr(local_tables, "_MAX_LONG_TEXT_BYTES", 9_999)
    schema = StructType([StructField("member_id", StringType()), StructField("error", StringType())])
    files = [str(tmp_path / f"{number}.{file}") for number in (1, 2)]
    for values, fault in (
        (("x" * 32_768, ""), rf"u: \S+1\.{file} cannot be read: {NAME_FAULT.format('member_id', 1)}"),
        (("x", "y" * 5_000), rf"u: \S+2\.{file} cannot be read: {LONG_FAULT}"),
    ):
        for path in files:
            Path(path).write_bytes(gzip.compress(text.format(*values).encode()))
        faults = FileFaults()
        local_tables.read_text(Mock(), "u", schema, file.split(".")[1], files, faults)
        with pytest.raises(SourceError, match=fault):
            faults.verify()


def test_long_lists_of_nulls_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a kilobyte can have millions of them: what its footer counts bounds a batch, and a row."""
    path, check = str(tmp_path / "t.parquet"), Mock()
    parquet.write_table(pa.table({"replicas": pa.array([[None] * 10_000] * 20, pa.list_(pa.int32()))}), path)
    assert Path(path).stat().st_size < 2_000
    monkeypatch.setattr(local_tables, "_MAX_BATCH_BYTES", 200_000)
    assert sum(map(len, local_tables.batches(path, ["replicas"], check))) == 20
    assert max(len(each.args[0]) for each in check.add.call_args_list) == 2
    check.reset_mock()
    monkeypatch.setattr(local_tables, "MAX_EXPANDED_BYTES", 79_999)
    with pytest.raises(ValueError, match="a row has more than 79,999 bytes"):
        list(local_tables.batches(path, ["replicas"], check))
    check.add.assert_not_called()


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    """In a Parquet file: wrong input, with the file."""
    path, faults = str(tmp_path / "t.parquet"), FileFaults()
    parquet.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), path)
    with pytest.raises(SourceError, match=r"t\.parquet cannot be read"):
        list(local_tables.parquet_pieces(local_tables.LocalFile(path), pa.schema({"a": pa.int64()})))
    local_tables._columns_of("t", path, faults)
    with pytest.raises(SourceError, match=r"t\.parquet cannot be read: two columns have the same name"):
        faults.verify()


def test_a_missing_column_is_no_column_without_null(tmp_path: Path) -> None:
    """The parts of another column don't count for it."""
    parquet.write_table(pa.table({"a": [[{"x": 1, "y": 2}]], "b": [None]}), tmp_path / "a.parquet")
    assert [has_no_null(tmp_path, names) for names in (["a"], ["a", "b"], ["a", "c"])] == [True, False, False]


def test_a_pipe_has_no_footer(tmp_path: Path) -> None:
    """Whoever asks how many rows a stored table has doesn't wait for it."""
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    assert (count_rows(tmp_path), has_no_null(tmp_path, ["a"])) == (1, True)
    os.mkfifo(tmp_path / "b.parquet")
    assert (count_rows(tmp_path), has_no_null(tmp_path, ["a"])) == (None, False)
