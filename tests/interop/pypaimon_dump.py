"""pypaimon's end of the protocol; runs in a virtual environment of its own.

Usage: ``python pypaimon_dump.py REQUESTS ANSWERS``
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pypaimon

from interop.cells import table_cells
from interop.protocol import Row, serve


def _read(
    table_path: str, options: Mapping[str, str], system: str | None
) -> tuple[list[str], list[Row]]:
    assert system is None, "it is asked for no system table"
    place = Path(table_path)
    catalog = pypaimon.CatalogFactory.create({"warehouse": str(place.parents[1])})
    table = catalog.get_table(f"{place.parent.name.removesuffix('.db')}.{place.name}")
    if options:
        table = table.copy(dict(options))
    builder = table.new_read_builder()
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    if rows is None:  # its answer for a table without a row
        return [f.name for f in table.fields], []
    return rows.column_names, table_cells(rows)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]), read=_read)
