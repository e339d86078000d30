"""What a job checks before it starts Spark: names, settings, and locations."""

from __future__ import annotations

import threading
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import fs
from pyspark.errors import UnsupportedOperationException

from spark_assign.cli import job as cli_job
from spark_assign.cli import job_tables
from spark_assign.cli.options import (
    LOCAL_FILES,
    LOCAL_FOLDER,
    require_format,
    require_input,
    require_local_folder,
    require_output,
)
from spark_assign.sources.files.tables import _list_remote
from spark_assign.spark.engine import ENGINE
from spark_assign.stores import locations, run_store
from spark_assign.tables.errors import ConfigError, SourceError
from tests.cases import cases

SAMPLE = ["--sample"]
WRONG = [
    ("plan", ["--sampel"], "Did you mean '--sample'?"),
    ("plan", [*SAMPLE, "--assignor", "rnge"], "did you mean 'range'?"),
    ("plan", [*SAMPLE, "--group-assignor", "a=stiky"], "did you mean 'sticky'?"),
    ("plan", [*SAMPLE, "--leader-client", "a=Jva"], "'Jva' is not known"),
    ("plan", [*SAMPLE, "--what-if", "leav:x:1"], "unknown change"),
    ("plan", [*SAMPLE, "--table", "topix=x"], "Did you mean topics?"),
    ("plan", ["--table", "owned"], "--table owned: expected NAME=VALUE"),
    ("plan", ["--config", "/nothing.toml"], "/nothing.toml: can't be read"),
    ("plan", ["--assignor", "range"], "No fleet given. Use --fleet LOCATION"),
    ("plan", [*SAMPLE, "--owner", "x"], "--owner needs --owners"),
    ("plan", [*SAMPLE, "--owners", "/nowhere/owners.toml"], "there is no file or folder /nowhere/owners.toml"),
    ("plan", ["--fleet", "/nowhere"], "there is no file or folder /nowhere"),
    ("plan", [*SAMPLE, "--output", f"{__file__}/x"], "isn't a folder"),
    ("compare", [*SAMPLE, "--assignors", "range,stcky"], "did you mean 'sticky'?"),
    ("migrate", ["to-release", "9.9", *SAMPLE], "The release 9.9 of Kafka's clients is unknown"),
    ("migrate", [*SAMPLE, "--server-assignor", "unifrm"], "is not one of 'uniform', 'server-range'"),
    ("advise", ["size", *SAMPLE, "--assignors", "rang"], "did you mean 'range'?"),
    ("advise", [*SAMPLE, "--capacity", "a=x"], "Invalid value for '--capacity': 'x' is not a valid float"),
    ("check", ["--plan", "/nowhere@r"], "there is no file or folder /nowhere"),
    ("check", [*SAMPLE, "--output", f"{__file__}/x"], "isn't a folder"),
    ("report", [*SAMPLE, "--simulation", "a=/nowhere"], "there is no file or folder /nowhere"),
    ("diff", ["--before", "previous", "--after", "plans"], "requires a stored run"),
    ("history", ["--records", "/nowhere"], "there is no file or folder /nowhere"),
    ("history", [*SAMPLE, "--output", f"{__file__}/x"], "isn't a folder"),
    ("simulate", [*SAMPLE, "--session-timeout", "3s"], "expected less than session_timeout_ms, 3000"),
    ("replicas", ["operate", *SAMPLE, "--restart", "a"], "'a' is not a valid integer"),
    ("replicas", ["reassign", *SAMPLE, "--add", "x"], "'x' is not a valid integer"),
    ("daily", ["--clusters", "/nowhere.toml", "--output", "/tmp"], "/nowhere.toml: can't be read"),
    *(
        (job, words, f"{words[-1]} isn't a path of this machine. Give file:///PATH, without a host, or /PATH")
        for job, words in (
            ("plan", ["--sample", "--output", "file://host/x"]),
            ("plan", ["--sample", "--outcome", "file:x"]),
            ("plan", ["--fleet", "file://localhost/x"]),
            ("check", ["--plan", "file://host/x"]),
            ("config", ["--keep", "30d", "--prune", "file://host/x"]),
            ("daily", ["--sample", "--output", "file://host/x"]),
        )
    ),
]


@pytest.mark.parametrize(
    ("job", "words", "problem"), WRONG, ids=[" ".join([job, *words[-2:]]) for job, words, _ in WRONG]
)
def test_wrong_input_starts_no_spark(
    job: str,
    words: list[str],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Exit code 2, and a message that helps."""
    if job == "daily":
        pytest.importorskip("kafka", reason="an extra")
    started: list[str] = []
    module = import_module(f"jobs.{job}")
    for each in (module, job_tables, cli_job):
        monkeypatch.setattr(each, "spark_session", lambda *_: started.append("Spark"), raising=False)
    monkeypatch.setenv(LOCAL_FILES, "yes")
    assert module.main(words) == 2
    assert problem in capsys.readouterr().err + caplog.text
    assert started == []


def test_locations_that_only_the_engine_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """URIs, catalogs, wildcards, and on a cluster paths without a scheme."""
    monkeypatch.setenv(LOCAL_FILES, "yes")
    for location in ("s3a://bucket/nowhere", "main.nowhere", "/nowhere/*.parquet", "/tmp@run"):
        require_input(location)
    with pytest.raises(ConfigError, match="there is no file or folder /nowhere"):
        require_input("file:///nowhere@run")
    monkeypatch.delenv(LOCAL_FILES)
    require_input("/nowhere")
    for location in ("s3a://bucket/nowhere", "main.nowhere"):
        require_output(location)


def test_a_folder_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that exists decides; a file is in the way with and without a slash in its name."""
    for scheme in ("", "file:", "file://"):
        require_output(f"{scheme}{tmp_path / 'new' / 'folder'}")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file isn't a folder"):
        require_output("file")
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(ConfigError, match="no permission to write to"):
        require_output(str(tmp_path / "new"))


@cases(
    "name problem",
    ("dangling", "dangling isn't a folder"),
    ("dangling/new", "dangling isn't a folder"),
    ("loop", "loop isn't a folder"),
    ("loop/new", "loop isn't a folder"),
    ("a\nb", "the path has a line end or another control character"),
    ("a\x00b", "the path has a line end or another control character"),
    (300 * "a", "File name too long in "),
    ("/proc/new", "No such file or directory in /proc"),
)
def test_where_no_folder_can_be_created(
    name: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken links, a path that no engine writes, and a file system that holds no folders: one sentence, code 2."""
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    if name.startswith("/proc") and not Path("/proc/self").exists():
        pytest.skip("a file system of Linux")
    with pytest.raises(ConfigError, match=f"can't write to .*{problem}"):
        require_output(str(tmp_path / name))
    if "/" not in name and "\x00" not in name:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ConfigError, match=f"can't write to .*{problem}"):
            require_local_folder(name)
    (tmp_path / "link").symlink_to(tmp_path)
    require_output(str(tmp_path / "link" / "new"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "link", "loop"]


def test_a_file_where_a_folder_must_be() -> None:
    """Is named without the words of the library that lists folders."""
    with pytest.raises(SourceError, match="/dev/null isn't a folder"):
        _list_remote("/dev/null")


ON_SPARK = [
    ("plan", ["--fleet", "main.kafka"], "main.kafka, a name in a catalog (a folder would be ./main.kafka),"),
    ("plan", [*SAMPLE, "--table", "loads=main.loads"], "main.loads, a name in a catalog"),
    ("plan", [*SAMPLE, "--output", "plans"], "plans, a name in a catalog (a folder would be ./plans),"),
    ("plan", ["--fleet", "/", "--format", "orc"], "The format orc"),
    ("plan", [*SAMPLE, "--output-format", "avro"], "The format avro"),
    (
        "snapshot",
        ["--bootstrap-server", "nowhere:9", "--table-prefix", "main.kafka"],
        "main.kafka, a name in a catalog",
    ),
    ("check", ["--plan", "main.plans@nightly"], "main.plans, a name in a catalog"),
    ("report", ["--simulation", "a=main.simulated"], "main.simulated, a name in a catalog"),
    ("history", ["--records", "main.records"], "main.records, a name in a catalog"),
    ("config", ["--prune", "main.plans", "--keep", "30d"], "main.plans, a name in a catalog"),
    ("plan", [*SAMPLE, "--output", "dbfs:/x"], "dbfs:/x, whose scheme isn't one of abfs,"),
    ("plan", [*SAMPLE, "--output", "http://127.0.0.1:1/x"], "http://127.0.0.1:1/x, whose scheme isn't one of"),
    ("plan", [*SAMPLE, "--table", "loads=jdbc:x"], "jdbc:x, whose scheme isn't one of"),
    ("check", ["--plan", "a:b:c"], "a:b:c, whose scheme isn't one of"),
    ("report", ["--simulation", "a=memory://x"], "memory://x, whose scheme isn't one of"),
    ("config", ["--prune", "dbfs:/x", "--keep", "30d"], "dbfs:/x, whose scheme isn't one of"),
    ("history", ["--sample", "--output-fleet", "dbfs:/x"], "dbfs:/x, whose scheme isn't one of"),
    ("history", ["--bootstrap-server", "h:9", "--follow", "--archive", "a:b"], "a:b, whose scheme isn't one of"),
]


@pytest.mark.parametrize(
    ("job", "words", "need"), ON_SPARK, ids=[" ".join([job, *words]) for job, words, _ in ON_SPARK]
)
def test_what_needs_spark_starts_no_engine(
    job: str,
    words: list[str],
    need: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One sentence with the option that chooses Spark, before anything is read."""
    pytest.importorskip("kafka", reason="an extra")
    monkeypatch.setenv(ENGINE, "embedded")
    assert import_module(f"jobs.{job}").main(words) == 2
    message = capsys.readouterr().err + caplog.text
    assert need in message
    assert "needs Spark, but this is the embedded engine (Sail). Choose Spark: spark-assign --env local JOB" in message


@cases(
    "job words",
    ("snapshot", ["--bootstrap-server", "nowhere:9", "--fleet-dir", "s3://bucket/x"]),
    ("daily", ["--sample", "--output", "dbfs:/x"]),
    ("simulate", ["crash", "--pictures-dir", "dbfs:/x"]),
    ("simulate", ["90x10", "--output", "dbfs:/x"]),
)
def test_folders_that_this_process_writes(
    job: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """On any engine, they are on this machine: no folder `dbfs:` is made in the working folder."""
    monkeypatch.chdir(tmp_path)
    assert import_module(f"jobs.{job}").main(words) == 2
    assert f"{words[-1]} isn't a folder of this machine" in capsys.readouterr().err + caplog.text
    assert list(tmp_path.iterdir()) == []
    assert LOCAL_FOLDER.convert(f"file:{tmp_path}/new", None, None) == f"{tmp_path}/new"


@pytest.mark.parametrize("hangs", [True, False])
def test_a_file_system_that_does_not_answer(hangs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that names the location, in bounded time; credentials that can only write are no reason."""
    monkeypatch.setattr(locations, "ANSWER_SECONDS", 0.1)

    def answer(path: str) -> None:
        if hangs:
            threading.Event().wait(60)
        raise OSError("AWS Error ACCESS_DENIED")

    system = SimpleNamespace(get_file_info=answer)
    monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=lambda uri: (system, uri)))
    if hangs:
        with pytest.raises(TimeoutError, match="gs://box/plans hasn't answered in 0 s"):
            locations.file_system("gs://box/plans")
    else:
        assert locations.file_system("gs://box/plans") == (system, "gs://box/plans?retry_limit_seconds=0.05")


@cases(
    "error problem",
    (UnsupportedOperationException("URL without authority: a:b"), "s3://box/x cannot be read: URL without authority"),
    (RuntimeError("Generic HdfsObjectStore error: IO error occurred"), "s3://box/x cannot be read: Generic"),
    (UnsupportedOperationException("Json error: no number"), "the manifest has a row that can't be read"),
    (UnsupportedOperationException("found mixed compression types"), "the manifest has a row that can't be read"),
)
def test_stored_runs_that_the_engine_cannot_read(error: Exception, problem: str) -> None:
    """Wrong input, in one sentence with the location, for readers and writers alike."""

    def manifest() -> None:
        raise error

    target: Any = SimpleNamespace(output="s3://box/x", manifest_rows=lambda: None, manifest=manifest)
    with pytest.raises(SourceError, match=problem):
        run_store._newest(target, None)


def test_what_the_embedded_engine_can_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Folders, by any name, and tables of Delta and Iceberg."""
    monkeypatch.setenv(ENGINE, "embedded")
    monkeypatch.chdir(tmp_path)
    Path("plans").mkdir()
    for location in ("plans", "./new", "./a:b", "s3://bucket/plans", "gs://b", "abfss://box@host/plans", "hdfs:///x"):
        require_input(location)
        require_output(location)
    require_input("https://host/members.parquet")
    for name in (None, "parquet", "delta", "iceberg"):
        require_format(name)
    require_output("new", is_folder=True)
