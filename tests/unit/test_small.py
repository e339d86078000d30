"""Local sessions interpret the queries of small fleets, and compile those of others."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException

from spark_assign.sources.files import tables as interpreted_queries

NAMES = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")


class Settings(dict[str, Any]):
    """The settings of a session, as much of them as is asked for."""

    set = dict.__setitem__
    unset = dict.__delitem__


def interprets(settings: Settings, *places: str | None) -> bool:
    """Whether queries are interpreted for a while; afterwards everything is as it was."""
    before = dict(settings)
    with interpreted_queries.interpreted(cast(Any, SimpleNamespace(conf=settings)), places):
        found = [settings.get(name) for name in NAMES] == ["false", "NO_CODEGEN"]
    assert dict(settings) == before
    return found


def test_small_fleets_of_a_local_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files of all places count together; a setting that stood is put back."""
    (tmp_path / "fleet" / "members").mkdir(parents=True)
    (tmp_path / "fleet" / "members" / "part.csv").write_text("x" * 60)
    (tmp_path / "topics.csv").write_text("x" * 60)
    places = [str(tmp_path / "fleet"), f"file://{tmp_path}/topics.csv"]
    monkeypatch.setattr(interpreted_queries, "_MAX_SMALL_BYTES", 120)
    assert interprets(Settings({"spark.master": "local[2]"}), *places)
    assert interprets(Settings({"spark.master": "local[2]", NAMES[0]: "true"}), *places)
    monkeypatch.setattr(interpreted_queries, "_MAX_SMALL_BYTES", 119)
    assert not interprets(Settings({"spark.master": "local[2]"}), *places)


@pytest.mark.parametrize("master", [{}, {"spark.master": "yarn"}, {"spark.master": "spark://there:7077"}])
def test_other_sessions_compile(tmp_path: Path, master: dict[str, str]) -> None:
    """On a cluster, and where a session does not say where it runs."""
    assert not interprets(Settings(master), str(tmp_path))


@pytest.mark.parametrize("place", ["s3a://bucket/fleet", "main.kafka", None])
def test_places_elsewhere(place: str | None) -> None:
    """An object store, a catalog, and none."""
    assert not interprets(Settings({"spark.master": "local[2]"}), place)


@pytest.mark.parametrize(("method", "setting"), [("get", "spark.master"), *product(("get", "set"), NAMES)])
def test_a_session_that_refuses_a_setting(tmp_path: Path, method: str, setting: str) -> None:
    """As Databricks' serverless sessions do: nothing is interpreted, and no setting stays changed."""

    class Closed(Settings):
        def get(self, name: str, *default: Any) -> Any:
            self._check("get", name)
            return super().get(name, *default)

        def set(self, name: str, value: str) -> None:
            self._check("set", name)
            self[name] = value

        def unset(self, name: str) -> None:
            self.pop(name, None)

        def _check(self, called: str, name: str) -> None:
            if (called, name) == (method, setting):
                raise PySparkException("[CONFIG_NOT_AVAILABLE]")

    settings = Closed({"spark.master": "local[2]"})
    with interpreted_queries.interpreted(cast(Any, SimpleNamespace(conf=settings)), [str(tmp_path)]):
        assert dict(settings) == {"spark.master": "local[2]"}


def test_settings_are_put_back_after_an_error(tmp_path: Path) -> None:
    """A job that has failed leaves the session as it was."""
    settings = Settings({"spark.master": "local"})
    session = cast(Any, SimpleNamespace(conf=settings))
    with pytest.raises(ValueError, match="no"), interpreted_queries.interpreted(session, [str(tmp_path)]):
        raise ValueError("no")
    assert dict(settings) == {"spark.master": "local"}
