"""MERGE that moves the source's rows to the buckets, and not the table's rows.

If ON equates the whole primary key with columns of the source, a source row can only match a row in
the bucket that the source row would be written to. So:

1. The rows of the source are clustered by bucket, like rows to write: the only shuffle.
2. The task that has a bucket's rows looks their keys up in the bucket
   (:mod:`tidelake.table.rowlevel.key_lookup`): it reads the key columns and, of the rows found, the
   columns that the clauses use or keep. The table never enters the JVM.
3. Spark, in the same stage, evaluates the clauses over pairs of source row and found row.
4. The same task writes the result, and checks that no key is changed twice or changed and inserted
   (:mod:`tidelake.spark.rowlevel.merge_cardinality`): it has all rows of a key.

This is one query, whatever the source's size; the source is read once, and nothing is kept on
executors. A lateral join with one row lets clauses see both sides under their aliases; Spark's
optimiser removes the join and keeps the names.

Not every merge fits (:func:`by_bucket`): the others are Spark joins
(:mod:`tidelake.spark.rowlevel.merge_by_join`). Memory of a task: :data:`SOURCE_BYTES_MAX` of source
rows at a time, the rows found for them, and the keys that it changes. Each such portion of source
rows reads a bucket's keys again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st
from pyspark.sql.utils import is_remote

from tidelake.engine.metadata import Snapshot
from tidelake.engine.rows import KeyLookup, is_comparable
from tidelake.engine.scan import live_files
from tidelake.engine.tables import TableHandle
from tidelake.engine.write import DEDUPLICATE, ROW_KIND_COLUMN
from tidelake.options import declared
from tidelake.spark.expression.expression import quoted
from tidelake.spark.expression.mapped import mapped
from tidelake.spark.expression.types import spark_schema, to_spark_arrow
from tidelake.spark.read.scan_frame import ROWS_PER_BATCH
from tidelake.spark.rowlevel.merge_clauses import ResolvedMerge
from tidelake.spark.rowlevel.merge_columns import (
    CLAUSE,
    first_of,
    kind_of,
    kind_of_change,
    new_value,
)
from tidelake.spark.write.clustering import clustered
from tidelake.spark.write.write_task import for_task, in_task
from tidelake.types import RowKind
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.predicate import Predicate

SOURCE_BYTES_MAX = 64 << 20
"""Source rows whose keys are looked up together."""
MATCHED = "_tidelake_matched"
INSERT_CLAUSE = "_tidelake_insert_clause"
_KEY, _SOURCE, _TARGET, _INSERT = (f"_tidelake_{c}" for c in "ksti")
_CROSSING = (
    st.BooleanType,
    st.ByteType,
    st.ShortType,
    st.IntegerType,
    st.LongType,
    st.FloatType,
    st.DoubleType,
    st.DecimalType,
    st.StringType,
    st.BinaryType,
    st.DateType,
    st.TimestampType,
    st.TimestampNTZType,
)

Batches = Iterator[pa.RecordBatch]


def by_bucket(
    spark: SparkSession,
    handle: TableHandle,
    merge: ResolvedMerge,
    snapshot: Snapshot,
    *,
    columns: Sequence[str],
    tasks: int | None,
) -> DataFrame | None:
    """The rows that a merge writes, each in its writing task.

    Returns
    -------
    DataFrame or None
        The table's columns and ``_row_kind``. None if the merge does not fit: the table's buckets
        are not fixed, its engine is not deduplicate, or some of its partitions wait for a rescale;
        ON leaves a part of the primary key out, or compares keys otherwise than they are stored;
        rows are inserted under other keys than ON's; WHEN NOT MATCHED BY SOURCE; a sole DELETE may
        meet a row several times; the clauses have subqueries; the source has columns of types that
        Arrow cannot carry; Spark Connect.
    """
    of_key = _source_of_key(handle, merge)
    if of_key is None or is_remote() or not _has_fixed_buckets(handle, snapshot):
        return None
    source = merge.source_rows()
    if not all(_crosses(field.dataType) for field in source.schema.fields):
        return None
    sides = _Sides.of(source.columns, of_key, columns)
    found = sides.looked_up(handle, merge, snapshot, source, tasks)
    rows = _evaluated(spark, merge, sides, found)
    laterals_count = 2 if merge.of("not_matched") else 1
    if _subqueries_count(rows) - _subqueries_count(found) != laterals_count:
        return None  # a subquery may become a join, which may move the rows
    return rows


def _source_of_key(handle: TableHandle, merge: ResolvedMerge) -> dict[str, str] | None:
    """The source's column of each column of the primary key, if the clauses permit it."""
    schema, options = handle.schema, handle.options
    of_key = dict(reversed(merge.equal))
    keys = schema.primary_keys
    if (
        not set(keys) <= set(of_key)
        or schema.keys_may_move
        or options.get(declared.BUCKET) <= 0
        or options.get(declared.MERGE_ENGINE) != DEDUPLICATE
        or not all(is_comparable(schema.field(key).type) for key in keys)
        or merge.of("not_matched_by_source")
        or (merge.of("not_matched") and not merge.adds_keys_of_on)
        or merge.is_sole_delete
    ):
        return None
    return {key: of_key[key] for key in keys}


def _has_fixed_buckets(handle: TableHandle, snapshot: Snapshot) -> bool:
    """Whether all files are in buckets of the table's current number."""
    files = live_files(handle.read_context(), snapshot, manifests=handle.manifests)
    return bool((files["total_buckets"] == handle.options.get(declared.BUCKET)).all())


def _crosses(data_type: st.DataType) -> bool:
    """Whether values of a type return from Python unchanged."""
    if isinstance(data_type, st.ArrayType):
        return _crosses(data_type.elementType)
    if isinstance(data_type, st.MapType):
        return _crosses(data_type.keyType) and _crosses(data_type.valueType)
    if isinstance(data_type, st.StructType):
        names = [f.name.casefold() for f in data_type.fields]
        return len(set(names)) == len(names) and all(_crosses(f.dataType) for f in data_type.fields)
    return isinstance(data_type, _CROSSING)


def _subqueries_count(rows: DataFrame) -> int:
    return int(rows._jdf.queryExecution().analyzed().subqueriesAll().size())


@dataclass(frozen=True, slots=True)
class _Sides:
    """The columns of both sides, and their unique names in transit.

    Parameters
    ----------
    keys : tuple of str
        The names of the primary key's columns in transit.
    source, target : mapping of str to str
        The same by the columns' names. A column that is in the key is not carried twice.
    """

    of_key: Mapping[str, str]
    keys: tuple[str, ...]
    source: Mapping[str, str]
    target: Mapping[str, str]

    @classmethod
    def of(cls, source: Sequence[str], of_key: Mapping[str, str], columns: Sequence[str]) -> _Sides:
        """Name them."""
        keys = {key: f"{_KEY}{index}" for index, key in enumerate(of_key)}
        by_source = {of_key[key].casefold(): keys[key] for key in reversed(list(of_key))}
        return cls(
            of_key,
            tuple(keys.values()),
            {
                name: by_source.get(name.casefold(), f"{_SOURCE}{index}")
                for index, name in enumerate(source)
            },
            {name: keys.get(name, f"{_TARGET}{index}") for index, name in enumerate(columns)},
        )

    @property
    def carried_of_source(self) -> list[tuple[str, str]]:
        """Columns of the source that are not in the key, and their names in transit."""
        return [(name, own) for name, own in self.source.items() if own not in self.keys]

    @property
    def carried_of_target(self) -> list[tuple[str, str]]:
        """Columns of the table that are not in the key, and their names in transit."""
        return [(name, own) for name, own in self.target.items() if own not in self.keys]

    @property
    def all(self) -> list[str]:
        """All columns by their names in transit."""
        carried = (*self.carried_of_source, *self.carried_of_target)
        return [*self.keys, *(own for _, own in carried)]

    def looked_up(
        self,
        handle: TableHandle,
        merge: ResolvedMerge,
        snapshot: Snapshot,
        source: DataFrame,
        tasks: int | None,
    ) -> DataFrame:
        """The rows of the source, each at its bucket, with the table's rows of their keys.

        Columns: :attr:`all`, and :data:`MATCHED`.
        """
        packed = source.select(
            *(F.col(quoted(name)).alias(key) for key, name in self.of_key.items()),
            *(F.col(quoted(name)).alias(own) for name, own in self.carried_of_source),
        )
        rows_by_bucket = clustered(handle, packed, tasks)
        wanted = tuple(name for name, _ in self.carried_of_target)
        found = spark_schema(handle.read_context().fields(wanted), table=handle.identifier)
        types = [f.dataType for f in (*packed.schema.fields, *found.fields)]
        schema = st.StructType(
            [st.StructField(n, t) for n, t in zip(self.all, types, strict=True)]
        ).add(MATCHED, st.BooleanType())
        task = _LookUp(
            for_task(handle),
            snapshot,
            tuple(self.of_key),
            wanted,
            tuple(schema.names),
            merge.predicate,
        )
        return mapped(rows_by_bucket, task.rows, schema)

    def of_source(self, rows: DataFrame, alias: str) -> DataFrame:
        """The rows with the source's columns under its alias, and all their other columns."""
        named = (F.col(own).alias(name) for name, own in self.source.items())
        return rows.select(*named, *rows.columns).alias(alias)

    def pairs(self, one_row: DataFrame, rows: DataFrame, merge: ResolvedMerge) -> DataFrame:
        """The rows with both sides' columns under their aliases, and all their other columns."""
        named = (F.col(own).outer().alias(name) for name, own in self.target.items())
        return self.of_source(rows, merge.source_alias).lateralJoin(
            one_row.select(*named).alias(merge.alias)
        )


@dataclass(frozen=True, slots=True)
class _LookUp:
    """The needs of a task that looks up the rows of its buckets. Picklable.

    Parameters
    ----------
    keys : tuple of str
        The primary key; the first columns of the source's rows.
    predicate : Predicate, optional
        Bound; rows that do not satisfy it match nothing.
    """

    handle: TableHandle
    snapshot: Snapshot
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    names: tuple[str, ...]
    predicate: Predicate | None
    bytes_max: int = SOURCE_BYTES_MAX

    def rows(self, batches: Batches) -> Batches:
        """Take rows of the source, give pairs."""
        handle = in_task(self.handle)
        rows = KeyLookup(
            handle.read_context(all_rows=True),
            self.snapshot,
            manifests=handle.manifests,
            columns=self.columns,
            predicate=self.predicate,
        )
        held: list[pa.RecordBatch] = []
        size_bytes = 0
        for batch in batches:
            if batch.num_rows:
                held.append(batch)
                size_bytes += batch.nbytes
            if size_bytes >= self.bytes_max:
                yield from self._pairs(rows, held)
                held, size_bytes = [], 0
        if held:
            yield from self._pairs(rows, held)

    def _pairs(self, rows: KeyLookup, held: Sequence[pa.RecordBatch]) -> Batches:
        context = self.handle.read_context()
        schema = to_arrow_schema(context.fields(self.keys))
        keys = [
            pa.chunked_array([batch.column(index) for batch in held])
            .cast(field.type)
            .combine_chunks()
            for index, field in enumerate(schema)
        ]
        found = rows.find(pa.RecordBatch.from_arrays(keys, names=list(self.keys)))
        fields = context.fields(self.columns)
        begin = 0
        for batch in held:
            for start in range(0, batch.num_rows, ROWS_PER_BATCH):
                own = batch.slice(start, ROWS_PER_BATCH)
                beside = pa.RecordBatch.from_arrays(
                    found.beside(begin + start, own.num_rows), names=list(self.columns)
                )
                is_found = found.is_found[begin + start : begin + start + own.num_rows]
                columns = [*own.columns, *to_spark_arrow(beside, fields).columns]
                yield pa.RecordBatch.from_arrays(
                    [*columns, pa.array(is_found)], names=list(self.names)
                )
            begin += batch.num_rows


def _evaluated(
    spark: SparkSession,
    merge: ResolvedMerge,
    sides: _Sides,
    found: DataFrame,
) -> DataFrame:
    """The result of the clauses over the pairs: rows with their kinds, none moved.

    Expressions are evaluated only for the rows of their clause: for others they may fail.
    """
    one_row = spark.sql("SELECT 1 AS _tidelake_one")
    keys = [F.col(name) for name in sides.all]
    pairs = sides.pairs(one_row, found, merge)
    matched = F.coalesce(F.when(F.col(MATCHED), merge.on), F.lit(False))
    inserts = merge.of("not_matched")
    if inserts:
        rows = pairs.select(*keys, matched.alias(MATCHED))
        rows = sides.of_source(rows, merge.source_alias)
        rows = rows.withColumn(CLAUSE, first_of([(c, ~F.col(MATCHED)) for c in inserts]))
        rows = rows.select(
            *keys,
            MATCHED,
            F.col(CLAUSE).alias(INSERT_CLAUSE),
            *(
                new_value(inserts, name, F.lit(None).cast(wanted)).alias(f"{_INSERT}{index}")
                for index, (name, wanted) in enumerate(merge.types.items())
            ),
        )
        pairs = sides.pairs(one_row, rows, merge)
    else:
        pairs = pairs.withColumn(MATCHED, matched)
    tests = [(clause, F.col(MATCHED)) for clause in merge.of("matched")]
    pairs = pairs.withColumn(CLAUSE, first_of(tests))
    acts = F.col(CLAUSE).isNotNull()
    is_added = F.col(INSERT_CLAUSE).isNotNull() if inserts else F.lit(False)
    columns = []
    for index, (name, wanted) in enumerate(merge.types.items()):
        old = F.lit(None).cast(wanted)
        if name in sides.target:
            old = F.col(f"{quoted(merge.alias)}.{quoted(name)}")
        value = new_value(merge.updates, name, old)
        if inserts:
            value = F.when(is_added, F.col(f"{_INSERT}{index}")).otherwise(value)
        columns.append(value.alias(name))
    kind = F.when(is_added, kind_of(RowKind.INSERT)).otherwise(kind_of_change(merge.clauses))
    return pairs.where(acts | is_added).select(*columns, kind.alias(ROW_KIND_COLUMN))
