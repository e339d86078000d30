"""What every result has: tables, a place to store them and read them back, a summary, and a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_assign.spark.engine import cached, is_cached, uncached
from spark_assign.stores.locations import publish, time_as_run_id
from spark_assign.stores.run_store import Computed, Manifest, read_run, write_run
from spark_assign.tables.errors import SourceError
from spark_assign.tables.views import VIEWS

T = TypeVar("T")


class Result:
    """Base class of results: tables as attributes, each a lazy DataFrame.

    Attributes:
        schemas: columns of the tables by name.
        prefix: prefix of the names of stored tables, in a run that has tables of several kinds of groups.
        stored_with: other tables that a run with these tables can have.
    """

    schemas: ClassVar[Mapping[str, StructType]]
    prefix: ClassVar[str] = ""
    stored_with: ClassVar[Mapping[str, StructType]] = {}

    @property
    def tables(self) -> Mapping[str, DataFrame]:
        """The tables by name; of a result that was read, those that are stored."""
        return {name: getattr(self, name) for name in vars(self).get("_names_of_tables", self.schemas)}

    @property
    def unknown(self) -> list[str]:
        """What the input lacks that can change the result, in sentences; stored in the manifest."""
        return list(vars(self).get("_unknown", []))

    def with_tables(self, tables: Mapping[str, DataFrame]) -> Self:
        """Returns a result that has only these tables, for example as they are stored, and no others to compute."""
        return self._of_tables(tables, vars(self))

    @classmethod
    def _of_tables(cls, tables: Mapping[str, DataFrame], attributes: Mapping[str, Any]) -> Self:
        result = object.__new__(cls)
        parameters: set[str] = {each.name for each in fields(cls)} if is_dataclass(cls) else set()
        vars(result).update({name: attributes.get(name) for name in parameters})
        vars(result).update(tables, _names_of_tables=tuple(tables))
        return result

    def with_prefix(self, by_table: Mapping[str, T]) -> dict[str, T]:
        """Returns values by table under the names that the tables have in a stored run."""
        return {f"{self.prefix}{name}": value for name, value in by_table.items()}

    def write(
        self,
        location: str,
        *,
        run_id: str | None = None,
        format: str | None = None,
        tables: Iterable[str] | None = None,
        options: Mapping[str, str] | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> Manifest:
        """Computes the tables and stores them as one run, atomically: `plan(fleet).write("./plans")`.

        Args:
            location: a folder, a URI, or a catalog prefix.
            run_id: name of the run; replaces an existing run of that name. Default: the current UTC time.
            format, tables, options, inputs: see `stores.run_store.write_run`, which this method calls.

        Returns:
            the manifest of the run: its name and the number of rows per table.

        Raises:
            SourceError: a table name is unknown, or the location isn't writable.
        """
        schemas = self.with_prefix({name: self._stored_schemas()[name] for name in self.tables})
        computed = None if self.prefix else self._one_pass
        return write_run(
            {} if computed is not None else self.with_prefix(self.tables),
            location,
            run_id=run_id or time_as_run_id(),
            format=format,
            tables=None if tables is None else [f"{self.prefix}{name}" for name in tables],
            inputs=inputs,
            unknown=self.unknown,
            options=options,
            schemas=schemas,
            computed=computed,
        )

    @classmethod
    def read(
        cls, spark: SparkSession, location: str, run_id: str | None = None, *, options: Mapping[str, str] | None = None
    ) -> Self:
        """Reads a result that this class or a command stored: `Plan.read(spark, "./plans")`.

        Args:
            spark: a classic session, or a session of Spark Connect.
            location: the location that it was written to.
            run_id: the run; None: the run that finished last.
            options: Spark's reader options, if the run was written with options that reading needs.

        Returns:
            the result. It has only the tables that are stored, and can't compute anything else.

        Raises:
            SourceError: there is no finished run, or it is of another result.
        """
        schemas = {f"{cls.prefix}{name}": schema for name, schema in cls.schemas.items()}
        run = read_run(spark, location, run_id, options=options, schemas={**cls.stored_with, **schemas})
        tables = {name.removeprefix(cls.prefix): run.tables[name] for name in schemas if name in run.tables}
        if not tables:
            found = ", ".join(run.tables)
            raise SourceError(f"{location}, run {run.manifest.run_id}, has no {cls.__name__}, but the tables {found}.")
        result = cls._of_tables(tables, {})
        vars(result)["_unknown"] = run.manifest.unknown
        return result

    def show(self, top: int = 10) -> None:
        """Prints the summary that the command prints, with at most `top` rows in each list. Computes the tables."""
        print(VIEWS["summary"](self, top), flush=True)

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """Returns the page that the command `report` makes of the stored tables, and writes it to a file.

        Args:
            path: the file, which is replaced; None: only returns the page, for example for `displayHTML`.
            title: heading of the page.

        Returns:
            one HTML page that needs no network. It has a bounded number of rows.

        Raises:
            ConfigError: jinja2 isn't installed (extra `report`).
            SourceError: the file can't be written there.
        """
        html = VIEWS["page"](self, title)
        if path is not None:
            publish(html.encode(), Path(path))
        return html

    @contextmanager
    def computed_once(self, *tables: str) -> Iterator[Self]:
        """Returns this result in a context in which several queries compute it once, if the session can cache.

        Args:
            tables: the tables that the queries read; by default, all.
        """
        if self._one_pass is None:
            yield self
            return
        rows = self._one_pass.tagged_rows(tables or tuple(self.schemas))
        was_cached = is_cached(rows)
        yield self._one_pass.with_tagged_rows(cached(rows))
        if not was_cached:
            uncached(rows)

    @property
    def _is_read(self) -> bool:
        """Whether the result has only tables, and can't compute others."""
        return "_names_of_tables" in vars(self)

    @property
    def _one_pass(self) -> Computed | None:
        """This result, if its tables are projections of the rows of one pass that isn't stored; otherwise None."""
        return None

    def _stored_schemas(self) -> Mapping[str, StructType]:
        return self.schemas

    def _computed_from(self, source: T | None) -> T:
        """Returns what tables are computed from.

        Raises:
            SourceError: the result was read, so that it has only its stored tables.
        """
        if source is None:
            names = ", ".join(self.tables)
            raise SourceError(f"This {type(self).__name__} was read: it has only the stored tables {names}.")
        return source


class PassResult(Result):
    """Base class of results whose tables are projections of the tagged rows of one pass."""

    def tagged_rows(self, tables: Iterable[str] = ()) -> DataFrame:
        """Returns the tagged rows that these tables are projections of; by default, those of all tables."""
        raise NotImplementedError

    def with_tagged_rows(self, rows: DataFrame) -> Self:
        """Returns the same result, reading its tagged rows from a table instead of computing them."""
        raise NotImplementedError

    @property
    def _one_pass(self) -> Self | None:
        return None if self._is_read else self


@dataclass(frozen=True)
class LazyResult(PassResult):
    """The result of one pass: a table of tagged rows, of which each public table is a projection.

    Attributes:
        rows: the tagged rows of the pass, computed or read from storage; `kind` says what a row is.
    """

    rows: DataFrame

    def tagged_rows(self, tables: Iterable[str] = ()) -> DataFrame:
        """Returns the tagged rows that the tables are projections of."""
        return self._computed_from(self.rows)

    def with_tagged_rows(self, rows: DataFrame) -> Self:
        """Returns the same result, reading its tagged rows from a table instead of computing them."""
        return replace(self, rows=rows)

    def unpersist(self) -> None:
        """Removes the tagged rows from the cache, if they are cached; Spark computes them again if needed."""
        if self.rows is not None:
            uncached(self.rows)

    @cached_property
    def rejected(self) -> DataFrame:
        """What can't be analyzed: a row per group or cluster, with a code, and a detail that says what to do."""
        (name,) = (name for name in self.schemas if name.endswith("rejected"))
        return vars(self)[name] if name in vars(self) else self._rows(name, self.schemas[name])

    def _rows(self, kind: str, table: StructType | None = None) -> DataFrame:
        """Returns the rows of a kind, with the columns of a table."""
        rows = self._computed_from(self.rows).where(F.col("kind") == kind)
        return rows if table is None else rows.select(*table.names)
