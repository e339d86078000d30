"""`secret://SCOPE/KEY`: a stub of dbutils in place of Databricks."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_assign.sources.auth import secret as secret_scope
from spark_assign.tables.errors import ConfigError


def test_a_path_stays_as_it_is() -> None:
    """Whatever is there."""
    with secret_scope.secret_as_file("/etc/kafka/client.properties") as file:
        assert file == "/etc/kafka/client.properties"


def test_a_secret_is_a_file_for_as_long_as_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only this user may read it; it is gone afterwards, also where reading fails."""
    text = "sasl.password=geheim\n"
    requests = []
    get = lambda scope, key: requests.append((scope, key)) or text  # noqa: E731
    monkeypatch.setattr(secret_scope, "_secrets", lambda: SimpleNamespace(get=get))
    with secret_scope.secret_as_file("secret://kafka/client.properties") as file:
        assert Path(file).read_text() == text
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert requests == [("kafka", "client.properties")]
    assert not Path(file).exists()
    with pytest.raises(ValueError, match="odd"), secret_scope.secret_as_file("secret://kafka/k") as file:
        raise ValueError("odd")
    assert not Path(file).exists()


@pytest.mark.parametrize("place", ["secret://", "secret://kafka", "secret:///key", "secret://a/b/c"])
def test_a_name_that_is_none(place: str) -> None:
    """Said with an example."""
    with pytest.raises(ConfigError, match="expected secret://SCOPE/KEY"), secret_scope.secret_as_file(place):
        pass


def test_elsewhere_than_on_databricks() -> None:
    """There is nothing to ask."""
    with (
        pytest.raises(ConfigError, match="on Databricks only; elsewhere give a file"),
        secret_scope.secret_as_file("secret://a/b"),
    ):
        pass


def test_a_secret_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the remedy, and without the traceback of Databricks."""

    def get(scope: str, key: str) -> str:
        raise RuntimeError(f"Secret does not exist with scope: {scope} and key: {key}\nat com.databricks …")

    monkeypatch.setattr(secret_scope, "_secrets", lambda: SimpleNamespace(get=get))
    with (
        pytest.raises(ConfigError, match=r"does not exist .*\. It needs databricks secrets put-secret a b"),
        secret_scope.secret_as_file("secret://a/b"),
    ):
        pass
