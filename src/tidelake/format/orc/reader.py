"""Streams one ORC data file as Arrow batches of the wanted columns.

1. Size, row count and stripes must agree with the manifest and with each other before anything is
   read.
2. Columns are found by their names in the file's own schema
   (:mod:`tidelake.format.schema_mapped_columns`).
3. Small stripes are read whole, one after the other, and cut into batches
   (:mod:`tidelake.format.orc.stripes`). A file with a larger one is read by Arrow's scanner, which
   reads ahead a bounded number of small batches.

ORC has no checksums: damage that leaves a stream decodable, and texts UTF-8, stays unnoticed, in
Java too.

Source: Paimon's ``OrcReaderFactory`` and its column vectors (1.3.1). Memory: one stripe of at most
:data:`STRIPE_BYTES_MAX` in the file, or :data:`AHEAD_BATCHES` small batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import orc

from tidelake.format.file_reader import (
    InputFiles,
    ReadRequest,
    asked_rows,
    check_row_count,
    check_texts,
    null_batches,
    open_sized,
)
from tidelake.format.orc.schema import FIELD_ID_KEY, check_type
from tidelake.format.orc.stripes import OrcStripes
from tidelake.format.orc.tail import orc_tail
from tidelake.format.read_error import corrupt
from tidelake.format.schema_mapped_columns import OwnColumns, check_no_variant
from tidelake.types.arrow import to_arrow_schema

STRIPE_BYTES_MAX = 20 << 20
"""Length in the file up to which a stripe is read whole; our stripes are shorter."""
AHEAD_BATCHES = 32
"""How many batches Arrow's scanner may hold."""
AHEAD_ROWS = 4_096
COLUMNS_COUNT_MAX = 20_000


def read_orc(
    stack: ExitStack, fileio: InputFiles, request: ReadRequest
) -> Iterator[pa.RecordBatch]:
    """Read an ORC file; see :data:`tidelake.format.file_reader.FileReader`."""
    path = request.path
    source = open_sized(stack, fileio, request)
    file = orc.ORCFile(source)
    check_row_count(request, file.nrows)
    tail = orc_tail(file, path=path)
    schema = file.schema
    if len(schema) > COLUMNS_COUNT_MAX:
        raise corrupt(path, f"it has {len(schema)} columns, over {COLUMNS_COUNT_MAX}")
    columns = OwnColumns(request, schema.names, ids=_ids(schema))
    check_no_variant(columns.fields, file_format="ORC")
    for own in columns.fields:
        check_type(schema.field(own.name).type, own, path=path)
    if not columns.fields:
        nothing = to_arrow_schema(request.fields)
        batches = null_batches(nothing, file.nrows, request.batch_rows)
        return asked_rows(batches, request.deleted, request.wanted)
    stripes = OrcStripes(source, file, tail, columns.fields, zone_moves=request.orc_zone_moves)
    stripes.check(path)
    large = max((s.size_bytes for s in tail.stripes), default=0) > STRIPE_BYTES_MAX
    read = _scanned(source, stripes, path) if large else stripes.batches(path)
    rows = _wanted(read, stripes, columns, request)
    return asked_rows(rows, request.deleted, request.wanted)


def _ids(schema: pa.Schema) -> Mapping[int, str]:
    """Names by the field ids in the type attributes; empty if the writer left none."""
    ids = {}
    for column in schema:
        text = (column.metadata or {}).get(FIELD_ID_KEY)
        if text is not None:
            ids[int(text)] = column.name
    return ids


def _scanned(
    source: pa.NativeFile, stripes: OrcStripes, path: str
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Read large stripes in small batches, which are joined again to larger ones."""
    if len(set(stripes.zones)) > 1:
        yield from stripes.batches(path)
        return
    fragment = ds.OrcFileFormat().make_fragment(source)
    scanner = fragment.scanner(
        columns={name: ds.field(name) for name in stripes.names},
        batch_size=AHEAD_ROWS,
        batch_readahead=0,
        fragment_readahead=0,
        use_threads=False,
    )
    found = 0
    waiting: list[pa.RecordBatch] = []
    try:
        for batch in scanner.to_batches():
            waiting.append(batch)
            if len(waiting) == AHEAD_BATCHES // 2:
                joined = pa.concat_batches(waiting)
                waiting.clear()
                yield stripes.zones[0], joined
                found += joined.num_rows
    except pa.ArrowInvalid:
        # a timestamp that only the stripes' own reader supports, or damage, which it reports too
        yield from stripes.batches(path, rows_before=found)
        return
    if waiting:
        joined = pa.concat_batches(waiting)
        found += joined.num_rows
        yield stripes.zones[0], joined
    if found != stripes.row_count:
        raise corrupt(path, f"it holds {found} rows, not {stripes.row_count}")


def _wanted(
    read: Iterator[tuple[str, pa.RecordBatch]],
    stripes: OrcStripes,
    columns: OwnColumns,
    request: ReadRequest,
) -> Iterator[pa.RecordBatch]:
    for zone, rows in read:
        row_bytes = max(1, rows.nbytes // max(1, rows.num_rows))
        count = max(1, min(request.batch_rows, request.batch_bytes // row_bytes))
        for start in range(0, rows.num_rows, count):
            batch = check_texts(rows.slice(start, count))
            yield columns.wanted(stripes.own_values(batch, zone, request.path), batch.num_rows)
