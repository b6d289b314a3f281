from __future__ import annotations

import pyarrow as pa
import pytest

from tidelake.store.write_buffer import BATCH_BYTES, RowBuffer

ROWS = pa.record_batch({"k": list(range(400_000))})


@pytest.mark.parametrize("owns_rows", [True, False])
def test_a_buffer_that_owns_its_rows_keeps_nothing_else_in_memory(owns_rows):
    buffer = RowBuffer(owns_rows=owns_rows)
    part = ROWS.slice(1_000, 50_000)
    buffer.append(part)
    [held] = buffer.batches
    assert held.equals(part)
    kept = held.get_total_buffer_size()
    assert (kept < 2 * part.nbytes) == owns_rows
    assert buffer.size_bytes == part.nbytes + (BATCH_BYTES if owns_rows else 0)


def test_a_tiny_slice_is_copied_in_any_case():
    buffer = RowBuffer()
    buffer.append(ROWS.slice(7, 10))
    assert buffer.batches[0].get_total_buffer_size() < 1_000


def test_slices_that_replace_all_rows_are_not_copied():
    buffer = RowBuffer(owns_rows=True)
    buffer.append(ROWS.slice(0, 5))
    buffer.replace([ROWS.slice(0, 100), ROWS.slice(100)])
    assert buffer.row_count == ROWS.num_rows
    assert buffer.batches[0].column(0).buffers()[1].address == ROWS.column(0).buffers()[1].address
