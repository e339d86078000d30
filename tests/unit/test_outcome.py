"""How a job ended, as a file: what it says of each end, and that it is there, whole, whatever happens."""

from __future__ import annotations

import errno
import json
import logging
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import QueryExecutionException

from spark_assign.cli.job import VERSION, Job, Options, Outcome, find_option, job, write
from spark_assign.cli.process import Terminated
from spark_assign.stores.driver_rows import write_rows
from spark_assign.stores.locations import is_special, publish
from spark_assign.tables.errors import ConfigError, SourceError
from spark_assign.tables.schema_fields import schema
from tests.cases import cases


def example(run: Any) -> Job:
    """A job without options of its own."""
    return job("An example.", "Exit codes: 0 done.", name="example")(run)


def ended(run: Any, file: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Its exit code, and what the file says."""
    return example(run)([*words, "--outcome", str(file)]), json.loads(file.read_text())


def raising(error: BaseException) -> Any:
    """A job that ends so."""

    def run(options: Options) -> int:
        raise error

    return run


@pytest.mark.parametrize("write_to", [lambda file: write(Outcome("x"), str(file)), lambda file: publish(b"x", file)])
def test_a_pipe_or_a_device_stays_what_it_is(write_to: Any, tmp_path: Path) -> None:
    """As root, a renamed file would take the place of /dev/null."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises((OSError, SourceError), match="No such device"):  # no reader, for which it could wait forever
        write_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_to(pipe)
    assert os.read(reader, 10_000)
    os.close(reader)
    assert pipe.is_fifo()
    assert is_special("/dev/stdout")
    assert not is_special(str(tmp_path / "new"))


def test_a_job_that_is_done(tmp_path: Path) -> None:
    """What it has said of itself, its exit code, and no error; the folder is made, and no other file is in it."""

    def run(options: Options) -> int:
        manifest = SimpleNamespace(run_id="r", attempt="a", rows={"metrics": 3, "rejected": 1})
        options.outcome.wrote(manifest, "main.plans")
        options.outcome.counts = {"groups": 3}
        return 1

    code, printed = ended(run, tmp_path / "below" / "outcome.json")
    assert code == printed["exit_code"] == 1
    assert (printed["version"], printed["job"], printed["error"]) == (VERSION, "example", None)
    assert (printed["run_id"], printed["attempt"], printed["locations"]) == ("r", "a", {"output": "main.plans"})
    assert (printed["rows"], printed["counts"]) == ({"metrics": 3, "rejected": 1}, {"groups": 3})
    assert printed["started_at"] <= printed["finished_at"]
    assert [file.name for file in (tmp_path / "below").iterdir()] == ["outcome.json"]


@cases(
    "error code kind message",
    (ConfigError("no such group"), 2, "ConfigError", "no such group"),
    (RuntimeError("first\nsecond"), 3, "RuntimeError", "first"),
    (KeyboardInterrupt(), 130, "KeyboardInterrupt", "interrupted"),
    (Terminated(), 143, "Terminated", "terminated"),
    (SystemExit(0), 3, "SystemExit", "0"),
    (
        QueryExecutionException("Generic LocalFileSystem error: Unable to copy data: File too large (os error 27)"),
        3,
        "OSError",
        f"{tempfile.gettempdir()} can't be written: File too large, there or where the engine keeps temporary files",
    ),
    (BaseException("a panic of Sail"), 3, "BaseException", "a panic of Sail"),
)
def test_a_job_that_fails(error: BaseException, code: int, kind: str, message: str, tmp_path: Path) -> None:
    """The kind of the error and its words, as on standard error; also if it is stopped, or raises another class."""
    found, printed = ended(raising(error), tmp_path / "outcome.json")
    assert found == printed["exit_code"] == code
    assert printed["error"] == {"kind": kind, "message": message}


def test_a_job_that_fails_while_it_is_stopped(tmp_path: Path) -> None:
    """What its clean-up raises, because the JVM got the signal as well, isn't the reason of its end."""

    def run(options: Any) -> int:
        try:
            raise KeyboardInterrupt
        finally:
            raise ConnectionError("the JVM is gone")

    code, printed = ended(run, tmp_path / "outcome.json")
    assert (code, printed["error"]) == (130, {"kind": "KeyboardInterrupt", "message": "interrupted"})


def test_wrong_usage(tmp_path: Path) -> None:
    """Though the job has not begun: wherever the flag stands."""
    file = tmp_path / "outcome.json"
    for words in (["--outcome", str(file), "--nonsense"], ["--nonsense", f"--outcome={file}"]):
        assert example(raising(AssertionError()))(words) == 2
        printed = json.loads(file.read_text())
        assert (printed["job"], printed["exit_code"], printed["error"]["kind"]) == ("example", 2, "UsageError")
        assert "No such option" in printed["error"]["message"]
        file.unlink()


def test_an_argument_that_is_not_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its byte is in the file as text, which every reader of JSON accepts; a path with it can't be written."""
    file, errors = tmp_path / "outcome.json", list[str]()
    # Not captured: a report of pytest with such a text can't be sent between processes.
    monkeypatch.setattr(logging.Logger, "error", lambda _, text, *values, **__: errors.append(text % values))
    for run, words in ((raising(AssertionError()), ["--\udcff"]), (raising(ConfigError("\udcff")), [])):
        assert example(run)([*words, "--outcome", str(file)]) == 2
        assert "\\udcff" in json.loads(file.read_bytes().decode())["error"]["message"]
    assert example(raising(AssertionError()))(["--nonsense", "--outcome", f"{file}\udcff"]) == 2
    assert "outcome.json\udcff can't be written" in errors[-1]
    assert "outcome.json\udcff: the path isn't UTF-8" in errors[-1]
    assert list(tmp_path.iterdir()) == [file]


def test_which_file_was_requested() -> None:
    """The last one, as click has it; none where there is none."""
    assert find_option(["--outcome", "a", "--outcome=b"], "--outcome") == "b"
    for words in (["--outcome"], [], ["--outcomes=x"]):
        assert find_option(words, "--outcome") is None


def test_a_settings_file_may_name_it(tmp_path: Path) -> None:
    """From its own folder, as all places."""
    (tmp_path / "example.toml").write_text('outcome = "./ends/outcome.json"')
    assert example(lambda options: 0)(["--config", str(tmp_path / "example.toml")]) == 0
    assert json.loads((tmp_path / "ends" / "outcome.json").read_text())["exit_code"] == 0


def test_a_place_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Who waits for the file would wait for ever: the job has failed, and says why."""
    (tmp_path / "file").touch()
    assert example(lambda options: 0)(["--outcome", str(tmp_path / "file" / "outcome.json")]) == 3
    assert "can't be written" in caplog.text
    assert example(lambda options: 0)(["--outcome", "nowhere://host/outcome.json"]) == 3
    assert "pyarrow can't write to nowhere://host/outcome.json" in caplog.text


def test_a_full_disk_is_a_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It isn't wrong input, and is said without the words of Python, as a name that is too long is."""
    failure = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/m.prom")
    code, printed = ended(raising(failure), tmp_path / "outcome.json")
    assert (code, printed["error"]["message"]) == (3, "/m.prom can't be written: no space left on device")
    assert example(lambda options: 0)(["--outcome", str(tmp_path / ("n" * 300))]) == 3
    assert "n can't be written: file name too long" in caplog.text
    assert "Errno" not in caplog.text


def test_rows_of_this_process_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of pyarrow has no location."""
    full = OSError(errno.EFBIG, "Error writing bytes to file. Detail: [errno 27] File too large")
    monkeypatch.setattr("pyarrow.parquet.write_table", lambda *_: raising(full)(None))
    with pytest.raises(OSError, match=f"^{tmp_path} can't be written: File too large"):
        write_rows({"t": []}, tmp_path, run_id="r", inputs={}, schemas={"t": schema("x string")})


def test_it_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """By path and by URI."""
    file = tmp_path / "outcome.json"
    file.write_text("old " * 1000)
    write(Outcome("plan"), f"file://{file}")
    assert json.loads(file.read_text())["job"] == "plan"
    assert [each.name for each in tmp_path.iterdir()] == ["outcome.json"]


def test_what_the_manifest_of_a_run_has(tmp_path: Path) -> None:
    """Known once the tables are there: their rows, and the exit code that follows from them."""
    rows = {"metrics": 3, "rejected": 1}
    ended = Outcome("plan")
    assert ended.of_run("rejected")(rows, lambda name: None)["exit_code"] == 1  # type: ignore[arg-type,return-value]
    assert ended.of_run("rejected")({**rows, "rejected": 0}, lambda name: None)["exit_code"] == 0  # type: ignore[arg-type,return-value]
    assert ended.of_run()(rows, lambda name: None)["exit_code"] == 0  # type: ignore[arg-type,return-value]
    assert ended.of_run(lambda read: read("groups") == "read")(rows, lambda name: "read")["exit_code"] == 1  # type: ignore[arg-type,return-value,comparison-overlap]
    ended.wrote(write_rows({}, tmp_path, run_id="r", inputs={}, schemas={}, outcome=ended.of_run()), str(tmp_path))
    (line,) = [file.read_text() for file in (tmp_path / "manifest").glob("*.json")]
    stored = json.loads(json.loads(line)["content"])["outcome"]
    assert (stored["job"], stored["exit_code"], stored["rows"]) == ("plan", 0, {})
    assert (ended.run_id, ended.locations) == ("r", {"output": str(tmp_path)})


@pytest.mark.parametrize("name", ["output", "plan"])
def test_a_run_that_is_replaced_while_it_is_summarized(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """Wrong input, with the message of a run that is replaced while it is written, or while a job without `--output`
    reads it, such as `check`. Another error stays what it is."""
    place = tmp_path / "plans"
    tables = {"a": schema("x string")}

    def store() -> Any:
        return write_rows({"a": []}, place, run_id="r", inputs={}, schemas=tables)

    def run(options: Options) -> int:
        options.outcome.wrote(store(), str(place))
        options.outcome.locations[name] = options.outcome.locations.pop("output")
        if is_replaced:
            store()
        raise FileNotFoundError("a table")

    for is_replaced, code in ((True, 2), (False, 3)):
        assert ended(run, tmp_path / "outcome.json")[0] == code
        assert ("another job that started later has written the run r" in caplog.text) == is_replaced
        caplog.clear()
