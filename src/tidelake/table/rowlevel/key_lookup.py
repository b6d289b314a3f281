"""Rows of a primary-key table found by their keys, many at a time.

1. The keys are routed to partitions and buckets, as a write routes rows. If the table makes its
   buckets on demand, or keys may change partition, any bucket may hold them.
2. A plan of these buckets alone, pruned by the keys' bounds (or, for few keys, by the keys), gives
   the files that may hold them.
3. Each bucket's keys are sorted. Its rows come in key order, or are sorted batch by batch, so the
   keys between the first and the last row of a batch are looked up by bisection.

Only the key columns and the wanted columns are read. Keys with a null match nothing, as in SQL.

Cost: reading these columns of the buckets that keys lie in, and a bisection per key and run of
batches. Memory: the keys, the rows found, a batch of each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.codec.sorted_keys import SortedKeys
from tidelake.merge import MergeSpec
from tidelake.metadata.bucket_id import BucketId
from tidelake.metadata.log.snapshot import Snapshot
from tidelake.metadata.manifest.manifest_cache import ManifestCache
from tidelake.options import declared
from tidelake.scan import ReadContext, key_bounds, plan_scan, read_split
from tidelake.scan.pruning.key_bounds import BOUNDED_TYPES
from tidelake.table.bucketing.router import Router
from tidelake.types import DataType, TypeRoot
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.predicate import Predicate, conjoin

_ORDINAL = "_ordinal"
_COMPARABLE = BOUNDED_TYPES | {TypeRoot.BOOLEAN, TypeRoot.DECIMAL, TypeRoot.VARBINARY}
_TIMESTAMPS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_MICROSECONDS = 6

Positions = npt.NDArray[np.intp]


def is_comparable(data_type: DataType) -> bool:
    """Whether two values of a type are one key exactly if SQL calls them equal.

    Not so for floating point (0.0 and -0.0), for CHAR and BINARY, which are padded, and for
    timestamps that storage truncates.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> [is_comparable(parse_type(t)) for t in ("BIGINT", "DOUBLE", "TIMESTAMP(3)")]
    [True, False, False]
    """
    if data_type.root in _TIMESTAMPS:
        return data_type.precision == _MICROSECONDS
    return data_type.root in _COMPARABLE


@dataclass(frozen=True, slots=True)
class LookedUpRows:
    """The rows found for some keys.

    Parameters
    ----------
    positions : int array [n]
        For each key the position of its row in `rows`; -1 for a key without a row.
    """

    positions: Positions
    rows: pa.RecordBatch

    @property
    def is_found(self) -> npt.NDArray[np.bool_]:
        """Whether each key has a row."""
        return self.positions >= 0

    def beside(self, start: int, count: int) -> list[pa.Array]:
        """The wanted columns for `count` keys from `start` on; null for keys without a row."""
        positions = self.positions[start : start + count]
        if not self.rows.num_rows:  # or no columns
            return [pa.nulls(count, field.type) for field in self.rows.schema]
        taken = pa.array(positions, mask=positions < 0)
        return [column.take(taken) for column in self.rows.columns]


class KeyLookup:
    """Finds rows of one snapshot of a table by their keys.

    Parameters
    ----------
    predicate : Predicate, optional
        Bound; rows that do not satisfy it are not found.
    by_bucket : bool
        Whether a key is sought in its bucket only. Requires: a table with a fixed number of buckets
        is all written with that number.

    Notes
    -----
    Runs on executors. Not thread-safe.
    """

    def __init__(
        self,
        context: ReadContext,
        snapshot: Snapshot,
        *,
        manifests: ManifestCache,
        columns: Sequence[str],
        predicate: Predicate | None = None,
        by_bucket: bool = True,
    ) -> None:
        schema, options = context.schema, context.options
        self._context = context
        self._snapshot = snapshot
        self._manifests = manifests
        self._columns = tuple(columns)
        self._predicate = predicate
        self._keys = context.fields(tuple(schema.primary_keys))
        self._spec = MergeSpec.of(schema, options)
        self._router: Router | None = None
        if by_bucket and options.get(declared.BUCKET) > 0 and not schema.keys_may_move:
            self._router = Router(
                [schema.field(name) for name in schema.partition_keys],
                [schema.field(name) for name in schema.bucket_keys],
                buckets_count=options.get(declared.BUCKET),
                function=options.get(declared.BUCKET_FUNCTION_TYPE),
            )

    def find(self, keys: pa.RecordBatch) -> LookedUpRows:
        """Look keys up.

        Parameters
        ----------
        keys : RecordBatch [n]
            The primary key, in the table's Arrow types; repeated or not, in any order.
        """
        whole = np.ones(keys.num_rows, np.bool_)
        for column in keys.columns:
            whole &= column.is_valid().to_numpy(zero_copy_only=False)
        known = np.flatnonzero(whole)
        positions = np.full(keys.num_rows, -1, np.intp)
        found: list[pa.RecordBatch] = []
        count = 0
        for own, rows in self._found(keys, known):
            positions[own] = count + np.arange(len(own))
            count += len(own)
            found.append(rows)
        wanted = self._context.fields(self._columns)
        return LookedUpRows(positions, _together(found, to_arrow_schema(wanted)))

    def _found(
        self, keys: pa.RecordBatch, known: Positions
    ) -> Iterator[tuple[Positions, pa.RecordBatch]]:
        """Positions of keys, and their rows one for one, batch by batch."""
        if not len(known):
            return
        rows = keys.take(pa.array(known)) if len(known) < keys.num_rows else keys
        own = [] if self._predicate is None else [self._predicate]
        predicate = conjoin([*own, *key_bounds(rows, self._keys, self._context.schema.fields)])
        names = tuple(field.name for field in self._keys)
        everywhere: SortedKeys | None = None
        searches: dict[BucketId, SortedKeys] = {}
        if self._router is None:
            types = [field.type for field in self._keys]
            everywhere = SortedKeys([rows.column(name) for name in names], types, known)
        else:
            names = tuple(self._spec.key_columns)
            searches = self._searches(self._router, rows.append_column(_ORDINAL, pa.array(known)))
        plan = plan_scan(
            self._context,
            self._snapshot,
            manifests=self._manifests,
            predicate=predicate,
            buckets=None if everywhere is not None else searches.keys(),
        )
        columns = tuple(dict.fromkeys((*names, *self._columns)))
        for split in plan.splits:
            search = everywhere or searches[split.bucket_id]
            for batch in read_split(self._context, split, columns=columns, predicate=predicate):
                sought, positions = search.found_in(
                    [batch.column(name) for name in names], rising=not self._spec.clustered
                )
                if len(sought):
                    yield sought, batch.select(list(self._columns)).take(pa.array(positions))

    def _searches(self, router: Router, rows: pa.RecordBatch) -> dict[BucketId, SortedKeys]:
        """The keys to look for in each bucket."""
        return {
            piece.bucket_id: SortedKeys(
                [piece.rows.column(name) for name in self._spec.key_columns],
                self._spec.key_types,
                piece.rows.column(_ORDINAL).to_numpy(),
            )
            for piece in router.route(rows, None)
        }


def _together(found: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """The rows in one batch; without rows an empty one with these columns."""
    if not found or not len(schema):
        return pa.RecordBatch.from_pylist([], schema=schema)
    table = pa.Table.from_batches(found).combine_chunks()
    (batch,) = table.to_batches()
    return batch
