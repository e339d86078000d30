"""The settings file: what it may say, and what is said where it is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from spark_assign_airflow.settings import CLONE, VARIABLE, SettingsError, load

from tests.cases import cases

ON_SPARK = '[[dag]]\ndag_id = "a"\nfleet = "/data/fleet"\noutput = "/data/out"\n'

DAILY = "[[dag]]\ndag_id = 'a'\nsteps = 'daily'\n"


def write(folder: Path, text: str) -> Path:
    """The file."""
    file = folder / "airflow.toml"
    file.write_text(text)
    return file


def test_the_file_that_comes_with_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read where nothing else is named; the sample fleet, places below the clone."""
    monkeypatch.delenv(VARIABLE, raising=False)
    (settings,) = load()
    assert (settings.dag_id, settings.runs_on) == ("spark_assign", "spark")
    assert settings.fleet == str(CLONE / "conf" / "sample-fleet")
    assert settings.place("plans") == str(CLONE / "output" / "airflow" / "plans")
    assert settings.start_date == datetime(2026, 1, 1, tzinfo=UTC)


def test_every_key_that_it_has_a_comment_on_is_one(tmp_path: Path) -> None:
    """With all comments that look like a setting taken in, it can still be read."""
    lines = []
    for line in (CLONE / "conf" / "airflow.toml").read_text().splitlines():
        bare = line.removeprefix("# ")
        is_setting = line.startswith("# ") and (bare.startswith("[") or " = " in bare)
        is_other_source = bare.startswith(("bootstrap_server", "clusters"))
        lines.append(bare if is_setting and not is_other_source else line)
    spark, databricks = load(write(tmp_path, "\n".join(lines)))
    assert spark.notify["to"] == "kafka-team@example.org"
    assert spark.conf == {"spark.executor.instances": "20"}
    assert spark.place("drifts") == "main.kafka_drifts"
    assert (databricks.runs_on, databricks.alert, databricks.place("plans")) == ("databricks", "warn", "")


@cases(
    "text message",
    ("[[dag]\n", "isn't valid TOML"),
    ("x = " + "[" * 5_000, "isn't valid TOML"),
    (".".join("a" * 20_000) + " = 1", "has more than 32 parts"),
    ("[dag]\ndag_id = 'a'\n", r"dag is .* \(dict\), expected tables \[\[dag\]\]"),
    ("[[dag]]\n", "dag 1: dag_id is missing"),
    (
        ON_SPARK + "shedule = '@daily'\n",
        r"dag 1 \(a\): unknown key shedule. Did you mean schedule\? Known: dag_id, runs_on, steps, schedule",
    ),
    (ON_SPARK + "schedule = 5\n", r"dag 1 \(a\): schedule is 5 \(int\), expected a string"),
    (ON_SPARK + "retries = '2'\n", r"retries is '2' \(str\), expected a whole number"),
    (ON_SPARK + "retries = true\n", r"retries is True \(bool\), expected a whole number"),
    (ON_SPARK + "assignors = 'range'\n", r"assignors is 'range' \(str\), expected a list of strings"),
    (ON_SPARK + "start_date = '2026-01-01'\n", r"start_date is '2026-01-01' \(str\), expected a date"),
    (ON_SPARK + "alert = 'mail'\n", r"alert is 'mail'. Did you mean fail\? Known: fail, warn"),
    (ON_SPARK + "max_growth = 0.5\n", "max_growth is 0.5, expected 1 or more"),
    *(
        (ON_SPARK + f"{key} = {value}\nrecords = '/r'\n", rf"dag 1 \(a\): {key} is .*, expected {most} or less")
        for key, value, most in (
            ("retry_delay_s", "inf", "3,153,600,000"),
            ("retry_delay_s", "9223372036854775808", "3,153,600,000"),
            ("max_growth", "inf", "100,000,000,000,000"),
            *((each, "9223372036854775808", "1,000,000,000") for each in ("retries", "parallel", "max_rejected")),
            *((each, "1000000001", "1,000,000,000") for each in ("max_rebalances_per_day", "max_unreadable")),
        )
    ),
    (ON_SPARK + "start_date = 0001-01-01T00:00:00+14:00\n", "start_date: .* is outside the years 1 to 9999. Use"),
    (ON_SPARK + "start_date = 9999-12-31T23:59:59-14:00\n", "start_date: .* is outside the years 1 to 9999. Use"),
    *(
        (ON_SPARK.replace('"a"', f'"{name}"'), "dag_id: use 1 to 250 letters, digits, dashes, dots, and underscores")
        for name in ("", "a b", "a\\n", "a" * 251)
    ),
    (ON_SPARK + f"tags = ['{'a' * 101}']\n", "tags: a tag can have at most 100 characters"),
    (ON_SPARK + f"plans = '/{'a' * 1_500}'\nsnapshots = ' '\n", "plans, snapshots: use a location of at most 1,450"),
    *((ON_SPARK + f"notify = {{ class = '{name}' }}\n", "notify: set class") for name in ("a b", "os", ".a", "a:b:c")),
    (ON_SPARK + "runs_on = 'yarn'\n", "runs_on is 'yarn'. Known: spark, databricks"),
    (ON_SPARK + "runs_on = 'databricks'\n", "output: not allowed with databricks"),
    (ON_SPARK + "bootstrap_server = 'b:9092'\n", r"specify one of fleet .*, bootstrap_server .*, and clusters"),
    (ON_SPARK + "clusters = '/nowhere.toml'\n", r"clusters: /nowhere\.toml: can't be read"),
    (ON_SPARK + "steps = 'daily'\nplans = '/p'\nmax_rejected = 1\n", "max_rejected, plans: not used by daily"),
    (DAILY + "bootstrap_server = 'b:9092'\n", r"bootstrap_server: daily needs clusters(.|\n)*specify output"),
    (DAILY + "runs_on = 'databricks'\nfleet = 'main.kafka'\n", "fleet: not allowed with databricks"),
    ("[[dag]]\ndag_id = 'a'\nruns_on = 'databricks'\nclusters = '/c'\n", "clusters: not allowed with databricks"),
    (ON_SPARK + "arguments = { plans = [] }\n", "unknown key arguments.plans. Did you mean plan"),
    (ON_SPARK + "notify = { to = 'x' }\n", "notify: set class"),
    ("[[dag]]\ndag_id = 'a'\nfleet = 'main.kafka'\nplans = 'main.p'\n", "each of comparisons, drifts, reports"),
    (ON_SPARK + "reports = 'main.reports'\n", "reports: these are files; specify a folder, such as /data/reports"),
    (ON_SPARK + ON_SPARK, "dag_id a is used twice"),
    (ON_SPARK + "max_pause = '10m'\n", "specify records .* or bootstrap_server: the history needs records"),
    (ON_SPARK + "records = '/r'\n", "records, histories: only used if one of"),
    (ON_SPARK + "max_pause = 'long'\n", "max_pause is 'long'"),
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    """The file, the DAG, the key, and what was expected."""
    with pytest.raises(SettingsError, match=message):
        load(write(tmp_path, text))


def test_what_airflow_accepts_is_accepted(tmp_path: Path) -> None:
    """The largest numbers, a name of letters that aren't ASCII, and a notifier in the other notation."""
    text = ON_SPARK.replace('"a"', '"ü.-_"') + "retry_delay_s = 3153600000\nretries = 1000000000\n"
    (made,) = load(write(tmp_path, text + "start_date = 0001-01-01\nnotify = { class = 'a.b:C' }\n"))
    assert (made.dag_id, made.retries, made.notify) == ("ü.-_", 1_000_000_000, {"class": "a.b:C"})


def test_thresholds_of_the_past(tmp_path: Path) -> None:
    """As the job check takes them; the tables are below the output."""
    (made,) = load(write(tmp_path, ON_SPARK + "records = './r'\nmax_pause = '10m'\nmax_unreadable = 0\n"))
    assert made.past == {"--max-pause": "10m", "--max-unreadable": "0"}
    assert (made.records, made.place("histories")) == (str(tmp_path / "r"), "/data/out/histories")


def test_an_installed_package_needs_locations(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no clone around it whose file it could take."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("spark_assign_airflow.settings.IS_CLONE", False)
    with pytest.raises(SettingsError, match=f"{VARIABLE}=/path/to/airflow.toml"):
        load()


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    """Of every DAG, in one message."""
    text = (
        ON_SPARK
        + "retries = -1\nshedule = 5\n[[dag]]\nalert = 'mail'\n"
        + ON_SPARK.replace("'a'", "'b'")
        + "fleets = 1\n"
    )
    with pytest.raises(SettingsError) as raised:
        load(write(tmp_path, text))
    first, *lines = str(raised.value).splitlines()
    assert first.endswith("airflow.toml: 5 faults:")
    assert [line.partition(". ")[0] for line in lines] == [
        "  - dag 1 (a): retries is -1, expected 0 or more",
        "  - dag 1 (a): unknown key shedule",
        "  - dag 2: dag_id is missing",
        "  - dag 2: alert is 'mail'",
        "  - dag 3 (a): unknown key fleets",
    ]


def test_the_faults_are_worded_as_those_of_the_jobs() -> None:
    """One text, in both packages."""
    for name in ("settings_errors.py", "toml_file.py"):
        here = CLONE / "jobs" / "airflow" / "spark_assign_airflow" / name
        assert here.read_text() == (CLONE / "spark_assign" / "cli" / name).read_text()


def test_a_driver_in_the_cluster_leaves_its_outcome_where_the_worker_sees_it(tmp_path: Path) -> None:
    """Below the output, or in a place of its own; not for databricks, as how it runs is the bundle's matter."""
    (made,) = load(write(tmp_path, ON_SPARK + 'deploy_mode = "cluster"\n'))
    assert made.place("outcomes") == "/data/out/outcomes"
    places = "".join(f"{name} = '/d/{name}'\n" for name in ("plans", "comparisons", "drifts", "reports"))
    without = "[[dag]]\ndag_id = 'a'\nfleet = '/f'\ndeploy_mode = 'cluster'\n" + places
    with pytest.raises(SettingsError, match="specify output, a folder for all results, or each of outcomes"):
        load(write(tmp_path, without))


def test_a_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named by the environment; Airflow shows it as an import error."""
    monkeypatch.setenv(VARIABLE, "/nowhere.toml")
    with pytest.raises(SettingsError, match=r"/nowhere\.toml: can't be read"):
        load()
