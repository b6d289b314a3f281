"""A condition on a column that got another type gives the rows that it gives without pruning."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from sizes import examples

import tidelake
from tidelake.errors import InvalidInputError
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env
from tidelake.types import DataField, parse_type
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.cast import can_cast
from tidelake.types.predicate import bind, evaluate

NUMBERS = st.integers(-300, 300) | st.sampled_from([2**31 - 1, -(2**31), 99_999])
VALUES = {
    "INT": NUMBERS,
    "BIGINT": NUMBERS | st.sampled_from([2**40 + 5, -(2**63)]),
    "TINYINT": st.integers(-128, 127),
    "DOUBLE": st.sampled_from([0.0, -0.0, 1.5, -2.5, 1e10, float("nan"), 99.995, 300.0]),
    "FLOAT": st.sampled_from([0.0, 1.5, -2.5, 300.25]),
    "DECIMAL(7, 2)": st.decimals(-99_999, 99_999, places=2),
    "DECIMAL(9, 4)": st.decimals(-99_999, 99_999, places=4),
    "DECIMAL(3, 1)": st.decimals(-99, 99, places=1),
    "STRING": NUMBERS.map(str) | st.sampled_from(["007", "-0", "1.5", "12.9"]),
    "VARCHAR(2)": st.sampled_from(["1", "12", "-1", "0"]),
    "CHAR(4)": st.sampled_from(["1234", "-111"]),
}


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_pruning_over_a_retyped_column_changes_no_answer(data):
    old = data.draw(st.sampled_from(sorted(VALUES)))
    new = data.draw(
        st.sampled_from(
            [t for t in sorted(VALUES) if can_cast(parse_type(old), parse_type(t), explicit=True)]
        )
    )
    keyed = data.draw(st.booleans())
    catalog = tidelake.open("/w", env=Env.seeded(1), fileio=MemoryFileIO())
    fields = [DataField(0, "k", parse_type("INT")), DataField(1, "v", parse_type(old))]
    keys = {"primary_keys": ["k"], "options": {"bucket": 1}} if keyed else {}
    table = catalog.create_table("db.t", fields, **keys)

    def write(form, start):
        values = data.draw(st.lists(st.none() | VALUES[form], min_size=1, max_size=4))
        schema = to_arrow_schema(table.table_schema.fields)
        keys = pa.array(range(start, start + len(values)), pa.int32())
        column = pa.array(values, schema.field(1).type)
        table.write(pa.Table.from_arrays([keys, column], schema=schema))

    for start in (0, 3, 10):
        write(old, start)
    table.retype_column("v", new)
    write(new, 20)
    try:
        rows = table.to_arrow()
    except InvalidInputError:
        return  # a text that is no number of this type
    present = [v for v in rows.column("v").to_pylist() if v is not None]
    value = data.draw(st.sampled_from(present) | VALUES[new] if present else VALUES[new])
    v = tidelake.col("v")
    where = data.draw(
        st.sampled_from(
            [
                *(v == value, v != value, v < value, v >= value, v.isin([value]), ~(v == value)),
                *(v.is_null(), (v > value) | v.is_null()),
            ]
        )
    )
    bound = bind(where, table.table_schema.fields)
    batch = rows.combine_chunks().to_batches()[0]
    expected = batch.filter(evaluate(bound, batch, table.table_schema.fields))
    found = table.to_arrow(where=where)
    assert sorted(found.column("k").to_pylist()) == sorted(expected.column("k").to_pylist())
