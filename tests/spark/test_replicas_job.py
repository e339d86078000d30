"""The replicas job on the sample fleet, in the session of the tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import replicas, report

pytestmark = [pytest.mark.spark, pytest.mark.once]


@pytest.mark.parametrize("output_format", ["csv", "parquet"])
def test_reassign_writes_tables_and_files(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], output_format: str
) -> None:
    """Lists survive CSV; the files for Kafka's tools are beside the tables; a report can show the run."""
    arguments = ["--output", str(tmp_path), "--output-format", output_format, "--run-id", "r"]
    arguments += ["--partitions-per-batch", "200"]
    assert replicas.main(["reassign", "--sample", "--remove", "3", "--replication-factor", "*=2", *arguments]) == 0
    printed = capsys.readouterr().out
    assert "1 cluster planned, 0 rejected, 154 replicas move, at least 154 must move" in printed
    assert len(list((tmp_path / "placement").glob("run_id=*/attempt=*"))) == 1
    assert len(list((tmp_path / "json").rglob("reassign-*.json"))) == 3
    assert len(list((tmp_path / "json").rglob("rollback-*.json"))) == 3
    assert report.main(["--replicas", str(tmp_path), "--output-file", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert re.search(r"154 of [\d,]+ replicas move, which is the minimum\.", page)
    assert "Leaders before" in page


def test_wrong_usage(spark: SparkSession, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    """Said in one line, with exit code 2."""
    assert replicas.main(["reassign", "--sample", "--remove", "three"]) == 2
    assert replicas.main(["reassign", "--sample", "--tolerance", "-1"]) == 2
    assert replicas.main(["reassign", "--sample", "--measured-rate", "1"]) == 2
    assert "--measured-rate needs --throttle or --bandwidth" in caplog.text
    assert replicas.main(["place", "--fleet", str(Path(__file__).parents[2] / "conf/sample-fleet")]) == 2
    assert replicas.main(["reassign", "--sample", "--hard", "disk"]) == 2
    assert replicas.main(["reassign", "--sample", "--balance", "disk=x"]) == 2
    assert replicas.main(["reassign", "--sample", "--balance", "disk"]) == 2
    assert "--hard needs --balance: for example --balance disk." in caplog.text
    assert "Invalid value for '--balance': 'x' is not a valid float." in capsys.readouterr().err
    assert "sizes.bytes: the table is missing" in caplog.text
    assert "requests: looked for requests.parquet" in caplog.text
    for command in ("place", "reassign", "check", "operate"):
        assert replicas.main([command]) == 2
    assert caplog.text.count("No fleet given. Use --fleet LOCATION, or --sample") == 4


GENERATED = """Current partition replica assignment
{"version":1,"partitions":[{"topic":"orders.dlq","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}

Proposed partition reassignment configuration
{"version":1,"partitions":[{"topic":"orders.dlq","partition":0,"replicas":[1,3],"log_dirs":["any","any"]}]}
"""


def test_the_reassignment_of_another_tool(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """It is checked, timed, and explained; one that the fleet has overtaken is outdated."""
    file, sizes = tmp_path / "move.txt", tmp_path / "sizes.csv"
    file.write_text(GENERATED)
    given = ["--sample", "--reassignment", str(file)]
    assert replicas.main(["check", *given]) == 0
    outdated = "orders.dlq-0  plan-outdated  replicas are 2,3; the plan moves them from 1,2 to 1,3"
    assert outdated in capsys.readouterr().out
    assert replicas.main(["operate", *given]) == 0
    assert "shop-prod     1  reassign" in capsys.readouterr().out
    sizes.write_text("cluster,topic,partition,bytes\nshop-prod,orders.dlq,0,1000000\n")
    stored = ["--table", f"sizes={sizes}", "--output", str(tmp_path / "out")]
    assert replicas.main(["schedule", *given, "--throttle", "100000", *stored]) == 0
    assert "1,000,000" in capsys.readouterr().out
    assert len(list((tmp_path / "out" / "json").rglob("reassign-001.json"))) == 1
    assert replicas.main(["schedule", *given]) == 2
    assert replicas.main(["schedule", "--sample", "--throttle", "1"]) == 2
    assert replicas.main(["check", *given, "--plan", str(tmp_path / "out")]) == 2
    assert replicas.main(["operate", *given, "--down", "1"]) == 2
    assert replicas.main(["check", *given, "--cluster", "other"]) == 2
    file.write_text(GENERATED.replace("orders.dlq", "gone"))
    assert replicas.main(["check", *given]) == 2
    for text in (
        "replicas schedule requires --throttle or --bandwidth",
        "No reassignment given. Use --reassignment FILE.",
        "--reassignment can't be used with --plan: one is a stored run",
        "--down and --reassignment are different operations",
        "--reassignment is of one cluster, and other matches none. Give its name with --cluster",
        "--reassignment: shop-prod has no partition gone-0. Take a new snapshot",
    ):
        assert text in caplog.text
