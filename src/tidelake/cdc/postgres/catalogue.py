"""Tables of PostgreSQL's catalogue as values: :class:`Catalogue`.

Partitions are left out: their root stands for them, as in our publication. Generated columns are
left out too, unless the log has them.

The log describes a table's columns by name and type only. :meth:`Catalogue.version` finds the rest
in the catalogue as it is now: numbers, comments, whether there is a default. A version that is
older than the catalogue gets what still fits it, see :func:`match_numbers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelake.cdc.postgres.log.relation import RelationVersion
from tidelake.cdc.postgres.values.postgres_type import PostgresType
from tidelake.cdc.source.source_table import OldRows, SourceColumn, SourceName, SourceTable
from tidelake.cdc.source.type_mapping import Switch, TypeMapping

_TABLES = """
SELECT c.oid::int8, n.nspname, c.relname, c.relreplident::text,
  obj_description(c.oid, 'pg_class'),
  (SELECT array_agg(a.attname::text ORDER BY k.place)
   FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place)
   JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
   WHERE i.indrelid = c.oid AND i.indisprimary AND k.place <= i.indnkeyatts),
  (SELECT array_agg(a.attname::text)
   FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) AS k(number)
   JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
   WHERE i.indrelid = c.oid AND i.indisreplident)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_toast'
  AND (%(oids)s::int8[] IS NULL OR c.oid::int8 = ANY (%(oids)s::int8[]))
ORDER BY n.nspname, c.relname
"""
_COLUMNS = """
SELECT a.attrelid::int8, a.attnum::int4, a.attname::text, a.atttypid::int8, a.atttypmod,
  format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef OR a.attidentity <> '',
  a.attgenerated::text, col_description(a.attrelid, a.attnum), a.attisdropped
FROM pg_attribute a WHERE a.attrelid::int8 = ANY (%(oids)s::int8[]) AND a.attnum > 0
ORDER BY a.attrelid, a.attnum
"""
_TYPES = """
SELECT t.oid::int8, t.typname::text, t.typtype::text,
  t.typnamespace = 'pg_catalog'::regnamespace, t.typcategory = 'A' AND t.typelem <> 0,
  e.typname::text, e.typtype::text, e.typnamespace = 'pg_catalog'::regnamespace
FROM pg_type t LEFT JOIN pg_type e ON e.oid = t.typelem
WHERE t.oid::int8 = ANY (%(oids)s::int8[])
"""
STORED = "s"
"""``attgenerated`` of a generated column whose values are stored."""

Ask = Callable[[str, Mapping[str, Any]], Sequence[tuple[Any, ...]]]
"""Runs a query."""


@dataclass(frozen=True, slots=True)
class CatalogueColumn:
    """A column as the catalogue has it; one that was dropped keeps its number."""

    number: int
    name: str
    type_oid: int
    modifier: int
    shown_type: str
    is_not_null: bool
    has_default: bool
    generated: str
    comment: str | None
    is_dropped: bool


@dataclass(frozen=True, slots=True)
class CatalogueTable:
    """A table as the catalogue has it.

    Parameters
    ----------
    replica_identity : str
        ``d``, ``n``, ``f`` or ``i``.
    identity_columns : tuple of str
        Of the index that ``i`` names.
    """

    oid: int
    name: SourceName
    replica_identity: str
    comment: str | None
    keys: tuple[str, ...]
    identity_columns: tuple[str, ...]
    columns: tuple[CatalogueColumn, ...]

    def sent_columns(self, *, with_stored: bool) -> list[CatalogueColumn]:
        """The columns that the log has."""
        stored = {"", STORED} if with_stored else {""}
        return [c for c in self.columns if not c.is_dropped and c.generated in stored]

    @property
    def old_rows(self) -> OldRows:
        """What the log has of old rows; an index without the whole key does not tell the row."""
        if self.replica_identity == "f":
            return OldRows.ALL
        of_key = self.replica_identity == "d" and bool(self.keys)
        of_index = self.replica_identity == "i" and bool(self.keys)
        if of_key or (of_index and set(self.keys) <= set(self.identity_columns)):
            return OldRows.KEYS
        return OldRows.NOTHING


class Catalogue:
    """The catalogue of one database.

    Parameters
    ----------
    ask : callable
        Runs a query; parameters by name.
    """

    def __init__(self, database: str, mapping: TypeMapping, ask: Ask) -> None:
        self._database = database
        self._mapping = mapping
        self._ask = ask
        self._types: dict[int, tuple[str, bool]] = {}

    def read(self, oids: Sequence[int] | None = None) -> list[CatalogueTable]:
        """All tables, or those of some oids that are still there, by name."""
        found = self._ask(_TABLES, {"oids": None if oids is None else list(oids)})
        columns: dict[int, list[CatalogueColumn]] = {}
        for oid, *facts in self._ask(_COLUMNS, {"oids": [row[0] for row in found]}):
            columns.setdefault(oid, []).append(CatalogueColumn(*facts))
        return [
            CatalogueTable(
                oid=oid,
                name=SourceName(self._database, schema, table),
                replica_identity=identity,
                comment=comment,
                keys=tuple(keys or ()),
                identity_columns=tuple(of_index or ()),
                columns=tuple(columns.get(oid, ())),
            )
            for oid, schema, table, identity, comment, keys, of_index in found
        ]

    def source_table(self, table: CatalogueTable, *, with_stored: bool) -> SourceTable:
        """A table as it is now.

        Parameters
        ----------
        with_stored : bool
            Whether the log has generated columns that are stored.
        """
        sent = table.sent_columns(with_stored=with_stored)
        self._learn_types(column.type_oid for column in sent)
        return SourceTable(
            table.name,
            tuple(self._column(c, c.name, c.type_oid, c.modifier, table.keys) for c in sent),
            table.keys,
            table.old_rows,
            str(table.oid),
            table.comment,
        )

    def version(self, relation: RelationVersion) -> SourceTable:
        """The version of a table that the log describes; it may be older than the catalogue."""
        found = self.read([relation.oid])
        table = found[0] if found else None
        self._learn_types(column.type_oid for column in relation.columns)
        names = {column.name for column in relation.columns}
        flagged = tuple(column.name for column in relation.columns if column.is_identity)
        # of a table that is gone the log knows its key only if that is its replica identity
        keys = table.keys if table else flagged if relation.replica_identity == "d" else ()
        if not set(keys) <= names:
            keys = flagged if relation.replica_identity == "d" else ()
        numbers = match_numbers(relation, table.columns if table else ())
        by_number = {c.number: c for c in table.columns} if table else {}
        columns = []
        for described, number in zip(relation.columns, numbers, strict=True):
            now = by_number.get(number) if number is not None else None
            name, oid, modifier = described.name, described.type_oid, described.modifier
            columns.append(self._column(now, name, oid, modifier, keys))
        old_rows = {"f": OldRows.ALL, "n": OldRows.NOTHING}.get(relation.replica_identity)
        if old_rows is None:
            old_rows = OldRows.KEYS if keys and set(keys) <= set(flagged) else OldRows.NOTHING
        called = SourceName(self._database, relation.schema, relation.name)
        comment = table.comment if table else None
        return SourceTable(called, tuple(columns), keys, old_rows, str(relation.oid), comment)

    def _column(
        self,
        now: CatalogueColumn | None,
        name: str,
        type_oid: int,
        modifier: int,
        keys: Sequence[str],
    ) -> SourceColumn:
        native = self._native(type_oid, modifier)
        lake = native.lake_type(self._mapping)
        is_nullable = Switch.TO_NULLABLE in self._mapping or now is None or not now.is_not_null
        if lake is not None and (name in keys or not is_nullable):
            lake = lake.not_null()
        is_same = now is not None and (now.type_oid, now.modifier) == (type_oid, modifier)
        return SourceColumn(
            name=name,
            native_type=now.shown_type if now and is_same else native.shown,
            type=lake,
            number=now.number if now else None,
            has_default=bool(now and now.has_default),
            comment=now.comment if now else None,
        )

    def _native(self, oid: int, modifier: int) -> PostgresType:
        built_in = PostgresType.built_in(oid, modifier)
        if built_in is not None:
            return built_in
        word, is_array = self._types.get(oid, ("", False))
        return PostgresType(word, modifier, is_array)

    def _learn_types(self, oids: Iterable[int]) -> None:
        """Ask for types that are not built in; one that is gone stays unknown."""
        new = {oid for oid in oids if oid not in self._types}
        new = {oid for oid in new if PostgresType.built_in(oid, -1) is None}
        if not new:
            return
        found = self._ask(_TYPES, {"oids": sorted(new)})
        for oid, name, kind, is_own, is_array, *element in found:
            word = _word(*element) if is_array else _word(name, kind, is_own)
            self._types[oid] = word, is_array


def _word(name: str, kind: str, is_systems: bool) -> str:  # noqa: FBT001
    """The name by which a type is in the table of types; empty for a type that is not."""
    if kind == "e":
        return "enum"
    return name if kind == "b" and is_systems else ""


def match_numbers(
    relation: RelationVersion, columns: Sequence[CatalogueColumn]
) -> list[int | None]:
    """Find the number of each column that the log describes.

    Both are in the order of the numbers. A column of the same name and type is the same one, if the
    order allows it. Of those between two such the log may have an older name: they are the same if
    there are as many in the catalogue, dropped ones included. Otherwise the number is unknown.

    Examples
    --------
    >>> from tidelake.cdc.postgres.log.relation import RelationColumn
    >>> of = lambda number, name: CatalogueColumn(
    ...     number, name, 23, -1, "integer", False, False, "", None, False
    ... )
    >>> old = RelationVersion(1, "s", "t", "d", (RelationColumn("a", 23, -1, False),))
    >>> match_numbers(old, [of(1, "renamed")])
    [1]
    """
    candidates = [c for c in columns if not c.generated or c.generated == STORED]
    live = {c.name: place for place, c in enumerate(candidates) if not c.is_dropped}
    found: list[int | None] = []
    last = -1
    for described in relation.columns:
        place = live.get(described.name, -1)
        # a type that differs may be an ALTER TYPE, which keeps the number: the order decides
        is_same = place > last
        found.append(place if is_same else None)
        last = place if is_same else last
    start = 0
    while start < len(found):
        if found[start] is not None:
            start += 1
            continue
        end = start
        while end < len(found) and found[end] is None:
            end += 1
        before = found[start - 1] if start else -1
        after = found[end] if end < len(found) else len(candidates)
        assert before is not None
        assert after is not None
        if after - before - 1 == end - start:
            found[start:end] = range(before + 1, after)
        start = end
    return [None if place is None else candidates[place].number for place in found]
