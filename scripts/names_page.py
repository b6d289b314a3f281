"""The page of names that other libraries have, made of the tables of ``tidelake.foreign_names``."""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.foreign_names import (
    OF_CATALOG,
    OF_PACKAGE,
    OF_SCAN,
    OF_TABLE,
    OTHERS,
    ForeignName,
)

HEAD = """\
# Names from elsewhere

<!-- Written by scripts/names_page.py from src/tidelake/foreign_names.py: change it there. -->

You may type a name that you know from Delta (`deltalake`), `pyiceberg` or `pypaimon`. These work:
`table.append`, `overwrite`, `upsert`, `delete`, `update`, `history`, `count`, `scan(...)` with
`to_arrow()`, `to_pandas()`, `to_polars()` and `to_duckdb()`, `catalog.load_table`, `create_table`,
`drop_table`, `rename_table`, `table_exists`. Those below do not exist here. Each is an
`AttributeError` that names the call to make:

```pycon
>>> import tempfile, tidelake
>>> table = tidelake.open(tempfile.mkdtemp()).create_table("db.t", {"k": "INT"})
>>> table.optimize
Traceback (most recent call last):
...
AttributeError: Table has no 'optimize', a name of Delta: use table.compact().

```

What differs behind equal names: [Delta and Iceberg](from-delta-and-iceberg.md),
[pypaimon](from-pypaimon.md).
"""

OWNERS: Mapping[str, Mapping[str, ForeignName]] = {
    "Of a table": OF_TABLE,
    "Of a catalog": OF_CATALOG,
    "Of a scan": OF_SCAN,
    "Of the package": OF_PACKAGE,
}


def names_page() -> str:
    """The whole page."""
    return HEAD + "".join(_part(title, names) for title, names in OWNERS.items())


def _part(title: str, names: Mapping[str, ForeignName]) -> str:
    lines: dict[tuple[str, str], list[str]] = {}
    for found in names.values():
        lines.setdefault((found.origin, found.instead), []).append(f"`{found.name}`")
    rows = [
        f"| {', '.join(group)} | {'' if origin == OTHERS else origin} | {instead} |\n"
        for (origin, instead), group in lines.items()
    ]
    return f"\n## {title}\n\n| Name | Known from | Here |\n|---|---|---|\n" + "".join(rows)
