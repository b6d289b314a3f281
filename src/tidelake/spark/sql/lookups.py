"""Lookups by the primary key in a query: the text that replaces each join.

::

    FROM o LEFT JOIN d FOR SYSTEM_TIME AS OF PROCTIME() AS d ON o.k = d.id
    FROM o LATERAL VIEW OUTER inline(f(o.k, (SELECT snapshot_id FROM pin))) `d` AS `id`, `name`

``f`` is the function of :mod:`tidelake.spark.lookupjoin.join`. Spark knows it by a name of its own
while it analyses the query, and forgets the name then.

A lookup stays a join for which the table is broadcast where the types of the key cannot be compared
by bytes, or where the key comes from a subquery.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st
from pyspark.sql.utils import is_remote

from tidelake.engine.scan import ReadHold
from tidelake.engine.tables import Table
from tidelake.errors import TidelakeError
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.types import spark_schema
from tidelake.spark.jvm.held_frames import held_while_read
from tidelake.spark.lookupjoin.join import LookupMeans, lookup_function, names_moment
from tidelake.spark.lookupjoin.key_type import key_expression
from tidelake.spark.lookupjoin.pin import PIN, pinned_at_each_batch, pinned_now
from tidelake.spark.lookupjoin.request import Retry, key_fields
from tidelake.spark.sql.table_sources import TableSource
from tidelake.sql.query.lookup_join import KeyedLookup, keyed_lookups
from tidelake.sql.query.query import HEAD_POSITION, ParsedQuery, TableReference
from tidelake.sql.query.reference import relation_aliases
from tidelake.sql.syntax.lookup_hint import LookupHint, lookup_hints
from tidelake.sql.syntax.tokens import error_at

_NUMBERS = itertools.count(1)
_FUNCTION = "tidelake_lookup_"


@dataclass
class QueryLookups:
    """The lookups of one query, as texts and frames for Spark.

    Parameters
    ----------
    mark : str
        Stands around the name of a frame in a text.
    joins : mapping of TableReference to (int, int, str)
        Start, end and new text of each join.
    hints : list of (int, int, str)
        The hints for lookups, which Spark is not given.
    """

    spark: SparkSession
    parsed: ParsedQuery
    mark: str
    joins: dict[TableReference, tuple[int, int, str]] = field(default_factory=dict)
    frames: dict[str, DataFrame] = field(default_factory=dict)
    hints: list[tuple[int, int, str]] = field(default_factory=list)
    _functions: dict[str, Any] = field(default_factory=dict)
    _foreign: dict[TableReference, st.StructType] = field(default_factory=dict)
    _holds: list[ReadHold] = field(default_factory=list)

    def candidates(
        self,
        sources: Mapping[TableReference, TableSource],
        hidden: Mapping[TableReference, Sequence[str]],
    ) -> dict[TableReference, KeyedLookup]:
        """Return the lookups that go by a primary key, if the types of the key allow it."""
        if is_remote():  # a plan is analysed when it runs; the function has no name any more then
            return {}
        tables = {
            r: s.looked_up.table
            for r, s in sources.items()
            if s.looked_up is not None and not hidden.get(r)
        }
        keys = {
            r: t.primary_keys for r, t in tables.items() if t.primary_keys and not names_moment(t)
        }
        if not keys:
            return {}
        for reference in self.parsed.references:
            if reference not in sources and reference.start != HEAD_POSITION:
                self._describe(reference)
        columns: dict[TableReference, Sequence[str]] = {r: s.columns for r, s in sources.items()}
        columns |= {r: schema.names for r, schema in self._foreign.items()}
        return keyed_lookups(self.parsed, keys, columns)

    def _describe(self, reference: TableReference) -> None:
        """Ask Spark for the columns of a table of its own."""
        written = ".".join(quoted(part) for part in reference.name.parts)
        with suppress(PySparkException):  # Spark refuses the query for it
            self._foreign[reference] = self.spark.table(written).schema

    def add(
        self,
        lookups: Mapping[TableReference, KeyedLookup],
        sources: Mapping[TableReference, TableSource],
        frames: Mapping[TableReference, DataFrame],
    ) -> None:
        """Write the text of each lookup whose types allow it.

        Parameters
        ----------
        lookups : mapping of TableReference to KeyedLookup
            In the order of the text.
        sources : mapping of TableReference to TableSource
            All tables of the query.
        """
        query = self.parsed.query
        hints = lookup_hints(query.text, query.start, query.end)
        self.hints = [(hint.start, hint.end, "") for hint in hints]
        aliases = relation_aliases(self.parsed.tree, self.parsed.references)
        schemas = self._foreign | {r: f.schema for r, f in frames.items()}
        for reference in lookups:
            table = _table(sources[reference])
            schemas[reference] = spark_schema(table.table_schema.fields, table=table.identifier)
        joined: set[int] = set()
        for reference, lookup in reversed(list(lookups.items())):
            select = id(reference.node.parent_select)
            keys = self._keys(lookup, _table(sources[reference]), schemas, aliases)
            if keys is None or select in joined:
                joined.add(select)  # behind a LATERAL VIEW no table can be joined
            else:
                hint = next((h for h in hints if _names(h, reference)), None)
                self._write(lookup, sources[reference], keys, aliases.get(reference), hint)
        for hint in hints:
            if not any(_names(hint, reference) for reference in self.joins):
                raise self._unused(hint)

    @contextmanager
    def known(self) -> Iterator[None]:
        """Let Spark know the functions while it analyses the query."""
        try:
            for name, function in self._functions.items():
                self.spark.udf.register(name, function)
            yield
        finally:
            for name in self._functions:
                self.spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")

    def held(self, frame: DataFrame) -> DataFrame:
        """The query's frame, which holds the snapshots in which it looks rows up."""
        for hold in self._holds:
            held_while_read(self.spark, frame, hold, is_lookup=True)
        return frame

    def _keys(
        self,
        lookup: KeyedLookup,
        table: Table,
        schemas: Mapping[TableReference, st.StructType],
        aliases: Mapping[TableReference, str],
    ) -> list[str] | None:
        """The key in SQL; None where its types cannot be compared by bytes."""
        texts = []
        for key in key_fields(table):
            column = lookup.keys[key.name]
            if column.source in self._foreign and column.source in aliases:
                return None  # a name that two tables have
            alias = aliases.get(column.source, column.source.alias)
            given = [
                f.dataType
                for f in schemas[column.source].fields
                if f.name.casefold() == column.name.casefold()
            ]
            text = f"{quoted(alias)}.{quoted(column.name)}"
            expression = key_expression(text, given[0], key) if len(given) == 1 else None
            if expression is None:
                return None
            texts.append(expression)
        return texts

    def _unused(self, hint: LookupHint) -> TidelakeError:
        message = (
            f"LOOKUP names '{hint.table}', but this query looks no such table up by its primary"
            " key: write JOIN t FOR SYSTEM_TIME AS OF PROCTIME() AS d ON o.id = d.id, with the"
            " whole key, at the end of FROM."
        )
        return error_at(self.parsed.query.text, hint.start, message, kind="sql_hint")

    def _write(
        self,
        lookup: KeyedLookup,
        source: TableSource,
        keys: Sequence[str],
        alias: str | None,
        hint: LookupHint | None,
    ) -> None:
        assert source.looked_up is not None
        table, reference = source.looked_up.table, lookup.reference
        names = self.parsed.used_columns(reference, source.columns)
        by_name = {f.name: f for f in table.table_schema.fields}
        number = next(_NUMBERS)
        function = f"{_FUNCTION}{number}"
        columns = tuple(by_name[name] for name in names)
        means = LookupMeans(catalog=source.looked_up.catalog)
        if hint is not None:
            retry = Retry(hint.attempts_max, hint.delay_ms) if hint.attempts_max else None
            means = replace(means, retry=retry, via=hint.via)
        self._functions[function] = lookup_function(table, columns, means)
        if source.looked_up.at_each_batch:
            frame = f"tl_pin_{number}"
            self.frames[frame] = pinned_at_each_batch(self.spark, table)
            pin = f"(SELECT {PIN} FROM {self.mark}{frame}{self.mark})"
        else:
            snapshot, hold = pinned_now(table.handle)
            self._holds.append(hold)
            pin = f"{snapshot}L"
        outer = "OUTER " if lookup.is_outer else ""
        shown = ", ".join(quoted(name) for name in names)
        text = (
            f"LATERAL VIEW {outer}inline({function}({', '.join(keys)}, {pin}))"
            f" {quoted(alias or reference.alias)} AS {shown}"
        )
        self.joins[reference] = (lookup.start, lookup.end, text)


def _names(hint: LookupHint, reference: TableReference) -> bool:
    """Whether a hint is for the lookup of a table: it names it, or its alias."""
    given = tuple(part.casefold() for part in hint.table.split("."))
    name = tuple(part.casefold() for part in reference.name.parts)
    return given in {name[-len(given) :], (reference.alias.casefold(),)}


def _table(source: TableSource) -> Table:
    assert source.looked_up is not None
    return source.looked_up.table
