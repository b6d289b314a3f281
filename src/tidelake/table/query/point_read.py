"""A few rows of a table by their keys, read from its files each time.

The files that may hold the keys are planned and read (:mod:`tidelake.table.rowlevel.key_lookup`).
Nothing is kept, so this is for a few keys now and then; many gets are for
:class:`~tidelake.table.query.LocalTableQuery`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tidelake.metadata.log.snapshot import Snapshot
from tidelake.options import declared
from tidelake.scan import ReadContext, live_files
from tidelake.table.handle.arguments import known_columns
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.read_hold import ReadHold
from tidelake.table.query.key_columns import check_keyed
from tidelake.table.query.keys import KeyInput
from tidelake.table.query.lookup_result import LookupResult
from tidelake.table.read.other_branch import check_no_other_branch
from tidelake.table.read.scan_request import ScanRequest
from tidelake.table.rowlevel.key_lookup import KeyLookup
from tidelake.types.arrow import to_arrow_schema


def read_keys(
    handle: TableHandle, keys: object, request: ScanRequest, *, is_one: bool = False
) -> LookupResult:
    """Read the rows of some keys.

    Parameters
    ----------
    keys : object
        The keys, as :meth:`tidelake.table.query.keys.KeyInput.batch` takes them.

    Raises
    ------
    InvalidInputError
        The table has no primary key, or a key does not fit it.
    NotFoundError
        A column, or the moment, is unknown.
    """
    request.check_all_files(handle)
    check_no_other_branch(handle, "A lookup by key")

    def plan(snapshot: Snapshot | None, schema_of: Snapshot | None, hold: ReadHold) -> LookupResult:
        with hold:
            return found_keys(snapshot, schema_of)

    def found_keys(snapshot: Snapshot | None, schema_of: Snapshot | None) -> LookupResult:
        context = handle.read_context(schema_of)
        schema = context.schema
        check_keyed(schema, table=handle.identifier)
        columns = known_columns(request.columns, schema.field_names, table=handle.identifier)
        fields = tuple(schema.field(name) for name in schema.primary_keys)
        given = KeyInput(fields, table=handle.identifier)
        if is_one:
            given.values(keys)  # its error names the key
        batch = given.batch([keys] if is_one else keys)
        wanted = to_arrow_schema(context.fields(columns))
        if snapshot is None:
            nothing = pa.RecordBatch.from_pylist([], schema=wanted)
            return LookupResult(None, np.zeros(batch.num_rows, np.bool_), nothing)
        found = KeyLookup(
            context,
            snapshot,
            manifests=handle.manifests,
            columns=columns,
            by_bucket=_has_one_total(context, snapshot, handle),
        ).find(batch)
        rows = found.rows.take(pa.array(found.positions[found.is_found]))
        return LookupResult(snapshot.id, found.is_found, rows)

    return request.planned_held(handle, plan)


def _has_one_total(context: ReadContext, snapshot: Snapshot, handle: TableHandle) -> bool:
    """Whether all files were written with the number of buckets that the table has now."""
    files = live_files(context, snapshot, manifests=handle.manifests)
    return bool((files["total_buckets"] == context.options.get(declared.BUCKET)).all())
