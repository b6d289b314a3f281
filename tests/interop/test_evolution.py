"""Tables whose columns got other types, read by Java at every snapshot, before and after."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tidelake
from interop.cast_vectors import CASTS, VALUES, as_held, column, known_refusal
from interop.cells import table_cells
from interop.protocol import Request
from tidelake.types import DataField, parse_type
from tidelake.types.arrow import to_arrow_schema, to_arrow_type
from tidelake.types.cast import needs_zone

SKIPPED_FORMS = ("TIMESTAMP(7)", "TIMESTAMP(9)")  # no mix of nanoseconds and coarser in one table


def castable(source, target, cells, results):
    """Which values Java gives something for that it can hand on, and we too."""
    return [
        cell
        if held not in {None, "!"} and held == java and not known_refusal(source, target, cell)
        else None
        for cell, java, held in (
            (c, r, as_held(r, target)) for c, r in zip(cells, results, strict=True)
        )
    ]


def made(catalog, number, name):
    """A table of one source type, a column for each target; altered after its first commit."""
    source = parse_type(name)
    lines = [
        c
        for c in CASTS
        if c["from"] == name
        and c["zone"] == "UTC"
        and not c["to"].startswith(SKIPPED_FORMS)
        and not needs_zone(source, parse_type(c["to"]))
        and c["to"] != name
    ]
    fields = [DataField(0, "row", parse_type("INT"))]
    columns = [pa.array(range(len(VALUES[name])), pa.int32())]
    for line in lines:
        fields.append(DataField(len(fields), f"c{len(fields)}", source))
        cells = castable(source, parse_type(line["to"]), VALUES[name], line["cells"])
        some = next(c for c in VALUES[name])
        whole = column([some if c is None else c for c in cells], source)
        nothing = pa.array([c is None for c in cells])
        columns.append(pa.compute.if_else(nothing, pa.scalar(None, to_arrow_type(source)), whole))
    table = catalog.create_table(f"db.t{number}", fields)
    table.write(pa.Table.from_arrays(columns, schema=to_arrow_schema(fields)))
    table.alter(
        *(
            tidelake.UpdateColumnType(f.name, parse_type(line["to"]))
            for f, line in zip(fields[1:], lines, strict=True)
        )
    )
    table.rename_column("c1", "renamed").add_column("new", "STRING", first=True)
    table.write(pa.Table.from_pylist([{"row": 99}], schema=table.schema.empty_table().schema))
    return table


@pytest.mark.oracle
def test_java_casts_what_we_cast(java, tmp_path):
    catalog = tidelake.open(tmp_path / "w")
    names = [n for n in VALUES if n != "VARIANT" and not n.startswith("TIMESTAMP(9)")]
    tables = [made(catalog, number, name) for number, name in enumerate(names)]
    requests = [
        Request(f"{number}|{asked}", table.paths.location, options)
        for number, table in enumerate(tables)
        for asked, options in (("now", {}), ("then", {"scan.snapshot-id": "1"}))
    ]
    answers = java.ask(requests)
    wrong = []
    for number, (name, table) in enumerate(zip(names, tables, strict=True)):
        for asked, snapshot in (("now", None), ("then", 1)):
            answer = answers[f"{number}|{asked}"]
            rows = table.to_arrow(snapshot_id=snapshot)
            ours = sorted(table_cells(rows), key=repr)
            if answer.error or answer.columns != rows.column_names:
                wrong.append((name, asked, answer.error or answer.columns))
            elif ours != sorted(answer.rows, key=repr):
                pairs = zip(ours, sorted(answer.rows, key=repr), strict=True)
                wrong.append((name, asked, next(p for p in pairs if p[0] != p[1])))
    assert not wrong
