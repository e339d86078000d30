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
    assert "Replicas and preferred leaders of each broker, before and after" in page


def test_wrong_usage(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """Said in one line, with exit code 2."""
    assert replicas.main(["reassign", "--sample", "--remove", "three"]) == 2
    assert replicas.main(["reassign", "--sample", "--tolerance", "-1"]) == 2
    assert replicas.main(["reassign", "--sample", "--measured-rate", "1"]) == 2
    assert "--measured-rate requires --throttle or --bandwidth" in caplog.text
    assert replicas.main(["place", "--fleet", str(Path(__file__).parents[2] / "conf/sample-fleet")]) == 2
    assert replicas.main(["reassign", "--sample", "--hard", "disk"]) == 2
    assert replicas.main(["reassign", "--sample", "--balance", "disk=x"]) == 2
    assert replicas.main(["reassign", "--sample", "--balance", "disk"]) == 2
    assert "--hard requires --balance, for example --balance disk" in caplog.text
    assert "--balance disk=x: 'x' isn't a number, for example disk=0.1" in caplog.text
    assert "sizes.bytes: the table is missing" in caplog.text
    assert "requests: looked for requests.parquet" in caplog.text
    for command in ("place", "reassign", "check", "operate"):
        assert replicas.main([command]) == 2
    assert caplog.text.count("No fleet given. Use --fleet LOCATION, or --sample") == 4
